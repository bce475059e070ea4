//! `bfq` (`block/bfq-iosched.c`, Linux 6.x): each process gets a share of the service by weight,
//! in slots of a budget, and is waited for where that pays. Omitted: several actuators, nested
//! cgroups, limits of tags per cgroup.
//!
//! One thing is decided, not modelled: in the kernel a request that waited longer than
//! `fifo_expire_*` is next unless a nearer one is inserted before the next dispatch, a race of
//! microseconds between the completion's dispatch and the process that it wakes. In a simulation
//! the same side can win every time, and a process wait for ever. Here a request that waited eight
//! times as long stays next.

mod idle;
mod inject;
mod join;
mod queue;
mod rate;
mod slot;
mod weight;
mod wf2q;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::order::Backwards;
use super::request::Class;
use super::{Allocation, Bio, Ctx, Facts, Id, IoContext, MergeKind, Op, Scheduler, Settings, NONE};
use inject::Injection;
use join::Creation;
use queue::{Process, Queue, Raised, Reason};
use rate::{HardwareQueue, PeakRate};
use weight::Bursts;
use wf2q::Tree;

const MS: u64 = 1_000_000;
/// An idle-class queue is served at least so often.
const IDLE_CLASS_NS: u64 = 200 * MS;
/// A process that issued nothing for so long is interactive when it comes back.
const LONG_IDLE_NS: u64 = 2000 * MS;
/// How much more an async sector costs.
const ASYNC_CHARGE: u64 = 3;
/// A late request stays next after so many times `fifo_expire_*`.
const OVERDUE: u64 = 8;

/// The start of the current tick, by which bfq reckons most of its times.
fn jiffies_ns(ctx: &Ctx) -> u64 {
    ctx.now_ns - ctx.now_ns % (1_000_000_000 / ctx.device.hz)
}

/// Everything.
#[derive(Clone, Default)]
pub struct Bfq {
    queues: Vec<Queue>,
    sync_of: Vec<u32>,
    async_of: [[u32; 8]; 3],
    trees: [Tree; 3],
    in_service: Option<u32>,
    /// The queue to serve after it.
    next: Option<u32>,
    processes: BTreeMap<u32, Process>,
    /// Weights of busy queues that are not raised, and how many have each.
    weights: BTreeMap<u64, usize>,
    busy: [usize; 3],
    /// Queues that wait for a slot, in the order in which they came to do so.
    active_list: Vec<u32>,
    raised_busy: usize,
    queued: usize,
    /// The request that a bio is first tried to be merged into.
    last_merge: Option<Id>,
    in_flight: usize,
    last_position: u64,
    /// The same of the queue in service alone.
    in_service_position: u64,
    slot_start_ns: u64,
    idling_since_ns: u64,
    timer_ns: Option<u64>,
    idle_class_ns: u64,
    hardware: HardwareQueue,
    rate: PeakRate,
    bursts: Bursts,
    creation: Creation,
    injection: Injection,
    back: Backwards,
    fifo_expire_ns: [u64; 2],
    slice_idle_ns: u64,
    timeout_ns: u64,
    strict: bool,
    low_latency: bool,
    rotational: bool,
    merges_queues: bool,
    merges_stable: bool,
    injects: bool,
}

impl Bfq {
    /// The queue that serves a context now, made if there is none.
    fn queue_of(&mut self, ctx: &Ctx, context: IoContext, sync: bool) -> u32 {
        let slot = if sync {
            let owner = context.owner as usize;
            if self.sync_of.len() <= owner {
                self.sync_of.resize(owner + 1, NONE);
            }
            &mut self.sync_of[owner]
        } else {
            &mut self.async_of[context.class.index()][usize::from(context.level)]
        };
        if *slot == NONE {
            *slot = self.queues.len() as u32;
            let id = *slot;
            let most = self.rate.max_budget();
            let tick_ns = jiffies_ns(ctx);
            self.queues
                .push(Queue::new(context, sync, ctx.now_ns, tick_ns, most));
            if sync {
                self.created(ctx, id);
            }
            return match sync {
                true => self.sync_of[context.owner as usize],
                false => id,
            };
        }
        let id = *slot;
        match sync {
            true => self.leave(ctx, context, id),
            false => id,
        }
    }

