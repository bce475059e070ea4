"""Periods of a live load: its figures, its guard rails, its pilot."""
