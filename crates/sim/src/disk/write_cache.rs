//! The cache for writes: extents that are complete for the host and not yet on the medium.

use super::spec::{Readable, WriteCacheSpec};

/// Sectors [lba, lba + sectors) that wait for the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) lba: u64,
    pub(super) sectors: u64,
    /// From when on the arm may take it.
    pub(super) eligible_ns: u64,
}

impl Extent {
    fn end(&self) -> u64 {
        self.lba + self.sectors
    }

    fn overlaps(&self, lba: u64, sectors: u64) -> bool {
        self.lba < lba + sectors && lba < self.end()
    }
}

/// Dirty extents in the order of arrival.
pub(super) struct WriteCache {
    extents: Vec<Extent>,
    /// The extent that the arm writes, which keeps its place, and when that is done.
    in_flight: Option<(Extent, u64)>,
    most: usize,
    segment_sectors: u64,
    high_sectors: u64,
    low_sectors: u64,
    is_draining: bool,
    pub(super) readable: Readable,
    pub(super) written: u64,
    pub(super) overwritten: u64,
    pub(super) destaged: u64,
}

impl WriteCache {
    pub(super) fn new(spec: &WriteCacheSpec, sector_bytes: u64) -> Self {
        let segment_sectors = spec.segment.0 / sector_bytes;
        let all = (spec.segments as u64 * segment_sectors) as f64;
        WriteCache {
            extents: Vec::new(),
            in_flight: None,
            most: spec.segments,
            segment_sectors,
            high_sectors: ((all * spec.high_water).ceil() as u64).max(1),
            low_sectors: (all * spec.low_water) as u64,
            is_draining: false,
            readable: spec.readable,
            written: 0,
            overwritten: 0,
            destaged: 0,
        }
    }

    /// Whether a write of this length can be in it.
    pub(super) fn fits(&self, sectors: u64) -> bool {
        sectors <= self.segment_sectors
    }

    /// The extents that wait for the arm.
    pub(super) fn waiting(&self) -> &[Extent] {
        &self.extents
    }

    /// Lets go of the extent that is on the medium by `now_ns`, and gives it.
    pub(super) fn settle(&mut self, now_ns: u64) -> Option<Extent> {
        let settled = self.in_flight.take_if(|(_, end_ns)| *end_ns <= now_ns);
        settled.map(|(extent, _)| extent)
    }

    /// When the extent on its way to the medium is there.
    pub(super) fn in_flight_until_ns(&self) -> Option<u64> {
        self.in_flight.map(|(_, end_ns)| end_ns)
    }

    /// Takes the extent at `position` for the arm.
    pub(super) fn start(&mut self, position: usize) -> Extent {
        self.extents.remove(position)
    }

    /// The arm has begun with an extent and ends at `end_ns`.
    pub(super) fn on_its_way(&mut self, extent: Extent, end_ns: u64) {
        self.destaged += extent.sectors;
        self.in_flight = Some((extent, end_ns));
    }

    fn dirty(&self) -> u64 {
        let waiting: u64 = self.extents.iter().map(|extent| extent.sectors).sum();
        waiting + self.in_flight.map_or(0, |(extent, _)| extent.sectors)
    }

    /// Whether destaging goes before everything else now.
    pub(super) fn goes_first(&mut self) -> bool {
        let dirty = self.dirty();
        if dirty >= self.high_sectors {
            self.is_draining = true;
        }
        if dirty <= self.low_sectors || self.extents.is_empty() {
            self.is_draining = false;
        }
        self.is_draining
    }

    /// Whether a read finds these sectors in one extent.
    pub(super) fn holds(&self, lba: u64, sectors: u64) -> bool {
        if self.readable == Readable::Never {
            return false;
        }
        let flying = self.in_flight.iter().map(|(extent, _)| extent);
        let mut all = self.extents.iter().chain(flying);
        all.any(|extent| extent.lba <= lba && lba + sectors <= extent.end())
    }

    /// The position of the first waiting extent that overlaps with these sectors.
    pub(super) fn overlapping(&self, lba: u64, sectors: u64) -> Option<usize> {
        self.extents
            .iter()
            .position(|extent| extent.overlaps(lba, sectors))
    }

    /// Whether a write finds room now: it replaces dirty data, continues the last extent, or there
    /// is a free place.
    pub(super) fn has_room(&self, lba: u64, sectors: u64) -> bool {
        let used = self.extents.len() + usize::from(self.in_flight.is_some());
        let inside = |e: &Extent| e.lba <= lba && lba + sectors <= e.end();
        used < self.most || self.joins(lba, sectors) || self.extents.iter().any(inside)
    }

