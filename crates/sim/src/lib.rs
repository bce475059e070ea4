//! Discrete-event simulators: pure, seeded, without a clock and without an operating system.
//!
//! A run takes a device, a policy of its command queue and a stream of requests, and gives the
//! distributions of response and queueing time. The same inputs give the same bits everywhere.
//!
//! ```
//! use schedlab_sim::{Config, Stop};
//!
//! let config: Config = serde_json::from_str(
//!     r#"{"device": "ncq2014", "policy": {"name": "tsb"}, "requests": 500,
//!         "workload": {"name": "A"}, "seed": 1}"#,
//! )
//! .unwrap();
//! let report = config.run(None, &Stop::default()).unwrap();
//! assert_eq!(report.requests, 500);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
pub mod cpu;
pub mod device;
pub mod disk;
mod divisor;
pub mod engine;
mod error;
pub mod ftl;
pub mod host;
pub mod model;
pub mod policy;
mod stepped;
pub mod workload;

pub use config::{Config, Service};
pub use engine::Report;
pub use error::SimError;
pub use schedlab_model::Stop;
pub use stepped::{Completion, Kind, Stepped, Submission};
