//! By priority, smaller first, with or without preemption, with or without aging.
//!
//! Aging: a task gains one level for each `aging` that it waits, and keeps what it gained until
//! its burst ends; without that the two tasks at a boundary would swap at every tick.

use super::{largest_above_waiting, take_min, Policy, Ready, Settings, System};

struct Priority {
    waiting: Vec<usize>,
    preemptive: bool,
    aging_ns: Option<u64>,
    /// Levels gained in earlier waits of the current burst, by task.
    gained: Vec<i64>,
}

fn new(settings: &Settings, preemptive: bool) -> Box<dyn Policy> {
    Box::new(Priority {
        waiting: Vec::new(),
        preemptive,
        aging_ns: settings.aging.map(|aging| aging.0),
        gained: Vec::new(),
    })
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    new(settings, false)
}

pub(super) fn build_preemptive(settings: &Settings) -> Box<dyn Policy> {
    new(settings, true)
}

impl Priority {
    /// Levels that a waiting task gained in its present wait.
    fn gain(&self, system: &System, task: usize) -> i64 {
        let waited_ns = system.now_ns - system.tasks[task].ready_since_ns;
        self.aging_ns.map_or(0, |aging| (waited_ns / aging) as i64)
    }

    fn running_level(&self, system: &System, task: usize) -> i64 {
        i64::from(system.tasks[task].priority) - self.gained[task]
    }

    fn waiting_level(&self, system: &System, task: usize) -> i64 {
        self.running_level(system, task) - self.gain(system, task)
    }
}

impl Policy for Priority {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.gained.resize(system.tasks.len(), 0);
        if why == Ready::Arrived || why == Ready::Woken {
            self.gained[task] = 0;
        }
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let key = |task: usize| (self.waiting_level(system, task), system.tie(task));
        let picked = take_min(&mut waiting, key);
        self.waiting = waiting;
        if let Some(task) = picked {
            self.gained[task] += self.gain(system, task);
        }
        picked
    }

    fn victim(&self, system: &System, running: &[usize]) -> Option<usize> {
        if !self.preemptive {
            return None;
        }
        let key = |task: usize| {
            if running.contains(&task) {
                self.running_level(system, task)
            } else {
                self.waiting_level(system, task)
            }
        };
        largest_above_waiting(&self.waiting, running, key)
    }

    /// Only preemption needs to know when a waiting task has gained a level.
    fn period_ns(&self) -> Option<u64> {
        self.aging_ns.filter(|_| self.preemptive)
    }
}
