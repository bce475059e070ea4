//! The page-mapped translation layer: where each logical page is in the flash, and what
//! becomes of the places it left.
//!
//! Two flat tables, eight bytes a page together, hold the mapping and its inverse. Each plane has
//! a block that the host's writes fill and one that takes what garbage collection moves.

mod allocation;
mod audit;
mod blocks;
mod collect;
mod precondition;

use allocation::Allocation;
use blocks::Blocks;
use collect::Buckets;
use precondition::Formula;
use prefetch_index::prefetch_index;

use crate::divisor::Divisor;
use crate::error::{require, within};
use crate::spec::{DeviceSpec, Precondition};
use crate::SimError;

/// Slots in a line of the processor's cache.
const SLOTS_PER_LINE: usize = 16;

/// No block.
const NONE: u32 = u32::MAX;

/// Work of the flash beyond single pages.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct FtlUsage {
    /// Pages that the host's writes programmed.
    pub host_programs: u64,
    /// Pages that garbage collection moved.
    pub gc_moved_pages: u64,
    /// Victim blocks of garbage collection.
    pub gc_collections: u64,
    /// (host_programs + gc_moved_pages) / host_programs; 1 before the first write.
    pub write_amplification: f64,
    /// Pages read from the flash for the host.
    pub flash_reads: u64,
    /// Pages discarded by TRIM that held data.
    pub trimmed_pages: u64,
    /// Fewest erasures of any block, since the device was new.
    pub wear_min: u32,
    /// Mean erasures of a block.
    pub wear_mean: f64,
    /// Most erasures of any block.
    pub wear_max: u32,
}

impl FtlUsage {
    /// Keeps the events since `before` was counted; wear is that of the device since it was new.
    pub fn subtract(&mut self, before: &FtlUsage) {
        self.host_programs -= before.host_programs;
        self.gc_moved_pages -= before.gc_moved_pages;
        self.gc_collections -= before.gc_collections;
        self.flash_reads -= before.flash_reads;
        self.trimmed_pages -= before.trimmed_pages;
        self.write_amplification = amplification(self.host_programs, self.gc_moved_pages);
    }
}

fn amplification(host_programs: u64, moved: u64) -> f64 {
    match host_programs {
        0 => 1.0,
        _ => (host_programs + moved) as f64 / host_programs as f64,
    }
}

/// A block that collection has emptied in the tables, for the flash to do page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Pages to move.
    pub moves: u32,
    /// Whether the moves need a free block.
    pub opens: bool,
}

/// A block that is being filled.
#[derive(Clone, Copy)]
struct Frontier {
    block: u32,
    next: u32,
}

/// Frontiers of a plane: what the host's writes fill, and what collection fills.
const FRONTIERS: u32 = 2;

struct Plane {
    /// Blocks from here on were never used.
    fresh: u32,
    /// Erased blocks.
    erased: Vec<u32>,
    valid_pages: u32,
    /// Its pages are where preconditioning puts them, which is done on its first write.
    is_unfilled: bool,
}

/// The translation layer of one device.
pub struct Ftl {
    /// Physical page + 1 by the slot of a logical page; 0: never written. Zeroed lazily by the
    /// system. The pages of a plane are neighbours, so that collection stays in a small part.
    l2p: Vec<u32>,
    /// Slot of each physical page that is valid. What is no longer valid stays until the page is
    /// programmed again, so that blocks are only written and read in order.
    p2l: Vec<u32>,
    blocks: Blocks,
    wear: Vec<u32>,
    planes: Vec<Plane>,
    /// Of each plane that of the host's writes and that of moved pages.
    frontiers: Vec<Frontier>,
    buckets: Buckets,
    allocation: Allocation,
    pages_per_block: u32,
    blocks_per_plane: u32,
    block_of: Divisor,
    plane_of_block: Divisor,
    low: u32,
    high: u32,
    /// Slots of the pages that leave a block.
    moving: Vec<u32>,
    /// The blocks that the last write had to collect.
    victims: Vec<Victim>,
    begins_erased: bool,
    usage: FtlUsage,
    pending: Option<Formula>,
}

