//! The child of a start: from the fork to the exec, and what it writes to its starter meanwhile.
//! Only system calls are made, on memory that was prepared before the fork.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::pipe::{pipe_with, PipeFlags};
use serde::Deserialize;

use crate::child::{default_signals, enter_cgroups, errno, open_cgroups, Refusal};
use crate::clock;
use crate::confine::{new_mounts, Built, Confinement, Wall, IN_USERS};
use crate::cpu::{pin, Attributes};
use crate::keeper::Plan;
use crate::places::{open_input, open_place};

/// Steps of the child; what comes back through the pipe is an index of these, or one of the words
/// behind them.
pub(crate) const STEPS: [&str; 8] = [
    "cgroup",
    "policy",
    "affinity",
    "user",
    "directory",
    "program",
    "confinement",
    "input",
];

pub(crate) const CONFINEMENT: u32 = 6;
const INPUT: u32 = 7;

/// It executes now: the walls that stand, and the time.
pub(crate) const STARTS: u32 = STEPS.len() as u32;
/// Its process id, as its starter sees it.
pub(crate) const IS: u32 = STARTS + 1;
/// It is in a new user namespace, and waits for maps of users and groups.
pub(crate) const ASKS_MAPS: u32 = STARTS + 2;

/// The child's message: the step that failed and its errno, or a word and what belongs to it.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    pub step: u32,
    pub errno: i32,
    pub at_ns: u64,
}

/// A user that the child becomes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
}

/// What is started, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Path of the program.
    pub program: String,
    /// Its arguments, the first is its name.
    pub argv: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// Where it works.
    pub directory: String,
    /// Descriptors that become its standard streams, and the only ones; none: it has the caller's.
    #[serde(default)]
    pub streams: Vec<RawFd>,
    /// A file that it reads instead of the first of these: it is opened within its walls.
    #[serde(default)]
    pub input: Option<String>,
    /// It waits for `Launched::release`.
    #[serde(default)]
    pub held: bool,
    /// Files `cgroup.procs` of the cgroups that it joins.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// The user that it becomes; nothing: stays as it is.
    #[serde(default)]
    pub user: Option<User>,
    /// Policy, nice value and slice; nothing: inherited.
    #[serde(default)]
    pub scheduling: Option<Attributes>,
    /// CPUs that it may use; empty: all.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// It stays in the caller's session, and so in its autogroup; in a process group of its own
    /// and without the terminal, unless it is held.
    #[serde(default)]
    pub same_session: bool,
    /// What it can reach; nothing: all that its user can.
    #[serde(default)]
    pub confinement: Option<Confinement>,
    /// It has a keeper also if nothing confines it.
    #[serde(default)]
    pub kept: bool,
    /// The room that a confined program works in, by its process id; nothing: in one of its own.
    #[serde(default)]
    pub room: Option<i32>,
}

/// All that the child needs, made before the fork.
pub(crate) struct Prepared {
    program: CString,
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    directory: CString,
    streams: Vec<RawFd>,
    input: Option<CString>,
    held: bool,
    /// Both ends of what is written to at the release, or when the maps are written.
    pub gate: Option<(OwnedFd, OwnedFd)>,
    cgroups: Vec<OwnedFd>,
    pub user: Option<User>,
    scheduling: Option<Attributes>,
    cpus: Vec<usize>,
    same_session: bool,
    pub wall: Option<Wall>,
}

/// What the child writes to, and which walls its keeper is in.
#[derive(Clone, Copy)]
pub(crate) struct Reports {
    pub pipe: RawFd,
    pub is_kept: bool,
    pub walls: u32,
}

impl Word {
    const BYTES: usize = 16;

    /// The next word; nothing once the program has begun, or the child has ended.
    pub fn read(pipe: &OwnedFd) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        let heard = rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut bytes));
        (heard == Ok(bytes.len())).then(|| {
            let all = u128::from_ne_bytes(bytes);
            Word {
                step: all as u32,
                errno: (all >> 32) as i32,
                at_ns: (all >> 64) as u64,
            }
        })
    }

    pub fn failed((step, errno): (u32, i32)) -> Self {
        Word {
            step,
            errno,
            at_ns: 0,
        }
    }

    /// Writes it in one piece, as less than a page goes through a pipe.
    pub fn write(self, pipe: RawFd) {
        let all = u128::from(self.step)
            | u128::from(self.errno as u32) << 32
            | u128::from(self.at_ns) << 64;
        let bytes = all.to_ne_bytes();
        // SAFETY: bytes that live on the stack.
        unsafe { libc::write(pipe, bytes.as_ptr().cast(), bytes.len()) };
    }
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), Refusal> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| Refusal::new("fork", e.raw_os_error()))
}

