//! What a worker counts while it runs: per direction, inside and outside the measured window.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schedlab_model::{Coarse, Histogram};
use serde::{Deserialize, Serialize};

use super::error;
use super::series::{Counts, Series};

/// A worker that meets this many errors and short transfers stops.
const ERRORS_MAX: u64 = 100;

/// Why a worker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Side {
    pub operations: u64,
    pub errors: u64,
    pub short: u64,
    /// Bytes that are no whole records.
    odd_bytes: u64,
    pub latency: Histogram,
    /// Operations and odd bytes outside the window.
    outside: (u64, u64),
    /// Sum of the latencies before the window, and those themselves.
    ramp_latency_ns: u64,
    ramp_latencies: Vec<u64>,
}

impl Side {
    /// Bytes moved inside the window.
    pub(crate) fn bytes(&self, record: u64) -> u64 {
        self.operations * record + self.odd_bytes
    }

    /// Bytes moved inside and outside the window.
    pub(crate) fn bytes_ever(&self, record: u64) -> u64 {
        self.bytes(record) + self.outside.0 * record + self.outside.1
    }

    fn leave_out(&mut self) {
        self.outside.0 += std::mem::take(&mut self.operations);
        self.outside.1 += std::mem::take(&mut self.odd_bytes);
        self.errors = 0;
        self.short = 0;
        self.ramp_latency_ns += self.latency.sum() as u64;
        self.ramp_latencies = self.latencies_ever().to_vec();
        self.latency.clear();
    }

    /// All latencies so far.
    fn latencies_ever(&self) -> Coarse {
        let mut all = self.latency.coarse();
        let before = all.iter_mut().zip(&self.ramp_latencies);
        before.for_each(|(now, ramp)| *now += ramp);
        all
    }

    /// All completions so far, for the rate over time.
    fn ever(&self, record: u32) -> Counts {
        Counts {
            operations: self.operations + self.outside.0,
            bytes: self.bytes_ever(u64::from(record)),
            latency_ns: self.ramp_latency_ns + self.latency.sum() as u64,
        }
    }
}

fn latencies_ever(sides: &[Side; 2]) -> Coarse {
    let [mut all, writes] = [0, 1].map(|side: usize| sides[side].latencies_ever());
    all.iter_mut()
        .zip(writes)
        .for_each(|(sum, more)| *sum += more);
    all
}

/// All counts of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Bytes of a read, of a write.
    pub records: [u32; 2],
    /// Reads and writes.
    pub sides: [Side; 2],
    pub start_lag: Histogram,
    pub unissued: u64,
    /// Requests in flight when the window ended.
    pub in_flight: u64,
    /// Age of the oldest request without an answer when the window ended.
    pub oldest_pending_ns: u64,
    pub causes: BTreeMap<i32, u64>,
    /// Operation, offset and error number of the first failure.
    pub first_error: Option<(Cow<'static, str>, u64, i32)>,
    pub series: Series,
    /// Database clients: from the start of a transaction to the end of its commit.
    pub transactions: Histogram,
    /// Start (counted from the group's own) and response time of the first requests.
    pub responses: Vec<(u64, u64)>,
    responses_max: usize,
    /// A response is that of a transaction, not of a request.
    client: bool,
    origin_ns: u64,
    failed: u64,
    draining: bool,
    /// Completions before this time need nothing but counting.
    plain_until: u64,
}

impl Tally {
    /// The counts of a worker that moves so many bytes by a read and by a write.
    pub(crate) fn new(records: [u32; 2]) -> Tally {
        Tally {
            records,
            sides: Default::default(),
            start_lag: Histogram::new(),
            unissued: 0,
            in_flight: 0,
            oldest_pending_ns: 0,
            causes: BTreeMap::new(),
            first_error: None,
            series: Series::new(),
            transactions: Histogram::new(),
            responses: Vec::new(),
            responses_max: 0,
            client: false,
            origin_ns: 0,
            failed: 0,
            draining: false,
            plain_until: u64::MAX,
        }
    }

