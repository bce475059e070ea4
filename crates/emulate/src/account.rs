//! The account of a measured window: what was served, how late, and how deep the queue was.

use schedlab_model::Histogram;
use schedlab_sim::Kind;
use serde::Serialize;

/// A reply is late when it comes later than this, or than the share below, whichever is more.
const LATE_NS: u64 = 20_000;
/// Share of the modelled response, in 1/100.
const LATE_PERCENT: u64 = 5;

/// Counters since the last mark. Times are wall clock, ns.
pub struct Account {
    since_ns: u64,
    served: [u64; 4],
    bytes: [u64; 4],
    modelled: Histogram,
    replied: Histogram,
    lateness: Histogram,
    late: u64,
    reordered: u64,
    depth: u64,
    depth_max: u64,
    depth_area: u128,
    depth_since_ns: u64,
}

/// A request that was answered; wall clock, ns.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// What it was.
    pub kind: Kind,
    /// Its size.
    pub length_bytes: u64,
    /// When it was stamped.
    pub at_ns: u64,
    /// When the model completed it.
    pub due_ns: u64,
    /// How much before that the reply was wanted, to make up for the way to the caller.
    pub lead_ns: u64,
    /// When the reply was sent.
    pub replied_ns: u64,
}

/// An account as it is reported. Times are wall clock; shares are between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Length of the window, s.
    pub elapsed_s: f64,
    /// Reads, writes, discards and flushes that were answered.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// See `reads`.
    pub discards: u64,
    /// See `reads`.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Response by the model: stamp to modelled completion.
    pub modelled: Times,
    /// Response in fact: stamp to reply.
    pub replied: Times,
    /// Reply after the time at which it was to be sent: modelled completion, less the lead.
    pub lateness: Times,
    /// Share of replies that were late.
    pub late_share: f64,
    /// Share of requests that came in after an event which they should have come before.
    pub reordered_share: f64,
    /// Requests in the model, mean over time.
    pub depth_mean: f64,
    /// The most at a time.
    pub depth_max: u64,
}

/// A distribution of times, ns; 0 when nothing was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Exact mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

impl From<&Histogram> for Times {
    fn from(histogram: &Histogram) -> Self {
        Times {
            mean_ns: histogram.mean().unwrap_or(0.0),
            p50_ns: histogram.quantile(0.5).unwrap_or(0),
            p99_ns: histogram.quantile(0.99).unwrap_or(0),
            max_ns: histogram.max().unwrap_or(0),
        }
    }
}

fn place(kind: Kind) -> usize {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Trim => 2,
        Kind::Flush => 3,
    }
}

impl Account {
    /// An empty account that begins at `now_ns` with `depth` requests in the model.
    pub fn new(now_ns: u64, depth: u64) -> Self {
        Account {
            since_ns: now_ns,
            served: [0; 4],
            bytes: [0; 4],
            modelled: Histogram::new(),
            replied: Histogram::new(),
            lateness: Histogram::new(),
            late: 0,
            reordered: 0,
            depth,
            depth_max: depth,
            depth_area: 0,
            depth_since_ns: now_ns,
        }
    }

    /// From `at_ns` on so many requests are in the model.
    pub fn depth(&mut self, at_ns: u64, depth: u64) {
        let since_ns = at_ns.saturating_sub(self.depth_since_ns);
        self.depth_area += u128::from(self.depth) * u128::from(since_ns);
        self.depth_since_ns = self.depth_since_ns.max(at_ns);
        self.depth = depth;
        self.depth_max = self.depth_max.max(depth);
    }

    /// A request came in after an event that it should have come before.
    pub fn reordered(&mut self) {
        self.reordered += 1;
    }

    /// A request was answered. Only reads and writes enter the times: discards and flushes may
    /// cost nothing, and any lateness would be a large share of that.
    pub fn served(&mut self, served: Served) {
        let index = place(served.kind);
        self.served[index] += 1;
        self.bytes[index] += served.length_bytes;
        if !matches!(served.kind, Kind::Read | Kind::Write) {
            return;
        }
        let modelled_ns = served.due_ns.saturating_sub(served.at_ns);
        // A request that takes less than the way cannot be answered before it is there.
        let wanted_ns = served.due_ns.saturating_sub(served.lead_ns);
        let late_ns = served
            .replied_ns
            .saturating_sub(wanted_ns.max(served.at_ns));
        self.modelled.record(modelled_ns);
        self.replied
            .record(served.replied_ns.saturating_sub(served.at_ns));
        self.lateness.record(late_ns);
        self.late += u64::from(late_ns > LATE_NS.max(modelled_ns * LATE_PERCENT / 100));
    }

