//! Round robin of the textbooks: one queue; who has used the quantum goes to its end, and who wakes
//! has a whole one. SCHED_RR at one priority is this except for the latter: its task has what was
//! left when it slept (`task_tick_rt()` of kernel/sched/rt.c fills the slice at its end only).

use std::collections::VecDeque;

use super::{Policy, Ready, Settings, System};

struct RoundRobin {
    queue: VecDeque<usize>,
    quantum_ns: u64,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(RoundRobin {
        queue: VecDeque::new(),
        quantum_ns: settings.effective_quantum().0,
    })
}

impl Policy for RoundRobin {
    fn ready(&mut self, _system: &System, task: usize, _why: Ready) {
        self.queue.push_back(task);
    }

    fn pick(&mut self, _system: &System) -> Option<usize> {
        self.queue.pop_front()
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        Some(self.quantum_ns - system.tasks[task].since_pick_ns)
    }
}
