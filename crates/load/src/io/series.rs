//! The rate over time: what completed in every 100 ms from the opening of the gate on, so that a
//! transient can be separated from a steady state.
//!
//! Nothing is added up per request: at the end of a bin the difference of the totals is kept, also
//! of the latencies in bins of a quarter of an octave.

use std::collections::BTreeMap;

use schedlab_model::{coarse_range, Coarse};
use serde::{Deserialize, Serialize};

/// Length of a bin.
pub const BIN_NS: u64 = 100_000_000;
/// Bins that exist before the clock starts; more are made as time goes.
const RESERVED: usize = 1024;

/// Completed requests, their bytes, and the sum of their latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub operations: u64,
    pub bytes: u64,
    pub latency_ns: u64,
}

impl Counts {
    fn since(self, earlier: Counts) -> Counts {
        Counts {
            operations: self.operations - earlier.operations,
            bytes: self.bytes - earlier.bytes,
            latency_ns: self.latency_ns.saturating_sub(earlier.latency_ns),
        }
    }

    fn add(&mut self, other: Counts) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency_ns += other.latency_ns;
    }
}

/// The bins of one worker: reads and writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    /// Number of the first bin, counted from the opening of the gate.
    first: u64,
    bins: Vec<[Counts; 2]>,
    last: [Counts; 2],
    /// Occupied (bin, coarse bin of latency, count) of both directions.
    latencies: Vec<(u32, u16, u64)>,
    seen: Vec<u64>,
    next_ns: u64,
}

impl Series {
    /// A series that has not begun: no time is past its first bin.
    pub(crate) fn new() -> Series {
        Series {
            first: 0,
            bins: Vec::with_capacity(RESERVED),
            last: Default::default(),
            latencies: Vec::with_capacity(4 * RESERVED),
            seen: vec![0; std::mem::size_of::<Coarse>() / 8],
            next_ns: u64::MAX,
        }
    }

    /// Begins with the bin that holds `now`.
    pub(crate) fn begin(&mut self, gate_ns: u64, now: u64) {
        self.first = now.saturating_sub(gate_ns) / BIN_NS;
        self.next_ns = gate_ns + (self.first + 1) * BIN_NS;
    }

    /// When the current bin ends.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Ends every bin that is over at `now`. `latencies` are those so far, asked for only there.
    pub(crate) fn advance(
        &mut self,
        now: u64,
        totals: [Counts; 2],
        latencies: impl FnOnce() -> Coarse,
    ) {
        if now >= self.next_ns {
            self.keep(&latencies());
        }
        while now >= self.next_ns {
            self.push(totals);
            self.next_ns += BIN_NS;
        }
    }

    /// Ends the last bin, which is not full.
    pub(crate) fn end(
        &mut self,
        now: u64,
        totals: [Counts; 2],
        latencies: impl FnOnce() -> Coarse,
    ) {
        if self.next_ns == u64::MAX {
            return;
        }
        let all = latencies();
        self.advance(now, totals, || all);
        self.keep(&all);
        self.push(totals);
        self.next_ns = u64::MAX;
    }

    fn keep(&mut self, all: &Coarse) {
        let bin = self.bins.len() as u32;
        for (which, (seen, now)) in (0u16..).zip(self.seen.iter_mut().zip(all)) {
            let more = now.saturating_sub(*seen);
            if more > 0 {
                self.latencies.push((bin, which, more));
                *seen = *now;
            }
        }
    }

    fn push(&mut self, totals: [Counts; 2]) {
        let [reads, writes] = [0, 1].map(|side| totals[side].since(self.last[side]));
        self.bins.push([reads, writes]);
        self.last = totals;
    }
}

/// The rows (t_ms, operations, bytes, latency_ns) of reads or writes of several workers.
pub(crate) fn merged<'a>(
    all: impl Iterator<Item = &'a Series>,
    side: usize,
) -> Vec<(u64, u64, u64, u64)> {
    let mut sums: Vec<Counts> = Vec::new();
    for series in all {
        for (number, bin) in (series.first as usize..).zip(&series.bins) {
            if number >= sums.len() {
                sums.resize(number + 1, Counts::default());
            }
            sums[number].add(bin[side]);
        }
    }
    let rows = (0u64..).zip(&sums);
    rows.map(|(n, bin)| {
        (
            n * BIN_NS / 1_000_000,
            bin.operations,
            bin.bytes,
            bin.latency_ns,
        )
    })
    .collect()
}

/// The rows (t_ms, low_ns, high_ns, count) of the latencies of several workers, both included.
pub(crate) fn merged_latencies<'a>(
    all: impl Iterator<Item = &'a Series>,
) -> Vec<(u64, u64, u64, u64)> {
    let mut sums: BTreeMap<(u64, u16), u64> = BTreeMap::new();
    for series in all {
        for (bin, which, count) in &series.latencies {
            *sums
                .entry((series.first + u64::from(*bin), *which))
                .or_default() += count;
        }
    }
    let rows = sums.into_iter().map(|((bin, which), count)| {
        let (low, high) = coarse_range(usize::from(which));
        (bin * BIN_NS / 1_000_000, low, high, count)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(operations: u64) -> [Counts; 2] {
        let counts = Counts {
            operations,
            bytes: operations * 512,
            latency_ns: operations * 10,
        };
        [counts, Counts::default()]
    }

    fn latencies(all: &[(u64, u64)]) -> Coarse {
        let mut histogram = schedlab_model::Histogram::new();
        all.iter()
            .for_each(|(ns, times)| histogram.record_many(*ns, *times));
        histogram.coarse()
    }

    #[test]
    fn a_pause_is_empty_bins_and_a_late_start_leaves_the_first_ones_empty() {
        let mut early = Series::new();
        early.begin(1000, 1000);
        early.advance(1000 + BIN_NS, total(3), || latencies(&[(10, 3)]));
        early.advance(1000 + 4 * BIN_NS + 5, total(3), || latencies(&[(10, 3)]));
        early.end(1000 + 4 * BIN_NS + 9, total(4), || {
            latencies(&[(10, 3), (5000, 1)])
        });
        let mut late = Series::new();
        late.begin(1000, 1000 + 2 * BIN_NS + 7);
        late.end(1000 + 2 * BIN_NS + 8, total(1), || latencies(&[(10, 1)]));
        let rows = merged([&early, &late].into_iter(), 0);
        let counts: Vec<_> = rows.iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(counts, [(0, 3), (100, 0), (200, 1), (300, 0), (400, 1)]);
        assert_eq!((rows[0].2, rows[0].3), (3 * 512, 30));
        assert_eq!(merged([&early].into_iter(), 1)[4], (400, 0, 0, 0));
        let rows = merged_latencies([&early, &late].into_iter());
        assert_eq!(rows, [(0, 0, 15, 3), (200, 0, 15, 1), (400, 4096, 5119, 1)]);
    }
}
