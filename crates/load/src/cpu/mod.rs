//! Worker processes that repeat one fixed calculation and count it.
//!
//! The life of a [`WorkerGroup`]: [`WorkerGroup::launch`] forks the workers, held at a first gate
//! (so that their pids can be put into a cgroup). [`WorkerGroup::prepare`] lets them take their
//! own settings and waits until all sleep at the second gate. [`WorkerGroup::start`] opens it for
//! all at once. [`WorkerGroup::poll`] collects what they write into shared memory. Dropping the
//! group kills and reaps the remaining workers.
//!
//! A worker is a forked child that never returns to the caller's code: between `fork` and `_exit`
//! it makes system calls and calculates, allocates nothing and takes no lock, which is what makes
//! forking from a threaded interpreter sound. It dies with its parent (`PR_SET_PDEATHSIG`).

pub(crate) mod account;
mod attributes;
mod cost;
mod crew;
mod kernel;
pub mod mix;
mod scheduling;
mod shared;
mod worker;

pub use attributes::{attributes_of, Attributes};
pub use cost::{measure_costs, CostJob, Costs};
pub use crew::{Epoch, Job, Preemption, Totals, WorkerGroup};
pub use kernel::{calibrate, Calibration, Kernel};
pub use scheduling::{allowed_cpus, effective_slice_ns, pin, Policy, Refusal};
