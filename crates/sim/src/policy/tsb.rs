//! TSB: the least time by type, size and buffer; the proposal of the NCQ paper.

use super::Policy;
use crate::device::View;
use crate::engine::Command;

pub(super) struct Tsb;

impl Policy for Tsb {
    fn estimate(&self, command: &Command, view: &dyn View) -> f64 {
        f64::from(command.missing) * view.page_time_ns(command.is_write)
    }

    fn uses_buffer(&self) -> bool {
        true
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
