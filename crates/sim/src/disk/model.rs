//! The disk itself: a queue of commands, one command at a time on the bus, and one activity of the
//! arm, which is a read, a write, destaging, or reading ahead.
//!
//! It can be stepped from outside, as a simulated or a real clock runs: [`Disk::submit`] commands,
//! [`Disk::serve`] one whenever the one before is complete, and [`Disk::drain`] at the end.

use std::collections::VecDeque;
use std::sync::Arc;

use schedlab_model::Request;

use super::cache::{Cache, Hit};
use super::geometry::Place;
use super::mechanics::Mechanics;
use super::policy::{self, Choice, HeadPolicy, Queued, View};
use super::result::{Kind, Tally};
use super::spec::{Destage, DiskSpec, Readable};
use super::write_cache::{Extent, WriteCache};
use crate::error::require;
use crate::SimError;

/// A command and its times.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The number that it was submitted with.
    pub tag: u64,
    /// The request.
    pub request: Request,
    /// When it was chosen.
    pub start_ns: u64,
    /// When it is complete.
    pub done_ns: u64,
    /// How it was served.
    pub kind: Kind,
}

/// A disk in simulated time.
pub struct Disk {
    spec: Arc<DiskSpec>,
    mechanics: Mechanics,
    cache: Cache,
    pub(super) writes: Option<WriteCache>,
    policy: Box<dyn HeadPolicy>,
    host: VecDeque<Queued>,
    queue: Vec<Queued>,
    head: Place,
    arm_free_ns: u64,
    after_write: bool,
    pub(super) tally: Tally,
}

impl Disk {
    /// The disk of a checked description, at rest with the head over address 0.
    pub fn new(spec: &DiskSpec, policy: &str) -> Result<Self, SimError> {
        let mechanics = Mechanics::new(spec);
        let writes = spec.write_cache.as_ref();
        Ok(Disk {
            spec: Arc::new(spec.clone()),
            head: mechanics.geometry.place(0),
            mechanics,
            cache: Cache::new(spec),
            writes: writes.map(|writes| WriteCache::new(writes, spec.sector.0)),
            policy: policy::find(policy)?,
            host: VecDeque::new(),
            queue: Vec::new(),
            arm_free_ns: 0,
            after_write: false,
            tally: Tally::default(),
        })
    }

    /// Takes a request in; the device's queue is filled from the host's in order.
    pub fn submit(&mut self, tag: u64, request: Request) -> Result<(), SimError> {
        let (sector, capacity) = (self.spec.sector.0, self.capacity_bytes());
        let end = request.offset.0.saturating_add(request.length.0);
        require(
            request.length.0 > 0 && end <= capacity,
            "request",
            format!("{} bytes at {}", request.length.0, request.offset.0),
            format!("at least 1 byte, ending within the disk's {capacity} bytes"),
        )?;
        let lba = request.offset.0 / sector;
        self.host.push_back(Queued {
            tag,
            request,
            lba,
            sectors: end.div_ceil(sector) - lba,
            place: self.mechanics.geometry.place(lba),
            queued_ns: 0,
        });
        Ok(())
    }

    /// Bytes of the disk.
    pub fn capacity_bytes(&self) -> u64 {
        self.mechanics.geometry.sectors() * self.spec.sector.0
    }

    /// Serves the command that the policy chooses at `now_ns`, when the one before is complete;
    /// nothing when none waits.
    pub fn serve(&mut self, now_ns: u64) -> Option<Served> {
        let room = self.spec.queue_depth - self.queue.len();
        let more = room.min(self.host.len());
        let entering = self.host.drain(..more);
        self.queue.extend(entering.map(|queued| Queued {
            queued_ns: now_ns,
            ..queued
        }));
        if self.queue.is_empty() {
            return None;
        }
        self.advance(now_ns);
        let choice = self.choose(now_ns);
        let queued = self.queue.remove(choice.index);
        let (done_ns, kind) = if queued.request.is_write {
            self.write(now_ns, &queued, choice.via)
        } else {
            self.read(now_ns, &queued, choice.via)
        };
        self.after_write = queued.request.is_write;
        self.tally.served(now_ns, done_ns, &queued.request, kind);
        Some(Served {
            tag: queued.tag,
            request: queued.request,
            start_ns: now_ns,
            done_ns,
            kind,
        })
    }

