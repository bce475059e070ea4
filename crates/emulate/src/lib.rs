//! Emulated devices: a model of a disk or SSD, advanced in real time, answers the requests of a
//! FUSE file. A loop device on that file is a block device on which the kernel's own schedulers,
//! file systems and programs run.
//!
//! ```text
//! loop device → FUSE file → readers (file.rs: stamp, copy data) → worker (serve.rs: model, reply)
//! ```
//! Only `file.rs` knows FUSE, only `clock.rs` reads a clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod account;
mod clock;
mod control;
mod data;
mod error;
mod file;
mod inbox;
mod predict;
mod serve;

pub use account::{Account, Report};
pub use clock::Scale;
pub use control::{serve_device, ServerConfig};
pub use error::EmulateError;
pub use predict::{predict, Prediction};
pub use schedlab_sim::model::{DeviceConfig, Facts, Model};
pub use serve::{Arrival, Reply, Worker};
