//! Shortest job first and shortest remaining time first: the burst lengths are known in advance,
//! which makes them the bound that no policy beats in mean turnaround on one CPU.

use super::{largest_above_waiting, take_min, Policy, Ready, Settings, System};

struct Sjf {
    waiting: Vec<usize>,
    preemptive: bool,
}

pub(super) fn build(_settings: &Settings) -> Box<dyn Policy> {
    Box::new(Sjf {
        waiting: Vec::new(),
        preemptive: false,
    })
}

pub(super) fn build_preemptive(_settings: &Settings) -> Box<dyn Policy> {
    Box::new(Sjf {
        waiting: Vec::new(),
        preemptive: true,
    })
}

impl Policy for Sjf {
    fn ready(&mut self, _system: &System, task: usize, _why: Ready) {
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let key = |task: usize| (system.tasks[task].remaining_ns, system.tie(task));
        take_min(&mut self.waiting, key)
    }

    fn victim(&self, system: &System, running: &[usize]) -> Option<usize> {
        if !self.preemptive {
            return None;
        }
        let key = |task: usize| system.tasks[task].remaining_ns;
        largest_above_waiting(&self.waiting, running, key)
    }
}
