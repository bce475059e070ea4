//! The memory that workers and parent share: two gates, and a slot per worker.

use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::child::{Mapping, Zeroed};

/// Entries of an event ring: 100 s of epochs of 100 ms, some seconds of slices of 4 ms.
const RING: usize = 1024;

/// Gate values: closed, workers may prepare, workers may calculate.
pub(super) const HELD: u32 = 0;
pub(super) const PREPARE: u32 = 1;
pub(super) const GO: u32 = 2;

/// Written by the parent, read by all workers.
#[repr(C, align(128))]
pub(super) struct Header {
    pub gate: AtomicU32,
    pub stop: AtomicU32,
    pub start_ns: AtomicU64,
}

/// Written by one worker, read by the parent; on separate cache lines.
#[repr(C, align(128))]
pub(super) struct Slot {
    pub state: AtomicU32,
    pub errno: AtomicI32,
    pub count: AtomicU64,
    pub elapsed_ns: AtomicU64,
    pub cpu_ns: AtomicU64,
    pub checksum: AtomicU32,
    pub epochs: Ring<3>,
    pub slices: Ring<5>,
}

/// A ring of events of some words with one writer and one reader. The writer never waits: events
/// that were overwritten before they were read are counted by the reader.
#[repr(C)]
pub(super) struct Ring<const WORDS: usize> {
    written: AtomicU64,
    events: [[AtomicU64; WORDS]; RING],
}

impl<const WORDS: usize> Ring<WORDS> {
    /// Adds an event. Called by the worker only.
    pub fn push(&self, event: [u64; WORDS]) {
        let written = self.written.load(Relaxed);
        for (cell, value) in self.events[written as usize % RING].iter().zip(event) {
            cell.store(value, Relaxed);
        }
        self.written.store(written + 1, Release);
    }

    /// The events since `*read`, which is moved on; and how many were overwritten before.
    pub fn take(&self, read: &mut u64) -> (Vec<[u64; WORDS]>, u64) {
        let written = self.written.load(Acquire);
        let lost = (written - *read).saturating_sub(RING as u64);
        let events = (*read + lost..written)
            .map(|i| {
                let cells = &self.events[i as usize % RING];
                std::array::from_fn(|k| cells[k].load(Relaxed))
            })
            .collect();
        *read = written;
        (events, lost)
    }
}

// SAFETY: atomics only, aligned to 128 bytes.
unsafe impl Zeroed for Header {}
// SAFETY: as above.
unsafe impl Zeroed for Slot {}

/// The memory of a crew: its parts are the slots.
pub(super) type Shared = Mapping<Header, Slot>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overrun_ring_says_how_much_it_lost() {
        let shared = Shared::new(1, false).unwrap();
        let ring = &shared.parts()[0].epochs;
        let mut read = 0;
        (0..5).for_each(|i| ring.push([i, i * 2, i * 3]));
        assert_eq!(ring.take(&mut read).0[4], [4, 8, 12]);
        (0..RING as u64 + 7).for_each(|i| ring.push([i, 0, 0]));
        let (events, lost) = ring.take(&mut read);
        assert_eq!((events.len(), lost, events[0][0]), (RING, 7, 7));
    }
}
