//! Whether a run is steady: overload, initial transient, and the interval of its mean.
//!
//! The transient is cut by MSER-5 (White, "An effective truncation heuristic for bias reduction in
//! simulation output", 1997): of the means of five responses each, in order of completion, the cut
//! d that minimises Σ(x − x̄)²/(k − d)². The interval comes from batch means (Law and Carson,
//! "A sequential procedure for determining the length of a steady-state simulation", 1979).

use serde::Serialize;

/// Responses of one mean, as published.
const GROUP: u64 = 5;
/// Means kept: beyond, neighbours are joined, so that memory does not grow with the run.
const GROUPS_MAX: usize = 1 << 16;
/// A cut from this share of the run on means that no steady state was reached.
const CUT_SHARE_MAX: f64 = 0.4;
/// Responses that must be left after the cut.
const LEFT_MIN: u64 = 1000;
/// Requests not complete at the last arrival, as a share of all, from which a run is overloaded.
const BACKLOG_SHARE_MAX: f64 = 0.02;
/// Batches with the 97.5 % quantile of Student's t for one degree of freedom less.
const BATCHES: [(usize, f64); 4] = [
    (30, 2.045_229_642),
    (20, 2.093_024_054),
    (15, 2.144_786_688),
    (10, 2.262_157_163),
];
/// Neighbouring batches that are more alike than that are too short.
const CORRELATION_MAX: f64 = 0.2;

/// The mean of a run with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Mean over the batches, ns.
    pub mean_ns: f64,
    /// Half of the 95 % interval, ns.
    pub half_width_ns: f64,
    /// Batches that it comes from.
    pub batches: usize,
    /// Correlation of neighbouring batches.
    pub lag_1_correlation: f64,
    /// Whether the batches are long enough to be taken as independent.
    pub is_reliable: bool,
}

/// The findings of [`Steady`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stationarity {
    /// Requests that were not complete when the last one arrived; 0 in a closed loop.
    pub backlog: u64,
    /// More requests arrive than can be served: responses grow with the length of the run.
    pub is_overloaded: bool,
    /// Completions that MSER-5 cuts off, or those on a cold device if these are more.
    pub cut_requests: u64,
    /// The same as a share of all.
    pub cut_share: f64,
    /// Completions before the buffer of the device was full and its flash was first collected,
    /// where it is written to; all of them where that did not come.
    pub cold_requests: u64,
    /// Too much of the run was served by an empty buffer or erased flash.
    pub is_cold: bool,
    /// Fewer than 1000 responses are left after the cut.
    pub is_too_short: bool,
    /// Neither overloaded, nor cold, nor with a transient over much of the run, nor too short.
    pub is_steady: bool,
}

/// Response times in the order of completion, in bounded memory.
#[derive(Clone, Debug)]
pub struct Steady {
    means: Vec<f64>,
    group: u64,
    sum: f64,
    in_group: u64,
    count: u64,
}

impl Default for Steady {
    fn default() -> Self {
        Steady {
            means: Vec::new(),
            group: GROUP,
            sum: 0.0,
            in_group: 0,
            count: 0,
        }
    }
}

impl Steady {
    /// Notes a response.
    #[inline]
    pub fn record(&mut self, response_ns: u64) {
        self.sum += response_ns as f64;
        self.in_group += 1;
        self.count += 1;
        if self.in_group == self.group {
            self.close_group();
        }
    }

    fn close_group(&mut self) {
        self.means.push(self.sum / self.group as f64);
        (self.sum, self.in_group) = (0.0, 0);
        if self.means.len() == GROUPS_MAX {
            for i in 0..GROUPS_MAX / 2 {
                self.means[i] = (self.means[2 * i] + self.means[2 * i + 1]) / 2.0;
            }
            self.means.truncate(GROUPS_MAX / 2);
            self.group *= 2;
        }
    }

    /// Groups that MSER cuts off, at most half of them.
    fn cut_groups(&self) -> usize {
        let k = self.means.len();
        let (mut sum, mut squares) = (0.0, 0.0);
        let mut best = (f64::INFINITY, 0);
        // About the overall mean: squares of large numbers would lose the differences.
        let centre = self.means.iter().sum::<f64>() / k.max(1) as f64;
        for d in (0..k).rev() {
            let x = self.means[d] - centre;
            sum += x;
            squares += x * x;
            let left = (k - d) as f64;
            let score = ((squares - sum * sum / left) / (left * left)).max(0.0);
            if d <= k / 2 && score <= best.0 {
                best = (score, d);
            }
        }
        best.1
    }

