//! Injection: requests of others that are sent while the queue in service is waited for, as many
//! as do not make its own later.

use super::super::order::LARGE_SECTORS;
use super::super::{Ctx, Id};
use super::queue::Tentative;
use super::{jiffies_ns, Bfq, MS};

/// The limit is found again so long after it was last lowered,
const RESET_NS: u64 = 1000 * MS;
/// and not measured for so long.
const PAUSE_NS: u64 = 10 * MS;
/// A queue that gets a request so soon after another's completion was woken by it.
const WOKEN_NS: u64 = 4 * MS;
/// After so many times it is sure.
const WAKE_UPS: u32 = 3;

/// The current measurement, and the last completion.
#[derive(Clone, Debug, Default)]
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

impl Injection {
    /// The slot is over.
    pub(super) fn stop(&mut self) {
        self.injected = false;
        self.waits_for_dispatch = false;
        self.measured = None;
    }
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
        let woken = queue.woken.last().copied();
        let woken = woken.filter(|woken| self.may_inject(ctx, *woken));
        if woken.is_some() {
            return woken;
        }
        let urgent = queue.is_raised() && self.raised_busy <= 1 && queue.short_think;
        if self.idling_boosts(id) || urgent {
            return None;
        }
        // A limit of 0 stays one however long the wait is: the kernel compares ticks with ns.
        if self.in_flight >= queue.inject_limit {
            return None;
        }
        let any = !queue.is_raised() || !queue.short_think;
        let candidate = self.active_list.iter().rev().copied().find(|other| {
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
        let now_ns = jiffies_ns(ctx);
        if now_ns >= self.queues[id as usize].inject_since_ns + RESET_NS {
            self.reset_injection(ctx, id);
        }
        let queue = &self.queues[id as usize];
        let mixed = queue.inject_base_ns > 0 && self.injection.injected;
        let settled = now_ns >= queue.inject_since_ns + PAUSE_NS;
        if serving && settled && (in_flight == 0 || mixed) {
            self.injection.occupied_ns = ctx.now_ns;
            self.injection.waits_for_dispatch = true;
            if in_flight == 0 {
                self.injection.injected = false;
            }
        }
    }

    pub(super) fn reset_injection(&mut self, ctx: &Ctx, id: u32) {
        let queue = &mut self.queues[id as usize];
        queue.inject_base_ns = 0;
        queue.inject_limit = usize::from(!queue.short_think);
        queue.inject_since_ns = jiffies_ns(ctx);
        self.injection.measured = None;
    }

    /// A request of the queue in service goes to the device.
    pub(super) fn note_dispatch(&mut self, request: Id) {
        if std::mem::take(&mut self.injection.waits_for_dispatch) {
            self.injection.measured = Some(request);
        }
    }

    /// A completion: did what was injected make the queue's own request later?
    pub(super) fn completed_for_injection(&mut self, ctx: &Ctx, id: u32, request: Id) {
        let is_shared = self.queues[id as usize].is_shared;
        self.injection.last = (!is_shared).then_some((id, ctx.now_ns));
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
                queue.inject_since_ns = jiffies_ns(ctx);
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
        let queue = &mut self.queues[id as usize];
        if last == id || queue.short_think || ctx.now_ns >= at_ns + WOKEN_NS {
            return;
        }
        let tentative = &mut queue.tentative;
        let long_ago = ctx.now_ns > tentative.since_ns + 128 * self.slice_idle_ns;
        if tentative.waker != Some(last) || long_ago {
            *tentative = Tentative {
                waker: Some(last),
                times: 1,
                since_ns: ctx.now_ns,
            };
        } else {
            tentative.times += 1;
        }
        if tentative.times == WAKE_UPS {
            tentative.waker = None;
            if let Some(before) = queue.waker.replace(last) {
                self.queues[before as usize]
                    .woken
                    .retain(|other| *other != id);
            }
            self.note_woken(last, id);
        }
    }

    /// A queue is the last of those that another wakes.
    pub(super) fn note_woken(&mut self, waker: u32, id: u32) {
        let woken = &mut self.queues[waker as usize].woken;
        woken.retain(|other| *other != id);
        woken.push(id);
    }
}
