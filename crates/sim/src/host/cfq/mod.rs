//! `cfq` of Linux up to 4.20 (`block/cfq-iosched.c`): time slices for each process, and waiting
//! for its next request. Omitted: nested groups, leaf weights, forced drain.

mod choose;
mod queue;
mod wait;

#[cfg(test)]
mod tests;

use super::order::{Backwards, ThinkTime};
use super::{
    Allocation, Bio, Class, Ctx, Facts, Id, IoContext, MergeKind, Scheduler, Settings, NONE,
};
use queue::{Group, Kind, Queue};

const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS;
/// Sectors within which two processes are close.
const CLOSE_SECTORS: u64 = 8 * 1024;
/// Depth and samples from which a device counts as one that queues.
const DEPTH: usize = 5;
const SAMPLES: usize = 50;

/// The tunables, in ns.
#[derive(Default)]
struct Tuning {
    quantum: usize,
    fifo_expire_ns: [u64; 2],
    slice_ns: [u64; 2],
    slice_async_rq: u64,
    slice_idle_ns: u64,
    group_idle_ns: u64,
    target_ns: u64,
    low_latency: bool,
    least_ns: u64,
    rotational: bool,
}

/// Everything.
#[derive(Default)]
pub struct Cfq {
    queues: Vec<Queue>,
    groups: Vec<Group>,
    sync_of: Vec<u32>,
    async_of: [[u32; 8]; 3],
    active: Option<u32>,
    busy: Vec<u32>,
    queued: usize,
    /// Async and sync requests in the device.
    in_flight: [usize; 2],
    most_in_flight: usize,
    samples: usize,
    hw_tag: Option<bool>,
    last_position: u64,
    last_delayed_sync_ns: u64,
    timer_ns: Option<u64>,
    /// The one that is served: group, class and kind, until when.
    serving: (u32, Class, Kind),
    serving_until_ns: u64,
    /// Think time of all that idle together, by class.
    tree_think: [ThinkTime; 3],
    tree_end_ns: [Option<u64>; 3],
    back: Backwards,
    tuning: Tuning,
}

/// A part of `value`; the product does not overflow.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    let part = u128::from(value) * u128::from(by) / u128::from(of);
    u64::try_from(part).unwrap_or(u64::MAX)
}

impl Cfq {
    fn slot_of(&mut self, context: IoContext, sync: bool) -> &mut u32 {
        if sync {
            let owner = context.owner as usize;
            if self.sync_of.len() <= owner {
                self.sync_of.resize(owner + 1, NONE);
            }
            return &mut self.sync_of[owner];
        }
        &mut self.async_of[context.class.index()][usize::from(context.level)]
    }

    fn queue_of(&mut self, context: IoContext, sync: bool) -> u32 {
        let new = self.queues.len() as u32;
        let slot = self.slot_of(context, sync);
        let id = *slot;
        if id == NONE {
            *slot = new;
            let group = match context.weight {
                0 => 0,
                weight => {
                    self.groups.push(Group::new(weight));
                    self.groups.len() as u32 - 1
                }
            };
            self.queues.push(Queue::new(context, sync, group));
            return new;
        }
        self.settled(id)
    }

    /// Follows a queue to the one that it was merged into.
    fn settled(&self, mut id: u32) -> u32 {
        while let Some(into) = self.queues[id as usize].merged_into {
            id = into;
        }
        id
    }

    /// Whether the device queues commands; assumed until known.
    fn device_queues(&self) -> bool {
        self.hw_tag.unwrap_or(true)
    }

    fn is_flash_with_queue(&self) -> bool {
        !self.tuning.rotational && self.device_queues()
    }

