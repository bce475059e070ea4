"""Where cells are carried out: block devices, CPUs, the simulators. One file each.

Every module offers `open_session(experiment, control, report)`: a context manager that gives a
`Session`. `control` is a `host.control.Control`, or None where no setting is changed; `report`
takes a sentence for the user (a fallback, an omission).
"""
