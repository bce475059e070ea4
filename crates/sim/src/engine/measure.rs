//! The report of a simulation: distributions by direction, rates, hit ratios, queue depth.

use schedlab_model::Histogram;
use serde::Serialize;

use super::steady::{Interval, Stationarity, Steady};
use crate::device::Usage;
use crate::window::Command;
use crate::workload::ReplaySummary;

/// Buckets of the queue depth over time; their width doubles when they run out.
const DEPTH_BUCKETS: usize = 512;
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("p99_99", 0.9999),
];

/// One completed request of the log; times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The command with its times of arrival, admission and dispatch.
    pub command: Command,
    /// When it was completed.
    pub completed_ns: u64,
}

/// A distribution of times, as reported; all in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Response {
    /// How many requests.
    pub count: u64,
    /// Exact mean.
    pub mean: Option<f64>,
    /// Exact maximum.
    pub max: Option<u64>,
    /// p50 … p99.99, each where at least 10/(1−q) requests support it.
    pub quantiles: Vec<(&'static str, Option<u64>)>,
    /// Occupied bins: low, high, count; each is less than 1/64 of its value wide.
    pub bins: Vec<(u64, u64, u64)>,
}

impl From<&Histogram> for Response {
    fn from(histogram: &Histogram) -> Self {
        Response {
            count: histogram.count(),
            mean: histogram.mean(),
            max: histogram.max(),
            quantiles: QUANTILES
                .map(|(n, q)| (n, histogram.supported_quantile(q)))
                .to_vec(),
            bins: histogram.bins().map(|b| (b.low, b.high, b.count)).collect(),
        }
    }
}

/// Times of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direction {
    /// From host arrival to completion.
    pub response: Response,
    /// From entry into the command window to completion.
    pub response_ncq: Response,
    /// From host arrival to dispatch.
    pub queueing: Response,
    /// The mean response of this one run with its interval.
    pub interval: Option<Interval>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The service model in force; empty where the caller brings the device.
    pub service: &'static str,
    /// Requests completed.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From time 0 to the last completion.
    pub elapsed_ns: u64,
    /// Requests per second of `elapsed_ns`.
    pub iops: f64,
    /// Bytes per second of `elapsed_ns`.
    pub throughput_bytes_per_s: f64,
    /// Share of `elapsed_ns` in which the servers work, mean over all.
    pub utilisation: f64,
    /// Share of the pages read that the buffer held.
    pub read_hit_ratio: f64,
    /// Share of the pages written that the buffer held.
    pub write_hit_ratio: f64,
    /// Times of reads.
    pub read: Direction,
    /// Times of writes.
    pub write: Direction,
    /// Requests at the device or in the host's queue: mean over each bucket of time.
    pub queue_depth: Vec<f64>,
    /// Width of those buckets.
    pub queue_depth_bucket_ns: u64,
    /// Counters of the device.
    pub device: Usage,
    /// Whether the run is steady.
    pub steady: Stationarity,
    /// Completions before those that are reported, and when reporting began.
    pub warm_up: (u64, u64),
    /// The trace and its changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<ReplaySummary>,
}

#[derive(Default)]
struct Histograms {
    /// Responses of commands that were dispatched when they arrived, which are the same for the
    /// host and for the window.
    at_once: Histogram,
    /// Of all others.
    response: Histogram,
    response_ncq: Histogram,
    queueing: Histogram,
    steady: Steady,
}

impl Histograms {
    #[inline]
    fn record(&mut self, now_ns: u64, command: &Command) {
        let response_ns = now_ns - command.arrival_ns;
        self.steady.record(response_ns);
        if command.dispatched_ns == command.arrival_ns {
            return self.at_once.record(response_ns);
        }
        self.response.record(response_ns);
        self.response_ncq.record(now_ns - command.admitted_ns);
        let queueing_ns = command.dispatched_ns - command.arrival_ns;
        self.queueing.record(queueing_ns);
    }

    fn count(&self) -> u64 {
        self.at_once.count() + self.response.count()
    }

    fn report(mut self) -> Direction {
        self.response.merge(&self.at_once);
        self.response_ncq.merge(&self.at_once);
        if self.at_once.count() > 0 {
            self.queueing.record_many(0, self.at_once.count());
        }
        Direction {
            response: (&self.response).into(),
            response_ncq: (&self.response_ncq).into(),
            queueing: (&self.queueing).into(),
            interval: self.steady.interval(),
        }
    }
}

/// Collects what [`Report`] states.
#[derive(Default)]
pub struct Measures {
    reads: Histograms,
    writes: Histograms,
    pages: u64,
    last_ns: u64,
    depth: DepthOverTime,
    log: Option<Vec<Logged>>,
    steady: Steady,
    /// Requests not complete when the last one arrived.
    backlog: u64,
    warm_up: WarmUp,
    warm: Option<Warm>,
    completions: u64,
    /// Completions until the device was last cold.
    cold: u64,
}

