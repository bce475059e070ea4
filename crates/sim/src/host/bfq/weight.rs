//! Raised weights: interactive processes for a while, soft real-time ones as they come.

use super::super::Ctx;
use super::queue::{Raised, COMMON_WEIGHT};
use super::{jiffies_ns, Bfq, LONG_IDLE_NS, MS};

/// Soft real-time weight is raised for so long at a time.
const SOFT_NS: u64 = 300 * MS;
/// The fastest that a soft real-time process reads, sectors per second.
const SOFT_RATE: u64 = 7000;
/// A soft real-time process pauses longer than it is waited for, by so many ticks.
const EXTRA_TICKS: u64 = 4;
/// Raising ends after so many sectors.
const SERVICE_MOST: u64 = 120_000;
/// Queues created within this time of each other may be one burst, and a large one from so many.
const BURST_NS: u64 = 180 * MS;
const LARGE_BURST: usize = 8;

/// A queue that was idle for so long no longer belongs to the burst that it was created in.
const FORGOTTEN_NS: u64 = 10_000 * MS;
/// A queue that just left a shared one is in no burst.
const SPLIT_NS: u64 = 10 * MS;
/// An async queue is raised when nothing came for so long.
const ASYNC_NS: u64 = 500 * MS;

/// Queues that were created one shortly after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Bursts {
    last_ns: u64,
    /// Its members, and those that were active when it began.
    size: usize,
    members: Vec<u32>,
    is_large: bool,
}

impl Bfq {
    /// A new queue: is it part of a burst? (`bfq_handle_burst`)
    pub(super) fn note_burst(&mut self, ctx: &Ctx, id: u32) {
        let now_ns = jiffies_ns(ctx);
        let none_busy = self.busy_queues() == 0;
        let queue = &self.queues[id as usize];
        let bursts = &mut self.bursts;
        let just_split = queue
            .split_ns
            .is_some_and(|split_ns| now_ns <= split_ns + SPLIT_NS);
        if !queue.just_created
            || (bursts.size == 0 && !none_busy)
            || bursts.members.contains(&id)
            || queue.in_large_burst
            || just_split
        {
            return;
        }
        if now_ns > bursts.last_ns + BURST_NS {
            bursts.is_large = false;
            bursts.members.clear();
            bursts.size = usize::from(none_busy);
            if none_busy {
                bursts.members.push(id);
            }
        } else if bursts.is_large {
            self.queues[id as usize].in_large_burst = true;
        } else {
            bursts.size += 1;
            bursts.members.push(id);
            if bursts.size == LARGE_BURST {
                bursts.is_large = true;
                for member in bursts.members.drain(..) {
                    self.queues[member as usize].in_large_burst = true;
                }
            }
        }
        bursts.last_ns = now_ns;
    }

    /// A queue that was idle has a request: does its process deserve a raise? Whether it is an
    /// interactive one.
    pub(super) fn raise_on_arrival(&mut self, ctx: &Ctx, id: u32) -> bool {
        let now_ns = jiffies_ns(ctx);
        let duration_ns = self.rate.raising_ns();
        let least = self.rate.min_budget();
        let request = self.queues[id as usize].requests.next;
        let owner = request.map(|request| ctx.requests[request].context.owner);
        let is_stable = owner.is_some_and(|owner| self.process(owner).is_stable);
        let queue = &mut self.queues[id as usize];
        let idle_since = |limit_ns| {
            let since_ns = queue.timeout_ns;
            queue.in_flight == 0 && since_ns.is_none_or(|ns| now_ns > ns + limit_ns)
        };
        let common = queue.own_weight() == COMMON_WEIGHT;
        let interactive = !queue.in_large_burst && idle_since(LONG_IDLE_NS) && common;
        let soft = !queue.in_large_burst
            && common
            && queue.in_flight == 0
            && queue.seeks.count() < 32
            && queue.soft_next_ns.is_some_and(|next_ns| now_ns > next_ns);
        if !queue.just_created && idle_since(FORGOTTEN_NS) {
            queue.in_large_burst = false;
            self.bursts.members.retain(|member| *member != id);
        }
        queue.just_created = false;
        let just_split = queue
            .split_ns
            .is_some_and(|split_ns| now_ns <= split_ns + LONG_IDLE_NS);
        if !self.low_latency || just_split {
            return interactive;
        }
        // What is shared by processes that read close to each other is for none of them.
        let own = queue.is_sync && (!queue.is_shared || is_stable);
        if !queue.is_raised() && own && (interactive || soft) {
            if interactive {
                queue.raised = Raised::Interactive;
                queue.raised_for_ns = duration_ns;
                queue.raised_service = 0;
            } else {
                queue.raised = Raised::SoftRealtime;
                queue.raised_for_ns = SOFT_NS;
                queue.interactive_since_ns = None;
            }
            queue.budget = queue.budget.min(2 * least);
        } else if queue.is_raised() {
            if interactive {
                queue.raised = Raised::Interactive;
                queue.raised_for_ns = duration_ns;
            } else if queue.in_large_burst {
                queue.raised = Raised::No;
            } else if soft {
                if queue.raised == Raised::Interactive {
                    queue.interactive_since_ns = Some(queue.raised_ns);
                }
                queue.raised = Raised::SoftRealtime;
                queue.raised_for_ns = SOFT_NS;
                queue.raised_ns = now_ns;
            }
        }
        interactive
    }