    fn joins(&self, lba: u64, sectors: u64) -> bool {
        self.extents
            .last()
            .is_some_and(|e| e.end() == lba && e.sectors + sectors <= self.segment_sectors)
    }

    /// Takes a write in, for which there is room.
    pub(super) fn take(&mut self, lba: u64, sectors: u64, eligible_ns: u64) {
        self.written += sectors;
        let end = lba + sectors;
        if let Some(extent) = self.extents.iter().find(|e| e.overlaps(lba, sectors)) {
            if extent.lba <= lba && end <= extent.end() {
                self.overwritten += sectors;
                return;
            }
        }
        self.forget(lba, sectors);
        if self.joins(lba, sectors) {
            if let Some(last) = self.extents.last_mut() {
                last.sectors += sectors;
            }
            return;
        }
        self.extents.push(Extent {
            lba,
            sectors,
            eligible_ns,
        });
    }

    /// Cuts off waiting data that these sectors replace. An extent that holds them in its middle
    /// keeps its front; its rest counts as a separate write.
    pub(super) fn forget(&mut self, lba: u64, sectors: u64) {
        let end = lba + sectors;
        let mut rest = Vec::new();
        for extent in &mut self.extents {
            if !extent.overlaps(lba, sectors) {
                continue;
            }
            let (from, to) = (extent.lba.max(lba), extent.end().min(end));
            self.overwritten += to - from;
            if extent.lba < from && to < extent.end() {
                rest.push(Extent {
                    lba: to,
                    sectors: extent.end() - to,
                    ..*extent
                });
            }
            if extent.lba < from {
                extent.sectors = from - extent.lba;
            } else {
                extent.sectors = extent.end() - to;
                extent.lba = to;
            }
        }
        self.extents.append(&mut rest);
        self.extents.retain(|extent| extent.sectors > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Bytes;

    /// Four extents of 8 sectors.
    fn cache(low_water: f64, readable: Readable) -> WriteCache {
        let spec = WriteCacheSpec {
            segments: 4,
            segment: Bytes(8 * 512),
            destage: Default::default(),
            high_water: 1.0,
            low_water,
            readable,
        };
        WriteCache::new(&spec, 512)
    }

    #[test]
    fn a_write_over_several_extents_cuts_each_of_them() {
        let mut cache = cache(0.5, Readable::Dirty);
        for lba in [0, 100, 12] {
            cache.take(lba, 8, 0);
        }
        cache.forget(4, 12);
        let left: Vec<_> = cache.extents.iter().map(|e| (e.lba, e.sectors)).collect();
        assert_eq!(left, [(0, 4), (100, 8), (16, 4)]);
        assert_eq!(cache.overwritten, 8);
    }

    #[test]
    fn destaging_goes_first_from_the_high_water_down_to_the_low_one() {
        let mut cache = cache(0.5, Readable::Dirty);
        for number in 0..4 {
            assert!(!cache.goes_first());
            cache.take(number * 100, 8, 0);
        }
        // What is on its way is dirty until it is there.
        for (first, dirty) in [(true, 24), (true, 16), (false, 8)] {
            assert_eq!(cache.goes_first(), first, "above {dirty}");
            let extent = cache.start(0);
            cache.on_its_way(extent, 1);
            assert_eq!(cache.settle(1).map(|extent| extent.sectors), Some(8));
            assert_eq!(cache.dirty(), dirty);
        }
    }

    #[test]
    fn a_read_is_a_hit_only_where_one_extent_has_all_of_it() {
        let mut dirty = cache(0.0, Readable::Dirty);
        dirty.take(10, 8, 0);
        dirty.take(100, 8, 0);
        for (lba, sectors, holds) in [(10, 8, true), (12, 4, true), (14, 8, false), (9, 2, false)] {
            assert_eq!(dirty.holds(lba, sectors), holds, "{sectors} at {lba}");
        }
        let mut never = cache(0.0, Readable::Never);
        never.take(10, 8, 0);
        assert!(!never.holds(10, 8));
    }

    #[test]
    fn an_extent_on_its_way_keeps_its_place() {
        let mut cache = cache(0.0, Readable::Dirty);
        (0..4).for_each(|number| cache.take(number * 100, 8, 0));
        let extent = cache.start(0);
        cache.on_its_way(extent, 5);
        assert!(!cache.has_room(1000, 1));
        assert!(cache.has_room(302, 4), "it replaces dirty data");
        cache.settle(5);
        assert!(cache.has_room(1000, 1));
    }
}
