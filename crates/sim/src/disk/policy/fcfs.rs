//! First come, first served.

use super::{Choice, HeadPolicy, View};

struct Fcfs;

pub(super) fn build() -> Box<dyn HeadPolicy> {
    Box::new(Fcfs)
}

impl HeadPolicy for Fcfs {
    fn choose(&mut self, _view: &View) -> Choice {
        Choice::direct(0)
    }
}
