//! The parts of a disk description: zones, seeks, overheads, bus, caches.

use schedlab_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Cylinders with equally long tracks: `cylinders` of them, or those from `first` to `last`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// How many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cylinders: u32,
    /// Sectors of each of their tracks.
    pub sectors_per_track: u32,
    /// First cylinder; after the zone before where missing. Cylinders between zones hold nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// Last cylinder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default)]
    pub first_offset: f64,
    /// Sectors by which a track begins later than the track before it on the cylinder; without
    /// both skews those of the disk hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew: Option<f64>,
    /// The same from the last track of a cylinder to the first one of the next cylinder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew: Option<f64>,
    /// Sectors at the front of the zone that hold nothing.
    #[serde(default)]
    pub empty: u32,
    /// Sectors that are kept free to replace bad ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<Spare>,
    /// Bad sectors, counted from the zone's first one, ascending: what follows moves by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u32>,
    /// Bad sectors and those that replace them, counted alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<(u32, u32)>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Where spare sectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparePer {
    /// At the end of each track.
    Track,
    /// At the end of each cylinder.
    Cylinder,
    /// At the end of the zone.
    Zone,
    /// At the end of every `range` cylinders.
    Range,
    /// At the end of the zone; slips move everything up to there.
    End,
    /// Whole tracks at the end of the zone; slips and defects are tracks.
    Tracks,
}

/// Spare sectors (or tracks) of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// In what they are.
    pub per: SparePer,
    /// How many in each.
    pub count: u32,
    /// Cylinders of a range.
    #[serde(default = "one")]
    pub range: u32,
    /// At the front of each cylinder instead of its end.
    #[serde(default)]
    pub at_front: bool,
    /// A slip moves everything to the end of the zone, not only of the track, cylinder or range.
    #[serde(default)]
    pub slip_to_end: bool,
}

fn one() -> u32 {
    1
}

/// The order of heads within a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serpentine {
    /// Ascending on every cylinder.
    #[default]
    None,
    /// Descending on every second cylinder of a zone, so that cylinder switches keep the head.
    Heads,
    /// Descending on every odd cylinder of the disk.
    Surface,
}

/// Settling inside a request on one track: whether the head starts there at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroLatency {
    /// For reads.
    pub read: bool,
    /// For writes.
    pub write: bool,
}

/// A time that may be negative, in ns: `"-0.2ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SignedNanos(pub i64);

impl<'de> Deserialize<'de> for SignedNanos {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(i64),
            Text(String),
        }
        let text = match NumberOrText::deserialize(from)? {
            NumberOrText::Number(number) => return Ok(SignedNanos(number)),
            NumberOrText::Text(text) => text,
        };
        let (sign, digits) = match text.trim().strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.trim()),
        };
        let time: Nanos = digits.parse().map_err(serde::de::Error::custom)?;
        i64::try_from(time.0)
            .map(|ns| SignedNanos(sign * ns))
            .map_err(serde::de::Error::custom)
    }
}

/// One time, or two: after a read, after a write, if nothing else is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Times {
    /// The same after both.
    One(Nanos),
    /// After a read, after a write (of `completion` and `bus.sector`: of a read, of a write).
    Two(Nanos, Nanos),
}

impl Times {
    /// The first, or the second time.
    pub fn get(self, second: bool) -> u64 {
        match (self, second) {
            (Times::One(time), _) | (Times::Two(time, _), false) | (Times::Two(_, time), true) => {
                time.0
            }
        }
    }
}

/// Controller times by kind of command; `overhead` where one is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// Before the bus, of reads from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_hit: Option<Times>,
    /// Before the arm moves, of other reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_miss: Option<Times>,
    /// Before the bus, of writes into the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_hit: Option<Times>,
    /// Before the arm moves, of writes to the medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_miss: Option<Times>,
    /// At the end of every command: of reads, of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Times>,
}

