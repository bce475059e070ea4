//! Injection: requests of others that are sent while the queue in service is waited for, as many
//! as do not make its own later.

use super::super::{Ctx, HostRequest};
use super::{Bfq, MS};

/// The limit is found again so often.
const RESET_NS: u64 = 1000 * MS;
/// A queue that gets a request so soon after another's completion was woken by it.
const WOKEN_NS: u64 = 4 * MS;
/// After so many times it is sure.
const WAKE_UPS: u32 = 3;

/// What was completed last.
#[derive(Debug, Default)]
pub(super) struct Injection {
    last: Option<(u32, u64)>,
    /// Requests of others in the device since the queue in service was without its own.
    others_in_flight: usize,
}

impl Bfq {
    /// A queue to serve instead of the one that is waited for.
    pub(super) fn inject(&mut self, ctx: &Ctx, id: u32) -> Option<u32> {
        if !self.injects {
            return None;
        }
        let queue = &mut self.queues[id as usize];
        if ctx.now_ns > queue.inject_since_ns + RESET_NS {
            queue.inject_limit = usize::from(!queue.short_think);
            queue.inject_base_ns = 0;
            queue.inject_since_ns = ctx.now_ns;
        }
        let queue = &self.queues[id as usize];
        // A wait without anything of its own in flight costs it nothing while its process sleeps
        // on somebody else.
        let asleep = queue.waits && queue.in_flight == 0;
        if let Some(waker) = queue.waker.filter(|waker| asleep && self.may_inject(ctx, *waker)) {
            return Some(waker);
        }
        if self.in_flight >= queue.inject_limit {
            return None;
        }
        let others = 0..self.queues.len() as u32;
        let found = others.filter(|other| *other != id && self.may_inject(ctx, *other));
        // Async requests first: nobody waits for them.
        found.min_by_key(|other| self.queues[*other as usize].is_sync)
    }

    fn may_inject(&self, ctx: &Ctx, other: u32) -> bool {
        let queue = &self.queues[other as usize];
        let Some(next) = queue.requests.next else {
            return false;
        };
        let in_service = self.in_service == Some(other);
        let room = self.charge(ctx, other, next) <= queue.budget_left();
        queue.is_busy && !in_service && room
    }

    pub(super) fn injected_from(&mut self, _id: u32) {
        self.injection.others_in_flight += 1;
        if let Some(serving) = self.in_service {
            self.queues[serving as usize].injected = true;
        }
    }

    /// Does the injected work make the queue's own requests slower?
    pub(super) fn completed_for_injection(&mut self, ctx: &Ctx, id: u32, request: &HostRequest) {
        self.injection.last = Some((id, ctx.now_ns));
        let time_ns = ctx.now_ns - request.dispatched_ns;
        let most = self.in_flight + 1;
        let queue = &mut self.queues[id as usize];
        if !queue.is_sync || self.in_service != Some(id) {
            return;
        }
        if !queue.injected {
            if self.in_flight == 0 {
                let base_ns = queue.inject_base_ns;
                if base_ns == 0 || time_ns < base_ns {
                    queue.inject_base_ns = time_ns;
                    queue.inject_limit = queue.inject_limit.max(1);
                }
            }
            return;
        }
        queue.injected = false;
        if queue.inject_base_ns == 0 {
            return;
        }
        if time_ns > queue.inject_base_ns * 3 / 2 {
            queue.inject_limit = queue.inject_limit.saturating_sub(1);
        } else if queue.inject_limit < most {
            queue.inject_limit += 1;
        }
    }

    /// A queue was empty and has a request: who woke its process?
    pub(super) fn note_waker(&mut self, ctx: &Ctx, id: u32) {
        let Some((last, at_ns)) = self.injection.last else {
            return;
        };
        let short = self.queues[id as usize].short_think;
        if last == id || short || ctx.now_ns > at_ns + WOKEN_NS {
            return;
        }
        let queue = &mut self.queues[id as usize];
        let times = match queue.tentative_waker {
            Some((waker, times)) if waker == last => times + 1,
            _ => 1,
        };
        queue.tentative_waker = Some((last, times));
        if times >= WAKE_UPS {
            queue.waker = Some(last);
        }
    }
}
