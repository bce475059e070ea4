//! Reads by wait: the reads that waited longest in the command queue, then writes.

use schedlab_sim::device::View;
use schedlab_sim::engine::{Command, Window};
use schedlab_sim::policy::Policy;

pub struct ReadsByWait;

impl Policy for ReadsByWait {
    /// Not used: this policy chooses by itself.
    fn estimate(&self, _command: &Command, _view: &dyn View) -> f64 {
        0.0
    }

    fn choose(&mut self, window: &Window, _now_ns: u64) -> usize {
        let commands = window.commands();
        commands
            .iter()
            .position(|command| !command.is_write)
            .unwrap_or(0)
    }
}