    /// Follows a queue to the one that it was merged into.
    fn settled(&self, mut id: u32) -> u32 {
        while let Some(into) = self.queues[id as usize].merged_into {
            id = into;
        }
        id
    }

    /// The queue of a bio that is not inserted yet, if there is one.
    fn known_queue(&self, context: IoContext, sync: bool) -> Option<u32> {
        let id = match sync {
            true => *self.sync_of.get(context.owner as usize)?,
            false => self.async_of[context.class.index()][usize::from(context.level)],
        };
        (id != NONE).then_some(id)
    }

    /// A process has so many more requests.
    fn hold(&mut self, owner: u32, more: i32) {
        let held = &mut self.process(owner).held;
        *held = held.saturating_add_signed(more);
    }

    fn process(&mut self, owner: u32) -> &mut Process {
        self.processes.entry(owner).or_default()
    }

    /// No process uses the queue any more.
    fn is_left(&self, id: u32) -> bool {
        self.queues[id as usize].merged_into.is_some() && !self.sync_of.contains(&id)
    }

    fn busy_queues(&self) -> usize {
        self.busy.iter().sum()
    }

    /// The service that a request counts for.
    fn charge(&self, ctx: &Ctx, id: u32, request: Id) -> u64 {
        let queue = &self.queues[id as usize];
        let sectors = u64::from(ctx.requests[request].sectors);
        match queue.is_sync || queue.is_raised() || self.is_asymmetric(Some(id)) {
            true => sectors,
            false => sectors * ASYNC_CHARGE,
        }
    }

    /// Keeps count of the weights that are not all alike.
    fn count_weight(&mut self, id: u32) {
        let queue = &mut self.queues[id as usize];
        if queue.counted.is_none() && !queue.is_raised() {
            let weight = queue.own_weight();
            queue.counted = Some(weight);
            *self.weights.entry(weight).or_default() += 1;
        }
    }

    fn uncount_weight(&mut self, id: u32) {
        let Some(weight) = self.queues[id as usize].counted.take() else {
            return;
        };
        if let Some(count) = self.weights.get_mut(&weight) {
            *count -= 1;
            if *count == 0 {
                self.weights.remove(&weight);
            }
        }
    }

    fn make_busy(&mut self, ctx: &Ctx, id: u32, in_time: bool) {
        self.activate(ctx, id, in_time);
        let queue = &mut self.queues[id as usize];
        queue.is_busy = true;
        self.busy[queue.class()] += 1;
        self.raised_busy += usize::from(queue.is_raised());
        let waker = queue.waker;
        if queue.in_flight == 0 {
            self.count_weight(id);
        }
        if let Some(waker) = waker {
            self.note_woken(waker, id);
        }
    }

    fn make_idle(&mut self, ctx: &Ctx, id: u32, expires: bool) {
        let queue = &mut self.queues[id as usize];
        queue.is_busy = false;
        self.busy[queue.class()] -= 1;
        self.raised_busy -= usize::from(queue.is_raised());
        self.deactivate(ctx, id, expires);
        if self.queues[id as usize].in_flight == 0 {
            self.uncount_weight(id);
        }
    }

    /// The next request of a queue is another: its budget must suffice for that one, unless it is
    /// in service (`bfq_updated_next_req`).
    fn rebudget(&mut self, ctx: &Ctx, id: u32) {
        let queue = &self.queues[id as usize];
        let Some(next) = queue.requests.next.filter(|_| self.in_service != Some(id)) else {
            return;
        };
        let charge = self.charge(ctx, id, next);
        let budget = queue.max_budget.max(charge).max(queue.service);
        if queue.budget != budget {
            self.queues[id as usize].budget = budget;
            self.requeue(ctx, id, false);
        }
    }

