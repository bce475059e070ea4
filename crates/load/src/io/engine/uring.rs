//! io_uring with a queue: the hot loop.
//!
//! Per request only offset and slot are written into a prebuilt entry; buffers, file and ring are
//! registered; one system call hands over a batch and waits for the next; one clock read per batch
//! is both the completion of what was reaped and the start of what is handed over next (so latency
//! begins before the submission). Nothing is allocated or locked inside the window.
//!
//! A worker that waits for a stalled device is woken by a poll request on an eventfd, so the loop
//! needs no timeouts (each would cost a timer per wait).

use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::{opcode, squeue, types, IoUring};

use super::queue::{Queue, Slot};
use super::ring;
use super::{uring_open, uring_replay};
use crate::clock;
use crate::io::buffer::Region;
use crate::io::error::IoError;
use crate::io::job::{Clock, Group};
use crate::io::result::RingFacts;
use crate::io::tally::Stop;
use crate::io::worker::Worker;

/// Registering one buffer beyond this size is refused by the kernel.
const REGISTER_MAX: usize = 1 << 30;
/// A ring, its buffers and its prebuilt entries.
pub(crate) struct Uring {
    ring: IoUring,
    region: ManuallyDrop<Region>,
    slots: Vec<Slot>,
    /// Per slot the entry of a read and the entry of a write.
    entries: Vec<[squeue::Entry; 2]>,
    in_flight: u32,
    wake: i32,
    pub(crate) facts: RingFacts,
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write into the buffers of requests that were not awaited.
        if self.in_flight == 0 {
            // SAFETY: dropped once, here; nothing uses the region afterwards.
            unsafe { ManuallyDrop::drop(&mut self.region) };
        }
    }
}

impl Uring {
    /// Sets up ring, buffers and entries for a worker.
    pub(crate) fn prepare(worker: &Worker, wake: i32) -> Result<Uring, IoError> {
        let group = &worker.group;
        let record = group.workload.record.0 as usize;
        let region = Region::new(group.buffers(), record, group.workload.seed)
            .map_err(worker.target.failed("allocate buffers"))?;
        let (ring, flags) = ring::build(group.slots() + 1)?;
        let mut facts = RingFacts {
            flags,
            ..RingFacts::default()
        };
        let file = worker.target.file.as_raw_fd();
        if group.registered {
            let memory = region.iovec();
            // SAFETY: the region outlives the ring's use of it (see `Drop`).
            facts.registered_buffers = memory.iov_len <= REGISTER_MAX
                && unsafe { ring.submitter().register_buffers(&[memory]) }.is_ok();
            facts.registered_file = ring.submitter().register_files(&[file]).is_ok();
        }
        let prebuilt = group.replay.as_ref().map_or(group.slots() as usize, |_| 0);
        let entries = (0..prebuilt)
            .map(|slot| build_entries(slot, &region, group, file, &facts))
            .collect();
        let mut uring = Uring::assemble(ring, region, entries, wake, facts);
        uring.slots = vec![Slot::EMPTY; group.slots() as usize];
        Ok(uring)
    }

    /// A ring whose requests do nothing, to measure the engine itself.
    pub(crate) fn prepare_idle(slots: u32, ring_entries: u32) -> Result<Uring, IoError> {
        let region = Region::new(slots, 512, 0).map_err(|errno| IoError::Ring {
            operation: "allocate buffers",
            errno,
        })?;
        let (ring, flags) = ring::build(ring_entries)?;
        let facts = RingFacts {
            flags,
            ..RingFacts::default()
        };
        let idle = |slot| opcode::Nop::new().build().user_data(slot);
        let entries = (0..u64::from(slots))
            .map(|slot| [idle(slot), idle(slot)])
            .collect();
        Ok(Uring::assemble(ring, region, entries, -1, facts))
    }

    fn assemble(
        ring: IoUring,
        region: Region,
        entries: Vec<[squeue::Entry; 2]>,
        wake: i32,
        facts: RingFacts,
    ) -> Uring {
        Uring {
            slots: vec![Slot::EMPTY; entries.len()],
            region: ManuallyDrop::new(region),
            in_flight: 0,
            ring,
            entries,
            wake,
            facts,
        }
    }

    /// Runs the worker's requests; all of them are awaited before it returns without error.
    pub(crate) fn run(&mut self, worker: &mut Worker, gate_ns: u64) -> Result<Stop, IoError> {
        let batch = worker.group.batch;
        let per_completion = worker.group.clock == Clock::Completion;
        let (submitter, submissions, completions) = self.ring.split();
        let mut queue = Queue {
            submitter,
            submissions,
            completions,
            region: &mut self.region,
            slots: &mut self.slots,
            entries: &self.entries,
            in_flight: &mut self.in_flight,
            enters: 0,
        };
        self.facts.registered_ring = queue.submitter.register_ring_fd().is_ok();
        if self.wake >= 0 {
            queue.watch(self.wake);
        }
        let stop = if let Some(replay) = worker.group.replay.clone() {
            uring_replay::run(&mut queue, worker, gate_ns, &replay)
        } else if worker.schedule.is_some() {
            uring_open::run(&mut queue, worker, gate_ns)
        } else {
            run_closed(&mut queue, worker, gate_ns, batch, per_completion)
        };
        self.facts.enters = queue.enters;
        stop
    }
}

