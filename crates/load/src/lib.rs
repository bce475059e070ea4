//! Real load on the running kernel. `io` drives block I/O; `cpu` runs worker processes and work
//! that is sensitive to scheduling; `launch` starts a user's program,
//! and `confine` is what holds it.
#![warn(missing_docs)]

mod child;
mod clock;
pub mod confine;
pub mod cpu;
pub mod io;
pub mod keeper;
mod landlock;
pub mod launch;
mod places;
mod starting;
