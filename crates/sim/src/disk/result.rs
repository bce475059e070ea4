//! What a simulated disk gives.

use schedlab_model::{Bin, Histogram};
use serde::Serialize;

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
    /// Share of the time in which a command was in service.
    pub utilisation: f64,
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
}

/// What is counted while a run goes on.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) latency: Histogram,
    pub(super) service: Histogram,
    pub(super) bytes: u64,
    pub(super) reads: u64,
    pub(super) hits: u64,
    pub(super) medium: u64,
    pub(super) seek_ns: u64,
    pub(super) rotation_ns: u64,
    pub(super) transfer_ns: u64,
    pub(super) cylinders: u64,
    pub(super) end_ns: u64,
}

impl Tally {
    pub(super) fn finish(self, policy: &str, seed: u64) -> DiskResult {
        let seconds = (self.end_ns as f64 / 1e9).max(1e-9);
        let count = self.latency.count();
        let per_medium = |sum: u64| sum as f64 / self.medium.max(1) as f64;
        let at = |q: f64| self.latency.supported_quantile(q);
        DiskResult {
            policy: policy.to_owned(),
            seed,
            requests: count,
            bytes: self.bytes,
            elapsed_ns: self.end_ns,
            iops: count as f64 / seconds,
            throughput_bytes_per_s: self.bytes as f64 / seconds,
            utilisation: self.service.sum() as f64 / self.end_ns.max(1) as f64,
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
            hit_ratio: self.hits as f64 / self.reads.max(1) as f64,
            latency_bins: self.latency.bins().collect(),
        }
    }
}