/// Prepares a start; the step of what cannot be one.
pub(crate) fn prepare(order: &Order) -> Result<Prepared, Refusal> {
    let text = |s: &String| CString::new(s.as_str()).map_err(|_| Refusal::new("program", 22));
    let all = |list: &[String]| list.iter().map(text).collect::<Result<Vec<_>, _>>();
    let input = order.input.as_ref();
    let paths = [("program", &order.program), ("directory", &order.directory)];
    for (step, path) in paths.into_iter().chain(input.map(|path| ("input", path))) {
        if !path.starts_with('/') {
            return Err(Refusal::new(step, libc::EINVAL));
        }
    }
    let wall = order.confinement.as_ref().map(Wall::of).transpose();
    let wall = wall.map_err(|errno| Refusal::new("confinement", errno))?;
    if order.held && (wall.is_some() || order.kept) {
        return Err(Refusal::new("confinement", libc::EINVAL));
    }
    let has_gate = order.held || (wall.is_some() && order.user.is_some());
    Ok(Prepared {
        program: text(&order.program)?,
        argv: all(&order.argv)?,
        environment: all(&order.environment)?,
        directory: text(&order.directory)?,
        streams: order.streams.clone(),
        input: input.map(text).transpose()?,
        held: order.held,
        gate: has_gate.then(pipe).transpose()?,
        cgroups: open_cgroups(&order.cgroups)?,
        user: order.user.clone(),
        scheduling: order.scheduling,
        cpus: order.cpus.clone(),
        same_session: order.same_session,
        wall,
    })
}

pub(crate) fn pointers(list: &[CString]) -> Vec<*const libc::c_char> {
    let ends = std::iter::once(std::ptr::null());
    list.iter().map(|s| s.as_ptr()).chain(ends).collect()
}

/// The child's life until exec, or until it has written the step that failed and its errno.
pub(crate) fn become_program(
    prepared: &Prepared,
    argv: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    reports: Reports,
) -> ! {
    let failed = match prepared.settle(reports) {
        Err(failed) => failed,
        Ok(walls) => {
            let starts = Word {
                step: STARTS,
                errno: walls as i32,
                at_ns: clock::now(),
            };
            starts.write(reports.pipe);
            // SAFETY: null-terminated arrays made before the fork.
            unsafe {
                libc::execve(
                    prepared.program.as_ptr(),
                    argv.as_ptr(),
                    environment.as_ptr(),
                )
            };
            (5, errno())
        }
    };
    Word::failed(failed).write(reports.pipe);
    // SAFETY: ends the process.
    unsafe { libc::_exit(127) }
}

/// A step that failed, as an index of `STEPS`, and its errno.
type Failed = (u32, i32);

impl Prepared {
    /// The first of the control groups that it joins.
    pub fn group(&self) -> Option<RawFd> {
        self.cgroups.first().map(AsRawFd::as_raw_fd)
    }

    /// The keeper's steps before it starts the program.
    pub fn enter_with(&self, plan: &Plan) -> Result<(), i32> {
        if let Some((_, writing)) = &self.gate {
            // SAFETY: the starter's end alone keeps it open.
            unsafe { libc::close(writing.as_raw_fd()) };
        }
        plan.enter()
    }

