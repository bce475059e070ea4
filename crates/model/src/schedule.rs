//! When open-loop requests are due: independent arrivals, or one every 1/rate seconds. Latency is
//! counted from these times, so a stalled device cannot hide the requests that had to wait.

use crate::{Arrivals, Rng};

/// Stream of the workload's seed.
const STREAM: u64 = 1;

/// The intended start times of a worker's requests, in nanoseconds of the monotonic clock.
pub struct Schedule {
    start_ns: u64,
    drawn: u64,
    clock_ns: f64,
    gap_ns: f64,
    rng: Option<Rng>,
    due: u64,
}

impl Schedule {
    /// The schedule of an open loop; nothing for a closed one.
    pub fn new(arrivals: Arrivals, seed: u64) -> Option<Schedule> {
        Schedule::drawn_by(arrivals, seed, STREAM)
    }

    /// The same from that stream of the seed.
    pub fn drawn_by(arrivals: Arrivals, seed: u64, stream: u64) -> Option<Schedule> {
        let (rate, rng) = match arrivals {
            Arrivals::Closed { .. } => return None,
            Arrivals::Poisson { rate_per_s } => (rate_per_s, Some(Rng::new(seed, stream))),
            Arrivals::Constant { rate_per_s } => (rate_per_s, None),
        };
        Some(Schedule {
            start_ns: 0,
            drawn: 0,
            clock_ns: 0.0,
            gap_ns: 1e9 / rate,
            rng,
            due: 0,
        })
    }

    /// Starts the clock; the first constant arrival is due at once.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.due = start_ns;
        if self.rng.is_some() {
            self.advance();
        }
    }

    /// When the next request is due.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The due request was issued: draws the next time.
    #[inline]
    pub fn advance(&mut self) {
        self.drawn += 1;
        self.clock_ns = match &mut self.rng {
            Some(rng) => self.clock_ns + rng.exponential(self.gap_ns),
            None => self.drawn as f64 * self.gap_ns,
        };
        self.due = self.start_ns + self.clock_ns as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, 3).unwrap();
        schedule.begin(1000);
        (0..count)
            .map(|_| {
                let due = schedule.due();
                schedule.advance();
                due
            })
            .collect()
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        let times = times(Arrivals::Constant { rate_per_s: 3.0 }, 3_000_001);
        assert_eq!(times[0], 1000);
        assert_eq!(times[1], 1000 + 333_333_333);
        assert_eq!(times[3_000_000], 1000 + 1_000_000_000_000_000);
    }

    #[test]
    fn the_first_independent_arrival_is_no_sooner_than_the_others() {
        let arrivals = Arrivals::Poisson { rate_per_s: 1e3 };
        let mut first_ns = 0.0;
        for seed in 0..10_000 {
            let mut schedule = Schedule::new(arrivals, seed).unwrap();
            schedule.begin(1000);
            first_ns += (schedule.due() - 1000) as f64 / 1e4;
        }
        // Five standard errors of the mean of 10⁴ gaps of 1 ms.
        assert!((first_ns - 1e6).abs() < 5e4, "{first_ns}");
    }

    #[test]
    fn when_a_request_comes_does_not_tell_where_it_goes() {
        let (mut places, arrivals) = (Rng::new(3, 0), Arrivals::Poisson { rate_per_s: 1e3 });
        let mut schedule = Schedule::new(arrivals, 3).unwrap();
        schedule.begin(0);
        let mut before_ns = 0;
        let mut agree = 0;
        for _ in 0..10_000 {
            let gap_ns = schedule.due() - before_ns;
            before_ns = schedule.due();
            schedule.advance();
            // The median of the gaps is ln 2 of their mean.
            agree += i32::from((places.below(100) < 50) == (gap_ns < 693_147));
        }
        assert!((agree - 5000).abs() < 250, "{agree}");
    }

    #[test]
    fn poisson_gaps_have_mean_and_deviation_of_an_exponential() {
        let times = times(
            Arrivals::Poisson {
                rate_per_s: 10_000.0,
            },
            100_001,
        );
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1e5).abs() < 2_000.0, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03);
    }
}
