//! A piece of work of a fixed number of steps, and how long it takes on an idle CPU.

use std::hint::black_box;
use std::sync::OnceLock;

use crate::clock;

const STEPS: u64 = 200_000;
const TRIES: usize = 60;

/// Does `steps` steps of integer arithmetic; preempted time adds nothing to them.
#[inline]
pub(crate) fn spin(steps: u64) {
    let mut state = 1u64;
    for _ in 0..steps {
        state = black_box(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
}

/// Nanoseconds of a thousand steps: the fastest of many tries, which nothing interrupted. Measured
/// once, so that a piece of work is the same in all crews of this process.
pub(crate) fn spin_ns_per_1000() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let times = (0..TRIES).map(|_| {
            let began = clock::now();
            spin(STEPS);
            clock::now() - began
        });
        times.min().unwrap_or(1).max(1) as f64 / (STEPS / 1000) as f64
    })
}

/// Steps of a piece of work.
pub(crate) fn steps_of(work_ns: u64) -> u64 {
    (work_ns as f64 / spin_ns_per_1000() * 1000.0) as u64
}