    /// Keeps the response times of so many requests one by one; those of a database `client` are
    /// transactions.
    pub(crate) fn keep_responses(&mut self, count: usize, client: bool) {
        self.responses_max = count;
        self.client = client;
        self.responses.reserve_exact(count);
    }

    /// The clock starts: the gate opened at `gate_ns`, this worker begins `now`.
    pub(crate) fn begin(&mut self, gate_ns: u64, now: u64) {
        self.origin_ns = now;
        self.series.begin(gate_ns, now);
        self.look_ahead();
    }

    fn look_ahead(&mut self) {
        let kept = self.client || self.responses.len() == self.responses_max;
        let plain = !self.draining && kept;
        self.plain_until = if plain { self.series.next_ns() } else { 0 };
    }

    fn ever(&self) -> [Counts; 2] {
        [0, 1].map(|side| self.sides[side].ever(self.records[side]))
    }

    /// The warm-up is over: all counts so far are outside the window.
    pub(crate) fn begin_window(&mut self) {
        self.sides.iter_mut().for_each(Side::leave_out);
        self.start_lag.clear();
        self.transactions.clear();
    }

    /// The window is over: completions from now on only enter latencies and device bytes.
    pub(crate) fn end_window(&mut self, now: u64) {
        let (totals, sides) = (self.ever(), &self.sides);
        self.series.end(now, totals, || latencies_ever(sides));
        self.draining = true;
        self.look_ahead();
    }

    /// A request that has no answer when the window ends.
    pub(crate) fn leave_pending(&mut self, age_ns: u64) {
        self.in_flight += 1;
        self.oldest_pending_ns = self.oldest_pending_ns.max(age_ns);
    }

    /// A transaction that began at `started` is committed.
    pub(crate) fn commit(&mut self, started: u64, now: u64) {
        self.transactions.record(now.saturating_sub(started));
        self.respond(started, now);
    }

    fn respond(&mut self, started: u64, now: u64) {
        if self.responses.len() < self.responses_max {
            let response = (
                started.saturating_sub(self.origin_ns),
                now.saturating_sub(started),
            );
            self.responses.push(response);
        }
    }

