//! The memory that the tasks of a mix and their parent share: one header, one desk per task.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags};
use schedlab_model::{histogram_bin, histogram_bin_range, HISTOGRAM_BINS};

use super::super::scheduling::Refusal;

/// States of a desk; 0 is a task that is not ready yet.
pub(super) const READY: u32 = 1;
pub(super) const FAILED: u32 = 2;
pub(super) const DONE: u32 = 3;

/// Written by the parent, read by all tasks. The times are monotonic.
#[repr(C, align(128))]
pub(super) struct Header {
    /// 0 until the start; a futex.
    pub gate: AtomicU32,
    pub stop: AtomicU32,
    /// What is planned before is not counted.
    pub count_from_ns: AtomicU64,
    /// What is planned later is not done, and hogs count no more.
    pub end_ns: AtomicU64,
    /// Every task ends by itself then: until it, requests that were planned in time are served.
    pub close_ns: AtomicU64,
}

/// Counts by histogram bin, with one writer.
#[repr(C)]
pub(super) struct Counts([AtomicU64; HISTOGRAM_BINS]);

impl Counts {
    /// Counts a value.
    pub fn record(&self, value: u64) {
        let cell = &self.0[histogram_bin(value)];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }

    /// Rows low, high, count of the occupied bins.
    pub fn rows(&self) -> Vec<(u64, u64, u64)> {
        let occupied = self
            .0
            .iter()
            .enumerate()
            .map(|(bin, n)| (bin, n.load(Relaxed)));
        occupied
            .filter(|(_, n)| *n > 0)
            .map(|(bin, n)| {
                let (low, high) = histogram_bin_range(bin);
                (low, high.min(i64::MAX as u64), n)
            })
            .collect()
    }
}

/// Written by one task (and its messenger), read by the parent.
#[repr(C, align(128))]
pub(super) struct Desk {
    pub state: AtomicU32,
    pub errno: AtomicI32,
    /// Units of work of a hog, rounds or children of the finite tasks.
    pub units: AtomicU64,
    /// When a finite task was done.
    pub done_ns: AtomicU64,
    /// Requests that were posted to a worker; a futex.
    pub posted: AtomicU32,
    /// Requests that it finished.
    pub finished: AtomicU32,
    /// When the messenger woke it.
    pub woken_ns: AtomicU64,
    pub response: Counts,
    pub wakeup: Counts,
}

/// The mapping; unmapped when dropped.
pub(super) struct Board {
    base: NonNull<u8>,
    tasks: usize,
}

impl Board {
    fn length(tasks: usize) -> usize {
        std::mem::size_of::<Header>() + tasks * std::mem::size_of::<Desk>()
    }

    /// Zeroed memory for `tasks` tasks, inherited by forked children.
    pub fn new(tasks: usize) -> Result<Self, Refusal> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                Self::length(tasks),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            )
        }
        .map_err(|e| Refusal::new("memory", e.raw_os_error()))?;
        let base = NonNull::new(base.cast()).ok_or(Refusal::new("memory", libc::ENOMEM))?;
        Ok(Board { base, tasks })
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a Header, for which zero bytes are valid atomics.
        unsafe { self.base.cast().as_ref() }
    }

    pub fn desks(&self) -> &[Desk] {
        // SAFETY: `tasks` desks follow the header, both aligned to 128 bytes; all fields are
        // atomics, for which zero bytes are valid.
        unsafe {
            let first = self.base.add(std::mem::size_of::<Header>()).cast();
            std::slice::from_raw_parts(first.as_ptr(), self.tasks)
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), Self::length(self.tasks)) };
    }
}

// SAFETY: everything reached through the pointer is atomic.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// Sleeps while the word holds `seen`, at most 100 ms; wakes early at random, so callers look.
pub(super) fn futex_wait(word: &AtomicU32, seen: u32) {
    let limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    // SAFETY: a shared futex on a mapped word with a valid timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            seen,
            &raw const limit,
        )
    };
}

/// Wakes up to `tasks` sleepers.
pub(super) fn futex_wake(word: &AtomicU32, tasks: i32) {
    // SAFETY: wakes sleepers on a mapped word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, tasks) };
}

/// Sleeps to an absolute monotonic time; an interrupted sleep goes on.
pub(super) fn sleep_until(time_ns: u64) {
    let until = libc::timespec {
        tv_sec: (time_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (time_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: a valid timespec; nothing is written back for an absolute sleep.
    while unsafe {
        let (clock, absolute) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
        libc::clock_nanosleep(clock, absolute, &until, std::ptr::null_mut())
    } == libc::EINTR
    {}
}
