//! TS: the least time by type and size, without regard to the buffer.

use super::Policy;
use crate::device::View;
use crate::engine::Command;

pub(super) struct Ts;

impl Policy for Ts {
    fn estimate(&self, command: &Command, view: &dyn View) -> f64 {
        f64::from(command.pages) * view.page_time_ns(command.is_write)
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
