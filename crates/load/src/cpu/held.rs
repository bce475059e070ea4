//! A command that waits before it runs, so that its bursts can be captured from the first one.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::account::Account;
use super::scheduling::{errno, Refusal};

/// A forked child that executes a command once it is released.
pub struct HeldCommand {
    pid: i32,
    gate: Option<OwnedFd>,
    before: Account,
    ended: Option<Ended>,
}

/// How a command ended, and what it and its children used.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Ended {
    /// Exit status; 128 + signal when killed, 127 when the program could not be executed.
    pub exit_status: i32,
    /// User and system time, children that it waited for included.
    pub cpu_ns: u64,
    /// Voluntary switches, children included.
    pub voluntary_switches: u64,
    /// Preemptions, children included.
    pub involuntary_switches: u64,
}

impl HeldCommand {
    /// Forks a child that waits to execute `program` (a path) with `arguments` (the first is its
    /// name) and `environment` (`NAME=value`).
    pub fn launch(
        program: &CString,
        arguments: &[CString],
        environment: &[CString],
    ) -> Result<Self, Refusal> {
        let with_null = |list: &[CString]| -> Vec<*const libc::c_char> {
            list.iter()
                .map(|s| s.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        let (arguments, environment) = (with_null(arguments), with_null(environment));
        let (gate_read, gate_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| Refusal::new("fork", e.raw_os_error()))?;
        let (read, write) = (gate_read.as_raw_fd(), gate_write.as_raw_fd());
        // SAFETY: the child makes system calls on memory prepared above and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(Refusal::last("fork")),
            // SAFETY: as above; every argument is a null-terminated array made before the fork.
            0 => unsafe {
                libc::close(write);
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                let mut byte = 0u8;
                if libc::read(read, (&raw mut byte).cast(), 1) == 1 {
                    libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
                }
                libc::_exit(127)
            },
            pid => Ok(HeldCommand {
                pid,
                gate: Some(gate_write),
                before: Account::default(),
                ended: None,
            }),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it execute the command; what it used until now is not counted.
    pub fn release(&mut self) {
        self.before = Account::of(self.pid);
        if let Some(gate) = self.gate.take() {
            let _ = rustix::io::write(&gate, b"g");
        }
    }

    /// Waits at most `timeout`; how it ended, or nothing yet.
    pub fn wait(&mut self, timeout: Duration) -> Option<Ended> {
        let deadline = std::time::Instant::now() + timeout;
        while self.ended.is_none() {
            self.ended = self.try_reap();
            if self.ended.is_none() {
                if std::time::Instant::now() >= deadline {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.ended
    }

    fn try_reap(&self) -> Option<Ended> {
        let mut status = 0;
        // SAFETY: rusage is plain data that the kernel fills.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid for the call.
        match unsafe { libc::wait4(self.pid, &mut status, libc::WNOHANG, &mut usage) } {
            0 => return None,
            -1 if errno() == libc::EINTR => return None,
            _ => {}
        }
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        Some(Ended {
            exit_status: if libc::WIFSIGNALED(status) {
                128 + libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            },
            cpu_ns: (ns(usage.ru_utime) + ns(usage.ru_stime)).saturating_sub(self.before.cpu_ns),
            voluntary_switches: (usage.ru_nvcsw as u64).saturating_sub(self.before.voluntary),
            involuntary_switches: (usage.ru_nivcsw as u64).saturating_sub(self.before.involuntary),
        })
    }
}

impl Drop for HeldCommand {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // SAFETY: the child was not reaped, so the pid is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.wait(Duration::from_secs(5));
        }
    }
}
