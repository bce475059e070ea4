"""Settings of a device in use, switched under its own load."""
