//! Wall clock and modelled time. The only file that reads a clock.

use std::time::Instant;

/// Nanoseconds since its start, monotonic.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at 0.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Wall time, ns.
    pub fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Time dilation ×k: modelled time passes k times slower than the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// k in thousandths: integers keep conversions monotonic and exact for k = 1.
    thousandths: u64,
}

impl Scale {
    /// Dilation by `k`, rounded to 1/1000, at least that.
    pub fn new(k: f64) -> Self {
        Scale {
            thousandths: ((k * 1000.0).round() as u64).max(1),
        }
    }

    /// Wall time as modelled time, rounded down.
    pub fn to_model_ns(self, wall_ns: u64) -> u64 {
        (u128::from(wall_ns) * 1000 / u128::from(self.thousandths)) as u64
    }

    /// Modelled time as wall time, rounded up: not before it has come.
    pub fn to_wall_ns(self, model_ns: u64) -> u64 {
        (u128::from(model_ns) * u128::from(self.thousandths)).div_ceil(1000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dilation_by_one_changes_nothing() {
        let scale = Scale::new(1.0);
        assert_eq!(scale.to_model_ns(123_456_789), 123_456_789);
        assert_eq!(scale.to_wall_ns(123_456_789), 123_456_789);
    }

    #[test]
    fn a_modelled_time_has_come_at_its_wall_time_and_not_before() {
        for k in [0.5, 1.0, 2.5, 10.0, 33.333] {
            let scale = Scale::new(k);
            for model_ns in [1, 7, 1000, 8_333_333, 1 << 40] {
                let wall_ns = scale.to_wall_ns(model_ns);
                assert!(scale.to_model_ns(wall_ns) >= model_ns);
                assert!(scale.to_model_ns(wall_ns - 1) < model_ns);
            }
        }
    }
}