impl Ftl {
    /// The layer of a checked device, with the device's preconditioning.
    pub fn new(spec: &DeviceSpec, seed: u64) -> Result<Self, SimError> {
        let flash = &spec.flash;
        let logical = logical_pages(spec)?;
        let (low, high) = spec.free_blocks();
        let blocks = flash.planes() * flash.blocks_per_plane;
        let empty = Frontier {
            block: NONE,
            next: flash.pages_per_block,
        };
        let plane = || Plane {
            fresh: 0,
            erased: Vec::new(),
            valid_pages: 0,
            is_unfilled: false,
        };
        let mut ftl = Ftl {
            l2p: vec![0; logical as usize],
            p2l: vec![0; flash.pages() as usize],
            blocks: Blocks::new(flash),
            wear: vec![0; blocks as usize],
            planes: (0..flash.planes()).map(|_| plane()).collect(),
            frontiers: vec![empty; (flash.planes() * FRONTIERS) as usize],
            buckets: Buckets::new(spec.ftl.collect, flash),
            allocation: Allocation::new(spec, logical)?,
            pages_per_block: flash.pages_per_block,
            blocks_per_plane: flash.blocks_per_plane,
            block_of: Divisor::new(flash.pages_per_block),
            plane_of_block: Divisor::new(flash.blocks_per_plane),
            low,
            high,
            moving: Vec::with_capacity(flash.pages_per_block as usize),
            victims: Vec::new(),
            begins_erased: spec.ftl.precondition == Precondition::None,
            usage: FtlUsage::default(),
            pending: None,
        };
        schedlab_memory::prefer_huge_pages(&ftl.l2p);
        schedlab_memory::prefer_huge_pages(&ftl.p2l);
        match spec.ftl.precondition {
            Precondition::None => {}
            Precondition::Formula => ftl.fill_by_formula(seed),
            Precondition::Write => ftl.fill_by_writing(seed),
        }
        ftl.usage = FtlUsage::default();
        Ok(ftl)
    }

    /// Pages that the host can address.
    pub fn logical_pages(&self) -> u32 {
        self.l2p.len() as u32
    }

    /// Where the entry of a logical page is.
    #[inline]
    fn slot(&self, page: u32) -> usize {
        self.allocation.slot(page) as usize
    }

    /// Fetches where a page of the device is ahead of its use: large tables are not in the cache.
    #[inline]
    pub fn prefetch_place(&self, page: u32) {
        prefetch_index(&self.l2p, self.slot(page));
    }

    /// Fetches all that writing these pages of the device will look at; the list is used up.
    pub fn prefetch_all(&self, pages: &mut [u32]) {
        for page in &mut *pages {
            let physical = self.l2p[self.slot(*page)].saturating_sub(1);
            *page = self.block_of.quotient(physical);
            self.blocks.prefetch(*page);
        }
        for block in pages {
            let plane = self.plane_of_block.quotient(*block);
            self.buckets
                .prefetch_neighbours(&self.blocks, *block, plane);
        }
    }

    /// The plane that holds a logical page, or would serve it.
    #[inline]
    pub fn plane_of(&self, page: u32) -> u32 {
        match self.l2p[self.slot(page)] {
            0 => self.allocation.fixed(page),
            physical => self
                .plane_of_block
                .quotient(self.block_of.quotient(physical - 1)),
        }
    }

    /// The plane that a new version of a page goes to; `busy_until_ns` of each plane matters to
    /// dynamic allocation only.
    #[inline]
    pub fn plane_for(&mut self, page: u32, busy_until_ns: &[u64]) -> u32 {
        if !self.allocation.is_dynamic() {
            return self.allocation.fixed(page);
        }
        let room = self.data_blocks_per_plane() * self.pages_per_block;
        let planes = &self.planes;
        self.allocation
            .least_busy(busy_until_ns, |plane| planes[plane].valid_pages < room)
    }

    /// Whether it began with erased flash, is written to, and collected no block yet.
    #[inline]
    pub fn is_erased(&self) -> bool {
        self.begins_erased && self.usage.host_programs > 0 && self.usage.gc_collections == 0
    }

    /// Counts a page read from the flash.
    #[inline]
    pub fn count_read(&mut self) {
        self.usage.flash_reads += 1;
    }

    /// Writes a logical page into `plane` and gives the blocks that must be collected there first.
    #[inline]
    pub fn write(&mut self, page: u32, plane: u32) -> &[Victim] {
        if self.planes[plane as usize].is_unfilled {
            self.fill_plane(plane);
        }
        self.invalidate(page);
        self.append(page, plane);
        self.usage.host_programs += 1;
        self.collect(plane)
    }

