//! Real load on the running kernel. `io` drives block I/O; `cpu` runs worker processes.
#![warn(missing_docs)]

pub mod cpu;
pub mod io;
