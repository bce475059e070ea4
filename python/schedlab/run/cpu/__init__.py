"""Cells of CPU experiments: policies, calculations, quanta, sched_ext schedulers."""
