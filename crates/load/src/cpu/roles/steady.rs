//! Tasks that run until the end: hogs that always want the CPU, and periodic tasks.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::super::board::{Desk, Header};
use super::spin::spin;
use crate::clock;

/// Works without a pause and counts the pieces.
pub(crate) fn hog(header: &Header, desk: &Desk, steps: u64) {
    let (end, from) = (
        header.end_ns.load(Acquire),
        header.count_from_ns.load(Acquire),
    );
    let close = header.close_ns.load(Acquire);
    loop {
        spin(steps);
        let now = clock::now();
        if now >= close || header.is_stopped() {
            return;
        }
        if (from..end).contains(&now) {
            desk.count();
        }
    }
}

/// Does a piece of work at every multiple of `period_ns`. Response: from the planned time to the
/// end of the piece; wake-up: from the planned time to its first instruction. A piece that ends
/// after the next planned time delays the next one, which is then late.
pub(crate) fn periodic(header: &Header, desk: &Desk, start_ns: u64, period_ns: u64, steps: u64) {
    // SAFETY: sets the calling process's own timer slack to 1 ns.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let (end, from) = (
        header.end_ns.load(Acquire),
        header.count_from_ns.load(Acquire),
    );
    let mut planned = start_ns + period_ns;
    while planned < end && !header.is_stopped() {
        let before = clock::now();
        if planned > before {
            while clock::sleep_until(planned) {}
        }
        let woken = clock::now();
        spin(steps);
        if planned >= from {
            desk.wakeup.record(woken.saturating_sub(planned));
            desk.response.record(clock::now().saturating_sub(planned));
            desk.count();
        }
        let finished = desk.finished.load(Relaxed);
        desk.finished.store(finished.wrapping_add(1), Relaxed);
        planned += period_ns;
    }
}
