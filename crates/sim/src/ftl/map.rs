//! A mapping of which only some entries are in memory, least recently used leave first (Gupta, Kim
//! and Urgaonkar, "DFTL", ASPLOS 2009). The others are in translation pages in the flash.
//!
//! An entry that collection changes is written with the next write of its translation page (their
//! "lazy copying"); a trim changes entries without a look-up.

use super::{Ftl, GcWork, Into};
use crate::device::{Buffer, DeviceSpec, Evicted, Touch, CLEAN};

/// What the cached mapping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct MapUsage {
    /// Look-ups of a page's entry.
    pub map_lookups: u64,
    /// Those that did not find it: translation pages read.
    pub map_misses: u64,
    /// Translation pages written because a changed entry had to leave.
    pub map_writes: u64,
    /// Translation pages that collection moved.
    pub map_moved_pages: u64,
}

impl MapUsage {
    pub(super) fn subtract(&mut self, before: &MapUsage) {
        self.map_lookups -= before.map_lookups;
        self.map_misses -= before.map_misses;
        self.map_writes -= before.map_writes;
        self.map_moved_pages -= before.map_moved_pages;
    }
}

/// The entries in memory and which of all are newer than their translation page.
pub(super) struct MapCache {
    entries: Buffer,
    /// A bit for each entry.
    changed: Vec<u64>,
    per_page: u32,
    /// Logical number of the first translation page.
    first_page: u32,
    /// Whether each block holds translation pages.
    own: Vec<bool>,
    pub(super) usage: MapUsage,
}

/// What a look-up asks of the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUp {
    /// The translation page to read, as a logical page.
    pub read: Option<u32>,
    /// The translation page to write before, as a logical page.
    pub write: Option<u32>,
}

/// Translation pages of a device; none where all entries are in memory.
pub(super) fn translation_pages(spec: &DeviceSpec, logical: u64) -> u64 {
    match &spec.map {
        Some(map) if map.cache.0 / u64::from(map.entry) < logical => {
            logical.div_ceil(u64::from(map.per_page))
        }
        _ => 0,
    }
}

impl MapCache {
    /// A cache that holds the first entries; nothing where it holds all.
    pub(super) fn new(spec: &DeviceSpec, logical: u32) -> Option<Self> {
        if translation_pages(spec, u64::from(logical)) == 0 {
            return None;
        }
        let map = spec.map?;
        let capacity = (map.cache.0 / u64::from(map.entry)) as u32;
        let mut entries = Buffer::new(capacity, logical);
        entries.touch_run(0, capacity, CLEAN, |_| {});
        let blocks = spec.flash.planes() * spec.flash.blocks_per_plane;
        Some(MapCache {
            entries,
            changed: vec![0; logical.div_ceil(64) as usize],
            per_page: map.per_page,
            first_page: logical,
            own: vec![false; blocks as usize],
            usage: MapUsage::default(),
        })
    }

    /// How many translation pages there are.
    pub(super) fn pages(&self) -> u32 {
        self.first_page.div_ceil(self.per_page)
    }

    pub(super) fn is_own(&self, block: u32) -> bool {
        self.own[block as usize]
    }

    pub(super) fn own(&mut self, block: u32, is_own: bool) {
        self.own[block as usize] = is_own;
    }

    /// Collection moved a page.
    pub(super) fn moved(&mut self, page: u32) {
        if page < self.first_page {
            self.change(page);
        }
    }

    fn change(&mut self, page: u32) {
        self.changed[page as usize / 64] |= 1 << (page % 64);
    }

    fn look_up(&mut self, page: u32, is_write: bool) -> LookUp {
        self.usage.map_lookups += 1;
        self.entries.forget_changes();
        let touch = self.entries.touch(page, CLEAN);
        let mut look_up = LookUp::default();
        if let Touch::Miss(left) = touch {
            self.usage.map_misses += 1;
            look_up.read = Some(self.first_page + page / self.per_page);
            look_up.write = left.and_then(|Evicted { page, .. }| self.write_back(page));
        }
        if is_write {
            self.change(page);
        }
        look_up
    }

    /// The translation page that an entry that leaves has to be written with, and with it all of
    /// its changed entries.
    fn write_back(&mut self, left: u32) -> Option<u32> {
        if self.changed[left as usize / 64] & 1 << (left % 64) == 0 {
            return None;
        }
        let number = left / self.per_page;
        let first = number * self.per_page;
        for page in first..first.saturating_add(self.per_page).min(self.first_page) {
            self.changed[page as usize / 64] &= !(1 << (page % 64));
        }
        self.usage.map_writes += 1;
        Some(self.first_page + number)
    }
}

impl Ftl {
    /// Whether entries can be missing.
    #[inline]
    pub fn has_map(&self) -> bool {
        self.map.is_some()
    }

    /// Looks a page's entry up to read it, or to change it.
    pub fn look_up(&mut self, page: u32, is_write: bool) -> LookUp {
        match &mut self.map {
            Some(map) => map.look_up(page, is_write),
            None => LookUp::default(),
        }
    }

    /// Writes a translation page; gives its plane and what must be collected there first.
    pub fn write_map(&mut self, page: u32) -> (u32, GcWork) {
        let plane = self.allocation.fixed(page);
        if self.planes[plane as usize].is_unfilled {
            self.fill_plane(plane);
        }
        self.invalidate(page);
        self.append(page, plane, Into::Map);
        (plane, self.collect(plane))
    }

    /// Puts every translation page where it belongs, before the first request.
    pub(super) fn fill_map(&mut self) {
        for page in self.logical..self.l2p.len() as u32 {
            self.append(page, self.allocation.fixed(page), Into::Map);
        }
        if let Some(map) = &mut self.map {
            map.changed.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use schedlab_model::Bytes;
    use std::collections::BTreeMap;

    /// Two entries in memory, four to a translation page: pages 0 and 1 are there at first.
    #[test]
    fn look_ups_by_hand() {
        let mut spec = DeviceSpec::read("ncq2014", &BTreeMap::new()).unwrap();
        spec.map = Some(crate::device::MapSpec {
            cache: Bytes(16),
            entry: 8,
            per_page: 4,
        });
        let mut map = MapCache::new(&spec, 100).unwrap();
        assert_eq!(map.pages(), 25);
        assert_eq!(map.look_up(1, true), LookUp::default());
        // Page 0 leaves unchanged.
        let read = |page| LookUp {
            read: Some(page),
            write: None,
        };
        assert_eq!(map.look_up(9, false), read(102));
        map.moved(2);
        // Page 1 leaves changed, and takes page 2 along, which was moved.
        let both = LookUp {
            read: Some(101),
            write: Some(100),
        };
        assert_eq!(map.look_up(5, true), both);
        assert_eq!(map.changed[0], 1 << 5);
        let usage = MapUsage {
            map_lookups: 3,
            map_misses: 2,
            map_writes: 1,
            map_moved_pages: 0,
        };
        assert_eq!(map.usage, usage);
    }
}
