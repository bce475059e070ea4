"""A model of a device from timed reads of it: probes, what follows from them, and the file."""
