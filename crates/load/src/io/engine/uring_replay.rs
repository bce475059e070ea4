//! io_uring with the requests of a recorded stream: each has its own size, kind and time.
//!
//! Data that the page cache wrote back is written through it again, and written back by
//! `sync_file_range`, because a direct write is always synchronous for the schedulers
//! (`op_is_sync`), and kyber, bfq and wbt treat the two differently.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use schedlab_model::{Action, Course, ScriptStep, Step, Timing};

use super::queue::{Queue, Slot};
use crate::clock;
use crate::io::error::IoError;
use crate::io::job::{Group, Replay};
use crate::io::tally::Stop;
use crate::io::target::Target;
use crate::io::worker::Worker;

const PAGE: u64 = 4096;
/// The parts of a write-back: into the page cache, on its way, on the device.
const WRITTEN_BACK: u8 = 2;

/// What the requests of a replay have in common.
struct Replayer {
    course: Course,
    timing: Timing,
    /// Part of its work that each slot does.
    parts: Vec<u8>,
    free: Vec<usize>,
    file: i32,
    cached: Option<OwnedFd>,
    record: u64,
    written: u64,
}

/// Replays the stream until the time is over.
pub(crate) fn run(
    queue: &mut Queue<'_>,
    worker: &mut Worker,
    gate_ns: u64,
    replay: &Replay,
) -> Result<Stop, IoError> {
    let slots = queue.slots.len();
    let mut replayer = Replayer {
        course: Course::new(Arc::clone(&replay.script), replay.timing),
        timing: replay.timing,
        parts: vec![0; slots],
        free: (0..slots).rev().collect(),
        file: worker.target.file.as_raw_fd(),
        cached: cached_file(&worker.group, replay)?,
        record: worker.group.workload.record.0,
        written: 0,
    };
    let mut now = worker.begin(gate_ns);
    replayer.course.begin(gate_ns);
    let mut stop = None;
    loop {
        if stop.is_none() {
            replayer.start_due(queue, worker, now);
        }
        if stop.is_some() && *queue.in_flight == 0 {
            return Ok(stop.unwrap_or(Stop::Time));
        }
        let due_ns = replayer
            .course
            .due()
            .filter(|_| stop.is_none() && !replayer.free.is_empty());
        let until_ns = due_ns.map(|due_ns| due_ns.min(worker.sleep_limit(now)));
        queue.enter(1, until_ns.map(|until_ns| until_ns.saturating_sub(now)))?;
        now = clock::now();
        let stops_now = stop.is_none();
        stop = stop.or_else(|| worker.turn_before_counting(now));
        replayer.reap(queue, worker, now);
        if let Some(reason) = stop.filter(|_| stops_now) {
            queue.close_window(worker, now);
            if reason == Stop::Time && replay.timing == Timing::Open {
                replayer.give_up_backlog(worker, now);
            }
        }
    }
}

/// A flush of the device's cache. An fsync of the whole device would write back and await all that
/// other streams have in the page cache; that of its first byte awaits one page at most.
fn flush(file: types::Fd) -> squeue::Entry {
    let mut entry = opcode::Fsync::new(file).build();
    // SAFETY: `Entry` is `repr(C)` around the kernel's `struct io_uring_sqe`, 64 bytes aligned to
    // 8, whose `len` is at byte 24 (linux/io_uring.h, a stable ABI).
    unsafe {
        (&mut entry as *mut squeue::Entry)
            .cast::<u32>()
            .add(6)
            .write(1)
    };
    entry
}

/// The target through the page cache, where the stream writes through it.
fn cached_file(group: &Group, replay: &Replay) -> Result<Option<OwnedFd>, IoError> {
    let is_back = |step: &ScriptStep| step.action == Action::WriteBack;
    if !replay.script.steps.iter().any(is_back) {
        return Ok(None);
    }
    let cached = Group {
        direct: false,
        ..group.clone()
    };
    Target::open(&cached, 0).map(|target| Some(target.file))
}

