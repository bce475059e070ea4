//! io_uring in an open loop: requests are issued when they are due, even if the device is late, and
//! latency counts from that time.

use super::queue::Queue;
use crate::clock;
use crate::io::error::IoError;
use crate::io::tally::Stop;
use crate::io::worker::Worker;

/// Issues due requests while slots are free, and sleeps until the next is due or one completes.
pub(crate) fn run(
    queue: &mut Queue<'_>,
    worker: &mut Worker,
    gate_ns: u64,
) -> Result<Stop, IoError> {
    let mut free: Vec<usize> = (0..queue.slots.len()).rev().collect();
    let mut now = worker.begin(gate_ns);
    let mut stop = None;
    loop {
        if stop.is_none() {
            stop = worker
                .turn(now)
                .or_else(|| issue_due(queue, worker, &mut free, now));
            match stop {
                None | Some(Stop::Pass) => {}
                Some(reason) => {
                    queue.close_window(worker, now);
                    if reason == Stop::Time {
                        worker.give_up_backlog(now);
                    }
                }
            }
        }
        if stop.is_some() && *queue.in_flight == 0 {
            break;
        }
        queue.enter(1, timeout(worker, stop, free.is_empty(), now))?;
        now = clock::now();
        while let Some(completion) = queue.next_completion() {
            free.extend(queue.complete(worker, &completion, now));
        }
    }
    if stop == Some(Stop::Pass) {
        worker.close_window(now);
    }
    Ok(stop.unwrap_or(Stop::Pass))
}

/// How long to wait for a completion: until the next request is due, if it could be issued then.
fn timeout(worker: &Worker, stop: Option<Stop>, full: bool, now: u64) -> Option<u64> {
    let schedule = worker
        .schedule
        .as_ref()
        .filter(|_| stop.is_none() && !full)?;
    let until = schedule.due().min(worker.sleep_limit(now));
    Some(until.saturating_sub(now))
}

fn issue_due(
    queue: &mut Queue<'_>,
    worker: &mut Worker,
    free: &mut Vec<usize>,
    now: u64,
) -> Option<Stop> {
    while let Some(due) = worker
        .schedule
        .as_ref()
        .map(|s| s.due())
        .filter(|d| *d <= now)
    {
        let slot = free.pop()?;
        if !queue.arm(worker, slot, due) {
            free.push(slot);
            return Some(Stop::Pass);
        }
        worker.tally.start_lag.record(now - due);
        if let Some(schedule) = &mut worker.schedule {
            schedule.advance();
        }
    }
    None
}
