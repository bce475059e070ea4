//! The `parallel` model: a whole SSD. Pages go through a write-back buffer and a page-mapped
//! translation layer to dies that work at the same time and share channels.

use super::dies::{Dies, NONE};
use super::front::{Front, Stage};
use super::{Buffer, Device, Touch, Usage, BATCH};
use crate::ftl::Ftl;
use crate::spec::{DeviceSpec, FlashSpec, Keeps};
use crate::window::{Command, View};
use crate::SimError;

/// A command in service and how many flash operations it waits for.
#[derive(Clone, Copy, Default)]
struct InService {
    command: Command,
    waits_for: u32,
}

/// An SSD with channels, dies and planes.
pub struct Parallel {
    spec: FlashSpec,
    keeps: Keeps,
    buffer: Buffer,
    ftl: Ftl,
    flash: Dies,
    in_service: Vec<InService>,
    free: Vec<u32>,
    now_ns: u64,
    usage: Usage,
    front: Option<Front>,
}

impl Parallel {
    /// The device of a checked specification; `seed` fixes its preconditioning.
    pub fn new(spec: &DeviceSpec, seed: u64) -> Result<Self, SimError> {
        let ftl = Ftl::new(spec, seed)?;
        Ok(Parallel {
            spec: spec.flash.clone(),
            keeps: spec.buffer.keeps,
            buffer: Buffer::new(spec.buffer_pages(), ftl.logical_pages()),
            ftl,
            flash: Dies::new(spec),
            in_service: vec![InService::default(); spec.ftl.in_flight as usize],
            free: (0..spec.ftl.in_flight).rev().collect(),
            now_ns: 0,
            usage: Usage::default(),
            front: Front::new(
                &spec.controller,
                &spec.link,
                spec.buffer.page_time,
                spec.flash.page.0,
            ),
        })
    }

    /// The translation layer, for inspection.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Time of one page when nothing is in its way.
    #[inline]
    fn page_ns(&self, is_write: bool) -> u64 {
        self.spec.page_transfer.0 + self.spec.cells_ns(is_write)
    }

    /// Programs a page, after what must be collected in its plane.
    #[inline]
    fn program(&mut self, page: u32, waiter: u32) {
        let plane = self.ftl.plane_for(page, &self.flash.busy_until_ns);
        self.flash.collect(plane, self.ftl.write(page, plane));
        let free_blocks = self.ftl.free_blocks(plane);
        self.flash.set_free_blocks(plane, free_blocks);
        self.flash.page(self.now_ns, plane, true, waiter);
    }

    /// Writes a page into the buffer; what has to leave is programmed first, and the writer pays.
    fn write_page(&mut self, page: u32, waiter: u32) -> u32 {
        self.usage.write_pages += 1;
        match self.buffer.touch(page, true) {
            Touch::Hit => self.usage.write_hits += 1,
            Touch::Miss(Some(left)) if left.is_dirty => {
                self.program(left.page, waiter);
                return 1;
            }
            Touch::Miss(_) if self.buffer.capacity() == 0 => {
                self.program(page, waiter);
                return 1;
            }
            Touch::Miss(_) => {}
        }
        0
    }

    fn read_page(&mut self, page: u32, waiter: u32) -> u32 {
        self.usage.read_pages += 1;
        let mut waits_for = 1;
        if self.keeps == Keeps::ReadWrite || self.buffer.contains(page) {
            match self.buffer.touch(page, false) {
                Touch::Hit => {
                    self.usage.read_hits += 1;
                    return 0;
                }
                Touch::Miss(Some(left)) if left.is_dirty => {
                    self.program(left.page, waiter);
                    waits_for = 2;
                }
                Touch::Miss(_) => {}
            }
        }
        self.ftl.count_read();
        let plane = self.ftl.plane_of(page);
        self.flash.page(self.now_ns, plane, false, waiter);
        waits_for
    }

    /// Passes the pages of a command through buffer and flash; gives for how many operations it
    /// waits.
    #[inline]
    fn touch(&mut self, command: &Command, slot: u32) -> u32 {
        let mut waits_for = 0;
        for page in command.first_page..command.end_page() {
            waits_for += if command.is_write {
                self.write_page(page, slot)
            } else {
                self.read_page(page, slot)
            };
        }
        waits_for
    }

    /// The next stage between host and flash ends.
    fn advance_front(&mut self, completions: &mut Vec<Command>) {
        let Some((now_ns, (slot, stage))) = self.front.as_mut().and_then(Front::pop) else {
            return;
        };
        self.now_ns = now_ns;
        let command = self.in_service[slot as usize].command;
        match stage {
            Stage::Taken if command.is_write => {
                if let Some(front) = &mut self.front {
                    front.receive(now_ns, slot, command.pages);
                }
            }
            Stage::Taken | Stage::Arrived => {
                // One more for the way through the buffer, which runs beside the flash.
                self.in_service[slot as usize].waits_for = 1;
                let waits_for = self.touch(&command, slot);
                self.in_service[slot as usize].waits_for += waits_for;
                if let Some(front) = &mut self.front {
                    front.buffer(now_ns, slot, command.pages);
                }
            }
            Stage::Buffered => self.served(slot, completions),
            Stage::Delivered => {
                if let Some(front) = &mut self.front {
                    front.complete(now_ns, slot);
                }
            }
            Stage::Completed => {
                completions.push(command);
                self.free.push(slot);
            }
        }
    }

