//! Page faults on a mapping that the kernel cannot serve (a read error, a full disk, a file cut
//! short) arrive as SIGBUS and would end the process. While a mapping is guarded, the handler puts
//! an anonymous page in the place of the missing one and counts; the engine reports the error and
//! maps the file again. Faults elsewhere go to the previous handler of SIGBUS.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;
/// As many as a job may have workers.
const RANGES: usize = 1024;

struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    hits: AtomicU32,
}

static GUARDED: [Range; RANGES] = [const {
    Range {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        hits: AtomicU32::new(0),
    }
}; RANGES];
/// What handled SIGBUS before us; never freed, because a handler may be reading it.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());
static USERS: Mutex<usize> = Mutex::new(0);

/// A mapping whose faults are caught; ends when dropped.
pub(crate) struct Guard(usize);

impl Guard {
    /// Guards `length` bytes from `start`; nothing when all places are taken.
    pub(crate) fn new(start: usize, length: usize) -> Option<Guard> {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let place = GUARDED
            .iter()
            .position(|range| range.start.load(Ordering::Relaxed) == 0)?;
        if *users == 0 && !install() {
            return None;
        }
        *users += 1;
        GUARDED[place].hits.store(0, Ordering::Relaxed);
        GUARDED[place].end.store(start + length, Ordering::Relaxed);
        GUARDED[place].start.store(start, Ordering::Release);
        Some(Guard(place))
    }

    /// Whether a page was missing since the last question.
    #[inline]
    pub(crate) fn hit(&self) -> bool {
        let hits = &GUARDED[self.0].hits;
        hits.load(Ordering::Relaxed) != 0 && hits.swap(0, Ordering::Relaxed) != 0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        GUARDED[self.0].start.store(0, Ordering::Release);
        *users -= 1;
        if *users == 0 {
            restore();
        }
    }
}

fn install() -> bool {
    // SAFETY: sigaction is plain data, for which all zeros is a value.
    let (mut ours, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    ours.sa_sigaction = on_sigbus as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: reads the current action into our variable.
    if unsafe { libc::sigaction(libc::SIGBUS, null_mut(), &mut before) } != 0 {
        return false;
    }
    BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    // SAFETY: the handler uses only atomics and system calls.
    unsafe { libc::sigaction(libc::SIGBUS, &ours, null_mut()) == 0 }
}

fn restore() {
    let before = BEFORE.load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: stored by `install` and never freed.
        unsafe { libc::sigaction(libc::SIGBUS, before, null_mut()) };
    }
}

extern "C" fn on_sigbus(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo whose address field belongs to SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    let guarded = GUARDED.iter().find(|range| {
        let start = range.start.load(Ordering::Acquire);
        start != 0 && (start..range.end.load(Ordering::Relaxed)).contains(&address)
    });
    let Some(range) = guarded else {
        restore(); // the fault repeats, and meets the handler that was there before
        return;
    };
    range.hits.fetch_add(1, Ordering::Relaxed);
    // SAFETY: errno of this thread, restored below.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: replaces one page of a mapping that its owner guards, which nothing else uses.
    unsafe {
        libc::mmap(
            (address & !(PAGE - 1)) as *mut libc::c_void,
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        );
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_guard_gives_the_signal_back() {
        // SAFETY: reads the current action into plain data.
        let handler = || unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, null_mut(), &mut now);
            now.sa_sigaction
        };
        let before = handler();
        let guards = [1, 2].map(|page| Guard::new(page * PAGE, PAGE).unwrap());
        let [first, last] = guards;
        drop(first);
        assert_eq!(handler(), on_sigbus as *const () as usize);
        drop(last);
        assert_eq!(handler(), before);
    }
}
