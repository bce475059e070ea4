//! How long programs wait until their data is durable: fsync and its kin, writes through O_SYNC and
//! O_DSYNC, and the commits of journals.
//!
//! ```json
//! {"devices": [[7, 3]],        // file systems (mountinfo), or devices; none: all
//!  "disks": [[7, 3]],          // whole ones: whose writes are counted while a call waits
//!  "follows": [[4711, "children"], [4712, "itself"]]} // count these processes and what they fork
//!                              // alone: of "children" not itself; null: all processes
//! ```
//! A snapshot, and the result:
//! ```json
//! {"calls": [{"process": "etcd", "device": [7, 3],
//!             "call": "fsync",  // "fdatasync", "sync_file_range", "msync" (of followed processes,
//!                               // device [0, 0]), "syncfs", "synced write"
//!             "entered": 20, "returned": 19, "failed": 0, "sum_ns": 0, "max_ns": 0,
//!             "parts_ns": [data, journal, flush], "bins": [[low, high, count], …]}],
//!  "commits": [{ … }],          // of ext4, "process" is empty, "parts_ns" [locking, data,
//!                               // logging]
//!  "writers": [{"process": "cp", "device": [7, 3], // while a call waited
//!               "calls": false,  // whether it is one that calls
//!               "requests": 7, "bytes": 28672}],
//!  "waiting": [["etcd", [7, 3], "fsync", 4000000], …], // calls that have not returned, age in ns
//!  "accounting": {"entered", "returned", "in_flight", "lost"}} // it closes: entered is their sum
//! ```
//! Lost is a call whose end was not seen, or for which no row was left: there are 256.
//! Calls through io_uring are counted when they complete; those through libaio are not seen.

use serde::{Deserialize, Serialize};

use crate::bpf::Syncs;

/// The most devices, and the most disks.
pub(crate) const PLACES_MAX: usize = 16;

/// Whether a process is counted, or only what it forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Follow {
    /// What it forks from now on.
    Children,
    /// It, too.
    Itself,
}

/// What is captured; the JSON above.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SyncOptions {
    pub devices: Vec<(u32, u32)>,
    pub disks: Vec<(u32, u32)>,
    pub follows: Option<Vec<(u32, Follow)>>,
}

/// Calls of one process, device and kind, or commits of one journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct SyncCalls {
    pub process: String,
    pub device: (u32, u32),
    pub call: &'static str,
    pub entered: u64,
    pub returned: u64,
    pub failed: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub parts_ns: [u64; 3],
    pub bins: Vec<(u64, u64, u64)>,
}

/// What a process wrote to a disk while somebody waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct SyncWriter {
    pub process: String,
    pub device: (u32, u32),
    pub calls: bool,
    pub requests: u64,
    pub bytes: u64,
}

/// Whether the calls add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct SyncAccounting {
    pub entered: u64,
    pub returned: u64,
    pub in_flight: u64,
    pub lost: u64,
}

/// Process, device, call, age in ns.
pub type Waiting = (String, (u32, u32), &'static str, u64);

/// What was captured so far; the JSON above.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct SyncResult {
    pub calls: Vec<SyncCalls>,
    pub commits: Vec<SyncCalls>,
    pub writers: Vec<SyncWriter>,
    pub waiting: Vec<Waiting>,
    pub accounting: SyncAccounting,
}

/// A capture in progress. Dropping it stops it.
pub struct SyncCapture(Syncs);

impl SyncCapture {
    /// Begins to capture; the reason where it cannot.
    pub fn start(options: &SyncOptions) -> Result<Self, String> {
        if options.devices.len().max(options.disks.len()) > PLACES_MAX {
            return Err(format!("at most {PLACES_MAX} devices"));
        }
        Syncs::start(options).map(SyncCapture)
    }

    /// Follows one more process.
    pub fn follow(&self, process: u32, how: Follow) -> Result<(), String> {
        self.0.follow(process, how)
    }

    /// What was captured so far.
    pub fn snapshot(&self) -> Result<SyncResult, String> {
        self.0.read(crate::now_ns())
    }

    /// Ends the capture and gives its result.
    pub fn finish(mut self) -> Result<SyncResult, String> {
        let now_ns = crate::now_ns();
        self.0.detach();
        self.0.read(now_ns)
    }
}
