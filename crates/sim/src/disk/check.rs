//! The capacity of a described disk, and the limits of a description; every error names the key and
//! the allowed range.

use schedlab_model::{Bytes, Nanos};

use super::geometry::{Geometry, Layout};
use super::spec::{DiskSpec, SeekSpec, Zone};
use crate::error::{require, within};
use crate::SimError;

impl DiskSpec {
    /// All sectors, in bytes.
    pub fn capacity(&self) -> Bytes {
        Bytes(Geometry::new(self).sectors() * self.sector.0)
    }

    /// Refuses what is no disk, naming the key and the allowed range.
    pub fn check(&self) -> Result<(), SimError> {
        require(self.model == "disk", "model", &self.model, "\"disk\"")?;
        let sector = self.sector.0;
        within("sector", sector, 1..=65536)?;
        within("rpm", self.rpm, 60..=100_000)?;
        within("heads", self.heads, 1..=1000)?;
        self.check_zones()?;
        self.check_times()?;
        self.check_bus()?;
        self.check_write_cache()?;
        let depth = self.queue_depth;
        within("queue_depth", depth, 1..=65536)?;
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

    fn check_bus(&self) -> Result<(), SimError> {
        let Some(bus) = &self.bus else {
            let speed = self.interface_bytes_per_s;
            return require(
                speed > 0,
                "interface_bytes_per_s",
                speed,
                "above 0, or a bus",
            );
        };
        let second = Nanos(1_000_000_000);
        let longest = Nanos(bus.sector.get(false).max(bus.sector.get(true)));
        require(
            longest <= second,
            "bus.sector",
            format!("{} ns", longest.0),
            "0 to 1 s",
        )?;
        let share = bus.high_water;
        within("bus.high_water", share, 0.0..=1.0)?;
        for (key, held) in [
            ("bus.hold_read", bus.hold_read),
            ("bus.hold_write", bus.hold_write),
        ] {
            require(!held, key, held, "false: holding the bus is not modelled")?;
        }
        Ok(())
    }

    fn check_write_cache(&self) -> Result<(), SimError> {
        let Some(cache) = &self.write_cache else {
            return Ok(());
        };
        let (segments, segment) = (cache.segments, cache.segment);
        within("write_cache.segments", segments, 1..=4096)?;
        require(
            (self.sector.0..=1 << 30).contains(&segment.0),
            "write_cache.segment",
            segment,
            "at least one sector, at most 1 GiB",
        )?;
        let (low, high) = (cache.low_water, cache.high_water);
        within("write_cache.low_water", low, 0.0..=1.0)?;
        let expected = format!("low_water, {low}, to 1");
        require(
            high >= low && high <= 1.0,
            "write_cache.high_water",
            high,
            expected,
        )
    }

    fn check_zones(&self) -> Result<(), SimError> {
        let zones = self.zones.len();
        within("zones", zones, 1..=1000)?;
        let mut end = 0;
        for (zone, (first, cylinders)) in self.zones.iter().zip(self.zone_spans()) {
            let expected = format!("at least {end}, the end of the zone before");
            require(first >= end, "first", first, expected)?;
            self.check_zone(zone, cylinders)?;
            end = first.saturating_add(cylinders);
        }
        require(
            (2..1 << 31).contains(&end),
            "cylinders",
            end,
            "2 to 2147483647 in sum",
        )?;
        let slips: usize = self
            .zones
            .iter()
            .map(|z| z.slips.len() + z.defects.len())
            .sum();
        require(
            slips <= 1_000_000,
            "slips",
            slips,
            "at most 1000000 of a disk",
        )
    }

    fn check_zone(&self, zone: &Zone, cylinders: u32) -> Result<(), SimError> {
        let sectors = zone.sectors_per_track;
        let both = zone.cylinders != 0 && (zone.first.is_some() || zone.last.is_some());
        require(
            !both,
            "cylinders",
            zone.cylinders,
            "first and last, or cylinders alone",
        )?;
        let expected = "1 to 10000000";
        require(
            (1..=10_000_000).contains(&cylinders),
            "cylinders",
            cylinders,
            expected,
        )?;
        within("sectors_per_track", sectors, 1..=1_000_000)?;
        for (key, value) in [
            ("first_offset", Some(zone.first_offset)),
            ("track_skew", zone.track_skew),
            ("cylinder_skew", zone.cylinder_skew),
        ] {
            let value = value.unwrap_or(0.0);
            let holds = value.is_finite() && value.abs() <= 1e9;
            require(holds, key, value, "-1e9 to 1e9 sectors")?;
        }
        let sorted = zone.slips.windows(2).all(|two| two[0] < two[1]);
        require(sorted, "slips", "a list", "an ascending list")?;
        let data = Layout::new(self.heads, zone, cylinders).sectors();
        let spare = zone.spare.map_or(0, |spare| spare.count);
        let expected = "less than what they are in, with the empty sectors";
        require(data > 0, "spare.count", spare, expected)
    }

    fn check_times(&self) -> Result<(), SimError> {
        let second = Nanos(1_000_000_000);
        let short = [
            ("seek_full", self.seek_full),
            ("write_settle", Nanos(self.write_settle.0.unsigned_abs())),
            ("head_switch", self.head_switch),
            ("track_skew", self.track_skew),
            ("cylinder_skew", self.cylinder_skew),
            ("overhead", self.overhead),
        ];
        for (key, time) in short {
            require(time <= second, key, format!("{} ns", time.0), "0 to 1 s")?;
        }
        if let Some(seek) = &self.seek {
            return check_seek(seek);
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

fn check_seek(seek: &SeekSpec) -> Result<(), SimError> {
    match seek {
        SeekSpec::Table(rows) => {
            let ascending = rows.windows(2).all(|two| two[0].0 < two[1].0);
            let expected = "rows of an ascending distance and its time";
            require(!rows.is_empty() && ascending, "seek", rows.len(), expected)?;
            let longest = rows.iter().map(|row| row.1 .0).max().unwrap_or(0);
            require(longest <= 1_000_000_000, "seek", longest, "times up to 1 s")
        }
        SeekSpec::Curve(curve) => {
            let factors = [curve.root_factor, curve.linear_factor];
            let finite = factors
                .iter()
                .all(|f| f.is_finite() && *f >= 0.0 && *f <= 1e9);
            require(finite, "seek", "a factor", "0 to 1e9 ns")?;
            let bases = [curve.root_base.0, curve.linear_base.0];
            let small = bases.iter().all(|base| base.abs() <= 1_000_000_000);
            require(small, "seek", "a base", "-1 s to 1 s")
        }
    }
}
