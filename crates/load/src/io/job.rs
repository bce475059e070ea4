//! What a job asks for, and its JSON.
//!
//! ```json
//! {"seconds": 2.0,            // measured window; null or absent: one pass over the order
//!  "ramp_seconds": 0.5,       // load before the window that is not counted (default 0)
//!  "groups": [{               // all groups run at once
//!    "name": "reader",
//!    "path": "/dev/loop0",    // "{worker}" in it becomes the worker's number: a file for each
//!    "workers": 1,
//!    "engine": "io_uring",    // or "psync", "mmap"
//!    "workload": {            // schedlab_model::Workload; every worker carries out this workload
//!      "pattern": {"kind": "random", "replacement": false}, // sequential, reverse, stride, same
//!      "direction": {"kind": "read"},         // write; {"kind": "mixed", "read_percent": 70}
//!      "record": 4096, "span": 1073741824,    // bytes, or "4k", "1g"
//!      "arrivals": {"kind": "closed", "depth": 32}, // {"kind": "poisson"|"constant",
//!      "seed": 1},                                  //  "rate_per_s": 5000} (per worker)
//!    // everything below may be left out; shown with the defaults
//!    "offset": 0,             // where the span begins in the file
//!    "layout": "shared",      // workers of one file: all over the whole span, or "divided"
//!    "file": "existing",      // or "fresh": created, or emptied, before the clock starts
//!    "direct": false,         // O_DIRECT
//!    "sync": "none",          // "dsync" (O_DSYNC), "sync" (O_SYNC); mmap: msync per record
//!    "fsync_at_end": false,   // fsync (mmap: msync) after the last record, inside elapsed time
//!    "close_counted": false,  // closing the file is inside elapsed time, too
//!    "verify": false,         // write marked records / check every record that is read
//!    "generation": 0,         // generation of all records in the file before the job; 0: unknown
//!    "allow_fallback": false, // io_uring refused by the kernel: use psync, and say so
//!    "batch": 1,              // io_uring: completions waited for, and so requests per submission
//!    "max_in_flight": 128,    // io_uring, open loop: requests in flight at most
//!    "registered": true,      // io_uring: registered buffers and file
//!    "iopoll": false,         // io_uring: completion polling (needs direct)
//!    "sqpoll": false,         // io_uring: a kernel thread submits
//!    "clock": "batch"         // one time-stamp per reaped batch, or "completion": one for each
//!  }]}
//! ```
//!
//! Depth, rate and seed hold per worker: N workers at depth 32 keep 32 N requests in flight.
//! Worker 0 uses the seed as given, the others one derived from it. With several passes in one
//! timed window the same permutation comes again. A random order without replacement takes
//! 4 bytes of memory per record and worker. The result is documented in
//! [`super::result`].

use std::path::PathBuf;

use schedlab_model::{Arrivals, Bytes, Direction, Pattern, Rng, Workload};
use serde::Deserialize;

use super::error::IoError;
use super::verify;

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

/// When completions are time-stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Once per reaped batch.
    #[default]
    Batch,
    /// Each one when it is looked at.
    Completion,
}

/// N equal workers on one file or device (or on one file each).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // every key is documented once, in the JSON above
pub struct Group {
    pub name: String,
    pub path: PathBuf,
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
    pub verify: bool,
    #[serde(default)]
    pub generation: u32,
    #[serde(default)]
    pub allow_fallback: bool,
    #[serde(default = "one")]
    pub batch: u32,
    #[serde(default = "default_in_flight")]
    pub max_in_flight: u32,
    #[serde(default = "yes")]
    pub registered: bool,
    #[serde(default)]
    pub iopoll: bool,
    #[serde(default)]
    pub sqpoll: bool,
    #[serde(default)]
    pub clock: Clock,
}

/// The kernel's limit of a submission ring; one entry stays for the wake-up.
const DEPTH_MAX: u32 = 32_767;
const WORKERS_MAX: u32 = 1024;
/// Requests per second and worker beyond which a schedule is no load but a mistake.
const RATE_MAX: f64 = 1e7;
/// The longest that a single system call of ours moves.
const RECORD_MAX: u64 = 1 << 30;

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn default_in_flight() -> u32 {
    128
}

impl Job {
    /// Reads and checks a job.
    pub fn from_json(text: &str) -> Result<Job, IoError> {
        let job: Job =
            serde_json::from_str(text).map_err(|error| IoError::Malformed(error.to_string()))?;
        job.check()?;
        Ok(job)
    }

