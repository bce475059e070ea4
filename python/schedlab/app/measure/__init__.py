"""Measure: an experiment from its first run to its last, a lab, or one load."""
