//! What a context switch costs: directly, and by the caches it leaves cold.
//!
//! Direct: two processes on one CPU pass a token by turns through pipes or futexes; half a round
//! is a switch with its wake-up. Refill: two processes of one real-time class touch a working set
//! and yield, after every touch or after every eighth: the difference of the two periods is the
//! cost of a switch, and both come from the same processes on the same pages.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::scheduling::{self, allowed_cpus, pin, Policy};
use crate::child::{
    detach, futex_wait, futex_wake, kill, own_memory, reap, Mapping, Refusal, Zeroed,
};
use crate::clock;

/// Touches between two yields in the arm with few switches.
const FEW: u32 = 8;
const LINE: usize = 64;

/// The switches to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostJob {
    /// The CPU of both processes.
    pub cpu: usize,
    /// Real-time priority of both processes; 0: SCHED_OTHER, where a yield need not switch.
    pub priority: u32,
    /// Independent repetitions of everything; intervals come from them.
    pub batches: u32,
    /// Switches per batch.
    pub switches: u32,
    /// Bytes that each process touches between two yields.
    pub working_sets: Vec<usize>,
}

/// Nanoseconds per switch, one value per batch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Costs {
    /// Pipe ping-pong.
    pub pipe_ns: Vec<f64>,
    /// Futex ping-pong.
    pub futex_ns: Vec<f64>,
    /// Yield ladder: (working set in bytes, ns per switch).
    pub ladder: Vec<(usize, Vec<f64>)>,
}

