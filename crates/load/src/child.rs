//! Forked children and their parents: the memory that they share (one header, then one part per
//! task), gates, signals, cgroups, and the account at the end. A child may call all but
//! `Mapping::new` and `open_cgroups` between fork and exec.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags};

/// A refusal of the kernel: the step, and its errno.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct Refusal {
    /// `cgroup`, `policy`, `slice`, `deadline`, `affinity`, `fork`, `memory`, `worker`, or a step
    /// of [`crate::launch`].
    pub step: &'static str,
    /// The operating system's error.
    pub source: io::Error,
}

impl Refusal {
    pub(crate) fn new(step: &'static str, errno: i32) -> Self {
        Refusal {
            step,
            source: io::Error::from_raw_os_error(errno),
        }
    }

    /// Its number.
    pub(crate) fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(libc::EIO)
    }

    pub(crate) fn last(step: &'static str) -> Self {
        Refusal {
            step,
            source: io::Error::last_os_error(),
        }
    }
}

/// States of a task; 0 is one that is not ready yet.
pub(crate) const READY: u32 = 1;
pub(crate) const FAILED: u32 = 2;
pub(crate) const DONE: u32 = 3;

/// Types that can be in shared memory.
///
/// # Safety
/// All fields are atomics for which zero bytes are valid, and the type is aligned to 128 bytes at
/// most.
pub(crate) unsafe trait Zeroed {}

// SAFETY: it has no fields.
unsafe impl Zeroed for () {}

/// The mapping; unmapped when dropped.
pub(crate) struct Mapping<Header, Part> {
    base: NonNull<u8>,
    parts: usize,
    types: PhantomData<(Header, Part)>,
}

impl<Header: Zeroed, Part: Zeroed> Mapping<Header, Part> {
    /// Where the parts begin: behind the header, aligned for both.
    const FIRST: usize = std::mem::size_of::<Header>().next_multiple_of(128);

    fn length(parts: usize) -> usize {
        Self::FIRST + parts * std::mem::size_of::<Part>()
    }

    /// Zeroed memory for `parts` tasks, inherited by forked children. With `populated` its pages
    /// are there from the start, so that no task faults while it is measured.
    pub fn new(parts: usize, populated: bool) -> Result<Self, Refusal> {
        let extra = if populated {
            MapFlags::POPULATE
        } else {
            MapFlags::empty()
        };
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                Self::length(parts),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | extra,
            )
        }
        .map_err(|e| Refusal::new("memory", e.raw_os_error()))?;
        Ok(Mapping {
            base: NonNull::new(base.cast()).ok_or(Refusal::new("memory", libc::ENOMEM))?,
            parts,
            types: PhantomData,
        })
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a Header, for which zero bytes are valid (`Zeroed`);
        // pages are aligned to more than 128 bytes.
        unsafe { self.base.cast().as_ref() }
    }

    pub fn parts(&self) -> &[Part] {
        // SAFETY: `parts` parts follow at FIRST, a multiple of 128; zero bytes are valid.
        unsafe {
            let first = self.base.add(Self::FIRST).cast();
            std::slice::from_raw_parts(first.as_ptr(), self.parts)
        }
    }
}

impl<Header, Part> Drop for Mapping<Header, Part> {
    fn drop(&mut self) {
        let length = std::mem::size_of::<Header>().next_multiple_of(128)
            + self.parts * std::mem::size_of::<Part>();
        // SAFETY: unmaps exactly what `new` mapped; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), length) };
    }
}

// SAFETY: everything reached through the pointer is atomic (`Zeroed`).
unsafe impl<Header: Zeroed, Part: Zeroed> Send for Mapping<Header, Part> {}
// SAFETY: as above.
unsafe impl<Header: Zeroed, Part: Zeroed> Sync for Mapping<Header, Part> {}

/// errno of the last failed call of this thread.
pub(crate) fn errno() -> i32 {
    // SAFETY: glibc gives a valid thread-local address.
    unsafe { *libc::__errno_location() }
}

/// Nothing, or an errno.
pub(crate) type Done = Result<(), i32>;