/// The part of a run before the one that is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUp {
    /// So many completions.
    pub requests: u64,
    /// Completions before this time.
    pub until_ns: u64,
}

/// Where the reported part of a run begins.
struct Warm {
    completions: u64,
    from_ns: u64,
    device: Usage,
}

impl Measures {
    /// Nothing measured yet; with `log`, every completed request is kept.
    pub fn new(log: bool, warm_up: WarmUp) -> Self {
        Measures {
            warm_up,
            log: log.then(Vec::new),
            ..Self::default()
        }
    }

    /// Whether every completed request is kept.
    pub fn keeps_log(&self) -> bool {
        self.log.is_some()
    }

    /// A request came in.
    #[inline]
    pub fn arrived(&mut self, now_ns: u64) {
        self.depth.step(now_ns, 1);
        self.backlog = self.depth.depth as u64;
    }

    /// Whether the reported part begins with the next completion, at `now_ns`.
    #[inline]
    pub fn is_warm_at(&self, now_ns: u64) -> bool {
        self.warm.is_none()
            && self.warm_up != WarmUp::default()
            && self.completions >= self.warm_up.requests
            && now_ns >= self.warm_up.until_ns
    }

    /// The device was cold at the last completion.
    #[inline]
    pub fn was_cold(&mut self) {
        self.cold = self.completions;
    }

    /// Forgets what was measured: the reported part begins at `now_ns`, when the device had
    /// counted `device`.
    pub fn begin(&mut self, now_ns: u64, device: Usage) {
        self.reads = Histograms::default();
        self.writes = Histograms::default();
        self.pages = 0;
        self.steady = Steady::default();
        if let Some(log) = &mut self.log {
            log.clear();
        }
        self.warm = Some(Warm {
            completions: self.completions,
            from_ns: now_ns,
            device,
        });
    }

    /// Requests that came in and are not completed.
    pub fn outstanding(&self) -> u64 {
        self.depth.depth as u64
    }

    /// A request was completed.
    #[inline]
    pub fn completed(&mut self, now_ns: u64, command: &Command) {
        let into = if command.is_write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        self.completions += 1;
        into.record(now_ns, command);
        self.steady.record(now_ns - command.arrival_ns);
        self.pages += u64::from(command.pages);
        self.last_ns = now_ns;
        self.depth.step(now_ns, -1);
        if let Some(log) = &mut self.log {
            log.push(Logged {
                command: *command,
                completed_ns: now_ns,
            });
        }
    }

    /// The result, and the log if there is one; `depth` is that of the queue of an open loop.
    pub fn finish(
        self,
        mut device: Usage,
        page_bytes: u64,
        depth: Option<u64>,
    ) -> (Report, Vec<Logged>) {
        let backlog = depth.map_or(0, |_| self.backlog);
        let mut warm_up = (0, 0);
        if let Some(warm) = &self.warm {
            device.subtract(&warm.device);
            warm_up = (warm.completions, warm.from_ns);
        }
        let cold = self.cold.saturating_sub(warm_up.0);
        let steady = self.steady.stationarity(backlog, depth.unwrap_or(0), cold);
        let elapsed_ns = self.last_ns - warm_up.1.min(self.last_ns);
        let share = |part: u64, whole: u64| {
            if whole == 0 {
                0.0
            } else {
                part as f64 / whole as f64
            }
        };
        let seconds = elapsed_ns as f64 / 1e9;
        let rate = |count: u64| {
            if elapsed_ns == 0 {
                0.0
            } else {
                count as f64 / seconds
            }
        };
        let requests = self.reads.count() + self.writes.count();
        let bytes = self.pages * page_bytes;
        let busy: u64 = device.busy_ns.iter().sum();
        let (queue_depth, queue_depth_bucket_ns) = self.depth.finish();
        let report = Report {
            service: "",
            requests,
            bytes,
            elapsed_ns,
            iops: rate(requests),
            throughput_bytes_per_s: rate(bytes),
            utilisation: share(busy, elapsed_ns * device.busy_ns.len() as u64),
            read_hit_ratio: share(device.read_hits, device.read_pages),
            write_hit_ratio: share(device.write_hits, device.write_pages),
            read: self.reads.report(),
            write: self.writes.report(),
            queue_depth,
            queue_depth_bucket_ns,
            device,
            steady,
            warm_up,
            trace: None,
        };
        (report, self.log.unwrap_or_default())
    }
}

/// Time-weighted queue depth in a bounded number of buckets.
struct DepthOverTime {
    area: Vec<f64>,
    /// log2 of the width of a bucket in ns.
    width_bits: u32,
    last_ns: u64,
    depth: i64,
}

impl Default for DepthOverTime {
    fn default() -> Self {
        DepthOverTime {
            area: vec![0.0; DEPTH_BUCKETS],
            width_bits: 20,
            last_ns: 0,
            depth: 0,
        }
    }
}

