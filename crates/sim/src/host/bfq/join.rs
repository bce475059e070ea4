//! Merging of queues: of processes that read close to each other, and of those created together.

use super::super::order::Seeks;
use super::super::{Class, Ctx, HostRequest};
use super::queue::Queue;
use super::{Bfq, MS};

/// Sectors within which two processes are close.
const CLOSE_SECTORS: u64 = 8 * 1024;
/// After its first service since it was idle a queue is merged for being close only this long.
const EARLY_NS: u64 = 100 * MS;
/// Queues created within this time of each other are candidates,
const TOGETHER_NS: u64 = 180 * MS;
/// and are merged so long after, where waiting for them does not pay.
const LATER_NS: u64 = 600 * MS;

/// The queue that others may have been created together with.
#[derive(Debug, Default)]
pub(super) struct Creation {
    last: Option<u32>,
}

impl Bfq {
    /// A new queue: was it created together with the one before?
    pub(super) fn created(&mut self, ctx: &Ctx, id: u32) {
        let last = self.creation.last;
        let Some(last) = last.filter(|last| self.are_alike(*last, id) && self.merges_stable) else {
            self.creation.last = Some(id);
            return;
        };
        let age_ns = ctx.now_ns - self.queues[last as usize].created_ns;
        if age_ns > LATER_NS {
            self.creation.last = Some(id);
        } else if age_ns <= TOGETHER_NS {
            if !self.rotational && self.hardware.queues() {
                self.merge(id, last, true);
            } else {
                self.queues[id as usize].stable_with = Some(last);
            }
        }
    }

    fn are_alike(&self, a: u32, b: u32) -> bool {
        let (a, b) = (
            self.queues[a as usize].context,
            self.queues[b as usize].context,
        );
        (a.class, a.level, a.weight) == (b.class, b.level, b.weight)
    }

    /// The queue that a request goes to, once those that belong together are merged.
    pub(super) fn cooperate(&mut self, ctx: &Ctx, id: u32, request: &HostRequest) -> u32 {
        let queue = &self.queues[id as usize];
        let queues_inside = !self.rotational && self.hardware.queues();
        if !queue.is_sync || queues_inside {
            return id;
        }
        if let Some(other) = queue.stable_with {
            if !queue.just_created && ctx.now_ns > queue.created_ns + LATER_NS {
                self.queues[id as usize].stable_with = None;
                let other = self.settled(other);
                if other != id && !self.idling_boosts(id) {
                    return self.merge(id, other, true);
                }
                return id;
            }
        }
        let merges = self.merges_queues && self.busy_queues() != 1;
        if !merges || !may_cooperate(ctx, &self.queues[id as usize]) {
            return id;
        }
        match self.close_queue(ctx, id, request.sector) {
            Some(other) => self.merge(id, other, false),
            None => id,
        }
    }

    /// A busy queue of another process that is about to read close by.
    fn close_queue(&self, ctx: &Ctx, id: u32, sector: u64) -> Option<u32> {
        let is_close = |at: u64| at.abs_diff(sector) <= CLOSE_SECTORS;
        let fits = |other: u32| {
            let queue = &self.queues[other as usize];
            let own = other != id && queue.merged_into.is_none();
            own && may_cooperate(ctx, queue) && self.are_alike(id, other)
        };
        if let Some(serving) = self.in_service {
            if fits(serving) && is_close(self.in_service_position) {
                return Some(serving);
            }
        }
        (0..self.queues.len() as u32).find(|other| {
            let next = self.queues[*other as usize].requests.next;
            fits(*other) && next.is_some_and(|next| is_close(ctx.requests[next].sector))
        })
    }

    /// From now on the process of `from` uses `into`; what is queued stays where it is.
    fn merge(&mut self, from: u32, into: u32, stable: bool) -> u32 {
        let into = self.settled(into);
        if into == from {
            return from;
        }
        let raised = self.queues[from as usize].is_raised();
        if raised && !self.queues[into as usize].is_raised() {
            let (kind, since_ns, for_ns) = {
                let queue = &self.queues[from as usize];
                (queue.raised, queue.raised_ns, queue.raised_for_ns)
            };
            let target = &mut self.queues[into as usize];
            (target.raised, target.raised_ns, target.raised_for_ns) = (kind, since_ns, for_ns);
            self.raised_busy += usize::from(target.is_busy);
            if self.queues[into as usize].is_busy {
                self.uncount_weight(into);
            }
        }
        if raised {
            let queue = &mut self.queues[from as usize];
            queue.raised = super::queue::Raised::No;
            self.raised_busy -= usize::from(queue.is_busy);
        }
        self.queues[from as usize].merged_into = Some(into);
        let target = &mut self.queues[into as usize];
        target.is_shared = true;
        target.is_stable |= stable;
        into
    }

    /// A shared queue that seeks is taken apart again.
    pub(super) fn split(&mut self, id: u32) {
        for queue in &mut self.queues {
            if queue.merged_into == Some(id) {
                queue.merged_into = None;
                queue.seeks = Seeks::after_a_seek();
            }
        }
        self.queues[id as usize].is_shared = false;
    }
}

fn may_cooperate(ctx: &Ctx, queue: &Queue) -> bool {
    let late = queue.backlogged_service > 0 && ctx.now_ns > queue.first_service_ns + EARLY_NS;
    !late && queue.is_sync && queue.context.class != Class::Idle && !queue.is_seeky()
}
