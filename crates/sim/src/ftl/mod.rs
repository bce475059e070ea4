//! The page-mapped translation layer: where each logical page lies in the flash, and what
//! becomes of the places it left.
//!
//! Two flat tables, eight bytes a page together, hold the mapping and its inverse. Each plane has
//! one block that takes the host's writes and one that takes what garbage collection moves.

mod allocation;
mod collect;
mod precondition;

use std::hint::black_box;

use allocation::Allocation;
use collect::Buckets;
use precondition::Formula;

use crate::device::{DeviceSpec, Precondition};
use crate::divisor::Divisor;
use crate::SimError;

/// No block.
const NONE: u32 = u32::MAX;

/// What the flash did beyond single pages.
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
    /// What happened since `before` was counted; wear is that of the device since it was new.
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

/// What garbage collection has to do in a plane before it can go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcWork {
    /// Pages read and programmed again.
    pub moved: u32,
    /// Blocks erased.
    pub erased: u32,
}

/// A block that is being filled.
#[derive(Clone, Copy)]
struct Frontier {
    block: u32,
    next: u32,
}

struct Plane {
    host: Frontier,
    moved: Frontier,
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
    /// Physical page + 1 of each logical page; 0: never written. Zeroed lazily by the system.
    l2p: Vec<u32>,
    /// Logical page + 1 of each physical page; 0: free or no longer valid.
    p2l: Vec<u32>,
    valid: Vec<u32>,
    wear: Vec<u32>,
    planes: Vec<Plane>,
    buckets: Buckets,
    allocation: Allocation,
    pages_per_block: u32,
    blocks_per_plane: u32,
    block_of: Divisor,
    plane_of_block: Divisor,
    low: u32,
    high: u32,
    usage: FtlUsage,
    pending: Option<Formula>,
}

