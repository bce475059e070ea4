//! The process that starts a program, awaits it and all that it leaves, and ends with its starter.
//!
//! For a confined program it is the first process of a new process namespace: when it ends, so does
//! all that is in there, whatever control group or session it went to. Or the program joins the
//! namespace of a [`Room`], where several work beside each other, such as a server and what asks
//! it. Without a namespace the keeper adopts what the program leaves, wherever that went, and ends
//! it: at the starter's word, or when the starter has died and the control group of the program was
//! removed, as others may still need what is in there. It is a fork that makes system calls alone,
//! and it closes all files but those that tie it to its starter and to that group.

use std::ffi::{c_int, c_void, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use serde::Deserialize;

use crate::child::{self, enter_cgroups, errno, open_cgroups, reap, Refusal};
use crate::clock;
use crate::confine::map_self;

const STACK_BYTES: usize = 256 << 10;
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How often a keeper looks whether the control group is there.
const LOOKS_EACH_MS: i32 = 50;

/// How a program ended, as its keeper writes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub at_ns: u64,
    pub status: i64,
    pub usage: libc::rusage,
}

impl End {
    const BYTES: usize = std::mem::size_of::<End>();

    fn write(&self, to: RawFd) {
        // SAFETY: plain numbers without gaps, in one piece, as less than a page goes into a pipe.
        unsafe { libc::write(to, (&raw const *self).cast(), Self::BYTES) };
    }

    /// What the keeper wrote; nothing when it ended without.
    fn read(from: &OwnedFd) -> Option<Self> {
        // SAFETY: plain numbers, for which every content is a value.
        unsafe {
            let mut end: End = std::mem::zeroed();
            let into = (&raw mut end).cast();
            (libc::read(from.as_raw_fd(), into, Self::BYTES) == Self::BYTES as isize).then_some(end)
        }
    }
}

/// Which process namespace a keeper and its program are in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// That of the caller.
    Callers,
    /// A new one.
    New,
    /// That of a room.
    Rooms,
}

/// What a keeper needs, made before the fork.
pub(crate) struct Plan {
    namespace: Namespace,
    room: Option<OwnedFd>,
    /// Maps of the user namespace, where one gives the right to the others: of users, of groups.
    maps: Option<(CString, CString)>,
    lifeline: (OwnedFd, OwnedFd),
    ends: (OwnedFd, OwnedFd),
}

/// A running keeper, to its starter. Dropping it ends all that it keeps.
pub(crate) struct Keeper {
    pid: i32,
    lifeline: Option<OwnedFd>,
    ends: OwnedFd,
    is_reaped: bool,
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Refusal> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| Refusal::new("fork", e.raw_os_error()))
}

impl Plan {
    /// For a new namespace, that of a room by the process id of its keeper, or none.
    pub(crate) fn new(is_confined: bool, room: Option<i32>) -> Result<Self, Refusal> {
        let joined = room.map(|pid| {
            let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
            pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        });
        let room = joined
            .transpose()
            .map_err(|e| Refusal::new("confinement", e.raw_os_error()))?;
        let namespace = match (&room, is_confined) {
            (Some(_), _) => Namespace::Rooms,
            (None, true) => Namespace::New,
            (None, false) => Namespace::Callers,
        };
        // SAFETY: system calls without arguments that cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let map = |id: u32| CString::new(format!("{id} {id} 1")).unwrap_or_default();
        let has_maps = uid != 0 && namespace != Namespace::Callers;
        Ok(Plan {
            namespace,
            room,
            maps: has_maps.then(|| (map(uid), map(gid))),
            lifeline: pipe()?,
            ends: pipe()?,
        })
    }

    pub(crate) fn is_confined(&self) -> bool {
        self.namespace != Namespace::Callers
    }

    /// Whether the keeper, and so the program, is in a user namespace.
    pub(crate) fn has_users(&self) -> bool {
        self.maps.is_some()
    }

    /// Forks a keeper, which runs `keep` and never returns.
    pub(crate) fn fork(self, keep: impl FnOnce(&Plan)) -> Result<Keeper, Refusal> {
        let mut flags = libc::SIGCHLD;
        if self.namespace == Namespace::New {
            flags |= libc::CLONE_NEWPID
                | if self.has_users() {
                    libc::CLONE_NEWUSER
                } else {
                    0
                };
        }
        let null = std::ptr::null_mut::<c_void>();
        // SAFETY: a fork that makes system calls alone until it ends.
        match unsafe { libc::syscall(libc::SYS_clone, flags, null, null, null, null) } {
            -1 if self.is_confined() => Err(Refusal::last("confinement")),
            -1 => Err(Refusal::last("fork")),
            0 => {
                // SAFETY: what the starter alone uses, and ends the process.
                unsafe {
                    libc::close(self.lifeline.1.as_raw_fd());
                    libc::close(self.ends.0.as_raw_fd());
                    libc::prctl(libc::PR_SET_NAME, c"schedlab-keeper".as_ptr());
                    libc::chdir(c"/".as_ptr());
                    keep(&self);
                    libc::_exit(0)
                }
            }
            pid => Ok(Keeper {
                pid: pid as i32,
                lifeline: Some(self.lifeline.1),
                ends: self.ends.0,
                is_reaped: false,
            }),
        }
    }

