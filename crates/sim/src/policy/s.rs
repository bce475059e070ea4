//! S: the smallest request first, without regard to its type and to the buffer.

use super::Policy;
use crate::device::View;
use crate::engine::Command;

pub(super) struct S;

impl Policy for S {
    fn estimate(&self, command: &Command, _view: &dyn View) -> f64 {
        f64::from(command.pages)
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
