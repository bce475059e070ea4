//! Calculations that are counted, with their epochs and preemptions as they happen.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use serde::Deserialize;

use super::super::board::{Desk, Header, Reports};
use super::kernel::{Kernel, Matrices};
use crate::clock;

/// How calculations are counted.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counting {
    /// The calculation.
    #[serde(default)]
    pub kernel: Kernel,
    /// Length of a reported epoch.
    pub epoch_ns: u64,
    /// Epochs end at multiples of `epoch_ns` after the start, and missed ones are counted;
    /// otherwise each starts where the last one ended.
    #[serde(default)]
    pub epoch_grid: bool,
    /// Whether every preemption is reported ([`crate::cpu::Crew::take_preemptions`]).
    #[serde(default)]
    pub slices: bool,
}

/// Counts calculations until the time is over or the parent stops it.
pub(crate) fn count(
    how: &Counting,
    header: &Header,
    desk: &Desk,
    reports: &Reports,
    matrices: &mut Matrices,
) {
    let (start, end) = (header.start_ns.load(Relaxed), header.end_ns.load(Acquire));
    let mut slices = how.slices.then(|| SliceMeter::new(tick_ns(), start));
    let epoch_ns = how.epoch_ns.max(1);
    let mut next_epoch = start + epoch_ns;
    let mut count = 0u64;
    loop {
        let now = clock::now();
        if now >= next_epoch {
            let mut epochs = 0;
            if how.epoch_grid {
                while next_epoch <= now {
                    next_epoch += epoch_ns;
                    epochs += 1;
                }
            } else {
                next_epoch = now + epoch_ns;
                epochs = 1;
            }
            reports.epochs.push([now - start, count, epochs]);
        }
        desk.done_ns.store(now, Relaxed);
        if now >= end || header.is_stopped() {
            return;
        }
        if let Some(meter) = &mut slices {
            meter.step(now, count, reports);
        }
        matrices.calculate(how.kernel);
        count += 1;
        desk.units.store(count, Relaxed);
    }
}

/// Period of the tick: the coarse clock moves once in it.
fn tick_ns() -> u64 {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    resolution.tv_nsec as u64
}

fn preemptions() -> i64 {
    // SAFETY: rusage is plain data; the kernel fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

/// Reports every preemption that the worker survived to the parent: when it happened, and how much
/// was done by the end of the calculation that it fell into. Between two of them is a slice,
/// whose both ends lie between two calculations, so that its rate has no rounding error.
///
/// It counts the *plain* calculations apart, in the middle of a tick's period: neither a switch nor
/// a tick comes near them, under any quantum. Slices begin at ticks, so the period is counted
/// from the slice's begin.
struct SliceMeter {
    tick_ns: u64,
    preemptions: i64,
    seen_ns: u64,
    began_ns: u64,
    plain_since: Option<(u64, u64)>,
    plain_count: u64,
    plain_cpu_ns: u64,
}

impl SliceMeter {
    fn new(tick_ns: u64, now_ns: u64) -> Self {
        SliceMeter {
            tick_ns,
            preemptions: preemptions(),
            seen_ns: now_ns,
            began_ns: now_ns,
            plain_since: None,
            plain_count: 0,
            plain_cpu_ns: 0,
        }
    }

    #[inline]
    fn step(&mut self, now_ns: u64, count: u64, reports: &Reports) {
        let preemptions = preemptions();
        if preemptions > self.preemptions {
            self.plain_since = None;
            self.began_ns = now_ns;
            reports.preemptions.push([
                self.seen_ns,
                count,
                clock::thread_ns(),
                self.plain_count,
                self.plain_cpu_ns,
            ]);
        } else {
            let phase = now_ns.saturating_sub(self.began_ns) % self.tick_ns;
            let is_plain = phase >= self.tick_ns / 16 * 6 && phase < self.tick_ns / 16 * 13;
            match self.plain_since {
                None if is_plain => self.plain_since = Some((count, clock::thread_ns())),
                Some((count_before, cpu_before)) if !is_plain => {
                    self.plain_count += count - count_before;
                    self.plain_cpu_ns += clock::thread_ns() - cpu_before;
                    self.plain_since = None;
                }
                _ => {}
            }
        }
        self.preemptions = preemptions;
        self.seen_ns = now_ns;
    }
}
