//! What the kernel does, from its events: CPU bursts of processes (below), and where the requests
//! of a block device spend their time ([`BlockCapture`]), how long tasks wait for a CPU
//! ([`RunQueueCapture`]), how long until data is durable ([`SyncCapture`]).
//!
//! CPU bursts of chosen processes, from the running kernel: how long each stayed on a CPU each
//! time, and whether it left voluntarily.
//!
//! [`Capture::start`] takes the best source that this kernel and user allow and reports why it took
//! no better one:
//!
//! 1. **BPF** at `sched_switch`: totals per task that cannot be lost, plus a record per burst;
//! 2. **perf**: context-switch records of one's own processes, no privilege needed;
//! 3. **schedstat**: what `/proc/PID` adds up, no single burst.
//!
//! A record that did not fit is counted in [`Bursts::lost`], never hidden.
#![warn(missing_docs)]

mod accounting;
mod block_result;
mod blocks;
#[cfg(all(feature = "bpf", bpf_program))]
#[path = "bpf/mod.rs"]
mod bpf;
#[cfg(not(all(feature = "bpf", bpf_program)))]
#[path = "bpf/absent.rs"]
mod bpf;
mod collector;
mod perf;
mod reader;
mod records;
mod runqueue;
mod scheduler;
mod syncs;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use accounting::Accounting;
pub use blocks::{BlockCapture, BlockError, BlockOptions, BlockResult};
pub use collector::{Burst, Scheduling, TaskBursts};
pub use records::{RecordCapture, RecordOptions, RecordResult, RECORD_BYTES};
pub use runqueue::{ClassWaits, RunQueueCapture, RunQueueResult, Waits};
pub use scheduler::CpuScheduler;
pub use syncs::{
    Follow, SyncAccounting, SyncCalls, SyncCapture, SyncOptions, SyncResult, SyncWriter,
};

/// Where bursts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A BPF program at the scheduler's switch.
    Bpf,
    /// Context-switch records of `perf_event_open`.
    Perf,
    /// Totals of `/proc/PID/schedstat` only.
    Schedstat,
}

/// What a capture shall keep, and how.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// This source or an error; nothing: the best one that works.
    pub method: Option<Method>,
    /// Size of the kernel's ring in bytes, rounded up to a power of two of whole pages.
    pub ring_bytes: usize,
    /// Time between two readings of the ring.
    pub drain_ms: u64,
    /// The most bursts kept one by one; later ones are counted as lost.
    pub records_max: usize,
    /// The most tasks followed, forked ones included.
    pub tasks_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            method: None,
            ring_bytes: 8 << 20,
            drain_ms: 10,
            records_max: 4_000_000,
            tasks_max: 16_384,
        }
    }
}

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is not there or not allowed.
    #[error("{method:?} cannot be used: {reason}")]
    Unavailable {
        /// The source.
        method: Method,
        /// The step that failed and the operating system's words.
        reason: String,
    },
}

impl TraceError {
    pub(crate) fn new(method: Method, reason: impl Into<String>) -> Self {
        TraceError::Unavailable {
            method,
            reason: reason.into(),
        }
    }
}

/// What was captured.
#[derive(Clone, Debug, Serialize)]
pub struct Bursts {
    /// The source.
    pub method: Method,
    /// Why no better source was taken.
    pub passed_over: Vec<String>,
    /// Per task, by task id.
    pub tasks: Vec<TaskBursts>,
    /// Every burst in order of its end, as far as kept.
    #[serde(skip)]
    pub records: Vec<Burst>,
    /// Records that did not fit into the ring or into memory.
    pub lost: u64,
    /// Forked tasks that could not be followed.
    pub lost_tasks: u64,
}

enum Source {
    Bpf(bpf::BpfCapture),
    Perf(perf::PerfCapture),
    Schedstat,
}

/// A capture in progress. Dropping it stops it.
pub struct Capture {
    source: Source,
    passed_over: Vec<String>,
}

impl Capture {
    /// Captures the bursts of `pids`, which should not be running yet, and of what they fork.
    pub fn start(pids: &[i32], options: &Options) -> Result<Self, TraceError> {
        let mut passed_over = Vec::new();
        for method in [Method::Bpf, Method::Perf, Method::Schedstat] {
            if options.method.is_some_and(|only| only != method) {
                continue;
            }
            let source = match method {
                Method::Bpf => bpf::BpfCapture::start(pids, options)
                    .map(Source::Bpf)
                    .map_err(|reason| TraceError::new(method, reason)),
                Method::Perf => perf::PerfCapture::start(pids, options).map(Source::Perf),
                Method::Schedstat => Ok(Source::Schedstat),
            };
            match source {
                Ok(source) => {
                    return Ok(Capture {
                        source,
                        passed_over,
                    })
                }
                Err(error) if options.method.is_some() => return Err(error),
                Err(error) => passed_over.push(error.to_string()),
            }
        }
        Err(TraceError::new(Method::Schedstat, "no source works"))
    }

    /// The source that was taken.
    pub fn method(&self) -> Method {
        match self.source {
            Source::Bpf(_) => Method::Bpf,
            Source::Perf(_) => Method::Perf,
            Source::Schedstat => Method::Schedstat,
        }
    }

    /// Ends the capture: call it once the processes are gone or off the CPU.
    pub fn finish(self) -> Result<Bursts, TraceError> {
        let method = self.method();
        let passed_over = self.passed_over;
        let (mut collected, lost_tasks) = match self.source {
            Source::Bpf(capture) => {
                let finished = capture.finish();
                finished.map_err(|reason| TraceError::new(method, reason))?
            }
            Source::Perf(capture) => (capture.finish()?, 0),
            Source::Schedstat => (collector::Collected::default(), 0),
        };
        collected.records.sort_by_key(|r| (r.end_ns, r.task));
        Ok(Bursts {
            method,
            passed_over,
            tasks: collected.tasks,
            records: collected.records,
            lost: collected.lost,
            lost_tasks,
        })
    }
}

/// The interval of the reader's timer.
pub(crate) fn drain_interval(options: &Options) -> Duration {
    Duration::from_millis(options.drain_ms.max(1))
}

/// Monotonic time, as BPF programs see it.
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_better_source_that_is_passed_over_says_why() {
        let capture = Capture::start(&[std::process::id() as i32], &Options::default()).unwrap();
        let better = match capture.method() {
            Method::Bpf => 0,
            Method::Perf => 1,
            Method::Schedstat => 2,
        };
        assert_eq!(capture.passed_over.len(), better);
    }
}
