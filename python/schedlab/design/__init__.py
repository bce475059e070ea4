"""Step 1: blocks, balanced orders and seeds become a plan."""
