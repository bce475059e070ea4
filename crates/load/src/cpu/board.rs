//! The memory that the tasks of a crew and their parent share: one header, one desk per task, and
//! what calculations report.

use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use schedlab_model::{histogram_bin, histogram_bin_range, HISTOGRAM_BINS};

use crate::child::{Mapping, Zeroed};
use crate::clock;

/// Entries of a ring: 100 s of epochs of 100 ms, some seconds of slices of 4 ms.
const RING: usize = 1024;

/// Written by the parent, read by all tasks. The times are monotonic.
#[repr(C, align(128))]
pub(crate) struct Header {
    /// 0 until the start; a futex.
    pub gate: AtomicU32,
    pub stop: AtomicU32,
    /// Tasks whose work is done; a futex.
    pub ended: AtomicU32,
    pub start_ns: AtomicU64,
    /// Work that is planned before is not counted.
    pub count_from_ns: AtomicU64,
    /// Work that is planned later is not done, and hogs count no more.
    pub end_ns: AtomicU64,
    /// Every task ends by itself then: until it, requests that were planned in time are served.
    pub close_ns: AtomicU64,
}

impl Header {
    /// The parent wants all tasks to end.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) != 0
    }
}

/// Counts by histogram bin, with one writer.
#[repr(C)]
pub(crate) struct Counts([AtomicU64; HISTOGRAM_BINS]);

impl Counts {
    /// Counts a value.
    pub fn record(&self, value: u64) {
        add_one(&self.0[histogram_bin(value)]);
    }

    /// Rows low, high, count of the bins that any of these occupies.
    pub fn rows<'a>(all: impl Iterator<Item = &'a Counts> + Clone) -> Vec<(u64, u64, u64)> {
        let sums = (0..HISTOGRAM_BINS).map(|bin| {
            let (low, high) = histogram_bin_range(bin);
            let count = all.clone().map(|counts| counts.0[bin].load(Relaxed)).sum();
            (low, high.min(i64::MAX as u64), count)
        });
        sums.filter(|(.., count)| *count > 0).collect()
    }
}

/// Written by one task (and its messenger), read by the parent.
#[repr(C, align(128))]
pub(crate) struct Desk {
    pub state: AtomicU32,
    pub errno: AtomicI32,
    /// Pieces, requests, rounds, children or calculations; of a task that failed, the step.
    pub units: AtomicU64,
    /// When its first round was over, of tasks that have some.
    pub began_ns: AtomicU64,
    /// When its work was done; of a calculation, the end of the last one.
    pub done_ns: AtomicU64,
    /// CPU time from the gate to the end of its work.
    pub cpu_ns: AtomicU64,
    pub checksum: AtomicU32,
    /// Requests that were posted to a worker; a futex.
    pub posted: AtomicU32,
    /// Requests that it finished.
    pub finished: AtomicU32,
    /// When the messenger woke it.
    pub woken_ns: AtomicU64,
    pub response: Counts,
    pub wakeup: Counts,
}

impl Desk {
    /// One more unit of work is done.
    pub fn count(&self) {
        add_one(&self.units);
    }

    /// Round `round` of `rounds` is over, from 0; whether another one shall follow. Rounds are
    /// counted seldom: after a switch shared pages are slow to reach.
    #[inline]
    pub fn lap(&self, header: &Header, round: u64, rounds: u64) -> bool {
        if round == 0 {
            self.began_ns.store(clock::now(), Relaxed);
        }
        if round % 64 != 0 && round + 1 < rounds {
            return true;
        }
        self.units.store(round + 1, Relaxed);
        !header.is_stopped()
    }
}

/// Adds one to a number that no other task writes.
fn add_one(number: &AtomicU64) {
    number.store(number.load(Relaxed) + 1, Relaxed);
}

/// Reports of a calculation as it goes; on pages of their own, which only those who write have.
#[repr(C, align(128))]
pub(crate) struct Reports {
    /// Time since the start, calculations since the start, epochs that ended since the last report.
    pub epochs: Ring<3>,
    /// Monotonic time of the last calculation's end before a preemption; calculations since the
    /// start with the one that it fell into, and the CPU time at the end of that; plain
    /// calculations so far, which no switch and no tick came near, and the CPU time of those.
    pub preemptions: Ring<5>,
}

/// A ring of events of some words with one writer and one reader. The writer never waits: events
/// that were overwritten before they were read are counted by the reader.
#[repr(C)]
pub(crate) struct Ring<const WORDS: usize> {
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
    events: [[AtomicU64; WORDS]; RING],
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Adds an event. Called by the task only.
    pub fn push(&self, event: [u64; WORDS]) {
        let written = self.written.load(Relaxed);
        for (cell, value) in self.events[written as usize % RING].iter().zip(event) {
            cell.store(value, Relaxed);
        }
        self.written.store(written + 1, Release);
    }

    /// The events since the last call.
    pub fn take(&self) -> Vec<[u64; WORDS]> {
        let (read, written) = (self.read.load(Relaxed), self.written.load(Acquire));
        let lost = (written - read).saturating_sub(RING as u64);
        self.lost.store(self.lost() + lost, Relaxed);
        self.read.store(written, Relaxed);
        let cells = (read + lost..written).map(|i| &self.events[i as usize % RING]);
        cells
            .map(|cells| std::array::from_fn(|k| cells[k].load(Relaxed)))
            .collect()
    }

    /// Events that were overwritten before they were taken.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

// SAFETY: atomics only, aligned to 128 bytes.
unsafe impl Zeroed for Header {}
// SAFETY: as above.
unsafe impl Zeroed for Desk {}
// SAFETY: as above.
unsafe impl Zeroed for Reports {}

/// The memory of a crew: its parts are the desks.
pub(crate) type Board = Mapping<Header, Desk>;
/// Its parts are those of the desks.
pub(crate) type ReportBoard = Mapping<(), Reports>;

/// How long a task sleeps on a word before it looks again.
pub(crate) const A_WHILE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overrun_ring_says_how_much_it_lost() {
        let board = ReportBoard::new(1, false).unwrap();
        let ring = &board.parts()[0].epochs;
        (0..5).for_each(|i| ring.push([i, i * 2, i * 3]));
        assert_eq!(ring.take()[4], [4, 8, 12]);
        (0..RING as u64 + 7).for_each(|i| ring.push([i, 0, 0]));
        let events = ring.take();
        assert_eq!((events.len(), ring.lost(), events[0][0]), (RING, 7, 7));
    }
}