/// The errno of a call that gave less than 0.
pub(crate) fn check(result: libc::c_int) -> Done {
    if result >= 0 {
        Ok(())
    } else {
        Err(errno())
    }
}

/// Sleeps while the word holds `expected`, at most `limit`; wakes early at random, so callers look.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<&libc::timespec>) {
    let limit = limit.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a shared futex on a mapped word with a valid timeout; a null one waits.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            limit,
        )
    };
}

/// Wakes one sleeper; whether the kernel took it.
pub(crate) fn futex_wake(word: &AtomicU32) -> bool {
    // SAFETY: wakes sleepers on a mapped word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) >= 0 }
}

/// Opens a gate: wakes every sleeper on a word, each by a call of its own.
///
/// One call for all keeps them in a list of the caller and wakes them from it one by one. Where the
/// kernel is preemptible, a sleeper of higher priority then runs while the others still sleep, and
/// nobody else can wake them. So every task that comes through the gate calls this, too: whichever
/// runs wakes those that are left. Source: futex_wake() and wake_up_q() of the kernel.
pub(crate) fn open_gate(word: &AtomicU32) {
    // SAFETY: wakes sleepers on a mapped word; the call returns how many.
    while unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) } > 0 {}
}

/// A private zeroed mapping of the calling process with all its pages, for its life; nothing when
/// memory is short.
pub(crate) fn own_memory(bytes: usize) -> Option<&'static mut [u8]> {
    if bytes == 0 {
        return Some(&mut []);
    }
    // SAFETY: a fresh private mapping that lives until exit.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            -1,
            0,
        );
        (memory != libc::MAP_FAILED)
            .then(|| std::slice::from_raw_parts_mut(memory.cast::<u8>(), bytes))
    }
}

/// Handles no signal and blocks none.
pub(crate) fn default_signals() {
    // SAFETY: system calls on the child's own state.
    unsafe {
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Ties the forked child to its parent: it dies with it, ignores the terminal's
/// Ctrl-C (the parent decides).
pub(crate) fn detach(parent: i32) {
    // SAFETY: system calls on the child's own state, all allowed after fork.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        default_signals();
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
}

/// Closes all files of the child: a guardian's pipe shall see its owner die.
pub(crate) fn close_files() {
    // SAFETY: the child uses no file after it.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
}

/// The files `cgroup.procs`, to be entered after the fork.
pub(crate) fn open_cgroups(paths: &[String]) -> Result<Vec<OwnedFd>, Refusal> {
    let opened = paths.iter().map(|path| {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map(OwnedFd::from)
            .map_err(|e| Refusal::new("cgroup", e.raw_os_error().unwrap_or(libc::EIO)))
    });
    opened.collect()
}

/// Moves the calling process into these cgroups; errno when refused.
pub(crate) fn enter_cgroups(files: &[OwnedFd]) -> Result<(), i32> {
    files.iter().try_for_each(|file| {
        // SAFETY: writes one byte to an open file; "0" means the writing process.
        match unsafe { libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) } {
            1 => Ok(()),
            _ => Err(errno()),
        }
    })
}

/// Kills a child that the caller has not reaped.
pub(crate) fn kill(pid: i32) {
    // SAFETY: a signal to a child that is not yet reaped, whose number is therefore its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Awaits a child as `wait4` with these options: its status, and what it used with the children
/// that it awaited; nothing while it runs, or when it is not ours.
pub(crate) fn reap(pid: i32, options: i32) -> Option<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places live through the call and have the types that the kernel writes.
    let ended = unsafe { libc::wait4(pid, &mut status, options, &mut usage) };
    (ended == pid).then_some((status, usage))
}

/// Whether a child has ended; it can still be reaped. One that is not ours has.
pub(crate) fn has_ended(pid: i32) -> bool {
    // SAFETY: siginfo_t is plain data that the kernel fills.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        match libc::waitid(libc::P_PID, pid as u32, &mut info, options) {
            0 => info.si_pid() == pid,
            _ => errno() == libc::ECHILD,
        }
    }
}