    /// Refuses what cannot be carried out, naming group and key.
    pub fn check(&self) -> Result<(), IoError> {
        let seconds = |value: f64| value.is_finite() && (0.0..1e7).contains(&value);
        if self.groups.is_empty() {
            return Err(IoError::Malformed("no groups".into()));
        }
        if !seconds(self.ramp_seconds) || !self.seconds.is_none_or(|s| seconds(s) && s > 0.0) {
            return Err(IoError::Malformed(
                "seconds must be positive, ramp_seconds not negative".into(),
            ));
        }
        if self.seconds.is_none() && self.ramp_seconds > 0.0 {
            return Err(IoError::Malformed(
                "ramp_seconds needs seconds: a single pass has no warm-up".into(),
            ));
        }
        self.groups.iter().try_for_each(Group::check)
    }
}

impl Group {
    fn check(&self) -> Result<(), IoError> {
        self.workload.check().map_err(|source| IoError::Workload {
            group: self.name.clone(),
            source,
        })?;
        if self.workload.record.0 > RECORD_MAX {
            return Err(self.refuse("record", format!("at most {}", Bytes(RECORD_MAX))));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(self.refuse("workers", format!("1 to {WORKERS_MAX}")));
        }
        if self.records_per_worker() == 0 {
            return Err(self.refuse("workers", "more workers than records to divide".into()));
        }
        self.check_engine()?;
        if self.verify {
            self.check_verify()?;
        }
        Ok(())
    }

    fn check_engine(&self) -> Result<(), IoError> {
        let ring = self.engine == EngineKind::IoUring;
        if !(1..=DEPTH_MAX).contains(&self.slots()) {
            return Err(self.refuse("depth", format!("1 to {DEPTH_MAX}")));
        }
        if !ring && matches!(self.workload.arrivals, Arrivals::Closed { depth: 2.. }) {
            let reason = format!(
                "{} has one request in flight; use io_uring, or more workers",
                self.engine.name()
            );
            return Err(self.refuse("depth", reason));
        }
        if self.batch == 0 || (ring && self.batch > self.slots()) {
            return Err(self.refuse("batch", format!("1 to the depth ({})", self.slots())));
        }
        if let Arrivals::Poisson { rate_per_s } | Arrivals::Constant { rate_per_s } =
            self.workload.arrivals
        {
            if rate_per_s > RATE_MAX {
                return Err(self.refuse("rate_per_s", format!("at most {RATE_MAX}")));
            }
        }
        if self.engine == EngineKind::Mmap && self.direct {
            return Err(self.refuse("direct", "a mapping cannot bypass the page cache".into()));
        }
        if (self.iopoll || self.sqpoll) && !ring {
            return Err(self.refuse("engine", "iopoll and sqpoll belong to io_uring".into()));
        }
        if self.iopoll && !self.direct {
            return Err(self.refuse("iopoll", "completion polling needs direct".into()));
        }
        if self.file == FileState::Fresh && self.workload.direction != Direction::Write {
            return Err(self.refuse("file", "a fresh file has nothing to read".into()));
        }
        Ok(())
    }

    fn check_verify(&self) -> Result<(), IoError> {
        let writes = self.workload.direction != Direction::Read;
        if self.workload.record.0 < verify::RECORD_MIN {
            let reason = format!(
                "verified records have at least {} bytes",
                verify::RECORD_MIN
            );
            return Err(self.refuse("verify", reason));
        }
        if writes && self.workers > 1 && self.layout == Layout::Shared && !self.has_own_files() {
            return Err(self.refuse(
                "verify",
                "workers that write the same records tear them; use layout \"divided\" or a \
                 path with {worker}"
                    .into(),
            ));
        }
        if self.records_per_worker() <= u64::from(self.slots()) {
            return Err(self.refuse(
                "verify",
                "needs more records than requests in flight".into(),
            ));
        }
        if writes && self.workload.pattern == Pattern::Same && self.slots() > 1 {
            return Err(self.refuse(
                "verify",
                "pattern \"same\" at a depth above 1 overwrites records in flight".into(),
            ));
        }
        Ok(())
    }

    fn refuse(&self, key: &'static str, reason: String) -> IoError {
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

    /// Bytes that buffers, orders and marks of all workers take.
    pub(crate) fn memory(&self) -> u64 {
        let buffers = self
            .workload
            .record
            .0
            .saturating_mul(u64::from(self.slots()));
        let shuffled = matches!(
            self.workload.pattern,
            Pattern::Random { replacement: false }
        );
        let per_record = 4 * u64::from(shuffled) + 5 * u64::from(self.verify);
        let orders = self.records_per_worker().saturating_mul(per_record);
        buffers
            .saturating_add(orders)
            .saturating_mul(u64::from(self.workers))
    }

    /// Puts psync in the place of io_uring.
    pub(crate) fn fall_back(&mut self) {
        self.engine = EngineKind::Psync;
        (self.batch, self.iopoll, self.sqpoll) = (1, false, false);
        if let Arrivals::Closed { depth } = &mut self.workload.arrivals {
            *depth = 1;
        }
    }

    fn has_own_files(&self) -> bool {
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
