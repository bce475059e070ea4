//! The slot of the queue in service: how it begins, what ends it, and what it may cost.

use super::super::Ctx;
use super::queue::{Raised, Reason};
use super::{jiffies_ns, Bfq, MS};

impl Bfq {
    /// Ends the slot of the queue in service.
    pub(super) fn expire(&mut self, ctx: &Ctx, id: u32, while_waiting: bool, reason: Reason) {
        let (slow, slot_ms) = self.slowness(ctx, id, while_waiting);
        let queue = &mut self.queues[id as usize];
        let timed_out = reason == Reason::Timeout && queue.budget_left() >= queue.budget / 3;
        if !queue.is_raised() && (slow || timed_out) {
            self.charge_time(ctx, id, slot_ms);
        }
        let queue = &mut self.queues[id as usize];
        if self.low_latency && !queue.is_raised() {
            queue.raised_ns = jiffies_ns(ctx);
        }
        if self.low_latency && queue.requests.is_empty() {
            self.note_soft_realtime(ctx, id);
        }
        self.injection.stop();
        self.recalculate_budget(ctx, id, reason);
        let queue = &mut self.queues[id as usize];
        queue.waits = false;
        self.timer_ns = None;
        queue.splits |= queue.is_shared && queue.is_seeky();
        let is_empty = queue.requests.is_empty();
        // Preempted while it was waited for to keep its share: it keeps its place.
        let stays = reason == Reason::Preempted && self.idling_guarantees(id);
        let queue = &mut self.queues[id as usize];
        if is_empty && !stays {
            if queue.in_flight == 0 {
                queue.timeout_ns = Some(jiffies_ns(ctx));
            }
            self.make_idle(ctx, id, true);
        } else {
            self.requeue(ctx, id, true);
        }
        self.in_service = None;
        let queue = &mut self.queues[id as usize];
        if !queue.is_busy && !matches!(reason, Reason::Timeout | Reason::Exhausted) {
            // Its budget continues if the next request comes in time.
            queue.was_waiting = true;
        } else {
            queue.service = 0;
        }
    }

    /// Service is charged by time where that was out of proportion.
    pub(super) fn charge_time(&mut self, ctx: &Ctx, id: u32, slot_ms: u64) {
        let most = self.rate.measured_budget();
        let timeout_ms = (self.timeout_ns / MS).max(1);
        let queue = &mut self.queues[id as usize];
        let charge = (most * slot_ms.min(timeout_ms) / timeout_ms).max(queue.service);
        queue.budget = queue.budget.max(charge);
        let more = charge - queue.service;
        self.served(ctx, id, more);
    }

    pub(super) fn recalculate_budget(&mut self, ctx: &Ctx, id: u32, reason: Reason) {
        let (most, least) = (self.rate.measured_budget(), self.rate.min_budget());
        let queue = &mut self.queues[id as usize];
        let budget = queue.max_budget;
        let budget = match (queue.is_sync, queue.is_raised(), reason) {
            (false, ..) => most,
            (true, true, _) => 2 * least,
            (.., Reason::TooIdle) if queue.in_flight > 0 => (budget * 2).min(most),
            (.., Reason::TooIdle) if budget > 5 * least => budget - 4 * least,
            (.., Reason::TooIdle) => least,
            (.., Reason::Timeout) => (budget * 2).min(most),
            (.., Reason::Exhausted) => (budget * 4).min(most),
            (.., Reason::NoMore) => queue.service.max(least),
            (.., Reason::Preempted) => return,
        };
        queue.max_budget = budget.min(self.rate.cap());
        if let Some(next) = queue.requests.next {
            let charge = self.charge(ctx, id, next);
            let queue = &mut self.queues[id as usize];
            queue.budget = queue.max_budget.max(charge);
        }
    }

    /// The next queue gets a slot.
    pub(super) fn start_slot(&mut self, ctx: &Ctx) -> Option<u32> {
        let id = self.take_next(ctx)?;
        self.rate.count_budget();
        self.in_service_position = 0;
        self.slot_start_ns = ctx.now_ns;
        let queue = &mut self.queues[id as usize];
        queue.fifo_checked = false;
        queue.postpone_end_of_soft(jiffies_ns(ctx));
        let longer = match queue.raised {
            Raised::SoftRealtime => 1,
            _ => queue.weight / queue.own_weight().max(1),
        };
        queue.timeout_ns = Some(jiffies_ns(ctx) + self.timeout_ns * longer);
        Some(id)
    }

    pub(super) fn is_timed_out(&self, ctx: &Ctx, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        queue
            .timeout_ns
            .is_some_and(|timeout_ns| jiffies_ns(ctx) >= timeout_ns)
    }

    pub(super) fn may_expire_for_timeout(&self, ctx: &Ctx, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        let room = queue.budget_left() >= queue.budget / 3;
        (!queue.waits || room) && self.is_timed_out(ctx, id)
    }

    pub(super) fn must_idle(&self, id: u32) -> bool {
        self.queues[id as usize].requests.is_empty() && self.is_better_to_idle(id)
    }

    /// The queue to take a request from.
    pub(super) fn select(&mut self, ctx: &Ctx) -> Option<u32> {
        if let Some(id) = self.in_service {
            if self.may_expire_for_timeout(ctx, id) && !self.must_idle(id) {
                self.expire(ctx, id, false, Reason::Timeout);
            }
        }
        loop {
            let id = match self.in_service {
                Some(id) => id,
                None => self.start_slot(ctx)?,
            };
            if let Some(next) = self.queues[id as usize].requests.next {
                if self.charge(ctx, id, next) > self.queues[id as usize].budget_left() {
                    self.expire(ctx, id, false, Reason::Exhausted);
                    continue;
                }
                self.queues[id as usize].waits = false;
                self.timer_ns = None;
                return Some(id);
            }
            let queue = &self.queues[id as usize];
            if queue.waits || (queue.in_flight > 0 && self.is_better_to_idle(id)) {
                return self.inject(ctx, id);
            }
            self.expire(ctx, id, false, Reason::NoMore);
        }
    }
}
