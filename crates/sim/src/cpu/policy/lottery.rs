//! Lottery scheduling (Waldspurger and Weihl, OSDI 1994): each quantum goes to the holder of a
//! drawn ticket. Without compensation tickets: who blocks early gets less than its share.

use schedlab_model::Rng;

use super::{Policy, Ready, Settings, System};

struct Lottery {
    waiting: Vec<usize>,
    quantum_ns: u64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(Lottery {
        waiting: Vec::new(),
        quantum_ns: settings.effective_quantum().0,
        rng: Rng::new(settings.seed, 0),
    })
}

impl Policy for Lottery {
    fn ready(&mut self, _system: &System, task: usize, _why: Ready) {
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let tickets = |task: &usize| system.tasks[*task].weight;
        let mut ticket = self.rng.below(self.waiting.iter().map(tickets).sum());
        let winner = self.waiting.iter().position(|task| {
            let won = ticket < tickets(task);
            ticket = ticket.saturating_sub(tickets(task));
            won
        })?;
        Some(self.waiting.remove(winner))
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        Some(self.quantum_ns - system.tasks[task].since_pick_ns)
    }
}
