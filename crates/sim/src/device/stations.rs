//! The planes and channels of the flash: each serves one operation at a time, first come first
//! served. A read is in the plane, then on the channel; a program the other way round.

use super::suspend::{Next, Suspension, Yields};
use super::DeviceSpec;
use crate::divisor::Divisor;
use crate::engine::EventQueue;
use crate::ftl::GcWork;

/// No operation, and no command that waits for one.
pub(super) const NONE: u32 = u32::MAX;

/// What an operation does in the flash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Program,
    /// Moving pages and erasing blocks, all inside the plane.
    Collect,
    /// Erasing blocks alone: where operations can be suspended, collection is two of them.
    Erase,
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

/// A station, and the generation of its work where that can be suspended. One number, since it is
/// read as one soon after it was written: two would be waited for until they are in the cache.
fn work_of(station: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(station)
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
    /// Of each station whose work ends, as [`work_of`] makes it.
    events: EventQueue<u64>,
    suspension: Option<Box<Suspension>>,
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
            read_ns: flash.page_read.0,
            program_ns: flash.page_write.0,
            erase_ns: flash.block_erase.0,
            transfer_ns: flash.page_transfer.0,
            busy_until_ns: vec![0; planes as usize],
            events: EventQueue::default(),
            suspension: spec
                .suspend
                .is_on()
                .then(|| Box::new(Suspension::new(spec.suspend, planes))),
        }
    }

    /// Time in plane and channel that one page takes when nothing is in its way, in ns.
    pub(super) fn page_ns(&self, is_write: bool) -> u64 {
        self.transfer_ns + self.plane_ns(is_write)
    }

    #[inline]
    fn plane_ns(&self, is_write: bool) -> u64 {
        if is_write {
            self.program_ns
        } else {
            self.read_ns
        }
    }

    /// Reads or programs a page in a plane; `waiter` learns when it is done.
    #[inline]
    pub(super) fn page(&mut self, now_ns: u64, plane: u32, is_write: bool, waiter: u32) {
        let kind = if is_write { Kind::Program } else { Kind::Read };
        self.give(now_ns, plane, kind, self.plane_ns(is_write), waiter);
    }

    /// Moves pages and erases blocks of a plane.
    pub(super) fn collect(&mut self, now_ns: u64, plane: u32, work: &GcWork) {
        let moving_ns = u64::from(work.moved) * (self.read_ns + self.program_ns);
        let erasing_ns = u64::from(work.erased) * self.erase_ns;
        if self.suspension.is_none() {
            let plane_ns = moving_ns + erasing_ns;
            return self.give(now_ns, plane, Kind::Collect, plane_ns, NONE);
        }
        self.give(now_ns, plane, Kind::Collect, moving_ns, NONE);
        self.give(now_ns, plane, Kind::Erase, erasing_ns, NONE);
    }

    #[inline]
    fn give(&mut self, now_ns: u64, plane: u32, kind: Kind, plane_ns: u64, waiter: u32) {
        let until = &mut self.busy_until_ns[plane as usize];
        *until = now_ns.max(*until) + plane_ns;
        let is_second = self.transfer_ns == 0 || matches!(kind, Kind::Collect | Kind::Erase);
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
        if self.suspension.is_some() && !on_channel {
            return self.queue_at_plane(now_ns, slot);
        }
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
        let work = work_of(station, 0);
        let time_ns = if on_channel {
            // Transfers all take equally long.
            let end_ns = now_ns + self.transfer_ns;
            self.events.push_in_order(end_ns, 0, work);
            self.transfer_ns
        } else {
            let plane_ns = self.operations[slot as usize].plane_ns;
            self.events.push(now_ns + plane_ns, 0, work);
            plane_ns
        };
        self.stations[station as usize].busy_ns += time_ns;
    }

    /// The same for a plane whose operations can be suspended.
    #[cold]
    fn queue_at_plane(&mut self, now_ns: u64, slot: u32) {
        let Operation {
            kind,
            plane,
            plane_ns,
            ..
        } = self.operations[slot as usize];
        let yields = match kind {
            Kind::Read => Yields::Never,
            Kind::Program | Kind::Collect => Yields::Program,
            Kind::Erase => Yields::Erase,
        };
        let Some(suspension) = &mut self.suspension else {
            return;
        };
        let suspended = suspension.count;
        let next = suspension.arrive(now_ns, plane, slot, plane_ns, yields);
        if suspension.count > suspended {
            self.busy_until_ns[plane as usize] += suspension.overhead_ns();
            self.stations[plane as usize].busy_ns += suspension.overhead_ns();
        }
        self.begin(now_ns, plane, next);
    }

    fn begin(&mut self, now_ns: u64, plane: u32, next: Option<Next>) {
        if let Some(next) = next {
            let event = work_of(plane, next.generation);
            self.events.push(now_ns + next.time_ns, 0, event);
        }
    }

    /// The event of a plane whose operations can be suspended; gives the operation that ended.
    #[cold]
    fn end_at_plane(&mut self, now_ns: u64, plane: u32, generation: u32) -> Option<u32> {
        let suspension = self.suspension.as_mut()?;
        let slot = suspension.ended(plane, generation)?;
        let next = suspension.next(now_ns, plane);
        self.begin(now_ns, plane, next);
        if slot == NONE {
            return None;
        }
        self.stations[plane as usize].busy_ns += self.operations[slot as usize].plane_ns;
        Some(slot)
    }

    /// How often an operation was suspended; nothing where none can be.
    pub(super) fn suspensions(&self) -> Option<u64> {
        self.suspension.as_ref().map(|suspension| suspension.count)
    }

    #[inline]
    pub(super) fn next_time_ns(&self) -> Option<u64> {
        self.events.next_time()
    }

    /// Ends the stage that ends next; gives the time and who waits for the operation, if that was
    /// its last stage.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<(u64, u32)> {
        let (now_ns, work) = self.events.pop()?;
        let (station, generation) = (work as u32, (work >> 32) as u32);
        let slot = if self.suspension.is_some() && station < self.planes {
            match self.end_at_plane(now_ns, station, generation) {
                Some(slot) => slot,
                None => return Some((now_ns, NONE)),
            }
        } else {
            let slot = self.stations[station as usize].first;
            let next = self.operations[slot as usize].next;
            self.stations[station as usize].first = next;
            if next != NONE {
                self.serve(now_ns, station, next);
            }
            slot
        };
        let operation = self.operations[slot as usize];
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
