//! `pread` and `pwrite`, one request at a time. One clock read per request: the completion of one
//! is the start of the next.

use rustix::io::{pread, pwrite};
use schedlab_model::{Schedule, Step};

use crate::clock;
use crate::io::buffer::Region;
use crate::io::error::IoError;
use crate::io::tally::Stop;
use crate::io::worker::Worker;

/// The one buffer that requests move.
pub(crate) struct Psync {
    region: Region,
}

impl Psync {
    pub(crate) fn prepare(worker: &Worker) -> Result<Psync, IoError> {
        let workload = &worker.group.workload;
        let region = Region::new(1, workload.record.0 as usize, workload.seed)
            .map_err(worker.target.failed("allocate buffers"))?;
        Ok(Psync { region })
    }

    pub(crate) fn run(&mut self, worker: &mut Worker, gate_ns: u64) -> Stop {
        if worker.log.is_some() {
            return self.run_client(worker, gate_ns);
        }
        one_at_a_time(worker, gate_ns, |worker, step, offset, started| {
            let buffer = self.region.slot(0);
            worker.payload.prepare(step, buffer);
            let moved = if step.is_write {
                pwrite(&worker.target.file, buffer, offset)
            } else {
                pread(&worker.target.file, &mut *buffer, offset)
            };
            let now = clock::now();
            let result = moved.map_or_else(|errno| -errno.raw_os_error(), |bytes| bytes as i32);
            let latency = now.saturating_sub(started);
            worker
                .tally
                .complete(step.is_write, offset, result, now, latency);
            now
        })
    }

    /// A database client: some random reads, then an append to the log and its `fdatasync`.
    fn run_client(&mut self, worker: &mut Worker, gate_ns: u64) -> Stop {
        let reads = worker.group.log.as_ref().map_or(0, |log| log.reads);
        let mut number = 0;
        one_at_a_time(worker, gate_ns, |worker, _, first, start_ns| {
            let (mut now, mut offset) = (start_ns, Some(first));
            for _ in 0..reads {
                let Some(at) = offset.take().or_else(|| worker.draw().map(|(_, at)| at)) else {
                    break;
                };
                let moved = pread(&worker.target.file, self.region.slot(0), at);
                let result = moved.map_or_else(|errno| -errno.raw_os_error(), |n| n as i32);
                let end_ns = clock::now();
                worker
                    .tally
                    .complete(false, at, result, end_ns, end_ns.saturating_sub(now));
                now = end_ns;
            }
            number += 1;
            let index = worker.index;
            let result = match &mut worker.log {
                Some(log) => log.append(number, &worker.control, index),
                None => -libc::EBADF,
            };
            let end_ns = clock::now();
            let latency = end_ns.saturating_sub(now);
            if worker.tally.complete(true, 0, result, end_ns, latency) {
                worker.tally.commit(start_ns, end_ns);
            }
            end_ns
        })
    }
}

/// The loop of every engine with one request in flight. `request` gets its start, the intended one
/// where requests arrive by a schedule, and gives the time after it.
#[inline]
pub(crate) fn one_at_a_time(
    worker: &mut Worker,
    gate_ns: u64,
    mut request: impl FnMut(&mut Worker, Step, u64, u64) -> u64,
) -> Stop {
    let mut now = worker.begin(gate_ns);
    let stop = loop {
        if let Some(stop) = worker.turn(now) {
            break stop;
        }
        let due = worker.schedule.as_ref().map_or(now, Schedule::due);
        if due > now {
            clock::sleep_until(due.min(worker.sleep_limit(now)));
            now = clock::now();
            continue;
        }
        let Some((step, offset)) = worker.draw() else {
            break Stop::Pass;
        };
        if let Some(schedule) = &mut worker.schedule {
            schedule.advance();
            worker.tally.start_lag.record(now - due);
        }
        now = request(worker, step, offset, due);
    };
    worker.close_window(now);
    if stop == Stop::Time {
        worker.give_up_backlog(now);
    }
    stop
}