    /// Busy queues of the requested kind.
    fn alike(&self, group: u32, class: Class, kind: Kind) -> impl Iterator<Item = u32> + '_ {
        self.busy.iter().copied().filter(move |id| {
            let queue = &self.queues[*id as usize];
            (queue.group, queue.context.class, queue.kind()) == (group, class, kind)
        })
    }

    /// Whether a queue is waited for when it is empty.
    fn should_idle(&self, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        if self.tuning.slice_idle_ns == 0 || queue.context.class == Class::Idle {
            return false;
        }
        if queue.idle_window && !self.is_flash_with_queue() {
            return true;
        }
        let class = queue.context.class;
        let think = &self.tree_think[class.index()];
        let big = think.is_valid() && think.mean_ns > self.tuning.slice_idle_ns;
        let mut alike = self.alike(queue.group, class, queue.kind());
        queue.is_sync && !big && alike.next().is_some() && alike.next().is_none()
    }

    fn slice_used(&self, ctx: &Ctx, id: u32) -> bool {
        self.queues[id as usize]
            .slice_end_ns
            .is_some_and(|end_ns| ctx.now_ns > end_ns)
    }

    fn slice_used_soon(&self, ctx: &Ctx, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        let idle_ns = self.tuning.slice_idle_ns;
        let until_ns = ctx
            .now_ns
            .saturating_add(idle_ns.saturating_mul(queue.in_flight as u64));
        queue.slice_end_ns.is_none_or(|end_ns| until_ns > end_ns)
    }

    /// Slice by priority alone.
    pub(super) fn plain_slice_ns(&self, sync: bool, level: u8) -> u64 {
        let base_ns = self.tuning.slice_ns[usize::from(sync)];
        base_ns / 5 * (9 - u64::from(level))
    }

    /// Slice, shortened where many queues are busy.
    pub(super) fn slice_ns(&mut self, id: u32) -> u64 {
        let queue = &self.queues[id as usize];
        let slice_ns = self.plain_slice_ns(queue.is_sync, queue.context.level);
        if !self.tuning.low_latency {
            return slice_ns;
        }
        let (group, class) = (queue.group, queue.context.class);
        let busy = self.average_busy(group, class);
        let sync_ns = self.tuning.slice_ns[1];
        let expected_ns = sync_ns * busy;
        let share_ns = self.group_share_ns(group);
        if expected_ns <= share_ns {
            return slice_ns;
        }
        let idle_ns = scaled(2 * self.tuning.slice_idle_ns, slice_ns, sync_ns);
        slice_ns
            .min(idle_ns)
            .max(scaled(slice_ns, share_ns, expected_ns))
    }

    /// A queue joins those that wait for a slice.
    fn enlist(&mut self, ctx: &Ctx, id: u32, front: bool) {
        let queue = &self.queues[id as usize];
        let now = ctx.now_ns as i64;
        let (group, class) = (queue.group, queue.context.class);
        let others = self.busy.iter().filter(|other| **other != id);
        let of_group = others
            .clone()
            .filter(|id| self.queues[**id as usize].group == group);
        let nr = of_group.count() as u64;
        let key = if front {
            let first = others.map(|other| self.queues[*other as usize].key).min();
            first.unwrap_or(now) - SECOND_NS as i64
        } else if class == Class::Idle {
            let last = others.map(|other| self.queues[*other as usize].key).max();
            last.unwrap_or(now) + 200 * MS as i64
        } else {
            let longest = self.plain_slice_ns(true, 0);
            let own = self.plain_slice_ns(queue.is_sync, queue.context.level);
            let later = nr * longest.saturating_sub(own);
            now + later as i64 - queue.residual_ns
        };
        let queue = &mut self.queues[id as usize];
        queue.key = key;
        queue.residual_ns = 0;
        if !queue.is_busy {
            queue.is_busy = true;
            self.busy.push(id);
            self.wake_group(group);
        }
    }

    fn delist(&mut self, id: u32) {
        self.queues[id as usize].is_busy = false;
        if let Some(place) = self.busy.iter().position(|other| *other == id) {
            self.busy.swap_remove(place);
        }
    }

    /// The slice of the active queue is over.
    fn expire(&mut self, ctx: &Ctx, timed_out: bool) {
        let Some(id) = self.active.take() else {
            return;
        };
        self.timer_ns = None;
        let whole_ns = self.slice_ns(id) as i64;
        let queue = &mut self.queues[id as usize];
        queue.waits = false;
        if timed_out {
            queue.residual_ns = match queue.slice_end_ns {
                None => whole_ns,
                Some(end_ns) => end_ns as i64 - ctx.now_ns as i64,
            };
        }
        self.charge_group(ctx, id);
        if self.queues[id as usize].requests.is_empty() {
            self.delist(id);
        } else {
            self.enlist(ctx, id, false);
        }
    }

    fn activate(&mut self, ctx: &Ctx, id: u32) {
        self.active = Some(id);
        let queue = &mut self.queues[id as usize];
        queue.slice_end_ns = None;
        queue.active_since_ns = ctx.now_ns;
        queue.slice_dispatched = 0;
        queue.fifo_checked = false;
        queue.waits = false;
        self.timer_ns = None;
    }

    /// A queue that is about to continue where the head is.
    fn close_queue(&self, ctx: &Ctx, id: u32) -> Option<u32> {
        let queue = &self.queues[id as usize];
        let lone = queue.merged_into.is_none() && queue.is_sync && !queue.is_seeky();
        if !lone || queue.context.class == Class::Idle {
            return None;
        }
        self.busy.iter().copied().find(|other| {
            let one = &self.queues[*other as usize];
            let near = one.requests.next.is_some_and(|next| {
                ctx.requests[next].sector.abs_diff(self.last_position) <= CLOSE_SECTORS
            });
            let alike = one.group == queue.group && one.context.class == queue.context.class;
            let own = *other != id && one.merged_into.is_none();
            own && near && alike && one.is_sync && !one.is_seeky()
        })
    }

    /// The queue to take a request from.
    fn select(&mut self, ctx: &Ctx) -> Option<u32> {
        if let Some(id) = self.active {
            if self.slice_used(ctx, id) {
                let queue = &self.queues[id as usize];
                let last = queue.requests.is_empty() && queue.in_flight > 0;
                let alone = self.busy.len() == 1;
                if last && alone && self.should_idle(id) {
                    return None;
                }
                self.expire(ctx, false);
            } else if !self.queues[id as usize].requests.is_empty() {
                return Some(id);
            } else if let Some(other) = self.close_queue(ctx, id) {
                if self.queues[id as usize].in_flight == 0 {
                    self.queues[id as usize].merged_into = Some(other);
                }
                self.expire(ctx, false);
                self.activate(ctx, other);
                return Some(other);
            } else {
                let queue = &self.queues[id as usize];
                if queue.waits || (queue.in_flight > 0 && self.should_idle(id)) {
                    return None;
                }
                self.expire(ctx, false);
            }
        }
        let id = self.choose(ctx)?;
        self.activate(ctx, id);
        Some(id)
    }

    fn may_dispatch(&self, ctx: &Ctx, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        if self.should_idle(id) && self.in_flight[0] > 0 {
            return false;
        }
        if !queue.is_sync && self.in_flight[1] > 0 {
            return false;
        }
        let is_idle_class = queue.context.class == Class::Idle;
        let mut most = match is_idle_class {
            true => 1,
            false => (self.tuning.quantum / 2).max(1),
        };
        if queue.in_flight >= most {
            if is_idle_class {
                return false;
            }
            let is_sync = |id: &&u32| self.queues[**id as usize].is_sync;
            let sync = self.busy.iter().filter(is_sync).take(2);
            let only = self.busy.len() == 1 || (queue.is_sync && sync.count() == 1);
            if !only && self.slice_used_soon(ctx, id) {
                return false;
            }
            most = if only {
                usize::MAX
            } else {
                self.tuning.quantum
            };
        }
        if !queue.is_sync && self.tuning.low_latency {
            let since_ns = (ctx.now_ns + SECOND_NS).saturating_sub(self.last_delayed_sync_ns);
            let depth = (since_ns / self.tuning.slice_ns[1]) as usize;
            let depth = if depth == 0 && queue.in_flight == 0 {
                1
            } else {
                depth
            };
            most = most.min(depth);
        }
        queue.in_flight < most
    }

    fn serve(&mut self, ctx: &mut Ctx, id: u32) -> Option<Id> {
        let queue = &mut self.queues[id as usize];
        let mut request = queue.requests.next?;
        if !queue.fifo_checked {
            queue.fifo_checked = true;
            request = queue
                .requests
                .late(&ctx.requests, ctx.now_ns)
                .unwrap_or(request);
        }
        queue.requests.take(&mut ctx.requests, request, &self.back);
        if queue.requests.next.is_none() {
            queue.requests.next = queue.requests.sorted.first();
        }
        queue.in_flight += 1;
        queue.slice_dispatched += 1;
        let spent = !queue.is_sync
            && queue.slice_dispatched >= queue.most_async(self.tuning.slice_async_rq);
        let spent = spent || queue.context.class == Class::Idle;
        self.queued -= 1;
        self.in_flight[usize::from(ctx.requests[request].sync)] += 1;
        self.last_position = ctx.requests[request].end();
        if spent && self.busy.len() > 1 {
            self.queues[id as usize].slice_end_ns = Some(ctx.now_ns);
            self.expire(ctx, false);
        }
        Some(request)
    }
}

