//! SCAN, the elevator: on in one direction to the edge of the disk, then back. A command waits for
//! at most two sweeps.

use super::{smallest, Choice, HeadPolicy, View};

struct Scan {
    upwards: bool,
}

pub(super) fn build() -> Box<dyn HeadPolicy> {
    Box::new(Scan { upwards: true })
}

impl Scan {
    /// The nearest command ahead of cylinder `from`.
    fn ahead(&self, view: &View, from: u32) -> Option<usize> {
        smallest(view, |queued| {
            let distance = i64::from(queued.place.cylinder) - i64::from(from);
            let ahead = if self.upwards { distance } else { -distance };
            u64::try_from(ahead).ok()
        })
    }
}

impl HeadPolicy for Scan {
    fn choose(&mut self, view: &View) -> Choice {
        if let Some(index) = self.ahead(view, view.head.cylinder) {
            return Choice::direct(index);
        }
        let edge = if self.upwards { view.last_cylinder } else { 0 };
        self.upwards = !self.upwards;
        Choice {
            index: self.ahead(view, edge).unwrap_or(0),
            via: Some(edge),
        }
    }
}
