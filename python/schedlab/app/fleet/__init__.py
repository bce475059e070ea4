"""Many machines, or one under several kernels, as one answer."""
