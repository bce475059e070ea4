//! What a job asks for, and its JSON.
//!
//! ```json
//! {"seconds": 2.0,            // measured window; null or absent: one pass over the order
//!  "ramp_seconds": 0.5,       // load before the window that is not counted (default 0)
//!  "process": false,          // every worker is a process instead of a thread
//!  "device": null,            // "loop0" or "/dev/loop0": sample its requests in flight
//!  "groups": [{               // all groups run at once
//!    "name": "reader",
//!    "path": "/dev/loop0",    // "{worker}" in it becomes the worker's number: a file for each
//!    "fd": null,              // an open descriptor of the caller instead of a path: every worker
//!                             // opens /proc/self/fd/N again, in the mode that its group needs
//!    "workers": 1,
//!    "engine": "io_uring",    // or "psync", "mmap"
//!    "workload": {            // schedlab_model::Workload; every worker runs this workload
//!      "pattern": {"kind": "random", "replacement": false}, // sequential, reverse, stride, same
//!      "direction": {"kind": "read"},         // write; {"kind": "mixed", "read_percent": 70}
//!      "record": 4096, "span": 1073741824,    // bytes, or "4k", "1g"
//!      "arrivals": {"kind": "closed", "depth": 32}, // {"kind": "poisson"|"constant",
//!      "seed": 1},                                  //  "rate_per_s": 5000} (per worker)
//!    // everything below is optional; shown with the defaults
//!    "offset": 0,             // where the span begins in the file
//!    "layout": "shared",      // workers of one file: all over the whole span, or "divided"
//!    "file": "existing",      // or "fresh": created, or emptied, before the clock starts
//!    "direct": false,         // O_DIRECT
//!    "sync": "none",          // "dsync" (O_DSYNC), "sync" (O_SYNC); mmap: msync per record
//!    "fsync_at_end": false,   // fsync (mmap: msync) after the last record, inside elapsed time
//!    "close_counted": false,  // closing the file is inside elapsed time, too
//!    "allow_fallback": false, // io_uring refused by the kernel: use psync, and report it
//!    "batch": 1,              // io_uring: completions waited for, and so requests per submission
//!    "max_in_flight": 128,    // io_uring, open loop: requests in flight at most
//!    "registered": true,      // io_uring: registered buffers and file
//!    "clock": "batch",        // one time-stamp per reaped batch, or "completion": one for each
//!    "start_after_ms": 0,     // begins so long after the others; the ramp is not for this group
//!    "requests": null,        // each worker ends after so many requests (order without end), and
//!                             // every one's response time is in the result
//!    "ends_job": false,       // the job is over when this group is
//!    "at_end": "wrap",        // after the last record: start again; "stop"; "drop": drop the
//!                             // page cache of the region, then start again
//!    "cold": false,           // drop the page cache of the region before the clock starts
//!    "prime": "none",         // before the clock starts, "read" or "write" the region once
//!    "discard": false,        // before that: BLKDISCARD, or punch a hole into the file
//!    "cgroup": null,          // directory of a cgroup that each worker enters first (process)
//!    "ioprio": null,          // {"class": "rt" | "be" | "idle", "level": 0 … 7}
//!    "replay": null,          // {"stream": 0, "timing": "dependent" | "open" | "closed"}: the
//!                             // requests of a recorded stream ([`Job::attach`]) in place of the
//!                             // workload's (one worker, io_uring, direct), until the end;
//!                             // "record" is the longest, "depth" the most in flight
//!    "log": null              // a database client (psync, reads only): each transaction is
//!  }]}                        // {"reads": 1} reads of the workload, then an append of "record"
//!                             // bytes (4096) to "path" and fdatasync; on a device ("path" or
//!                             // "fd") the log goes round in "offset" (0) … + "span"
//! ```
//!
//! Depth, rate and seed hold per worker: N workers at depth 32 keep 32 N requests in flight.
//! Worker 0 uses the seed as given, the others one derived from it. With several passes in one
//! timed window the same permutation comes again. A random order without replacement takes
//! 4 bytes of memory per record and worker. The result is documented in
//! [`super::result`].

use std::path::PathBuf;

use std::sync::Arc;

use schedlab_model::{Arrivals, Bytes, Pattern, Rng, Script, Timing, Workload};
use serde::Deserialize;

use super::error::IoError;

/// Several groups of workers that run at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Length of the measured window; nothing: one pass over the order.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Load before the window that is not counted.
    #[serde(default)]
    pub ramp_seconds: f64,
    /// Every worker is a separate process.
    #[serde(default)]
    pub process: bool,
    /// The block device whose requests in flight are sampled.
    #[serde(default)]
    pub device: Option<String>,
    /// What runs, each with its own workers.
    pub groups: Vec<Group>,
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// `pread` and `pwrite`, one at a time.
    Psync,
    /// io_uring with a queue.
    IoUring,
    /// Memory mapping, one record at a time.
    Mmap,
}

