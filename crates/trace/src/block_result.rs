//! What a block capture found, as it is counted (groups, intervals) and as it is given out (JSON,
//! documented in `blocks.rs`).

use serde::Serialize;

pub use crate::accounting::Accounting;

pub(crate) const OPERATIONS: usize = 3;
pub(crate) const SIZES: usize = 6;
pub(crate) const PARTS: usize = 5;
pub(crate) const OPERATION_NAMES: [&str; OPERATIONS] = ["read", "write", "other"];
const SIZE_MAX: [Option<u64>; SIZES] = [
    Some(4096),
    Some(16_384),
    Some(65_536),
    Some(262_144),
    Some(1_048_576),
    None,
];

/// A histogram of times; its bins are a quarter of an octave wide.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Histogram {
    pub count: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub bins: Vec<(u64, u64, u64)>,
}

#[cfg_attr(not(all(feature = "bpf", bpf_program)), allow(dead_code))]
impl Histogram {
    pub(crate) fn new(sum_ns: u64, max_ns: u64, counts: &[u64]) -> Histogram {
        let bins = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Histogram {
            count: counts.iter().sum(),
            sum_ns,
            max_ns,
            bins: bins
                .map(|(bin, count)| (low_of(bin), low_of(bin + 1) - 1, *count))
                .collect(),
        }
    }
}

/// Smallest value of a bin of the program.
fn low_of(bin: usize) -> u64 {
    match bin {
        0..8 => bin as u64,
        _ => (4 + (bin as u64 + 4) % 4) << ((bin + 4) / 4 - 2),
    }
}

/// Requests of one class, operation and size.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub class: usize,
    pub operation: usize,
    pub size: usize,
    pub bytes: u64,
    pub parts: [Histogram; PARTS],
}

/// What bfq thought of the requests of a class.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Bfq {
    pub requests: u64,
    pub weight_raising: f64,
    pub queue: String,
    pub weight: u64,
}

/// Requests in the scheduler and in the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Depths {
    pub scheduler: i64,
    pub driver: i64,
    pub scheduler_max: u64,
    pub driver_max: u64,
    pub both_max: u64,
    pub limited: u64,
    pub tags: u64,
    pub classes_used: usize,
}

/// What a class did in one interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interval {
    pub issued: [u64; OPERATIONS],
    pub bytes: u64,
    pub sum_ns: [u64; PARTS],
    pub bfq: Option<Bfq>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct GroupResult {
    pub class: usize,
    pub operation: &'static str,
    pub size_max: Option<u64>,
    pub requests: u64,
    pub bytes: u64,
    pub tag: Histogram,
    pub plug: Histogram,
    pub scheduler: Histogram,
    pub device: Histogram,
    pub total: Histogram,
}

#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct ClassName {
    pub name: String,
    pub process: Option<u32>,
    /// Of its name, where only a few classes were left; 0: unknown.
    pub processes: u32,
}

/// t_ms, reads, writes, other, bytes, then the sums of the five parts.
pub type Row = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Series {
    pub class: usize,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct BfqSeries {
    pub class: usize,
    /// t_ms, requests, mean weight-raising coefficient, identity of the last queue, its weight.
    pub rows: Vec<(u64, u64, f64, String, u64)>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Depth {
    pub mean: f64,
    pub max: u64,
    pub series: Vec<(u64, f64)>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct DepthsOverTime {
    pub scheduler: Depth,
    pub driver: Depth,
    pub both: Depth,
    pub limits: Depth,
}

#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Totals {
    pub issued: u64,
    pub completed: u64,
    pub inserted: u64,
    pub bio_merges: u64,
    pub request_merges: u64,
    pub requeues: u64,
    pub out_of_order: u64,
    pub seeks: u64,
    pub seek_sectors: u64,
    pub begun_before: u64,
    pub in_parts: u64,
    pub errors: u64,
    pub in_flight: u64,
}

/// What the capture could not follow.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lost {
    /// Requests whose arrival was not seen: their times begin at insertion or issue.
    pub arrivals_unseen: u64,
    /// Arrivals that made room for others.
    pub arrivals_evicted: u64,
    /// Requests beyond `seconds_max`, which are in no interval.
    pub intervals: u64,
    /// Arrivals of processes for which no class was left.
    pub classes: u64,
    /// Issued requests whose completion the kernel did not trace: their tag was used again.
    pub untraced: u64,
    /// Completions that belonged to no issued request.
    pub completions: u64,
    /// Events that the kernel did not pass on (one program interrupted by itself).
    pub events: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Cost {
    pub runs: u64,
    pub run_ns: u64,
    pub programs: Vec<(String, u64, u64)>,
}

/// What was captured so far; the JSON above.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct BlockResult {
    pub device: String,
    pub scheduler: String,
    pub elapsed_ns: u64,
    pub sees_limits: bool,
    pub classes: Vec<ClassName>,
    pub groups: Vec<GroupResult>,
    pub series: Vec<Series>,
    pub depth: DepthsOverTime,
    /// Requests that the driver may take; 0: unknown.
    pub tags: u64,
    pub totals: Totals,
    pub bfq: Option<Vec<BfqSeries>>,
    pub lost: Lost,
    /// Class, operation, age of its oldest request that has not completed, ns.
    pub waiting: Vec<(usize, &'static str, u64)>,
    pub accounting: Accounting,
    pub cost: Option<Cost>,
}

/// A group that has requests, with its names.
pub(crate) fn named_group(group: Group) -> Option<GroupResult> {
    let [tag, plug, scheduler, device, total] = group.parts;
    (total.count > 0).then(|| GroupResult {
        class: group.class,
        operation: OPERATION_NAMES[group.operation],
        size_max: SIZE_MAX[group.size],
        requests: total.count,
        bytes: group.bytes,
        tag,
        plug,
        scheduler,
        device,
        total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_tile_the_integers() {
        let lows: Vec<u64> = (0..160).map(low_of).collect();
        assert_eq!(lows[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]);
        assert!(lows.windows(2).all(|pair| pair[0] < pair[1]));
        let histogram = Histogram::new(21, 11, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(histogram.bins, [(10, 11, 2)]);
    }
}