impl Replayer {
    fn start_due(&mut self, queue: &mut Queue<'_>, worker: &mut Worker, now: u64) {
        while let Some(slot) = self.free.pop() {
            let Some((number, due_ns)) = self.course.start(now) else {
                self.free.push(slot);
                return;
            };
            worker.tally.start_lag.record(now - due_ns);
            let started = if self.timing == Timing::Open {
                due_ns
            } else {
                now
            };
            self.parts[slot] = 0;
            self.submit(queue, slot, number, started);
        }
    }

    /// Hands the next part of a request over.
    fn submit(&mut self, queue: &mut Queue<'_>, slot: usize, number: u32, started: u64) {
        let step = *self.course.step(number);
        let entry = self.entry(queue, &step, self.parts[slot]);
        let request = Slot {
            started,
            offset: step.offset,
            step: Step {
                record: number,
                is_write: step.action != Action::Read,
            },
        };
        queue.push(slot, request, &entry.user_data(slot as u64));
    }

    fn entry(&mut self, queue: &Queue<'_>, step: &ScriptStep, part: u8) -> squeue::Entry {
        let (file, size) = (types::Fd(self.file), step.bytes);
        let cached = types::Fd(self.cached.as_ref().map_or(self.file, AsRawFd::as_raw_fd));
        let (read, write) = queue.shared_buffers();
        let back = |flags| {
            opcode::SyncFileRange::new(cached, size)
                .offset(step.offset)
                .flags(flags)
        };
        match (step.action, part) {
            (Action::Read, _) => opcode::Read::new(file, read, size)
                .offset(step.offset)
                .build(),
            (Action::Flush, _) => flush(file),
            (Action::WriteBack, 1) => back(libc::SYNC_FILE_RANGE_WRITE).build(),
            (Action::WriteBack, 2) => back(libc::SYNC_FILE_RANGE_WAIT_AFTER).build(),
            (action, _) => {
                // Other random bytes than those of the write before.
                self.written += 1;
                let shift = self.written * PAGE % self.record.next_multiple_of(PAGE);
                // SAFETY: the buffer is two records long, and the shift less than one.
                let data = unsafe { write.add(shift as usize) };
                let file = if action == Action::WriteBack {
                    cached
                } else {
                    file
                };
                let flags = if step.durable { libc::RWF_DSYNC } else { 0 };
                let write = opcode::Write::new(file, data, size).offset(step.offset);
                write.rw_flags(flags).build()
            }
        }
    }

    /// Counts what has completed, and goes on with what has more parts.
    fn reap(&mut self, queue: &mut Queue<'_>, worker: &mut Worker, now: u64) {
        while let Some(completion) = queue.next_completion() {
            let Some((slot, request)) = queue.take(&completion) else {
                continue;
            };
            let number = request.step.record;
            let step = *self.course.step(number);
            let mut result = completion.result();
            if step.action == Action::WriteBack {
                // A short write into the page cache is counted as it is.
                let goes_on = self.parts[slot] > 0 && result == 0 || result == step.bytes as i32;
                if goes_on && self.parts[slot] < WRITTEN_BACK {
                    self.parts[slot] += 1;
                    self.submit(queue, slot, number, request.started);
                    continue;
                }
                if goes_on {
                    result = step.bytes as i32;
                }
            }
            self.count(worker, &request, &step, result, now);
            self.course.end(number, now);
            self.free.push(slot);
        }
    }

    fn count(&self, worker: &mut Worker, request: &Slot, step: &ScriptStep, result: i32, now: u64) {
        let offset = step.offset;
        if step.action == Action::Flush {
            if result < 0 {
                worker.tally.fail("fsync", offset, -result);
            }
            return;
        }
        let latency_ns = now.saturating_sub(request.started);
        let moved = (result, step.bytes);
        worker
            .tally
            .complete_sized(request.step.is_write, offset, moved, now, latency_ns);
    }

    /// Counts the requests that were due when time ran out.
    fn give_up_backlog(&mut self, worker: &mut Worker, end_ns: u64) {
        while let Some((number, due_ns)) = self.course.start(end_ns.saturating_sub(1)) {
            let step = self.course.step(number);
            if step.action != Action::Flush {
                worker
                    .tally
                    .give_up(step.action != Action::Read, end_ns - due_ns);
            }
        }
    }
}
