//! What a trace is like, in one pass and bounded memory.

use std::collections::HashMap;

use schedlab_model::Histogram;
use serde::Serialize;

use super::TraceRecord;

const PAGE_BYTES: u64 = 4096;
/// Pages per piece of the footprint's bitmap: 128 MiB of a device in 4 KiB of memory.
const PIECE_PAGES: u64 = 1 << 15;
/// Pieces kept at most (48 MiB); beyond, the footprint is marked as a lower bound.
const PIECES_MAX: usize = 12 << 10;
/// Devices counted one by one at most.
const DEVICES_MAX: usize = 1 << 16;

/// Different values counted one by one; of more, percentiles come from bins.
const VALUES_MAX: usize = 1 << 18;

/// Collects the figures of [`TraceSummary`].
#[derive(Default)]
pub struct TraceStats {
    reads: Direction,
    writes: Direction,
    trims: u64,
    trim_bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    gaps: Counts,
    latencies: Counts,
    ends: HashMap<u32, u64>,
    sequential: u64,
    end_bytes: u64,
    pieces: HashMap<(u32, u64), Box<[u64]>>,
    pages: u64,
    truncated: bool,
}

#[derive(Default)]
struct Direction {
    bytes: u64,
    sizes: Counts,
}

/// How often each value came, exactly while there are not too many different ones.
struct Counts {
    bins: Histogram,
    exact: Option<HashMap<u64, u64>>,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            bins: Histogram::new(),
            exact: Some(HashMap::new()),
        }
    }
}

impl Counts {
    fn record(&mut self, value: u64) {
        self.bins.record(value);
        if let Some(exact) = &mut self.exact {
            *exact.entry(value).or_insert(0) += 1;
            if exact.len() > VALUES_MAX {
                self.exact = None;
            }
        }
    }

    fn count(&self) -> u64 {
        self.bins.count()
    }

    /// These quantiles, ascending.
    fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [u64; N] {
        let Some(exact) = &self.exact else {
            return shares.map(|share| self.bins.quantile(share).unwrap_or(0));
        };
        let mut values: Vec<(u64, u64)> = exact.iter().map(|(v, count)| (*v, *count)).collect();
        values.sort_unstable();
        shares.map(|share| {
            let count = self.count();
            let rank = ((share * count as f64).ceil() as u64).clamp(1, count.max(1));
            let mut cumulative = 0;
            let entry = values.iter().find(|(_, count)| {
                cumulative += count;
                cumulative >= rank
            });
            entry.map_or(0, |(value, _)| *value)
        })
    }
}

/// Distribution of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Exact mean.
    pub mean: f64,
    /// Standard deviation over mean.
    pub cv: f64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90 % quantile.
    pub p90: u64,
    /// 99 % quantile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// Whether the percentiles are values of the trace; else they are within 1/128 of one.
    pub is_exact: bool,
}

/// What a trace is like; times in ns, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Reads and writes.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Discards, in none of the other figures.
    pub trims: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes discarded.
    pub trim_bytes: u64,
    /// Reads over requests.
    pub read_share: f64,
    /// Arrival of the first request.
    pub first_ns: u64,
    /// Arrival of the last request.
    pub last_ns: u64,
    /// From the first to the last arrival.
    pub span_ns: u64,
    /// Requests per second of the span.
    pub requests_per_s: f64,
    /// Times between neighbours.
    pub inter_arrival_ns: Distribution,
    /// Sizes of reads.
    pub read_size_bytes: Distribution,
    /// Sizes of writes.
    pub write_size_bytes: Distribution,
    /// Response times, where the trace has them.
    pub latency_ns: Distribution,
    /// Requests that begin where the one before on their device ended, over requests.
    pub sequential_share: f64,
    /// Devices, volumes or files.
    pub devices: u64,
    /// End of the furthest request.
    pub end_bytes: u64,
    /// Distinct 4 KiB pages touched, in bytes.
    pub footprint_bytes: u64,
    /// The footprint is at least that: the trace touches more than is counted.
    pub footprint_is_lower_bound: bool,
}

