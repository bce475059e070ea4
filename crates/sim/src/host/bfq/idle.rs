//! Whether to wait for a queue's next request rather than serve another queue, and how long.

use super::super::{Class, Ctx, HostRequest};
use super::{jiffies_ns, Bfq, LONG_IDLE_NS, MS};

/// The shortest wait, for queues that seek anyway.
const SHORT_WAIT_NS: u64 = 2 * MS;
/// The least that a raised queue is waited for.
const RAISED_WAIT_NS: u64 = 20 * MS;
/// Time in service from which a slot shows whether the queue is slow.
const SLOW_NS: u64 = 20 * MS;
/// The share of idle time is that of so long a time, more or less.
const INTENSITY_NS: u64 = 200 * MS;

/// The limit of injection follows a think time that became short so long after its last change.
const THINK_SETTLED_NS: u64 = 100 * MS;

impl Bfq {
    /// Whether busy queues differ in weight or class, so that shares must be kept by waiting.
    pub(super) fn is_asymmetric(&self, id: Option<u32>) -> bool {
        let counted = id.and_then(|id| self.queues[id as usize].counted);
        let least = self.weights.keys().next().copied();
        let is_least = counted.is_some() && counted == least;
        let varied = !is_least && self.weights.len() > 1;
        varied || self.busy.iter().filter(|busy| **busy > 0).count() > 1
    }

    /// Whether waiting makes the device faster and takes nothing from a raised queue.
    pub(super) fn idling_boosts(&self, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        if self.is_left(id) {
            return false;
        }
        let flows = !queue.is_seeky() && queue.io_bound && queue.short_think;
        let alone = self.rotational && self.hardware.is_known_without();
        let boosts = alone || ((self.rotational || !self.hardware.queues()) && flows);
        boosts && self.raised_busy == 0
    }

    pub(super) fn is_better_to_idle(&self, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        if self.is_left(id) {
            return false;
        }
        if self.strict {
            return true;
        }
        if self.slice_idle_ns == 0 || !queue.is_sync || queue.context.class == Class::Idle {
            return false;
        }
        self.idling_boosts(id) || self.idling_guarantees(id)
    }

    /// Whether waiting is needed for the queue's share.
    pub(super) fn idling_guarantees(&self, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        if self.is_left(id) {
            return false;
        }
        let busy = self.busy_queues();
        let crowded = self.in_flight >= queue.in_flight + 4;
        (queue.is_raised() && (self.raised_busy < busy || crowded))
            || self.is_asymmetric(Some(id))
            || busy == 1
    }

    pub(super) fn arm_timer(&mut self, ctx: &Ctx, id: u32) {
        let wait_ns = self.wait_ns(id);
        self.queues[id as usize].waits = true;
        self.idling_since_ns = ctx.now_ns;
        self.timer_ns = Some(ctx.now_ns + wait_ns);
    }

    /// How long a queue is waited for.
    pub(super) fn wait_ns(&self, id: u32) -> u64 {
        let queue = &self.queues[id as usize];
        if queue.is_raised() {
            self.slice_idle_ns.max(RAISED_WAIT_NS)
        } else if queue.is_seeky() && !self.is_asymmetric(Some(id)) {
            self.slice_idle_ns.min(SHORT_WAIT_NS)
        } else {
            self.slice_idle_ns
        }
    }

    /// Whether the slot gave little service for its time, and how many ms are to be charged.
    pub(super) fn slowness(&self, ctx: &Ctx, id: u32, while_waiting: bool) -> (bool, u64) {
        let queue = &self.queues[id as usize];
        if !queue.is_sync {
            return (false, 0);
        }
        let until_ns = if while_waiting {
            self.idling_since_ns
        } else {
            ctx.now_ns
        };
        let time_ns = until_ns.saturating_sub(self.slot_start_ns);
        let seeky = queue.is_seeky();
        if time_ns < MS {
            return (seeky, if self.rotational { 8 } else { 2 });
        }
        let slow = match time_ns > SLOW_NS {
            true => queue.service < self.rate.measured_budget() / 2,
            false => seeky,
        };
        (slow, time_ns / MS)
    }

    /// Updates the process from the arrival of a request.
    pub(super) fn arrived(&mut self, ctx: &Ctx, id: u32, request: &HostRequest) {
        self.update_think_time(ctx, id);
        let is_seek = self.is_seek(request, self.queues[id as usize].seeks.last_end);
        self.queues[id as usize].seeks.add(request, is_seek);
        self.end_soft_raising_of_seeks(ctx, id);
        if !self.queues[id as usize].is_sync {
            return;
        }
        if self.process(request.context.owner).held <= 1 {
            self.note_waker(ctx, id);
            self.prepare_injection(ctx, id);
        }
        let queue = &mut self.queues[id as usize];
        if queue.requests.is_empty() && queue.in_flight == 0 {
            let pause_ns = ctx.now_ns.wrapping_sub(queue.last_end_ns);
            queue.idle_ns = queue.idle_ns.wrapping_add(pause_ns);
        }
        if queue.just_created {
            return;
        }
        let window_ns = ctx.now_ns - queue.window_start_ns;
        queue.io_bound = queue.idle_ns.wrapping_mul(5) <= window_ns;
        if window_ns > INTENSITY_NS {
            queue.window_start_ns = ctx.now_ns - window_ns / 2;
            queue.idle_ns /= 2;
        }
    }

    fn update_think_time(&mut self, ctx: &Ctx, id: u32) {
        let slice_idle_ns = self.slice_idle_ns;
        let queue = &mut self.queues[id as usize];
        if queue.in_flight == 0 && !queue.is_busy {
            let pause_ns = ctx.now_ns.wrapping_sub(queue.last_end_ns);
            queue.think.add(pause_ns, slice_idle_ns);
        }
        let now_ns = jiffies_ns(ctx);
        let just_split = queue
            .split_ns
            .is_some_and(|split_ns| now_ns <= split_ns + LONG_IDLE_NS);
        if !queue.is_sync || queue.context.class == Class::Idle || slice_idle_ns == 0 || just_split
        {
            return;
        }
        let short = !queue.think.is_valid() || queue.think.mean_ns <= slice_idle_ns / 2;
        let changed = std::mem::replace(&mut queue.short_think, short) != short;
        let settled = now_ns >= queue.inject_since_ns + THINK_SETTLED_NS;
        if changed && queue.inject_base_ns == 0 && (settled || !short) {
            self.reset_injection(ctx, id);
        }
    }
}
