//! Integer log-linear histogram: 64 equal bins per octave, so a value is known to 1/64 of itself
//! and the bins are those of fio's json+ output, which our runs export one to one.
//!
//! Why not a library: recording is one shift and one add in the measured window, and bins that
//! match fio's let its tools read our runs without a lossy second binning.

use serde::{Deserialize, Serialize};

/// log2 of the bins per octave.
const SUB_BITS: u32 = 6;
const BINS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

/// Counts of non-negative integers (here: nanoseconds), with exact sum, minimum and maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Packed", try_from = "Packed")]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    square_sum: f64,
    min: u64,
    max: u64,
}

/// One occupied bin: values `low..=high` were recorded `count` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The smallest value of the bin.
    pub low: u64,
    /// The largest value of the bin.
    pub high: u64,
    /// How many values fell in.
    pub count: u64,
}

/// A histogram on its way to another process: occupied bins by number, the sum in two
/// halves, the sum of squares as its bits (decimals would round it).
#[derive(Serialize, Deserialize)]
struct Packed {
    bins: Vec<(usize, u64)>,
    sum: (u64, u64),
    square_sum_bits: u64,
    min: u64,
    max: u64,
}

impl From<Histogram> for Packed {
    fn from(histogram: Histogram) -> Self {
        let occupied = histogram.counts.iter().copied().enumerate();
        Packed {
            bins: occupied.filter(|(_, count)| *count > 0).collect(),
            sum: ((histogram.sum >> 64) as u64, histogram.sum as u64),
            square_sum_bits: histogram.square_sum.to_bits(),
            min: histogram.min,
            max: histogram.max,
        }
    }
}

impl TryFrom<Packed> for Histogram {
    type Error = &'static str;

