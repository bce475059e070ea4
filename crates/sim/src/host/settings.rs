//! Settings of a whole run, for all processes and schedulers.

use schedlab_formats::TraceRecord;
use serde::{Deserialize, Serialize};

use super::{Facts, Settings};
use crate::error::{require, within};
use crate::workload::Real;
use crate::SimError;
use schedlab_model::process::Processes;

/// Settings of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSettings {
    /// Commands that the driver lets into the device.
    pub tags: usize,
    /// Requests that may be allocated; nothing is the kernel's default.
    pub nr_requests: Option<usize>,
    /// The device has a head that moves.
    pub rotational: bool,
    /// Which merges are tried, as in sysfs.
    pub nomerges: u8,
    /// Most KiB of a request.
    pub max_sectors_kb: u32,
    /// Most KiB that are read ahead of a sequential buffered reader.
    pub read_ahead_kb: u32,
    /// Several processes start at random within this time.
    pub start_spread_ns: u64,
    /// To copy 4 KiB between a buffered process and the page cache. 0: no time.
    pub page_copy_ns: u64,
    /// Ticks per second of the kernel.
    pub hz: u64,
    /// From a completion to the process's next request.
    pub turnaround_ns: u64,
    /// Probability that a process is awake before the CPU that completes its requests goes on: it
    /// submits its next record before the others that complete with it are known to it, and under
    /// `none` takes its tag again before one that waits for a tag is awake. 0: one CPU, where the
    /// completing context ends first. It is a race that differs between machines: on a virtual
    /// machine with two CPUs and Linux 6.18 it was 0.90 and 0.91 (`block_getrq` of two loads with
    /// four tags).
    pub woken_early: Real,
    /// Requests of a process that wait for a tag at most: io_uring gives those that would block to
    /// four workers for each CPU (`io_wq_create` of `io_uring/io-wq.c`), and the others wait for
    /// one of these.
    pub io_workers: usize,
    /// Probability that the device refuses a request.
    pub requeue_rate: Real,
    /// Simulated length, measured part and warm-up together.
    pub seconds: Real,
    /// The start, which is not measured.
    pub warm_up_seconds: Real,
    /// Fixes places, mixes, starts and arrivals.
    pub seed: u64,
    /// Keep every request.
    pub log: bool,
}

impl Default for HostSettings {
    fn default() -> Self {
        HostSettings {
            tags: 32,
            nr_requests: None,
            rotational: true,
            nomerges: 0,
            max_sectors_kb: 1280,
            read_ahead_kb: 128,
            start_spread_ns: 10_000_000,
            page_copy_ns: 0,
            hz: 250,
            turnaround_ns: 5000,
            woken_early: Real(0.9),
            io_workers: 8,
            requeue_rate: Real(0.0),
            seconds: Real(20.0),
            warm_up_seconds: Real(0.0),
            seed: 1,
            log: false,
        }
    }
}

impl HostSettings {
    pub(super) fn check(&self) -> Result<(), SimError> {
        within("tags", self.tags, 1..=65536)?;
        let most = self.nr_requests.unwrap_or(64);
        within("nr_requests", most, 1..=65536)?;
        require(self.nomerges <= 2, "nomerges", self.nomerges, "0 to 2")?;
        for (key, kib) in [
            ("max_sectors_kb", self.max_sectors_kb),
            ("read_ahead_kb", self.read_ahead_kb),
        ] {
            within(key, kib, 4..=1 << 20)?;
        }
        let fits = [100, 250, 300, 1000].contains(&self.hz);
        require(fits, "hz", self.hz, "100, 250, 300 or 1000")?;
        within("io_workers", self.io_workers, 1..=65536)?;
        let share = self.woken_early.0;
        within("woken_early", share, 0.0..=1.0)?;
        let rate = self.requeue_rate.0;
        within("requeue_rate", rate, 0.0..=0.9)?;
        let (seconds, warm_up) = (self.seconds.0, self.warm_up_seconds.0);
        require(
            seconds > 0.0 && seconds <= 1e6,
            "seconds",
            seconds,
            "above 0, at most 1e6",
        )?;
        let fits = (0.0..seconds).contains(&warm_up);
        require(fits, "warm_up_seconds", warm_up, "0 to less than seconds")
    }

    pub(super) fn facts(&self, settings: &Settings) -> Facts {
        let default = match settings.scheduler.as_str() {
            "none" => self.tags,
            "noop" | "deadline" | "cfq" => 128,
            _ => 2 * self.tags.min(128),
        };
        Facts {
            rotational: self.rotational,
            driver_tags: match (settings.scheduler.as_str(), self.nr_requests) {
                ("none", Some(most)) => self.tags.min(most),
                _ => self.tags,
            },
            nr_requests: self.nr_requests.unwrap_or(default),
            hz: self.hz,
        }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct HostJob {
    /// Settings of the whole run.
    pub settings: HostSettings,
    /// Who issues; with a trace, one for each of its processes, or else of its devices, is made.
    pub processes: Processes,
    /// Instead of processes: what was recorded, by arrival.
    pub trace: Vec<TraceRecord>,
}
