//! The planes and channels of the flash: each serves one operation at a time, first come first
//! served. A read is in the plane, then on the channel; a program the other way round.

use super::FlashSpec;
use crate::divisor::Divisor;
use crate::engine::EventQueue;

/// No operation, and no command that waits for one.
pub(super) const NONE: u32 = u32::MAX;

/// What an operation does in the flash.
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
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    transfer_ns: u64,
    /// When each plane will have done what it was given, not counting waits for the channel.
    pub(super) busy_until_ns: Vec<u64>,
    events: EventQueue<u32>,
}

impl Stations {
    pub(super) fn new(flash: &FlashSpec) -> Self {
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
            read_ns: flash.page_read.0,
            program_ns: flash.page_write.0,
            erase_ns: flash.block_erase.0,
            transfer_ns: flash.page_transfer.0,
            busy_until_ns: vec![0; planes as usize],
            events: EventQueue::default(),
        }
    }

    /// Time in plane and channel that one page takes when nothing is in its way, in ns.
    pub(super) fn page_ns(&self, is_write: bool) -> u64 {
        self.transfer_ns
            + if is_write {
                self.program_ns
            } else {
                self.read_ns
            }
    }

    /// Reads or programs a page in a plane; `waiter` is told when it is done.
    #[inline]
    pub(super) fn page(&mut self, now_ns: u64, plane: u32, is_write: bool, waiter: u32) {
        let (kind, plane_ns) = if is_write {
            (Kind::Program, self.program_ns)
        } else {
            (Kind::Read, self.read_ns)
        };
        self.give(now_ns, plane, kind, plane_ns, waiter);
    }

    /// Moves pages and erases blocks of a plane.
    pub(super) fn collect(&mut self, now_ns: u64, plane: u32, moved: u32, erased: u32) {
        let moving_ns = u64::from(moved) * (self.read_ns + self.program_ns);
        let plane_ns = moving_ns + u64::from(erased) * self.erase_ns;
        self.give(now_ns, plane, Kind::Collect, plane_ns, NONE);
    }

    #[inline]
    fn give(&mut self, now_ns: u64, plane: u32, kind: Kind, plane_ns: u64, waiter: u32) {
        let until = &mut self.busy_until_ns[plane as usize];
        *until = now_ns.max(*until) + plane_ns;
        let is_second = self.transfer_ns == 0 || kind == Kind::Collect;
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
        let time_ns = if on_channel {
            self.transfer_ns
        } else {
            self.operations[slot as usize].plane_ns
        };
        self.stations[station as usize].busy_ns += time_ns;
        self.events.push(now_ns + time_ns, 0, station);
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
        let operation = self.operations[slot as usize];
        self.stations[station as usize].first = operation.next;
        if operation.next != NONE {
            self.serve(now_ns, station, operation.next);
        }
        if operation.is_second {
            self.free.push(slot);
            return Some((now_ns, operation.waiter));
        }
        self.operations[slot as usize].is_second = true;
        self.operations[slot as usize].next = NONE;
        self.queue(now_ns, slot, operation.kind == Kind::Read);
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
