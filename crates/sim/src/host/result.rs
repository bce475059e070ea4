//! The result of a run of the host's queue.

use schedlab_model::{Bin, Histogram};
use serde::Serialize;

use super::request::{HostRequest, Op};
use crate::workload::ReplaySummary;

/// The service that one process, or all together, got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessResult {
    /// The process.
    pub name: String,
    /// Records completed within the time.
    pub requests: u64,
    /// Bytes moved, of records under way too.
    pub bytes: u64,
    /// Records per second.
    pub iops: f64,
    /// Bytes per second.
    pub throughput_bytes_per_s: f64,
    /// From the issue of a record to its completion, mean. Records that are under way at the end
    /// are still answered, and are among the latencies: a starved process has long ones, not none.
    pub latency_ns_mean: f64,
    /// Median.
    pub latency_ns_p50: Option<u64>,
    /// 99 %.
    pub latency_ns_p99: Option<u64>,
    /// The longest.
    pub latency_ns_max: u64,
    /// The latencies.
    pub latency_bins: Vec<Bin>,
}

/// The requests as the device saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OrderResult {
    /// Requests handed to it.
    pub dispatched: u64,
    /// Bios merged into others, per request.
    pub merges_per_request: f64,
    /// From the end of a request to the start of the next, mean.
    pub seek_bytes_mean: f64,
    /// Requests in it, mean over time.
    pub depth_mean: f64,
    /// Requests that it refused.
    pub requeues: u64,
}

/// Figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostResult {
    /// The scheduler with what was set.
    pub scheduler: String,
    /// The seed.
    pub seed: u64,
    /// Measured time.
    pub seconds: f64,
    /// All processes together.
    pub total: ProcessResult,
    /// Each by itself.
    pub processes: Vec<ProcessResult>,
    /// The order at the device.
    pub order: OrderResult,
    /// The trace and its changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<ReplaySummary>,
    /// Every request, where a log was requested.
    #[serde(skip)]
    pub log: Vec<HostLogged>,
}

/// One request of the log; times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLogged {
    /// Number of the process.
    pub process: u32,
    /// Its operation.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
    /// Bios in it.
    pub bios: u32,
    /// Allocation.
    pub arrival_ns: u64,
    /// Hand-over to the scheduler.
    pub inserted_ns: u64,
    /// Hand-over to the device.
    pub dispatched_ns: u64,
    /// Completion.
    pub completed_ns: u64,
}

impl HostLogged {
    pub(super) fn of(request: &HostRequest, completed_ns: u64) -> Self {
        HostLogged {
            process: request.process,
            op: request.op,
            sector: request.sector,
            sectors: request.sectors,
            bios: request.bios,
            arrival_ns: request.arrival_ns,
            inserted_ns: request.inserted_ns,
            dispatched_ns: request.dispatched_ns,
            completed_ns,
        }
    }
}

/// Counters of one process.
#[derive(Clone, Default)]
pub(super) struct Tally {
    latency: Histogram,
    in_time: u64,
    bytes: u64,
}

impl Tally {
    /// A record is complete, within the run's time or after it.
    pub(super) fn record(&mut self, latency_ns: u64, in_time: bool) {
        self.latency.record(latency_ns);
        self.in_time += u64::from(in_time);
    }

    /// Data were moved.
    pub(super) fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.latency.merge(&other.latency);
        self.in_time += other.in_time;
        self.bytes += other.bytes;
    }

    pub(super) fn finish(&self, name: &str, seconds: f64) -> ProcessResult {
        let requests = self.in_time;
        ProcessResult {
            name: name.into(),
            requests,
            bytes: self.bytes,
            iops: requests as f64 / seconds,
            throughput_bytes_per_s: self.bytes as f64 / seconds,
            latency_ns_mean: self.latency.mean().unwrap_or(0.0),
            latency_ns_p50: self.latency.supported_quantile(0.5),
            latency_ns_p99: self.latency.supported_quantile(0.99),
            latency_ns_max: self.latency.max().unwrap_or(0),
            latency_bins: self.latency.bins().collect(),
        }
    }
}
