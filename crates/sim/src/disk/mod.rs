//! A disk with heads: zones, seek curve, rotation, skew, segmented cache with read-ahead, and a
//! command queue whose order a policy decides.
//!
//! The parts follow Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994). One
//! command is in service at a time; it costs the controller's overhead, then positioning (seek or
//! head switch, settling of writes, rotation), then the transfer. Writes go to the medium, or into
//! a write cache that the arm empties when it is idle.
//!
//! ```
//! use schedlab_model::{Arrivals, Bytes, Direction, Pattern, Workload};
//! use schedlab_sim::disk::{simulate, DiskSpec, Generated};
//! use schedlab_sim::Stop;
//!
//! let spec = DiskSpec::shipped("disk7200").unwrap();
//! let workload = Workload {
//!     pattern: Pattern::Random { replacement: true },
//!     direction: Direction::Read,
//!     record: Bytes(4096),
//!     span: spec.capacity(),
//!     arrivals: Arrivals::Closed { depth: 32 },
//!     seed: 1,
//! };
//! let mut source = Generated::new(workload, 1000).unwrap();
//! let (result, _) = simulate(&spec, "sptf", &mut source, false, &Stop::default()).unwrap();
//! assert_eq!(result.requests, 1000);
//! ```

mod cache;
mod check;
mod engine;
mod geometry;
mod mechanics;
mod model;
mod policy;
mod result;
mod seek;
mod source;
mod spec;
mod write_cache;

pub use engine::{simulate, LoggedResult, SteppedDisk};
pub use geometry::{Geometry, Place};
pub use mechanics::{Mechanics, Positioning, Stretch};
pub use model::{Disk, Served};
pub use policy::POLICIES;
pub use result::{DiskLogged, DiskResult, Kind, Kinds, WriteCacheUse};
pub use source::{DiskWorkload, Generated, WORKLOADS};
pub use spec::{
    BusSpec, CacheSpec, Destage, DiskSpec, Overheads, ReadOn, Readable, SeekCurve, SeekSpec,
    Serpentine, SignedNanos, Spare, SparePer, Times, WriteCacheSpec, ZeroLatency, Zone,
};