/// Words that both processes share.
#[repr(C, align(64))]
struct Turn {
    turn: AtomicU32,
    ready: AtomicU32,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

// SAFETY: atomics only, aligned to 64 bytes.
unsafe impl Zeroed for Turn {}

/// The memory of both; there are no parts.
type Turns = Mapping<Turn, ()>;

/// Measures all costs; takes about `batches · switches · (2 + 2 · working sets)` switches.
///
/// `keep_going` is called between two measurements; false ends early with the results so far.
pub fn measure_costs(job: &CostJob, keep_going: impl Fn() -> bool) -> Result<Costs, Refusal> {
    let mut costs = Costs {
        ladder: job
            .working_sets
            .iter()
            .map(|bytes| (*bytes, Vec::new()))
            .collect(),
        ..Costs::default()
    };
    for _ in 0..job.batches {
        if !keep_going() {
            break;
        }
        costs.pipe_ns.push(ping_pong(job, Via::Pipe)?);
        costs.futex_ns.push(ping_pong(job, Via::Futex)?);
        for (bytes, values) in &mut costs.ladder {
            if !keep_going() {
                break;
            }
            values.push(yields(job, *bytes)?);
        }
    }
    Ok(costs)
}

#[derive(Clone, Copy)]
enum Via {
    Pipe,
    Futex,
}

/// Forks two processes on the job's CPU that run `play(number)`; waits for both.
fn pair(job: &CostJob, real_time: bool, play: impl Fn(u32) -> bool) -> Result<(), Refusal> {
    let cpus = allowed_cpus();
    let before = scheduling::current();
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    pin(None, &[job.cpu])?;
    let scheduling = Attributes {
        policy: if real_time {
            Policy::Fifo
        } else {
            Policy::Other
        },
        priority: job.priority,
        ..Attributes::default()
    };
    let mut pids = Vec::new();
    let mut result = scheduling.enter();
    for number in 0..2 {
        if result.is_err() {
            break;
        }
        // SAFETY: the child makes system calls and arithmetic only, and never returns.
        match unsafe { libc::fork() } {
            -1 => result = Err(Refusal::last("fork")),
            0 => {
                detach(parent);
                let played = play(number);
                // SAFETY: ends the process without running anything else.
                unsafe { libc::_exit(i32::from(!played)) }
            }
            pid => pids.push(pid),
        }
    }
    let _ = scheduling::set_current(before.0, before.1);
    pin(None, &cpus)?;
    while !pids.is_empty() {
        if result.is_err() {
            // Each waits for the other, which may be gone.
            pids.iter().for_each(|pid| kill(*pid));
        }
        let (ended, status) = wait_for_either(&pids);
        pids.retain(|pid| *pid != ended);
        if result.is_ok() && status != 0 {
            result = Err(Refusal::new("worker", libc::ECHILD));
        }
    }
    result
}

/// Waits until one of these children ends: its number and status.
fn wait_for_either(pids: &[i32]) -> (i32, i32) {
    let open = |pid: &i32| pidfd_open(Pid::from_raw(*pid)?, PidfdFlags::empty()).ok();
    let opened: Vec<_> = pids.iter().filter_map(open).collect();
    let mut ends: Vec<_> = opened
        .iter()
        .map(|process| PollFd::new(process, PollFlags::IN))
        .collect();
    let a_while = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    loop {
        for pid in pids {
            if let Some((status, _)) = reap(*pid, libc::WNOHANG) {
                return (*pid, status);
            }
        }
        // After a signal, or a while where no descriptor was left, it only looks again.
        let _ = poll(&mut ends, Some(&a_while));
    }
}

/// ns per switch of a token passed back and forth.
fn ping_pong(job: &CostJob, via: Via) -> Result<f64, Refusal> {
    let board = Turns::new(0, false)?;
    let there = rustix::pipe::pipe().map_err(|e| Refusal::new("memory", e.raw_os_error()))?;
    let back = rustix::pipe::pipe().map_err(|e| Refusal::new("memory", e.raw_os_error()))?;
    let rounds = (job.switches / 2).max(1);
    pair(job, job.priority > 0, |number| {
        let (read, write) = if number == 0 {
            (&back.0, &there.1)
        } else {
            (&there.0, &back.1)
        };
        let hand_over = || match via {
            Via::Pipe => rustix::io::write(write, b"t") == Ok(1),
            Via::Futex => give_turn(&board.header().turn, number),
        };
        let take_over = || match via {
            Via::Pipe => rustix::io::read(read, &mut [0u8; 1]) == Ok(1),
            Via::Futex => await_turn(&board.header().turn, number),
        };
        let (first, second): (&dyn Fn() -> bool, &dyn Fn() -> bool) = if number == 0 {
            (&hand_over, &take_over)
        } else {
            (&take_over, &hand_over)
        };
        // The first round finds both processes awake and its code in the cache.
        for round in 0..=rounds {
            if number == 0 && round == 1 {
                board.header().first_ns.store(clock::now(), Relaxed);
            }
            if !(first() && second()) {
                return false;
            }
        }
        if number == 0 {
            board.header().last_ns.store(clock::now(), Release);
        }
        true
    })?;
    Ok(elapsed(board.header()) / (2.0 * f64::from(rounds)))
}

/// Gives the turn to the other process and wakes it.
fn give_turn(turn: &AtomicU32, number: u32) -> bool {
    turn.store(1 - number, Release);
    futex_wake(turn, 1)
}

/// Sleeps until it is this process's turn. Turn 0 is process 0's, who gives it away first.
fn await_turn(turn: &AtomicU32, number: u32) -> bool {
    loop {
        let owner = turn.load(Acquire);
        if owner == number {
            return true;
        }
        futex_wait(turn, owner, None);
    }
}

/// ns per switch between two processes that touch `bytes` each.
fn yields(job: &CostJob, bytes: usize) -> Result<f64, Refusal> {
    let many = yield_period(job, bytes, 1)?;
    let few = yield_period(job, bytes, FEW)?;
    Ok(switch_ns(many, few))
}

/// A switch, where a touch takes `many` ns with one each and `few` with one for every eighth.
fn switch_ns(many: f64, few: f64) -> f64 {
    (many - few) / (1.0 - 1.0 / f64::from(FEW))
}

/// Time per touch when both processes yield after every `touches` of them.
fn yield_period(job: &CostJob, bytes: usize, touches: u32) -> Result<f64, Refusal> {
    let board = Turns::new(0, false)?;
    let turns = job.switches.max(2) / 2;
    pair(job, job.priority > 0, |number| {
        let Some(memory) = own_memory(bytes) else {
            return false;
        };
        touch(memory);
        // Both have touched their pages before either counts.
        board.header().ready.fetch_add(1, AcqRel);
        while board.header().ready.load(Acquire) < 2 {
            rustix::thread::sched_yield();
        }
        if number == 0 {
            board.header().first_ns.store(clock::now(), Relaxed);
        }
        for _ in 0..turns {
            for _ in 0..touches {
                touch(memory);
            }
            rustix::thread::sched_yield();
        }
        board.header().last_ns.fetch_max(clock::now(), AcqRel);
        true
    })?;
    Ok(elapsed(board.header()) / (2.0 * f64::from(turns) * f64::from(touches)))
}

fn elapsed(board: &Turn) -> f64 {
    board
        .last_ns
        .load(Acquire)
        .saturating_sub(board.first_ns.load(Relaxed)) as f64
}

/// Reads and writes one word of every cache line.
fn touch(memory: &mut [u8]) {
    for at in (0..memory.len()).step_by(LINE) {
        memory[at] = std::hint::black_box(memory[at].wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_takes_the_touches_out() {
        // A touch of 300 ns and a switch of 1,600 ns.
        assert!((switch_ns(1900.0, 500.0) - 1600.0).abs() < 1e-9);
    }

    #[test]
    fn one_whose_other_is_gone_does_not_wait_for_ever() {
        let job = CostJob {
            cpu: allowed_cpus()[0],
            priority: 0,
            batches: 1,
            switches: 2,
            working_sets: Vec::new(),
        };
        let result = pair(&job, false, |number| match number {
            0 => loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            },
            _ => false,
        });
        assert!(result.is_err());
    }

    #[test]
    fn a_switch_costs_between_a_tenth_of_a_microsecond_and_a_millisecond() {
        let job = CostJob {
            cpu: allowed_cpus()[0],
            priority: 0,
            batches: 2,
            switches: 400,
            working_sets: vec![0],
        };
        let costs = measure_costs(&job, || true).unwrap();
        for ns in costs.pipe_ns.iter().chain(&costs.futex_ns) {
            assert!((100.0..1e6).contains(ns), "{costs:?}");
        }
        assert_eq!(costs.ladder[0].1.len(), 2);
    }

    /// Also where the machine is slow: a token that changes hands is a switch, and all of them
    /// take nearly the whole time, but not more; of what is counted twice they would take double.
    #[test]
    fn so_many_switches_fit_into_the_time_that_passed() {
        let job = CostJob {
            cpu: allowed_cpus()[0],
            priority: 0,
            batches: 1,
            switches: 10_000,
            working_sets: Vec::new(),
        };
        let share = |measure: &dyn Fn() -> Result<f64, Refusal>, touches: u32| {
            let start = clock::now();
            let ns = measure().unwrap() * f64::from(job.switches) * f64::from(touches);
            ns / (clock::now() - start) as f64
        };
        let fits = |measure: &dyn Fn() -> Result<f64, Refusal>, touches: u32| {
            // A neighbour may hold up the forks, but not each time.
            let shares = [(); 3].map(|()| share(measure, touches));
            let most = shares.into_iter().fold(0.0, f64::max);
            assert!((0.6..=1.0).contains(&most), "{shares:?}");
        };
        fits(&|| ping_pong(&job, Via::Pipe), 1);
        fits(&|| ping_pong(&job, Via::Futex), 1);
        fits(&|| yield_period(&job, 0, 1), 1);
        fits(&|| yield_period(&job, 4096, FEW), FEW);
    }
}
