//! Raised weights: interactive processes for a while, soft real-time ones as they come.

use super::super::Ctx;
use super::queue::{Raised, COMMON_WEIGHT};
use super::{Bfq, MS};

/// A process that issued nothing for so long is interactive when it comes back.
const LONG_IDLE_NS: u64 = 2000 * MS;
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

/// Queues that were created one shortly after the other.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    last_ns: Option<u64>,
    members: Vec<u32>,
    is_large: bool,
}

impl Bfq {
    /// A queue's first request: is it part of a burst?
    fn note_burst(&mut self, ctx: &Ctx, id: u32) {
        let bursts = &mut self.bursts;
        let near = bursts
            .last_ns
            .is_some_and(|last_ns| ctx.now_ns <= last_ns + BURST_NS);
        bursts.last_ns = Some(ctx.now_ns);
        if !near {
            bursts.is_large = false;
            bursts.members.clear();
            bursts.members.push(id);
            return;
        }
        if bursts.is_large {
            self.queues[id as usize].in_large_burst = true;
            return;
        }
        bursts.members.push(id);
        if bursts.members.len() >= LARGE_BURST {
            bursts.is_large = true;
            for member in bursts.members.drain(..) {
                self.queues[member as usize].in_large_burst = true;
            }
        }
    }

    /// A queue that was idle has a request: does its process deserve a raise?
    pub(super) fn raise_on_arrival(&mut self, ctx: &Ctx, id: u32) {
        let queue = &self.queues[id as usize];
        if !queue.is_sync {
            return;
        }
        let since_ns = queue.timeout_ns;
        let idle_long =
            queue.in_flight == 0 && since_ns.is_none_or(|ns| ctx.now_ns > ns + LONG_IDLE_NS);
        if queue.just_created && idle_long {
            self.note_burst(ctx, id);
        }
        let duration_ns = self.rate.raising_ns();
        let least = self.rate.min_budget();
        let queue = &mut self.queues[id as usize];
        let common = queue.own_weight() == COMMON_WEIGHT;
        let interactive = !queue.in_large_burst && idle_long && common;
        // What is shared by processes that read close to each other is for none of them.
        let own = !queue.is_shared || queue.is_stable;
        let soft = !queue.in_large_burst
            && common
            && queue.in_flight == 0
            && queue.seeks.count() < 32
            && queue
                .soft_next_ns
                .is_some_and(|next_ns| ctx.now_ns > next_ns);
        if !queue.is_raised() {
            if own && interactive {
                queue.raised = Raised::Interactive;
                queue.raised_for_ns = duration_ns;
                queue.raised_service = 0;
            } else if own && soft {
                queue.raised = Raised::SoftRealtime;
                queue.raised_for_ns = SOFT_NS;
                queue.interactive_since_ns = None;
            }
            if queue.is_raised() {
                queue.budget = queue.budget.min(2 * least);
            }
            queue.raised_ns = ctx.now_ns;
        } else if interactive {
            queue.raised = Raised::Interactive;
            queue.raised_for_ns = duration_ns;
            queue.raised_ns = ctx.now_ns;
        } else if queue.in_large_burst {
            queue.raised = Raised::No;
        } else if soft {
            if queue.raised == Raised::Interactive {
                queue.interactive_since_ns = Some(queue.raised_ns);
            }
            queue.raised = Raised::SoftRealtime;
            queue.raised_for_ns = SOFT_NS;
            queue.raised_ns = ctx.now_ns;
        }
    }

    /// Ends a raise whose time or service is used up.
    pub(super) fn update_raising(&mut self, ctx: &Ctx, id: u32) {
        let duration_ns = self.rate.raising_ns();
        let queue = &mut self.queues[id as usize];
        if !queue.is_raised() {
            return;
        }
        let over = ctx.now_ns > queue.raised_ns + queue.raised_for_ns;
        let goes_back = queue
            .interactive_since_ns
            .filter(|ns| ctx.now_ns <= ns + duration_ns);
        let served_out = queue.raised == Raised::Interactive && queue.raised_service > SERVICE_MOST;
        match (
            queue.in_large_burst || over || served_out,
            queue.raised,
            goes_back,
        ) {
            (true, Raised::SoftRealtime, Some(since_ns)) if !queue.in_large_burst => {
                queue.raised = Raised::Interactive;
                queue.raised_ns = since_ns;
                queue.raised_for_ns = duration_ns;
            }
            (true, ..) => self.end_raising(ctx, id),
            (false, ..) => {}
        }
    }

    pub(super) fn end_raising(&mut self, ctx: &Ctx, id: u32) {
        let queue = &mut self.queues[id as usize];
        queue.raised = Raised::No;
        queue.raised_for_ns = 0;
        queue.raised_ns = ctx.now_ns;
        if queue.is_busy {
            self.raised_busy -= 1;
            self.count_weight(id);
        }
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
        let by_pause = ctx.now_ns + (idle_ticks + EXTRA_TICKS) * tick_ns;
        by_rate.max(by_pause).max(queue.soft_next_ns.unwrap_or(0))
    }
}
