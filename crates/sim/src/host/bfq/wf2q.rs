//! The fair queue of bfq, B-WF2Q+: of the queues that are not ahead of their share, the one whose
//! budget would be served first (`block/bfq-wf2q.c`, one level).

use super::super::Ctx;
use super::queue::{Queue, Standing};
use super::{jiffies_ns, Bfq, IDLE_CLASS_NS};

/// Fixed point of virtual times.
const SHIFT: u32 = 22;

/// The trees of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    /// Virtual time.
    pub(super) time: u64,
    weights: u64,
    /// By finish; of equal ones the older first.
    active: Vec<u32>,
    idle: Vec<u32>,
}

fn drop_from(list: &mut Vec<u32>, id: u32) {
    list.retain(|other| *other != id);
}

fn insert(list: &mut Vec<u32>, queues: &[Queue], id: u32) {
    let finish = queues[id as usize].finish;
    let place = list.partition_point(|other| queues[*other as usize].finish <= finish);
    list.insert(place, id);
}

fn scaled(service: u64, weight: u64) -> u64 {
    (service << SHIFT) / weight.max(1)
}

impl Tree {
    /// Nothing waits: the time is that of the last queue to leave. One whose lead is used up is
    /// forgotten, one at a time (`bfq_forget_idle`).
    fn forget_idle(&mut self, queues: &mut [Queue]) {
        let finish = |id: &u32| queues[*id as usize].finish;
        if let (true, Some(last)) = (self.active.is_empty(), self.idle.last().map(finish)) {
            self.time = self.time.min(last);
        }
        if let Some(first) = self.idle.first().copied() {
            if queues[first as usize].finish <= self.time {
                self.idle.remove(0);
                self.forget(&mut queues[first as usize]);
            }
        }
    }

    fn forget(&mut self, queue: &mut Queue) {
        queue.standing = Standing::Off;
        self.weights -= queue.weight;
    }

    /// The queue to serve next; where none is in service, the time goes on to the first that may.
    fn first(&mut self, queues: &mut [Queue], in_service: bool) -> Option<u32> {
        let starts = self.active.iter().map(|id| queues[*id as usize].start);
        let time = self.time.max(starts.min()?);
        if !in_service && time > self.time {
            self.time = time;
            self.forget_idle(queues);
        }
        let mut active = self.active.iter().copied();
        active.find(|id| queues[*id as usize].start <= time)
    }

    /// A queue got service.
    pub(super) fn served(&mut self, queues: &mut [Queue], id: u32, service: u64) {
        queues[id as usize].service += service;
        self.time += scaled(service, self.weights);
        self.forget_idle(queues);
    }
}

impl Bfq {
    /// The weight in force from now on (`__bfq_entity_update_weight_prio`).
    pub(super) fn weigh(&mut self, id: u32) {
        let queue = &self.queues[id as usize];
        let (weight, before, class) = (
            queue.own_weight() * queue.coefficient(),
            queue.weight,
            queue.class(),
        );
        if weight == before {
            return;
        }
        self.uncount_weight(id);
        self.trees[class].weights = self.trees[class].weights + weight - before;
        self.queues[id as usize].weight = weight;
        self.count_weight(id);
    }

    fn enqueue(&mut self, ctx: &Ctx, id: u32, back_shifted: bool, expires: bool) {
        self.weigh(id);
        let queue = &mut self.queues[id as usize];
        let tree = &mut self.trees[queue.class()];
        queue.finish = queue.start + scaled(queue.budget, queue.weight);
        if back_shifted && tree.time > queue.finish {
            let shift = (tree.time - queue.finish) / queue.coefficient();
            queue.start += shift;
            queue.finish += shift;
        }
        queue.standing = Standing::Active;
        insert(&mut tree.active, &self.queues, id);
        self.active_list.push(id);
        self.update_next(ctx, Some(id), expires);
    }

    fn extract(&mut self, id: u32) {
        let class = self.queues[id as usize].class();
        drop_from(&mut self.trees[class].active, id);
        drop_from(&mut self.active_list, id);
    }

    /// A queue has requests again. `in_time`: it continues as if it had never been empty.
    pub(super) fn activate(&mut self, ctx: &Ctx, id: u32, in_time: bool) {
        let queue = &mut self.queues[id as usize];
        let tree = &mut self.trees[queue.class()];
        let back_shifted = in_time && tree.time > queue.finish;
        let least = match back_shifted {
            true => queue.finish,
            false => tree.time,
        };
        if queue.standing == Standing::Idle {
            drop_from(&mut tree.idle, id);
            queue.start = least.max(queue.finish);
        } else {
            queue.start = least;
            tree.weights += queue.weight;
        }
        self.enqueue(ctx, id, back_shifted, false);
    }

    /// The slot of the queue in service is over and it has more requests, or the budget of one
    /// that waits for its slot is another.
    pub(super) fn requeue(&mut self, ctx: &Ctx, id: u32, expires: bool) {
        let queue = &mut self.queues[id as usize];
        if queue.standing == Standing::InService {
            queue.start += scaled(queue.service, queue.weight);
        } else {
            self.extract(id);
        }
        self.enqueue(ctx, id, false, expires);
    }

    /// A queue is without requests.
    pub(super) fn deactivate(&mut self, ctx: &Ctx, id: u32, expires: bool) {
        let queue = &mut self.queues[id as usize];
        if queue.standing != Standing::Off {
            queue.finish = queue.start + scaled(queue.service, queue.weight);
        }
        match queue.standing {
            Standing::InService => self.in_service = None,
            Standing::Active => {
                queue.service = 0;
                self.extract(id);
            }
            Standing::Off | Standing::Idle => return,
        }
        let class = self.queues[id as usize].class();
        let tree = &mut self.trees[class];
        if self.queues[id as usize].finish > tree.time {
            self.queues[id as usize].standing = Standing::Idle;
            insert(&mut tree.idle, &self.queues, id);
        } else {
            tree.forget(&mut self.queues[id as usize]);
        }
        if self.next == Some(id) {
            self.update_next(ctx, None, expires);
        }
    }

    /// Which queue will be served next is decided when one comes or goes, not when the slot
    /// begins (`bfq_update_next_in_service`).
    fn update_next(&mut self, ctx: &Ctx, new: Option<u32>, expires: bool) {
        if let Some(new) = new.filter(|new| self.next != Some(*new)) {
            let queue = &self.queues[new as usize];
            let is_first = self.next.is_none_or(|next| {
                let next = &self.queues[next as usize];
                next.class() == queue.class()
                    && queue.start <= self.trees[queue.class()].time
                    && queue.finish < next.finish
            });
            if is_first {
                self.next = Some(new);
                return;
            }
        }
        let mut from = 0;
        if jiffies_ns(ctx) > self.idle_class_ns + IDLE_CLASS_NS {
            if !self.trees[2].active.is_empty() {
                from = 2;
            }
            self.idle_class_ns = jiffies_ns(ctx);
        }
        let in_service = self.in_service.is_some() && !expires;
        let queues = &mut self.queues;
        let mut trees = self.trees[from..].iter_mut();
        self.next = trees.find_map(|tree| tree.first(queues, in_service));
    }

    /// Takes the queue that is to be served next.
    pub(super) fn take_next(&mut self, ctx: &Ctx) -> Option<u32> {
        let id = self.next.filter(|_| self.busy_queues() > 0)?;
        self.in_service = Some(id);
        self.queues[id as usize].standing = Standing::InService;
        self.extract(id);
        self.update_next(ctx, None, false);
        Some(id)
    }
}
