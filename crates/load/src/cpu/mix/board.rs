//! The memory that the tasks of a mix and their parent share: one header, one desk per task.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use schedlab_model::{histogram_bin, histogram_bin_range, HISTOGRAM_BINS};

use crate::child::{Mapping, Zeroed};

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

// SAFETY: atomics only, aligned to 128 bytes.
unsafe impl Zeroed for Header {}
// SAFETY: as above.
unsafe impl Zeroed for Desk {}

/// The memory of a mix: its parts are the desks.
pub(super) type Board = Mapping<Header, Desk>;

/// How long a task sleeps on a word before it looks again.
pub(super) const A_WHILE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
