//! Work that is sensitive to CPU scheduling: groups of tasks, each with its role, its scheduling
//! and its cgroups, started together and watched.
//!
//! Every task is a forked process that never returns to the caller's code, allocates nothing after
//! the start, dies with its parent and ends by itself at the end of the window, so that a mix whose
//! tasks keep the parent from running is over nevertheless.

mod board;
mod fork_storm;
mod job;
mod messaging;
mod run;
mod spin;
mod steady;
mod wakeup;

pub use job::{Group, GroupResult, Job, JobResult, Role};
pub use run::Mix;
pub use spin::spin_ns_per_1000;