impl EngineKind {
    /// The name in jobs and results.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Psync => "psync",
            EngineKind::IoUring => "io_uring",
            EngineKind::Mmap => "mmap",
        }
    }
}

/// What every single write waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Nothing.
    #[default]
    None,
    /// `O_DSYNC`: the data is on the device.
    Dsync,
    /// `O_SYNC`: data and all metadata are on the device.
    Sync,
}

/// Which part of one file each worker uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// All workers use the whole span.
    #[default]
    Shared,
    /// Worker k uses the k-th of N equal parts.
    Divided,
}

/// Whether the file is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// It is.
    #[default]
    Existing,
    /// It is created, or emptied, before the clock starts.
    Fresh,
}

/// What follows the last record of the order in a timed job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// The first one; what the page cache holds by then is read from there.
    #[default]
    Wrap,
    /// Nothing: the worker is done.
    Stop,
    /// The first one, from the device again.
    Drop,
}

/// What is done with the region before the clock starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prime {
    /// Nothing.
    #[default]
    None,
    /// It is read once, so that a read is a re-read.
    Read,
    /// It is written once, so that a write is a rewrite.
    Write,
}

/// Classes of I/O priority (ioprio_set(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum IoClass {
    Rt = 1,
    Be = 2,
    Idle = 3,
}

/// An I/O priority; level 0 is the highest of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Ioprio {
    pub class: IoClass,
    #[serde(default)]
    pub level: u8,
}

/// The log of a database client.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Log {
    #[serde(default)]
    pub path: PathBuf,
    #[serde(default)]
    pub fd: Option<i32>,
    #[serde(default = "four_kib")]
    pub record: Bytes,
    #[serde(default = "one")]
    pub reads: u32,
    #[serde(default)]
    pub offset: Bytes,
    #[serde(default)]
    pub span: Option<Bytes>,
}

/// A recorded stream in place of the requests of a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Replay {
    pub stream: usize,
    pub timing: Timing,
    #[serde(skip)]
    pub script: Arc<Script>,
}

/// When completions are time-stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Once per reaped batch.
    #[default]
    Batch,
    /// Each one when it is checked.
    Completion,
}

/// N equal workers on one file or device (or on one file each).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // every key is documented once, in the JSON above
pub struct Group {
    pub name: String,
    #[serde(default)]
    pub path: PathBuf,
    #[serde(default)]
    pub fd: Option<i32>,
    #[serde(default = "one")]
    pub workers: u32,
    pub engine: EngineKind,
    pub workload: Workload,
    #[serde(default)]
    pub offset: Bytes,
    #[serde(default)]
    pub layout: Layout,
    #[serde(default)]
    pub file: FileState,
    #[serde(default)]
    pub direct: bool,
    #[serde(default)]
    pub sync: Sync,
    #[serde(default)]
    pub fsync_at_end: bool,
    #[serde(default)]
    pub close_counted: bool,
    #[serde(default)]
    pub allow_fallback: bool,
    #[serde(default = "one")]
    pub batch: u32,
    #[serde(default = "default_in_flight")]
    pub max_in_flight: u32,
    #[serde(default = "yes")]
    pub registered: bool,
    #[serde(default)]
    pub clock: Clock,
    #[serde(default)]
    pub start_after_ms: u64,
    #[serde(default)]
    pub requests: Option<u64>,
    #[serde(default)]
    pub ends_job: bool,
    #[serde(default)]
    pub at_end: AtEnd,
    #[serde(default)]
    pub cold: bool,
    #[serde(default)]
    pub prime: Prime,
    #[serde(default)]
    pub discard: bool,
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    #[serde(default)]
    pub ioprio: Option<Ioprio>,
    #[serde(default)]
    pub log: Option<Log>,
    #[serde(default)]
    pub replay: Option<Replay>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn default_in_flight() -> u32 {
    128
}

fn four_kib() -> Bytes {
    Bytes(4096)
}

/// What an open descriptor can be opened by.
pub(crate) fn descriptor_path(fd: i32) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}

impl Job {
    /// Reads and checks a job.
    pub fn from_json(text: &str) -> Result<Job, IoError> {
        let mut job: Job =
            serde_json::from_str(text).map_err(|error| IoError::Malformed(error.to_string()))?;
        job.groups.iter_mut().for_each(Group::name_descriptors);
        job.check()?;
        Ok(job)
    }