    /// Discards a logical page; whether it held data.
    pub fn trim(&mut self, page: u32) -> bool {
        let own = self.allocation.fixed(page);
        if self.planes[own as usize].is_unfilled {
            self.fill_plane(own);
        }
        let slot = self.slot(page);
        let held = self.l2p[slot] != 0;
        self.invalidate(page);
        self.l2p[slot] = 0;
        self.usage.trimmed_pages += u64::from(held);
        held
    }

    /// Frees blocks of a plane if it has too few.
    #[inline]
    fn collect(&mut self, plane: u32) -> &[Victim] {
        self.victims.clear();
        if self.free_blocks(plane) >= self.low {
            return &self.victims;
        }
        // A wrong count of free blocks would loop for ever: one pass over the blocks frees at
        // least one page, unless none is left to free.
        let victims_max = self
            .blocks_per_plane
            .saturating_mul(self.pages_per_block + 1);
        while self.free_blocks(plane) < self.high {
            let Some(victim) = self.buckets.victim(&mut self.blocks, plane) else {
                break;
            };
            if let Some(next) = self.buckets.likely_victim(plane) {
                self.prefetch_slots(next);
            }
            let free_blocks = self.free_blocks(plane);
            let moves = self.evacuate(victim, plane);
            let opens = self.free_blocks(plane) == free_blocks;
            self.victims.push(Victim { moves, opens });
            self.usage.gc_moved_pages += u64::from(moves);
            assert!(
                self.victims.len() <= victims_max as usize,
                "collection in plane {plane} frees nothing"
            );
        }
        self.usage.gc_collections += self.victims.len() as u64;
        &self.victims
    }

    /// Fetches the slots of a block's pages.
    #[inline]
    fn prefetch_slots(&self, block: u32) {
        let first = (block * self.pages_per_block) as usize;
        for page in (0..self.pages_per_block as usize).step_by(SLOTS_PER_LINE) {
            prefetch_index(&self.p2l, first + page);
        }
    }

    /// Moves the valid pages of a block elsewhere in its plane and erases it.
    fn evacuate(&mut self, victim: u32, plane: u32) -> u32 {
        let first = (victim * self.pages_per_block) as usize;
        let at = plane * FRONTIERS + 1;
        let mut moving = std::mem::take(&mut self.moving);
        moving.clear();
        let slots = &self.p2l[first..first + self.pages_per_block as usize];
        self.blocks.empty(victim, |page| {
            let slot = slots[page as usize];
            // All entries are fetched before the first is changed.
            prefetch_index(&self.l2p, slot as usize);
            moving.push(slot);
        });
        let mut left = &moving[..];
        while !left.is_empty() {
            let mut frontier = self.open(self.frontiers[at as usize], plane);
            let room = (self.pages_per_block - frontier.next) as usize;
            let (slots, rest) = left.split_at(room.min(left.len()));
            let to = frontier.block * self.pages_per_block + frontier.next;
            self.p2l[to as usize..][..slots.len()].copy_from_slice(slots);
            for (physical, slot) in (to..).zip(slots) {
                self.l2p[*slot as usize] = physical + 1;
            }
            self.blocks
                .put(frontier.block, frontier.next, slots.len() as u32);
            frontier.next += slots.len() as u32;
            self.frontiers[at as usize] = frontier;
            left = rest;
        }
        self.wear[victim as usize] += 1;
        self.planes[plane as usize].erased.push(victim);
        let moved = moving.len() as u32;
        self.moving = moving;
        moved
    }

    /// Blocks of a plane without data.
    #[inline]
    pub fn free_blocks(&self, plane: u32) -> u32 {
        let plane = &self.planes[plane as usize];
        self.blocks_per_plane - plane.fresh + plane.erased.len() as u32
    }

    /// A frontier with room: the one given, or a free block once it is full.
    #[inline]
    fn open(&mut self, frontier: Frontier, plane: u32) -> Frontier {
        if frontier.next < self.pages_per_block {
            return frontier;
        }
        if frontier.block != NONE {
            self.buckets.add(&mut self.blocks, frontier.block, plane);
        }
        let first_block = plane * self.blocks_per_plane;
        let block = self.planes[plane as usize].take_free(first_block);
        debug_assert!(
            block < first_block + self.blocks_per_plane,
            "plane {plane} is full"
        );
        Frontier { block, next: 0 }
    }

