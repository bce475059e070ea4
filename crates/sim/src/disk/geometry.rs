//! The place of an address: cylinder, head, and when its first sector passes the head.

use super::spec::{DiskSpec, Serpentine, SparePer, Zone};

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
    /// Addresses from this one on that follow each other on the track, this one included.
    pub run: u32,
    /// Number of the zone.
    zone: u16,
}

/// Sectors of a zone in the order of addresses: which hold data, and which address they have.
pub(super) struct Layout {
    /// Sectors of a unit, which has its own spares: track, cylinder, range or zone.
    unit: u64,
    /// Of them those with data.
    data: u64,
    /// Whether the spares of a unit are its first sectors.
    at_front: u64,
    /// Sectors at the front of the zone without data.
    empty: u64,
    slips: Vec<u64>,
    /// Sectors after which what follows begins later by a sector for each slip before it; 0 for
    /// never.
    turns_after: u64,
    /// Slips move everything up to the end of the zone.
    slip_to_end: bool,
    defects: Vec<(u64, u64)>,
    sectors: u64,
    per_track: u64,
}

impl Layout {
    pub(super) fn new(heads: u32, zone: &Zone, cylinders: u32) -> Self {
        let per_track = u64::from(zone.sectors_per_track);
        let cylinder = per_track * u64::from(heads);
        let whole = cylinder * u64::from(cylinders);
        let (mut unit, mut spare, mut at_front, mut scale) = (whole, 0, 0, 1);
        let mut slip_to_end = false;
        if let Some(scheme) = &zone.spare {
            spare = u64::from(scheme.count);
            slip_to_end = scheme.slip_to_end;
            match scheme.per {
                SparePer::Track => unit = per_track,
                SparePer::Cylinder => unit = cylinder,
                SparePer::Range => unit = cylinder * u64::from(scheme.range.max(1)),
                SparePer::Zone | SparePer::End => {}
                SparePer::Tracks => scale = per_track,
            }
            if scheme.at_front {
                at_front = spare;
            }
        }
        let unit = unit.clamp(1, whole.max(1));
        let data = unit.saturating_sub(spare * scale);
        // The last unit may be shorter, as a range is at the end of a zone.
        let last = (whole % unit).saturating_sub(spare * scale);
        let empty = u64::from(zone.empty);
        let mut sectors = (whole / unit * data + last).saturating_sub(empty);
        // Slips and defects are sectors, or whole tracks.
        let tracks = zone.spare.is_some_and(|s| s.per == SparePer::Tracks);
        let count = if tracks { per_track } else { 1 };
        let mut slips = Vec::with_capacity(zone.slips.len());
        for slip in &zone.slips {
            let first = u64::from(*slip) * count;
            slips.extend(first..first + count);
        }
        if slip_to_end || zone.spare.is_some_and(|spare| spare.per == SparePer::End) {
            // What they move finds its place before the spares, not in them.
            sectors = sectors.saturating_sub(slips.len() as u64);
        }
        let defects = |(at, to): &(u32, u32)| {
            let (at, to) = (u64::from(*at) * count, u64::from(*to) * count);
            (0..count)
                .map(move |i| (at + i, to + i))
                .collect::<Vec<_>>()
        };
        let mut defects: Vec<(u64, u64)> = zone.defects.iter().flat_map(defects).collect();
        defects.sort_unstable();
        Layout {
            unit,
            data: data.max(1),
            at_front,
            empty,
            slips,
            turns_after: match zone.spare.map(|spare| spare.per) {
                Some(SparePer::Track) => per_track,
                Some(SparePer::Cylinder) => cylinder,
                _ => 0,
            },
            slip_to_end,
            defects,
            sectors,
            per_track,
        }
    }

    /// By how many sectors a track begins later because of slips before it (DiskSim, layout_g1.c,
    /// `g1_map_pbn_skew`).
    fn turned_by(&self, track: u64) -> u64 {
        if self.turns_after == 0 || self.slips.is_empty() {
            return 0;
        }
        let first = track * self.per_track / self.turns_after * self.turns_after;
        self.slips.partition_point(|slip| *slip < first) as u64
    }

    /// Sectors that have an address.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The sector of an address, both counted within the zone, and how many addresses from it on
    /// follow each other on its track.
    fn sector(&self, address: u64) -> (u64, u64) {
        let number = address + self.empty;
        let (mut unit, mut within) = (number / self.data, number % self.data);
        let mut next_slip = u64::MAX;
        if self.slip_to_end {
            // Slips take the places of data: those before this one move it, over units too.
            let mut moved = number;
            for slip in &self.slips {
                let place = slip / self.unit * self.data + (slip % self.unit).min(self.data);
                if place > moved {
                    next_slip = *slip;
                    break;
                }
                moved += 1;
            }
            (unit, within) = (moved / self.data, moved % self.data);
        }
        let start = unit * self.unit;
        let mut sector = start + self.at_front + within;
        if !self.slip_to_end && !self.slips.is_empty() {
            let from = self.slips.partition_point(|slip| *slip < start);
            for slip in &self.slips[from..] {
                if *slip > sector {
                    next_slip = *slip;
                    break;
                }
                sector += 1;
            }
        }
        let mut run = (self.per_track - sector % self.per_track)
            .min(self.data - within)
            .min(next_slip - sector);
        if !self.defects.is_empty() {
            let at = self.defects.partition_point(|defect| defect.0 < sector);
            match self.defects.get(at) {
                Some((defect, to)) if *defect == sector => return (*to, 1),
                Some((defect, _)) => run = run.min(defect - sector),
                None => {}
            }
        }
        (sector, run.max(1))
    }
}

