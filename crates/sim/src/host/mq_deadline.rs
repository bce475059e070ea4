//! `mq-deadline` (`block/mq-deadline.c`, Linux 6.x): deadline with a position that survives a
//! change of direction, and with classes of priority.

use super::deadline::{keep_older_place, next_direction, READ, WRITE};
use super::sorted::{Fifo, Sorted};
use super::{Allocation, Bio, Ctx, Facts, Id, MergeKind, Op, Scheduler, Settings};

/// Requests of one class.
#[derive(Clone, Default)]
struct PerClass {
    sorted: [Sorted; 2],
    fifo: [Fifo; 2],
    /// Start of the request dispatched last, by direction.
    position: [u64; 2],
    inserted: u64,
    completed: u64,
    dispatched: u64,
}

impl PerClass {
    fn queued(&self) -> usize {
        self.sorted[READ].len() + self.sorted[WRITE].len()
    }

    /// Queued or in the device.
    fn is_busy(&self) -> bool {
        self.inserted > self.completed
    }
}

/// The state that all classes share.
#[derive(Clone)]
pub struct MqDeadline {
    classes: [PerClass; 3],
    last_direction: usize,
    batching: u64,
    starved: u64,
    expire_ns: [u64; 2],
    aging_ns: u64,
    fifo_batch: u64,
    writes_starved: u64,
    front_merges: bool,
    async_depth: usize,
}

impl MqDeadline {
    fn place(&self, ctx: &Ctx, id: Id) -> (usize, usize) {
        let request = &ctx.requests[id];
        (
            request.context.class.index(),
            usize::from(request.is_write()),
        )
    }

    /// The next request of a class (`__dd_dispatch_request`), unless it was inserted less than
    /// `age_ns` ago: then the batch that it would have begun has begun all the same.
    fn dispatch_class(&mut self, ctx: &mut Ctx, class: usize, age_ns: u64) -> Option<Id> {
        let following = |one: &PerClass, direction: usize| {
            one.sorted[direction].at_or_after(one.position[direction])
        };
        let next = following(&self.classes[class], self.last_direction);
        let id = match next {
            Some(id) if self.batching < self.fifo_batch => id,
            _ => {
                let one = &self.classes[class];
                let direction =
                    next_direction(&one.sorted, &mut self.starved, self.writes_starved)?;
                let oldest = one.fifo[direction].head()?;
                let is_late = ctx.now_ns >= ctx.requests[oldest].fifo_ns;
                let next = following(one, direction);
                self.last_direction = direction;
                self.batching = 0;
                match next {
                    Some(next) if !is_late => next,
                    _ => oldest,
                }
            }
        };
        let direction = usize::from(ctx.requests[id].is_write());
        // A merge passes the older deadline on (`started_after`).
        let inserted_ns = ctx.requests[id].fifo_ns - self.expire_ns[direction];
        if inserted_ns + age_ns > ctx.now_ns {
            return None;
        }
        self.take(ctx, id);
        Some(id)
    }

    pub(super) fn take(&mut self, ctx: &mut Ctx, id: Id) {
        let (class, direction) = self.place(ctx, id);
        self.batching += 1;
        let one = &mut self.classes[class];
        one.position[direction] = ctx.requests[id].sector;
        one.sorted[direction].remove(&ctx.requests[id]);
        one.fifo[direction].remove(&mut ctx.requests, id);
        one.dispatched += 1;
    }

    /// A request that has waited so long that its class no longer matters
    /// (`dd_dispatch_prio_aged_requests`).
    fn dispatch_aged(&mut self, ctx: &mut Ctx) -> Option<Id> {
        // Those in the device count (`dd_queued`).
        let busy = self.classes.iter().filter(|class| class.is_busy());
        if busy.count() < 2 {
            return None;
        }
        (1..3).find_map(|class| self.dispatch_class(ctx, class, self.aging_ns))
    }
}

impl Scheduler for MqDeadline {
    const ALLOCATION: Allocation = Allocation::Scheduler;

    fn new(settings: &Settings, facts: &Facts) -> Self {
        MqDeadline {
            classes: Default::default(),
            // Writes: nothing has been dispatched, and the current batch is theirs.
            last_direction: WRITE,
            batching: 0,
            starved: 0,
            expire_ns: [
                settings.ticks_ns("read_expire", facts.hz),
                settings.ticks_ns("write_expire", facts.hz),
            ],
            aging_ns: settings.ticks_ns("prio_aging_expire", facts.hz),
            fifo_batch: settings.get("fifo_batch"),
            writes_starved: settings.get("writes_starved"),
            front_merges: settings.get("front_merges") == 1,
            async_depth: match settings.get("async_depth") {
                0 => facts.nr_requests,
                depth => depth as usize,
            },
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        let (class, direction) = self.place(ctx, id);
        ctx.requests[id].fifo_ns = ctx.now_ns + self.expire_ns[direction];
        let class = &mut self.classes[class];
        class.fifo[direction].push(&mut ctx.requests, id);
        class.sorted[direction].insert(&ctx.requests[id], id);
        class.inserted += 1;
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        if let Some(id) = self.dispatch_aged(ctx) {
            return Some(id);
        }
        for class in 0..3 {
            if let Some(id) = self.dispatch_class(ctx, class, 0) {
                return Some(id);
            }
            if self.classes[class].is_busy() {
                return None;
            }
        }
        None
    }

    fn completed(&mut self, ctx: &mut Ctx, id: Id) {
        let (class, _) = self.place(ctx, id);
        self.classes[class].completed += 1;
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        let class = &self.classes[bio.context.class.index()];
        let sorted = &class.sorted[usize::from(bio.op != Op::Read)];
        sorted.adjoining(&ctx.requests, bio, self.front_merges)
    }

    fn merged(&mut self, ctx: &mut Ctx, id: Id, kind: MergeKind, old_key: (u64, u64)) {
        let (class, direction) = self.place(ctx, id);
        self.classes[class].sorted[direction].moved(&ctx.requests[id], id, kind, old_key);
    }

    fn joinable(&self, ctx: &Ctx, id: Id) -> Option<(Id, Id)> {
        let (class, direction) = self.place(ctx, id);
        self.classes[class].sorted[direction].neighbour(&ctx.requests, id)
    }

    fn joined(&mut self, ctx: &mut Ctx, into: Id, gone: Id) {
        let (class, direction) = self.place(ctx, gone);
        let class = &mut self.classes[class];
        keep_older_place(&mut class.fifo[direction], ctx, into, gone);
        class.sorted[direction].remove(&ctx.requests[gone]);
        class.completed += 1;
    }

    fn limit_depth(&self, _ctx: &Ctx, op: Op, sync: bool) -> usize {
        match op {
            Op::Read if sync => usize::MAX,
            _ => self.async_depth,
        }
    }

    fn queued(&self) -> usize {
        self.classes.iter().map(PerClass::queued).sum()
    }
}