/// The two entries of a slot, with everything but the offset.
fn build_entries(
    slot: usize,
    region: &Region,
    group: &Group,
    file: i32,
    facts: &RingFacts,
) -> [squeue::Entry; 2] {
    let (pointer, length) = (region.pointer(slot), group.workload.record.0 as u32);
    macro_rules! both {
        ($fd:expr) => {
            if facts.registered_buffers {
                [
                    opcode::ReadFixed::new($fd, pointer, length, 0).build(),
                    opcode::WriteFixed::new($fd, pointer, length, 0).build(),
                ]
            } else {
                [
                    opcode::Read::new($fd, pointer, length).build(),
                    opcode::Write::new($fd, pointer, length).build(),
                ]
            }
        };
    }
    let entries = if facts.registered_file {
        both!(types::Fixed(0))
    } else {
        both!(types::Fd(file))
    };
    entries.map(|entry| entry.user_data(slot as u64))
}

/// Closed loop: every completion makes room for the next request.
fn run_closed(
    queue: &mut Queue<'_>,
    worker: &mut Worker,
    gate_ns: u64,
    batch: u32,
    per_completion: bool,
) -> Result<Stop, IoError> {
    let mut now = worker.begin(gate_ns);
    let mut stop = None;
    let mut closed = false;
    for slot in 0..queue.slots.len() {
        if !queue.arm(worker, slot, now) {
            stop = Some(Stop::Pass);
            break;
        }
    }
    while *queue.in_flight > 0 {
        queue.enter(batch.min(*queue.in_flight), None)?;
        now = clock::now();
        stop = stop.or_else(|| worker.turn_before_counting(now));
        while let Some(completion) = queue.next_completion() {
            let now = if per_completion { clock::now() } else { now };
            let Some(slot) = queue.complete(worker, &completion, now) else {
                continue;
            };
            if stop.is_none() && !queue.arm(worker, slot, now) {
                stop = Some(Stop::Pass);
            }
        }
        if !closed && stop.is_some_and(|stop| stop != Stop::Pass) {
            queue.close_window(worker, now);
            closed = true;
        }
    }
    if !closed {
        worker.close_window(now);
    }
    Ok(stop.unwrap_or(Stop::Pass))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::event::{eventfd, EventfdFlags};

    use super::*;
    use crate::io::job::Job;
    use crate::io::shared::Control;

    /// Runs requests that are answered after 0.4 s in a window that ends after 0.1 s; nothing
    /// where io_uring is refused.
    fn run_unanswered(arrivals: serde_json::Value) -> Option<Worker> {
        let job = serde_json::json!({"seconds": 60.0, "groups": [{
            "name": "g", "path": "/dev/null", "engine": "io_uring", "max_in_flight": 8,
            "workload": {"pattern": {"kind": "same"}, "direction": {"kind": "write"},
                         "record": 4096, "span": 4096, "arrivals": arrivals, "seed": 5}}]});
        let job = Job::from_json(&job.to_string()).unwrap();
        let group = Arc::new(job.groups[0].clone());
        let event = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let (wake, answer) = (event(), event());
        let control = Arc::new(Control::new(wake.as_raw_fd()).unwrap());
        let mut worker = Worker::prepare(&job, 0, &group, 0, &control).unwrap();
        let mut engine = match Uring::prepare(&worker, wake.as_raw_fd()) {
            Err(IoError::RingRefused { errno }) => {
                println!("skipped: io_uring refused: {errno}");
                return None;
            }
            engine => engine.unwrap(),
        };
        let answered = types::Fd(answer.as_raw_fd());
        let poll = opcode::PollAdd::new(answered, libc::POLLIN as u32).build();
        for (slot, entries) in (0..).zip(&mut engine.entries) {
            *entries = [0, 1].map(|_| poll.clone().user_data(slot));
        }
        let gate_ns = clock::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let one = 1u64.to_ne_bytes();
                clock::sleep_until(gate_ns + 100_000_000);
                control.time_over();
                rustix::io::write(&wake, &one).unwrap();
                clock::sleep_until(gate_ns + 400_000_000);
                rustix::io::write(&answer, &one).unwrap();
            });
            let stop = engine.run(&mut worker, gate_ns).unwrap();
            assert_eq!(stop, Stop::Time);
        });
        Some(worker)
    }

    #[test]
    fn requests_without_an_answer_are_as_old_as_the_window_when_it_ends() {
        for (arrivals, requests) in [
            (serde_json::json!({"kind": "closed", "depth": 3}), 3),
            // One is due at once, the next one 100 s later.
            (
                serde_json::json!({"kind": "constant", "rate_per_s": 0.01}),
                1,
            ),
        ] {
            let Some(worker) = run_unanswered(arrivals.clone()) else {
                return;
            };
            let tally = &worker.tally;
            assert_eq!((tally.in_flight, tally.unissued), (requests, 0));
            let age_ms = tally.oldest_pending_ns / 1_000_000;
            assert!((50..400).contains(&age_ms), "{arrivals}: {age_ms} ms");
            assert_eq!(tally.sides[1].operations, 0);
        }
    }
}
