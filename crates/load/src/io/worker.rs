//! One worker: what it owns before the clock starts, and the measured window as it sees it.
//!
//! **Threads or processes.** A worker is a thread of the process that holds the Python interpreter,
//! or (`process`) a process, forked by [`super::process`]. A thread starts faster, needs
//! no memory to be copied and has its own I/O context (`CLONE_IO` is not set), so bfq gives it its
//! own queue; its CPU time is counted apart (`RUSAGE_THREAD`). What threads would share is taken
//! apart: each has its own open file, buffers, ring, counters and, by `unshare(CLONE_FILES)`, its
//! own file table. Only a process can have its own cgroup, without which weights
//! and limits cannot be seen.

use std::sync::Arc;

use schedlab_model::{Schedule, Step, Steps};
use serde::{Deserialize, Serialize};

use super::error::IoError;
use super::job::{AtEnd, Group, Job};
use super::payload::Payload;
use super::prepare;
use super::result::Prepared;
use super::shared::Control;
use super::tally::{Stop, Tally};
use super::target::{LogTarget, Target};
use crate::clock::{self, Cpu};

/// CPU use and clock at one moment.
#[derive(Clone, Copy, Default)]
struct Moment {
    time: u64,
    cpu: Cpu,
    schedstat: Option<(u64, u64)>,
}

impl Moment {
    fn now(time: u64) -> Moment {
        Moment {
            time,
            cpu: clock::thread_cpu(),
            schedstat: clock::thread_schedstat(),
        }
    }
}

/// What the measured window of a worker cost.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub elapsed_ns: u64,
    /// Both ends of the window, of the monotonic clock.
    pub window: (u64, u64),
    pub cpu: Cpu,
    /// CPU time over wall time.
    pub cpu_share: f64,
    /// Time running or ready to run over wall time: near 1 the worker itself is the limit.
    pub runnable_share: Option<f64>,
}

/// Clock and CPU time at both ends of the measured window.
#[derive(Clone, Copy, Default)]
pub(crate) struct Meter {
    began: Moment,
    ended: Moment,
}

impl Meter {
    /// Moves the end of the window to now: fsync or close count, too.
    pub(crate) fn extend(&mut self) {
        self.ended = Moment::now(clock::now());
    }

    /// What the window cost.
    pub(crate) fn usage(&self) -> Usage {
        let (began, ended) = (self.began, self.ended);
        let elapsed_ns = ended.time.saturating_sub(began.time);
        let cpu = ended.cpu.since(began.cpu);
        let share = |ns: u64| (ns as f64 / elapsed_ns.max(1) as f64).min(1.0);
        let both = ended.schedstat.zip(began.schedstat);
        let precise = both.map(|(end, begin)| share(end.0.saturating_sub(begin.0)));
        Usage {
            elapsed_ns,
            window: (began.time, ended.time),
            cpu,
            cpu_share: precise.unwrap_or(share(cpu.user + cpu.system)),
            runnable_share: both
                .map(|(end, begin)| share((end.0 + end.1).saturating_sub(begin.0 + begin.1))),
        }
    }
}

/// How long a worker sleeps without looking at what the main thread wants.
const SLICE_NS: u64 = 20_000_000;

/// Everything that a worker needs in its hot loop.
pub(crate) struct Worker {
    pub group: Arc<Group>,
    pub target: Target,
    pub steps: Steps,
    pub schedule: Option<Schedule>,
    pub payload: Payload,
    pub tally: Tally,
    pub log: Option<LogTarget>,
    pub prepared: Prepared,
    pub control: Arc<Control>,
    /// Number of the group.
    pub index: usize,
    record: u64,
    start_after_ns: u64,
    ramp_ns: u64,
    window_ns: Option<u64>,
    /// The next time at which `turn` has something to do.
    next_event: u64,
    ramping: bool,
    pub meter: Meter,
}

