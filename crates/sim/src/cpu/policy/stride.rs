//! Stride scheduling (Waldspurger and Weihl, MIT/LCS/TM-528, 1995): the smallest pass value runs
//! for a quantum and its pass grows by stride = 1/tickets, or by the used part of it.

use super::{take_min, Policy, Ready, Settings, System};

/// Pass units per nanosecond and ticket; large, so that the division by the tickets loses little.
const STRIDE_1: u128 = 1 << 40;

struct Stride {
    waiting: Vec<usize>,
    quantum_ns: u64,
    passes: Vec<u128>,
    /// Pass of the last task picked: no task may join behind it and starve the others.
    global_pass: u128,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(Stride {
        waiting: Vec::new(),
        quantum_ns: settings.effective_quantum().0,
        passes: Vec::new(),
        global_pass: 0,
    })
}

impl Policy for Stride {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.passes.resize(system.tasks.len(), 0);
        if why == Ready::Arrived || why == Ready::Woken {
            self.passes[task] = self.passes[task].max(self.global_pass);
        }
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let key = |task: usize| (self.passes[task], system.tie(task));
        let task = take_min(&mut self.waiting, key)?;
        self.global_pass = self.global_pass.max(self.passes[task]);
        Some(task)
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        Some(self.quantum_ns - system.tasks[task].since_pick_ns)
    }

    fn ran(&mut self, system: &System, task: usize, ran_ns: u64) {
        self.passes[task] += u128::from(ran_ns) * STRIDE_1 / u128::from(system.tasks[task].weight);
    }
}
