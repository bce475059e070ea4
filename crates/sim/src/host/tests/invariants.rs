//! What holds for every scheduler, with random processes, devices and tunables.
