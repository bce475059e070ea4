//! Discrete-event simulators: pure, seeded, without a clock and without an operating system.
//!
//! A run takes a device, a policy of its command queue and a stream of requests, and gives the
//! distributions of response and queueing time. The same inputs give the same bits everywhere.
//!
//! ```
//! use schedlab_sim::{Job, Outcome, Stop};
//!
//! let job: Job = serde_json::from_str(
//!     r#"{"device": {"device": "ncq2014"}, "policy": {"name": "tsb"}, "requests": 500,
//!         "workload": {"name": "A"}, "seed": 1}"#,
//! )
//! .unwrap();
//! let outcome = job.run(None, None, &Stop::default()).unwrap();
//! assert!(matches!(outcome, Outcome::Ssd(report, _) if report.requests == 500));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cpu;
pub mod device;
mod devices;
pub mod disk;
mod divisor;
pub mod engine;
mod error;
mod events;
pub mod ftl;
pub mod host;
mod job;
#[cfg(test)]
mod judged;
pub mod model;
pub mod policy;
mod registry;
mod spec;
mod stepped;
mod window;
pub mod workload;

pub use engine::Report;
pub use error::SimError;
pub use job::{Job, Outcome};
pub use registry::Entry;
pub use schedlab_model::Stop;
pub use spec::Service;
pub use stepped::{Completion, Kind, Stepped, Submission};
