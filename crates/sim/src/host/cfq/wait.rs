//! Whether a queue is waited for, and who may take the device from it meanwhile.

use super::super::order::{is_far, LARGE_SECTORS};
use super::super::{Class, Ctx, HostRequest};
use super::queue::Kind;
use super::{Cfq, CLOSE_SECTORS, DEPTH, SAMPLES};

impl Cfq {
    pub(super) fn update_hw_tag(&mut self) {
        let in_flight = self.in_flight[0] + self.in_flight[1];
        self.most_in_flight = self.most_in_flight.max(in_flight);
        if self.hw_tag == Some(true) || (self.queued <= DEPTH && in_flight <= DEPTH) {
            return;
        }
        if let Some(id) = self.active {
            let queue = &self.queues[id as usize];
            let held = queue.in_flight + queue.requests.len();
            if queue.idle_window && held < DEPTH && in_flight < DEPTH {
                return;
            }
        }
        self.samples += 1;
        if self.samples > SAMPLES {
            self.hw_tag = Some(self.most_in_flight >= DEPTH);
        }
    }

    pub(super) fn arm_timer(&mut self, ctx: &Ctx, id: u32) {
        if self.is_flash_with_queue() || self.queues[id as usize].in_flight > 0 {
            return;
        }
        let queue = &self.queues[id as usize];
        let group_busy = self
            .busy
            .iter()
            .filter(|other| self.queues[**other as usize].group == queue.group);
        let wait_ns = if self.should_idle(id) {
            self.tuning.slice_idle_ns
        } else if group_busy.count() == 1 && queue.group != 0 && self.tuning.group_idle_ns > 0 {
            self.tuning.group_idle_ns
        } else {
            return;
        };
        let left_ns = queue
            .slice_end_ns
            .map_or(u64::MAX, |end_ns| end_ns.saturating_sub(ctx.now_ns));
        if queue.think.is_valid() && queue.think.mean_ns > left_ns {
            return;
        }
        self.queues[id as usize].waits = true;
        self.timer_ns = Some(ctx.now_ns + wait_ns);
    }

    /// Updates the process from a new request.
    pub(super) fn arrived(&mut self, ctx: &Ctx, id: u32, request: &HostRequest) {
        let slice_idle_ns = self.tuning.slice_idle_ns;
        let queue = &mut self.queues[id as usize];
        if queue.is_sync {
            if let Some(end_ns) = queue.last_end_ns {
                queue.think.add(ctx.now_ns - end_ns, slice_idle_ns);
            }
            let class = queue.context.class.index();
            if let Some(end_ns) = self.tree_end_ns[class] {
                self.tree_think[class].add(ctx.now_ns - end_ns, slice_idle_ns);
            }
        }
        let queue = &mut self.queues[id as usize];
        let is_seek = match self.tuning.rotational {
            true => is_far(request.sector, queue.seeks.last_end),
            false => u64::from(request.sectors) < LARGE_SECTORS,
        };
        queue.seeks.add(request, is_seek);
        if !queue.is_sync || queue.context.class == Class::Idle {
            return;
        }
        queue.is_deep |= queue.requests.len() >= 4;
        if slice_idle_ns == 0 || (!queue.is_deep && queue.is_seeky()) {
            queue.idle_window = false;
        } else if queue.think.is_valid() {
            queue.idle_window = queue.think.mean_ns <= slice_idle_ns;
        }
    }

    /// Whether a new request takes the device from the active queue.
    pub(super) fn should_preempt(&self, ctx: &Ctx, id: u32, request: &HostRequest) -> bool {
        let Some(active) = self.active.filter(|active| *active != id) else {
            return false;
        };
        let (new, old) = (&self.queues[id as usize], &self.queues[active as usize]);
        let (mine, theirs) = (new.context.class, old.context.class);
        if mine == Class::Idle || (theirs == Class::Realtime && mine != theirs) {
            return false;
        }
        if theirs == Class::Idle || (request.sync && !old.is_sync) {
            return true;
        }
        if new.group != old.group {
            return false;
        }
        if self.slice_used(ctx, active) || (mine == Class::Realtime && theirs != mine) {
            return true;
        }
        let empty = old.requests.is_empty();
        let both = new.kind() == Kind::SyncNoIdle && old.kind() == Kind::SyncNoIdle;
        if both && empty && self.alike(old.group, theirs, Kind::SyncNoIdle).count() == 2 {
            return true;
        }
        if empty && old.in_flight == 0 && !self.should_idle(active) {
            return true;
        }
        old.waits && request.sector.abs_diff(self.last_position) <= CLOSE_SECTORS
    }
}
