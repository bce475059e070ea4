//! IRBW: reads go one by one, writes to the same aligned range of pages go as a bundle, so that a
//! block is filled at once. FIFO keeps the order of arrival otherwise; FIFO-RP lets waiting reads
//! go before the next bundle.

use super::Policy;
use crate::window::{Command, View, Window};

/// The bundle that is being dispatched.
pub(super) struct Bundle {
    range_pages: u32,
    open: Option<u32>,
}

impl Bundle {
    pub(super) fn new(range_pages: u32) -> Self {
        Bundle {
            range_pages,
            open: None,
        }
    }

    /// Begins the bundle of this write.
    pub(super) fn begin(&mut self, write: &Command) {
        self.open = Some(write.first_page / self.range_pages);
    }

    /// Position of the next write of the bundle; none ends the bundle.
    pub(super) fn next(&mut self, window: &Window) -> Option<usize> {
        let range = self.open?;
        let next = window.commands().iter().position(|c| self.is_in(c, range));
        if next.is_none() {
            self.open = None;
        }
        next
    }

    /// How many waiting writes would be in the bundle of this one.
    pub(super) fn size(&self, window: &Window, write: &Command) -> usize {
        let range = write.first_page / self.range_pages;
        window
            .commands()
            .iter()
            .filter(|c| self.is_in(c, range))
            .count()
    }

    fn is_in(&self, command: &Command, range: u32) -> bool {
        command.is_write && command.first_page / self.range_pages == range
    }
}

pub(super) struct Irbw {
    pub(super) bundle: Bundle,
    pub(super) reads_first: bool,
}

impl Policy for Irbw {
    fn estimate(&self, _command: &Command, _view: &dyn View) -> f64 {
        0.0
    }

    fn choose(&mut self, window: &Window, _now_ns: u64) -> usize {
        if let Some(next) = self.bundle.next(window) {
            return next;
        }
        let commands = window.commands();
        let first_read = commands.iter().position(|c| !c.is_write);
        let position = if self.reads_first {
            first_read.unwrap_or(0)
        } else {
            0
        };
        if commands[position].is_write {
            self.bundle.begin(&commands[position]);
        }
        position
    }
}
