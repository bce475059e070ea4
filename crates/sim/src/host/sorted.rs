//! Requests in the order of sectors and in the order of insertion; neither is ever searched.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::request::{HostRequest, Id, Pool, NONE};
use super::{Bio, MergeKind};

/// Requests in the order of their first sectors.
#[derive(Clone, Debug, Default)]
pub struct Sorted(BTreeMap<(u64, u64), Id>);

impl Sorted {
    /// Takes a request in.
    pub fn insert(&mut self, request: &HostRequest, id: Id) {
        self.0.insert(request.key(), id);
    }

    /// Takes it out again.
    pub fn remove(&mut self, request: &HostRequest) {
        self.0.remove(&request.key());
    }

    /// A bio was merged into a request that stood at `old_key`.
    pub fn moved(&mut self, request: &HostRequest, id: Id, kind: MergeKind, old_key: (u64, u64)) {
        if kind == MergeKind::Front {
            self.0.remove(&old_key);
            self.insert(request, id);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest.
    pub fn first(&self) -> Option<Id> {
        self.0.first_key_value().map(|(_, id)| *id)
    }

    /// The first that starts at `sector` or behind.
    pub fn at_or_after(&self, sector: u64) -> Option<Id> {
        self.0.range((sector, 0)..).next().map(|(_, id)| *id)
    }

    /// The last that starts before `sector`.
    pub fn before(&self, sector: u64) -> Option<Id> {
        self.0.range(..(sector, 0)).next_back().map(|(_, id)| *id)
    }

    /// The next behind `key`, which need not be there.
    pub fn successor(&self, key: (u64, u64)) -> Option<Id> {
        let mut rest = self.0.range((Excluded(key), Unbounded));
        rest.next().map(|(_, id)| *id)
    }

    /// The last before `key`.
    pub fn predecessor(&self, key: (u64, u64)) -> Option<Id> {
        self.0.range(..key).next_back().map(|(_, id)| *id)
    }

    /// The request that a bio adjoins: at its end, or at its start if `front` allows.
    pub fn adjoining(
        &self,
        requests: &Pool<HostRequest>,
        bio: &Bio,
        front: bool,
    ) -> Option<(Id, MergeKind)> {
        if let Some(id) = self.before(bio.sector) {
            if requests[id].end() == bio.sector {
                return Some((id, MergeKind::Back));
            }
        }
        if !front {
            return None;
        }
        let id = self.at_or_after(bio.end())?;
        (requests[id].sector == bio.end()).then_some((id, MergeKind::Front))
    }

    /// The neighbours directly before and behind a request that is held.
    pub fn neighbour(&self, requests: &Pool<HostRequest>, id: Id) -> Option<(Id, Id)> {
        let request = &requests[id];
        if let Some(before) = self.predecessor(request.key()) {
            if requests[before].end() == request.sector {
                return Some((before, id));
            }
        }
        let behind = self.successor(request.key())?;
        (requests[behind].sector == request.end()).then_some((id, behind))
    }
}

/// Requests in the order of insertion; the links are in the requests.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: Id,
    tail: Id,
}

impl Default for Fifo {
    fn default() -> Self {
        Fifo {
            head: NONE,
            tail: NONE,
        }
    }
}

impl Fifo {
    /// The oldest.
    pub fn head(&self) -> Option<Id> {
        (self.head != NONE).then_some(self.head)
    }

    /// Appends a request.
    pub fn push(&mut self, requests: &mut Pool<HostRequest>, id: Id) {
        requests[id].previous = self.tail;
        requests[id].next = NONE;
        match self.tail {
            NONE => self.head = id,
            tail => requests[tail].next = id,
        }
        self.tail = id;
    }

    /// Puts a request before one that is there.
    pub fn insert_before(&mut self, requests: &mut Pool<HostRequest>, id: Id, behind: Id) {
        let previous = requests[behind].previous;
        requests[id].previous = previous;
        requests[id].next = behind;
        requests[behind].previous = id;
        match previous {
            NONE => self.head = id,
            previous => requests[previous].next = id,
        }
    }

    /// Takes one out from any place.
    pub fn remove(&mut self, requests: &mut Pool<HostRequest>, id: Id) {
        let (previous, next) = (requests[id].previous, requests[id].next);
        match previous {
            NONE => self.head = next,
            previous => requests[previous].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => requests[next].previous = previous,
        }
        (requests[id].previous, requests[id].next) = (NONE, NONE);
    }

    /// Takes the oldest out.
    pub fn pop(&mut self, requests: &mut Pool<HostRequest>) -> Option<Id> {
        let id = self.head()?;
        self.remove(requests, id);
        Some(id)
    }

    /// All, the newest first.
    pub fn newest<'a>(&self, requests: &'a Pool<HostRequest>) -> impl Iterator<Item = Id> + 'a {
        let some = |id: Id| (id != NONE).then_some(id);
        std::iter::successors(some(self.tail), move |id| some(requests[*id].previous))
    }
}
