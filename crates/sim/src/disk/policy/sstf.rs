//! Shortest seek time first: the nearest cylinder. Starves what is far while work is near.

use super::{smallest, Choice, HeadPolicy, View};

struct Sstf;

pub(super) fn build() -> Box<dyn HeadPolicy> {
    Box::new(Sstf)
}

impl HeadPolicy for Sstf {
    fn choose(&mut self, view: &View) -> Choice {
        let here = view.head.cylinder;
        let nearest = smallest(view, |q| Some(u64::from(q.place.cylinder.abs_diff(here))));
        Choice::direct(nearest.unwrap_or(0))
    }
}
