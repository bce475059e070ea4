//! SB: the request with the fewest pages that are not in the buffer first.

use super::Policy;
use crate::device::View;
use crate::engine::Command;

pub(super) struct Sb;

impl Policy for Sb {
    fn estimate(&self, command: &Command, _view: &dyn View) -> f64 {
        f64::from(command.missing)
    }

    fn uses_buffer(&self) -> bool {
        true
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
