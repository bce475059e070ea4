//! The block-I/O load engine: real reads and writes, counted and timed exactly.
//!
//! The way of a job: [`job`] is the request (its JSON is documented there) → [`run`] starts
//! one thread or [`process`] per worker and opens the gate ([`shared`]) when all are ready → each
//! worker ([`worker`]) enters its [`place`], lets its region be made ready ([`prepare`]) and walks
//! its order ([`schedlab_model::Steps`], [`schedlab_model::Schedule`]) through one engine of
//! [`engine`] → [`tally`] and [`series`] count, [`inflight`] samples the driver → [`result`] is
//! what comes back. [`permit`] guards block devices against writing. [`payload`] makes what is
//! written, [`nop`] measures the engine itself, [`timed`] times single reads.
//!
//! ```no_run
//! use schedlab_load::io;
//!
//! let job = io::Job::from_json(
//!     r#"{"seconds": 2.0, "groups": [{"name": "reader", "path": "/tmp/file", "engine": "io_uring",
//!         "workload": {"pattern": {"kind": "random"}, "direction": {"kind": "read"},
//!                      "record": "4k", "span": "1g",
//!                      "arrivals": {"kind": "closed", "depth": 32}, "seed": 1}}]}"#,
//! )?;
//! let result = io::run(&job, &mut || io::Decision::Continue)?;
//! println!("{} reads", result.groups[0].reads.operations);
//! # Ok::<(), io::IoError>(())
//! ```

mod buffer;
mod check;
mod engine;
pub mod error;
mod inflight;
pub mod job;
pub mod nop;
mod payload;
mod permit;
mod place;
mod prepare;
mod process;
mod report;
pub mod result;
mod run;
mod series;
mod shared;
mod summary;
mod tally;
mod target;
pub mod timed;
mod worker;

pub use error::IoError;
pub use job::{Group, Job};
pub use result::JobResult;
pub use run::{run, run_watched, Decision, ReadyGroup};