impl TraceStats {
    /// Counts one record; records come in the order of arrival.
    pub fn record(&mut self, record: &TraceRecord) {
        let request = &record.request;
        let (arrival, offset, length) = (request.arrival.0, request.offset.0, request.length.0);
        if record.trim {
            self.trims += 1;
            self.trim_bytes = self.trim_bytes.saturating_add(length);
            return;
        }
        if self.first_ns.is_some() {
            self.gaps.record(arrival.saturating_sub(self.last_ns));
        }
        self.first_ns.get_or_insert(arrival);
        self.last_ns = arrival;
        let direction = if request.is_write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        direction.bytes = direction.bytes.saturating_add(length);
        direction.sizes.record(length);
        if let Some(latency) = record.latency {
            self.latencies.record(latency.0);
        }
        let end = offset.saturating_add(length);
        self.end_bytes = self.end_bytes.max(end);
        if self.ends.len() < DEVICES_MAX || self.ends.contains_key(&record.device) {
            let before = self.ends.insert(record.device, end);
            self.sequential += u64::from(before == Some(offset));
        }
        self.touch(record.device, offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    }

    /// Marks pages `from..to` of a device.
    fn touch(&mut self, device: u32, from: u64, to: u64) {
        let mut page = from;
        while page < to {
            let piece = page / PIECE_PAGES;
            let end = to.min((piece + 1) * PIECE_PAGES);
            let full = self.pieces.len() >= PIECES_MAX;
            if full && !self.pieces.contains_key(&(device, piece)) {
                self.truncated = true;
                page = end;
                continue;
            }
            let words = self
                .pieces
                .entry((device, piece))
                .or_insert_with(|| vec![0; PIECE_PAGES as usize / 64].into_boxed_slice());
            while page < end {
                let (word, bit) = ((page % PIECE_PAGES / 64) as usize, page % 64);
                let count = (64 - bit).min(end - page);
                let mask = (u64::MAX >> (64 - count)) << bit;
                self.pages += u64::from((mask & !words[word]).count_ones());
                words[word] |= mask;
                page += count;
            }
        }
    }

    /// What was counted.
    pub fn summary(&self) -> TraceSummary {
        let (reads, writes) = (self.reads.sizes.count(), self.writes.sizes.count());
        let requests = reads + writes;
        let share = |part: u64| {
            if requests == 0 {
                0.0
            } else {
                part as f64 / requests as f64
            }
        };
        let first_ns = self.first_ns.unwrap_or(0);
        let span_ns = self.last_ns.saturating_sub(first_ns);
        let per_s = if span_ns == 0 {
            0.0
        } else {
            requests as f64 / (span_ns as f64 / 1e9)
        };
        TraceSummary {
            requests,
            reads,
            writes,
            trims: self.trims,
            bytes: self.reads.bytes.saturating_add(self.writes.bytes),
            read_bytes: self.reads.bytes,
            write_bytes: self.writes.bytes,
            trim_bytes: self.trim_bytes,
            read_share: share(reads),
            first_ns,
            last_ns: self.last_ns,
            span_ns,
            requests_per_s: per_s,
            inter_arrival_ns: distribution(&self.gaps),
            read_size_bytes: distribution(&self.reads.sizes),
            write_size_bytes: distribution(&self.writes.sizes),
            latency_ns: distribution(&self.latencies),
            sequential_share: share(self.sequential),
            devices: self.ends.len() as u64,
            end_bytes: self.end_bytes,
            footprint_bytes: self.pages * PAGE_BYTES,
            footprint_is_lower_bound: self.truncated,
        }
    }
}

fn distribution(values: &Counts) -> Distribution {
    let bins = &values.bins;
    let [p50, p90, p99] = values.quantiles([0.5, 0.9, 0.99]);
    let mean = bins.mean().unwrap_or(0.0);
    let deviation = bins.deviation().unwrap_or(0.0);
    Distribution {
        count: bins.count(),
        mean,
        cv: if mean > 0.0 { deviation / mean } else { 0.0 },
        min: bins.min().unwrap_or(0),
        p50,
        p90,
        p99,
        max: bins.max().unwrap_or(0),
        is_exact: values.exact.is_some(),
    }
}
