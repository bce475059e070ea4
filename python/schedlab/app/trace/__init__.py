"""Watch requests and bursts while they happen, and read the traces of others."""
