"""Apply what was decided, keep it, watch it, undo it."""
