"""What is measured on a block device: one file per kind of workload, one line per kind here.

Every module offers `measure(place: Place, workload: Workload, seed: int) -> Outcome` and
`seconds(workload: Workload) -> float`, an estimate for the plan.
"""
