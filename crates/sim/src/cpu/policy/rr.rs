//! Round robin: one queue; who has used the quantum goes to its end. In the textbooks who wakes has
//! a whole quantum; with ticks (`hz`) this is SCHED_RR at one priority (`task_tick_rt()` of
//! kernel/sched/rt.c): each tick that meets a task takes one from its slice, which is filled at its
//! end only.

use std::collections::VecDeque;

use super::{Policy, Ready, Settings, System};

struct RoundRobin {
    queue: VecDeque<usize>,
    settings: Settings,
    /// With ticks, by task: how many are left, and whether the last one was the end of its slice.
    left: Vec<(u64, bool)>,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(RoundRobin {
        queue: VecDeque::new(),
        settings: settings.clone(),
        left: Vec::new(),
    })
}

impl RoundRobin {
    /// A whole slice in ticks; nothing where time is exact.
    fn whole(&self) -> Option<u64> {
        let quantum_ns = self.settings.effective_quantum().0;
        quantum_ns.checked_div(self.settings.tick_ns())
    }
}

impl Policy for RoundRobin {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        let whole = self.whole().unwrap_or(0);
        self.left.resize(system.tasks.len(), (whole, false));
        self.left[task].1 = false;
        match why {
            Ready::Preempted => self.queue.push_front(task),
            _ => self.queue.push_back(task),
        }
    }

    fn pick(&mut self, _system: &System) -> Option<usize> {
        self.queue.pop_front()
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        let tick_ns = self.settings.tick_ns();
        Some(match self.left[task] {
            _ if tick_ns == 0 => {
                self.settings.effective_quantum().0 - system.tasks[task].since_pick_ns
            }
            (_, true) => 0,
            (ticks, false) => (system.now_ns / tick_ns + ticks) * tick_ns - system.now_ns,
        })
    }

    fn ran(&mut self, system: &System, task: usize, ran_ns: u64) {
        let Some(whole) = self.whole() else {
            return;
        };
        let tick_ns = self.settings.tick_ns();
        let ticks = system.now_ns / tick_ns - (system.now_ns - ran_ns) / tick_ns;
        let (left, is_over) = &mut self.left[task];
        *left = left.saturating_sub(ticks);
        if *left == 0 {
            (*left, *is_over) = (whole, true);
        }
    }

    #[cfg(test)]
    fn line(&mut self) -> &mut VecDeque<usize> {
        &mut self.queue
    }

    /// Who had to give way has met the end of its slice.
    #[cfg(test)]
    fn follow(&mut self, _system: &System, _kernels: usize, models: usize) {
        if !self.queue.contains(&models) {
            self.left[models] = (self.whole().unwrap_or(0), true);
        }
    }
}
