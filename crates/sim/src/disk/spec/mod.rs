//! The description of a disk, as its TOML file has it, and what is refused in one.

mod parts;

use std::collections::BTreeMap;

use schedlab_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use parts::{
    BusSpec, CacheSpec, Destage, Overheads, ReadOn, Readable, SeekCurve, SeekSpec, Serpentine,
    SignedNanos, Spare, SparePer, Times, WriteCacheSpec, ZeroLatency, Zone,
};

use crate::devices;
use crate::SimError;

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Always `disk`: which simulator the file is for.
    pub model: String,
    /// Bytes of a sector.
    pub sector: Bytes,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Tracks of a cylinder.
    pub heads: u32,
    /// From LBA 0, at the outer edge, inwards.
    pub zones: Vec<Zone>,
    /// The order of heads.
    #[serde(default)]
    pub serpentine: Serpentine,
    /// Seek times as a table or a curve, instead of the next three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek: Option<SeekSpec>,
    /// Seek to the next cylinder, settling included.
    #[serde(default)]
    pub seek_single: Nanos,
    /// Mean seek between uniformly drawn cylinders, settling included.
    #[serde(default)]
    pub seek_average: Nanos,
    /// Seek over all cylinders, settling included.
    #[serde(default)]
    pub seek_full: Nanos,
    /// Further settling before a write.
    #[serde(default)]
    pub write_settle: SignedNanos,
    /// Change to another track of the cylinder.
    #[serde(default)]
    pub head_switch: Nanos,
    /// Rotational offset of a track's first sector from the track before.
    #[serde(default)]
    pub track_skew: Nanos,
    /// The same from cylinder to cylinder.
    #[serde(default)]
    pub cylinder_skew: Nanos,
    /// Controller time of each command.
    #[serde(default)]
    pub overhead: Nanos,
    /// Controller times by kind.
    #[serde(default)]
    pub overheads: Overheads,
    /// Speed of data that come from the cache; 0 where `bus` sets it.
    #[serde(default)]
    pub interface_bytes_per_s: u64,
    /// The bus, sector by sector, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<BusSpec>,
    /// How many commands the policy chooses from.
    pub queue_depth: usize,
    /// The cache for reads.
    pub cache: CacheSpec,
    /// The cache for writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<WriteCacheSpec>,
    /// Whether a head that settles inside a request starts there.
    #[serde(default)]
    pub zero_latency: ZeroLatency,
    /// How the description was found, for people and for predictions.
    #[serde(default, skip_serializing)]
    pub fit: serde::de::IgnoredAny,
}

impl DiskSpec {
    /// A shipped description.
    pub fn shipped(name: &str) -> Result<Self, SimError> {
        Self::from_toml(name, devices::shipped(name)?, &BTreeMap::new())
    }

    /// A checked description from TOML, with some keys changed (`cache.segments`, `rpm`, …);
    /// `place` is where it comes from, for errors.
    pub fn from_toml(
        place: &str,
        text: &str,
        changes: &BTreeMap<String, Value>,
    ) -> Result<Self, SimError> {
        let wrong = |error: String| SimError::file(place, error);
        let spec: DiskSpec = if changes.is_empty() {
            // Straight from the text: its errors name the line.
            toml::from_str(text).map_err(|error| wrong(error.to_string()))?
        } else {
            let tree = devices::changed(text, changes).map_err(wrong)?;
            serde_json::from_value(tree).map_err(|error| wrong(error.to_string()))?
        };
        spec.check()?;
        Ok(spec)
    }

    /// One revolution, ns.
    pub fn revolution_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm)
    }

    /// First cylinder and number of cylinders of each zone.
    pub fn zone_spans(&self) -> Vec<(u32, u32)> {
        let mut next = 0;
        let span = |zone: &Zone| {
            let first = zone.first.unwrap_or(next);
            let count = match zone.last {
                Some(last) => (last + 1).saturating_sub(first),
                None => zone.cylinders,
            };
            next = first.saturating_add(count);
            (first, count)
        };
        self.zones.iter().map(span).collect()
    }

    /// All cylinders, those between zones too.
    pub fn cylinders(&self) -> u32 {
        let end = |(first, count): (u32, u32)| first.saturating_add(count);
        self.zone_spans().into_iter().map(end).max().unwrap_or(0)
    }

    /// Controller time of a command before the bus (a hit) or the arm (a miss) works for it, ns.
    pub fn overhead_ns(&self, is_write: bool, is_hit: bool, after_write: bool) -> u64 {
        let times = match (is_write, is_hit) {
            (false, true) => self.overheads.read_hit,
            (false, false) => self.overheads.read_miss,
            (true, true) => self.overheads.write_hit,
            (true, false) => self.overheads.write_miss,
        };
        times.map_or(self.overhead.0, |times| times.get(after_write))
    }

    /// Controller time at the end of a command, ns.
    pub fn completion_ns(&self, is_write: bool) -> u64 {
        self.overheads
            .completion
            .map_or(0, |times| times.get(is_write))
    }

    /// Time of `sectors` sectors, or of these bytes, between host and cache, ns.
    pub fn bus_ns(&self, is_write: bool, sectors: u64, bytes: u64) -> u64 {
        match &self.bus {
            Some(bus) => sectors * bus.sector.get(is_write),
            None => {
                let speed = u128::from(self.interface_bytes_per_s.max(1));
                (u128::from(bytes) * 1_000_000_000 / speed) as u64
            }
        }
    }
}