/// The bus, sector by sector: it overlaps with the medium.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusSpec {
    /// Time of a sector on the bus: of a read, of a write.
    pub sector: Times,
    /// Share of the sectors of a read from the medium that are in the cache before the first of
    /// them goes over the bus.
    #[serde(default)]
    pub high_water: f64,
    /// Not modelled: must be false.
    #[serde(default)]
    pub hold_read: bool,
    /// Not modelled: must be false.
    #[serde(default)]
    pub hold_write: bool,
}

impl BusSpec {
    /// The sector of a read of so many that has passed before the first is on the bus.
    pub fn waits_for(&self, sectors: u64) -> Option<u64> {
        ((sectors as f64 * self.high_water) as u64).checked_sub(1)
    }
}

/// When dirty data are written to the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destage {
    /// When the arm is idle, in the order of arrival.
    #[default]
    Idle,
    /// When the arm is idle, in the order of the disk's policy.
    Policy,
}

/// Which written data can be read from the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readable {
    /// None: they are written to the medium first.
    Never,
    /// Dirty ones.
    #[default]
    Dirty,
    /// Those on the medium too, as long as no other segment needs their place.
    Always,
}

/// The cache for writes: a write is complete once its data are in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCacheSpec {
    /// Dirty extents that it holds.
    pub segments: usize,
    /// Size of each at most.
    pub segment: Bytes,
    /// The order of destaging.
    #[serde(default)]
    pub destage: Destage,
    /// Dirty share of the cache from which destaging goes before reads.
    #[serde(default = "full")]
    pub high_water: f64,
    /// Dirty share at which that ends.
    #[serde(default)]
    pub low_water: f64,
    /// The cached data that a read can find.
    #[serde(default)]
    pub readable: Readable,
}

fn yes() -> bool {
    true
}

fn full() -> f64 {
    1.0
}

/// How long the arm takes over a number of cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SeekSpec {
    /// Distances and times, ascending: linear between them, constant outside.
    Table(Vec<(u32, Nanos)>),
    /// A curve.
    Curve(SeekCurve),
}

/// root_base + root_factor·√d below `boundary`, then linear_base + linear_factor·d; `short` holds
/// the times of the distances 1, 2, … instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekCurve {
    /// Distance from which the linear part holds.
    pub boundary: u32,
    /// Times of the shortest seeks.
    #[serde(default)]
    pub short: Vec<Nanos>,
    /// Constant of the root part, ns.
    #[serde(default)]
    pub root_base: SignedNanos,
    /// Factor of the root, ns.
    #[serde(default)]
    pub root_factor: f64,
    /// Constant of the linear part, ns.
    #[serde(default)]
    pub linear_base: SignedNanos,
    /// Slope of the linear part, ns a cylinder.
    #[serde(default)]
    pub linear_factor: f64,
}

/// Up to where an idle disk reads on behind a read, within `read_ahead`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOn {
    /// As far as that is.
    #[default]
    Segment,
    /// To the end of the track of its last sector.
    Track,
    /// To the end of the cylinder of its last sector.
    Cylinder,
    /// To the end of the track of the sector after it, and over the next track if the segment began
    /// on a track before that one; not limited by `read_ahead`.
    NextTrack,
}

/// The cache for reads: segments hold what was read and what passed the head afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// How many sequential streams it can follow; 0 is no cache.
    pub segments: usize,
    /// Size of a segment.
    pub segment: Bytes,
    /// How far an otherwise idle disk reads on behind a read.
    pub read_ahead: Bytes,
    /// Where it stops before that.
    #[serde(default)]
    pub read_on: ReadOn,
    /// Whether a hit lets a disk that has read far enough read on again.
    #[serde(default = "yes")]
    pub hit_reads_on: bool,
    /// Whether a read keeps what passes the head on its track before its first sector, too.
    #[serde(default)]
    pub from_landing: bool,
    /// Whether a read whose beginning is in a segment needs only the rest from the medium.
    #[serde(default)]
    pub partial_hits: bool,
}
