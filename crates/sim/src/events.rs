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

/// Future events in their order: a heap, and lanes for those of which each happens after the one
/// before, such as the ends of work that always takes equally long.
pub struct EventQueue<E, const LANES: usize = 0> {
    heap: BinaryHeap<Entry<E>>,
    lanes: [VecDeque<Entry<E>>; LANES],
    /// Keys of the first event of each lane, 0 for an empty one.
    firsts: [u128; LANES],
    /// The greatest of them and of the heap's, 0 where nothing is left: it is asked for several
    /// times between two changes.
    first: u128,
    /// The lane that it is in; none where it is in the heap.
    first_lane: usize,
    sequence: u64,
}

impl<E, const LANES: usize> Default for EventQueue<E, LANES> {
    fn default() -> Self {
        EventQueue {
            heap: BinaryHeap::new(),
            lanes: std::array::from_fn(|_| VecDeque::new()),
            firsts: [0; LANES],
            first: 0,
            first_lane: LANES,
            sequence: 0,
        }
    }
}

impl<E, const LANES: usize> EventQueue<E, LANES> {
    /// Adds an event at `time_ns`; of equal times the lower priority number comes first, of equal
    /// priorities the one that was added first.
    #[inline]
    pub fn push(&mut self, time_ns: u64, priority: u8, event: E) {
        let entry = self.entry(time_ns, priority, event);
        self.offer(entry.key, LANES);
        self.heap.push(entry);
    }

    /// The same, with priority 0, for an event after all that were added to this lane before,
    /// which costs less.
    #[inline]
    pub fn push_in_order(&mut self, lane: usize, time_ns: u64, event: E) {
        let entry = self.entry(time_ns, 0, event);
        let events = &mut self.lanes[lane];
        debug_assert!(
            events.back().is_none_or(|last| last.key > entry.key),
            "an event at {time_ns} ns is added after a later one"
        );
        let key = entry.key;
        let is_first = events.is_empty();
        events.push_back(entry);
        if is_first {
            self.firsts[lane] = key;
            self.offer(key, lane);
        }
    }

    #[inline]
    fn entry(&mut self, time_ns: u64, priority: u8, event: E) -> Entry<E> {
        let low = (u64::from(priority) << 56) | (self.sequence & ((1 << 56) - 1));
        self.sequence += 1;
        let key = !((u128::from(time_ns) << 64) | u128::from(low));
        Entry { key, event }
    }

    #[inline]
    fn offer(&mut self, key: u128, lane: usize) {
        if key > self.first {
            (self.first, self.first_lane) = (key, lane);
        }
    }

    /// When the next event happens.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        match self.first {
            0 => None,
            key => Some((!key >> 64) as u64),
        }
    }

    /// Takes the next event with its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let key = self.first;
        let lane = self.first_lane;
        let event = match self.lanes.get_mut(lane) {
            Some(events) => {
                let entry = events.pop_front()?;
                self.firsts[lane] = events.front().map_or(0, |next| next.key);
                entry.event
            }
            None => self.heap.pop()?.event,
        };
        self.first = self.heap.peek().map_or(0, |entry| entry.key);
        self.first_lane = LANES;
        for lane in 0..LANES {
            self.offer(self.firsts[lane], lane);
        }
        Some(((!key >> 64) as u64, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_time_then_priority_then_sequence() {
        let mut queue: EventQueue<char> = EventQueue::default();
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
        let mut queue: EventQueue<char, 2> = EventQueue::default();
        queue.push_in_order(0, 3, 'b');
        queue.push(3, 0, 'c');
        queue.push_in_order(0, 3, 'd');
        queue.push(2, 0, 'a');
        queue.push_in_order(0, 5, 'g');
        queue.push_in_order(1, 4, 'e');
        queue.push(4, 0, 'f');
        let pop = |queue: &mut EventQueue<char, 2>| {
            let next_ns = queue.next_time();
            let (time_ns, name) = queue.pop()?;
            assert_eq!(next_ns, Some(time_ns));
            Some(name)
        };
        let order: String = std::iter::from_fn(|| pop(&mut queue)).collect();
        assert_eq!((order.as_str(), queue.next_time()), ("abcdefg", None));
    }
}