impl Ftl {
    /// The layer of a checked device, preconditioned as it says.
    pub fn new(spec: &DeviceSpec, seed: u64) -> Result<Self, SimError> {
        let flash = &spec.flash;
        let logical = logical_pages(spec)?;
        let blocks = flash.planes() * flash.blocks_per_plane;
        let empty = Frontier {
            block: NONE,
            next: flash.pages_per_block,
        };
        let plane = || Plane {
            host: empty,
            moved: empty,
            fresh: 0,
            erased: Vec::new(),
            valid_pages: 0,
            is_unfilled: false,
        };
        let mut ftl = Ftl {
            l2p: vec![0; logical as usize],
            p2l: vec![0; flash.pages() as usize],
            valid: vec![0; blocks as usize],
            wear: vec![0; blocks as usize],
            planes: (0..flash.planes()).map(|_| plane()).collect(),
            buckets: Buckets::new(spec.ftl.collect, flash),
            allocation: Allocation::new(spec)?,
            pages_per_block: flash.pages_per_block,
            blocks_per_plane: flash.blocks_per_plane,
            block_of: Divisor::new(flash.pages_per_block),
            plane_of_block: Divisor::new(flash.blocks_per_plane),
            low: spec.ftl.free_blocks_low,
            high: spec.ftl.free_blocks_high,
            usage: FtlUsage::default(),
            pending: None,
        };
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

    /// Fetches a page's entries ahead of their use: large tables are not in the cache.
    #[inline]
    pub fn expect(&self, page: u64) {
        let physical = self.l2p.get(page as usize).copied().unwrap_or(0);
        let physical = physical.saturating_sub(1);
        black_box(self.p2l[physical as usize]);
        black_box(self.valid[self.block_of.quotient(physical) as usize]);
    }

    /// The plane that holds a logical page, or would be asked for it.
    #[inline]
    pub fn plane_of(&self, page: u32) -> u32 {
        match self.l2p[page as usize] {
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
        let room = (self.blocks_per_plane - self.high - 2) * self.pages_per_block;
        let planes = &self.planes;
        self.allocation
            .least_busy(busy_until_ns, |plane| planes[plane].valid_pages < room)
    }

    /// Counts a page read from the flash.
    #[inline]
    pub fn count_read(&mut self) {
        self.usage.flash_reads += 1;
    }

    /// Writes a logical page into `plane` and gives what must be collected there first.
    #[inline]
    pub fn write(&mut self, page: u32, plane: u32) -> GcWork {
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
        let held = self.l2p[page as usize] != 0;
        self.invalidate(page);
        self.l2p[page as usize] = 0;
        self.usage.trimmed_pages += u64::from(held);
        held
    }

    /// Frees blocks of a plane if it has too few.
    #[inline]
    fn collect(&mut self, plane: u32) -> GcWork {
        let mut work = GcWork::default();
        if self.free_blocks(plane) >= self.low {
            return work;
        }
        while self.free_blocks(plane) < self.high {
            let Some(victim) = self.buckets.victim(plane, &self.valid) else {
                break;
            };
            work.moved += self.evacuate(victim, plane);
            work.erased += 1;
        }
        self.usage.gc_collections += u64::from(work.erased);
        self.usage.gc_moved_pages += u64::from(work.moved);
        work
    }

    /// Moves the valid pages of a block elsewhere in its plane and erases it.
    fn evacuate(&mut self, victim: u32, plane: u32) -> u32 {
        let first = victim * self.pages_per_block;
        let moved = self.valid[victim as usize];
        let mut left = moved;
        let mut from = first;
        while left > 0 {
            let mut frontier = self.open(self.planes[plane as usize].moved, plane);
            let before = frontier.next;
            while left > 0 && frontier.next < self.pages_per_block {
                let logical = std::mem::take(&mut self.p2l[from as usize]);
                from += 1;
                if logical != 0 {
                    let physical = frontier.block * self.pages_per_block + frontier.next;
                    frontier.next += 1;
                    self.l2p[logical as usize - 1] = physical + 1;
                    self.p2l[physical as usize] = logical;
                    left -= 1;
                }
            }
            self.valid[frontier.block as usize] += frontier.next - before;
            self.planes[plane as usize].moved = frontier;
        }
        self.valid[victim as usize] = 0;
        self.wear[victim as usize] += 1;
        self.planes[plane as usize].erased.push(victim);
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
            let valid = self.valid[frontier.block as usize];
            self.buckets.add(frontier.block, plane, valid);
        }
        let first_block = plane * self.blocks_per_plane;
        Frontier {
            block: self.planes[plane as usize].take_free(first_block),
            next: 0,
        }
    }

    /// Puts a page of the host at the end of the plane's frontier.
    #[inline]
    fn append(&mut self, page: u32, plane: u32) {
        let mut frontier = self.open(self.planes[plane as usize].host, plane);
        let physical = frontier.block * self.pages_per_block + frontier.next;
        frontier.next += 1;
        let at = &mut self.planes[plane as usize];
        at.host = frontier;
        at.valid_pages += 1;
        self.valid[frontier.block as usize] += 1;
        self.l2p[page as usize] = physical + 1;
        self.p2l[physical as usize] = page + 1;
    }

    #[inline]
    fn invalidate(&mut self, page: u32) {
        let mut physical = self.l2p[page as usize];
        if physical == 0 {
            let own = self.allocation.fixed(page);
            if !self.planes[own as usize].is_unfilled {
                return;
            }
            self.fill_plane(own);
            physical = self.l2p[page as usize];
        }
        let physical = physical - 1;
        self.p2l[physical as usize] = 0;
        let block = self.block_of.quotient(physical);
        let plane = self.plane_of_block.quotient(block);
        self.planes[plane as usize].valid_pages -= 1;
        let valid = &mut self.valid[block as usize];
        *valid -= 1;
        self.buckets.lost_a_page(block, plane, *valid);
    }

    /// What happened since preconditioning.
    pub fn usage(&self) -> FtlUsage {
        let mut usage = self.usage.clone();
        usage.write_amplification = amplification(usage.host_programs, usage.gc_moved_pages);
        usage.wear_min = self.wear.iter().copied().min().unwrap_or(0);
        usage.wear_max = self.wear.iter().copied().max().unwrap_or(0);
        let erasures: u64 = self.wear.iter().map(|wear| u64::from(*wear)).sum();
        usage.wear_mean = erasures as f64 / self.wear.len() as f64;
        usage
    }

    /// Checks every invariant of the tables; for tests. Gives the number of valid pages.
    pub fn audit(&self) -> Result<u64, String> {
        let mut mapped = 0;
        for (page, physical) in self.l2p.iter().enumerate() {
            if *physical != 0 {
                mapped += 1;
                let back = self.p2l[*physical as usize - 1];
                if back as usize != page + 1 {
                    return Err(format!("page {page} lies at {physical}, which says {back}"));
                }
            }
        }
        let held = self.p2l.iter().filter(|page| **page != 0).count() as u64;
        let by_block: u64 = self.valid.iter().map(|valid| u64::from(*valid)).sum();
        let by_plane: u64 = self
            .planes
            .iter()
            .map(|plane| u64::from(plane.valid_pages))
            .sum();
        // Planes that were not written to yet hold their share without tables.
        let unfilled = self.planes.iter().filter(|plane| plane.is_unfilled);
        let pending: u64 = unfilled.map(|plane| u64::from(plane.valid_pages)).sum();
        if held != mapped || by_block != mapped || by_plane != mapped + pending {
            return Err(format!(
                "{mapped} mapped, {held} held, {by_block} by block, {by_plane} by plane"
            ));
        }
        Ok(mapped + pending)
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
    if !(share > 0.0 && share <= 16.0) {
        return Err(SimError::range(
            "ftl.over_provisioning",
            share,
            "above 0, at most 16",
        ));
    }
    if !(2..=1 << 20).contains(&ftl.free_blocks_low) {
        return Err(SimError::range(
            "ftl.free_blocks_low",
            ftl.free_blocks_low,
            "2 to 1048576",
        ));
    }
    if ftl.free_blocks_high < ftl.free_blocks_low {
        let expected = format!("at least free_blocks_low, {}", ftl.free_blocks_low);
        return Err(SimError::range(
            "ftl.free_blocks_high",
            ftl.free_blocks_high,
            expected,
        ));
    }
    if ftl.in_flight == 0 || ftl.in_flight > 65_536 {
        return Err(SimError::range(
            "ftl.in_flight",
            ftl.in_flight,
            "1 to 65536",
        ));
    }
    let reserved = u64::from(ftl.free_blocks_high) + 2;
    if u64::from(flash.blocks_per_plane) <= reserved {
        let expected = format!("more than free_blocks_high + 2, {reserved}");
        return Err(SimError::range(
            "flash.blocks_per_plane",
            flash.blocks_per_plane,
            expected,
        ));
    }
    let planes = u64::from(flash.planes());
    let logical = (flash.pages() as f64 / (1.0 + share)) as u64 / planes * planes;
    let room = (u64::from(flash.blocks_per_plane) - reserved) * u64::from(flash.pages_per_block);
    if logical / planes > room || logical == 0 {
        let least = flash.pages() as f64 / (room * planes) as f64 - 1.0;
        let expected = format!("at least {least:.4}: {reserved} blocks a plane are kept free");
        return Err(SimError::range("ftl.over_provisioning", share, expected));
    }
    Ok(logical as u32)
}
