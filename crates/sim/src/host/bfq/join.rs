//! Merging of queues: of processes that read close to each other, and of those created together.

use super::super::{Class, Ctx, HostRequest, IoContext};
use super::queue::{Queue, Raised};
use super::{jiffies_ns, Bfq, MS};

/// Sectors within which two processes are close.
const CLOSE_SECTORS: u64 = 8 * 1024;
/// After its first service since it was idle a queue is merged for being close only this long.
const EARLY_NS: u64 = 100 * MS;
/// Queues created within this time of each other are candidates,
const TOGETHER_NS: u64 = 180 * MS;
/// and are merged so long after, where waiting for them does not pay.
const LATER_NS: u64 = 600 * MS;

/// The queue that others may have been created together with.
#[derive(Clone, Debug, Default)]
pub(super) struct Creation {
    last: Option<u32>,
}

impl Bfq {
    /// A new queue: was it created together with the one before?
    pub(super) fn created(&mut self, ctx: &Ctx, id: u32) {
        let last = self.creation.last.map(|last| self.settled(last));
        let Some(last) = last.filter(|last| self.are_alike(*last, id) && self.merges_stable) else {
            self.creation.last = Some(id);
            return;
        };
        let age_ns = jiffies_ns(ctx) - self.queues[last as usize].created_ns;
        if age_ns > LATER_NS {
            self.creation.last = Some(id);
        } else if age_ns <= TOGETHER_NS {
            if !self.rotational && self.hardware.queues() {
                let owner = self.queues[id as usize].context.owner;
                self.merge(ctx, owner, id, last, true);
            } else {
                let owner = self.queues[id as usize].context.owner;
                self.process(owner).stable_with = Some(last);
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

    /// The kernel asks first whether the bio may be merged into a request, whatever its place, and
    /// merges queues on that occasion (`bfq_allow_bio_merge`).
    pub(super) fn cooperate_as_bio(&mut self, ctx: &Ctx, request: &HostRequest) {
        let Some(last) = self.last_merge.map(|last| &ctx.requests[last]) else {
            return;
        };
        let priority = |one: &HostRequest| (one.context.class, one.context.level, one.op, one.sync);
        if priority(last) == priority(request) {
            if let Some(id) = self.known_queue(request.context, request.sync) {
                self.cooperate(ctx, id, request);
            }
        }
    }

    /// The queue that a request goes to, once those that belong together are merged.
    pub(super) fn cooperate(&mut self, ctx: &Ctx, id: u32, request: &HostRequest) -> u32 {
        let queue = &self.queues[id as usize];
        let owner = request.context.owner;
        if queue.merged_into.is_some() {
            let into = self.settled(id);
            self.redirect(ctx, owner, id, into);
            return into;
        }
        let queues_inside = !self.rotational && self.hardware.queues();
        if !queue.is_sync || queues_inside {
            return id;
        }
        let now_ns = jiffies_ns(ctx);
        let since_ns = queue.created_ns.max(queue.split_ns.unwrap_or(0));
        let is_old = !queue.just_created && now_ns > since_ns + LATER_NS;
        let stable_with = self.process(owner).stable_with.filter(|_| is_old);
        if let Some(other) = stable_with {
            self.process(owner).stable_with = None;
            if self.idling_boosts(id) {
                return id;
            }
            return self.merge(ctx, owner, id, other, true);
        }
        let merges = self.merges_queues && self.busy_queues() != 1;
        if !merges || is_too_late(ctx, &self.queues[id as usize]) {
            return id;
        }
        match self.close_queue(ctx, id, request.sector) {
            Some(other) => self.merge(ctx, owner, id, other, false),
            None => id,
        }
    }

    /// A busy queue of another process that is about to read close by.
    fn close_queue(&self, ctx: &Ctx, id: u32, sector: u64) -> Option<u32> {
        let is_close = |at: u64| at.abs_diff(sector) <= CLOSE_SECTORS;
        let own = &self.queues[id as usize];
        let fits = |other: &u32| {
            let queue = &self.queues[*other as usize];
            *other != id
                && !is_too_late(ctx, queue)
                && [own, queue]
                    .iter()
                    .all(|one| one.is_sync && one.context.class != Class::Idle && !one.is_seeky())
                && own.context.class == queue.context.class
        };
        let serving = self.in_service.filter(fits);
        if serving.is_some() && is_close(self.in_service_position) {
            return serving;
        }
        let next = |other: u32| {
            let queue = &self.queues[other as usize];
            let next = queue.requests.next.filter(|_| !is_too_late(ctx, queue))?;
            let at = ctx.requests[next].sector;
            is_close(at).then_some((at.abs_diff(sector), other))
        };
        let nearest = (0..self.queues.len() as u32).filter_map(next).min()?;
        Some(nearest.1).filter(fits)
    }

    /// From now on the processes of `from` use `into`, each from its next request on.
    fn merge(&mut self, ctx: &Ctx, owner: u32, from: u32, into: u32, stable: bool) -> u32 {
        let into = self.settled(into);
        if into == from {
            return from;
        }
        let target = &self.queues[into as usize];
        if stable && !target.is_shared {
            let other = target.context.owner;
            self.process(other).is_stable = true;
        }
        self.process(owner).is_stable |= stable;
        self.queues[from as usize].merged_into = Some(into);
        self.redirect(ctx, owner, from, into);
        into
    }

    /// A process of `from` uses `into` instead; what is queued stays where it is.
    fn redirect(&mut self, ctx: &Ctx, owner: u32, from: u32, into: u32) {
        for id in [from, into] {
            let queue = &self.queues[id as usize];
            if !queue.is_shared {
                let (owner, saved) = (queue.context.owner, queue.saved());
                self.process(owner).saved = Some(saved);
            }
        }
        self.sync_of[owner as usize] = into;
        let [queue, target] = self.two(from, into);
        target.io_bound |= std::mem::take(&mut queue.io_bound);
        let mut waker = None;
        if target.waker.is_none() && queue.waker.is_some_and(|waker| waker != into) {
            waker = queue.waker;
            target.waker = waker;
            target.tentative.waker = None;
        }
        let mut more = 0;
        if queue.is_raised() && !target.is_raised() {
            target.raised = queue.raised;
            target.raised_ns = queue.raised_ns;
            target.raised_for_ns = queue.raised_for_ns;
            target.interactive_since_ns = queue.interactive_since_ns;
            more = usize::from(target.is_busy);
        }
        target.is_shared = true;
        queue.just_created = false;
        if queue.is_raised() {
            queue.raised = Raised::No;
            self.raised_busy -= usize::from(self.queues[from as usize].is_busy);
        }
        self.raised_busy += more;
        if let Some(waker) = waker {
            self.note_woken(waker, into);
        }
        let queue = &self.queues[from as usize];
        if queue.is_busy && queue.requests.is_empty() && self.in_service != Some(from) {
            self.make_idle(ctx, from, false);
        }
    }

    fn two(&mut self, one: u32, other: u32) -> [&mut Queue; 2] {
        let (low, high) = (one.min(other) as usize, one.max(other) as usize);
        let (before, behind) = self.queues.split_at_mut(high);
        match one < other {
            true => [&mut before[low], &mut behind[0]],
            false => [&mut behind[0], &mut before[low]],
        }
    }

    /// The queue of a process whose own is `id`. It leaves a shared one that seeks for a new one,
    /// with what was known of it (`bfq_split_bfqq`, `bfq_bfqq_resume_state`).
    pub(super) fn leave(&mut self, ctx: &Ctx, context: IoContext, id: u32) -> u32 {
        let shared = &self.queues[id as usize];
        if !(shared.is_shared && shared.splits) || self.process(context.owner).is_stable {
            return id;
        }
        if self.sync_of.iter().filter(|own| **own == id).count() == 1 {
            let queue = &mut self.queues[id as usize];
            (queue.is_shared, queue.splits) = (false, false);
            return id;
        }
        let now_ns = jiffies_ns(ctx);
        let most = self.rate.max_budget();
        let shared = &self.queues[id as usize];
        let (waker, splits) = (shared.waker, shared.saved());
        let saved = self.process(context.owner).saved.unwrap_or(splits);
        let mut new = Queue::new(context, true, ctx.now_ns, now_ns, most).resumed(&saved, now_ns);
        (new.waker, new.split_ns) = (waker, Some(now_ns));
        let id = self.queues.len() as u32;
        if let Some(waker) = new.waker {
            self.note_woken(waker, id);
        }
        self.queues.push(new);
        self.sync_of[context.owner as usize] = id;
        id
    }
}

/// A queue is merged for being close only early after it was idle.
fn is_too_late(ctx: &Ctx, queue: &Queue) -> bool {
    queue.backlogged_service > 0 && jiffies_ns(ctx) > queue.first_service_ns + EARLY_NS
}