    fn try_from(packed: Packed) -> Result<Self, Self::Error> {
        let mut histogram = Histogram::new();
        for (index, count) in packed.bins {
            *histogram.counts.get_mut(index).ok_or("no such bin")? += count;
            histogram.count += count;
        }
        histogram.sum = u128::from(packed.sum.0) << 64 | u128::from(packed.sum.1);
        histogram.square_sum = f64::from_bits(packed.square_sum_bits);
        (histogram.min, histogram.max) = (packed.min, packed.max);
        Ok(histogram)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Bin of a value.
#[inline]
fn index(value: u64) -> usize {
    let top = 63 - (value | 1).leading_zeros();
    if top <= SUB_BITS {
        return value as usize;
    }
    let shift = top - SUB_BITS;
    (((shift + 1) as usize) << SUB_BITS) + ((value >> shift) as usize & ((1 << SUB_BITS) - 1))
}

/// Smallest value of a bin.
fn low_of(index: usize) -> u64 {
    if index < 2 << SUB_BITS {
        return index as u64;
    }
    let shift = (index >> SUB_BITS) - 1;
    (((1 << SUB_BITS) | (index & ((1 << SUB_BITS) - 1))) as u64) << shift
}

/// Largest value of a bin.
fn high_of(index: usize) -> u64 {
    if index + 1 == BINS {
        u64::MAX
    } else {
        low_of(index + 1) - 1
    }
}

/// Number of bins of every histogram.
pub const HISTOGRAM_BINS: usize = BINS;

/// The bin of a value, for counts that are kept outside a [`Histogram`] (in shared memory).
#[inline]
pub fn histogram_bin(value: u64) -> usize {
    index(value)
}

/// Bins that are one in [`Histogram::coarse`]: a quarter of an octave.
const COARSE: usize = 1 << (SUB_BITS - 2);
/// Counts in bins of a quarter of an octave.
pub type Coarse = [u64; BINS / COARSE];

/// The range of values of a coarse bin, both included.
pub fn coarse_range(bin: usize) -> (u64, u64) {
    (low_of(bin * COARSE), high_of(bin * COARSE + COARSE - 1))
}

/// The range of values of a bin, both included.
pub fn histogram_bin_range(bin: usize) -> (u64, u64) {
    (low_of(bin), high_of(bin))
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Histogram {
            counts: vec![0; BINS],
            count: 0,
            sum: 0,
            square_sum: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// The same counts in wider bins. Only where values are: a load does this between two requests,
    /// and the next one would be longer by it.
    pub fn coarse(&self) -> Coarse {
        let mut sums = [0; BINS / COARSE];
        if self.count > 0 {
            let (first, last) = (index(self.min) / COARSE, index(self.max) / COARSE);
            let wide = self.counts.chunks_exact(COARSE);
            for (sum, bins) in sums.iter_mut().zip(wide).take(last + 1).skip(first) {
                *sum = bins.iter().sum();
            }
        }
        sums
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts one value `times` times.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        self.counts[index(value)] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.square_sum += (value as f64) * (value as f64) * times as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all counts of `other`. Percentiles of several workers come from here, never from
    /// averaging their percentiles.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.square_sum += other.square_sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Smallest value, or nothing when empty.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest value, or nothing when empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Exact mean, or nothing when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Population standard deviation, or nothing when empty.
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some(
            (self.square_sum / self.count as f64 - mean * mean)
                .max(0.0)
                .sqrt(),
        )
    }

    /// The q-quantile (0 ≤ q ≤ 1) as the middle of its bin, held inside the exact minimum and
    /// maximum; nothing when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut cumulative = 0;
        for (i, count) in self.counts.iter().enumerate() {
            cumulative += count;
            if *count > 0 && cumulative >= rank {
                let (low, high) = (low_of(i), high_of(i));
                return Some((low + (high - low) / 2).clamp(self.min, self.max));
            }
        }
        None
    }

    /// The q-quantile, given only where at least 10/(1−q) values support it.
    pub fn supported_quantile(&self, q: f64) -> Option<u64> {
        (self.count as f64 * (1.0 - q) >= 10.0 - 1e-9)
            .then(|| self.quantile(q))
            .flatten()
    }

    /// The occupied bins, ascending.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(i, count)| Bin {
                low: low_of(i),
                high: high_of(i),
                count: *count,
            })
    }

    /// Forgets all values, keeping the memory; at once where there are none, as before the first
    /// request of a load.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.counts[index(self.min)..=index(self.max)].fill(0);
        }
        self.count = 0;
        self.sum = 0;
        self.square_sum = 0.0;
        self.min = u64::MAX;
        self.max = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn wider_bins_and_clearing_reach_the_first_and_the_last_value() {
        let (low, high) = (low_of(3 * COARSE + COARSE - 1), low_of(40 * COARSE));
        let mut histogram = Histogram::new();
        [low, low + 1, high]
            .iter()
            .for_each(|ns| histogram.record(*ns));
        let held = |of: &Histogram| {
            let sums = of.coarse().into_iter().enumerate();
            sums.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        assert_eq!(held(&histogram), [(3, 1), (4, 1), (40, 1)]);
        histogram.clear();
        assert_eq!(histogram, Histogram::new());
        assert_eq!(held(&histogram), []);
    }

    #[test]
    fn bins_tile_the_integers() {
        for i in 0..BINS - 1 {
            assert_eq!(high_of(i) + 1, low_of(i + 1));
            assert_eq!(index(low_of(i)), i);
            assert_eq!(index(high_of(i)), i);
        }
        assert_eq!(index(u64::MAX), BINS - 1);
    }

    #[test]
    fn quantiles_are_within_one_bin_of_the_exact_ones() {
        let mut rng = Rng::new(11, 0);
        let mut values: Vec<u64> = (0..20_001).map(|_| rng.exponential(1e6) as u64).collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|v| histogram.record(*v));
        values.sort_unstable();
        for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((q * 20_001.0f64).ceil() as usize).clamp(1, 20_001) - 1] as f64;
            let estimate = histogram.quantile(q).unwrap() as f64;
            assert!(
                (estimate - exact).abs() <= exact / 64.0 + 1.0,
                "{q}: {estimate} {exact}"
            );
        }
        let mean = values.iter().sum::<u64>() as f64 / 20_001.0;
        assert!((histogram.mean().unwrap() - mean).abs() < 1e-6 * mean);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for v in 0..1000u64 {
            if v % 3 == 0 { &mut a } else { &mut b }.record(v * v);
            both.record(v * v);
        }
        a.merge(&b);
        assert_eq!(
            a.bins().collect::<Vec<_>>(),
            both.bins().collect::<Vec<_>>()
        );
        assert_eq!(
            (a.sum(), a.min(), a.max()),
            (both.sum(), both.min(), both.max())
        );
        let (merged, together) = (a.deviation().unwrap(), both.deviation().unwrap());
        assert!((merged / together - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_value_counted_many_times_weighs_as_often() {
        let mut histogram = Histogram::new();
        histogram.record_many(10, 3);
        histogram.record_many(50, 1);
        assert_eq!((histogram.count(), histogram.mean()), (4, Some(20.0)));
        // Variance (3·10² + 30²)/4 = 300.
        assert!((histogram.deviation().unwrap() - 300.0f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_quantile_is_the_middle_of_its_bin() {
        let mut histogram = Histogram::new();
        [0, 10_000, 1 << 40]
            .iter()
            .for_each(|value| histogram.record(*value));
        let bin = Bin {
            low: 9984,
            high: 10_111,
            count: 1,
        };
        assert_eq!(histogram.bins().nth(1), Some(bin));
        assert_eq!(histogram.quantile(0.5), Some(10_047));
    }

    #[test]
    fn a_histogram_travels_whole() {
        let mut histogram = Histogram::new();
        for value in [0, 1, 63, 64, 1 << 40, u64::MAX, u64::MAX] {
            histogram.record(value);
        }
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        assert!(serde_json::from_str::<Histogram>(&text.replace("[[0,", "[[99999,")).is_err());
    }

    #[test]
    fn a_quantile_needs_enough_values() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), None);
        (0..999).for_each(|v| histogram.record(v));
        assert_eq!(histogram.supported_quantile(0.99), None);
        histogram.record(999);
        assert!(histogram.supported_quantile(0.99).is_some());
    }
}
