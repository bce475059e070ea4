//! Where an address lies: cylinder, head, and when its first sector passes the head.

use super::spec::DiskSpec;

/// A sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the outer edge.
    pub cylinder: u32,
    /// Track of the cylinder.
    pub head: u32,
    /// Sector of the track.
    pub sector: u32,
    /// Sectors of the track.
    pub sectors_per_track: u32,
}

struct ZoneStart {
    first_lba: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
}

/// The map from addresses (in sectors) to places: sector, then head, then cylinder.
pub struct Geometry {
    zones: Vec<ZoneStart>,
    heads: u32,
    sectors: u64,
    revolution_ns: u64,
    track_skew_ns: u64,
    cylinder_skew_ns: u64,
}

impl Geometry {
    /// The geometry of a disk.
    pub fn new(spec: &DiskSpec) -> Self {
        let (mut first_lba, mut first_cylinder) = (0, 0);
        let mut zones = Vec::with_capacity(spec.zones.len());
        for zone in &spec.zones {
            zones.push(ZoneStart {
                first_lba,
                first_cylinder,
                sectors_per_track: zone.sectors_per_track,
            });
            let tracks = u64::from(zone.cylinders) * u64::from(spec.heads);
            first_lba += tracks * u64::from(zone.sectors_per_track);
            first_cylinder += zone.cylinders;
        }
        Geometry {
            zones,
            heads: spec.heads,
            sectors: first_lba,
            revolution_ns: spec.revolution_ns(),
            track_skew_ns: spec.track_skew.0,
            cylinder_skew_ns: spec.cylinder_skew.0,
        }
    }

    /// Number of sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The place of a sector below [`sectors`](Self::sectors).
    pub fn place(&self, lba: u64) -> Place {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba);
        let zone = &self.zones[after - 1];
        let in_zone = lba - zone.first_lba;
        let per_track = u64::from(zone.sectors_per_track);
        let track = in_zone / per_track;
        let heads = u64::from(self.heads);
        Place {
            cylinder: zone.first_cylinder + (track / heads) as u32,
            head: (track % heads) as u32,
            sector: (in_zone % per_track) as u32,
            sectors_per_track: zone.sectors_per_track,
        }
    }

    /// Time within a revolution at which the sector begins to pass the head, ns.
    pub fn phase_ns(&self, place: Place) -> u64 {
        let per_cylinder = u64::from(self.heads - 1) * self.track_skew_ns + self.cylinder_skew_ns;
        let skew_ns =
            u64::from(place.cylinder) * per_cylinder + u64::from(place.head) * self.track_skew_ns;
        (skew_ns + self.passing_ns(place, place.sector)) % self.revolution_ns
    }

    /// Time that `sectors` sectors of the place's track take to pass, ns.
    pub fn passing_ns(&self, place: Place, sectors: u32) -> u64 {
        self.revolution_ns * u64::from(sectors) / u64::from(place.sectors_per_track)
    }

    /// Wait at `now_ns` until the sector begins to pass, ns.
    pub fn rotation_ns(&self, now_ns: u64, place: Place) -> u64 {
        let at_ns = now_ns % self.revolution_ns;
        let phase_ns = self.phase_ns(place);
        if phase_ns >= at_ns {
            phase_ns - at_ns
        } else {
            phase_ns + self.revolution_ns - at_ns
        }
    }
}