    /// The findings on the run; `backlog` requests were not complete at its last arrival,
    /// of an open loop whose queue has this `depth`, and `cold_requests` were complete when the
    /// device was last cold.
    pub fn stationarity(&self, backlog: u64, depth: u64, cold_requests: u64) -> Stationarity {
        let cold_requests = cold_requests.min(self.count);
        let cut_requests = cold_requests.max(self.cut_groups() as u64 * self.group);
        let is_cold = cold_requests as f64 >= CUT_SHARE_MAX * self.count.max(1) as f64;
        let cut_share = cut_requests as f64 / self.count.max(1) as f64;
        let share = backlog as f64 / self.count.max(1) as f64;
        let is_overloaded = backlog > 2 * depth && share > BACKLOG_SHARE_MAX;
        let is_too_short = self.count - cut_requests < LEFT_MIN;
        Stationarity {
            backlog,
            is_overloaded,
            cut_requests,
            cut_share,
            cold_requests,
            is_cold,
            is_too_short,
            is_steady: !is_overloaded && !is_too_short && cut_share < CUT_SHARE_MAX,
        }
    }

    /// The interval of the mean by batch means: the most batches whose neighbours are nearly
    /// uncorrelated; nothing where there are not two responses for each of ten batches.
    pub fn interval(&self) -> Option<Interval> {
        let mut interval = None;
        for (batches, t) in BATCHES {
            let size = self.means.len() / batches;
            if size == 0 {
                continue;
            }
            let from = self.means.len() - size * batches;
            let chunks = self.means[from..].chunks_exact(size);
            let means: Vec<f64> = chunks
                .map(|c| c.iter().sum::<f64>() / size as f64)
                .collect();
            let n = batches as f64;
            let mean = means.iter().sum::<f64>() / n;
            let squares: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
            let pairs = means
                .windows(2)
                .map(|two| (two[0] - mean) * (two[1] - mean));
            let lag_1_correlation = match squares > 0.0 {
                true => pairs.sum::<f64>() / squares,
                false => 0.0,
            };
            let is_reliable = lag_1_correlation <= CORRELATION_MAX;
            interval = Some(Interval {
                mean_ns: mean,
                half_width_ns: t * (squares / (n - 1.0) / n).sqrt(),
                batches,
                lag_1_correlation,
                is_reliable,
            });
            if is_reliable {
                break;
            }
        }
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Rng;

    /// Responses of M/M/1 by Lindley's recursion, in units of 1 us of service.
    fn m_m_1(load: f64, count: u64, seed: u64) -> Steady {
        let mut rng = Rng::new(seed, 3);
        let mut steady = Steady::default();
        let mut wait = 0.0;
        for _ in 0..count {
            let service = rng.exponential(1e6);
            steady.record((wait + service) as u64);
            wait = (wait + service - rng.exponential(1e6 / load)).max(0.0);
        }
        steady
    }

    #[test]
    fn the_interval_of_m_m_1_covers_its_mean_in_95_of_100_runs() {
        for (load, count) in [(0.5, 30_000), (0.8, 120_000)] {
            let known = 1e6 / (1.0 - load);
            let covered = (0..1000).filter(|seed| {
                let interval = m_m_1(load, count, *seed).interval().unwrap();
                (interval.mean_ns - known).abs() <= interval.half_width_ns
            });
            let covered = covered.count();
            assert!(
                (930..=970).contains(&covered),
                "load {load}: {covered} of 1000"
            );
        }
    }

    #[test]
    fn the_transient_is_cut_and_no_more() {
        let mut rng = Rng::new(1, 0);
        let mut steady = Steady::default();
        for i in 0..20_000u64 {
            let level = if i < 2_000 { 5e6 } else { 1e6 };
            steady.record((level + rng.unit() * 1e5) as u64);
        }
        let stationarity = steady.stationarity(0, 128, 0);
        assert_eq!(stationarity.cut_requests, 2_000);
        assert!(stationarity.is_steady && !stationarity.is_cold);
        // The device was cold for longer, or for all of the run, whatever the responses were.
        let cold = steady.stationarity(0, 128, 7_999);
        assert!(cold.cut_requests == 7_999 && cold.is_steady);
        for cold_requests in [8_000, 30_000] {
            let cold = steady.stationarity(0, 128, cold_requests);
            assert!(cold.is_cold && !cold.is_steady && cold.cut_requests <= 20_000);
        }
    }

    #[test]
    fn overload_is_named_whatever_the_length() {
        for count in [20_000, 80_000] {
            let mut steady = m_m_1(1.3, count, 1);
            let stationarity = steady.stationarity(count / 5, 128, 0);
            assert!(stationarity.is_overloaded && !stationarity.is_steady);
            // Without a backlog the growth itself decides.
            assert!(
                !steady.stationarity(0, 128, 0).is_steady,
                "{stationarity:?}"
            );
            steady = m_m_1(0.9, count, 1);
            assert!(steady.stationarity(10, 128, 0).is_steady);
        }
    }

    #[test]
    fn long_runs_keep_bounded_memory_and_the_same_mean() {
        let mut steady = Steady::default();
        for i in 0..3_000_000u64 {
            steady.record(1000 + i % 7);
        }
        assert!(steady.means.len() < GROUPS_MAX);
        let interval = steady.interval().unwrap();
        assert!((interval.mean_ns - 1003.0).abs() < 0.01);
        assert!(steady.stationarity(0, 1, 0).is_steady);
        assert!(Steady::default().interval().is_none());
        assert!(Steady::default().stationarity(0, 1, 0).is_too_short);
    }
}
