//! Who gets the next slice: the group that had least, the highest class, the kind that has waited
//! longest, and of that the queue with the lowest key.

use super::super::{Class, Ctx};
use super::queue::Kind;
use super::{scaled, Cfq, MS};

const CLASSES: [Class; 3] = [Class::Realtime, Class::BestEffort, Class::Idle];
const KINDS: [Kind; 3] = [Kind::Async, Kind::SyncNoIdle, Kind::Sync];

impl Cfq {
    /// Busy queues of a class, averaged over the last samples.
    pub(super) fn average_busy(&mut self, group: u32, class: Class) -> u64 {
        let busy = self.busy_of(group, class).count() as u64;
        let average = &mut self.groups[group as usize].average[class.index()];
        let (most, least) = ((*average).max(busy), (*average).min(busy));
        *average = (3 * most + least + 2) / 4;
        *average
    }

    fn busy_of(&self, group: u32, class: Class) -> impl Iterator<Item = u32> + '_ {
        self.busy.iter().copied().filter(move |id| {
            let queue = &self.queues[*id as usize];
            queue.group == group && queue.context.class == class
        })
    }

    /// The part of the target latency that a group has.
    pub(super) fn group_share_ns(&self, group: u32) -> u64 {
        let target_ns = self.tuning.target_ns;
        if self.groups.len() == 1 {
            return target_ns;
        }
        let is_busy = |group: u32| {
            self.busy
                .iter()
                .any(|id| self.queues[*id as usize].group == group)
        };
        let groups = 0..self.groups.len() as u32;
        let busy = groups.filter(|other| *other == group || is_busy(*other));
        let weights: u64 = busy.map(|other| self.groups[other as usize].weight).sum();
        scaled(
            target_ns,
            self.groups[group as usize].weight,
            weights.max(1),
        )
    }

    /// A group that was idle does not catch up on what it missed.
    pub(super) fn wake_group(&mut self, group: u32) {
        if self.groups.len() == 1 {
            return;
        }
        let others = self.busy.iter().map(|id| self.queues[*id as usize].group);
        let others = others.filter(|other| *other != group);
        let least = others.map(|other| self.groups[other as usize].time).min();
        let mine = &mut self.groups[group as usize].time;
        *mine = (*mine).max(least.unwrap_or(0));
    }

    /// The group pays for the slice that is over.
    pub(super) fn charge_group(&mut self, ctx: &Ctx, id: u32) {
        let queue = &self.queues[id as usize];
        let by_requests = self.tuning.slice_idle_ns == 0 && self.hw_tag == Some(true);
        let used = match by_requests {
            true => queue.slice_dispatched * MS,
            false => ctx
                .now_ns
                .saturating_sub(queue.active_since_ns)
                .max(MS / 1000),
        };
        let group = &mut self.groups[queue.group as usize];
        group.time += used * 500 / group.weight;
    }

    pub(super) fn choose(&mut self, ctx: &Ctx) -> Option<u32> {
        let time = |id: &u32| {
            let group = self.queues[*id as usize].group;
            (self.groups[group as usize].time, group)
        };
        let (_, group) = self.busy.iter().map(time).min()?;
        let classes = CLASSES.into_iter();
        let class = classes
            .into_iter()
            .find(|class| self.busy_of(group, *class).next().is_some())?;
        let (old_group, old_class, old_kind) = self.serving;
        let stays = (group, class) == (old_group, old_class)
            && ctx.now_ns <= self.serving_until_ns
            && self.alike(group, class, old_kind).next().is_some();
        if !stays {
            let kind = self.oldest_kind(group, class)?;
            self.serving = (group, class, kind);
            let workload_ns = self.workload_ns(group, class, kind);
            self.serving_until_ns = ctx.now_ns.saturating_add(workload_ns);
        }
        let (.., kind) = self.serving;
        self.first(group, class, kind)
    }

    fn first(&self, group: u32, class: Class, kind: Kind) -> Option<u32> {
        self.alike(group, class, kind)
            .min_by_key(|id| (self.queues[*id as usize].key, *id))
    }

    fn oldest_kind(&self, group: u32, class: Class) -> Option<Kind> {
        let first = KINDS.into_iter().filter_map(|kind| {
            let id = self.first(group, class, kind)?;
            Some((self.queues[id as usize].key, kind))
        });
        first.min_by_key(|(key, _)| *key).map(|(_, kind)| kind)
    }

    /// How long queues of one kind are served before the next kind gets its turn.
    fn workload_ns(&self, group: u32, class: Class, kind: Kind) -> u64 {
        if class == Class::Idle {
            return self.tuning.least_ns / 2;
        }
        let count = self.alike(group, class, kind).count() as u64;
        let average = self.groups[group as usize].average[class.index()];
        let busy = average
            .max(self.busy_of(group, class).count() as u64)
            .max(1);
        let mut slice_ns = self.group_share_ns(group) * count / busy;
        if kind == Kind::Async {
            let queues = self.busy.len() as u64;
            let is_async = |id: &&u32| !self.queues[**id as usize].is_sync;
            let others = self.busy.iter().filter(is_async).count() as u64;
            slice_ns = slice_ns.min(self.tuning.target_ns * others / queues.max(1));
            slice_ns = scaled(slice_ns, self.tuning.slice_ns[0], self.tuning.slice_ns[1]);
        } else {
            slice_ns = slice_ns.max(2 * self.tuning.slice_idle_ns);
        }
        slice_ns.max(self.tuning.least_ns)
    }
}
