"""Searching the settings of schedulers: what may be set, what to try next, when to stop trying."""
