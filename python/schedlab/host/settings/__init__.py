"""Settings of every layer, who sets them, and who writes to them."""
