//! Slots that fork one child after the other: each works a little, or executes a program, and ends.

use std::ffi::CString;
use std::sync::atomic::Ordering::Relaxed;

use super::super::board::{Desk, Header};
use super::spin::spin;
use crate::child::errno;

/// Forks and awaits `children` children; whether all were born and ended well. With `program` each
/// executes it after its work.
pub(crate) fn slot(
    header: &Header,
    desk: &Desk,
    children: u64,
    steps: u64,
    program: Option<&CString>,
) -> bool {
    for _ in 0..children {
        if header.is_stopped() {
            return false;
        }
        // SAFETY: the forking process is itself a forked child with one thread; the grandchild
        // makes system calls and calculates only.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            child(steps, program);
        }
        if pid < 0 {
            desk.errno.store(errno(), Relaxed);
            return false;
        }
        let mut status = 0;
        // SAFETY: waits for a child of our own with a valid place for its status.
        while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 && errno() == libc::EINTR {}
        if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
            desk.errno.store(libc::ECHILD, Relaxed);
            return false;
        }
        desk.count();
    }
    true
}

fn child(steps: u64, program: Option<&CString>) -> ! {
    // SAFETY: system calls on the child's own state; null-terminated arrays on the stack.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    spin(steps);
    // SAFETY: as above.
    unsafe {
        if let Some(path) = program {
            let argv = [path.as_ptr(), std::ptr::null()];
            let environment = [std::ptr::null()];
            libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        libc::_exit(0)
    }
}