    /// Counts a request that completed `now`: `result` is the bytes moved, or a negative error
    /// number. Gives whether it moved the whole record.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        is_write: bool,
        offset: u64,
        result: i32,
        now: u64,
        latency_ns: u64,
    ) -> bool {
        let which = usize::from(is_write);
        if result as u32 == self.records[which] && now < self.plain_until {
            let side = &mut self.sides[which];
            side.operations += 1;
            side.latency.record(latency_ns);
            return true;
        }
        let record = self.records[which];
        self.complete_sized(is_write, offset, (result, record), now, latency_ns)
    }

    /// The same for a request of so many bytes, whatever the record.
    #[cold]
    pub(crate) fn complete_sized(
        &mut self,
        is_write: bool,
        offset: u64,
        (result, size): (i32, u32),
        now: u64,
        latency_ns: u64,
    ) -> bool {
        if !self.draining {
            let (totals, sides) = (self.ever(), &self.sides);
            self.series.advance(now, totals, || latencies_ever(sides));
            if !self.client {
                self.respond(now.saturating_sub(latency_ns), now);
            }
            self.look_ahead();
        }
        let which = usize::from(is_write);
        let side = &mut self.sides[which];
        if result < 0 {
            side.errors += 1;
            self.fail(if is_write { "write" } else { "read" }, offset, -result);
            return false;
        }
        let whole = result as u32 == size;
        side.latency.record(latency_ns);
        if !whole {
            side.short += 1;
            self.failed += 1;
        }
        let record = if whole { self.records[which] } else { 0 };
        let odd_bytes = result as u64 - u64::from(record);
        if self.draining {
            side.outside.0 += u64::from(whole);
            side.outside.1 += odd_bytes;
        } else {
            side.operations += u64::from(whole);
            side.odd_bytes += odd_bytes;
        }
        whole
    }

    /// Counts the cause of a failed operation.
    pub(crate) fn fail(&mut self, operation: &'static str, offset: u64, errno: i32) {
        self.failed += 1;
        *self.causes.entry(errno).or_default() += 1;
        self.first_error
            .get_or_insert((Cow::Borrowed(operation), offset, errno));
    }

    /// An arrival that was due but never issued, of this age.
    pub(crate) fn give_up(&mut self, is_write: bool, age_ns: u64) {
        self.unissued += 1;
        self.oldest_pending_ns = self.oldest_pending_ns.max(age_ns);
        self.sides[usize::from(is_write)].latency.record(age_ns);
    }

    /// Whether there are too many errors to continue.
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
        let mut tally = Tally::new([4096; 2]);
        assert!(tally.complete(false, 0, 4096, 1, 10));
        assert!(!tally.complete(false, 0, 100, 1, 10));
        tally.begin_window();
        assert!(tally.complete(false, 0, 4096, 1, 10));
        assert!(!tally.complete(false, 0, 512, 1, 10));
        tally.end_window(2);
        assert!(tally.complete(false, 0, 4096, 1, 10));
        let reads = &tally.sides[0];
        assert_eq!((reads.operations, reads.short), (1, 1));
        assert_eq!(reads.bytes(4096), 4096 + 512);
        assert_eq!(reads.bytes_ever(4096), 3 * 4096 + 100 + 512);
        assert_eq!(reads.latency.count(), 3);
    }

    #[test]
    fn what_the_ramp_measured_is_in_the_rate_over_time_alone() {
        let mut tally = Tally::new([4096; 2]);
        tally.start_lag.record(7);
        tally.commit(0, 5);
        tally.complete(false, 0, 4096, 1, 10);
        tally.complete(false, 0, -libc::EIO, 1, 10);
        tally.begin_window();
        assert_eq!(tally.sides[0].errors, 0);
        assert_eq!(
            (tally.start_lag.count(), tally.transactions.count()),
            (0, 0)
        );
        tally.complete(false, 0, 4096, 2, 30);
        assert_eq!(tally.sides[0].latency.sum(), 30);
        let [reads, _] = tally.ever();
        assert_eq!((reads.operations, reads.latency_ns), (2, 40));
    }

    #[test]
    fn a_client_responds_by_transactions_alone() {
        let mut tally = Tally::new([4096; 2]);
        tally.keep_responses(4, true);
        tally.complete(false, 0, 100, 1, 10);
        tally.commit(2, 5);
        assert_eq!(tally.responses, [(2, 3)]);
    }

    #[test]
    fn what_has_no_answer_is_as_old_as_the_oldest() {
        let mut tally = Tally::new([4096; 2]);
        [5, 40, 20]
            .iter()
            .for_each(|age_ns| tally.leave_pending(*age_ns));
        assert_eq!((tally.in_flight, tally.oldest_pending_ns), (3, 40));
        tally.give_up(true, 90);
        assert_eq!((tally.unissued, tally.oldest_pending_ns), (1, 90));
        assert_eq!(tally.sides[1].latency.count(), 1);
    }

    #[test]
    fn a_full_disk_stops_at_once_and_other_errors_after_a_hundred() {
        let mut tally = Tally::new([512; 2]);
        for _ in 0..99 {
            tally.complete(true, 512, -libc::EIO, 1, 1);
        }
        assert_eq!(tally.verdict(), None);
        tally.complete(true, 0, -libc::EIO, 1, 1);
        assert_eq!(tally.verdict(), Some(Stop::Errors));
        assert_eq!(tally.first_error, Some(("write".into(), 512, libc::EIO)));
        for (code, name) in [(libc::ENOSPC, "ENOSPC"), (libc::EDQUOT, "EDQUOT")] {
            let mut full = Tally::new([512; 2]);
            full.complete(true, 0, -code, 1, 1);
            assert_eq!(full.verdict(), Some(Stop::NoSpace));
            assert_eq!(full.causes().next(), Some((name.into(), 1)));
        }
    }
}