impl DepthOverTime {
    #[inline]
    fn step(&mut self, now_ns: u64, change: i64) {
        if self.depth != 0 {
            self.fill(now_ns);
        }
        self.last_ns = now_ns;
        self.depth += change;
    }

    fn fill(&mut self, now_ns: u64) {
        while now_ns >> self.width_bits >= DEPTH_BUCKETS as u64 {
            for i in 0..DEPTH_BUCKETS / 2 {
                self.area[i] = self.area[2 * i] + self.area[2 * i + 1];
            }
            self.area[DEPTH_BUCKETS / 2..].fill(0.0);
            self.width_bits += 1;
        }
        while self.last_ns < now_ns {
            let bucket = self.last_ns >> self.width_bits;
            let end_ns = now_ns.min((bucket + 1) << self.width_bits);
            self.area[bucket as usize] += (end_ns - self.last_ns) as f64 * self.depth as f64;
            self.last_ns = end_ns;
        }
    }

    fn finish(self) -> (Vec<f64>, u64) {
        let width_ns = 1 << self.width_bits;
        let used = (self.last_ns / width_ns + 1).min(DEPTH_BUCKETS as u64) as usize;
        let means = self.area[..used]
            .iter()
            .map(|area| area / width_ns as f64)
            .collect();
        (means, width_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_of_what_came_after_the_warm_up() {
        let warm_up = WarmUp {
            requests: 1,
            until_ns: 500,
        };
        let mut measures = Measures::new(true, warm_up);
        let command = |arrival_ns, is_write, pages| Command {
            arrival_ns,
            admitted_ns: arrival_ns + 100,
            dispatched_ns: arrival_ns + 300,
            is_write,
            pages,
            ..Command::default()
        };
        for now_ns in [0, 1_000, 1_500, 2_000] {
            measures.arrived(now_ns);
        }
        assert!(!measures.is_warm_at(1_000), "nothing is completed");
        measures.completed(1_000, &command(0, false, 9));
        assert!(!measures.is_warm_at(499) && measures.is_warm_at(500));
        let usage = |busy_ns: [u64; 2], pages, hits| Usage {
            busy_ns: busy_ns.to_vec(),
            read_pages: 2 * pages,
            read_hits: hits,
            write_pages: pages,
            write_hits: hits,
            ..Usage::default()
        };
        measures.begin(2_000, usage([100, 200], 10, 1));
        assert!(!measures.is_warm_at(2_500), "it began");
        measures.completed(3_000, &command(1_000, false, 2));
        measures.completed(4_000, &command(1_500, true, 3));
        measures.completed(6_000, &command(2_000, true, 5));
        assert_eq!(measures.outstanding(), 0);
        let device = usage([1_300, 1_800], 20, 6);
        let (report, log) = measures.finish(device, 4_096, Some(1));

        assert_eq!((report.requests, report.elapsed_ns), (3, 4_000));
        assert_eq!((report.warm_up, report.bytes), ((1, 2_000), 10 * 4_096));
        assert_eq!(report.iops, 3.0 / 4e-6);
        assert_eq!(report.throughput_bytes_per_s, 40_960.0 / 4e-6);
        assert_eq!(report.utilisation, (1_200.0 + 1_600.0) / 8_000.0);
        assert_eq!((report.read_hit_ratio, report.write_hit_ratio), (0.25, 0.5));
        let means = |one: &Direction| {
            (
                one.response.mean,
                one.response_ncq.mean,
                one.queueing.mean,
                one.response.max,
            )
        };
        let read = (Some(2_000.0), Some(1_900.0), Some(300.0), Some(2_000));
        let write = (Some(3_250.0), Some(3_150.0), Some(300.0), Some(4_000));
        assert_eq!((means(&report.read), means(&report.write)), (read, write));
        assert_eq!(report.steady.backlog, 4);
        let completed_ns: Vec<u64> = log.iter().map(|logged| logged.completed_ns).collect();
        assert_eq!(completed_ns, [3_000, 4_000, 6_000]);

        let (nothing, _) =
            Measures::new(false, WarmUp::default()).finish(Usage::default(), 1, None);
        assert_eq!((nothing.iops, nothing.utilisation), (0.0, 0.0));
        assert_eq!((nothing.read_hit_ratio, nothing.steady.backlog), (0.0, 0));
    }

    #[test]
    fn queue_depth_is_the_time_weighted_mean() {
        let mut depth = DepthOverTime::default();
        depth.step(0, 1);
        depth.step(1 << 19, 1);
        depth.step(3 << 20, -2);
        let (means, width) = depth.finish();
        assert_eq!((means, width), (vec![1.5, 2.0, 2.0, 0.0], 1 << 20));
    }

    #[test]
    fn buckets_double_when_time_runs_on() {
        let mut depth = DepthOverTime::default();
        depth.step(0, 3);
        depth.step(1 << 40, -3);
        let (means, width) = depth.finish();
        assert!(width > 1 << 30 && means.len() <= DEPTH_BUCKETS);
        assert!((means[0] - 3.0).abs() < 1e-9);
    }
}
