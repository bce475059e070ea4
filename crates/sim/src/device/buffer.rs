//! The page buffer of a device: least recently used pages leave first.

use super::page_index::PageIndex;

const NONE: u32 = u32::MAX;

struct Slot {
    page: u32,
    newer: u32,
    older: u32,
    is_dirty: bool,
}

/// A page that had to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The page.
    pub page: u32,
    /// Whether it was written since it came in.
    pub is_dirty: bool,
}

/// The state of a page that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The page was there.
    Hit,
    /// The page came in, into a free place or for another page that left.
    Miss(Option<Evicted>),
}

/// Pages in the order of their last use: a ring, in which the oldest is the newer neighbour of the
/// newest, so that replacing the oldest by a new page turns the ring by one.
pub struct Buffer {
    /// Slot + 1 of each buffered page.
    index: PageIndex,
    slots: Vec<Slot>,
    /// Slots whose page was removed.
    free: Vec<u32>,
    capacity: usize,
    newest: u32,
    changed: Changes,
}

/// Runs of pages, end excluded. A sequential request brings pages in and pushes others out in
/// turns, each in ascending order, so the last run of both is kept open.
#[derive(Default)]
struct Changes {
    runs: Vec<(u32, u32)>,
    /// Which run the last page that came in belongs to, and the last one that left.
    came: usize,
    left: usize,
}

impl Buffer {
    /// An empty buffer of `capacity` pages for a device of `pages` pages.
    pub fn new(capacity: u32, pages: u32) -> Self {
        Buffer {
            index: PageIndex::new(if capacity == 0 { 0 } else { pages }),
            slots: Vec::new(),
            free: Vec::new(),
            capacity: capacity as usize,
            newest: NONE,
            changed: Changes::default(),
        }
    }

    /// How many of these pages are not there.
    #[inline]
    pub fn missing(&self, first_page: u32, pages: u32) -> u32 {
        if self.capacity == 0 {
            return pages;
        }
        self.index.absent(first_page, pages)
    }