struct ZonePlace {
    first_lba: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    layout: Layout,
    /// Offset, track skew and cylinder skew in ns; without, those of the disk hold.
    skew_ns: Option<(f64, f64, f64)>,
}

/// The map from addresses (in sectors) to places: sector, then head, then cylinder.
pub struct Geometry {
    zones: Vec<ZonePlace>,
    heads: u32,
    sectors: u64,
    serpentine: Serpentine,
    revolution_ns: u64,
    track_skew_ns: u64,
    cylinder_skew_ns: u64,
}

impl Geometry {
    /// The geometry of a disk.
    pub fn new(spec: &DiskSpec) -> Self {
        let mut first_lba = 0;
        let mut zones = Vec::with_capacity(spec.zones.len());
        for (zone, (first_cylinder, cylinders)) in spec.zones.iter().zip(spec.zone_spans()) {
            let layout = Layout::new(spec.heads, zone, cylinders);
            let sectors = layout.sectors();
            let sector_ns = spec.revolution_ns() as f64 / f64::from(zone.sectors_per_track);
            let own = zone.track_skew.is_some() || zone.cylinder_skew.is_some();
            let skew = |sectors: Option<f64>| sectors.unwrap_or(0.0) * sector_ns;
            zones.push(ZonePlace {
                first_lba,
                first_cylinder,
                sectors_per_track: zone.sectors_per_track,
                layout,
                skew_ns: (own || zone.first_offset != 0.0).then(|| {
                    let offset = skew(Some(zone.first_offset));
                    (offset, skew(zone.track_skew), skew(zone.cylinder_skew))
                }),
            });
            first_lba += sectors;
        }
        Geometry {
            zones,
            heads: spec.heads,
            sectors: first_lba,
            serpentine: spec.serpentine,
            revolution_ns: spec.revolution_ns(),
            track_skew_ns: spec.track_skew.0,
            cylinder_skew_ns: spec.cylinder_skew.0,
        }
    }

    /// Number of sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// One turn, ns.
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// The place of a sector below [`sectors`](Self::sectors).
    pub fn place(&self, lba: u64) -> Place {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba);
        let number = after - 1;
        let zone = &self.zones[number];
        let (sector, run) = zone.layout.sector(lba - zone.first_lba);
        let per_track = u64::from(zone.sectors_per_track);
        let track = sector / per_track;
        let heads = u64::from(self.heads);
        let cylinder = zone.first_cylinder + (track / heads) as u32;
        Place {
            cylinder,
            head: self.turned(zone, cylinder, (track % heads) as u32),
            sector: (sector % per_track) as u32,
            sectors_per_track: zone.sectors_per_track,
            run: run as u32,
            zone: number as u16,
        }
    }

    /// The head of the track with this number on a cylinder, and the other way round.
    fn turned(&self, zone: &ZonePlace, cylinder: u32, head: u32) -> u32 {
        let is_turned = match self.serpentine {
            Serpentine::None => false,
            Serpentine::Heads => (cylinder - zone.first_cylinder) % 2 == 1,
            Serpentine::Surface => cylinder % 2 == 1,
        };
        if is_turned {
            self.heads - 1 - head
        } else {
            head
        }
    }

    /// The address after the last one of the track that holds `lba`, or of its cylinder.
    pub fn end_of_track(&self, lba: u64, or_cylinder: bool) -> u64 {
        let first = self.place(lba);
        let (mut place, mut end) = (first, lba);
        while place.cylinder == first.cylinder && (or_cylinder || place.head == first.head) {
            end += u64::from(place.run);
            if end >= self.sectors {
                return self.sectors;
            }
            place = self.place(end);
        }
        end
    }

    /// Time within a revolution at which the sector begins to pass the head, ns.
    pub fn phase_ns(&self, place: Place) -> u64 {
        let zone = &self.zones[usize::from(place.zone)];
        let number = self.turned(zone, place.cylinder, place.head);
        let cylinders = u64::from(place.cylinder - zone.first_cylinder);
        let track = cylinders * u64::from(self.heads) + u64::from(number);
        let later = zone.layout.turned_by(track) % u64::from(place.sectors_per_track);
        let passing_ns = self.passing_ns(place, place.sector + later as u32);
        if let Some((offset_ns, track_ns, cylinder_ns)) = zone.skew_ns {
            let cylinders = cylinders as f64;
            let tracks = f64::from(self.heads - 1) * cylinders + f64::from(number);
            let skew_ns = offset_ns + tracks * track_ns + cylinders * cylinder_ns;
            let turn_ns = self.revolution_ns as f64;
            let skew_ns = skew_ns - (skew_ns / turn_ns).floor() * turn_ns;
            return (skew_ns.round() as u64 + passing_ns) % self.revolution_ns;
        }
        let per_cylinder = u64::from(self.heads - 1) * self.track_skew_ns + self.cylinder_skew_ns;
        let skew_ns =
            u64::from(place.cylinder) * per_cylinder + u64::from(number) * self.track_skew_ns;
        (skew_ns + passing_ns) % self.revolution_ns
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
