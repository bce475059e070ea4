//! Two tasks on one CPU that switch by turns: they hand a token over, or touch memory and yield.
//!
//! The difference of the times of two yielding crews, one with a yield after every touch and one
//! after every eighth, is what a switch costs with the caches that it leaves cold.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

use super::super::board::{Desk, Header};
use crate::child::{futex_wait, futex_wake};

const LINE: usize = 64;

/// Gives the turn to the other of two tasks and takes it again `rounds` times; whether all went.
/// Turn 0 is that of the first, who gives it away first.
pub(crate) fn hand_over(
    header: &Header,
    desk: &Desk,
    turn: &AtomicU32,
    rounds: u64,
    number: u32,
) -> bool {
    let give = || {
        turn.store(1 - number, Release);
        futex_wake(turn)
    };
    let take = || loop {
        match turn.load(Acquire) {
            owner if owner == number => return true,
            owner => futex_wait(turn, owner, None),
        }
    };
    (0..rounds).all(|round| {
        let went = (number == 0 || take()) && give() && (number == 1 || take());
        went && desk.lap(header, round, rounds)
    })
}

/// Touches the memory `touches` times and yields, all `rounds` times; whether nothing stopped it.
pub(crate) fn yields(
    header: &Header,
    desk: &Desk,
    memory: &mut [u8],
    rounds: u64,
    touches: u32,
) -> bool {
    (0..rounds).all(|round| {
        (0..touches).for_each(|_| touch(memory));
        rustix::thread::sched_yield();
        desk.lap(header, round, rounds)
    })
}

/// Reads and writes one word of every cache line.
pub(crate) fn touch(memory: &mut [u8]) {
    for at in (0..memory.len()).step_by(LINE) {
        memory[at] = std::hint::black_box(memory[at].wrapping_add(1));
    }
}
