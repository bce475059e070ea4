//! A bounded buffer that puts nearly sorted requests in order.

use std::collections::VecDeque;

use super::TraceRecord;

/// Holds the last `window` records back; those of equal time keep their order.
///
/// A deque sorted by insertion from behind: a record in order costs one push, one that is d
/// records late costs d moves. A heap would cost log(window) for every record.
pub struct Reorder {
    waiting: VecDeque<TraceRecord>,
    window: usize,
    given_ns: u64,
}

impl Reorder {
    /// A buffer of `window` records.
    pub fn new(window: usize) -> Self {
        Reorder {
            waiting: VecDeque::with_capacity(window.min(1 << 16) + 1),
            window,
            given_ns: 0,
        }
    }

    /// How many records are held back at most.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Takes a record in; an error has the ns by which it comes too late.
    #[inline]
    pub fn push(&mut self, record: TraceRecord) -> Result<(), u64> {
        let arrival = record.request.arrival;
        if arrival.0 < self.given_ns {
            return Err(self.given_ns - arrival.0);
        }
        let mut at = self.waiting.len();
        if at > 0 && self.waiting[at - 1].request.arrival > arrival {
            at = self
                .waiting
                .partition_point(|r| r.request.arrival <= arrival);
            self.waiting.insert(at, record);
        } else {
            self.waiting.push_back(record);
        }
        Ok(())
    }

    /// The next record in order, once more than the window wait; at the end, all of them.
    #[inline]
    pub fn pop(&mut self, ended: bool) -> Option<TraceRecord> {
        if self.waiting.len() <= self.window && !ended {
            return None;
        }
        let record = self.waiting.pop_front()?;
        self.given_ns = record.request.arrival.0;
        Some(record)
    }
}