    /// All steps before exec; the walls that stand, by their bits.
    fn settle(&self, reports: Reports) -> Result<u32, Failed> {
        if reports.is_kept {
            Word {
                step: IS,
                errno: 0,
                at_ns: own_number().ok_or((CONFINEMENT, libc::ENOENT))?,
            }
            .write(reports.pipe);
        }
        enter_cgroups(&self.cgroups).map_err(|errno| (0, errno))?;
        // SAFETY: system calls on the child's own state.
        unsafe {
            if !self.same_session {
                libc::setsid();
            } else if !self.held {
                libc::setpgid(0, 0);
                leave_terminal();
            }
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        if !self.held {
            // One that is held is the user's own: what the user ignores (`nohup`) it ignores.
            default_signals();
        }
        if let Some(attributes) = &self.scheduling {
            attributes.apply(0).map_err(|errno| (1, errno))?;
        }
        if !self.cpus.is_empty() {
            pin(None, &self.cpus).map_err(|refusal| (2, refusal.errno()))?;
        }
        if self.wall.is_some() {
            new_session_keys();
            new_mounts().map_err(|errno| (CONFINEMENT, errno))?;
        }
        // A file by its mount that a wall will have read-only; no device by one of the host's.
        let is_device = self.input.as_deref() == Some(c"/dev/null");
        let input = self.input.as_deref().filter(|_| !is_device);
        let input = input.map(open_input).transpose();
        let input = input.map_err(|errno| (INPUT, errno))?;
        let built = self.wall.as_ref().map(Wall::build).transpose();
        let built = built.map_err(|errno| (CONFINEMENT, errno))?;
        self.take_user(&built, reports)?;
        self.take_place(input)?;
        let Some(built) = built else {
            return Ok(reports.walls);
        };
        let in_users = self.user.is_some() || reports.walls & IN_USERS != 0;
        let walls = built.finish(in_users);
        Ok(reports.walls | walls.map_err(|errno| (CONFINEMENT, errno))?)
    }

    /// Becomes the user, with a wall in a user namespace that has no other.
    fn take_user(&self, built: &Option<Built>, reports: Reports) -> Result<(), Failed> {
        const USER: u32 = 3;
        let Some(user) = &self.user else {
            return Ok(());
        };
        if built.is_some() {
            // SAFETY: flags only.
            if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
                return Err((USER, errno()));
            }
            Word {
                step: ASKS_MAPS,
                errno: 0,
                at_ns: 0,
            }
            .write(reports.pipe);
            self.wait_at_gate();
        }
        // SAFETY: system calls on the child's own credentials, groups first.
        let refused = unsafe {
            libc::setgroups(user.groups.len(), user.groups.as_ptr()) != 0
                || libc::setresgid(user.gid, user.gid, user.gid) != 0
                || libc::setresuid(user.uid, user.uid, user.uid) != 0
        };
        if refused {
            return Err((USER, errno()));
        }
        Ok(())
    }

    /// Takes its directory and its standard streams, and waits for its release.
    fn take_place(&self, input: Option<RawFd>) -> Result<(), Failed> {
        let directory = open_place(&self.directory).map_err(|errno| (4, errno))?;
        // SAFETY: descriptors of the parent that are open here as well.
        unsafe {
            if libc::fchdir(directory) != 0 {
                return Err((4, errno()));
            }
            libc::close(directory);
        }
        let opened = match (input, &self.input) {
            (None, Some(path)) => Some(open_input(path).map_err(|errno| (INPUT, errno))?),
            _ => input,
        };
        let streams = self.streams.iter().enumerate();
        // SAFETY: descriptors of this process.
        unsafe {
            for (number, fd) in streams {
                let fd = opened.filter(|_| number == 0).unwrap_or(*fd);
                if libc::dup2(fd, number as i32) < 0 {
                    return Err((5, errno()));
                }
            }
            const CLOEXEC: libc::c_uint = 4;
            if !self.streams.is_empty() {
                libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOEXEC);
            }
        }
        if self.held {
            self.wait_at_gate();
        }
        Ok(())
    }

    /// Waits for the starter's word; without a starter it ends.
    fn wait_at_gate(&self) {
        let Some((reading, writing)) = &self.gate else {
            return;
        };
        // SAFETY: the starter's end alone keeps it open: one whose starter is gone does not run.
        unsafe {
            if self.held {
                libc::close(writing.as_raw_fd());
            }
            let mut byte = 0u8;
            if libc::read(reading.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
        }
    }
}

/// Lets go of the terminal of the session, into which a program could type for its user.
fn leave_terminal() {
    // SAFETY: a constant path, and a descriptor that was opened just now.
    unsafe {
        let fd = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::ioctl(fd, libc::TIOCNOTTY);
            libc::close(fd);
        }
    }
}

/// Takes a key ring of its own for that of the starter's session: KEYCTL_JOIN_SESSION_KEYRING
/// (include/uapi/linux/keyctl.h). A kernel without keys has none to share.
fn new_session_keys() {
    // SAFETY: numbers, and no name.
    unsafe { libc::syscall(libc::SYS_keyctl, 1, std::ptr::null::<libc::c_char>()) };
}

/// The process's number where `/proc` is the starter's.
fn own_number() -> Option<u64> {
    let mut digits = [0u8; 16];
    // SAFETY: a constant path and a buffer of the size that is given.
    let length = unsafe {
        libc::readlink(
            c"/proc/self".as_ptr(),
            digits.as_mut_ptr().cast(),
            digits.len(),
        )
    };
    let text = digits.get(..usize::try_from(length).ok()?)?;
    std::str::from_utf8(text).ok()?.parse().ok()
}