impl Scheduler for Cfq {
    const ALLOCATION: Allocation = Allocation::Legacy;

    fn new(settings: &Settings, facts: &Facts) -> Self {
        let ns = |name| settings.ms_as_ns(name);
        let flash = !facts.rotational && !settings.is_set("slice_idle");
        Cfq {
            groups: vec![Group::new(500)],
            async_of: [[NONE; 8]; 3],
            back: Backwards::new(settings),
            tuning: Tuning {
                quantum: settings.get("quantum") as usize,
                fifo_expire_ns: [ns("fifo_expire_async"), ns("fifo_expire_sync")],
                slice_ns: [ns("slice_async"), ns("slice_sync")],
                slice_async_rq: settings.get("slice_async_rq"),
                slice_idle_ns: if flash { 0 } else { ns("slice_idle") },
                group_idle_ns: ns("group_idle"),
                target_ns: ns("target_latency"),
                low_latency: settings.get("low_latency") == 1,
                least_ns: 2 * SECOND_NS / facts.hz,
                rotational: facts.rotational,
            },
            ..Self::default()
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        let request = ctx.requests[id];
        let place = self.queue_of(request.context, request.sync);
        let expire_ns = self.tuning.fifo_expire_ns[usize::from(request.sync)];
        ctx.requests[id].queue = place;
        ctx.requests[id].fifo_ns = ctx.now_ns + expire_ns;
        let last = self.last_position;
        let queue = &mut self.queues[place as usize];
        queue.requests.add(&mut ctx.requests, id, &self.back, last);
        self.queued += 1;
        self.arrived(ctx, place, &request);
        if !self.queues[place as usize].is_busy {
            self.enlist(ctx, place, false);
        }
        if self.active == Some(place) {
            self.queues[place as usize].waits = false;
            self.timer_ns = None;
        } else if self.should_preempt(ctx, place, &request) {
            self.expire(ctx, true);
            self.enlist(ctx, place, true);
            let queue = &self.queues[place as usize];
            self.serving = (queue.group, queue.context.class, queue.kind());
        }
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        if self.queued == 0 {
            return None;
        }
        let id = self.select(ctx)?;
        if !self.may_dispatch(ctx, id) {
            return None;
        }
        self.serve(ctx, id)
    }

    fn completed(&mut self, ctx: &mut Ctx, id: Id) {
        let request = ctx.requests[id];
        let place = request.queue;
        self.update_hw_tag();
        self.in_flight[usize::from(request.sync)] -= 1;
        let queue = &mut self.queues[place as usize];
        queue.in_flight -= 1;
        if request.sync {
            queue.last_end_ns = Some(ctx.now_ns);
            self.tree_end_ns[queue.context.class.index()] = Some(ctx.now_ns);
            if request.arrival_ns + self.tuning.fifo_expire_ns[1] <= ctx.now_ns {
                // Kept with a second added, because time begins at 0.
                self.last_delayed_sync_ns = ctx.now_ns + SECOND_NS;
            }
        }
        if self.active != Some(place) {
            return;
        }
        if self.queues[place as usize].slice_end_ns.is_none() {
            let slice_ns = self.slice_ns(place);
            self.queues[place as usize].slice_end_ns = Some(ctx.now_ns + slice_ns);
        }
        let queue = &self.queues[place as usize];
        if self.slice_used(ctx, place) || queue.context.class == Class::Idle {
            self.expire(ctx, true);
        } else if queue.is_sync
            && queue.requests.is_empty()
            && self.close_queue(ctx, place).is_none()
        {
            self.arm_timer(ctx, place);
        }
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        let id = *self.slot_of(bio.context, bio.sync);
        if id == NONE {
            return None;
        }
        let queue = &self.queues[self.settled(id) as usize];
        queue.requests.sorted.adjoining(&ctx.requests, bio, true)
    }

    fn merged(&mut self, ctx: &mut Ctx, id: Id, kind: MergeKind, old_key: (u64, u64)) {
        let request = &ctx.requests[id];
        let queue = &mut self.queues[request.queue as usize];
        queue.requests.sorted.moved(request, id, kind, old_key);
        queue.seeks.grown(request);
    }

    fn joinable(&self, ctx: &Ctx, id: Id) -> Option<(Id, Id)> {
        let queue = &self.queues[ctx.requests[id].queue as usize];
        queue.requests.sorted.neighbour(&ctx.requests, id)
    }

    fn joined(&mut self, ctx: &mut Ctx, into: Id, gone: Id) {
        let queue = &mut self.queues[ctx.requests[gone].queue as usize];
        if queue.requests.next == Some(gone) {
            queue.requests.next = Some(into);
        }
        queue.requests.drop_joined(&mut ctx.requests, into, gone);
        self.queued -= 1;
    }

    fn next_timer(&self) -> Option<u64> {
        self.timer_ns
    }

    fn timer(&mut self, ctx: &mut Ctx) {
        self.timer_ns = None;
        let Some(id) = self.active else {
            return;
        };
        let queue = &mut self.queues[id as usize];
        queue.waits = false;
        if queue.requests.is_empty() {
            queue.is_deep = false;
            let timed_out = self.slice_used(ctx, id);
            self.expire(ctx, timed_out);
        }
    }

    fn queued(&self) -> usize {
        self.queued
    }
}
