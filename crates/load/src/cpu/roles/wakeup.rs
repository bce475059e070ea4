//! Messengers that post requests to workers at planned times: an open loop of wake-ups.
//!
//! Two clocks. *Wake-up*: read directly before the futex wake, and as the first act of the woken
//! worker. *Response*: from the planned time of a request, even if delayed, to its end. Requests
//! queue and none is dropped. Messenger and worker draw the planned times from one seeded sequence.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use schedlab_model::Rng;

use super::super::board::{Desk, Header, A_WHILE};
use super::spin::spin;
use crate::child::{futex_wait, futex_wake};
use crate::clock;

/// The planned times of one worker's requests.
pub(crate) struct Schedule {
    rng: Rng,
    mean_ns: f64,
    at_ns: f64,
}

impl Schedule {
    /// Poisson arrivals with `rate` per second from `start_ns` on, for a worker of a group.
    pub fn of(seed: u64, group: usize, worker: usize, rate: f64, start_ns: u64) -> Self {
        Schedule {
            rng: Rng::new(seed, ((group as u64) << 32) | worker as u64),
            mean_ns: 1e9 / rate,
            at_ns: start_ns as f64,
        }
    }

    /// Moves all that is still to come to a start at `start_ns`.
    pub fn start_at(&mut self, start_ns: u64) {
        self.at_ns += start_ns as f64;
    }

    /// The next planned time.
    pub fn next(&mut self) -> u64 {
        self.at_ns += self.rng.exponential(self.mean_ns);
        self.at_ns as u64
    }
}

/// Posts the requests of all `workers`, each at its time.
pub(crate) fn messenger(header: &Header, workers: &[Desk], schedules: &mut [(Schedule, u64)]) {
    // SAFETY: sets the calling process's own timer slack to 1 ns.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    for (schedule, next) in schedules.iter_mut() {
        *next = schedule.next();
    }
    let end = header.end_ns.load(Acquire);
    loop {
        let due = schedules.iter().enumerate().min_by_key(|(_, (_, at))| *at);
        let Some((worker, at)) = due.map(|(worker, (_, at))| (worker, *at)) else {
            return;
        };
        if at >= end || header.is_stopped() {
            return;
        }
        if at > clock::now() {
            while clock::sleep_until(at) {}
        }
        let (desk, posted) = (&workers[worker], workers[worker].posted.load(Relaxed));
        if desk.finished.load(Acquire) == posted {
            desk.woken_ns.store(clock::now(), Release); // it sleeps: this request wakes it
        }
        desk.posted.store(posted.wrapping_add(1), Release);
        futex_wake(&desk.posted);
        let (schedule, next) = &mut schedules[worker];
        *next = schedule.next();
    }
}

/// Does the requests in their order until the end.
pub(crate) fn worker(header: &Header, desk: &Desk, schedule: &mut Schedule, steps: u64) {
    let (end, from) = (
        header.end_ns.load(Acquire),
        header.count_from_ns.load(Acquire),
    );
    let close = header.close_ns.load(Acquire);
    let mut finished = 0u32;
    loop {
        let mut slept = false;
        let planned = schedule.next();
        if planned >= end {
            return; // everything was served
        }
        while desk.posted.load(Acquire) == finished {
            if header.is_stopped() || clock::now() >= close {
                return;
            }
            futex_wait(&desk.posted, finished, Some(&A_WHILE));
            slept = true;
        }
        let began_ns = clock::now();
        // A worker that finished just before this request was posted may have slept, too: then
        // there is no time of a wake-up, and that of an earlier one must not be taken for it.
        let woken_ns = desk.woken_ns.swap(0, AcqRel);
        if slept && woken_ns != 0 && planned >= from {
            desk.wakeup.record(began_ns.saturating_sub(woken_ns));
        }
        spin(steps);
        if planned >= from {
            desk.response.record(clock::now().saturating_sub(planned));
            desk.count();
        }
        finished = finished.wrapping_add(1);
        desk.finished.store(finished, Release);
        if header.is_stopped() || clock::now() >= close {
            return;
        }
    }
}

/// Requests planned for the counted time that a task did not finish: recorded with the time that
/// they had waited at `now`, which is a lower bound; how many there are. `next` gives the planned
/// times.
pub(crate) fn record_unfinished(
    desk: &Desk,
    mut next: impl FnMut() -> u64,
    (from, end, now): (u64, u64, u64),
) -> u64 {
    let mut unfinished = 0;
    for number in 0u64.. {
        let planned = next();
        if planned >= end {
            break;
        }
        if number >= u64::from(desk.finished.load(Acquire)) && planned >= from {
            desk.response.record(now.saturating_sub(planned));
            unfinished += 1;
        }
    }
    unfinished
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use super::super::super::board::{Board, Counts};
    use super::*;

    /// The second request is posted as by a messenger that saw the worker still at work.
    #[test]
    fn a_request_without_a_time_of_its_wake_up_gives_no_sample() {
        let board = Board::new(1, false).unwrap();
        let (header, desk) = (board.header(), &board.parts()[0]);
        header.end_ns.store(u64::MAX, Relaxed);
        header.close_ns.store(u64::MAX, Relaxed);
        let thread = AtomicI32::new(0);
        let sleeps = || {
            let number = thread.load(Relaxed);
            let state = std::fs::read_to_string(format!("/proc/self/task/{number}/stat"));
            state.is_ok_and(|text| text.contains(") S "))
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: a plain call.
                thread.store(unsafe { libc::gettid() }, Relaxed);
                worker(header, desk, &mut Schedule::of(1, 0, 0, 1e9, 0), 0);
            });
            for posted in [1, 2] {
                while desk.finished.load(Acquire) + 1 < posted || !sleeps() {
                    std::thread::yield_now();
                }
                if posted == 1 {
                    desk.woken_ns.store(clock::now(), Release);
                }
                desk.posted.store(posted, Release);
                futex_wake(&desk.posted);
            }
            while desk.finished.load(Acquire) < 2 {
                std::thread::yield_now();
            }
            header.stop.store(1, Relaxed);
        });
        let samples: u64 = Counts::rows([&desk.wakeup].into_iter())
            .iter()
            .map(|(.., count)| count)
            .sum();
        assert_eq!(samples, 1);
    }
}
