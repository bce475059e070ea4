"""Comparisons of schedulers, CPU policies, modes, own work; and of two results."""
