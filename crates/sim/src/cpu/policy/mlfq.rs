//! Multi-level feedback queue with the five rules of Arpaci-Dusseau, "Operating Systems: Three
//! Easy Pieces", chapter 8: the highest non-empty queue runs, round robin inside it; new tasks
//! start at the top; a task that has used its allotment at a level goes one down, however often
//! it gave up the CPU meanwhile; every `boost` all tasks return to the top.
//!
//! The allotment of the top level is the quantum and doubles at each level below; at the bottom
//! it is only the quantum of the round robin. A preempted task keeps its place at the head.

use std::collections::VecDeque;

use super::{Policy, Ready, Settings, System};

struct Mlfq {
    queues: Vec<VecDeque<usize>>,
    allotments_ns: Vec<u64>,
    boost_ns: Option<u64>,
    /// Level and CPU time used there, by task.
    places: Vec<(usize, u64)>,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    let allotment = |level: u32| {
        let wanted_ns = settings.quantum.0.saturating_mul(1u64 << level.min(40));
        settings.in_jiffies(wanted_ns.min(u64::MAX / 4))
    };
    Box::new(Mlfq {
        queues: vec![VecDeque::new(); settings.levels],
        allotments_ns: (0..settings.levels as u32).map(allotment).collect(),
        boost_ns: settings.boost.map(|boost| boost.0),
        places: Vec::new(),
    })
}

impl Policy for Mlfq {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.places.resize(system.tasks.len(), (0, 0));
        let (level, used_ns) = &mut self.places[task];
        if why == Ready::Arrived {
            (*level, *used_ns) = (0, 0);
        } else if *used_ns >= self.allotments_ns[*level] {
            *level = (*level + 1).min(self.queues.len() - 1);
            *used_ns = 0;
        }
        let queue = &mut self.queues[*level];
        match why {
            Ready::Preempted => queue.push_front(task),
            _ => queue.push_back(task),
        }
    }

    fn pick(&mut self, _system: &System) -> Option<usize> {
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }

    fn slice_left_ns(&self, _system: &System, task: usize) -> Option<u64> {
        let (level, used_ns) = self.places[task];
        Some(self.allotments_ns[level] - used_ns)
    }

    fn ran(&mut self, _system: &System, task: usize, ran_ns: u64) {
        self.places[task].1 += ran_ns;
    }

    fn victim(&self, _system: &System, running: &[usize]) -> Option<usize> {
        let best = self.queues.iter().position(|queue| !queue.is_empty())?;
        let level = |task: &usize| self.places[*task].0;
        let (at, worst) = running.iter().enumerate().max_by_key(|(_, t)| level(t))?;
        (best < level(worst)).then_some(at)
    }

    fn period_ns(&self) -> Option<u64> {
        self.boost_ns
    }

    fn tick(&mut self, _system: &System) {
        let waiting: VecDeque<usize> = self.queues.iter_mut().flat_map(std::mem::take).collect();
        self.queues[0] = waiting;
        self.places.fill((0, 0));
    }
}