    /// One of the operations that a command waits for is over.
    #[inline]
    fn served(&mut self, slot: u32, completions: &mut Vec<Command>) {
        let served = &mut self.in_service[slot as usize];
        served.waits_for -= 1;
        if served.waits_for != 0 {
            return;
        }
        let command = served.command;
        match &mut self.front {
            Some(front) if command.is_write => front.complete(self.now_ns, slot),
            Some(front) => front.deliver(self.now_ns, slot, command.pages),
            None => {
                completions.push(command);
                self.free.push(slot);
            }
        }
    }

    fn trim(&mut self, command: &Command) {
        for page in command.first_page..command.end_page() {
            self.buffer.remove(page);
            self.ftl.trim(page);
        }
    }
}

impl View for Parallel {
    #[inline]
    fn page_time_ns(&self, is_write: bool) -> f64 {
        self.page_ns(is_write) as f64
    }

    #[inline]
    fn missing(&self, first_page: u32, pages: u32) -> u32 {
        self.buffer.missing(first_page, pages)
    }

    /// The longest wait for a plane among the missing pages, and the page itself.
    fn service_time_ns(&self, command: &Command) -> f64 {
        let wait = |page: u32| {
            let plane = self.ftl.plane_of(page);
            let until = self.flash.busy_until_ns[plane as usize];
            until.saturating_sub(self.now_ns) + self.page_ns(command.is_write)
        };
        let missing =
            (command.first_page..command.end_page()).filter(|page| !self.buffer.contains(*page));
        missing.map(wait).max().unwrap_or(0) as f64
    }
}

impl Device for Parallel {
    fn page_bytes(&self) -> u64 {
        self.spec.page.0
    }

    fn pages(&self) -> u32 {
        self.ftl.logical_pages()
    }

    fn prefetch(&self, commands: &[Command]) {
        let is_buffered = self.buffer.capacity() > 0;
        let mut written = [0; BATCH];
        let mut count = 0;
        for command in commands {
            self.buffer.prefetch(command.first_page);
            // What a buffered write needs of the flash is what it pushes out.
            if !(command.is_write && is_buffered) {
                self.ftl.prefetch_place(command.first_page);
                written[count] = command.first_page;
                count += usize::from(command.is_write);
            }
        }
        if is_buffered {
            // Where a page is must be known before what is there can be fetched: of the requests
            // after these the one, of these the other.
            count = 0;
            self.buffer.leaving(2 * commands.len(), |page| {
                if count < commands.len() {
                    written[count] = page;
                    self.buffer.prefetch_entry(page);
                } else {
                    self.buffer.prefetch(page);
                    self.ftl.prefetch_place(page);
                }
                count += 1;
            });
        }
        self.ftl
            .prefetch_all(&mut written[..count.min(commands.len())]);
    }

    fn is_ready(&self) -> bool {
        !self.free.is_empty()
    }

    fn start(&mut self, now_ns: u64, command: &Command, completions: &mut Vec<Command>) {
        self.now_ns = now_ns;
        self.buffer.forget_changes();
        if command.is_trim {
            self.trim(command);
            return completions.push(*command);
        }
        let Some(slot) = self.free.pop() else {
            unreachable!("only a ready device is given a command");
        };
        if let Some(front) = &mut self.front {
            self.in_service[slot as usize] = InService {
                command: *command,
                waits_for: 0,
            };
            return front.command(now_ns, slot);
        }
        let waits_for = self.touch(command, slot);
        if waits_for == 0 {
            self.free.push(slot);
            return completions.push(*command);
        }
        self.in_service[slot as usize] = InService {
            command: *command,
            waits_for,
        };
    }

    #[inline]
    fn next_time_ns(&self) -> Option<u64> {
        let flash_ns = self.flash.next_time_ns();
        match self.front.as_ref().and_then(Front::next_time_ns) {
            None => flash_ns,
            Some(front_ns) => Some(flash_ns.map_or(front_ns, |flash_ns| flash_ns.min(front_ns))),
        }
    }

    #[inline]
    fn advance(&mut self, completions: &mut Vec<Command>) {
        if let Some(front) = &self.front {
            self.buffer.forget_changes();
            let flash_ns = self.flash.next_time_ns().unwrap_or(u64::MAX);
            if front
                .next_time_ns()
                .is_some_and(|front_ns| front_ns < flash_ns)
            {
                return self.advance_front(completions);
            }
        }
        let Some((now_ns, waiter)) = self.flash.advance() else {
            return;
        };
        self.now_ns = now_ns;
        if waiter != NONE {
            self.served(waiter, completions);
        }
    }

    fn pass(&mut self, end_ns: u64, completions: &mut Vec<Command>) -> Option<u64> {
        let front_ns = self.front.as_ref().and_then(Front::next_time_ns);
        // At equal times the flash goes before the front.
        let front_ns = front_ns.map_or(u64::MAX, |front_ns| front_ns.saturating_add(1));
        let (now_ns, waiter) = self.flash.pass(end_ns.min(front_ns))?;
        self.now_ns = now_ns;
        if waiter == NONE {
            return None;
        }
        self.served(waiter, completions);
        Some(now_ns)
    }

    #[inline]
    fn is_cold(&self) -> bool {
        self.usage.write_pages > 0 && (!self.buffer.is_full() || self.ftl.is_erased())
    }

    fn changes_later(&self) -> bool {
        self.front.is_some()
    }

    fn changed(&self) -> &[(u32, u32)] {
        self.buffer.changed()
    }

    fn usage(&self) -> Usage {
        Usage {
            busy_ns: self.flash.die_busy_ns(),
            channel_busy_ns: self.flash.channel_busy_ns(),
            ftl: Some(self.ftl.usage()),
            suspensions: self.flash.suspensions(),
            ..self.usage.clone()
        }
    }
}
