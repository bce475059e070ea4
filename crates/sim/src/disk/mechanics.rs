//! How long positioning and transfers take.

use super::geometry::{Geometry, Place};
use super::spec::DiskSpec;

/// What it takes to bring the head to the first sector of a command.
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

/// The moving parts of a disk.
pub struct Mechanics {
    /// Where addresses lie.
    pub geometry: Geometry,
    /// Last cylinder.
    pub last_cylinder: u32,
    seek_single_ns: f64,
    seek_root_ns: f64,
    seek_linear_ns: f64,
    write_settle_ns: u64,
    head_switch_ns: u64,
}

impl Mechanics {
    /// The mechanics of a checked description.
    ///
    /// The seek curve is a·√(d−1) + b·(d−1) + c through the three times of a data sheet (Lee and
    /// Katz, "An analytic performance model of disk arrays", 1993).
    pub fn new(spec: &DiskSpec) -> Self {
        let cylinders = f64::from(spec.cylinders());
        let (single, average, full) = (
            spec.seek_single.0 as f64,
            spec.seek_average.0 as f64,
            spec.seek_full.0 as f64,
        );
        Mechanics {
            geometry: Geometry::new(spec),
            last_cylinder: spec.cylinders() - 1,
            seek_single_ns: single,
            seek_root_ns: (15.0 * average - 10.0 * single - 5.0 * full) / (3.0 * cylinders.sqrt()),
            seek_linear_ns: (7.0 * single - 15.0 * average + 8.0 * full) / (3.0 * cylinders),
            write_settle_ns: spec.write_settle.0,
            head_switch_ns: spec.head_switch.0,
        }
    }

    /// Seek over this many cylinders; 0 for none.
    pub fn seek_ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let further = f64::from(distance - 1);
        let time_ns = self.seek_single_ns
            + self.seek_root_ns * further.sqrt()
            + self.seek_linear_ns * further;
        time_ns.round() as u64
    }

    /// Movement from one track to another; 0 on the same one.
    fn move_ns(&self, from: Place, to: Place) -> u64 {
        match from.cylinder.abs_diff(to.cylinder) {
            0 if from.head == to.head => 0,
            0 => self.head_switch_ns,
            distance => self.seek_ns(distance),
        }
    }

    /// Positioning from `from`, beginning at `now_ns`, to the sector `to`.
    pub fn positioning(&self, now_ns: u64, from: Place, to: Place, is_write: bool) -> Positioning {
        let settle_ns = if is_write { self.write_settle_ns } else { 0 };
        let seek_ns = self.move_ns(from, to) + settle_ns;
        Positioning {
            seek_ns,
            rotation_ns: self.geometry.rotation_ns(now_ns + seek_ns, to),
        }
    }

    /// When the last of `sectors` sectors from `lba` on has passed, if the first begins to pass at
    /// `start_ns`; and the place where the head is then.
    pub fn transfer(&self, start_ns: u64, lba: u64, sectors: u64) -> (u64, Place) {
        let (mut now_ns, mut lba, mut left) = (start_ns, lba, sectors);
        loop {
            let place = self.geometry.place(lba);
            let on_track = u64::from(place.sectors_per_track - place.sector).min(left);
            // Differences of phases, not sums of lengths: no rounding piles up along a track.
            let end = self
                .geometry
                .passing_ns(place, place.sector + on_track as u32);
            now_ns += end - self.geometry.passing_ns(place, place.sector);
            (lba, left) = (lba + on_track, left - on_track);
            if left == 0 {
                return (now_ns, place);
            }
            let next = self.geometry.place(lba);
            now_ns += self.positioning(now_ns, place, next, false).total_ns();
        }
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