    /// Pages that it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether a page that comes in pushes another one out.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.slots.len() - self.free.len() == self.capacity
    }

    /// Drops a page without writing it; nothing happens where it is not there.
    pub fn remove(&mut self, page: u32) {
        if !self.contains(page) {
            return;
        }
        let slot = self.index.get(page) - 1;
        self.index.remove(page);
        self.changed.left(page);
        self.unlink(slot);
        self.free.push(slot);
    }

    /// Whether a page is there.
    pub fn contains(&self, page: u32) -> bool {
        self.capacity != 0 && self.index.get(page) != 0
    }

    /// Fetches a page's entry ahead of its use.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        self.index.prefetch(page);
    }

    /// Fetches the entry of a page of the buffer for which [`Buffer::prefetch`] was called.
    #[inline]
    pub fn prefetch_entry(&self, page: u32) {
        self.index.prefetch_part(page);
    }

    /// The pages that leave next if so many come in, the next one first; none while there is room.
    pub fn leaving(&self, count: usize, mut page: impl FnMut(u32)) {
        if self.newest == NONE || !self.is_full() {
            return;
        }
        let mut slot = self.slots[self.newest as usize].newer;
        for _ in 0..count {
            let entry = &self.slots[slot as usize];
            page(entry.page);
            slot = entry.newer;
        }
    }

    /// Uses a page: it comes in if it is not there, and is the newest then.
    #[inline]
    pub fn touch(&mut self, page: u32, is_dirty: bool) -> Touch {
        let mut met = Touch::Miss(None);
        self.touch_run(page, 1, is_dirty, |touch| met = touch);
        met
    }

    /// Uses pages in ascending order; `meet` gets the result for each of them.
    #[inline]
    pub fn touch_run(
        &mut self,
        first_page: u32,
        pages: u32,
        is_dirty: bool,
        mut meet: impl FnMut(Touch),
    ) {
        if self.capacity == 0 {
            return (0..pages).for_each(|_| meet(Touch::Miss(None)));
        }
        let (mut page, end) = (first_page, first_page + pages);
        while page < end {
            let place = self.index.place(page);
            let end_of_part = end.min(PageIndex::end_of_part(page));
            while page < end_of_part {
                meet(match *self.index.number(place, page) {
                    0 => Touch::Miss(self.bring_in(page, place, is_dirty)),
                    slot => {
                        self.slots[slot as usize - 1].is_dirty |= is_dirty;
                        self.make_newest(slot - 1);
                        Touch::Hit
                    }
                });
                page += 1;
            }
        }
    }

    /// Lets a page in, whose part of the index is at `place`.
    #[inline(always)] // the innermost loop of a simulation with a buffer
    fn bring_in(&mut self, page: u32, place: u32, is_dirty: bool) -> Option<Evicted> {
        self.changed.came(page);
        if !self.is_full() {
            let slot = self.free_slot(page, is_dirty);
            *self.index.number(place, page) = slot + 1;
            return None;
        }
        let slot = self.slots[self.newest as usize].newer;
        self.newest = slot;
        let entry = &mut self.slots[slot as usize];
        let evicted = Evicted {
            page: std::mem::replace(&mut entry.page, page),
            is_dirty: std::mem::replace(&mut entry.is_dirty, is_dirty),
        };
        *self.index.number(place, page) = slot + 1;
        self.index.remove(evicted.page);
        self.changed.left(evicted.page);
        Some(evicted)
    }

    /// A slot for a page, the newest one, while there is room.
    #[cold]
    fn free_slot(&mut self, page: u32, is_dirty: bool) -> u32 {
        let new = Slot {
            page,
            newer: NONE,
            older: NONE,
            is_dirty,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        };
        self.link(slot);
        slot
    }

    /// Runs of pages (end excluded) that came or left since [`Buffer::forget_changes`].
    pub fn changed(&self) -> &[(u32, u32)] {
        &self.changed.runs
    }

    /// Begins a new record of changes.
    pub fn forget_changes(&mut self) {
        self.changed.runs.clear();
    }

    #[inline]
    fn make_newest(&mut self, slot: u32) {
        if self.newest == slot {
            return;
        }
        if self.slots[self.newest as usize].newer == slot {
            self.newest = slot;
            return;
        }
        self.unlink(slot);
        self.link(slot);
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        if newer == slot {
            self.newest = NONE;
            return;
        }
        self.slots[newer as usize].older = older;
        self.slots[older as usize].newer = newer;
        if self.newest == slot {
            self.newest = older;
        }
    }

    /// Puts an unlinked slot at the newest end.
    #[inline]
    fn link(&mut self, slot: u32) {
        let older = match self.newest {
            NONE => slot,
            newest => newest,
        };
        let newer = match self.newest {
            NONE => slot,
            newest => self.slots[newest as usize].newer,
        };
        self.slots[slot as usize].older = older;
        self.slots[slot as usize].newer = newer;
        self.slots[older as usize].newer = slot;
        self.slots[newer as usize].older = slot;
        self.newest = slot;
    }
}

impl Changes {
    #[inline]
    fn came(&mut self, page: u32) {
        add(&mut self.runs, &mut self.came, page);
    }

    #[inline]
    fn left(&mut self, page: u32) {
        add(&mut self.runs, &mut self.left, page);
    }
}

/// Adds a page to the run at `open`, or as a new run.
#[inline]
fn add(runs: &mut Vec<(u32, u32)>, open: &mut usize, page: u32) {
    match runs.get_mut(*open) {
        Some(run) if run.1 == page => run.1 += 1,
        _ => {
            *open = runs.len();
            runs.push((page, page + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_leaves() {
        let mut buffer = Buffer::new(2, 10);
        assert_eq!(buffer.touch(1, true), Touch::Miss(None));
        assert_eq!(buffer.touch(2, false), Touch::Miss(None));
        assert_eq!(buffer.touch(1, false), Touch::Hit);
        let left = Evicted {
            page: 2,
            is_dirty: false,
        };
        assert_eq!(buffer.touch(3, false), Touch::Miss(Some(left)));
        let left = Evicted {
            page: 1,
            is_dirty: true,
        };
        assert_eq!(buffer.touch(4, false), Touch::Miss(Some(left)));
        assert_eq!(buffer.missing(0, 10), 8);
        assert_eq!(buffer.changed(), [(1, 5), (2, 3), (1, 2)]);
    }

    #[test]
    fn no_buffer_misses_everything() {
        let mut buffer = Buffer::new(0, 10);
        assert_eq!(buffer.touch(1, true), Touch::Miss(None));
        assert_eq!(buffer.missing(0, 10), 10);
    }
}
