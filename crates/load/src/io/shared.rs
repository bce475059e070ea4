//! What the main thread and the workers share, also across processes: one mapping with the gate,
//! the caller's wish and the ends of logs.

use std::mem::size_of;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use rustix::io::Errno;
use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

use super::clock;
use super::tally::Stop;

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

/// The most groups of a job.
pub(crate) const GROUPS_MAX: usize = 256;

/// The gate, which is closed until all workers are ready, and the main thread's messages to them.
pub(crate) struct Control {
    words: NonNull<Words>,
    /// An eventfd that becomes readable when the wish changes.
    pub wake: RawFd,
}

// SAFETY: everything behind the pointer is atomic.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    pub(crate) fn new(wake: RawFd) -> Result<Control, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let words = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Words>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        let words = NonNull::new(words.cast()).ok_or(Errno::NOMEM)?;
        Ok(Control { words, wake })
    }

    #[inline]
    fn words(&self) -> &Words {
        // SAFETY: the mapping of `new`, zero bytes of which are valid atomics.
        unsafe { self.words.as_ref() }
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
            futex(gate, libc::FUTEX_WAKE, i32::MAX as u32);
        }
    }

    /// Waits at the gate; gives the time at which it opened, or nothing to go home.
    pub(crate) fn wait(&self) -> Option<u64> {
        let words = self.words();
        loop {
            match words.gate.load(Acquire) {
                OPEN => return Some(words.start_ns.load(Relaxed)),
                GIVEN_UP => return None,
                _ => futex(&words.gate, libc::FUTEX_WAIT, CLOSED),
            }
        }
    }

    /// Takes the next place in the log of a group.
    pub(crate) fn append(&self, group: usize, bytes: u64) -> u64 {
        self.words().logged[group].fetch_add(bytes, Relaxed)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; no reference outlives `self`.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), size_of::<Words>()) };
    }
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    // SAFETY: a futex on a mapped word that lives through the call; a null timeout waits.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}
