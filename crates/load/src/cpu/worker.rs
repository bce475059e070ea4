//! What runs in a forked worker. Only system calls and arithmetic: no allocation, no lock, no
//! panic that unwinds, because the parent may have had other threads when it forked.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::attributes::Attributes;
use super::kernel::{Kernel, Matrices};
use super::shared::{Header, Slot, GO, HELD, PREPARE};
use crate::child::{detach, errno, futex_wait, futex_wake, own_memory, DONE, FAILED, READY};
use crate::clock;

/// The parameters of a worker, fixed before the fork.
#[derive(Clone, Copy)]
pub(super) struct Orders {
    pub kernel: Kernel,
    pub scheduling: Attributes,
    /// 0: until the parent stops it.
    pub duration_ns: u64,
    pub epoch_ns: u64,
    /// Epochs end at multiples of `epoch_ns` after the start, and missed ones are counted;
    /// otherwise each starts where the last one ended.
    pub epoch_grid: bool,
    /// Period of the scheduler's tick where every slice is reported; 0: none is.
    pub tick_ns: u64,
    pub parent: i32,
}

fn preemptions() -> i64 {
    // SAFETY: rusage is plain data; the kernel fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

/// Sleeps until the gate shows at least `value`.
fn wait_for(header: &Header, value: u32) {
    loop {
        let current = header.gate.load(Acquire);
        if current >= value {
            return;
        }
        futex_wait(&header.gate, current, None);
    }
}

/// Lets every worker look at the gate again.
pub(super) fn open_gate(header: &Header, value: u32) {
    header.gate.store(value, Release);
    futex_wake(&header.gate, i32::MAX);
}

/// A fresh zeroed working set, or nothing when memory is short.
fn own_matrices() -> Option<&'static mut Matrices> {
    let memory = own_memory(std::mem::size_of::<Matrices>())?;
    // SAFETY: so many bytes of a page of their own; zero bytes are a valid value.
    Some(unsafe { &mut *memory.as_mut_ptr().cast::<Matrices>() })
}

/// The life of a worker, from fork to exit.
pub(super) fn run(orders: &Orders, header: &Header, slot: &Slot) -> ! {
    detach(orders.parent, true);
    wait_for(header, PREPARE);
    let fail = |number: i32| {
        slot.errno.store(number, Relaxed);
        slot.state.store(FAILED, Release);
        // SAFETY: ends the process without running anything else.
        unsafe { libc::_exit(1) }
    };
    let Some(matrices) = own_matrices() else {
        fail(errno())
    };
    matrices.fill();
    matrices.calculate(orders.kernel);
    if let Err(number) = orders.scheduling.enter_worker() {
        fail(number)
    }
    slot.state.store(READY, Release);
    wait_for(header, GO);
    let cpu_before = clock::thread_ns();
    calculate(orders, header, slot, matrices);
    slot.cpu_ns.store(clock::thread_ns() - cpu_before, Relaxed);
    slot.checksum.store(matrices.checksum(), Relaxed);
    slot.state.store(DONE, Release);
    // SAFETY: ends the process without running anything else.
    unsafe { libc::_exit(0) }
}

/// Counts calculations until the time is over or the parent stops it.
fn calculate(orders: &Orders, header: &Header, slot: &Slot, matrices: &mut Matrices) {
    let start = header.start_ns.load(Relaxed);
    let mut slices = (orders.tick_ns > 0).then(|| SliceMeter::new(orders.tick_ns, start));
    let mut next_epoch = start + orders.epoch_ns;
    let mut count = 0u64;
    loop {
        let now = clock::now();
        if now >= next_epoch {
            let mut epochs = 0;
            if orders.epoch_grid {
                while next_epoch <= now {
                    next_epoch += orders.epoch_ns;
                    epochs += 1;
                }
            } else {
                next_epoch = now + orders.epoch_ns;
                epochs = 1;
            }
            slot.epochs.push([now - start, count, epochs]);
        }
        slot.elapsed_ns.store(now.saturating_sub(start), Relaxed);
        let over = orders.duration_ns > 0 && now >= start + orders.duration_ns;
        if over || header.stop.load(Relaxed) != 0 {
            return;
        }
        if let Some(meter) = &mut slices {
            meter.step(now, count, slot);
        }
        matrices.calculate(orders.kernel);
        count += 1;
        slot.count.store(count, Relaxed);
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
    fn step(&mut self, now_ns: u64, count: u64, slot: &Slot) {
        let preemptions = preemptions();
        if preemptions > self.preemptions {
            self.plain_since = None;
            self.began_ns = now_ns;
            slot.slices.push([
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

#[allow(clippy::assertions_on_constants)]
const _: () = assert!(HELD < PREPARE && PREPARE < GO);
