//! FCFS: arrival order. Nothing is ever overtaken, so α has no effect.

use super::Policy;
use crate::device::View;
use crate::engine::{Command, Window};

pub(super) struct Fcfs;

impl Policy for Fcfs {
    fn estimate(&self, _command: &Command, _view: &dyn View) -> f64 {
        0.0
    }

    fn choose(&mut self, _window: &Window, _now_ns: u64) -> usize {
        0
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
