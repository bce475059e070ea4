//! All that is known of each block, in one record: neighbours in its list, valid pages, and which.
//!
//! All that a lost page changes is in one line of the processor's cache, for blocks of up to 448
//! pages: with a table of each, a write over a large device waited for memory once more for each.

use prefetch_index::prefetch_index;

use crate::spec::{FlashSpec, BLOCKS_MAX, PAGES_MAX};

/// Neighbours of a block are numbers within its plane, so that both and the count of its valid
/// pages are one word: neighbour (0: in no list, 1: none, else number + 2), neighbour, count.
const NEIGHBOUR_BITS: u32 = 24;
const NEIGHBOUR_MASK: u64 = (1 << NEIGHBOUR_BITS) - 1;
const COUNT_SHIFT: u32 = 2 * NEIGHBOUR_BITS;
const ONE_PAGE: u64 = 1 << COUNT_SHIFT;

const _: () = assert!(BLOCKS_MAX as u64 + 2 <= NEIGHBOUR_MASK && PAGES_MAX == u16::MAX as u32);

/// The first block of a list has no newer neighbour, the last one no older one.
const END: u64 = 1;

/// The records of all blocks.
pub(super) struct Blocks {
    /// Of each block the word of its neighbours and its count, then its map of valid pages.
    words: Vec<u64>,
    width: usize,
}

/// The neighbours of a block in its list, by their numbers in the plane.
#[derive(Clone, Copy)]
pub(super) struct Neighbours {
    pub(super) newer: Option<u32>,
    pub(super) older: Option<u32>,
}

fn coded(block: Option<u32>) -> u64 {
    block.map_or(END, |block| u64::from(block) + 2)
}

fn block_of(code: u64) -> Option<u32> {
    (code & NEIGHBOUR_MASK)
        .checked_sub(2)
        .map(|block| block as u32)
}

impl Blocks {
    pub(super) fn new(flash: &FlashSpec) -> Self {
        let width = 1 + flash.pages_per_block.div_ceil(64) as usize;
        let blocks = (flash.planes() * flash.blocks_per_plane) as usize;
        let words = vec![0; blocks * width];
        schedlab_memory::prefer_huge_pages(&words);
        Blocks { words, width }
    }

    #[inline]
    fn at(&self, block: u32) -> usize {
        block as usize * self.width
    }

    #[inline]
    pub(super) fn prefetch(&self, block: u32) {
        prefetch_index(&self.words, self.at(block));
    }

    /// Valid pages of a block.
    #[inline]
    pub(super) fn valid(&self, block: u32) -> u32 {
        (self.words[self.at(block)] >> COUNT_SHIFT) as u32
    }

    /// Takes a valid page from a block; gives how many are left.
    #[inline]
    pub(super) fn take(&mut self, block: u32, page: u32) -> u32 {
        let at = self.at(block);
        let map = &mut self.words[at + 1 + (page / 64) as usize];
        debug_assert!(*map >> (page % 64) & 1 == 1, "page {page} is not valid");
        *map &= !(1 << (page % 64));
        self.words[at] -= ONE_PAGE;
        (self.words[at] >> COUNT_SHIFT) as u32
    }

    /// Makes neighbouring pages of a block valid.
    #[inline]
    pub(super) fn put(&mut self, block: u32, first_page: u32, pages: u32) {
        let at = self.at(block);
        self.words[at] += u64::from(pages) << COUNT_SHIFT;
        let (mut page, end) = (first_page, first_page + pages);
        while page < end {
            let next = end.min((page | 63) + 1);
            let ones = u64::MAX >> (64 - (next - page));
            self.words[at + 1 + (page / 64) as usize] |= ones << (page % 64);
            page = next;
        }
    }

    /// Empties a block that is in no list; `page` is called with each page that was valid.
    #[inline]
    pub(super) fn empty(&mut self, block: u32, mut page: impl FnMut(u32)) {
        let at = self.at(block);
        self.words[at] &= ONE_PAGE - 1;
        for (first, map) in (0..)
            .step_by(64)
            .zip(&mut self.words[at + 1..at + self.width])
        {
            let mut left = std::mem::take(map);
            while left != 0 {
                page(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// The neighbours of a block that is in a list.
    #[inline]
    pub(super) fn neighbours(&self, block: u32) -> Option<Neighbours> {
        let word = self.words[self.at(block)];
        (word & NEIGHBOUR_MASK != 0).then(|| Neighbours {
            newer: block_of(word),
            older: block_of(word >> NEIGHBOUR_BITS),
        })
    }

    #[inline]
    pub(super) fn link(&mut self, block: u32, neighbours: Neighbours) {
        let at = self.at(block);
        let coded = coded(neighbours.newer) | coded(neighbours.older) << NEIGHBOUR_BITS;
        self.words[at] = self.words[at] & !(ONE_PAGE - 1) | coded;
    }

    #[inline]
    pub(super) fn set_newer(&mut self, block: u32, newer: Option<u32>) {
        let at = self.at(block);
        self.words[at] = self.words[at] & !NEIGHBOUR_MASK | coded(newer);
    }

    #[inline]
    pub(super) fn set_older(&mut self, block: u32, older: Option<u32>) {
        let at = self.at(block);
        let mask = NEIGHBOUR_MASK << NEIGHBOUR_BITS;
        self.words[at] = self.words[at] & !mask | coded(older) << NEIGHBOUR_BITS;
    }

    #[inline]
    pub(super) fn unlink(&mut self, block: u32) {
        let at = self.at(block);
        self.words[at] &= !(ONE_PAGE - 1);
    }

    /// Whether a page is valid.
    pub(super) fn is_valid(&self, block: u32, page: u32) -> bool {
        let map = self.words[self.at(block) + 1 + (page / 64) as usize];
        map >> (page % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::spec::DeviceSpec;

    #[test]
    fn pages_and_neighbours_share_a_record_without_touching_each_other() {
        let mut flash = DeviceSpec::shipped("ncq2014", &Default::default())
            .unwrap()
            .flash;
        flash.pages_per_block = 150;
        let mut blocks = Blocks::new(&flash);
        let neighbours = Neighbours {
            newer: Some(BLOCKS_MAX - 1),
            older: None,
        };
        assert!(blocks.neighbours(7).is_none());
        blocks.link(7, neighbours);
        blocks.put(7, 60, 90);
        blocks.set_older(7, Some(0));
        assert_eq!(
            (blocks.valid(7), blocks.valid(6), blocks.valid(8)),
            (90, 0, 0)
        );
        assert_eq!(blocks.take(7, 64), 89);
        assert!(!blocks.is_valid(7, 59) && blocks.is_valid(7, 60) && !blocks.is_valid(7, 64));
        let found = blocks.neighbours(7).unwrap();
        assert_eq!((found.newer, found.older), (Some(BLOCKS_MAX - 1), Some(0)));
        blocks.set_newer(7, None);
        assert_eq!(blocks.neighbours(7).unwrap().newer, None);
        blocks.unlink(7);
        assert!(blocks.neighbours(7).is_none());
        let mut pages = Vec::new();
        blocks.empty(7, |page| pages.push(page));
        let expected: Vec<u32> = (60..150).filter(|page| *page != 64).collect();
        assert_eq!((pages, blocks.valid(7)), (expected, 0));
    }
}
