//! The description of a disk, as its TOML file has it, and what is refused in one.

use schedlab_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::SimError;

/// Descriptions that come with schedlab, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("disk7200", include_str!("../../devices/disk7200.toml")),
    ("disk5400", include_str!("../../devices/disk5400.toml")),
];

/// Cylinders with equally long tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// How many.
    pub cylinders: u32,
    /// Sectors of each of their tracks.
    pub sectors_per_track: u32,
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
}

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
    /// Seek to the next cylinder, settling included.
    pub seek_single: Nanos,
    /// Mean seek between uniformly drawn cylinders, settling included.
    pub seek_average: Nanos,
    /// Seek over all cylinders, settling included.
    pub seek_full: Nanos,
    /// Further settling before a write.
    pub write_settle: Nanos,
    /// Change to another track of the cylinder.
    pub head_switch: Nanos,
    /// Rotational offset of a track's first sector from the track before.
    pub track_skew: Nanos,
    /// The same from cylinder to cylinder.
    pub cylinder_skew: Nanos,
    /// Controller time of each command.
    pub overhead: Nanos,
    /// Speed of data that come from the cache.
    pub interface_bytes_per_s: u64,
    /// How many commands the policy chooses from.
    pub queue_depth: usize,
    /// The cache.
    pub cache: CacheSpec,
}

impl DiskSpec {
    /// A shipped description.
    pub fn shipped(name: &str) -> Result<Self, SimError> {
        let known: Vec<&str> = SHIPPED.iter().map(|(known, _)| *known).collect();
        let found = SHIPPED.iter().find(|(known, _)| *known == name);
        let (place, text) = found.ok_or_else(|| SimError::Unknown {
            key: "device",
            name: name.into(),
            known: known.join(", "),
        })?;
        Self::from_toml(place, text)
    }

    /// A checked description from TOML; `place` is where it comes from, for errors.
    pub fn from_toml(place: &str, text: &str) -> Result<Self, SimError> {
        let spec: DiskSpec = toml::from_str(text).map_err(|error| SimError::DeviceFile {
            place: place.into(),
            detail: error.to_string(),
        })?;
        spec.check()?;
        Ok(spec)
    }

    /// One revolution, ns.
    pub fn revolution_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm)
    }

    /// All cylinders.
    pub fn cylinders(&self) -> u32 {
        self.zones.iter().map(|zone| zone.cylinders).sum()
    }

    /// All sectors, in bytes.
    pub fn capacity(&self) -> Bytes {
        let sectors = |zone: &Zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track);
        let per_head: u64 = self.zones.iter().map(sectors).sum();
        Bytes(per_head * u64::from(self.heads) * self.sector.0)
    }

    /// Refuses what is no disk, naming the key and the allowed range.
    pub fn check(&self) -> Result<(), SimError> {
        require(self.model == "disk", "model", &self.model, "\"disk\"")?;
        let sector = self.sector.0;
        require(
            (1..=65536).contains(&sector),
            "sector",
            sector,
            "1 to 65536 bytes",
        )?;
        require(
            (60..=100_000).contains(&self.rpm),
            "rpm",
            self.rpm,
            "60 to 100000",
        )?;
        require(
            (1..=1000).contains(&self.heads),
            "heads",
            self.heads,
            "1 to 1000",
        )?;
        self.check_zones()?;
        self.check_times()?;
        let speed = self.interface_bytes_per_s;
        require(speed > 0, "interface_bytes_per_s", speed, "above 0")?;
        let depth = self.queue_depth;
        require(
            (1..=65536).contains(&depth),
            "queue_depth",
            depth,
            "1 to 65536",
        )?;
        let cache = &self.cache;
        let segments = cache.segments;
        require(segments <= 4096, "cache.segments", segments, "0 to 4096")?;
        let expected = "at least one sector, at most 1 GiB";
        let fits = (sector..=1 << 30).contains(&cache.segment.0);
        require(
            segments == 0 || fits,
            "cache.segment",
            cache.segment,
            expected,
        )?;
        let expected = format!("0 to cache.segment, {}", cache.segment);
        let fits = cache.read_ahead <= cache.segment;
        require(
            segments == 0 || fits,
            "cache.read_ahead",
            cache.read_ahead,
            expected,
        )
    }

    fn check_zones(&self) -> Result<(), SimError> {
        let zones = self.zones.len();
        require(
            (1..=1000).contains(&zones),
            "zones",
            zones,
            "1 to 1000 zones",
        )?;
        for zone in &self.zones {
            let (cylinders, sectors) = (zone.cylinders, zone.sectors_per_track);
            let expected = "1 to 10000000";
            require(
                (1..=10_000_000).contains(&cylinders),
                "cylinders",
                cylinders,
                expected,
            )?;
            let expected = "1 to 1000000";
            require(
                (1..=1_000_000).contains(&sectors),
                "sectors_per_track",
                sectors,
                expected,
            )?;
        }
        let total: u64 = self
            .zones
            .iter()
            .map(|zone| u64::from(zone.cylinders))
            .sum();
        require(
            (2..1 << 31).contains(&total),
            "cylinders",
            total,
            "2 to 2147483647 in sum",
        )
    }

    fn check_times(&self) -> Result<(), SimError> {
        let second = Nanos(1_000_000_000);
        let short = [
            ("seek_full", self.seek_full),
            ("write_settle", self.write_settle),
            ("head_switch", self.head_switch),
            ("track_skew", self.track_skew),
            ("cylinder_skew", self.cylinder_skew),
            ("overhead", self.overhead),
        ];
        for (key, time) in short {
            require(time <= second, key, format!("{} ns", time.0), "0 to 1 s")?;
        }
        let (single, average, full) = (self.seek_single.0, self.seek_average.0, self.seek_full.0);
        let expected = format!("above 0, at most seek_full, {full} ns");
        require(
            single > 0 && single <= full,
            "seek_single",
            format!("{single} ns"),
            expected,
        )?;
        // Outside these the curve through the three times would fall somewhere.
        let (low, high) = (
            (2 * single + full).div_ceil(3),
            (7 * single + 8 * full) / 15,
        );
        let expected =
            format!("{low} to {high} ns, between (2·single + full)/3 and (7·single + 8·full)/15");
        require(
            (low..=high).contains(&average),
            "seek_average",
            format!("{average} ns"),
            expected,
        )
    }
}
