//! What the main thread and the workers share, also across processes: one mapping with the gate,
//! the caller's wish and the ends of logs.

use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use rustix::io::Errno;

use super::error::IoError;
use super::tally::Stop;
use crate::child::{futex_wait, open_gate, Mapping, Zeroed};
use crate::clock;

const RUN: u32 = 0;
const TIME_OVER: u32 = 1;
const INTERRUPT: u32 = 2;

const CLOSED: u32 = 0;
const OPEN: u32 = 1;
const GIVEN_UP: u32 = 2;

#[repr(C)]
struct Words {
    wish: AtomicU32,
    gate: AtomicU32,
    /// When the gate was opened.
    start_ns: AtomicU64,
    /// Bytes that were appended to the log of each group, on devices.
    logged: [AtomicU64; GROUPS_MAX],
}

// SAFETY: atomics only, aligned to 8 bytes.
unsafe impl Zeroed for Words {}

/// The most groups of a job.
pub(crate) const GROUPS_MAX: usize = 256;

/// The gate, which is closed until all workers are ready, and the main thread's messages to them.
pub(crate) struct Control {
    words: Mapping<Words, ()>,
    /// An eventfd that becomes readable when the wish changes.
    pub wake: RawFd,
}

impl Control {
    pub(crate) fn new(wake: RawFd) -> Result<Control, IoError> {
        let words = Mapping::new(0, false).map_err(|refusal| IoError::Ring {
            operation: "share memory",
            errno: Errno::from_raw_os_error(refusal.errno()),
        })?;
        Ok(Control { words, wake })
    }

    #[inline]
    fn words(&self) -> &Words {
        self.words.header()
    }

    /// The window is over, also for workers whose requests do not come back.
    pub(crate) fn time_over(&self) {
        self.words().wish.fetch_max(TIME_OVER, Relaxed);
    }

    /// Stop at once.
    pub(crate) fn interrupt(&self) {
        self.words().wish.store(INTERRUPT, Relaxed);
    }

    #[inline]
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self.words().wish.load(Relaxed) {
            RUN => None,
            TIME_OVER => Some(Stop::Time),
            _ => Some(Stop::Interrupt),
        }
    }

    /// Lets all workers begin.
    pub(crate) fn open(&self) -> u64 {
        let now = clock::now();
        self.words().start_ns.store(now, Relaxed);
        self.turn_gate(OPEN);
        now
    }

    /// Sends waiting workers home; does nothing when the gate is open.
    pub(crate) fn give_up(&self) {
        self.turn_gate(GIVEN_UP);
    }

    fn turn_gate(&self, to: u32) {
        let gate = &self.words().gate;
        if gate.compare_exchange(CLOSED, to, Release, Relaxed).is_ok() {
            open_gate(gate);
        }
    }

    /// Waits at the gate; gives the time at which it opened, or nothing to go home.
    pub(crate) fn wait(&self) -> Option<u64> {
        let words = self.words();
        loop {
            match words.gate.load(Acquire) {
                OPEN => {
                    open_gate(&words.gate);
                    return Some(words.start_ns.load(Relaxed));
                }
                GIVEN_UP => return None,
                _ => futex_wait(&words.gate, CLOSED, None),
            }
        }
    }

    /// Takes the next place in the log of a group.
    pub(crate) fn append(&self, group: usize, bytes: u64) -> u64 {
        self.words().logged[group].fetch_add(bytes, Relaxed)
    }
}
