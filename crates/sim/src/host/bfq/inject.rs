//! Injection: requests of others that are sent while the queue in service is waited for, as many
//! as do not make its own later.

use super::super::order::LARGE_SECTORS;
use super::super::{Ctx, Id};
use super::{Bfq, MS};

/// The limit is found again so long after it was last lowered,
const RESET_NS: u64 = 1000 * MS;
/// and not measured for so long.
const PAUSE_NS: u64 = 10 * MS;
/// A queue that gets a request so soon after another's completion was woken by it.
const WOKEN_NS: u64 = 4 * MS;
/// After so many times it is sure.
const WAKE_UPS: u32 = 3;

/// The current measurement, and the last completion.
#[derive(Debug, Default)]
pub(super) struct Injection {
    last: Option<(u32, u64)>,
    /// The queue in service got its first request again at this time.
    pub(super) occupied_ns: u64,
    /// Its next dispatch is the one to measure.
    waits_for_dispatch: bool,
    pub(super) measured: Option<Id>,
    /// Others were served meanwhile.
    pub(super) injected: bool,
}

impl Bfq {
    /// A queue to serve instead of the one that is waited for.
    pub(super) fn inject(&mut self, ctx: &Ctx, id: u32) -> Option<u32> {
        if !self.injects {
            return None;
        }
        let queue = &self.queues[id as usize];
        if let Some(waker) = queue.waker.filter(|waker| self.may_inject(ctx, *waker)) {
            return Some(waker);
        }
        let woken = queue.woken.filter(|woken| self.may_inject(ctx, *woken));
        if woken.is_some() {
            return woken;
        }
        let urgent = queue.is_raised() && self.raised_busy <= 1 && queue.short_think;
        if self.idling_boosts(id) || urgent {
            return None;
        }
        let waited_long = ctx.now_ns >= self.idling_since_ns + self.slice_idle_ns;
        let mut limit = queue.inject_limit;
        if limit == 0 && queue.inject_base_ns == 0 && queue.waits && waited_long {
            limit = 1;
        }
        if self.in_flight >= limit {
            return None;
        }
        let any = !queue.is_raised() || !queue.short_think;
        let candidate = self.active_list.iter().copied().find(|other| {
            let fits = any || self.queues[*other as usize].is_raised();
            *other != id && fits && self.may_inject(ctx, *other) && !self.is_crowded(ctx, *other)
        });
        self.injection.injected |= candidate.is_some();
        candidate
    }

    fn may_inject(&self, ctx: &Ctx, other: u32) -> bool {
        let queue = &self.queues[other as usize];
        let Some(next) = queue.requests.next else {
            return false;
        };
        queue.is_busy && self.charge(ctx, other, next) <= queue.budget_left()
    }

    /// Whether a large request would be another one in flash, which serves those first.
    fn is_crowded(&self, ctx: &Ctx, other: u32) -> bool {
        let next = self.queues[other as usize].requests.next;
        let is_large =
            next.is_some_and(|next| u64::from(ctx.requests[next].sectors) >= LARGE_SECTORS);
        !self.rotational && self.in_flight > 0 && is_large
    }

    /// A queue that was empty gets a request: the limit may be due, and a measurement begins.
    pub(super) fn prepare_injection(&mut self, ctx: &Ctx, id: u32) {
        let in_flight = self.in_flight;
        let serving = self.in_service == Some(id);
        let queue = &mut self.queues[id as usize];
        if ctx.now_ns >= queue.inject_since_ns + RESET_NS {
            queue.inject_base_ns = 0;
            queue.inject_limit = usize::from(!queue.short_think);
            queue.inject_since_ns = ctx.now_ns;
            self.injection.measured = None;
        }
        let queue = &self.queues[id as usize];
        let mixed = queue.inject_base_ns > 0 && self.injection.injected;
        let settled = ctx.now_ns >= queue.inject_since_ns + PAUSE_NS;
        if serving && settled && (in_flight == 0 || mixed) {
            self.injection.occupied_ns = ctx.now_ns;
            self.injection.waits_for_dispatch = true;
            if in_flight == 0 {
                self.injection.injected = false;
            }
        }
    }

    /// A request of the queue in service goes to the device.
    pub(super) fn note_dispatch(&mut self, request: Id) {
        if std::mem::take(&mut self.injection.waits_for_dispatch) {
            self.injection.measured = Some(request);
        }
    }

    /// A completion: did what was injected make the queue's own request later?
    pub(super) fn completed_for_injection(&mut self, ctx: &Ctx, id: u32, request: Id) {
        self.injection.last = Some((id, ctx.now_ns));
        if self.injection.measured != Some(request) {
            return;
        }
        let time_ns = ctx.now_ns - self.injection.occupied_ns;
        let (alone, injected) = (self.in_flight == 1, self.injection.injected);
        let most = self.hardware.most();
        let queue = &mut self.queues[id as usize];
        let base_ns = queue.inject_base_ns;
        if base_ns > 0 && injected {
            if time_ns >= base_ns * 3 / 2 && queue.inject_limit > 0 {
                queue.inject_limit -= 1;
                queue.inject_since_ns = ctx.now_ns;
            } else if time_ns < base_ns * 3 / 2 && queue.inject_limit <= most {
                queue.inject_limit += 1;
            }
        }
        if (base_ns == 0 && alone) || time_ns < base_ns {
            if base_ns == 0 {
                queue.inject_limit = queue.inject_limit.max(1);
            }
            queue.inject_base_ns = time_ns;
        } else if !injected && alone {
            queue.inject_base_ns = time_ns;
        }
        self.injection.measured = None;
        self.injection.injected = false;
    }

    /// A queue was empty and has a request: who woke its process?
    pub(super) fn note_waker(&mut self, ctx: &Ctx, id: u32) {
        let Some((last, at_ns)) = self.injection.last else {
            return;
        };
        let queue = &self.queues[id as usize];
        let own = self
            .in_service
            .is_some_and(|serving| self.queues[serving as usize].in_flight > 0);
        if last == id || queue.short_think || own || ctx.now_ns > at_ns + WOKEN_NS {
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
            self.queues[last as usize].woken = Some(id);
        }
    }
}
