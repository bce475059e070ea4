//! Future events, ordered by (time, priority, sequence), so that ties never depend on the heap.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Something that happens at a time.
struct Entry<E> {
    /// Time in the upper 64 bits, then 8 bits of priority, then the sequence number, inverted so
    /// that the greatest entry of the max-heap is the earliest.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Future events in their order.
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    /// Those that were added in the order in which they happen.
    in_order: VecDeque<Entry<E>>,
    sequence: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            heap: BinaryHeap::new(),
            in_order: VecDeque::new(),
            sequence: 0,
        }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event at `time_ns`; of equal times the lower priority number comes first, of equal
    /// priorities the one that was added first.
    #[inline]
    pub fn push(&mut self, time_ns: u64, priority: u8, event: E) {
        let entry = self.entry(time_ns, priority, event);
        self.heap.push(entry);
    }

    /// The same for events each of which happens after those that were added in this way before,
    /// which costs less.
    #[inline]
    pub fn push_in_order(&mut self, time_ns: u64, priority: u8, event: E) {
        let entry = self.entry(time_ns, priority, event);
        debug_assert!(
            self.in_order.back().is_none_or(|last| last.key > entry.key),
            "an event at {time_ns} ns is added after a later one"
        );
        self.in_order.push_back(entry);
    }

    #[inline]
    fn entry(&mut self, time_ns: u64, priority: u8, event: E) -> Entry<E> {
        let low = (u64::from(priority) << 56) | (self.sequence & ((1 << 56) - 1));
        self.sequence += 1;
        let key = !((u128::from(time_ns) << 64) | u128::from(low));
        Entry { key, event }
    }

    /// When the next event happens.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        let next = match (self.heap.peek(), self.in_order.front()) {
            (Some(one), Some(other)) => one.key.max(other.key),
            (one, other) => one.or(other)?.key,
        };
        Some((!next >> 64) as u64)
    }

    /// Takes the next event with its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let entry = match (self.heap.peek(), self.in_order.front()) {
            (Some(one), Some(other)) if one.key > other.key => self.heap.pop()?,
            (Some(_), None) => self.heap.pop()?,
            _ => self.in_order.pop_front()?,
        };
        Some(((!entry.key >> 64) as u64, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_time_then_priority_then_sequence() {
        let mut queue = EventQueue::default();
        for (time, priority, name) in [
            (5, 0, 'e'),
            (3, 1, 'c'),
            (3, 0, 'a'),
            (3, 0, 'b'),
            (3, 1, 'd'),
        ] {
            queue.push(time, priority, name);
        }
        assert_eq!(queue.next_time(), Some(3));
        let order: String = std::iter::from_fn(|| queue.pop().map(|(_, name)| name)).collect();
        assert_eq!(order, "abcde");
    }

    #[test]
    fn events_added_in_order_are_among_the_others() {
        let mut queue = EventQueue::default();
        queue.push_in_order(3, 0, 'b');
        queue.push(3, 0, 'c');
        queue.push_in_order(3, 0, 'd');
        queue.push(2, 0, 'a');
        queue.push_in_order(5, 0, 'f');
        queue.push(4, 0, 'e');
        let pop = |queue: &mut EventQueue<char>| {
            let next_ns = queue.next_time();
            let (time_ns, name) = queue.pop()?;
            assert_eq!(next_ns, Some(time_ns));
            Some(name)
        };
        let order: String = std::iter::from_fn(|| pop(&mut queue)).collect();
        assert_eq!((order.as_str(), queue.next_time()), ("abcdef", None));
    }
}
