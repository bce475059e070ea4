//! Dies and channels of the flash, each with one operation at a time. The planes of a die share its
//! command logic and have a page register each: a page can cross the channel while another plane of
//! its die works.
//!
//! Garbage collection moves one page after the other: it is read into the register, goes to the
//! controller and back over the channel, and is programmed. Reads of the host go before all that
//! waits, unless a plane is nearly out of free blocks, or they have gone before a program for as
//! long as two take: who reads on and on would stop all writes. Programs of the host are paced:
//! before each of them the die makes so many moves that the blocks are collected before the free
//! pages run out.

mod state;
#[cfg(test)]
mod tests;

use self::state::{Channel, Die, Kind, Moving, Operation, Plane, Served};
use super::suspend::Yields;
use crate::divisor::Divisor;
use crate::events::EventQueue;
use crate::ftl::Victim;
use crate::spec::{DeviceSpec, FlashSpec, SuspendSpec};

/// No command that waits for an operation.
pub(super) const NONE: u32 = u32::MAX;

/// With so few free blocks in a plane, collection goes before reads.
const CRITICAL_BLOCKS: i64 = 1;
/// Reads in a row go before a program for as long as so many take; with less they would often wait
/// behind one that came to a queue of theirs.
const PROGRAMS_PASSED: u64 = 2;

/// Lanes of events: those of one kind are in order, as each of them takes equally long.
const TRANSFER: usize = 0;
const READ: usize = 1;
const PROGRAM: usize = 2;
const ERASE: usize = 3;

/// The dies and channels of a device.
pub(super) struct Dies {
    dies: Vec<Die>,
    planes: Vec<Plane>,
    channels: Vec<Channel>,
    planes_per_die: Divisor,
    planes_per_channel: Divisor,
    pages_per_block: i64,
    flash: FlashSpec,
    suspend: SuspendSpec,
    suspensions: u64,
    /// When the die of each plane will have done what the host gave it, without collection and
    /// waits for the channel.
    pub(super) busy_until_ns: Vec<u64>,
    /// Of a die's cells with their generation, or of a channel.
    events: EventQueue<u64, 4>,
}

/// Marks events of channels.
const OF_CHANNEL: u64 = 1 << 63;

impl Dies {
    pub(super) fn new(spec: &DeviceSpec) -> Self {
        let flash = &spec.flash;
        let planes = flash.planes();
        Dies {
            dies: (0..planes / flash.planes_per_die)
                .map(|_| Die::default())
                .collect(),
            planes: (0..planes)
                .map(|_| Plane {
                    free_blocks: i64::from(flash.blocks_per_plane),
                    ..Plane::default()
                })
                .collect(),
            channels: (0..flash.channels).map(|_| Channel::default()).collect(),
            planes_per_die: Divisor::new(flash.planes_per_die),
            planes_per_channel: Divisor::new(planes / flash.channels),
            pages_per_block: i64::from(flash.pages_per_block),
            flash: flash.clone(),
            suspend: spec.suspend,
            suspensions: 0,
            busy_until_ns: vec![0; planes as usize],
            events: EventQueue::default(),
        }
    }

    /// Reads or programs a page in a plane; `waiter` learns when it is done.
    pub(super) fn page(&mut self, now_ns: u64, plane: u32, is_write: bool, waiter: u32) {
        let kind = if is_write { Kind::Program } else { Kind::Read };
        let operation = Operation {
            kind,
            plane,
            waiter,
        };
        let die = self.planes_per_die.quotient(plane);
        let first = (die * self.planes_per_die.number()) as usize;
        let work_ns = self.cells_ns(kind);
        for until in &mut self.busy_until_ns[first..first + self.planes_per_die.number() as usize] {
            *until = now_ns.max(*until) + work_ns;
        }
        let at = &mut self.dies[die as usize];
        match kind {
            Kind::Read => {
                at.reads.push_back(operation);
                self.suspend_for_read(now_ns, die);
            }
            _ => at.programs.push_back(operation),
        }
        self.choose(now_ns, die);
    }

