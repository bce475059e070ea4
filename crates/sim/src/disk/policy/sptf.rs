//! Shortest positioning time first: seek, settling and rotation together (Jacobson and Wilkes,
//! 1991; Seltzer, Chen and Ousterhout, 1990). Needs to know the angle of the platters, as only the
//! disk itself does.
//!
//! Alone it starves what is far while work is near, so a command that has waited too long goes
//! first. But where the queue is long enough that most wait so long, the order of age would be all
//! that is left (80 random reads a second at depth 32, instead of 212), so only now and then.

use super::{smallest, Choice, HeadPolicy, View};

/// A command that waited in the disk for longer may go first.
const MAX_WAIT_NS: u64 = 200_000_000;

/// One of so many choices at most goes by age.
const CHOICES_PER_OVERDUE: u32 = 16;

struct Sptf {
    /// Choices since the last one by age, that one included.
    choices: u32,
}

pub(super) fn build() -> Box<dyn HeadPolicy> {
    Box::new(Sptf {
        choices: CHOICES_PER_OVERDUE,
    })
}

impl HeadPolicy for Sptf {
    fn choose(&mut self, view: &View) -> Choice {
        let overdue = smallest(view, |queued| {
            let waited_ns = view.now_ns.saturating_sub(queued.queued_ns);
            (waited_ns > MAX_WAIT_NS).then_some(queued.queued_ns)
        });
        if let Some(oldest) = overdue.filter(|_| self.choices >= CHOICES_PER_OVERDUE) {
            self.choices = 1;
            return Choice::direct(oldest);
        }
        self.choices = self.choices.saturating_add(1);
        let soonest = smallest(view, |queued| Some((view.positioning_ns)(queued)));
        Choice::direct(soonest.unwrap_or(0))
    }
}