    /// The figures up to `now_ns`.
    pub fn report(&mut self, now_ns: u64) -> Report {
        self.depth(now_ns, self.depth);
        let elapsed_ns = now_ns.saturating_sub(self.since_ns).max(1);
        let timed = self.lateness.count().max(1) as f64;
        let all = self.served.iter().sum::<u64>().max(1) as f64;
        Report {
            elapsed_s: elapsed_ns as f64 / 1e9,
            reads: self.served[0],
            writes: self.served[1],
            discards: self.served[2],
            flushes: self.served[3],
            read_bytes: self.bytes[0],
            written_bytes: self.bytes[1],
            modelled: (&self.modelled).into(),
            replied: (&self.replied).into(),
            lateness: (&self.lateness).into(),
            late_share: self.late as f64 / timed,
            reordered_share: self.reordered as f64 / all,
            depth_mean: self.depth_area as f64 / elapsed_ns as f64,
            depth_max: self.depth_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read stamped at 0; the times are in µs.
    fn read(due: u64, lead: u64, replied: u64) -> Served {
        Served {
            kind: Kind::Read,
            length_bytes: 4096,
            at_ns: 0,
            due_ns: due * 1000,
            lead_ns: lead * 1000,
            replied_ns: replied * 1000,
        }
    }

    #[test]
    fn a_reply_is_late_beyond_20_us_and_beyond_5_percent() {
        for (due, replied, late) in [(100, 120, 0.0), (100, 121, 1.0), (800, 840, 0.0)] {
            let mut account = Account::new(0, 0);
            account.served(read(due, 0, replied));
            assert_eq!(
                account.report(1_000_000).late_share,
                late,
                "{replied} of {due}"
            );
        }
        let mut account = Account::new(0, 0);
        account.served(read(800, 0, 841));
        assert_eq!(account.report(1_000_000).late_share, 1.0);
    }

    #[test]
    fn lateness_counts_from_when_the_reply_was_wanted() {
        let mut account = Account::new(0, 0);
        account.served(read(800, 30, 780));
        let report = account.report(1_000_000);
        assert_eq!(report.lateness.max_ns, 10_000);
        assert_eq!(
            (report.modelled.max_ns, report.replied.max_ns),
            (800_000, 780_000)
        );
    }

    #[test]
    fn the_depth_is_weighed_by_time_up_to_the_report() {
        let mut account = Account::new(1000, 2);
        account.depth(1100, 6);
        account.depth(1200, 1);
        let report = account.report(2000);
        assert_eq!((report.depth_mean, report.depth_max), (1.6, 6));
        assert_eq!(account.report(3000).depth_mean, (1600.0 + 1000.0) / 2000.0);
        let mut disordered = Account::new(1000, 0);
        disordered.depth(1200, 1);
        disordered.depth(1100, 2);
        assert_eq!(disordered.report(2000).depth_mean, 1.6);
    }

    #[test]
    fn kinds_are_counted_apart_and_only_reads_and_writes_are_timed() {
        let mut account = Account::new(0, 0);
        for (kind, length_bytes, replied_ns) in [
            (Kind::Read, 1, 65_000),
            (Kind::Write, 2, 65_000),
            (Kind::Trim, 4, 500_000),
            (Kind::Trim, 4, 500_000),
            (Kind::Flush, 0, 500_000),
        ] {
            account.served(Served {
                kind,
                length_bytes,
                at_ns: 50_000, // later than its reply was wanted
                due_ns: 60_000,
                lead_ns: 30_000,
                replied_ns,
            });
        }
        let report = account.report(1_000_000);
        let counts = [report.reads, report.writes, report.discards, report.flushes];
        assert_eq!(counts, [1, 1, 2, 1]);
        assert_eq!((report.read_bytes, report.written_bytes), (1, 2));
        assert_eq!((report.lateness.max_ns, report.late_share), (15_000, 0.0));
    }
}
