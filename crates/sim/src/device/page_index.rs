//! Which place of the buffer holds a page: a table in parts that exist only where one of their
//! pages is buffered, so that its memory follows the buffer and not the device.

/// log2 of the pages of a part: one cache line.
const PART_BITS: u32 = 4;
const PART: u32 = 1 << PART_BITS;
const EMPTY: [u32; PART as usize] = [0; PART as usize];

/// A number for each buffered page, 0 for all others.
pub(super) struct PageIndex {
    /// Where in `parts` the part of these pages lies.
    place_of: Vec<u32>,
    /// The first one stands for all that do not exist.
    parts: Vec<[u32; PART as usize]>,
    /// Which pages a part is of: its first page over `PART`.
    group_of: Vec<u32>,
    free: Vec<u32>,
    parts_max: usize,
}

impl PageIndex {
    /// An empty index of a device of `pages` pages, of which at most `buffered` have a number.
    pub(super) fn new(pages: u32, buffered: u32) -> Self {
        PageIndex {
            place_of: vec![0; pages.div_ceil(PART) as usize],
            parts: vec![EMPTY],
            group_of: vec![0],
            free: Vec::new(),
            parts_max: 2 * buffered as usize + 2,
        }
    }

    #[inline]
    fn part(&self, page: u32) -> &[u32; PART as usize] {
        &self.parts[self.place_of[(page >> PART_BITS) as usize] as usize]
    }

    /// The number of a page.
    #[inline]
    pub(super) fn get(&self, page: u32) -> u32 {
        self.part(page)[(page % PART) as usize]
    }

    /// The same for any page; nothing beyond the device.
    #[inline]
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        let place = self.place_of.get((page >> PART_BITS) as usize)?;
        Some(self.parts[*place as usize][page as usize % PART as usize])
    }

    /// Gives a page a number above 0.
    #[inline]
    pub(super) fn insert(&mut self, page: u32, number: u32) {
        let mut place = self.place_of[(page >> PART_BITS) as usize];
        if place == 0 {
            place = self.new_part(page >> PART_BITS);
        }
        self.parts[place as usize][(page % PART) as usize] = number;
    }

    /// Takes the number from a page that has one.
    #[inline]
    pub(super) fn remove(&mut self, page: u32) {
        let place = self.place_of[(page >> PART_BITS) as usize];
        self.parts[place as usize][(page % PART) as usize] = 0;
    }

    fn new_part(&mut self, group: u32) -> u32 {
        if self.free.is_empty() && self.parts.len() == self.parts_max {
            self.free_empty_parts();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.parts.push(EMPTY);
            self.group_of.push(0);
            self.parts.len() as u32 - 1
        });
        self.group_of[place as usize] = group;
        self.place_of[group as usize] = place;
        place
    }

    /// At least half of the parts are empty when all that may exist do.
    #[cold]
    fn free_empty_parts(&mut self) {
        for (place, part) in self.parts.iter().enumerate().skip(1) {
            if *part == EMPTY {
                self.place_of[self.group_of[place] as usize] = 0;
                self.free.push(place as u32);
            }
        }
    }

    /// How many of these pages have none.
    #[inline]
    pub(super) fn absent(&self, first_page: u32, pages: u32) -> u32 {
        let end = first_page + pages;
        let (mut page, mut absent) = (first_page, 0);
        while page < end {
            let next = end.min((page | (PART - 1)) + 1);
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
        let mut index = PageIndex::new(100, 2);
        for page in [15, 31] {
            index.insert(page, page + 1);
        }
        assert_eq!((index.get(15), index.get(31), index.get(30)), (16, 32, 0));
        assert_eq!((index.absent(0, 100), index.absent(14, 3)), (98, 2));
        for page in [40, 50, 70, 90, 1, 20] {
            index.remove(15);
            index.insert(15, 16);
            index.insert(page, 7);
            assert_eq!((index.get(page), index.absent(0, 100)), (7, 97));
            index.remove(page);
        }
        assert_eq!((index.get(15), index.get(31)), (16, 32));
        assert!(index.parts.len() <= index.parts_max);
    }
}
