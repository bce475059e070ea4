//! The event heap, keyed (time, priority, sequence), so that ties are decided by rule and never
//! by the memory layout of a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things that will happen to tasks. The order of the variants is their order at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The task enters the system.
    Arrive(usize),
    /// The task's I/O is done.
    Wake(usize),
    /// The policy's own timer.
    Tick,
}

impl Event {
    fn priority(self) -> u8 {
        match self {
            Event::Arrive(_) => 0,
            Event::Wake(_) => 1,
            Event::Tick => 2,
        }
    }
}

/// Pending events, earliest first.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u8, u64, Event)>>,
    sequence: u64,
}

impl Events {
    /// Lets `event` happen at `time_ns`.
    pub(super) fn push(&mut self, time_ns: u64, event: Event) {
        self.heap
            .push(Reverse((time_ns, event.priority(), self.sequence, event)));
        self.sequence += 1;
    }

    /// When the next event happens.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((time_ns, ..))| *time_ns)
    }

    /// Takes the next event if it happens at `time_ns`.
    pub(super) fn pop_at(&mut self, time_ns: u64) -> Option<Event> {
        if self.next_ns()? != time_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}
