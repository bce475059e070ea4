//! What a job found, and its JSON.
//!
//! ```json
//! {"interrupted": false,        // ended early by a signal or by the caller
//!  "abandoned_workers": 0,      // workers still inside the kernel when the job returned
//!  "elapsed_ns": 2000000000,    // the longest group
//!  "process_cpu_user_ns": 0, "process_cpu_system_ns": 0, // whole process, kernel workers and
//!                               // worker processes included
//!  "inflight": null,            // with "device": requests in the driver in the window, sampled
//!                               // about every 10 ms: {"device": "loop0", "samples": 199,
//!                               // "mean": 31.2, "max": 64, "reads_mean": 1.0,
//!                               // "writes_mean": 30.2, "series": [[t_ms, mean], …]}, or
//!                               // {"device": …, "error": "why there is none"}
//!  "groups": [{
//!    "name": "reader", "engine": "io_uring", "fallback": null, // or why another engine was used
//!    "arrivals": "closed",      // or "poisson", "constant": latency from the intended start;
//!                               // of a replay its timing ("open": from the intended start)
//!    "elapsed_ns": 2000000000,  // the slowest worker
//!    "cpu_user_ns": 0, "cpu_system_ns": 0,                  // the workers' own threads
//!    "reads": {"operations": 0, "bytes": 0, "errors": 0, "short": 0,
//!              "latency": {"count": 0, "mean": 0.0, "deviation": 0.0, "min": 0, "max": 0,
//!                          "bins": [[low, high, count], …]}},    // nanoseconds
//!    "writes": { … as reads … },
//!    "start_lag": null,         // open loop, replay: issue minus intended start, as a latency
//!                               // object
//!    "unissued": 0,             // open loop: arrivals due in the window that were never issued
//!    "unanswered": 0,           // those, and the requests in flight when the window ended
//!    "oldest_pending_ns": 0,    // age of the oldest of them at that time
//!    "series": {                // what completed in bins of 100 ms, counted from the start of the
//!      "bin_ms": 100,           // job, ramp included; the last bin ends with the window
//!      "window_ms": [500.0, 2500.0],  // the measured window on the same time axis
//!      "reads": [[t_ms, completions, bytes, latency_sum_ns], …],  // only a direction
//!                                      // that the group has; 0 where nothing completed
//!      "writes": [],
//!      "latencies": [[t_ms, low_ns, high_ns, count], …]}, // of both, occupied bins of time
//!    "responses": [],           // with "requests": [start_ns, response_ns] of each request, by
//!                               // worker; start_ns counts from the worker's own beginning
//!    "transactions": null,      // with "log": {"count": 0, "per_s": 0.0, "latency": {…}}; reads
//!                               // are the random reads, writes the commits (append + fdatasync)
//!    "prepared": {"discarded": null, // with "discard": whether the device or file took it
//!                 "refused": null,   // why not
//!                 "primed_bytes": 0},
//!    "device_bytes_read": 0, "device_bytes_written": 0, // all ever moved: ramp and drain included
//!    "error_counts": {"EIO": 3}, // by cause, ramp and drain included
//!    "first_error": {"operation": "read", "path": "…", "offset": 0, "error": "EIO"},   // or null
//!    "load_generator_bottleneck": false, // null without workers
//!    "ring": {"flags": "single_issuer+defer_taskrun+no_sqarray", "registered_buffers": true,
//!             "registered_file": true, "registered_ring": true, "enters": 0},  // or null
//!    "workers": [{"worker": 0, "path": "…", "elapsed_ns": 0, "operations": 0, "bytes": 0,
//!                 "errors": 0, "short": 0, "fsync_ns": 0, "cpu_user_ns": 0, "cpu_system_ns": 0,
//!                 "cpu_share": 0.97, "runnable_share": 0.99, "stopped_by": "time",
//!                 // or "pass", "interrupt", "errors", "no_space"
//!                 "id": 4711}]  // of the process, or of the thread
//! }]}
//! ```
//!
//! **Window.** `operations` and `bytes` are requests that completed inside the measured window;
//! `elapsed_ns` is that window. With one request in flight (psync, mmap) the window is from the
//! first completion after the ramp to the last one; with a queue it begins and ends on time, also
//! in a stall. Requests still in flight at its end are awaited outside it and only enter `latency`
//! (they began inside, and leaving out the slow ones would flatter).
//! In one pass everything counts. `latency` is from just before the request was handed to the
//! kernel (closed loop) or from its intended start (open loop) to its completion being seen.
//! Arrivals that were due but never issued enter `latency` with their age at the end, a lower
//! bound, because otherwise a stall at the end would vanish.

