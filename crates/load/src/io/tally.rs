//! What a worker counts while it runs: per direction, inside and outside the measured window.

use std::collections::BTreeMap;

use schedlab_model::Histogram;

use super::error;

/// A worker that meets this many errors and short transfers stops.
const ERRORS_MAX: u64 = 100;

/// Why a worker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Time,
    Pass,
    Interrupt,
    Errors,
    NoSpace,
}

impl Stop {
    /// The name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stop::Time => "time",
            Stop::Pass => "pass",
            Stop::Interrupt => "interrupt",
            Stop::Errors => "errors",
            Stop::NoSpace => "no_space",
        }
    }
}

/// Counts of reads, or of writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    pub operations: u64,
    pub errors: u64,
    pub short: u64,
    short_bytes: u64,
    pub latency: Histogram,
    /// Operations and short bytes outside the window.
    outside: (u64, u64),
}

impl Side {
    /// Bytes moved inside the window.
    pub(crate) fn bytes(&self, record: u64) -> u64 {
        self.operations * record + self.short_bytes
    }

    /// Bytes moved inside and outside the window.
    pub(crate) fn bytes_ever(&self, record: u64) -> u64 {
        self.bytes(record) + self.outside.0 * record + self.outside.1
    }

    fn leave_out(&mut self) {
        self.outside.0 += std::mem::take(&mut self.operations);
        self.outside.1 += std::mem::take(&mut self.short_bytes);
        self.errors = 0;
        self.short = 0;
        self.latency.clear();
    }
}

/// All counts of a worker.
pub(crate) struct Tally {
    record: u32,
    /// Reads and writes.
    pub sides: [Side; 2],
    pub start_lag: Histogram,
    pub unissued: u64,
    pub causes: BTreeMap<i32, u64>,
    /// Operation, offset and error number of the first failure.
    pub first_error: Option<(&'static str, u64, i32)>,
    failed: u64,
    draining: bool,
}

impl Tally {
    pub(crate) fn new(record: u32) -> Tally {
        Tally {
            record,
            sides: Default::default(),
            start_lag: Histogram::new(),
            unissued: 0,
            causes: BTreeMap::new(),
            first_error: None,
            failed: 0,
            draining: false,
        }
    }

    /// The warm-up is over: what was counted so far lies outside the window.
    pub(crate) fn begin_window(&mut self) {
        self.sides.iter_mut().for_each(Side::leave_out);
        self.start_lag.clear();
    }

    /// The window is over: completions from now on only enter latencies and device bytes.
    pub(crate) fn end_window(&mut self) {
        self.draining = true;
    }

    /// Counts a completed request: `result` is the bytes moved, or a negative error number.
    /// Gives whether it moved the whole record.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        is_write: bool,
        offset: u64,
        result: i32,
        latency_ns: u64,
    ) -> bool {
        let side = &mut self.sides[usize::from(is_write)];
        if result as u32 == self.record && !self.draining {
            side.operations += 1;
            side.latency.record(latency_ns);
            return true;
        }
        self.complete_unusually(is_write, offset, result, latency_ns)
    }

    #[cold]
    fn complete_unusually(
        &mut self,
        is_write: bool,
        offset: u64,
        result: i32,
        latency_ns: u64,
    ) -> bool {
        let side = &mut self.sides[usize::from(is_write)];
        if result < 0 {
            side.errors += 1;
            self.fail(if is_write { "write" } else { "read" }, offset, -result);
            return false;
        }
        let whole = result as u32 == self.record;
        side.latency.record(latency_ns);
        if !whole {
            side.short += 1;
            self.failed += 1;
        }
        match (whole, self.draining) {
            (true, true) => side.outside.0 += 1,
            (true, false) => side.operations += 1,
            (false, true) => side.outside.1 += result as u64,
            (false, false) => side.short_bytes += result as u64,
        }
        whole
    }

    /// Counts the cause of a failed operation.
    pub(crate) fn fail(&mut self, operation: &'static str, offset: u64, errno: i32) {
        self.failed += 1;
        *self.causes.entry(errno).or_default() += 1;
        self.first_error.get_or_insert((operation, offset, errno));
    }

    /// An arrival that was due but never issued, of this age.
    pub(crate) fn give_up(&mut self, is_write: bool, age_ns: u64) {
        self.unissued += 1;
        self.sides[usize::from(is_write)].latency.record(age_ns);
    }

    /// Whether errors say that going on is pointless.
    #[inline]
    pub(crate) fn verdict(&self) -> Option<Stop> {
        if self.failed == 0 {
            return None;
        }
        if self.causes.contains_key(&libc::ENOSPC) || self.causes.contains_key(&libc::EDQUOT) {
            return Some(Stop::NoSpace);
        }
        (self.failed >= ERRORS_MAX).then_some(Stop::Errors)
    }

    /// Error counts by name.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.causes
            .iter()
            .map(|(errno, count)| (error::name(*errno), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_window_and_of_all_time_are_kept_apart() {
        let mut tally = Tally::new(4096);
        assert!(tally.complete(false, 0, 4096, 10));
        assert!(!tally.complete(false, 0, 100, 10));
        tally.begin_window();
        assert!(tally.complete(false, 0, 4096, 10));
        assert!(!tally.complete(false, 0, 512, 10));
        tally.end_window();
        assert!(tally.complete(false, 0, 4096, 10));
        let reads = &tally.sides[0];
        assert_eq!((reads.operations, reads.short), (1, 1));
        assert_eq!(reads.bytes(4096), 4096 + 512);
        assert_eq!(reads.bytes_ever(4096), 3 * 4096 + 100 + 512);
        assert_eq!(reads.latency.count(), 3);
    }

    #[test]
    fn a_full_disk_stops_at_once_and_other_errors_after_a_hundred() {
        let mut tally = Tally::new(512);
        for _ in 0..99 {
            tally.complete(true, 512, -libc::EIO, 1);
        }
        assert_eq!(tally.verdict(), None);
        tally.complete(true, 0, -libc::EIO, 1);
        assert_eq!(tally.verdict(), Some(Stop::Errors));
        assert_eq!(tally.first_error, Some(("write", 512, libc::EIO)));
        let mut full = Tally::new(512);
        full.complete(true, 0, -libc::ENOSPC, 1);
        assert_eq!(full.verdict(), Some(Stop::NoSpace));
        assert_eq!(full.causes().next(), Some(("ENOSPC".into(), 1)));
    }
}