    /// Blocks of a plane are to be collected, after which it has `free_blocks`.
    pub(super) fn collect(&mut self, plane: u32, victims: &[Victim]) {
        let at = &mut self.planes[plane as usize];
        for victim in victims {
            at.victims.push_back(*victim);
            at.steps += u64::from(victim.moves) + 1;
            at.owed_blocks += 1 - i64::from(victim.opens);
        }
    }

    /// So many blocks of a plane are free in the tables.
    pub(super) fn set_free_blocks(&mut self, plane: u32, free_blocks: u32) {
        self.planes[plane as usize].free_blocks = i64::from(free_blocks);
    }

    #[inline]
    fn cells_ns(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Read | Kind::MoveOut => self.flash.page_read.0,
            Kind::Program | Kind::MoveIn => self.flash.page_write.0,
            Kind::Erase => self.flash.block_erase.0,
        }
    }

    /// Lets the read that came last suspend what its die does, if that may be and is worth it.
    fn suspend_for_read(&mut self, now_ns: u64, die: u32) {
        if !self.suspend.is_on() {
            return;
        }
        let at = &mut self.dies[die as usize];
        let Some(served) = at.served else { return };
        let yields = match served.operation.kind {
            Kind::Read | Kind::MoveOut => Yields::Never,
            Kind::Program | Kind::MoveIn => Yields::Program,
            Kind::Erase => Yields::Erase,
        };
        let left_ns = served.time_ns - now_ns;
        if !self.suspend.allows(yields, left_ns, served.suspensions) {
            return;
        }
        self.suspensions += 1;
        at.busy_ns += self.suspend.cost.0 + self.suspend.resume.0;
        at.served = None;
        at.is_suspending = true;
        at.generation = at.generation.wrapping_add(1);
        at.suspended = Some(Served {
            time_ns: left_ns,
            suspensions: served.suspensions + 1,
            ..served
        });
        let end_ns = now_ns + self.suspend.cost.0;
        self.events.push(end_ns, 0, event_of(die, at.generation));
    }

    /// Starts what a die can do now.
    fn choose(&mut self, now_ns: u64, die: u32) {
        let at = &self.dies[die as usize];
        if at.is_suspending {
            return;
        }
        if at.served.is_none() {
            self.start(now_ns, die);
        }
        if let Some(served) = self.dies[die as usize].served {
            self.load_beside(now_ns, die, served.operation);
        }
    }

    /// Starts what the cells of an idle die do next.
    fn start(&mut self, now_ns: u64, die: u32) {
        let at = &self.dies[die as usize];
        if let (Some((_, Moving::Under)), true) = (at.moving, at.is_undisturbed()) {
            return self.go_on_moving(now_ns, die);
        }
        let critical = self.critical_plane(die);
        let is_first = critical.is_some() && at.suspended.is_none();
        if is_first && self.serve_loaded(now_ns, die) {
            return;
        }
        if let (true, Some(plane)) = (is_first, critical) {
            if self.step(now_ns, die, plane) {
                return;
            }
        }
        let at = &self.dies[die as usize];
        let is_overdue =
            at.passed_ns >= PROGRAMS_PASSED * self.flash.page_write.0 && !at.is_loading;
        if !is_overdue && self.read(now_ns, die) {
            return;
        }
        let at = &mut self.dies[die as usize];
        if let Some(suspended) = at.suspended.take() {
            at.passed_ns = 0;
            let time_ns = self.suspend.resume.0 + suspended.time_ns;
            at.served = Some(Served {
                time_ns: now_ns + time_ns,
                ..suspended
            });
            let event = event_of(die, at.generation);
            return self.events.push(now_ns + time_ns, 0, event);
        }
        if self.serve_loaded(now_ns, die) {
            return;
        }
        match self.dies[die as usize].programs.front().copied() {
            Some(program) if self.owes(die, program.plane) => {
                self.step(now_ns, die, program.plane);
            }
            Some(program) => self.load_program(now_ns, die, program),
            None => {
                let planes = self.planes_of(die);
                if let Some(plane) = planes.clone().find(|p| self.planes[*p as usize].steps > 0) {
                    self.step(now_ns, die, plane);
                }
            }
        }
    }

    /// What an undisturbed die can start while its page is on the way: the program that was loaded,
    /// or the loading of the host's next one beside it.
    #[inline]
    fn go_on_moving(&mut self, now_ns: u64, die: u32) {
        let at = &mut self.dies[die as usize];
        if at.loaded.is_some() {
            self.serve_loaded(now_ns, die);
        } else if let Some(program) = at.programs.front().copied() {
            if !self.owes(die, program.plane) {
                self.load_program(now_ns, die, program);
            }
        }
    }

    /// Starts the program whose page is in the register; gives whether there was one.
    #[inline]
    fn serve_loaded(&mut self, now_ns: u64, die: u32) -> bool {
        let at = &mut self.dies[die as usize];
        if at.is_loading {
            return false;
        }
        let Some(loaded) = at.loaded.take() else {
            return false;
        };
        self.serve(now_ns, die, loaded);
        true
    }

    fn planes_of(&self, die: u32) -> std::ops::Range<u32> {
        let each = self.planes_per_die.number();
        die * each..(die + 1) * each
    }

    /// Free blocks of a plane, of which none waits for its erasure.
    #[inline]
    fn erased_blocks(&self, plane: u32) -> i64 {
        let at = &self.planes[plane as usize];
        at.free_blocks - at.owed_blocks
    }

    /// A plane with something to collect and nearly no free block.
    #[inline]
    fn critical_plane(&self, die: u32) -> Option<u32> {
        self.planes_of(die).find(|plane| {
            self.planes[*plane as usize].steps > 0 && self.erased_blocks(*plane) <= CRITICAL_BLOCKS
        })
    }

    /// Whether a plane must move pages before the next program of the host: as many before each
    /// as end the collection when the last page of its free blocks is programmed.
    #[inline]
    fn owes(&self, die: u32, plane: u32) -> bool {
        let steps = self.planes[plane as usize].steps;
        if steps == 0 {
            return false;
        }
        let blocks = (self.erased_blocks(plane) - CRITICAL_BLOCKS).max(0);
        let pages = (blocks * self.pages_per_block) as u64;
        // The quotient rounded up is above `steps_since`.
        self.dies[die as usize].steps_since.saturating_mul(pages) < steps
    }

    /// Starts the first read whose plane has its register free; gives whether there was one.
    fn read(&mut self, now_ns: u64, die: u32) -> bool {
        let at = &mut self.dies[die as usize];
        let planes = &self.planes;
        // What is suspended keeps its page, and the read passes through a second register.
        let kept = at.suspended.map(|suspended| suspended.operation.plane);
        let can =
            |read: &Operation| !planes[read.plane as usize].is_taken || kept == Some(read.plane);
        let Some(first) = at.reads.iter().position(can) else {
            return false;
        };
        let Some(read) = at.reads.remove(first) else {
            return false;
        };
        if at.suspended.is_some() || at.loaded.is_some() || !at.programs.is_empty() {
            at.passed_ns += self.flash.page_read.0;
        }
        self.planes[read.plane as usize].is_taken = true;
        self.serve(now_ns, die, read);
        true
    }

    /// Starts the next step of collection in a plane; gives whether it could.
    fn step(&mut self, now_ns: u64, die: u32, plane: u32) -> bool {
        let at = &self.dies[die as usize];
        let moving = at.moving;
        let plane = moving.map_or(plane, |(plane, _)| plane);
        if self.planes[plane as usize].is_taken {
            return false;
        }
        let operation = |kind| Operation {
            kind,
            plane,
            waiter: NONE,
        };
        match moving {
            Some((_, Moving::Under)) => false,
            Some((_, Moving::Held)) if at.loaded.is_some() => false,
            Some((_, Moving::Held)) => {
                self.dies[die as usize].moving = Some((plane, Moving::Under));
                self.load(now_ns, die, operation(Kind::MoveIn));
                true
            }
            None => {
                let in_plane = &mut self.planes[plane as usize];
                let Some(victim) = in_plane.victims.front_mut() else {
                    return false;
                };
                if victim.moves == 0 {
                    self.serve(now_ns, die, operation(Kind::Erase));
                    return true;
                }
                in_plane.owed_blocks += i64::from(std::mem::take(&mut victim.opens));
                in_plane.is_taken = true;
                self.dies[die as usize].moving = Some((plane, Moving::Under));
                self.serve(now_ns, die, operation(Kind::MoveOut));
                true
            }
        }
    }

    /// Brings the page of the next program into its register while another plane of the die
    /// programs or erases and no read waits.
    fn load_beside(&mut self, now_ns: u64, die: u32, served: Operation) {
        let at = &self.dies[die as usize];
        let Some(program) = at.programs.front().copied() else {
            return;
        };
        let is_long = !matches!(served.kind, Kind::Read | Kind::MoveOut);
        if is_long
            && program.plane != served.plane
            && at.reads.is_empty()
            && !self.owes(die, program.plane)
        {
            self.load_program(now_ns, die, program);
        }
    }

    /// Loads the first program of the host, if the register of its plane is free.
    fn load_program(&mut self, now_ns: u64, die: u32, program: Operation) {
        let at = &mut self.dies[die as usize];
        if at.loaded.is_some() || self.planes[program.plane as usize].is_taken {
            return;
        }
        at.programs.pop_front();
        at.steps_since = 0;
        self.load(now_ns, die, program);
    }

    /// Sends a page over the channel into the register of its plane.
    #[inline]
    fn load(&mut self, now_ns: u64, die: u32, program: Operation) {
        self.planes[program.plane as usize].is_taken = true;
        let at = &mut self.dies[die as usize];
        at.loaded = Some(program);
        at.is_loading = true;
        self.transfer(now_ns, program);
    }

    /// Starts an operation of the cells.
    #[inline]
    fn serve(&mut self, now_ns: u64, die: u32, operation: Operation) {
        let lane = match operation.kind {
            Kind::Read | Kind::MoveOut => READ,
            Kind::Program | Kind::MoveIn => PROGRAM,
            Kind::Erase => ERASE,
        };
        let time_ns = self.cells_ns(operation.kind);
        let at = &mut self.dies[die as usize];
        if operation.kind == Kind::Program {
            at.passed_ns = 0;
        }
        at.busy_ns += time_ns;
        at.served = Some(Served {
            operation,
            time_ns: now_ns + time_ns,
            suspensions: 0,
        });
        let event = event_of(die, at.generation);
        self.events.push_in_order(lane, now_ns + time_ns, event);
    }

    /// Queues a page for the channel of its plane.
    #[inline]
    fn transfer(&mut self, now_ns: u64, operation: Operation) {
        let channel = self.planes_per_channel.quotient(operation.plane);
        let at = &mut self.channels[channel as usize];
        at.queue.push_back(operation);
        if at.queue.len() == 1 {
            self.occupy(now_ns, channel);
        }
    }

    #[inline]
    fn occupy(&mut self, now_ns: u64, channel: u32) {
        self.channels[channel as usize].busy_ns += self.flash.page_transfer.0;
        let end_ns = now_ns + self.flash.page_transfer.0;
        let event = OF_CHANNEL | u64::from(channel);
        self.events.push_in_order(TRANSFER, end_ns, event);
    }

    #[inline]
    pub(super) fn next_time_ns(&self) -> Option<u64> {
        self.events.next_time()
    }

    /// Ends the stages that end before `end_ns`, up to the first for which somebody waits; gives
    /// the last of them.
    pub(super) fn pass(&mut self, end_ns: u64) -> Option<(u64, u32)> {
        let mut last = None;
        while self
            .events
            .next_time()
            .is_some_and(|next_ns| next_ns < end_ns)
        {
            last = self.advance();
            if last.is_some_and(|(_, waiter)| waiter != NONE) {
                break;
            }
        }
        last
    }

    /// Ends the stage that ends next; gives the time and who waits for the operation, if that was
    /// its last stage.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<(u64, u32)> {
        let (now_ns, event) = self.events.pop()?;
        let waiter = match event & OF_CHANNEL {
            0 => self.end_in_cells(now_ns, event as u32, (event >> 32) as u32),
            _ => self.end_of_transfer(now_ns, event as u32),
        };
        Some((now_ns, waiter))
    }

    #[inline]
    fn end_in_cells(&mut self, now_ns: u64, die: u32, generation: u32) -> u32 {
        let at = &mut self.dies[die as usize];
        if at.generation & (u32::MAX >> 1) != generation {
            return NONE;
        }
        if std::mem::take(&mut at.is_suspending) {
            self.choose(now_ns, die);
            return NONE;
        }
        let Some(Served { operation, .. }) = at.served.take() else {
            return NONE;
        };
        match operation.kind {
            Kind::Read | Kind::MoveOut => self.transfer(now_ns, operation),
            Kind::Program => self.planes[operation.plane as usize].is_taken = false,
            Kind::MoveIn => {
                at.moving = None;
                self.planes[operation.plane as usize].is_taken = false;
                self.end_step(die, operation);
            }
            Kind::Erase => self.end_step(die, operation),
        }
        self.choose(now_ns, die);
        match operation.kind {
            Kind::Program => operation.waiter,
            _ => NONE,
        }
    }

    #[inline]
    fn end_step(&mut self, die: u32, operation: Operation) {
        self.dies[die as usize].steps_since += 1;
        let plane = &mut self.planes[operation.plane as usize];
        plane.steps -= 1;
        if operation.kind == Kind::Erase {
            plane.victims.pop_front();
            plane.owed_blocks -= 1;
        } else if let Some(victim) = plane.victims.front_mut() {
            victim.moves -= 1;
        }
    }

    #[inline]
    fn end_of_transfer(&mut self, now_ns: u64, channel: u32) -> u32 {
        let at = &mut self.channels[channel as usize];
        let Some(operation) = at.queue.pop_front() else {
            return NONE;
        };
        if !at.queue.is_empty() {
            self.occupy(now_ns, channel);
        }
        let die = self.planes_per_die.quotient(operation.plane);
        let at = &mut self.dies[die as usize];
        match operation.kind {
            Kind::Read => self.release(die, operation.plane),
            Kind::MoveOut => {
                at.moving = Some((operation.plane, Moving::Held));
                self.release(die, operation.plane);
            }
            _ => at.is_loading = false,
        }
        self.choose(now_ns, die);
        match operation.kind {
            Kind::Read => operation.waiter,
            _ => NONE,
        }
    }

    /// Frees the register of a plane, unless a program that was suspended has its page there.
    #[inline]
    fn release(&mut self, die: u32, plane: u32) {
        let at = &self.dies[die as usize];
        let keeps = |served: &Served| {
            let operation = served.operation;
            operation.plane == plane && matches!(operation.kind, Kind::Program | Kind::MoveIn)
        };
        let is_kept = at.suspended.iter().chain(&at.served).any(keeps);
        self.planes[plane as usize].is_taken = is_kept;
    }

    /// How often an operation was suspended; nothing where none can be.
    pub(super) fn suspensions(&self) -> Option<u64> {
        self.suspend.is_on().then_some(self.suspensions)
    }

    pub(super) fn die_busy_ns(&self) -> Vec<u64> {
        self.dies.iter().map(|die| die.busy_ns).collect()
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.channels
            .iter()
            .map(|channel| channel.busy_ns)
            .collect()
    }
}

/// The event of a die's cells.
fn event_of(die: u32, generation: u32) -> u64 {
    u64::from(generation & (u32::MAX >> 1)) << 32 | u64::from(die)
}