    /// A queue was without requests and has one again: is its process interactive?
    fn wake(&mut self, ctx: &Ctx, id: u32) -> bool {
        let in_time_until = 3 * self.slice_idle_ns;
        let queue = &self.queues[id as usize];
        let arrived_in_time = ctx.now_ns <= queue.last_end_ns + in_time_until;
        let charge = queue
            .requests
            .next
            .map_or(0, |next| self.charge(ctx, id, next));
        let queue = &mut self.queues[id as usize];
        let preempts = queue.was_waiting && arrived_in_time && queue.budget_left() > 0;
        let in_time = queue.was_waiting && arrived_in_time;
        if preempts {
            queue.budget = queue.budget_left().min(queue.max_budget);
        } else {
            queue.budget = queue.max_budget.max(charge);
        }
        queue.service = 0;
        queue.was_waiting = false;
        let interactive = self.raise_on_arrival(ctx, id);
        let queue = &mut self.queues[id as usize];
        queue.backlogged_ns = jiffies_ns(ctx);
        queue.backlogged_service = 0;
        queue.soft_update = false;
        self.make_busy(ctx, id, in_time && preempts);
        self.preempt(ctx, id, preempts);
        interactive
    }

    /// Whether a woken queue ends the slot in service.
    fn preempt(&mut self, ctx: &Ctx, id: u32, wants: bool) {
        let Some(serving) = self.in_service.filter(|serving| *serving != id) else {
            return;
        };
        let (queue, other) = (&self.queues[id as usize], &self.queues[serving as usize]);
        let outranks = queue.class() < other.class() || queue.weight > other.weight;
        let by_right = wants && queue.coefficient() >= other.coefficient();
        if by_right || outranks || !self.is_better_to_idle(serving) {
            self.expire(ctx, serving, false, Reason::Preempted);
        }
    }

    /// Takes a request out of its queue.
    fn remove(&mut self, ctx: &mut Ctx, id: u32, request: Id) {
        let queue = &mut self.queues[id as usize];
        let was_next = queue.requests.next == Some(request);
        queue.late = queue.late.filter(|late| *late != request);
        if was_next && !std::mem::replace(&mut queue.fifo_checked, true) {
            let late = queue.requests.late(&ctx.requests, ctx.now_ns);
            queue.late = late.filter(|late| *late != request);
        }
        queue.requests.take(&mut ctx.requests, request, &self.back);
        if was_next {
            queue.requests.next = queue.late.or(queue.requests.next);
            self.rebudget(ctx, id);
        }
        self.queued -= 1;
        self.last_merge = self.last_merge.filter(|last| *last != request);
        let queue = &self.queues[id as usize];
        if queue.requests.is_empty() && queue.is_busy && self.in_service != Some(id) {
            // Nothing expires it.
            self.make_idle(ctx, id, false);
            let queue = &mut self.queues[id as usize];
            (queue.budget, queue.service) = (0, 0);
        }
    }

    /// A queue gets service, or is charged for some (`bfq_bfqq_served`).
    fn served(&mut self, ctx: &Ctx, id: u32, sectors: u64) {
        let queue = &mut self.queues[id as usize];
        if queue.backlogged_service == 0 {
            queue.first_service_ns = jiffies_ns(ctx);
        }
        if queue.is_raised() {
            queue.raised_service += sectors;
        }
        queue.backlogged_service += sectors;
        let class = queue.class();
        self.trees[class].served(&mut self.queues, id, sectors);
    }

    fn serve(&mut self, ctx: &mut Ctx, id: u32) -> Option<Id> {
        let request = self.queues[id as usize].requests.next?;
        let charge = self.charge(ctx, id, request);
        self.served(ctx, id, charge);
        if self.in_service == Some(id) {
            self.note_dispatch(request);
        }
        self.queues[id as usize].in_flight += 1;
        let sectors = u64::from(ctx.requests[request].sectors);
        let is_seek = self.is_seek(&ctx.requests[request], self.last_position);
        self.rate
            .dispatched(ctx.now_ns, sectors, self.in_flight, is_seek);
        self.last_position = ctx.requests[request].end();
        if self.in_service == Some(id) {
            self.in_service_position = self.last_position;
        }
        self.remove(ctx, id, request);
        if self.in_service == Some(id) {
            self.update_raising(ctx, id);
            let is_idle = self.queues[id as usize].context.class == Class::Idle;
            if is_idle && self.busy_queues() > 1 {
                self.expire(ctx, id, false, Reason::Exhausted);
            }
        }
        self.in_flight += 1;
        Some(request)
    }
}