use std::collections::BTreeMap;

use schedlab_model::Histogram;
use serde::{Deserialize, Serialize};

/// The outcome of a job.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)] // every key is documented once, in the JSON above
pub struct JobResult {
    pub interrupted: bool,
    pub abandoned_workers: u32,
    pub elapsed_ns: u64,
    pub process_cpu_user_ns: u64,
    pub process_cpu_system_ns: u64,
    pub inflight: Option<Inflight>,
    pub groups: Vec<GroupResult>,
}

/// Requests in the driver of a device.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Inflight {
    pub device: String,
    pub error: Option<String>,
    pub samples: u64,
    pub mean: f64,
    pub max: u64,
    pub reads_mean: f64,
    pub writes_mean: f64,
    pub series: Vec<(u64, f64)>,
}

/// Completions over time.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct SeriesResult {
    pub bin_ms: u64,
    pub window_ms: (f64, f64),
    pub reads: Vec<(u64, u64, u64, u64)>,
    pub writes: Vec<(u64, u64, u64, u64)>,
    pub latencies: Vec<(u64, u64, u64, u64)>,
}

/// What the clients of a database got done.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Transactions {
    pub count: u64,
    pub per_s: f64,
    pub latency: Latency,
}

/// What was done before the clock started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Prepared {
    pub discarded: Option<bool>,
    pub refused: Option<String>,
    pub primed_bytes: u64,
}

/// The outcome of one group.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct GroupResult {
    pub name: String,
    pub engine: &'static str,
    pub fallback: Option<String>,
    pub arrivals: &'static str,
    pub elapsed_ns: u64,
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub reads: SideResult,
    pub writes: SideResult,
    pub start_lag: Option<Latency>,
    pub unissued: u64,
    pub unanswered: u64,
    pub oldest_pending_ns: u64,
    pub series: SeriesResult,
    pub responses: Vec<(u64, u64)>,
    pub transactions: Option<Transactions>,
    pub prepared: Prepared,
    pub device_bytes_read: u64,
    pub device_bytes_written: u64,
    pub error_counts: BTreeMap<String, u64>,
    pub first_error: Option<FirstError>,
    pub load_generator_bottleneck: Option<bool>,
    pub ring: Option<RingFacts>,
    pub workers: Vec<WorkerResult>,
}

/// Reads or writes of a group.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct SideResult {
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short: u64,
    pub latency: Latency,
}

/// A histogram of times in nanoseconds; `bins` are rows (low, high, count).
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub deviation: f64,
    pub min: u64,
    pub max: u64,
    pub bins: Vec<(u64, u64, u64)>,
}

/// The first request that failed.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct FirstError {
    pub operation: String,
    pub path: String,
    pub offset: u64,
    pub error: String,
}

/// How the ring of the first worker was set up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RingFacts {
    pub flags: String,
    pub registered_buffers: bool,
    pub registered_file: bool,
    pub registered_ring: bool,
    pub enters: u64,
}

/// The outcome of one worker.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct WorkerResult {
    pub worker: u32,
    pub path: String,
    pub elapsed_ns: u64,
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short: u64,
    pub fsync_ns: u64,
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub cpu_share: f64,
    pub runnable_share: Option<f64>,
    pub stopped_by: &'static str,
    pub id: u32,
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Self {
        Latency {
            count: histogram.count(),
            mean: histogram.mean().unwrap_or(0.0),
            deviation: histogram.deviation().unwrap_or(0.0),
            min: histogram.min().unwrap_or(0),
            max: histogram.max().unwrap_or(0),
            bins: histogram
                .bins()
                .map(|bin| (bin.low, bin.high, bin.count))
                .collect(),
        }
    }
}
