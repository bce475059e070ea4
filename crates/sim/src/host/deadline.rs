//! `deadline` of Linux up to 4.20 (`block/deadline-iosched.c`): by sector in batches, reads before
//! writes, and what is late first.

use super::sorted::{Fifo, Sorted};
use super::{Allocation, Bio, Ctx, Facts, Id, MergeKind, Op, Scheduler, Settings};

pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;

/// State by direction.
pub struct Deadline {
    sorted: [Sorted; 2],
    fifo: [Fifo; 2],
    /// Where a batch continues.
    next: [Option<Id>; 2],
    batching: u64,
    starved: u64,
    expire_ns: [u64; 2],
    fifo_batch: u64,
    writes_starved: u64,
    front_merges: bool,
}

impl Deadline {
    fn take(&mut self, ctx: &mut Ctx, id: Id) -> Id {
        let direction = usize::from(ctx.requests[id].is_write());
        self.batching += 1;
        self.next[1 - direction] = None;
        self.next[direction] = self.sorted[direction].successor(ctx.requests[id].key());
        self.sorted[direction].remove(&ctx.requests[id]);
        self.fifo[direction].remove(&mut ctx.requests, id);
        id
    }
}

impl Scheduler for Deadline {
    const ALLOCATION: Allocation = Allocation::Legacy;

    fn new(settings: &Settings, facts: &Facts) -> Self {
        Deadline {
            sorted: Default::default(),
            fifo: Default::default(),
            next: [None; 2],
            batching: 0,
            starved: 0,
            expire_ns: [
                settings.ticks_ns("read_expire", facts.hz),
                settings.ticks_ns("write_expire", facts.hz),
            ],
            fifo_batch: settings.get("fifo_batch"),
            writes_starved: settings.get("writes_starved"),
            front_merges: settings.get("front_merges") == 1,
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        let direction = usize::from(ctx.requests[id].is_write());
        ctx.requests[id].fifo_ns = ctx.now_ns + self.expire_ns[direction];
        self.fifo[direction].push(&mut ctx.requests, id);
        self.sorted[direction].insert(&ctx.requests[id], id);
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        if let Some(id) = self.next[WRITE].or(self.next[READ]) {
            if self.batching < self.fifo_batch {
                return Some(self.take(ctx, id));
            }
        }
        let direction = next_direction(&self.sorted, &mut self.starved, self.writes_starved)?;
        let oldest = self.fifo[direction].head()?;
        let is_late = ctx.now_ns >= ctx.requests[oldest].fifo_ns;
        let id = match self.next[direction] {
            Some(next) if !is_late => next,
            _ => oldest,
        };
        self.batching = 0;
        Some(self.take(ctx, id))
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        let sorted = &self.sorted[usize::from(bio.op != Op::Read)];
        sorted.adjoining(&ctx.requests, bio, self.front_merges)
    }

    fn merged(&mut self, ctx: &mut Ctx, id: Id, kind: MergeKind, old_key: (u64, u64)) {
        let request = &ctx.requests[id];
        self.sorted[usize::from(request.is_write())].moved(request, id, kind, old_key);
    }

    fn joinable(&self, ctx: &Ctx, id: Id) -> Option<(Id, Id)> {
        let direction = usize::from(ctx.requests[id].is_write());
        self.sorted[direction].neighbour(&ctx.requests, id)
    }

    fn joined(&mut self, ctx: &mut Ctx, into: Id, gone: Id) {
        let direction = usize::from(ctx.requests[gone].is_write());
        keep_older_place(&mut self.fifo[direction], ctx, into, gone);
        self.sorted[direction].remove(&ctx.requests[gone]);
        if self.next[direction] == Some(gone) {
            self.next[direction] = self.sorted[direction].successor(ctx.requests[gone].key());
        }
    }

    fn queued(&self) -> usize {
        self.sorted.iter().map(Sorted::len).sum()
    }
}

/// The direction of the next batch: reads, until they have been preferred to writes that wait
/// `writes_starved` times.
pub(super) fn next_direction(
    sorted: &[Sorted; 2],
    starved: &mut u64,
    writes_starved: u64,
) -> Option<usize> {
    let writes = !sorted[WRITE].is_empty();
    if !sorted[READ].is_empty() {
        if !writes {
            return Some(READ);
        }
        *starved += 1;
        if *starved <= writes_starved {
            return Some(READ);
        }
    } else if !writes {
        return None;
    }
    *starved = 0;
    Some(WRITE)
}

/// `gone` leaves the FIFO; if it was older, `into` takes its place there.
pub(super) fn keep_older_place(fifo: &mut Fifo, ctx: &mut Ctx, into: Id, gone: Id) {
    if ctx.requests[gone].fifo_ns < ctx.requests[into].fifo_ns {
        fifo.remove(&mut ctx.requests, into);
        fifo.insert_before(&mut ctx.requests, into, gone);
    }
    fifo.remove(&mut ctx.requests, gone);
}
