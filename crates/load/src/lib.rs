//! Real load on the running kernel. `io` drives block I/O; `cpu` runs worker processes and work
//! that is sensitive to scheduling; `launch` starts a user's program.
#![warn(missing_docs)]

pub mod cpu;
pub mod io;
pub mod launch;
