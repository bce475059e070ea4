//! First come, first served: one queue, every burst runs to its end.

use std::collections::VecDeque;

use super::{Policy, Ready, Settings, System};

#[derive(Default)]
struct Fcfs {
    queue: VecDeque<usize>,
}

pub(super) fn build(_settings: &Settings) -> Box<dyn Policy> {
    Box::<Fcfs>::default()
}

impl Policy for Fcfs {
    fn ready(&mut self, _system: &System, task: usize, _why: Ready) {
        self.queue.push_back(task);
    }

    fn pick(&mut self, _system: &System) -> Option<usize> {
        self.queue.pop_front()
    }

    #[cfg(test)]
    fn line(&mut self) -> &mut VecDeque<usize> {
        &mut self.queue
    }
}