    /// Gives the groups that replay a stream its script.
    pub fn attach(&mut self, streams: &[Arc<Script>]) -> Result<(), IoError> {
        for group in &mut self.groups {
            let Some(replay) = &mut group.replay else {
                continue;
            };
            let script = match streams.get(replay.stream) {
                Some(script) if !script.steps.is_empty() => script,
                _ => return Err(group.refuse("replay", "there is no such stream".into())),
            };
            // The buffers are as long as a record.
            let longest = script.steps.iter().map(|step| u64::from(step.bytes)).max();
            if longest > Some(group.workload.record.0) {
                let reason = "the stream has a longer request".into();
                return Err(group.refuse("record", reason));
            }
            replay.script = Arc::clone(script);
        }
        Ok(())
    }
}

impl Group {
    /// Names what was given by descriptor only.
    fn name_descriptors(&mut self) {
        if let (Some(fd), true) = (self.fd, self.path.as_os_str().is_empty()) {
            self.path = descriptor_path(fd);
        }
        if let Some(log) = &mut self.log {
            if let (Some(fd), true) = (log.fd, log.path.as_os_str().is_empty()) {
                log.path = descriptor_path(fd);
            }
        }
    }

    pub(crate) fn refuse(&self, key: &'static str, reason: String) -> IoError {
        IoError::Setting {
            group: self.name.clone(),
            key,
            reason,
        }
    }

    /// Requests in flight at most, per worker.
    pub(crate) fn slots(&self) -> u32 {
        match (self.engine, self.workload.arrivals) {
            (EngineKind::IoUring, Arrivals::Closed { depth }) => depth,
            (EngineKind::IoUring, _) => self.max_in_flight,
            _ => 1,
        }
    }

    /// Buffers of one record each, per worker; those of a replay are shared by all its requests.
    pub(crate) fn buffers(&self) -> u32 {
        self.replay.as_ref().map_or(self.slots(), |_| 3)
    }

    /// Bytes that buffers, orders and marks of all workers take.
    pub(crate) fn memory(&self) -> u64 {
        let buffers = self
            .workload
            .record
            .0
            .saturating_mul(u64::from(self.buffers()));
        let shuffled = matches!(
            self.workload.pattern,
            Pattern::Random { replacement: false }
        );
        let per_record = 4 * u64::from(shuffled);
        let orders = self.records_per_worker().saturating_mul(per_record);
        buffers
            .saturating_add(orders)
            .saturating_mul(u64::from(self.workers))
    }

    /// Puts psync in the place of io_uring.
    pub(crate) fn fall_back(&mut self) {
        self.engine = EngineKind::Psync;
        self.batch = 1;
        if let Arrivals::Closed { depth } = &mut self.workload.arrivals {
            *depth = 1;
        }
    }

    pub(crate) fn has_own_files(&self) -> bool {
        self.path.to_string_lossy().contains("{worker}")
    }

    /// Records that one worker uses.
    pub(crate) fn records_per_worker(&self) -> u64 {
        match self.layout {
            Layout::Divided if !self.has_own_files() => {
                self.workload.records() / u64::from(self.workers)
            }
            _ => self.workload.records(),
        }
    }

    /// Bytes that one worker uses.
    pub(crate) fn bytes_per_worker(&self) -> u64 {
        self.records_per_worker() * self.workload.record.0
    }

    /// How many steps a worker draws at first; nothing: as many as its time allows.
    pub(crate) fn steps(&self, timed: bool) -> Option<u64> {
        let once = !timed || self.at_end != AtEnd::Wrap;
        let per_request = self
            .log
            .as_ref()
            .map_or(1, |log| u64::from(log.reads.max(1)));
        let requested_steps = self.requests.map(|requests| requests * per_request);
        requested_steps.or(once.then(|| self.records_per_worker()))
    }

    /// What a worker opens.
    pub(crate) fn open_path_of(&self, worker: u32) -> PathBuf {
        self.fd
            .map_or_else(|| self.path_of(worker), descriptor_path)
    }

    /// The file of a worker.
    pub(crate) fn path_of(&self, worker: u32) -> PathBuf {
        if self.has_own_files() {
            self.path
                .to_string_lossy()
                .replace("{worker}", &worker.to_string())
                .into()
        } else {
            self.path.clone()
        }
    }

    /// First byte of a worker's part.
    pub(crate) fn offset_of(&self, worker: u32) -> u64 {
        let part = self.records_per_worker() * self.workload.record.0;
        match self.layout {
            Layout::Divided if !self.has_own_files() => self.offset.0 + u64::from(worker) * part,
            _ => self.offset.0,
        }
    }

    /// The workload of a worker: its part of the span, its own seed.
    pub(crate) fn workload_of(&self, worker: u32) -> Workload {
        let seed = match worker {
            0 => self.workload.seed,
            _ => Rng::new(self.workload.seed, 1000 + u64::from(worker)).next_u64(),
        };
        Workload {
            seed,
            span: Bytes(self.records_per_worker() * self.workload.record.0),
            ..self.workload
        }
    }
}
