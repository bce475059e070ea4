//! How long positioning and transfers take.

use super::geometry::{Geometry, Place};
use super::seek::Seek;
use super::spec::DiskSpec;

/// The time that it takes to bring the head to the first sector of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positioning {
    /// Arm movement or head switch, and settling.
    pub seek_ns: u64,
    /// Rotation after that.
    pub rotation_ns: u64,
}

impl Positioning {
    /// Both together.
    pub fn total_ns(self) -> u64 {
        self.seek_ns + self.rotation_ns
    }
}

/// Sectors of a transfer that pass one after the other on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Sectors of the transfer before it.
    pub before: u64,
    /// Its sectors.
    pub count: u64,
    /// When its first sector begins to pass.
    pub begin_ns: u64,
    /// When its first sector has passed.
    pub first_ns: u64,
    /// When its last sector has passed.
    pub last_ns: u64,
}

impl Stretch {
    /// When the last of `sectors` sectors is over the bus, at `bus_ns` each and in order, as far
    /// as this stretch delays it: the maximum of pass + (sectors after it, with it) · bus, which
    /// is at one of the ends. Only the sectors from `skip` on go over the bus.
    pub fn over_bus_ns(&self, skip: u64, sectors: u64, bus_ns: u64) -> u64 {
        let end = self.before + self.count;
        if end <= skip {
            return 0;
        }
        let from = self.before.max(skip);
        let first_ns = self.passed_ns(from).unwrap_or(self.first_ns);
        let all = skip + sectors;
        (first_ns + (all - from) * bus_ns).max(self.last_ns + (all + 1 - end) * bus_ns)
    }

    /// When a sector of the transfer has passed, if it is one of these.
    pub fn passed_ns(&self, number: u64) -> Option<u64> {
        let within = number.checked_sub(self.before)?;
        if within >= self.count {
            return None;
        }
        if within == 0 {
            return Some(self.first_ns);
        }
        let length_ns = u128::from(self.last_ns - self.first_ns);
        let share = u128::from(within) * length_ns / u128::from(self.count - 1);
        Some(self.first_ns + share as u64)
    }

    /// How much too late the data of a write come that are on the bus from `start_ns` on, at
    /// `bus_ns` a sector: each must be there before its place begins to pass. The worst is at one
    /// of the ends.
    pub fn late_ns(&self, start_ns: u64, bus_ns: u64) -> u64 {
        let last_begins_ns = match self.count {
            1 => self.begin_ns,
            count => self
                .passed_ns(self.before + count - 2)
                .unwrap_or(self.begin_ns),
        };
        let end = self.before + self.count;
        let first_late_ns = (start_ns + (self.before + 1) * bus_ns).saturating_sub(self.begin_ns);
        first_late_ns.max((start_ns + end * bus_ns).saturating_sub(last_begins_ns))
    }
}

/// The moving parts of a disk.
pub struct Mechanics {
    /// Where addresses lie.
    pub geometry: Geometry,
    /// Last cylinder.
    pub last_cylinder: u32,
    seek: Seek,
    write_settle_ns: i64,
    head_switch_ns: u64,
}

impl Mechanics {
    /// The mechanics of a checked description.
    pub fn new(spec: &DiskSpec) -> Self {
        Mechanics {
            geometry: Geometry::new(spec),
            last_cylinder: spec.cylinders() - 1,
            seek: Seek::new(spec),
            write_settle_ns: spec.write_settle.0,
            head_switch_ns: spec.head_switch.0,
        }
    }

    /// Seek over this many cylinders; 0 for none.
    pub fn seek_ns(&self, distance: u32) -> u64 {
        self.seek.ns(distance)
    }

    /// Movement from one track to another, and settling; 0 on the same one.
    fn move_ns(&self, from: Place, to: Place, is_write: bool) -> u64 {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let switch_ns = if from.head == to.head {
            0
        } else {
            self.head_switch_ns
        };
        let settle_ns = if is_write { self.write_settle_ns } else { 0 };
        if self.seek.is_measured() {
            let move_ns = self.seek_ns(distance).max(switch_ns);
            return match move_ns {
                0 => 0,
                _ => move_ns.saturating_add_signed(settle_ns),
            };
        }
        let move_ns = if distance == 0 {
            switch_ns
        } else {
            self.seek_ns(distance)
        };
        move_ns.saturating_add_signed(settle_ns)
    }

