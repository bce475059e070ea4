//! The page cache of buffered processes: read-ahead, and dirty data that a flusher writes.

/// Read-ahead starts with four pages and doubles to this, in sectors.
const READ_AHEAD_FIRST: u64 = 32;
const READ_AHEAD_MOST: u64 = 256;

/// What has been read ahead for one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    window: u64,
    /// The end of the requested data.
    pub(super) asked: u64,
    /// Up to where they are there.
    pub(super) there: u64,
}

impl ReadAhead {
    /// The range to ask for, when the process reads up to `end` from `start`; nothing while
    /// enough is under way.
    pub(super) fn want(&mut self, start: u64, end: u64, limit: u64) -> Option<(u64, u64)> {
        if start < self.there.saturating_sub(self.window) || start > self.asked {
            // Not sequential: only the requested data.
            *self = ReadAhead {
                window: 0,
                asked: start,
                there: start,
            };
        }
        let half = self.asked.saturating_sub(self.window / 2);
        if self.asked >= limit || (end <= self.asked && start < half) {
            return None;
        }
        self.window = (self.window * 2).clamp(READ_AHEAD_FIRST, READ_AHEAD_MOST);
        let from = self.asked;
        let to = (from + self.window).max(end).min(limit);
        // A record longer than the window is read whole.
        self.window = self.window.max(to - from);
        self.asked = to;
        Some((from, to))
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
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.want(0, 8, 10_000), Some((0, 32)));
        assert_eq!(ahead.want(8, 16, 10_000), None);
        assert_eq!(ahead.want(16, 24, 10_000), Some((32, 96)));
        assert_eq!(ahead.want(64, 72, 10_000), Some((96, 224)));
        assert_eq!(ahead.want(160, 168, 10_000), Some((224, 480)));
        assert_eq!(ahead.want(352, 360, 500), Some((480, 500)));
        assert_eq!(ahead.want(360, 368, 500), None);
    }

    #[test]
    fn a_record_longer_than_the_window_is_read_once() {
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.want(0, 1024, 10_000), Some((0, 1024)));
        ahead.there = 1024;
        assert_eq!(ahead.want(0, 1024, 10_000), None);
        assert_eq!(ahead.want(1024, 2048, 10_000), Some((1024, 2048)));
        ahead.there = 2048;
        assert_eq!(ahead.want(1024, 2048, 2048), None);
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
