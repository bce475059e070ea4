//! `none` and `noop`: first come, first served (`block/blk-mq-sched.c`, `block/noop-iosched.c`).

use super::sorted::{Fifo, Sorted};
use super::{Allocation, Bio, Ctx, Facts, Id, MergeKind, Scheduler, Settings};

/// How many of a process's newest requests are checked for a merge.
pub(super) const NEWEST: usize = 8;

/// No scheduler: requests go to the device as they come.
pub struct None {
    fifo: Fifo,
    queued: usize,
}

impl Scheduler for None {
    const ALLOCATION: Allocation = Allocation::Driver;

    fn new(_settings: &Settings, _facts: &Facts) -> Self {
        None {
            fifo: Fifo::default(),
            queued: 0,
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        self.fifo.push(&mut ctx.requests, id);
        self.queued += 1;
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        let id = self.fifo.pop(&mut ctx.requests)?;
        self.queued -= 1;
        Some(id)
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        adjoining_newest(&self.fifo, ctx, bio)
    }

    fn queued(&self) -> usize {
        self.queued
    }
}

/// The newest of the process's requests that the bio adjoins: each process has a CPU of its own.
pub(super) fn adjoining_newest(fifo: &Fifo, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
    let own = |id: &Id| ctx.requests[*id].process == bio.process;
    let mut newest = fifo.newest(&ctx.requests).filter(own).take(NEWEST);
    newest.find_map(|id| {
        let request = &ctx.requests[id];
        if request.op != bio.op || request.sync != bio.sync {
            return Option::None;
        }
        if request.end() == bio.sector {
            return Some((id, MergeKind::Back));
        }
        (bio.end() == request.sector).then_some((id, MergeKind::Front))
    })
}

/// The legacy scheduler that only merges.
pub struct Noop {
    fifo: Fifo,
    /// By direction, for merges only.
    sorted: [Sorted; 2],
}

impl Scheduler for Noop {
    const ALLOCATION: Allocation = Allocation::Legacy;

    fn new(_settings: &Settings, _facts: &Facts) -> Self {
        Noop {
            fifo: Fifo::default(),
            sorted: Default::default(),
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        self.fifo.push(&mut ctx.requests, id);
        let request = &ctx.requests[id];
        self.sorted[usize::from(request.is_write())].insert(request, id);
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        let id = self.fifo.pop(&mut ctx.requests)?;
        let request = &ctx.requests[id];
        self.sorted[usize::from(request.is_write())].remove(request);
        Some(id)
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        let sorted = &self.sorted[usize::from(bio.op != super::Op::Read)];
        sorted.adjoining(&ctx.requests, bio, true)
    }

    fn merged(&mut self, ctx: &mut Ctx, id: Id, kind: MergeKind, old_key: (u64, u64)) {
        let request = &ctx.requests[id];
        self.sorted[usize::from(request.is_write())].moved(request, id, kind, old_key);
    }

    fn joinable(&self, ctx: &Ctx, id: Id) -> Option<(Id, Id)> {
        let request = &ctx.requests[id];
        self.sorted[usize::from(request.is_write())].neighbour(&ctx.requests, id)
    }

    fn joined(&mut self, ctx: &mut Ctx, _into: Id, gone: Id) {
        self.fifo.remove(&mut ctx.requests, gone);
        let request = &ctx.requests[gone];
        self.sorted[usize::from(request.is_write())].remove(request);
    }

    fn queued(&self) -> usize {
        self.sorted.iter().map(Sorted::len).sum()
    }
}
