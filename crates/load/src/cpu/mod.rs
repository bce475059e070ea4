//! Crews of forked tasks that the CPU scheduler treats: calculations that are counted, hogs,
//! periodic tasks, wake-ups, messages, short processes, and two that take turns.
//!
//! The life of a [`Crew`]: [`Crew::launch`] forks the tasks of all groups under their policies and
//! returns when all sleep at the gate. [`Crew::start`] opens it for all at once. [`Crew::wait`]
//! watches; what calculations report meanwhile is taken from shared memory. [`Crew::finish`] stops
//! and reaps them and adds up. Dropping a crew kills and reaps what is left.
//!
//! A task is a forked child that never returns to the caller's code: from the gate to `_exit` it
//! makes system calls and calculates, allocates nothing and takes no lock, which is what makes
//! forking from a threaded interpreter sound. It dies with its parent (`PR_SET_PDEATHSIG`), and
//! ends by itself at the end of the window, so that a crew whose tasks keep the parent from running
//! is over nevertheless.

pub(crate) mod account;
mod attributes;
mod board;
mod crew;
mod job;
mod roles;
mod scheduling;
mod task;

pub use attributes::{attributes_of, effective_slice_ns, Attributes};
pub use crew::Crew;
pub use job::{CrewJob, CrewResult, GroupResult, Role, TaskGroup, TaskResult};
pub use roles::calculation::Counting;
pub use roles::kernel::{calibrate, Calibration, Kernel};
pub use scheduling::{allowed_cpus, pin, Policy};

pub use crate::child::Refusal;