    /// Positioning from `from`, beginning at `now_ns`, to the sector `to`.
    pub fn positioning(&self, now_ns: u64, from: Place, to: Place, is_write: bool) -> Positioning {
        let seek_ns = self.move_ns(from, to, is_write);
        Positioning {
            seek_ns,
            rotation_ns: self.geometry.rotation_ns(now_ns + seek_ns, to),
        }
    }

    /// When the last of `sectors` sectors from `lba` on has passed, if the first begins to pass at
    /// `start_ns`; and the place where the head is then.
    pub fn transfer(&self, start_ns: u64, lba: u64, sectors: u64) -> (u64, Place) {
        self.transfer_runs(start_ns, lba, sectors, |_| {})
    }

    /// The same; `run` is given every stretch on one track.
    pub fn transfer_runs(
        &self,
        start_ns: u64,
        lba: u64,
        sectors: u64,
        mut run: impl FnMut(Stretch),
    ) -> (u64, Place) {
        let (mut now_ns, mut lba, mut left) = (start_ns, lba, sectors);
        loop {
            let place = self.geometry.place(lba);
            let on_track = u64::from(place.run).min(left);
            // Differences of phases, not sums of lengths: no rounding piles up along a track.
            let passing_ns = |sector| self.geometry.passing_ns(place, sector);
            let begin_ns = passing_ns(place.sector);
            let end_ns = passing_ns(place.sector + on_track as u32);
            let stretch = Stretch {
                before: sectors - left,
                count: on_track,
                begin_ns: now_ns,
                first_ns: now_ns + (passing_ns(place.sector + 1) - begin_ns),
                last_ns: now_ns + (end_ns - begin_ns),
            };
            now_ns = stretch.last_ns;
            run(stretch);
            (lba, left) = (lba + on_track, left - on_track);
            if left == 0 {
                return (now_ns, place);
            }
            let next = self.geometry.place(lba);
            now_ns += self.positioning(now_ns, place, next, false).total_ns();
        }
    }

    /// When a request is over that a head finds at `settled_ns` somewhere on its own track and
    /// reads from there on, if that is sooner than from its begin at `passes_ns`.
    pub fn from_inside(
        &self,
        settled_ns: u64,
        passes_ns: u64,
        place: Place,
        sectors: u64,
    ) -> Option<u64> {
        if u64::from(place.run) < sectors {
            return None;
        }
        let passing_ns = |sector| self.geometry.passing_ns(place, sector);
        let begin_ns = passing_ns(place.sector);
        let turn_ns = self.geometry.revolution_ns();
        // The begin passed this long ago; it passes again at `passes_ns`.
        let ago_ns = turn_ns.checked_sub(passes_ns - settled_ns)?;
        let missed = (1..=sectors as u32)
            .find(|count| passing_ns(place.sector + count) - begin_ns >= ago_ns)?;
        Some(passes_ns + passing_ns(place.sector + missed) - begin_ns)
    }

    /// The first sector on the track of `lba`, and in one run with it, that passes completely
    /// within the `wait_ns` before it.
    pub fn first_passing(&self, wait_ns: u64, lba: u64) -> u64 {
        let geometry = &self.geometry;
        let to = geometry.place(lba);
        let sector_ns = geometry.passing_ns(to, 1).max(1);
        let most = (wait_ns / sector_ns).min(lba);
        let is_run =
            |count: &u64| u64::from(geometry.place(lba - count).run) == u64::from(to.run) + count;
        lba - (1..=most).take_while(is_run).last().unwrap_or(0)
    }

    /// How many sectors from `lba` on have passed completely at `now_ns`, at most `most`, if the
    /// first began to pass at `start_ns`.
    pub fn passed(&self, start_ns: u64, lba: u64, most: u64, now_ns: u64) -> u64 {
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.transfer(start_ns, lba, middle).0 <= now_ns {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}
