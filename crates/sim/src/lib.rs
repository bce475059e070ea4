//! Discrete-event simulators: pure, seeded, without a clock and without an operating system.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cpu;
