//! The page cache of buffered processes: read-ahead, and dirty data that a flusher writes.

/// The data read ahead for one process (`page_cache_ra_order`, `ondemand_readahead` of
/// mm/readahead.c).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    /// The longest window, and the latest one, in sectors.
    most: u64,
    window: u64,
    /// Start of the latest record.
    last: u64,
    /// Who reads beyond this sector has the next window requested.
    mark: u64,
    /// The end of the requested data.
    pub(super) requested_end: u64,
    /// Up to where they are there.
    pub(super) there: u64,
}

impl ReadAhead {
    pub(super) fn new(most: u64) -> ReadAhead {
        ReadAhead {
            most,
            ..ReadAhead::default()
        }
    }

    /// The next range to ask for, when the process reads from `start` up to `end`; nothing while
    /// enough is under way.
    pub(super) fn want(&mut self, start: u64, end: u64, limit: u64) -> Option<(u64, u64)> {
        if start < self.last || start > self.requested_end {
            // Not sequential: only the requested data.
            *self = ReadAhead {
                most: self.most,
                window: 0,
                last: start,
                mark: end,
                requested_end: end,
                there: start,
            };
            return Some((start, end));
        }
        self.last = start;
        if self.requested_end >= limit || (end <= self.requested_end && end <= self.mark) {
            return None;
        }
        let is_first = self.window == 0;
        self.window = match is_first {
            true => self.first_window(end - start),
            false => self.next_window(),
        };
        let from = self.requested_end;
        let to = (from + self.window).max(end).min(limit);
        self.requested_end = to;
        // What the first window holds beyond the record marks its own continuation.
        self.mark = if is_first && to > end { end } else { from };
        Some((from, to))
    }

    /// The first window of a record, in sectors (`get_init_ra_size`).
    fn first_window(&self, record: u64) -> u64 {
        let whole = record.next_power_of_two();
        match () {
            () if whole <= self.most / 32 => whole * 4,
            () if whole <= self.most / 4 => whole * 2,
            () => self.most,
        }
    }

    /// The window after this one (`get_next_ra_size`).
    fn next_window(&self) -> u64 {
        match () {
            () if self.window < self.most / 16 => self.window * 4,
            () if self.window <= self.most / 2 => self.window * 2,
            () => self.most,
        }
    }
}

/// Dirty data of one process that wait for the flusher: sequential runs, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Dirty {
    runs: std::collections::VecDeque<(u64, u64)>,
    pub(super) sectors: u64,
}

impl Dirty {
    pub(super) fn add(&mut self, sector: u64, sectors: u64) {
        self.sectors += sectors;
        match self.runs.back_mut() {
            Some((_, end)) if *end == sector => *end += sectors,
            _ => self.runs.push_back((sector, sector + sectors)),
        }
    }

    /// The next piece to write, at most so long.
    pub(super) fn take(&mut self, most: u64) -> Option<(u64, u64)> {
        let (start, end) = self.runs.front_mut()?;
        let sectors = most.min(*end - *start);
        let piece = (*start, sectors);
        *start += sectors;
        if start == end {
            self.runs.pop_front();
        }
        self.sectors -= sectors;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_doubles_to_128_kib() {
        let mut ahead = ReadAhead::new(256);
        assert_eq!(ahead.want(0, 8, 10_000), Some((0, 32)));
        assert_eq!(ahead.want(0, 8, 10_000), None);
        assert_eq!(ahead.want(8, 16, 10_000), Some((32, 96)));
        assert_eq!(ahead.want(24, 32, 10_000), None);
        assert_eq!(ahead.want(32, 40, 10_000), Some((96, 224)));
        assert_eq!(ahead.want(96, 104, 10_000), Some((224, 480)));
        // What is there already is not read again.
        ahead.there = 480;
        assert_eq!(ahead.want(104, 112, 10_000), None);
        assert_eq!(ahead.want(224, 232, 500), Some((480, 500)));
        assert_eq!(ahead.want(232, 240, 500), None);
    }

    #[test]
    fn a_record_as_long_as_the_window_has_the_next_one_under_way() {
        let mut ahead = ReadAhead::new(256);
        assert_eq!(ahead.want(0, 256, 10_000), Some((0, 256)));
        assert_eq!(ahead.want(0, 256, 10_000), Some((256, 512)));
        assert_eq!(ahead.want(0, 256, 10_000), None);
        ahead.there = 256;
        assert_eq!(ahead.want(256, 512, 10_000), Some((512, 768)));
        assert_eq!(ahead.want(256, 512, 10_000), None);
    }

    #[test]
    fn a_long_window_is_reached_by_twos_and_fours() {
        let mut ahead = ReadAhead::new(5120);
        // `block_bio_queue` of records of 128 KiB with read_ahead_kb 2560, Linux 6.18.
        assert_eq!(ahead.want(0, 256, 100_000), Some((0, 512)));
        for (start, window) in [(256, 1024), (512, 2048), (1536, 4096), (3584, 5120)] {
            let requested_end = ahead.requested_end;
            assert_eq!(
                ahead.want(start, start + 256, 100_000),
                Some((requested_end, requested_end + window))
            );
            assert_eq!(ahead.want(start, start + 256, 100_000), None);
        }
        let mut ahead = ReadAhead::new(5120);
        assert_eq!(ahead.want(0, 8, 100_000), Some((0, 32)));
        assert_eq!(ahead.want(8, 16, 100_000), Some((32, 160)));
    }

    #[test]
    fn a_random_record_is_read_alone() {
        let mut ahead = ReadAhead::new(256);
        assert_eq!(ahead.want(800, 808, 10_000), Some((800, 808)));
        assert_eq!(ahead.want(800, 808, 10_000), None);
        assert_eq!(ahead.want(80, 88, 10_000), Some((80, 88)));
        assert_eq!(ahead.want(88, 96, 10_000), Some((88, 120)));
    }

    #[test]
    fn dirty_runs_join_and_are_cut() {
        let mut dirty = Dirty::default();
        dirty.add(0, 8);
        dirty.add(8, 8);
        dirty.add(100, 8);
        assert_eq!(dirty.take(12), Some((0, 12)));
        assert_eq!(dirty.take(12), Some((12, 4)));
        assert_eq!(dirty.take(12), Some((100, 8)));
        assert_eq!(dirty.take(12), None);
        assert_eq!(dirty.sectors, 0);
    }
}