    /// Puts a page of the host at the end of its frontier of the plane.
    #[inline]
    fn append(&mut self, page: u32, plane: u32) {
        let at = (plane * FRONTIERS) as usize;
        let mut frontier = self.open(self.frontiers[at], plane);
        let physical = frontier.block * self.pages_per_block + frontier.next;
        self.blocks.put(frontier.block, frontier.next, 1);
        frontier.next += 1;
        self.frontiers[at] = frontier;
        self.planes[plane as usize].valid_pages += 1;
        let slot = self.slot(page);
        self.l2p[slot] = physical + 1;
        self.p2l[physical as usize] = slot as u32;
    }

    #[inline]
    fn invalidate(&mut self, page: u32) {
        let slot = self.slot(page);
        let mut physical = self.l2p[slot];
        if physical == 0 {
            let own = self.allocation.fixed(page);
            if !self.planes[own as usize].is_unfilled {
                return;
            }
            self.fill_plane(own);
            physical = self.l2p[slot];
        }
        let physical = physical - 1;
        let block = self.block_of.quotient(physical);
        let plane = self.plane_of_block.quotient(block);
        self.planes[plane as usize].valid_pages -= 1;
        let page = physical - block * self.pages_per_block;
        let valid = self.blocks.take(block, page);
        self.buckets
            .lost_a_page(&mut self.blocks, block, plane, valid);
    }

    /// The events since preconditioning.
    pub fn usage(&self) -> FtlUsage {
        let mut usage = self.usage.clone();
        usage.write_amplification = amplification(usage.host_programs, usage.gc_moved_pages);
        usage.wear_min = self.wear.iter().copied().min().unwrap_or(0);
        usage.wear_max = self.wear.iter().copied().max().unwrap_or(0);
        let erasures: u64 = self.wear.iter().map(|wear| u64::from(*wear)).sum();
        usage.wear_mean = erasures as f64 / self.wear.len() as f64;
        usage
    }

    /// Blocks of a plane that data can fill: the others stay free or are frontiers.
    fn data_blocks_per_plane(&self) -> u32 {
        self.blocks_per_plane - self.high - FRONTIERS
    }
}

impl Plane {
    /// An erased or fresh block. Collection begins while there are at least two, and takes at
    /// most one before it gives one back.
    fn take_free(&mut self, first_block: u32) -> u32 {
        self.erased.pop().unwrap_or_else(|| {
            self.fresh += 1;
            first_block + self.fresh - 1
        })
    }
}

/// Pages that the host sees, or why the flash does not suffice for them.
pub(crate) fn logical_pages(spec: &DeviceSpec) -> Result<u32, SimError> {
    let (flash, ftl) = (&spec.flash, &spec.ftl);
    let share = ftl.over_provisioning.0;
    let key = "ftl.over_provisioning";
    let fits = share > 0.0 && share <= 16.0;
    require(fits, key, share, "above 0, at most 16")?;
    let (low, high) = spec.free_blocks();
    within("ftl.free_blocks_low", low, 2..=1 << 20)?;
    let expected = format!("at least free_blocks_low, {low}");
    require(high >= low, "ftl.free_blocks_high", high, expected)?;
    within("ftl.in_flight", ftl.in_flight, 1..=65_536)?;
    let planes = u64::from(flash.planes());
    let logical = (flash.pages() as f64 / (1.0 + share)) as u64 / planes * planes;
    let reserved = u64::from(high) + u64::from(FRONTIERS);
    let blocks = u64::from(flash.blocks_per_plane);
    let expected = format!("more than free_blocks_high + {FRONTIERS}, {reserved}");
    require(
        blocks > reserved,
        "flash.blocks_per_plane",
        blocks,
        expected,
    )?;
    let room = (blocks - reserved) * u64::from(flash.pages_per_block);
    if logical / planes > room || logical == 0 {
        let least = flash.pages() as f64 / (room * planes) as f64 - 1.0;
        let expected = format!("at least {least:.4}: {reserved} blocks a plane are kept free");
        return Err(SimError::range(key, share, expected));
    }
    Ok(logical as u32)
}
