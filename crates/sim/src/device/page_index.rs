//! Which place of the buffer holds a page: a table in parts that exist only where one of their
//! pages is buffered, so that its memory follows the buffer and not the device.

use prefetch_index::prefetch_index;

/// log2 of the pages of a part: one cache line.
const PART_BITS: u32 = 4;
const PART: u32 = 1 << PART_BITS;

/// The numbers of neighbouring pages.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Part([u32; PART as usize]);

const EMPTY: Part = Part([0; PART as usize]);

/// A number for each buffered page, 0 for all others.
pub(super) struct PageIndex {
    /// Where in `parts` the part of these pages is.
    place_of: Vec<u32>,
    /// The first one represents all that do not exist.
    parts: Vec<Part>,
    /// The parts that are no longer used, the last one first to be used again: it is in the cache.
    free: Vec<u32>,
    /// The part that lost a number last. It is checked when another one does, since neighbours
    /// mostly leave together.
    left: usize,
}

impl PageIndex {
    /// An empty index of a device of `pages` pages.
    pub(super) fn new(pages: u32) -> Self {
        let place_of = vec![0; pages.div_ceil(PART) as usize];
        schedlab_memory::prefer_huge_pages(&place_of);
        PageIndex {
            place_of,
            parts: vec![EMPTY],
            free: Vec::new(),
            left: 0,
        }
    }

    /// The page after the last one of the part of a page.
    #[inline]
    pub(super) fn end_of_part(page: u32) -> u32 {
        (page | (PART - 1)) + 1
    }

    /// Where the part of a page is, as long as it has numbers: it needs one first.
    #[inline]
    pub(super) fn place(&mut self, page: u32) -> u32 {
        match self.place_of[(page >> PART_BITS) as usize] {
            0 => self.new_part(page >> PART_BITS),
            place => place,
        }
    }

    /// The number of a page whose part is at `place`.
    #[inline]
    pub(super) fn number(&mut self, place: u32, page: u32) -> &mut u32 {
        &mut self.parts[place as usize].0[(page % PART) as usize]
    }

    #[inline]
    fn part(&self, page: u32) -> &[u32; PART as usize] {
        &self.parts[self.place_of[(page >> PART_BITS) as usize] as usize].0
    }

    /// The number of a page.
    #[inline]
    pub(super) fn get(&self, page: u32) -> u32 {
        self.part(page)[(page % PART) as usize]
    }

    /// Fetches where the part of a page is ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        prefetch_index(&self.place_of, (page >> PART_BITS) as usize);
    }

    /// Fetches the part of a page whose place was fetched.
    #[inline]
    pub(super) fn prefetch_part(&self, page: u32) {
        let place = self.place_of[(page >> PART_BITS) as usize];
        prefetch_index(&self.parts, place as usize);
    }

    /// Takes the number from a page that has one.
    #[inline]
    pub(super) fn remove(&mut self, page: u32) {
        let group = (page >> PART_BITS) as usize;
        self.parts[self.place_of[group] as usize].0[(page % PART) as usize] = 0;
        if group != self.left {
            self.free_if_empty(self.left);
            self.left = group;
        }
    }

    fn free_if_empty(&mut self, group: usize) {
        let place = self.place_of[group];
        if place != 0 && self.parts[place as usize] == EMPTY {
            self.place_of[group] = 0;
            self.free.push(place);
        }
    }

    fn new_part(&mut self, group: u32) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.parts.push(EMPTY);
            self.parts.len() as u32 - 1
        });
        self.place_of[group as usize] = place;
        place
    }

    /// How many of these pages have none.
    #[inline]
    pub(super) fn absent(&self, first_page: u32, pages: u32) -> u32 {
        let end = first_page + pages;
        let (mut page, mut absent) = (first_page, 0);
        while page < end {
            let next = end.min(Self::end_of_part(page));
            let within = (page % PART) as usize..=((next - 1) % PART) as usize;
            let numbers = &self.part(page)[within];
            absent += numbers.iter().map(|n| u32::from(*n == 0)).sum::<u32>();
            page = next;
        }
        absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_and_go_with_their_pages() {
        let mut index = PageIndex::new(100);
        let insert = |index: &mut PageIndex, page: u32, number: u32| {
            let place = index.place(page);
            *index.number(place, page) = number;
        };
        for page in [15, 31] {
            insert(&mut index, page, page + 1);
        }
        assert_eq!((index.get(15), index.get(31), index.get(30)), (16, 32, 0));
        assert_eq!((index.absent(0, 100), index.absent(14, 3)), (98, 2));
        for page in [40, 50, 70, 90, 1, 20] {
            index.remove(15);
            insert(&mut index, 15, 16);
            insert(&mut index, page, 7);
            assert_eq!((index.get(page), index.absent(0, 100)), (7, 97));
            index.remove(page);
        }
        assert_eq!((index.get(15), index.get(31)), (16, 32));
        assert_eq!((index.parts.len(), index.free.len()), (4, 1));
    }
}
