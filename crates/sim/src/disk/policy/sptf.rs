//! Shortest positioning time first: seek, settling and rotation together (Jacobson and Wilkes,
//! 1991; Seltzer, Chen and Ousterhout, 1990). Needs to know the angle of the platters, as only the
//! disk itself does.

use super::{smallest, Choice, HeadPolicy, View};

struct Sptf;

pub(super) fn build() -> Box<dyn HeadPolicy> {
    Box::new(Sptf)
}

impl HeadPolicy for Sptf {
    fn choose(&mut self, view: &View) -> Choice {
        let soonest = smallest(view, |queued| Some((view.positioning_ns)(queued)));
        Choice::direct(soonest.unwrap_or(0))
    }
}