    /// Enters the namespaces, in the keeper; the errno of what failed.
    pub(crate) fn enter(&self) -> Result<(), i32> {
        let users = if self.has_users() {
            libc::CLONE_NEWUSER
        } else {
            0
        };
        // SAFETY: system calls on the process's own state.
        unsafe {
            if let Some(room) = &self.room {
                if libc::setns(room.as_raw_fd(), users | libc::CLONE_NEWPID) != 0 {
                    return Err(errno());
                }
            } else if let Some((uids, gids)) = &self.maps {
                map_self(uids, gids)?;
            }
            if self.namespace == Namespace::Callers {
                libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            }
        }
        Ok(())
    }

    /// Starts `program` in this memory, waits until it executes or ends, and keeps it.
    ///
    /// Nobody may look into that memory meanwhile: it is that of a process outside of the walls.
    pub(crate) fn start_and_keep<F: FnMut()>(
        &self,
        words: RawFd,
        group: Option<RawFd>,
        program: F,
    ) {
        let signals = child_signals();
        // SAFETY: system calls, and a stack that lives as long as the process.
        let pid = unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
            let stack = libc::mmap(
                std::ptr::null_mut(),
                STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            );
            if stack == libc::MAP_FAILED {
                return;
            }
            let mut program = program;
            libc::clone(
                begin::<F>,
                stack.byte_add(STACK_BYTES),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                (&raw mut program).cast(),
            )
        };
        // SAFETY: the starter hears of the start when nobody else can write.
        unsafe { libc::close(words) };
        if pid > 0 {
            self.keep(signals, Some(pid), group, true);
        }
    }

    /// Reaps until the starter is gone; then ends what there is.
    fn keep(
        &self,
        signals: RawFd,
        mut program: Option<i32>,
        group: Option<RawFd>,
        ends_with_starter: bool,
    ) {
        let (lifeline, ends) = (self.lifeline.0.as_raw_fd(), self.ends.1.as_raw_fd());
        close_all_but([lifeline, ends, signals, group.unwrap_or(signals)]);
        let mut polled = [signals, lifeline].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        loop {
            while let Some((pid, status, usage)) = reap_any(libc::WNOHANG) {
                note(ends, &mut program, pid, status, usage);
            }
            // SAFETY: two valid structures.
            let seen = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
            if seen < 0 && errno() != libc::EINTR {
                break; // a program of the same user set its limit of open files
            }
            // SAFETY: a buffer of the size that is given.
            unsafe {
                if polled[0].revents != 0 {
                    let mut news: libc::signalfd_siginfo = std::mem::zeroed();
                    let size = std::mem::size_of_val(&news);
                    libc::read(signals, (&raw mut news).cast(), size);
                }
            }
            if polled[1].revents != 0 {
                if ends_with_starter {
                    break;
                }
                polled[1].fd = -1; // poll(2) passes over it
            }
        }
        // SAFETY: in a namespace of its own, -1 is all others in there; else it is the program.
        unsafe {
            match (self.namespace, program) {
                (Namespace::New, _) => libc::kill(-1, libc::SIGKILL),
                (_, Some(pid)) => libc::kill(pid, libc::SIGKILL),
                _ => 0,
            };
        }
        if self.namespace == Namespace::Callers {
            let is_over = || is_told(lifeline) || group.is_none_or(is_removed);
            while !is_over() {
                while let Some((pid, status, usage)) = reap_any(libc::WNOHANG) {
                    note(ends, &mut program, pid, status, usage);
                }
                // SAFETY: no descriptors.
                unsafe { libc::poll(std::ptr::null_mut(), 0, LOOKS_EACH_MS) };
            }
        }
        while self.namespace != Namespace::Rooms || program.is_some() {
            // Those of an ended one are ours by then; those of another user's are not ours to end.
            if self.namespace == Namespace::Callers && !kill_children() {
                break;
            }
            let Some((pid, status, usage)) = reap_any(0) else {
                break;
            };
            note(ends, &mut program, pid, status, usage);
        }
    }
}

impl Keeper {
    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits at most `timeout` for the end of the program; the outer nothing while it runs, the
    /// inner one when its keeper was killed.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Option<End>> {
        is_readable(self.ends.as_raw_fd(), timeout).then(|| End::read(&self.ends))
    }

    /// Ends all that it keeps, and reaps it; how the program ended, if it did only now.
    pub(crate) fn end(&mut self) -> Option<End> {
        if let Some(lifeline) = self.lifeline.take() {
            // One that has ended needs no word.
            let _ = rustix::io::write(&lifeline, b"e");
        }
        if self.is_reaped {
            return None;
        }
        let (mut end, begun) = (None, Instant::now());
        while let Some(Some(heard)) = self.wait(ENDS_WITHIN.saturating_sub(begun.elapsed())) {
            end = Some(heard);
        }
        child::kill(self.pid); // by now it only waits for what does not die
        self.is_reaped = reap(self.pid, 0).is_some();
        end
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process namespace in which programs work beside each other.
pub struct Room(Keeper);

/// What a room is ordered by.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoomOrder {
    /// Files `cgroup.procs` of its control groups. Where it has one, it stays when its owner dies,
    /// until the group is removed.
    #[serde(default)]
    pub cgroups: Vec<String>,
}

