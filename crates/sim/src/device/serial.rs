//! The `serial` model: one command in service at a time, costing its missing pages times the time
//! of a page. Hits and evictions cost nothing. This is what the numbers of the NCQ paper imply.

use super::{Buffer, Device, Touch, Usage};
use crate::spec::{DeviceSpec, FlashSpec};
use crate::window::{Command, View};

/// One server with a page buffer.
pub struct Serial {
    flash: FlashSpec,
    pages: u32,
    buffer: Buffer,
    serving: Option<(u64, Command)>,
    usage: Usage,
}

impl Serial {
    /// The device of a checked specification.
    pub fn new(spec: &DeviceSpec) -> Self {
        let pages = spec.flash.pages() as u32;
        Serial {
            flash: spec.flash.clone(),
            pages,
            buffer: Buffer::new(spec.buffer_pages(), pages),
            serving: None,
            usage: Usage {
                busy_ns: vec![0],
                ..Usage::default()
            },
        }
    }

    /// Passes the pages through the buffer in address order; gives how many were not there.
    fn touch(&mut self, command: &Command) -> u32 {
        let mut missed = 0;
        self.buffer.forget_changes();
        self.buffer.touch_run(
            command.first_page,
            command.pages,
            command.is_write,
            |touch| {
                missed += u32::from(touch != Touch::Hit);
            },
        );
        let hits = u64::from(command.pages - missed);
        if command.is_write {
            self.usage.write_pages += u64::from(command.pages);
            self.usage.write_hits += hits;
        } else {
            self.usage.read_pages += u64::from(command.pages);
            self.usage.read_hits += hits;
        }
        missed
    }
}

impl View for Serial {
    #[inline]
    fn page_time_ns(&self, is_write: bool) -> f64 {
        self.flash.cells_ns(is_write) as f64
    }

    #[inline]
    fn missing(&self, first_page: u32, pages: u32) -> u32 {
        self.buffer.missing(first_page, pages)
    }

    fn service_time_ns(&self, command: &Command) -> f64 {
        let missing = self.buffer.missing(command.first_page, command.pages);
        f64::from(missing) * self.page_time_ns(command.is_write)
    }
}

impl Device for Serial {
    fn page_bytes(&self) -> u64 {
        self.flash.page.0
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    #[inline]
    fn prefetch(&self, commands: &[Command]) {
        for command in commands {
            self.buffer.prefetch(command.first_page);
        }
    }

    fn is_ready(&self) -> bool {
        self.serving.is_none()
    }

    fn start(&mut self, now_ns: u64, command: &Command, completions: &mut Vec<Command>) {
        if command.is_trim {
            return completions.push(*command);
        }
        let page_ns = self.flash.cells_ns(command.is_write);
        let service_ns = u64::from(self.touch(command)) * page_ns;
        self.usage.busy_ns[0] += service_ns;
        match service_ns {
            0 => completions.push(*command),
            _ => self.serving = Some((now_ns + service_ns, *command)),
        }
    }

    fn next_time_ns(&self) -> Option<u64> {
        self.serving.map(|(end_ns, _)| end_ns)
    }

    fn advance(&mut self, completions: &mut Vec<Command>) {
        completions.extend(self.serving.take().map(|(_, command)| command));
    }

    fn changed(&self) -> &[(u32, u32)] {
        self.buffer.changed()
    }

    fn usage(&self) -> Usage {
        self.usage.clone()
    }
}
