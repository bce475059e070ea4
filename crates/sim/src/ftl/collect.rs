//! Choosing the victim block of garbage collection: greedy, first in first out, or by cost and
//! benefit.

use std::collections::VecDeque;

use prefetch_index::prefetch_index;

use super::NONE;
use crate::device::{Collect, FlashSpec};

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

    /// A block was filled; `valid` of its pages are still valid.
    pub(super) fn add(&mut self, block: u32, plane: u32, valid: u32) {
        match self {
            Buckets::Greedy(lists) => lists.link(block, plane, valid),
            Buckets::Fifo(queues) => queues[plane as usize].push_back(block),
            Buckets::CostBenefit { full, clock, .. } => {
                *clock += 1;
                full[plane as usize].push((block, *clock));
            }
        }
    }

    /// A block, full or not, has one valid page less: now `valid`.
    #[inline]
    pub(super) fn lost_a_page(&mut self, block: u32, plane: u32, valid: u32) {
        if let Buckets::Greedy(lists) = self {
            if lists.is_linked(block) {
                lists.unlink(block, plane, valid + 1);
                lists.link(block, plane, valid);
            }
        }
    }

    /// Fetches what losing a page of a block will look at.
    #[inline]
    pub(super) fn prefetch(&self, block: u32) {
        if let Buckets::Greedy(lists) = self {
            prefetch_index(&lists.blocks, block as usize);
        }
    }

    /// The same of the blocks beside it, once it was fetched.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, block: u32) {
        if let Buckets::Greedy(lists) = self {
            let Links { newer, older } = lists.blocks[block as usize];
            prefetch_index(&lists.blocks, newer as usize);
            prefetch_index(&lists.blocks, older as usize);
        }
    }

    /// Takes the block to collect in a plane out.
    pub(super) fn victim(&mut self, plane: u32, valid: &[u32]) -> Option<u32> {
        match self {
            Buckets::Greedy(lists) => lists.take_least(plane),
            Buckets::Fifo(queues) => queues[plane as usize].pop_front(),
            Buckets::CostBenefit {
                full,
                clock,
                pages_per_block,
            } => {
                let blocks = &mut full[plane as usize];
                let benefit = |(block, filled): (u32, u64)| {
                    let used = f64::from(valid[block as usize]) / f64::from(*pages_per_block);
                    let age = (*clock - filled + 1) as f64;
                    age * (1.0 - used) / (2.0 * used)
                };
                let mut best: Option<(f64, usize)> = None;
                for (i, block) in blocks.iter().enumerate() {
                    let benefit = benefit(*block);
                    if best.is_none_or(|(most, _)| benefit > most) {
                        best = Some((benefit, i));
                    }
                }
                best.map(|(_, i)| blocks.remove(i).0)
            }
        }
    }
}

/// For each plane and number of valid pages, a doubly linked list of full blocks.
pub(super) struct Lists {
    heads: Vec<u32>,
    blocks: Vec<Links>,
    least: Vec<u32>,
    width: u32,
}

/// Neighbours of a block in its list, side by side: both are looked up at each lost page.
#[derive(Clone, Copy)]
struct Links {
    /// [`UNLINKED`] for a block that is in no list.
    newer: u32,
    older: u32,
}

/// In place of a newer neighbour.
const UNLINKED: u32 = NONE - 1;

impl Lists {
    fn new(flash: &FlashSpec) -> Self {
        let width = flash.pages_per_block + 1;
        let blocks = (flash.planes() * flash.blocks_per_plane) as usize;
        let unlinked = Links {
            newer: UNLINKED,
            older: NONE,
        };
        Lists {
            heads: vec![NONE; (flash.planes() * width) as usize],
            blocks: vec![unlinked; blocks],
            least: vec![width; flash.planes() as usize],
            width,
        }
    }

    #[inline]
    fn is_linked(&self, block: u32) -> bool {
        self.blocks[block as usize].newer != UNLINKED
    }

    #[inline]
    fn link(&mut self, block: u32, plane: u32, valid: u32) {
        debug_assert!(!self.is_linked(block), "block {block} is in two lists");
        let head = &mut self.heads[(plane * self.width + valid) as usize];
        let older = std::mem::replace(head, block);
        self.blocks[block as usize] = Links { newer: NONE, older };
        if older != NONE {
            self.blocks[older as usize].newer = block;
        }
        let least = &mut self.least[plane as usize];
        *least = (*least).min(valid);
    }

    #[inline]
    fn unlink(&mut self, block: u32, plane: u32, valid: u32) {
        let Links { newer, older } = self.blocks[block as usize];
        debug_assert!(newer != UNLINKED, "block {block} is in no list");
        match newer {
            NONE => self.heads[(plane * self.width + valid) as usize] = older,
            newer => self.blocks[newer as usize].older = older,
        }
        if older != NONE {
            self.blocks[older as usize].newer = newer;
        }
        self.blocks[block as usize].newer = UNLINKED;
    }

    fn take_least(&mut self, plane: u32) -> Option<u32> {
        let from = self.least[plane as usize];
        for valid in from..self.width {
            let block = self.heads[(plane * self.width + valid) as usize];
            if block != NONE {
                self.least[plane as usize] = valid;
                self.unlink(block, plane, valid);
                return Some(block);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::FtlUsage;
    use super::*;

    /// Kawaguchi, Nishioka and Motoda (USENIX 1995): age · (1 − u) / 2u.
    #[test]
    fn cost_and_benefit_by_hand() {
        let mut buckets = Buckets::CostBenefit {
            full: vec![Vec::new()],
            clock: 0,
            pages_per_block: 4,
        };
        (0..5).for_each(|block| buckets.add(block, 0, 4));
        // Block 0, age 5, half valid: 2.5. Block 3, age 2, a quarter valid: 3. The others: 0.
        let mut valid = [2, 4, 4, 1, 4];
        assert_eq!(buckets.victim(0, &valid), Some(3));
        valid[1] = 0;
        assert_eq!(buckets.victim(0, &valid), Some(1), "it costs nothing");
        assert_eq!(buckets.victim(0, &valid), Some(0));
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
