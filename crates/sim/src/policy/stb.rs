//! STB: IRBW with time limits and selective bundling. Reads go first, unless a write waited longer
//! than its limit; a read past its own limit goes before everything. Writes are bundled only where
//! enough of them wait for one range. The published description gives neither limit nor size.

use super::irbw::Bundle;
use super::Policy;
use crate::window::{Command, View, Window};

pub(super) struct Stb {
    pub(super) bundle: Bundle,
    pub(super) bundle_min: u32,
    pub(super) read_limit_ns: u64,
    pub(super) write_limit_ns: u64,
}

impl Policy for Stb {
    fn estimate(&self, _command: &Command, _view: &dyn View) -> f64 {
        0.0
    }

    fn choose(&mut self, window: &Window, now_ns: u64) -> usize {
        let commands = window.commands();
        let earliest = |is_write| commands.iter().position(|c| c.is_write == is_write);
        let overdue =
            |position: &usize, limit_ns| now_ns - commands[*position].admitted_ns > limit_ns;
        let (read, write) = (earliest(false), earliest(true));
        if let Some(late) = read.filter(|read| overdue(read, self.read_limit_ns)) {
            return late;
        }
        let late_write = write.filter(|write| overdue(write, self.write_limit_ns));
        if late_write.is_none() {
            if let Some(next) = self.bundle.next(window).or(read) {
                return next;
            }
        }
        let chosen = late_write.or(write).unwrap_or(0);
        if self.bundle.size(window, &commands[chosen]) >= self.bundle_min as usize {
            self.bundle.begin(&commands[chosen]);
        }
        chosen
    }
}
