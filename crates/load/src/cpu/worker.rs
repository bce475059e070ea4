//! What runs in a forked worker. Only system calls and arithmetic: no allocation, no lock, no
//! panic that unwinds, because the parent may have had other threads when it forked.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::attributes::Attributes;
use super::kernel::{Kernel, Matrices};
use super::mapping::{DONE, FAILED, READY};
use super::scheduling::errno;
use super::shared::{Header, Slot, GO, HELD, PREPARE};

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

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a valid timespec.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Monotonic time in nanoseconds.
pub(super) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub(super) fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
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
        // SAFETY: a shared futex on a mapped word; a null timeout waits.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                header.gate.as_ptr(),
                libc::FUTEX_WAIT,
                current,
                std::ptr::null::<libc::timespec>(),
            )
        };
    }
}

/// Lets every worker look at the gate again.
pub(super) fn open_gate(header: &Header, value: u32) {
    header.gate.store(value, Release);
    // SAFETY: wakes waiters on a mapped word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            header.gate.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
        )
    };
}

/// Ties the forked child to its parent: it dies with it, ignores the terminal's
/// Ctrl-C (the parent decides); `closing` all files lets a guardian's pipe see its owner die.
pub(super) fn detach(parent: i32, closing: bool) {
    // SAFETY: system calls on the child's own state, all allowed after fork.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        if closing {
            libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        }
    }
}

/// A fresh zeroed working set, or nothing when memory is short.
fn own_matrices() -> Option<&'static mut Matrices> {
    // SAFETY: a fresh private mapping; zero bytes are a valid value; it lives until exit.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            std::mem::size_of::<Matrices>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        (memory != libc::MAP_FAILED).then(|| &mut *memory.cast::<Matrices>())
    }
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
    let cpu_before = cpu_ns();
    calculate(orders, header, slot, matrices);
    slot.cpu_ns.store(cpu_ns() - cpu_before, Relaxed);
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
        let now = now_ns();
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
                cpu_ns(),
                self.plain_count,
                self.plain_cpu_ns,
            ]);
        } else {
            let phase = now_ns.saturating_sub(self.began_ns) % self.tick_ns;
            let is_plain = phase >= self.tick_ns / 16 * 6 && phase < self.tick_ns / 16 * 13;
            match self.plain_since {
                None if is_plain => self.plain_since = Some((count, cpu_ns())),
                Some((count_before, cpu_before)) if !is_plain => {
                    self.plain_count += count - count_before;
                    self.plain_cpu_ns += cpu_ns() - cpu_before;
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
