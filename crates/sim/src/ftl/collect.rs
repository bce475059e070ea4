//! Choosing the victim block of garbage collection: greedy, first in first out, or by cost and
//! benefit.

use std::collections::VecDeque;

use super::blocks::{Blocks, Neighbours};
use crate::spec::{Collect, FlashSpec};

/// The full blocks of every plane, ready for the choice.
pub(super) enum Buckets {
    /// Blocks by valid pages: linked lists, so that losing a page and choosing cost O(1).
    Greedy(Lists),
    /// Blocks in the order in which they were filled.
    Fifo(Vec<VecDeque<u32>>),
    /// Full blocks with the number of the filling, and a count of fillings as the clock.
    CostBenefit {
        full: Vec<Vec<(u32, u64)>>,
        clock: u64,
        pages_per_block: u32,
    },
}

impl Buckets {
    pub(super) fn new(collect: Collect, flash: &FlashSpec) -> Self {
        let planes = flash.planes() as usize;
        match collect {
            Collect::Greedy => Buckets::Greedy(Lists::new(flash)),
            Collect::Fifo => Buckets::Fifo(vec![VecDeque::new(); planes]),
            Collect::CostBenefit => Buckets::CostBenefit {
                full: vec![Vec::new(); planes],
                clock: 0,
                pages_per_block: flash.pages_per_block,
            },
        }
    }

    /// A block was filled.
    pub(super) fn add(&mut self, blocks: &mut Blocks, block: u32, plane: u32) {
        match self {
            Buckets::Greedy(lists) => lists.link(blocks, block, plane, blocks.valid(block)),
            Buckets::Fifo(queues) => queues[plane as usize].push_back(block),
            Buckets::CostBenefit { full, clock, .. } => {
                *clock += 1;
                full[plane as usize].push((block, *clock));
            }
        }
    }

    /// A block, full or not, has one valid page less: now `valid`.
    #[inline]
    pub(super) fn lost_a_page(&mut self, blocks: &mut Blocks, block: u32, plane: u32, valid: u32) {
        if let Buckets::Greedy(lists) = self {
            if let Some(neighbours) = blocks.neighbours(block) {
                lists.unlink(blocks, neighbours, plane, valid + 1);
                lists.link(blocks, block, plane, valid);
            }
        }
    }

    /// Fetches what losing a page of a block will look at beside it, once the block was fetched.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, blocks: &Blocks, block: u32, plane: u32) {
        if let (Buckets::Greedy(lists), Some(neighbours)) = (self, blocks.neighbours(block)) {
            let first = lists.first_block(plane);
            // It goes before the newest block of the list with a page less.
            let less = blocks.valid(block).saturating_sub(1);
            let newest = lists.heads[(plane * lists.width + less) as usize];
            let prefetch = |number: u32| blocks.prefetch(first + number);
            neighbours.newer.map(prefetch);
            neighbours.older.map(prefetch);
            newest.map(prefetch);
        }
    }

    /// The block that [`Buckets::victim`] would take, where it is cheap to know.
    #[inline]
    pub(super) fn likely_victim(&self, plane: u32) -> Option<u32> {
        match self {
            Buckets::Greedy(lists) => lists.least(plane).map(|(block, _)| block),
            _ => None,
        }
    }

    /// Takes the block to collect in a plane out.
    pub(super) fn victim(&mut self, blocks: &mut Blocks, plane: u32) -> Option<u32> {
        match self {
            Buckets::Greedy(lists) => lists.take_least(blocks, plane),
            Buckets::Fifo(queues) => queues[plane as usize].pop_front(),
            Buckets::CostBenefit {
                full,
                clock,
                pages_per_block,
            } => {
                let full = &mut full[plane as usize];
                let benefit = |(block, filled): (u32, u64)| {
                    let used = f64::from(blocks.valid(block)) / f64::from(*pages_per_block);
                    let age = (*clock - filled + 1) as f64;
                    age * (1.0 - used) / (2.0 * used)
                };
                let mut best: Option<(f64, usize)> = None;
                for (i, block) in full.iter().enumerate() {
                    let benefit = benefit(*block);
                    if best.is_none_or(|(most, _)| benefit > most) {
                        best = Some((benefit, i));
                    }
                }
                best.map(|(_, i)| full.remove(i).0)
            }
        }
    }
}