    /// A request for an async queue that has others.
    pub(super) fn raise_async(&mut self, ctx: &Ctx, id: u32) {
        let duration_ns = self.rate.raising_ns();
        let queue = &mut self.queues[id as usize];
        let is_late = jiffies_ns(ctx) > queue.raised_ns + ASYNC_NS;
        if self.low_latency && !queue.is_raised() && !queue.is_sync && is_late {
            queue.raised = Raised::Interactive;
            queue.raised_for_ns = duration_ns;
            self.raised_busy += 1;
        }
    }

    /// A process whose requests are all seeks is no soft real-time one.
    pub(super) fn end_soft_raising_of_seeks(&mut self, ctx: &Ctx, id: u32) {
        let queue = &self.queues[id as usize];
        if queue.raised == Raised::SoftRealtime && queue.seeks.count() == 32 {
            self.end_soft_raising(ctx, id);
        }
    }

    fn end_soft_raising(&mut self, ctx: &Ctx, id: u32) {
        let now_ns = jiffies_ns(ctx);
        let duration_ns = self.rate.raising_ns();
        let queue = &mut self.queues[id as usize];
        match queue.interactive_since_ns {
            Some(since_ns) if now_ns <= since_ns + duration_ns => {
                queue.raised = Raised::Interactive;
                queue.raised_ns = since_ns;
                queue.raised_for_ns = duration_ns;
            }
            _ => self.end_raising(ctx, id),
        }
    }

    /// Ends a raise whose time or service is used up.
    pub(super) fn update_raising(&mut self, ctx: &Ctx, id: u32) {
        let queue = &self.queues[id as usize];
        if queue.is_raised() {
            let over = jiffies_ns(ctx) > queue.raised_ns + queue.raised_for_ns;
            match queue.raised {
                _ if queue.in_large_burst => self.end_raising(ctx, id),
                Raised::SoftRealtime if over => self.end_soft_raising(ctx, id),
                _ if over => self.end_raising(ctx, id),
                _ => {}
            }
            let queue = &self.queues[id as usize];
            if queue.raised == Raised::Interactive && queue.raised_service > SERVICE_MOST {
                self.end_raising(ctx, id);
            }
        }
        let queue = &self.queues[id as usize];
        if (queue.weight > queue.own_weight()) != queue.is_raised() {
            self.weigh(id);
        }
    }

    pub(super) fn end_raising(&mut self, ctx: &Ctx, id: u32) {
        let queue = &mut self.queues[id as usize];
        queue.raised = Raised::No;
        queue.raised_for_ns = 0;
        queue.raised_ns = jiffies_ns(ctx);
        self.raised_busy -= usize::from(queue.is_busy);
    }

    /// The queue ran empty: from when on would a request still be isochronous?
    pub(super) fn note_soft_realtime(&mut self, ctx: &Ctx, id: u32) {
        if self.queues[id as usize].in_flight == 0 {
            let next_ns = self.soft_realtime_next(ctx, id);
            self.queues[id as usize].soft_next_ns = Some(next_ns);
        } else {
            self.queues[id as usize].soft_update = true;
        }
    }

    pub(super) fn soft_realtime_next(&self, ctx: &Ctx, id: u32) -> u64 {
        let queue = &self.queues[id as usize];
        let by_rate = queue.backlogged_ns + queue.backlogged_service * 1_000_000_000 / SOFT_RATE;
        let tick_ns = 1_000_000_000 / ctx.device.hz;
        let idle_ticks = self.slice_idle_ns / tick_ns;
        let by_pause = jiffies_ns(ctx) + (idle_ticks + EXTRA_TICKS) * tick_ns;
        by_rate.max(by_pause).max(queue.soft_next_ns.unwrap_or(0))
    }
}
