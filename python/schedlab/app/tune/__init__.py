"""Search the settings of schedulers, and show what was found."""