impl Room {
    /// Opens one; the step and the errno of what cannot be.
    pub fn open(order: &RoomOrder) -> Result<Self, Refusal> {
        let groups = open_cgroups(&order.cgroups)?;
        let plan = Plan::new(true, None)?;
        let (hears, tells) = pipe()?;
        let keeper = plan.fork(|plan| {
            let signals = child_signals();
            let failed = match plan.enter().and_then(|()| enter_cgroups(&groups)) {
                Ok(()) => 0,
                Err(errno) => errno,
            };
            // SAFETY: a number on the stack; the process leaves its starter's session.
            unsafe {
                libc::setsid();
                libc::write(tells.as_raw_fd(), (&raw const failed).cast(), 4);
            }
            if failed == 0 {
                plan.keep(signals, None, None, groups.is_empty());
            }
        })?;
        drop(tells);
        let mut answer = [0; 4];
        match rustix::io::retry_on_intr(|| rustix::io::read(&hears, &mut answer)) {
            Ok(4) if answer == [0; 4] => Ok(Room(keeper)),
            Ok(4) => Err(Refusal::new("confinement", i32::from_ne_bytes(answer))),
            _ => Err(Refusal::new("confinement", libc::ECHILD)),
        }
    }

    /// The process id of its keeper.
    pub fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// Ends all that is in it.
    pub fn end(&mut self) {
        if !self.0.is_reaped {
            child::kill(self.0.pid);
        }
        self.0.end();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.end();
    }
}

extern "C" fn begin<F: FnMut()>(program: *mut c_void) -> c_int {
    // SAFETY: the closure that its keeper, which waits, has on its stack.
    unsafe { (*program.cast::<F>())() };
    127
}

/// The news of children's ends as a file. No signal ends a keeper but SIGKILL.
fn child_signals() -> RawFd {
    // SAFETY: system calls on the process's own state.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        let mut children: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut children);
        libc::sigaddset(&raw mut children, libc::SIGCHLD);
        libc::signalfd(
            -1,
            &raw const children,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        )
    }
}

/// The next child that has ended. One that asked to be traced by its parent, the keeper, tells of
/// its stops as well: it goes on, untraced.
fn reap_any(options: i32) -> Option<(i32, i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: plain numbers, and places that live through the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        loop {
            let pid = libc::wait4(-1, &raw mut status, options, &raw mut usage);
            if pid <= 0 || !libc::WIFSTOPPED(status) {
                return (pid > 0).then_some((pid, status, usage));
            }
            let signal = libc::WSTOPSIG(status) as *mut c_void;
            libc::ptrace(
                libc::PTRACE_DETACH,
                pid,
                std::ptr::null_mut::<c_void>(),
                signal,
            );
        }
    }
}

fn note(ends: RawFd, program: &mut Option<i32>, pid: i32, status: i32, usage: libc::rusage) {
    if *program == Some(pid) {
        *program = None;
        let end = End {
            at_ns: clock::now(),
            status: i64::from(status),
            usage,
        };
        end.write(ends);
    }
}

/// Whether the starter ended this on purpose, and did not die.
fn is_told(lifeline: RawFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: a buffer of the size that is given; nobody writes any more.
    unsafe { libc::read(lifeline, (&raw mut byte).cast(), 1) == 1 }
}

/// Whether the control group of this file `cgroup.procs` is gone.
fn is_removed(group: RawFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: a buffer of the size that is given.
    unsafe { libc::pread(group, (&raw mut byte).cast(), 1, 0) < 0 && errno() == libc::ENODEV }
}

/// Kills the children of this process, as many as one reading shows; whether one could be killed,
/// or there are none.
fn kill_children() -> bool {
    let mut digits = [0u8; 4096];
    // SAFETY: a constant path, and a buffer of the size that is given.
    let length = unsafe {
        let fd = libc::open(
            c"/proc/thread-self/children".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        let length = libc::read(fd, digits.as_mut_ptr().cast(), digits.len());
        libc::close(fd);
        usize::try_from(length).unwrap_or(0)
    };
    let (mut pid, mut is_any) = (0, length == 0);
    for digit in &digits[..length] {
        if digit.is_ascii_digit() {
            pid = pid * 10 + i32::from(digit - b'0');
        } else {
            // SAFETY: a signal to a child that is not yet reaped, whose number is its own.
            is_any |= unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
            pid = 0;
        }
    }
    is_any
}

fn close_all_but(mut kept: [RawFd; 4]) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: the process uses none of these.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Whether there is something to read, or nobody who could write, within this time.
pub(crate) fn is_readable(fd: RawFd, timeout: Duration) -> bool {
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid structure; the caller repeats an interrupted call.
    unsafe { libc::poll(&raw mut polled, 1, timeout.as_millis() as i32) > 0 }
}