impl Worker {
    /// Opens the target and prepares orders and marks.
    pub(crate) fn prepare(
        job: &Job,
        index: usize,
        group: &Arc<Group>,
        number: u32,
        control: &Arc<Control>,
    ) -> Result<Worker, IoError> {
        let workload = group.workload_of(number);
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let target = Target::open(group, number)?;
        let log = LogTarget::open(group)?;
        let log_record = group.log.as_ref().map_or(workload.record, |log| log.record);
        let records = [workload.record.0 as u32, log_record.0 as u32];
        // The requests of a replay have sizes of their own.
        let records = if group.replay.is_some() {
            [0; 2]
        } else {
            records
        };
        let mut tally = Tally::new(records);
        if let Some(count) = group.requests {
            tally.keep_responses(count as usize, log.is_some());
        }
        Ok(Worker {
            prepared: prepare::region(group, &target)?,
            target,
            log,
            index,
            steps: Steps::new(&workload, group.steps(job.seconds.is_some())),
            schedule: Schedule::new(workload.arrivals, workload.seed),
            payload: Payload::new(group.workload.seed),
            tally,
            group: Arc::clone(group),
            control: Arc::clone(control),
            record: workload.record.0,
            start_after_ns: group.start_after_ms * 1_000_000,
            ramp_ns: ns(job.ramp_seconds),
            window_ns: job.seconds.map(ns),
            next_event: 0,
            ramping: true,
            meter: Meter::default(),
        })
    }

    /// A newcomer waits until it is its time, or until the job is over.
    fn await_turn(&self, gate_ns: u64) {
        let start = gate_ns + self.start_after_ns;
        while self.start_after_ns > 0 && self.control.stop().is_none() {
            let now = clock::now();
            if now >= start {
                return;
            }
            clock::sleep_until(start.min(now + SLICE_NS));
        }
    }

