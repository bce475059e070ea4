//! What load on the kernel and load in the simulator have in common: units, workloads, requests,
//! histograms, seeded randomness and the tails of distributions. Imports no other crate of ours.
//!
//! ```
//! use schedlab_model::{Bytes, Histogram, Rng};
//!
//! let size: Bytes = "4k".parse().unwrap();
//! assert_eq!(size, Bytes(4096));
//!
//! let mut rng = Rng::new(7, 0);
//! let mut latencies = Histogram::new();
//! for _ in 0..1000 {
//!     latencies.record(rng.exponential(100_000.0) as u64);
//! }
//! assert_eq!(latencies.count(), 1000);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod distributions;
pub mod error;
mod histogram;
mod presets;
pub mod process;
mod rng;
mod schedule;
mod script;
mod steps;
mod stop;
pub mod tunables;
mod units;
mod workload;

pub use histogram::{
    coarse_range, histogram_bin, histogram_bin_range, Bin, Coarse, Histogram, HISTOGRAM_BINS,
};
pub use rng::Rng;
pub use schedule::Schedule;
pub use script::{Action, After, Course, Script, ScriptStep, Timing};
pub use steps::{Step, Steps};
pub use stop::Stop;
pub use units::{Bytes, Nanos, Real, UnitError};
pub use workload::{Arrivals, Direction, Pattern, Request, Workload};
