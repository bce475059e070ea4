//! A worker as a separate process: forked, held at the gate, read through a pipe, reaped.
//!
//! The caller may have other threads (Python has). Between fork and exit the child runs only code
//! of this crate: it allocates, which glibc and musl keep possible after a fork, and takes no lock
//! that another thread could have held. It dies with its parent, has its own process group (so
//! the terminal's Ctrl-C is the parent's alone) and closes every descriptor that it has no use for.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::Sender;

use rustix::io::Errno;
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use super::error::IoError;
use super::report::{Message, Voice, Word, WorkerSetup};
use crate::child::{self, errno};
use crate::clock::Cpu;

/// Forks the worker of `setup` and a thread that listens to it; returns a descriptor of the
/// worker's process, which stays valid after its end.
pub(crate) fn start(setup: WorkerSetup, sender: Sender<Message>) -> Result<OwnedFd, IoError> {
    let failed = |what: &str, errno: Errno| IoError::Thread(format!("{what}: {errno}"));
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed("pipe", e))?;
    let (group, parent) = (setup.index, std::process::id());
    // SAFETY: see the module's description; the child never returns.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(failed("fork", Errno::from_raw_os_error(errno()))),
        0 => live(setup, writing, parent),
        pid => pid,
    };
    drop(writing);
    let hold = Pid::from_raw(pid)
        .ok_or(Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let hold = match hold {
        Ok(hold) => hold,
        Err(errno) => {
            child::kill(pid);
            let _ = reap(pid);
            return Err(failed("pidfd_open", errno));
        }
    };
    let listener = std::thread::Builder::new().name("schedlab-io-ear".into());
    let spawned = listener.spawn(move || {
        let last = listen(File::from(reading), pid as u32, group, &sender);
        let cpu = reap(pid);
        let message = match (last, cpu) {
            (Some(Word::Done(report)), Ok(cpu)) => Message::Done(report, cpu),
            (Some(Word::Absent), _) => Message::Absent,
            (
                Some(Word::Failed {
                    text,
                    hint,
                    description,
                }),
                _,
            ) => Message::Failed(IoError::Worker {
                text,
                hint,
                description,
            }),
            (_, Ok(_)) => Message::Failed(IoError::Thread("a worker process went silent".into())),
            (_, Err(how)) => Message::Failed(IoError::Thread(format!("a worker process {how}"))),
        };
        // The receiver is gone when an interrupted job abandoned this worker.
        let _ = sender.send(message);
    });
    if let Err(error) = spawned {
        kill(&hold);
        let _ = reap(pid);
        return Err(IoError::Thread(error.to_string()));
    }
    Ok(hold)
}

/// Ends a worker process that is left behind, as soon as the kernel lets it go.
pub(crate) fn kill(process: &OwnedFd) {
    // One that has ended needs no signal.
    let _ = pidfd_send_signal(process, Signal::KILL);
}

/// Passes on that the worker is ready; gives its last word.
fn listen(mut pipe: File, pid: u32, group: usize, sender: &Sender<Message>) -> Option<Word> {
    loop {
        let mut length = [0; 8];
        pipe.read_exact(&mut length).ok()?;
        let mut text = vec![0; u64::from_ne_bytes(length) as usize];
        pipe.read_exact(&mut text).ok()?;
        match serde_json::from_slice(&text).ok()? {
            Word::Ready => {
                let _ = sender.send(Message::Ready { group, id: pid });
            }
            last => return Some(last),
        }
    }
}

/// Awaits the end of a child; gives its CPU time, or how it came to die.
fn reap(pid: i32) -> Result<Cpu, String> {
    let (status, usage) = loop {
        if let Some(ended) = child::reap(pid, 0) {
            break ended;
        }
        if errno() != libc::EINTR {
            return Err("was reaped by another process".into());
        }
    };
    if libc::WIFSIGNALED(status) {
        return Err(format!("was killed by signal {}", libc::WTERMSIG(status)));
    }
    Ok(Cpu::of(&usage))
}

/// The life of a worker process.
fn live(mut setup: WorkerSetup, pipe: OwnedFd, parent: u32) -> ! {
    detach(parent);
    std::panic::set_hook(Box::new(|_| {}));
    keep_only(&mut setup.descriptors(pipe.as_raw_fd()));
    setup.voice = Voice::Pipe(File::from(pipe));
    setup.work();
    // SAFETY: ends the process without running anything else.
    unsafe { libc::_exit(0) }
}

/// Ties the child to its parent.
fn detach(parent: u32) {
    // SAFETY: system calls on the child's own state.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
        libc::setpgid(0, 0);
        for signal in [
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGUSR1,
            libc::SIGUSR2,
        ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Closes all descriptors but the standard streams and these.
fn keep_only(kept: &mut [RawFd]) {
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept
        .iter()
        .map(|fd| *fd as libc::c_uint)
        .filter(|fd| *fd >= 3)
    {
        close_range(first, fd);
        first = fd + 1;
    }
    close_range(first, libc::c_uint::MAX);
}

/// Closes `first` … `end` − 1.
fn close_range(first: libc::c_uint, end: libc::c_uint) {
    if first < end {
        // SAFETY: closes copies in the table that belongs to this process alone.
        unsafe { libc::syscall(libc::SYS_close_range, first, end - 1, 0) };
    }
}
