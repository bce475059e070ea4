//! SITF: the shortest service time first, as the device itself foresees it: missing pages, and in
//! the `parallel` model also how long each plane is busy.

use super::Policy;
use crate::device::View;
use crate::engine::Command;

pub(super) struct Sitf;

impl Policy for Sitf {
    fn estimate(&self, command: &Command, view: &dyn View) -> f64 {
        view.service_time_ns(command)
    }

    fn is_volatile(&self) -> bool {
        true
    }

    fn is_stateless(&self) -> bool {
        true
    }
}