    /// Lets the arm do what it does by itself until `now_ns`: read ahead, and destage when idle.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some((position, start_ns)) = self.next_destage() {
            if start_ns >= now_ns {
                break;
            }
            self.destage(position, start_ns);
        }
        self.settle(now_ns);
        if let Some(lba) = self.cache.advance(now_ns, &self.mechanics) {
            self.head = self.mechanics.geometry.place(lba);
        }
    }

    /// Lets go of what is on the medium by `now_ns`.
    fn settle(&mut self, now_ns: u64) {
        let Some(writes) = &mut self.writes else {
            return;
        };
        let settled = writes.settle(now_ns);
        if let (Some(extent), Readable::Always) = (settled, writes.readable) {
            self.cache.keep(extent.lba, extent.sectors);
        }
    }

    /// Writes everything that is dirty to the medium; gives when that is done.
    pub fn drain(&mut self, now_ns: u64) -> u64 {
        let mut end_ns = now_ns;
        while let Some((position, start_ns)) = self.next_destage() {
            end_ns = end_ns.max(self.destage(position, start_ns));
        }
        let flying = self
            .writes
            .as_ref()
            .and_then(WriteCache::in_flight_until_ns);
        end_ns.max(flying.unwrap_or(0))
    }

    /// Which dirty extent the arm takes next, and when at the earliest.
    fn next_destage(&mut self) -> Option<(usize, u64)> {
        let writes = self.writes.as_ref()?;
        let waiting = writes.waiting();
        let first = waiting.first()?;
        let start_ns = self.arm_free_ns.max(first.eligible_ns);
        let by_policy =
            self.spec.write_cache.as_ref().map(|spec| spec.destage) == Some(Destage::Policy);
        if !by_policy || waiting.len() == 1 {
            return Some((0, start_ns));
        }
        // A write into the middle of an extent leaves its rest behind younger ones.
        let (positions, queue): (Vec<usize>, Vec<Queued>) = waiting
            .iter()
            .enumerate()
            .filter(|(_, extent)| extent.eligible_ns <= start_ns)
            .map(|(position, extent)| (position, self.as_queued(extent)))
            .unzip();
        let chosen = self.choose_among(&queue, start_ns, true).index;
        Some((positions[chosen], start_ns))
    }

    fn as_queued(&self, extent: &Extent) -> Queued {
        Queued {
            tag: 0,
            request: Request {
                arrival: schedlab_model::Nanos(extent.eligible_ns),
                offset: schedlab_model::Bytes(extent.lba * self.spec.sector.0),
                length: schedlab_model::Bytes(extent.sectors * self.spec.sector.0),
                is_write: true,
            },
            lba: extent.lba,
            sectors: extent.sectors,
            place: self.mechanics.geometry.place(extent.lba),
            // Nobody waits for it.
            queued_ns: u64::MAX,
        }
    }

    /// Writes a dirty extent to the medium from `start_ns` on; gives when that is done.
    fn destage(&mut self, position: usize, start_ns: u64) -> u64 {
        if let Some(lba) = self.cache.advance(start_ns, &self.mechanics) {
            self.head = self.mechanics.geometry.place(lba);
        }
        self.settle(start_ns);
        let Some(writes) = &mut self.writes else {
            return start_ns;
        };
        let extent = writes.start(position);
        let place = self.mechanics.geometry.place(extent.lba);
        let positioning = self.mechanics.positioning(start_ns, self.head, place, true);
        let passes_ns = start_ns + positioning.total_ns();
        let (end_ns, head) = self
            .mechanics
            .transfer(passes_ns, extent.lba, extent.sectors);
        self.head = head;
        self.arm_free_ns = end_ns;
        self.cache.stop(extent.lba, extent.sectors);
        self.tally.busy(start_ns, end_ns);
        if let Some(writes) = &mut self.writes {
            writes.on_its_way(extent, end_ns);
        }
        end_ns
    }

    fn choose(&mut self, now_ns: u64) -> Choice {
        let queue = std::mem::take(&mut self.queue);
        let choice = self.choose_among(&queue, now_ns, false);
        self.queue = queue;
        choice
    }

    /// The policy's choice among commands, or among extents that the arm writes at once.
    fn choose_among(&mut self, queue: &[Queued], now_ns: u64, destages: bool) -> Choice {
        let (mechanics, cache, head) = (&self.mechanics, &self.cache, self.head);
        let (spec, writes, after_write) = (&*self.spec, &self.writes, self.after_write);
        let arm_free_ns = self.arm_free_ns;
        let positioning_ns = |queued: &Queued| {
            let is_write = queued.request.is_write;
            let (lba, sectors) = (queued.lba, queued.sectors);
            if destages {
                return mechanics
                    .positioning(now_ns, head, queued.place, true)
                    .total_ns();
            }
            let is_cached = match writes {
                Some(writes) if is_write => writes.fits(sectors) && writes.has_room(lba, sectors),
                Some(writes) => writes.holds(lba, sectors),
                None => false,
            };
            let hit = match is_write {
                true => None,
                false => cache.look_up(lba, sectors, mechanics),
            };
            let place = match hit {
                Some(Hit::Partial(held)) => mechanics.geometry.place(lba + held),
                _ => queued.place,
            };
            if is_cached || matches!(hit, Some(Hit::Cached | Hit::Streaming(_))) {
                return 0;
            }
            let start_ns = now_ns + spec.overhead_ns(is_write, false, after_write);
            let wait_ns = arm_free_ns.saturating_sub(start_ns);
            let positioning = mechanics.positioning(start_ns + wait_ns, head, place, is_write);
            wait_ns + positioning.total_ns()
        };
        self.policy.choose(&View {
            now_ns,
            head,
            last_cylinder: mechanics.last_cylinder,
            queue,
            positioning_ns: &positioning_ns,
        })
    }

    fn read(&mut self, now_ns: u64, queued: &Queued, via: Option<u32>) -> (u64, Kind) {
        let (lba, sectors) = (queued.lba, queued.sectors);
        let spec = Arc::clone(&self.spec);
        let completion_ns = spec.completion_ns(false);
        let start_ns = now_ns + spec.overhead_ns(false, true, self.after_write);
        let bus_ns = spec.bus_ns(false, sectors, queued.request.length.0);
        if self.writes.as_ref().is_some_and(|w| w.holds(lba, sectors)) {
            return (start_ns + bus_ns + completion_ns, Kind::ReadHit);
        }
        let overlapping = self
            .writes
            .as_ref()
            .and_then(|w| w.overlapping(lba, sectors));
        let hit = match overlapping {
            Some(_) => None,
            None => self.cache.look_up(lba, sectors, &self.mechanics),
        };
        let hit_ns = match (hit, &spec.bus) {
            (None | Some(Hit::Partial(_)), _) => None,
            (Some(Hit::Cached), _) => Some(start_ns + bus_ns),
            (Some(Hit::Streaming(passed_ns)), None) => Some(start_ns.max(passed_ns)),
            (Some(Hit::Streaming(_)), Some(bus)) => {
                let (bus_ns, mechanics) = (bus.sector.get(false), &self.mechanics);
                let cache = &self.cache;
                Some(cache.over_bus_ns(start_ns, lba, sectors, bus_ns, mechanics))
            }
        };
        if let Some(done_ns) = hit_ns {
            self.cache.hit(done_ns, lba, sectors, &self.mechanics);
            return (done_ns + completion_ns, Kind::ReadHit);
        }
        let begin_ns = now_ns + spec.overhead_ns(false, false, self.after_write);
        self.make_way(begin_ns, lba, sectors);
        let held = match hit {
            Some(Hit::Partial(held)) => held,
            _ => 0,
        };
        let mut done_ns = self.access(begin_ns, queued, held, via);
        if held > 0 {
            done_ns = done_ns.max(start_ns + bus_ns);
        }
        (done_ns + completion_ns, Kind::ReadMiss)
    }

    /// Before a command of the host at `begin_ns`: destages what overlaps with it, and what has
    /// gone over the high-water mark.
    fn make_way(&mut self, begin_ns: u64, lba: u64, sectors: u64) {
        let overlapping = |writes: &WriteCache| writes.overlapping(lba, sectors);
        while let Some(position) = self.writes.as_ref().and_then(overlapping) {
            let start_ns = self.arm_free_ns.max(begin_ns);
            self.destage(position, start_ns);
        }
        while self.writes.as_mut().is_some_and(WriteCache::goes_first) {
            let Some((position, start_ns)) = self.next_destage() else {
                return;
            };
            self.destage(position, start_ns.max(begin_ns));
        }
    }

    fn write(&mut self, now_ns: u64, queued: &Queued, via: Option<u32>) -> (u64, Kind) {
        let (lba, sectors) = (queued.lba, queued.sectors);
        let spec = Arc::clone(&self.spec);
        let completion_ns = spec.completion_ns(true);
        let fits = |writes: &WriteCache| writes.fits(sectors);
        if !self.writes.as_ref().is_some_and(fits) {
            let begin_ns = now_ns + spec.overhead_ns(true, false, self.after_write);
            self.make_way(begin_ns, lba, sectors);
            let done_ns = self.access(begin_ns, queued, 0, via);
            return (done_ns + completion_ns, Kind::WriteThrough);
        }
        let start_ns = now_ns + spec.overhead_ns(true, true, self.after_write);
        let mut room_ns = start_ns;
        let mut kind = Kind::WriteCached;
        while !self
            .writes
            .as_ref()
            .is_some_and(|w| w.has_room(lba, sectors))
        {
            kind = Kind::WriteWaited;
            room_ns = room_ns.max(self.next_room_ns(now_ns));
            self.settle(room_ns);
        }
        let eligible_ns = now_ns.max(room_ns - (start_ns - now_ns))
            + spec.overhead_ns(true, false, self.after_write);
        if let Some(writes) = &mut self.writes {
            writes.take(lba, sectors, eligible_ns);
        }
        self.cache.cut(lba, sectors);
        let bus_ns = spec.bus_ns(true, sectors, queued.request.length.0);
        (room_ns + bus_ns + completion_ns, kind)
    }

    /// When the next destage ends that makes room, after letting the arm begin it if none is on
    /// its way.
    fn next_room_ns(&mut self, now_ns: u64) -> u64 {
        let flying = self
            .writes
            .as_ref()
            .and_then(WriteCache::in_flight_until_ns);
        if let Some(end_ns) = flying {
            return end_ns;
        }
        match self.next_destage() {
            Some((position, start_ns)) => self.destage(position, start_ns.max(now_ns)),
            None => now_ns,
        }
    }

    /// Reads or writes the medium from `bus_start_ns` on, when the arm is free; the first `held`
    /// sectors of a read are in the cache. Gives the time when the last sector passed, or is over
    /// the bus. A write whose data come too late for their place waits for the next turn.
    fn access(&mut self, bus_start_ns: u64, queued: &Queued, held: u64, via: Option<u32>) -> u64 {
        let is_write = queued.request.is_write;
        let (lba, sectors) = (queued.lba + held, queued.sectors - held);
        let place = match held {
            0 => queued.place,
            _ => self.mechanics.geometry.place(lba),
        };
        let start_ns = bus_start_ns.max(self.arm_free_ns);
        let (mut begin_ns, mut from) = (start_ns, self.head);
        if let Some(edge) = via {
            begin_ns += self.mechanics.seek_ns(from.cylinder.abs_diff(edge));
            from.cylinder = edge;
        }
        let mechanics = &self.mechanics;
        let positioning = mechanics.positioning(begin_ns, from, place, is_write);
        let settled_ns = begin_ns + positioning.seek_ns;
        let passes_ns = begin_ns + positioning.total_ns();
        let bus = self.spec.bus.as_ref();
        let bus_ns = bus.map_or(0, |bus| bus.sector.get(is_write));
        let waits_for = bus
            .filter(|_| held == 0)
            .and_then(|bus| bus.waits_for(sectors));
        let (mut over_bus_ns, mut late_ns) = (0, 0);
        let (mut medium_ns, head) = mechanics.transfer_runs(passes_ns, lba, sectors, |stretch| {
            over_bus_ns = over_bus_ns.max(stretch.over_bus_ns(0, sectors, bus_ns));
            if let Some(passed_ns) = waits_for.and_then(|number| stretch.passed_ns(number)) {
                over_bus_ns = over_bus_ns.max(passed_ns + sectors * bus_ns);
            }
            late_ns = late_ns.max(stretch.late_ns(bus_start_ns, bus_ns));
        });
        let zero = self.spec.zero_latency;
        if (is_write && zero.write) || (!is_write && zero.read) {
            if let Some(done_ns) = mechanics.from_inside(settled_ns, passes_ns, place, sectors) {
                medium_ns = done_ns;
                over_bus_ns = (passes_ns + sectors * bus_ns).max(done_ns);
                late_ns = 0;
            }
        }
        if is_write && bus.is_some() {
            let turn_ns = mechanics.geometry.revolution_ns();
            medium_ns += late_ns.div_ceil(turn_ns) * turn_ns;
            medium_ns = medium_ns.max(bus_start_ns + sectors * bus_ns);
        }
        let tally = &mut self.tally;
        tally.medium += 1;
        tally.seek_ns += begin_ns - start_ns + positioning.seek_ns;
        tally.rotation_ns += positioning.rotation_ns;
        tally.transfer_ns += medium_ns.saturating_sub(passes_ns);
        tally.cylinders += u64::from(self.head.cylinder.abs_diff(from.cylinder))
            + u64::from(from.cylinder.abs_diff(place.cylinder));
        self.head = head;
        self.arm_free_ns = medium_ns;
        if is_write {
            if let Some(writes) = &mut self.writes {
                writes.forget(queued.lba, queued.sectors);
            }
            self.cache.write(queued.lba, queued.sectors);
            return medium_ns;
        }
        let (lba, sectors) = (queued.lba, queued.sectors);
        let mut first = lba;
        if self.spec.cache.from_landing && held == 0 {
            first = self.mechanics.first_passing(passes_ns - settled_ns, lba);
        }
        self.cache
            .read(passes_ns, first, lba + held, lba + sectors, &self.mechanics);
        medium_ns.max(over_bus_ns)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::spec::{WriteCacheSpec, Zone};
    use super::*;
    use schedlab_model::{Bytes, Nanos};

    /// A track of 8 sectors, one a ms, and one of them is at the head at 5 ms.
    #[test]
    fn the_policy_chooses_among_what_the_arm_may_take() {
        let spec = DiskSpec {
            rpm: 7500,
            heads: 1,
            zones: vec![Zone {
                cylinders: 8,
                sectors_per_track: 8,
                ..Zone::default()
            }],
            head_switch: Nanos(0),
            track_skew: Nanos(0),
            cylinder_skew: Nanos(0),
            write_cache: Some(WriteCacheSpec {
                segments: 8,
                segment: Bytes(8 * 512),
                destage: Destage::Policy,
                high_water: 1.0,
                low_water: 0.0,
                readable: Readable::Dirty,
            }),
            ..DiskSpec::shipped("disk7200").unwrap()
        };
        let mut disk = Disk::new(&spec, "sptf").unwrap();
        let writes = disk.writes.as_mut().unwrap();
        writes.take(4, 3, 5_000_000);
        writes.take(40, 1, 90_000_000);
        writes.forget(5, 1);
        let places: Vec<u64> = writes.waiting().iter().map(|extent| extent.lba).collect();
        assert_eq!(places, [4, 40, 6]);
        // Sector 6 passes next; 40 may not be taken yet.
        assert_eq!(disk.next_destage(), Some((2, 5_000_000)));
    }
}
