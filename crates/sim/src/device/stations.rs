//! The planes and channels of the flash where planes work on their own (`flash.unit = "plane"`):
//! each serves one operation at a time, first come first served. A read is in the plane, then on
//! the channel; a program the other way round; a collection is one operation of its plane.

use super::{DeviceSpec, FlashSpec};
use crate::divisor::Divisor;
use crate::engine::EventQueue;
use crate::ftl::GcWork;

use super::dies::NONE;

/// The kind of an operation of the flash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Program,
    /// Moving pages and erasing blocks, all inside the plane.
    Collect,
}

#[derive(Clone, Copy)]
struct Operation {
    kind: Kind,
    /// Whether the first of two stages is done.
    is_second: bool,
    plane: u32,
    /// Slot of the command that waits for it.
    waiter: u32,
    plane_ns: u64,
    next: u32,
}

/// A first-come-first-served server: operations linked from the one in service on.
#[derive(Clone, Copy)]
struct Station {
    first: u32,
    last: u32,
    busy_ns: u64,
}

pub(super) struct Stations {
    operations: Vec<Operation>,
    free: Vec<u32>,
    /// Planes, then channels.
    stations: Vec<Station>,
    planes: u32,
    planes_per_channel: Divisor,
    flash: FlashSpec,
    /// When each plane will have done what it was given, not counting waits for the channel.
    pub(super) busy_until_ns: Vec<u64>,
    /// Of each station whose work ends.
    events: EventQueue<u32, 3>,
}

impl Stations {
    pub(super) fn new(spec: &DeviceSpec) -> Self {
        let flash = &spec.flash;
        let idle = Station {
            first: NONE,
            last: NONE,
            busy_ns: 0,
        };
        let planes = flash.planes();
        Stations {
            operations: Vec::new(),
            free: Vec::new(),
            stations: vec![idle; (planes + flash.channels) as usize],
            planes,
            planes_per_channel: Divisor::new(planes / flash.channels),
            flash: flash.clone(),
            busy_until_ns: vec![0; planes as usize],
            events: EventQueue::default(),
        }
    }

    /// Reads or programs a page in a plane; `waiter` learns when it is done.
    #[inline]
    pub(super) fn page(&mut self, now_ns: u64, plane: u32, is_write: bool, waiter: u32) {
        let kind = if is_write { Kind::Program } else { Kind::Read };
        self.give(now_ns, plane, kind, self.flash.cells_ns(is_write), waiter);
    }

    /// Moves pages and erases blocks of a plane.
    pub(super) fn collect(&mut self, now_ns: u64, plane: u32, work: &GcWork) {
        let move_ns = self.flash.cells_ns(false) + self.flash.cells_ns(true);
        let moving_ns = u64::from(work.moved) * move_ns;
        let erasing_ns = u64::from(work.erased) * self.flash.block_erase.0;
        self.give(now_ns, plane, Kind::Collect, moving_ns + erasing_ns, NONE);
    }

    #[inline]
    fn give(&mut self, now_ns: u64, plane: u32, kind: Kind, plane_ns: u64, waiter: u32) {
        let until = &mut self.busy_until_ns[plane as usize];
        *until = now_ns.max(*until) + plane_ns;
        let is_second = self.flash.page_transfer.0 == 0 || kind == Kind::Collect;
        let operation = Operation {
            kind,
            is_second,
            plane,
            waiter,
            plane_ns,
            next: NONE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.operations[slot as usize] = operation;
                slot
            }
            None => {
                self.operations.push(operation);
                self.operations.len() as u32 - 1
            }
        };
        let begins_on_channel = kind == Kind::Program && !is_second;
        self.queue(now_ns, slot, begins_on_channel);
    }

    #[inline]
    fn queue(&mut self, now_ns: u64, slot: u32, on_channel: bool) {
        let plane = self.operations[slot as usize].plane;
        let station = if on_channel {
            self.planes + self.planes_per_channel.quotient(plane)
        } else {
            plane
        };
        let at = &mut self.stations[station as usize];
        if at.first == NONE {
            at.first = slot;
            at.last = slot;
            self.serve(now_ns, station, slot);
        } else {
            self.operations[at.last as usize].next = slot;
            at.last = slot;
        }
    }

    #[inline]
    fn serve(&mut self, now_ns: u64, station: u32, slot: u32) {
        let on_channel = station >= self.planes;
        let Operation { kind, plane_ns, .. } = self.operations[slot as usize];
        // Transfers all take equally long, and so do reads and programs.
        let (time_ns, lane) = match kind {
            _ if on_channel => (self.flash.page_transfer.0, Some(0)),
            Kind::Read => (plane_ns, Some(1)),
            Kind::Program => (plane_ns, Some(2)),
            Kind::Collect => (plane_ns, None),
        };
        match lane {
            Some(lane) => self.events.push_in_order(lane, now_ns + time_ns, station),
            None => self.events.push(now_ns + time_ns, 0, station),
        }
        self.stations[station as usize].busy_ns += time_ns;
    }

    #[inline]
    pub(super) fn next_time_ns(&self) -> Option<u64> {
        self.events.next_time()
    }

    /// Ends the stage that ends next; gives the time and who waits for the operation, if that was
    /// its last stage.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<(u64, u32)> {
        let (now_ns, station) = self.events.pop()?;
        let slot = self.stations[station as usize].first;
        let next = self.operations[slot as usize].next;
        self.stations[station as usize].first = next;
        if next != NONE {
            self.serve(now_ns, station, next);
        }
        let operation = &mut self.operations[slot as usize];
        if operation.is_second {
            self.free.push(slot);
            return Some((now_ns, operation.waiter));
        }
        operation.is_second = true;
        operation.next = NONE;
        let to_channel = operation.kind == Kind::Read;
        self.queue(now_ns, slot, to_channel);
        Some((now_ns, NONE))
    }

    /// Busy time of each group of `size` neighbouring planes, mean over the group.
    pub(super) fn plane_busy_ns(&self, size: u32) -> Vec<u64> {
        let planes = &self.stations[..self.planes as usize];
        let mean = |group: &[Station]| {
            group.iter().map(|plane| plane.busy_ns).sum::<u64>() / u64::from(size)
        };
        planes.chunks(size as usize).map(mean).collect()
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.stations[self.planes as usize..]
            .iter()
            .map(|channel| channel.busy_ns)
            .collect()
    }
}
