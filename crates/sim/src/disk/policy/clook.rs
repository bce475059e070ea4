//! C-LOOK: upwards to the last command, then in one seek to the lowest one. Treats the middle and
//! the edges of the disk alike.

use super::{smallest, Choice, HeadPolicy, View};

struct CLook;

pub(super) fn build() -> Box<dyn HeadPolicy> {
    Box::new(CLook)
}

impl HeadPolicy for CLook {
    fn choose(&mut self, view: &View) -> Choice {
        let here = view.head.cylinder;
        let ahead = smallest(view, |queued| {
            queued.place.cylinder.checked_sub(here).map(u64::from)
        });
        let lowest = || smallest(view, |queued| Some(u64::from(queued.place.cylinder)));
        Choice::direct(ahead.or_else(lowest).unwrap_or(0))
    }
}
