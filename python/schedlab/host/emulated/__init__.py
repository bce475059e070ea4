"""Emulated devices: a model of a disk or SSD behind a real block device."""