    /// Starts the worker's clock; the job's clock started at `gate_ns`.
    pub(crate) fn begin(&mut self, gate_ns: u64) -> u64 {
        if self.schedule.is_some() || self.group.replay.is_some() {
            // Timers of this thread fire when due, not up to 50 µs later.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        self.await_turn(gate_ns);
        let now = clock::now();
        if let Some(schedule) = &mut self.schedule {
            schedule.begin(now);
        }
        self.tally.begin(gate_ns, now);
        self.ramping = self.ramp_ns > 0 && self.start_after_ns == 0;
        self.next_event = gate_ns + self.ramp_ns;
        if !self.ramping {
            self.open_window(now, self.next_event);
        }
        now
    }

    fn open_window(&mut self, now: u64, window_start: u64) {
        self.ramping = false;
        self.tally.begin_window();
        self.next_event = self.window_ns.map_or(u64::MAX, |ns| window_start + ns);
        self.meter.began = Moment::now(now);
    }

    /// Whether to continue, by the time, the main thread and the errors so far; or why to stop.
    #[inline]
    pub(crate) fn turn(&mut self, now: u64) -> Option<Stop> {
        if now >= self.next_event {
            if !self.ramping {
                return Some(Stop::Time);
            }
            self.open_window(now, self.next_event);
        }
        self.control.stop().or_else(|| self.tally.verdict())
    }

    /// The same where completions that are seen `now` are counted after it: the window begins when
    /// the ramp ends, also if a stall lets nothing be seen until later.
    #[inline]
    pub(crate) fn turn_before_counting(&mut self, now: u64) -> Option<Stop> {
        let (ramping, ramp_end) = (self.ramping, self.next_event);
        let stop = self.turn(now);
        if ramping && !self.ramping {
            self.meter.began.time = ramp_end;
        }
        stop
    }

    /// Ends the measured window; completions after this are only awaited.
    pub(crate) fn close_window(&mut self, now: u64) {
        if self.ramping {
            self.open_window(now, now);
        }
        self.tally.end_window(now);
        self.meter.ended = Moment::now(now);
    }

    /// The time until which a worker without work may sleep.
    pub(crate) fn sleep_limit(&self, now: u64) -> u64 {
        self.next_event.min(now + SLICE_NS)
    }

    /// The next record and its offset in the file; nothing after the pass.
    #[inline]
    pub(crate) fn draw(&mut self) -> Option<(Step, u64)> {
        let step = loop {
            if let Some(step) = self.steps.next() {
                break step;
            }
            self.begin_anew()?;
        };
        let offset = self.target.offset + u64::from(step.record) * self.record;
        Some((step, offset))
    }

    /// After a pass whose end drops the cache, lets the next one be drawn.
    #[cold]
    fn begin_anew(&mut self) -> Option<()> {
        let again = self.group.at_end == AtEnd::Drop && self.window_ns.is_some();
        if !again || self.group.requests.is_some() {
            return None;
        }
        let dropped = prepare::drop_cache(&self.target, &self.group);
        if let Err(errno) = dropped {
            let (offset, errno) = (self.target.offset, errno.raw_os_error());
            self.tally.fail("drop the cache", offset, errno);
            return None;
        }
        self.steps.allow(self.group.records_per_worker());
        Some(())
    }

    /// Open loop: counts the arrivals that were due when time ran out.
    pub(crate) fn give_up_backlog(&mut self, end: u64) {
        let Some(schedule) = &mut self.schedule else {
            return;
        };
        while schedule.due() < end {
            let Some(step) = self.steps.next() else {
                return;
            };
            self.tally.give_up(step.is_write, end - schedule.due());
            schedule.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A worker of a window of 10 s after `ramp_seconds`, one record of /dev/null.
    fn worker(ramp_seconds: f64, start_after_ms: u64) -> Worker {
        let job = serde_json::json!({
            "seconds": 10.0, "ramp_seconds": ramp_seconds,
            "groups": [{
                "name": "g", "path": "/dev/null", "engine": "psync",
                "start_after_ms": start_after_ms,
                "workload": {"pattern": {"kind": "sequential"}, "direction": {"kind": "write"},
                             "record": 4096, "span": 4096,
                             "arrivals": {"kind": "constant", "rate_per_s": 100}, "seed": 5}}]
        });
        let job = Job::from_json(&job.to_string()).unwrap();
        let control = Arc::new(Control::new(-1).unwrap());
        Worker::prepare(&job, 0, &Arc::new(job.groups[0].clone()), 0, &control).unwrap()
    }

    #[test]
    fn who_begins_late_ends_with_the_others() {
        for start_after_ms in [0, 4000] {
            let mut worker = worker(0.0, start_after_ms);
            let gate_ns = clock::now() - 5000 * MS;
            let begun = worker.begin(gate_ns);
            assert!(begun >= gate_ns + 5000 * MS);
            assert!(worker.schedule.as_ref().unwrap().due() >= begun);
            assert_eq!(worker.turn(gate_ns + 10_000 * MS - 1), None);
            assert_eq!(worker.turn(gate_ns + 10_000 * MS), Some(Stop::Time));
            worker.close_window(gate_ns + 10_000 * MS);
            // What it cost is of the time in which it ran.
            let usage = worker.meter.usage();
            assert_eq!(usage.window, (begun, gate_ns + 10_000 * MS));
        }
    }

    #[test]
    fn the_window_begins_where_the_ramp_of_all_ends() {
        let mut worker = worker(2.0, 0);
        let gate_ns = clock::now() - 500 * MS;
        worker.begin(gate_ns);
        worker.tally.complete(true, 0, 4096, gate_ns + 1999 * MS, 7);
        assert_eq!(worker.turn(gate_ns + 2000 * MS - 1), None);
        assert_eq!(worker.tally.sides[1].operations, 1);
        // A request that ended 300 ms later is the first sight of the ramp's end.
        assert_eq!(worker.turn(gate_ns + 2300 * MS), None);
        assert_eq!(worker.tally.sides[1].operations, 0);
        assert_eq!(worker.turn(gate_ns + 12_000 * MS - 1), None);
        assert_eq!(worker.turn(gate_ns + 12_000 * MS), Some(Stop::Time));
    }

    #[test]
    fn a_stall_at_the_end_of_the_ramp_is_in_the_window() {
        let mut worker = worker(2.0, 0);
        let gate_ns = clock::now() - 500 * MS;
        worker.begin(gate_ns);
        assert_eq!(worker.turn_before_counting(gate_ns + 2000 * MS - 1), None);
        // What ended before 6.3 s is seen then.
        assert_eq!(worker.turn_before_counting(gate_ns + 6300 * MS), None);
        worker.tally.complete(true, 0, 4096, gate_ns + 6300 * MS, 7);
        assert_eq!(worker.tally.sides[1].operations, 1);
        assert_eq!(worker.turn_before_counting(gate_ns + 7000 * MS), None);
        worker.close_window(gate_ns + 12_000 * MS);
        let window = (gate_ns + 2000 * MS, gate_ns + 12_000 * MS);
        assert_eq!(worker.meter.usage().window, window);
    }

    #[test]
    fn a_newcomer_has_no_ramp() {
        let mut worker = worker(2.0, 100);
        let gate_ns = clock::now() - 500 * MS;
        worker.begin(gate_ns);
        worker.tally.complete(true, 0, 4096, gate_ns + 600 * MS, 7);
        assert_eq!(worker.turn(gate_ns + 2500 * MS), None);
        assert_eq!(worker.tally.sides[1].operations, 1);
    }
}