/// The late request of a queue that no nearer one may pass any more.
fn overdue(ctx: &Ctx, queue: &Queue, expire_ns: u64) -> Option<Id> {
    let limit_ns = (OVERDUE - 1) * expire_ns;
    queue
        .late
        .filter(|late| ctx.now_ns >= ctx.requests[*late].fifo_ns + limit_ns)
}

impl Scheduler for Bfq {
    const ALLOCATION: Allocation = Allocation::Scheduler;

    fn new(settings: &Settings, facts: &Facts) -> Self {
        let timeout_ns = settings.ticks_ns("timeout_sync", facts.hz);
        // The kernel keeps HZ/8 ticks, rounded down.
        let timeout_ns = match settings.is_set("timeout_sync") {
            true => timeout_ns,
            false => facts.hz / 8 * (1_000_000_000 / facts.hz),
        };
        let strict = settings.get("strict_guarantees") == 1;
        let slice_idle_ns = settings.get("slice_idle_us") * 1000;
        Bfq {
            async_of: [[NONE; 8]; 3],
            rate: PeakRate::new(facts.rotational, settings.get("max_budget"), timeout_ns),
            back: Backwards::new(settings),
            fifo_expire_ns: [
                settings.ms_as_ns("fifo_expire_async"),
                settings.ms_as_ns("fifo_expire_sync"),
            ],
            slice_idle_ns: if strict {
                slice_idle_ns.max(8 * MS)
            } else {
                slice_idle_ns
            },
            timeout_ns,
            strict,
            low_latency: settings.get("low_latency") == 1,
            rotational: facts.rotational,
            merges_queues: settings.get("x_queue_merge") == 1,
            merges_stable: settings.get("x_stable_merge") == 1,
            injects: settings.get("x_injection") == 1,
            ..Self::default()
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        let request = ctx.requests[id];
        self.cooperate_as_bio(ctx, &request);
        let first = self.queue_of(ctx, request.context, request.sync);
        self.hold(request.context.owner, 1);
        self.note_burst(ctx, first);
        let place = self.cooperate(ctx, first, &request);
        let expire_ns = self.fifo_expire_ns[usize::from(request.sync)];
        ctx.requests[id].queue = place;
        ctx.requests[id].fifo_ns = ctx.now_ns + expire_ns;
        self.arrived(ctx, place, &request);
        let last = self.last_position;
        let queue = &mut self.queues[place as usize];
        let next = queue.requests.next;
        queue.requests.add(&mut ctx.requests, id, &self.back, last);
        queue.requests.next = overdue(ctx, queue, expire_ns).or(queue.requests.next);
        let changed = queue.requests.next != next;
        self.queued += 1;
        self.last_merge.get_or_insert(id);
        let was_raised = queue.is_raised();
        let mut interactive = false;
        if !queue.is_busy {
            interactive = self.wake(ctx, place);
        } else {
            self.raise_async(ctx, place);
            if changed {
                self.rebudget(ctx, place);
            }
        }
        let queue = &mut self.queues[place as usize];
        if self.low_latency && (!was_raised || !queue.is_raised() || interactive) {
            queue.raised_ns = jiffies_ns(ctx);
        }
        if queue.waits && self.in_service == Some(place) {
            queue.waits = false;
            self.timer_ns = None;
            if self.is_timed_out(ctx, place) {
                self.expire(ctx, place, false, Reason::Timeout);
            }
        }
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        if self.busy_queues() == 0 {
            return None;
        }
        if self.strict && self.in_flight > 0 {
            return None;
        }
        let id = self.select(ctx)?;
        self.serve(ctx, id)
    }

    fn completed(&mut self, ctx: &mut Ctx, id: Id) {
        let place = ctx.requests[id].queue;
        self.completed_for_injection(ctx, place, id);
        self.update_hardware_queue();
        self.rate.completed(ctx.now_ns);
        self.in_flight -= 1;
        self.hold(ctx.requests[id].context.owner, -1);
        let queue = &mut self.queues[place as usize];
        queue.in_flight -= 1;
        queue.last_end_ns = ctx.now_ns;
        if queue.in_flight == 0 && !queue.is_busy {
            queue.timeout_ns = Some(jiffies_ns(ctx));
            self.uncount_weight(place);
        }
        let queue = &mut self.queues[place as usize];
        let is_interactive = queue.raised == Raised::Interactive;
        let is_empty = queue.in_flight == 0 && queue.requests.is_empty();
        if queue.soft_update && is_empty && !is_interactive {
            let next_ns = self.soft_realtime_next(ctx, place);
            self.queues[place as usize].soft_next_ns = Some(next_ns);
        }
        if self.in_service != Some(place) {
            return;
        }
        let queue = &self.queues[place as usize];
        if self.must_idle(place) {
            if queue.in_flight == 0 {
                self.arm_timer(ctx, place);
            }
        } else if self.may_expire_for_timeout(ctx, place) {
            self.expire(ctx, place, false, Reason::Timeout);
        } else if queue.requests.is_empty()
            && (queue.in_flight == 0 || !self.is_better_to_idle(place))
        {
            self.expire(ctx, place, false, Reason::NoMore);
        }
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        let id = self.known_queue(bio.context, bio.sync)?;
        let sorted = &self.queues[id as usize].requests.sorted;
        sorted.adjoining(&ctx.requests, bio, true)
    }

    fn merged(&mut self, ctx: &mut Ctx, id: Id, kind: MergeKind, old_key: (u64, u64)) {
        let request = &ctx.requests[id];
        let queue = &mut self.queues[request.queue as usize];
        queue.requests.sorted.moved(request, id, kind, old_key);
        queue.seeks.grown(request);
        if kind == MergeKind::Front {
            let next = queue.requests.next;
            let last = self.last_position;
            let nearer = self.back.choose(&ctx.requests, next, Some(id), last);
            let expire_ns = self.fifo_expire_ns[usize::from(queue.is_sync)];
            queue.requests.next = overdue(ctx, queue, expire_ns).or(nearer);
        }
    }

    fn joinable(&self, ctx: &Ctx, id: Id) -> Option<(Id, Id)> {
        let place = ctx.requests[id].queue;
        let sorted = &self.queues[place as usize].requests.sorted;
        sorted.neighbour(&ctx.requests, id)
    }

    fn joined(&mut self, ctx: &mut Ctx, into: Id, gone: Id) {
        let place = ctx.requests[gone].queue;
        let queue = &mut self.queues[place as usize];
        let expire_ns = ctx.requests[gone].fifo_ns.min(ctx.requests[into].fifo_ns);
        let next = queue.requests.next;
        if next == Some(gone) {
            queue.requests.next = Some(into);
        }
        queue.late = queue
            .late
            .map(|late| if late == gone { into } else { late });
        queue.requests.drop_joined(&mut ctx.requests, into, gone);
        ctx.requests[into].fifo_ns = expire_ns;
        self.queued -= 1;
        self.last_merge = self.last_merge.filter(|last| *last != gone);
        self.hold(ctx.requests[gone].context.owner, -1);
    }

    fn limit_depth(&self, ctx: &Ctx, op: Op, sync: bool) -> usize {
        let share = match (sync, op, self.raised_busy > 0) {
            (true, Op::Read, _) => return usize::MAX,
            (true, _, false) => 75,
            (true, _, true) => 37,
            (false, _, false) => 50,
            (false, _, true) => 18,
        };
        (ctx.device.nr_requests * share / 100).max(1)
    }

    fn next_timer(&self) -> Option<u64> {
        self.timer_ns
    }

    fn timer(&mut self, ctx: &mut Ctx) {
        self.timer_ns = None;
        let Some(id) = self.in_service else {
            return;
        };
        self.queues[id as usize].waits = false;
        if self.is_timed_out(ctx, id) {
            self.expire(ctx, id, true, Reason::Timeout);
        } else if self.queues[id as usize].requests.is_empty() {
            self.expire(ctx, id, true, Reason::TooIdle);
        }
    }

    fn queued(&self) -> usize {
        self.queued
    }
}
