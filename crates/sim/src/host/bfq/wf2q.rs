//! The fair queue of bfq, B-WF2Q+: of the queues that are not ahead of their share, the one whose
//! budget would be served first (`block/bfq-wf2q.c`, one level).

use super::queue::{Queue, Standing};

/// Fixed point of virtual times.
const SHIFT: u32 = 22;

/// The trees of one class.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Virtual time.
    pub(super) time: u64,
    weights: u64,
    active: Vec<u32>,
    idle: Vec<u32>,
}

fn drop_from(list: &mut Vec<u32>, id: u32) {
    if let Some(place) = list.iter().position(|other| *other == id) {
        list.swap_remove(place);
    }
}

fn scaled(service: u64, weight: u64) -> u64 {
    (service << SHIFT) / weight.max(1)
}

impl Tree {
    pub(super) fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// The weight in force from now on; it changes only between slots.
    fn weigh(&mut self, queue: &mut Queue) {
        let weight = queue.own_weight() * queue.coefficient();
        self.weights = self.weights + weight - queue.weight;
        queue.weight = weight;
    }

    /// A queue has requests again. `in_time`: it continues as if it had never been empty.
    pub(super) fn activate(&mut self, queues: &mut [Queue], id: u32, in_time: bool) {
        let queue = &mut queues[id as usize];
        let back_shifted = in_time && self.time > queue.finish;
        let least = if back_shifted {
            queue.finish
        } else {
            self.time
        };
        if queue.standing == Standing::Idle {
            drop_from(&mut self.idle, id);
            queue.start = least.max(queue.finish);
        } else {
            queue.start = least;
        }
        self.weigh(queue);
        queue.finish = queue.start + scaled(queue.budget, queue.weight);
        if back_shifted && self.time > queue.finish {
            let shift = (self.time - queue.finish) / queue.coefficient();
            queue.start += shift;
            queue.finish += shift;
        }
        queue.standing = Standing::Active;
        self.active.push(id);
    }

    /// The budget of a waiting queue changed.
    pub(super) fn rebudget(&mut self, queue: &mut Queue) {
        if queue.standing == Standing::Active {
            queue.finish = queue.start + scaled(queue.budget, queue.weight);
        }
    }

    /// Takes the queue that is to be served next.
    pub(super) fn take_next(&mut self, queues: &mut [Queue]) -> Option<u32> {
        let starts = self.active.iter().map(|id| queues[*id as usize].start);
        self.time = self.time.max(starts.min()?);
        let eligible = self.active.iter().copied();
        let eligible = eligible.filter(|id| queues[*id as usize].start <= self.time);
        let key = |id: &u32| (queues[*id as usize].finish, *id);
        let id = eligible.min_by_key(key)?;
        drop_from(&mut self.active, id);
        queues[id as usize].standing = Standing::InService;
        Some(id)
    }

    /// A queue got service.
    pub(super) fn served(&mut self, queues: &mut [Queue], id: u32, service: u64) {
        queues[id as usize].service += service;
        self.time += scaled(service, self.weights);
        self.forget_idle(queues);
    }

    /// The slot of the queue in service is over and it has more requests.
    pub(super) fn requeue(&mut self, queues: &mut [Queue], id: u32) {
        let queue = &mut queues[id as usize];
        queue.start += scaled(queue.service, queue.weight);
        self.weigh(queue);
        queue.finish = queue.start + scaled(queue.budget, queue.weight);
        queue.standing = Standing::Active;
        self.active.push(id);
    }

    /// A queue is without requests.
    pub(super) fn deactivate(&mut self, queues: &mut [Queue], id: u32) {
        let queue = &mut queues[id as usize];
        match queue.standing {
            Standing::InService => {
                queue.finish = queue.start + scaled(queue.service, queue.weight);
            }
            Standing::Active => drop_from(&mut self.active, id),
            Standing::Off | Standing::Idle => return,
        }
        if queue.finish > self.time {
            queue.standing = Standing::Idle;
            self.idle.push(id);
        } else {
            self.forget(queue);
        }
    }

    fn forget(&mut self, queue: &mut Queue) {
        queue.standing = Standing::Off;
        self.weights -= queue.weight;
        queue.weight = 0;
    }

    /// Queues without requests whose lead is used up.
    fn forget_idle(&mut self, queues: &mut [Queue]) {
        if self.idle.is_empty() {
            return;
        }
        if self.active.is_empty() {
            let finishes = self.idle.iter().map(|id| queues[*id as usize].finish);
            self.time = self.time.max(finishes.max().unwrap_or(0));
        }
        let mut place = 0;
        while place < self.idle.len() {
            let id = self.idle[place] as usize;
            if queues[id].finish <= self.time {
                self.forget(&mut queues[id]);
                self.idle.swap_remove(place);
            } else {
                place += 1;
            }
        }
    }
}
