"""CPU workers on the running kernel: launched, given a quantum, captured, and their refusals
explained. Used by `run/cpu/cpu.py` and by the commands under `cli/cpu/`.
"""
