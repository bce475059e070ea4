//! The parts that cfq and bfq share: which request of a queue is next, think times, seeks.

use super::request::{HostRequest, Id, Pool};
use super::sorted::{Fifo, Sorted};
use super::Settings;

/// Sectors of distance from which a request is a seek where a head moves.
const SEEK_SECTORS: u64 = 800;
/// A request of so many sectors is worth as much as a sequential one where none does.
pub(super) const LARGE_SECTORS: u64 = 64;

/// Whether a request starts far from where another ended; not if there was no other yet.
pub(super) fn is_far(sector: u64, last_end: u64) -> bool {
    last_end > 0 && sector.abs_diff(last_end) > SEEK_SECTORS
}

/// How far back is near.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backwards {
    pub(super) max_sectors: u64,
    pub(super) penalty: u64,
}

impl Backwards {
    pub(super) fn new(settings: &Settings) -> Self {
        Backwards {
            max_sectors: settings.get("back_seek_max").saturating_mul(2),
            penalty: settings.get("back_seek_penalty"),
        }
    }

    /// The weighed distance from `last`; nothing where the head would have to go round.
    fn distance(&self, sector: u64, last: u64) -> Option<u64> {
        if sector >= last {
            Some(sector - last)
        } else if last - sector <= self.max_sectors {
            Some((last - sector).saturating_mul(self.penalty))
        } else {
            None
        }
    }

    /// Which of two requests goes first when the head is at `last`.
    pub(super) fn choose(
        &self,
        requests: &Pool<HostRequest>,
        a: Option<Id>,
        b: Option<Id>,
        last: u64,
    ) -> Option<Id> {
        let (Some(a), Some(b)) = (a, b) else {
            return a.or(b);
        };
        let (one, other) = (&requests[a], &requests[b]);
        if one.sync != other.sync {
            return Some(if one.sync { a } else { b });
        }
        let distances = (
            self.distance(one.sector, last),
            self.distance(other.sector, last),
        );
        Some(match distances {
            (Some(x), Some(y)) if x < y => a,
            (Some(x), Some(y)) if y < x => b,
            (Some(_), Some(_)) if one.sector >= other.sector => a,
            (Some(_), Some(_)) => b,
            (Some(_), None) => a,
            (None, Some(_)) => b,
            (None, None) if one.sector <= other.sector => a,
            (None, None) => b,
        })
    }

    /// The successor of a request in its queue, from which it is about to be taken.
    pub(super) fn next_after(
        &self,
        requests: &Pool<HostRequest>,
        sorted: &Sorted,
        id: Id,
    ) -> Option<Id> {
        let request = &requests[id];
        let next = sorted.successor(request.key());
        let next = next.or_else(|| sorted.first().filter(|first| *first != id));
        let before = sorted.predecessor(request.key());
        self.choose(requests, next, before, request.sector)
    }
}

/// Mean time between a completion and the process's next request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    samples: u64,
    total: u64,
    pub(super) mean_ns: u64,
}

impl ThinkTime {
    pub(super) fn add(&mut self, time_ns: u64, slice_idle_ns: u64) {
        let time_ns = time_ns.min(2 * slice_idle_ns);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * time_ns) / 8;
        self.mean_ns = (self.total + 128) / self.samples;
    }

    pub(super) fn is_valid(&self) -> bool {
        self.samples > 80
    }
}

/// The last 32 requests of a queue: which of them were seeks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seeks {
    history: u32,
    pub(super) last_end: u64,
}

impl Seeks {
    /// One that counts the request before its first as a seek.
    pub(super) fn after_a_seek() -> Self {
        Seeks {
            history: 1,
            last_end: 0,
        }
    }

    pub(super) fn add(&mut self, request: &HostRequest, is_seek: bool) {
        self.history = self.history << 1 | u32::from(is_seek);
        self.last_end = request.end();
    }

    /// A bio became part of the request that was the last.
    pub(super) fn grown(&mut self, request: &HostRequest) {
        self.last_end = self.last_end.max(request.end());
    }

    pub(super) fn count(&self) -> u32 {
        self.history.count_ones()
    }
}

/// The requests of one queue of cfq or bfq.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    pub(super) sorted: Sorted,
    pub(super) fifo: Fifo,
    pub(super) next: Option<Id>,
    pub(super) sync: usize,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn add(
        &mut self,
        requests: &mut Pool<HostRequest>,
        id: Id,
        back: &Backwards,
        last: u64,
    ) {
        self.fifo.push(requests, id);
        self.sorted.insert(&requests[id], id);
        self.sync += usize::from(requests[id].sync);
        self.next = back.choose(requests, self.next, Some(id), last);
    }

    pub(super) fn take(&mut self, requests: &mut Pool<HostRequest>, id: Id, back: &Backwards) {
        if self.next == Some(id) {
            self.next = back.next_after(requests, &self.sorted, id);
        }
        self.sorted.remove(&requests[id]);
        self.fifo.remove(requests, id);
        self.sync -= usize::from(requests[id].sync);
    }

    /// `gone` became part of `into`.
    pub(super) fn drop_joined(&mut self, requests: &mut Pool<HostRequest>, into: Id, gone: Id) {
        if requests[gone].fifo_ns < requests[into].fifo_ns {
            self.fifo.remove(requests, into);
            self.fifo.insert_before(requests, into, gone);
        }
        self.fifo.remove(requests, gone);
        self.sorted.remove(&requests[gone]);
        self.sync -= usize::from(requests[gone].sync);
    }

    /// The oldest, if it is late.
    pub(super) fn late(&self, requests: &Pool<HostRequest>, now_ns: u64) -> Option<Id> {
        let id = self.fifo.head()?;
        (now_ns >= requests[id].fifo_ns).then_some(id)
    }
}
