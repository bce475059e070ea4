"""Cells of block I/O: a device, a file, commands; caches, queues, what a capture explains."""