/// For each plane and number of valid pages, a doubly linked list of full blocks. Their
/// neighbours are in their records.
pub(super) struct Lists {
    heads: Vec<Option<u32>>,
    least: Vec<u32>,
    width: u32,
    blocks_per_plane: u32,
}

impl Lists {
    fn new(flash: &FlashSpec) -> Self {
        let width = flash.pages_per_block + 1;
        Lists {
            heads: vec![None; (flash.planes() * width) as usize],
            least: vec![width; flash.planes() as usize],
            width,
            blocks_per_plane: flash.blocks_per_plane,
        }
    }

    #[inline]
    fn first_block(&self, plane: u32) -> u32 {
        plane * self.blocks_per_plane
    }

    #[inline]
    fn link(&mut self, blocks: &mut Blocks, block: u32, plane: u32, valid: u32) {
        let first = self.first_block(plane);
        let number = block - first;
        let head = &mut self.heads[(plane * self.width + valid) as usize];
        let older = head.replace(number);
        blocks.link(block, Neighbours { newer: None, older });
        if let Some(older) = older {
            blocks.set_newer(first + older, Some(number));
        }
        let least = &mut self.least[plane as usize];
        *least = (*least).min(valid);
    }

    /// Takes the block with these neighbours from the list of `valid` pages.
    #[inline]
    fn unlink(&mut self, blocks: &mut Blocks, neighbours: Neighbours, plane: u32, valid: u32) {
        let first = self.first_block(plane);
        let Neighbours { newer, older } = neighbours;
        match newer {
            None => self.heads[(plane * self.width + valid) as usize] = older,
            Some(newer) => blocks.set_older(first + newer, older),
        }
        if let Some(older) = older {
            blocks.set_newer(first + older, newer);
        }
    }

    /// A block with the fewest valid pages of a plane, and these.
    fn least(&self, plane: u32) -> Option<(u32, u32)> {
        let found = |valid| {
            let number = self.heads[(plane * self.width + valid) as usize]?;
            Some((self.first_block(plane) + number, valid))
        };
        (self.least[plane as usize]..self.width).find_map(found)
    }

    fn take_least(&mut self, blocks: &mut Blocks, plane: u32) -> Option<u32> {
        let (block, valid) = self.least(plane)?;
        self.least[plane as usize] = valid;
        let neighbours = blocks.neighbours(block)?;
        self.unlink(blocks, neighbours, plane, valid);
        blocks.unlink(block);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::FtlUsage;
    use super::*;
    use crate::spec::DeviceSpec;

    /// Kawaguchi, Nishioka and Motoda (USENIX 1995): age · (1 − u) / 2u.
    #[test]
    fn cost_and_benefit_by_hand() {
        let mut buckets = Buckets::CostBenefit {
            full: vec![Vec::new()],
            clock: 0,
            pages_per_block: 4,
        };
        let spec = DeviceSpec::shipped("ncq2014", &Default::default()).unwrap();
        let mut blocks = Blocks::new(&spec.flash);
        // Block 0, age 5, half valid: 2.5. Block 3, age 2, a quarter valid: 3. The others: 0.
        for (block, valid) in (0..).zip([2, 4, 4, 1, 4]) {
            blocks.put(block, 0, valid);
            buckets.add(&mut blocks, block, 0);
        }
        assert_eq!(buckets.victim(&mut blocks, 0), Some(3));
        (0..4).for_each(|page| _ = blocks.take(1, page));
        assert_eq!(buckets.victim(&mut blocks, 0), Some(1), "it costs nothing");
        assert_eq!(buckets.victim(&mut blocks, 0), Some(0));
    }

    #[test]
    fn what_was_before_the_report_is_taken_off_but_not_the_wear() {
        let usage = |times: u64| FtlUsage {
            host_programs: 100 * times,
            gc_moved_pages: 50 * times * times,
            gc_collections: 7 * times,
            flash_reads: 30 * times,
            trimmed_pages: 2 * times,
            wear_max: 3 * times as u32,
            ..FtlUsage::default()
        };
        let mut left = usage(3);
        left.subtract(&usage(2));
        let expected = FtlUsage {
            gc_moved_pages: 250,
            write_amplification: 3.5,
            wear_max: 9,
            ..usage(1)
        };
        assert_eq!(left, expected);
    }
}
