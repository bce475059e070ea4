//! The result of a simulated disk.

use schedlab_model::{Bin, Histogram, Request};
use serde::Serialize;

use crate::engine::{Interval, Stationarity, Steady};
use crate::workload::ReplaySummary;

/// Figures of one run. Times are nanoseconds; means are over requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskResult {
    /// The policy.
    pub policy: String,
    /// The seed of the workload.
    pub seed: u64,
    /// Completed requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From 0 to the last completion.
    pub elapsed_ns: u64,
    /// Completed requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub throughput_bytes_per_s: f64,
    /// Share of the time in which a command was in service, or the arm destaged.
    pub utilisation: f64,
    /// That time.
    pub busy_ns: u64,
    /// Arrival to completion, mean.
    pub latency_ns_mean: f64,
    /// Median; like the other percentiles only where enough requests support it.
    pub latency_ns_p50: Option<u64>,
    /// 90 %.
    pub latency_ns_p90: Option<u64>,
    /// 99 %.
    pub latency_ns_p99: Option<u64>,
    /// 99.9 %.
    pub latency_ns_p99_9: Option<u64>,
    /// 99.99 %.
    pub latency_ns_p99_99: Option<u64>,
    /// The longest.
    pub latency_ns_max: u64,
    /// Dispatch to completion, mean.
    pub service_ns_mean: f64,
    /// Standard deviation of the service time.
    pub service_ns_deviation: f64,
    /// Seek, head switch and settling, mean over requests that went to the medium.
    pub seek_ns_mean: f64,
    /// Rotational latency, mean over the same.
    pub rotation_ns_mean: f64,
    /// Transfer, mean over the same.
    pub transfer_ns_mean: f64,
    /// Cylinders moved per request that went to the medium.
    pub seek_cylinders_mean: f64,
    /// Share of reads served from the cache or from the stream under the head.
    pub hit_ratio: f64,
    /// The latencies.
    pub latency_bins: Vec<Bin>,
    /// Commands by the way they were served.
    pub kinds: Kinds,
    /// The fate of cached writes; nothing without a write cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<WriteCacheUse>,
    /// Whether the run is steady.
    pub steady: Stationarity,
    /// The mean latency of this one run with its interval.
    pub latency_interval: Option<Interval>,
    /// The trace and its changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<ReplaySummary>,
}

/// How a command was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A read from a cache, or from the stream under the head.
    ReadHit,
    /// A read from the medium.
    ReadMiss,
    /// A write that the cache took at once.
    WriteCached,
    /// A write that waited for room in the cache.
    WriteWaited,
    /// A write to the medium.
    WriteThrough,
}

/// Commands by the way they were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// Reads from a cache or the stream under the head.
    pub read_hit: u64,
    /// Reads from the medium.
    pub read_miss: u64,
    /// Writes that the cache took at once.
    pub write_cached: u64,
    /// Writes that waited for room in the cache.
    pub write_waited: u64,
    /// Writes to the medium.
    pub write_through: u64,
}

/// Sectors that went through the write cache: written = overwritten + destaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WriteCacheUse {
    /// Sectors that the host wrote into it.
    pub written_sectors: u64,
    /// Of them those replaced before they were on the medium.
    pub overwritten_sectors: u64,
    /// Of them those that the arm wrote.
    pub destaged_sectors: u64,
}

/// One request of the log; times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLogged {
    /// Its number, from 0.
    pub index: u64,
    /// The request, with its simulated arrival.
    pub request: Request,
    /// When it was chosen.
    pub start_ns: u64,
    /// When it was complete.
    pub completed_ns: u64,
    /// How it was served.
    pub kind: Kind,
    /// The response time that the trace states.
    pub measured_ns: Option<u64>,
}

/// Counters of a running simulation.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) latency: Histogram,
    pub(super) service: Histogram,
    pub(super) bytes: u64,
    pub(super) medium: u64,
    pub(super) seek_ns: u64,
    pub(super) rotation_ns: u64,
    pub(super) transfer_ns: u64,
    pub(super) cylinders: u64,
    pub(super) last_ns: u64,
    pub(super) end_ns: u64,
    pub(super) write_cache: Option<WriteCacheUse>,
    busy_ns: u64,
    busy_until_ns: u64,
    kinds: Kinds,
    steady: Steady,
}

impl Tally {
    /// A command was in service.
    pub(super) fn served(&mut self, start_ns: u64, done_ns: u64, request: &Request, kind: Kind) {
        let count = match kind {
            Kind::ReadHit => &mut self.kinds.read_hit,
            Kind::ReadMiss => &mut self.kinds.read_miss,
            Kind::WriteCached => &mut self.kinds.write_cached,
            Kind::WriteWaited => &mut self.kinds.write_waited,
            Kind::WriteThrough => &mut self.kinds.write_through,
        };
        *count += 1;
        self.bytes += request.length.0;
        self.latency.record(done_ns - request.arrival.0);
        self.steady.record(done_ns - request.arrival.0);
        self.service.record(done_ns - start_ns);
        self.last_ns = done_ns;
        self.end_ns = self.end_ns.max(done_ns);
        self.busy(start_ns, done_ns);
    }

    /// A command or the arm works from `start_ns` to `end_ns`; what overlaps counts once.
    pub(super) fn busy(&mut self, start_ns: u64, end_ns: u64) {
        self.busy_ns += end_ns.saturating_sub(start_ns.max(self.busy_until_ns));
        self.busy_until_ns = self.busy_until_ns.max(end_ns);
    }

    /// The figures; `backlog` requests were not complete at the last arrival.
    pub(super) fn finish(self, policy: &str, backlog: u64, depth: u64) -> DiskResult {
        let seconds = (self.last_ns as f64 / 1e9).max(1e-9);
        let count = self.latency.count();
        let per_medium = |sum: u64| sum as f64 / self.medium.max(1) as f64;
        let at = |q: f64| self.latency.supported_quantile(q);
        let kinds = self.kinds;
        let reads = kinds.read_hit + kinds.read_miss;
        DiskResult {
            policy: policy.to_owned(),
            seed: 0,
            requests: count,
            bytes: self.bytes,
            elapsed_ns: self.end_ns,
            iops: count as f64 / seconds,
            throughput_bytes_per_s: self.bytes as f64 / seconds,
            utilisation: self.busy_ns as f64 / self.end_ns.max(1) as f64,
            busy_ns: self.busy_ns,
            latency_ns_mean: self.latency.mean().unwrap_or(0.0),
            latency_ns_p50: at(0.5),
            latency_ns_p90: at(0.9),
            latency_ns_p99: at(0.99),
            latency_ns_p99_9: at(0.999),
            latency_ns_p99_99: at(0.9999),
            latency_ns_max: self.latency.max().unwrap_or(0),
            service_ns_mean: self.service.mean().unwrap_or(0.0),
            service_ns_deviation: self.service.deviation().unwrap_or(0.0),
            seek_ns_mean: per_medium(self.seek_ns),
            rotation_ns_mean: per_medium(self.rotation_ns),
            transfer_ns_mean: per_medium(self.transfer_ns),
            seek_cylinders_mean: per_medium(self.cylinders),
            hit_ratio: kinds.read_hit as f64 / reads.max(1) as f64,
            latency_bins: self.latency.bins().collect(),
            kinds,
            write_cache: self.write_cache,
            steady: self.steady.stationarity(backlog, depth, 0),
            latency_interval: self.steady.interval(),
            trace: None,
        }
    }
}
