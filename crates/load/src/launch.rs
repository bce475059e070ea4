//! Starts a user's program for a measurement, and awaits its end.
//!
//! The child puts itself into its cgroups, takes its scheduling, builds what confines it
//! (`confine`), takes its user and its directory, and executes. The clock is read by the child,
//! directly before that: a fork takes the longer the more memory its parent has. The time and each
//! refusal of the kernel come back through a pipe that a successful `exec` closes, so a start
//! either happens as ordered or is an error that names the step. Between fork and exec only system
//! calls are made on memory that was prepared before: the caller may have other threads. One that
//! is confined or `kept` is the child of a `keeper`, which awaits it and ends what it leaves.
//! Every path is an absolute one: where it leads was decided where it was typed.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::child::{self, default_signals, enter_cgroups, errno, open_cgroups, reap, Refusal};
use crate::clock::{self, Cpu};
use crate::confine::{self, Built, Confinement, Wall, IN_PROCESSES, IN_USERS, WALLS};
use crate::cpu::account::Account;
use crate::cpu::{pin, Attributes};
use crate::keeper::{is_readable, End, Keeper, Plan};

/// Steps of the child; what comes back through the pipe is an index of these, or one of the words
/// behind them.
const STEPS: [&str; 7] = [
    "cgroup",
    "policy",
    "affinity",
    "user",
    "directory",
    "program",
    "confinement",
];

const CONFINEMENT: u32 = 6;

/// It executes now: the walls that stand, and the time.
const STARTS: u32 = STEPS.len() as u32;
/// Its process id, as its starter sees it.
const IS: u32 = STARTS + 1;
/// It is in a new user namespace, and waits for maps of users and groups.
const ASKS_MAPS: u32 = STARTS + 2;

/// The child's message: the step that failed and its errno, or a word and what belongs to it.
#[derive(Clone, Copy)]
struct Word {
    step: u32,
    errno: i32,
    at_ns: u64,
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
    /// It waits for [`Launched::release`].
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
    /// It stays in the caller's session, and so in its autogroup.
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

/// How a program ended, and what it and the children that it awaited used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ending {
    /// From directly before the exec to directly after the end.
    pub elapsed_ns: u64,
    /// Exit status, if it exited.
    pub status: Option<i32>,
    /// Signal that killed it, if one did.
    pub signal: Option<i32>,
    /// User time.
    pub user_ns: u64,
    /// System time.
    pub system_ns: u64,
    /// Both since its release.
    pub cpu_ns: u64,
    /// Largest resident set of any of its processes.
    pub rss_bytes: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Times that it gave up a CPU since its release.
    pub voluntary_switches: u64,
    /// Times that a CPU was taken from it since its release.
    pub involuntary_switches: u64,
    /// Bytes that it read from block devices.
    pub read_bytes: u64,
    /// Bytes that it dirtied or wrote past the page cache.
    pub dirtied_bytes: u64,
}

/// A started program. Dropping it kills and reaps it, and with a process namespace of its own all
/// that it left.
pub struct Launched {
    pid: i32,
    child: Child,
    words: OwnedFd,
    gate: Option<OwnedFd>,
    user: Option<User>,
    walls: u32,
    before: Account,
    started_ns: u64,
    ending: Option<Ending>,
}

enum Child {
    /// Our own: its process id, and a descriptor of it.
    Ours(i32, OwnedFd),
    Kept(Keeper),
}

/// All that the child needs, made before the fork.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    streams: Vec<RawFd>,
    held: bool,
    /// Both ends of what is written to at the release, or when the maps are written.
    gate: Option<(OwnedFd, OwnedFd)>,
    cgroups: Vec<OwnedFd>,
    user: Option<User>,
    scheduling: Option<Attributes>,
    cpus: Vec<usize>,
    same_session: bool,
    wall: Option<Wall>,
}

/// What the child writes to, and which walls its keeper is in.
#[derive(Clone, Copy)]
struct Reports {
    pipe: RawFd,
    is_kept: bool,
    walls: u32,
}

impl Launched {
    /// Starts the program, in its own session unless the order requests otherwise.
    pub fn start(order: &Order) -> Result<Self, Refusal> {
        let prepared = prepare(order)?;
        let argv = pointers(&prepared.argv);
        let environment = pointers(&prepared.environment);
        let (words, writing) = pipe()?;
        let mut reports = Reports {
            pipe: writing.as_raw_fd(),
            is_kept: order.kept || prepared.wall.is_some(),
            walls: 0,
        };
        let child = if reports.is_kept {
            let plan = Plan::new(prepared.wall.is_some(), order.room)?;
            reports.walls |= if plan.is_confined() { IN_PROCESSES } else { 0 };
            reports.walls |= if plan.has_users() { IN_USERS } else { 0 };
            Child::Kept(plan.fork(|plan| match prepared.enter_with(plan) {
                Ok(()) => plan.start_and_keep(reports.pipe, || {
                    become_program(&prepared, &argv, &environment, reports)
                }),
                Err(errno) => Word::failed((CONFINEMENT, errno)).write(reports.pipe),
            })?)
        } else {
            // SAFETY: see the module's description; the child never returns.
            match unsafe { libc::fork() } {
                -1 => return Err(Refusal::last("fork")),
                0 => become_program(&prepared, &argv, &environment, reports),
                pid => Child::Ours(pid, hold(pid)?),
            }
        };
        drop(writing);
        let mut launched = Launched {
            pid: child.pid(),
            child,
            words,
            gate: prepared.gate.map(|(_, writing)| writing),
            user: prepared.user,
            walls: 0,
            before: Account::default(),
            started_ns: 0,
            ending: None,
        };
        if !order.held {
            launched.hear()?;
        }
        Ok(launched)
    }

    /// Lets one that is held execute its program; what it used until now is not counted.
    pub fn release(&mut self) -> Result<(), Refusal> {
        self.before = Account::of(self.pid);
        if let Some(gate) = self.gate.take() {
            // One that has ended has left its reason.
            let _ = rustix::io::write(&gate, b"g");
        }
        self.hear()
    }

    /// Listens until the program has begun.
    fn hear(&mut self) -> Result<(), Refusal> {
        while let Some(word) = Word::read(&self.words) {
            match word.step {
                STARTS => (self.started_ns, self.walls) = (word.at_ns, word.errno as u32),
                IS => self.pid = word.at_ns as i32,
                ASKS_MAPS => self.write_maps()?,
                step => {
                    self.wait(Duration::from_secs(10));
                    return Err(Refusal::new(STEPS[step as usize], word.errno));
                }
            }
        }
        if self.started_ns == 0 {
            return Err(Refusal::new("fork", libc::ECHILD)); // it was killed before
        }
        Ok(())
    }

    /// Maps the program's user and groups into its user namespace, as themselves, and no other.
    fn write_maps(&mut self) -> Result<(), Refusal> {
        let Some(user) = &self.user else {
            return Err(Refusal::new("user", libc::EINVAL));
        };
        let groups: std::collections::BTreeSet<_> = user.groups.iter().chain([&user.gid]).collect();
        let groups: String = groups.iter().map(|id| format!("{id} {id} 1\n")).collect();
        let users = format!("{0} {0} 1", user.uid);
        for (file, map) in [("uid_map", users), ("gid_map", groups)] {
            std::fs::write(format!("/proc/{}/{file}", self.pid), map)
                .map_err(|e| Refusal::new("user", e.raw_os_error().unwrap_or(libc::EIO)))?;
        }
        if let Some(gate) = &self.gate {
            // One that has ended has left its reason.
            let _ = rustix::io::write(gate, b"m");
        }
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The process whose descendants are what it started, itself among them; nothing: itself is.
    pub fn keeper(&self) -> Option<i32> {
        match &self.child {
            Child::Kept(keeper) => Some(keeper.pid()),
            Child::Ours(..) => None,
        }
    }

    /// The walls that it is in.
    pub fn walls(&self) -> Vec<&'static str> {
        let stands = |(bit, _): &(usize, _)| self.walls >> bit & 1 == 1;
        WALLS
            .into_iter()
            .enumerate()
            .filter(stands)
            .map(|(_, name)| name)
            .collect()
    }

    /// Waits at most `timeout`; how it ended, or nothing while it runs.
    pub fn wait(&mut self, timeout: Duration) -> Option<Ending> {
        if self.ending.is_none() {
            let end = match &self.child {
                Child::Ours(pid, hold) => is_readable(hold.as_raw_fd(), timeout).then(|| {
                    let at_ns = clock::now();
                    reap(*pid, 0).map(|(status, usage)| End {
                        at_ns,
                        status: i64::from(status),
                        usage,
                    })
                })?,
                Child::Kept(keeper) => keeper.wait(timeout)?,
            };
            self.ending = Some(self.ending_of(end));
        }
        self.ending
    }

    /// Ends it, and with a process namespace of its own all that it left.
    pub fn end(&mut self) {
        let end = match &mut self.child {
            Child::Kept(keeper) => keeper.end(),
            Child::Ours(..) => {
                self.kill(Signal::KILL);
                self.wait(Duration::from_secs(5));
                return;
            }
        };
        if self.ending.is_none() {
            self.ending = Some(self.ending_of(end));
        }
    }

    /// Sends it a signal, if it still runs.
    pub fn kill(&self, signal: Signal) {
        match (&self.child, self.ending) {
            // One that ended meanwhile needs none.
            (Child::Ours(_, hold), None) => {
                let _ = pidfd_send_signal(hold, signal);
            }
            (Child::Kept(_), None) => {
                if let Some(pid) = Pid::from_raw(self.pid) {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            _ => {}
        }
    }

    /// How it ended; by SIGKILL, at an unknown price, when its keeper was killed, too.
    fn ending_of(&self, end: Option<End>) -> Ending {
        let end = end.unwrap_or_else(|| End {
            at_ns: clock::now(),
            status: i64::from(libc::SIGKILL),
            // SAFETY: plain numbers, for which zeros are a value.
            usage: unsafe { std::mem::zeroed() },
        });
        let (status, usage) = (end.status as i32, end.usage);
        let (cpu, used) = (Cpu::of(&usage), Account::in_all(&usage).since(self.before));
        let signalled = libc::WIFSIGNALED(status);
        Ending {
            elapsed_ns: end.at_ns.saturating_sub(self.started_ns),
            status: (!signalled).then(|| libc::WEXITSTATUS(status)),
            signal: signalled.then(|| libc::WTERMSIG(status)),
            user_ns: cpu.user,
            system_ns: cpu.system,
            cpu_ns: used.cpu_ns,
            rss_bytes: usage.ru_maxrss as u64 * 1024,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: used.voluntary,
            involuntary_switches: used.involuntary,
            read_bytes: usage.ru_inblock as u64 * 512,
            dirtied_bytes: usage.ru_oublock as u64 * 512,
        }
    }
}

impl Child {
    fn pid(&self) -> i32 {
        match self {
            Child::Ours(pid, _) => *pid,
            Child::Kept(keeper) => keeper.pid(),
        }
    }
}

impl Word {
    const BYTES: usize = 16;

    /// The next word; nothing once the program has begun, or the child has ended.
    fn read(pipe: &OwnedFd) -> Option<Self> {
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

    fn failed((step, errno): (u32, i32)) -> Self {
        Word {
            step,
            errno,
            at_ns: 0,
        }
    }

    /// Writes it in one piece, as less than a page goes through a pipe.
    fn write(self, pipe: RawFd) {
        let all = u128::from(self.step)
            | u128::from(self.errno as u32) << 32
            | u128::from(self.at_ns) << 64;
        let bytes = all.to_ne_bytes();
        // SAFETY: bytes that live on the stack.
        unsafe { libc::write(pipe, bytes.as_ptr().cast(), bytes.len()) };
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.end();
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Refusal> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| Refusal::new("fork", e.raw_os_error()))
}

/// A child's descriptor; without one the child is ended.
fn hold(pid: i32) -> Result<OwnedFd, Refusal> {
    Pid::from_raw(pid)
        .ok_or(libc::ESRCH)
        .and_then(|p| pidfd_open(p, PidfdFlags::empty()).map_err(|e| e.raw_os_error()))
        .map_err(|errno| {
            child::kill(pid);
            reap(pid, 0);
            Refusal::new("fork", errno)
        })
}

fn prepare(order: &Order) -> Result<Prepared, Refusal> {
    let text = |s: &String| CString::new(s.as_str()).map_err(|_| Refusal::new("program", 22));
    let all = |list: &[String]| list.iter().map(text).collect::<Result<Vec<_>, _>>();
    for (step, path) in [("program", &order.program), ("directory", &order.directory)] {
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

fn pointers(list: &[CString]) -> Vec<*const libc::c_char> {
    let ends = std::iter::once(std::ptr::null());
    list.iter().map(|s| s.as_ptr()).chain(ends).collect()
}

/// The child's life until exec, or until it has written the step that failed and its errno.
fn become_program(
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
    /// The keeper's steps before it starts the program.
    fn enter_with(&self, plan: &Plan) -> Result<(), i32> {
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
        let built = self.wall.as_ref().map(Wall::build).transpose();
        let built = built.map_err(|errno| (CONFINEMENT, errno))?;
        self.take_user(&built, reports)?;
        self.take_place()?;
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
    fn take_place(&self) -> Result<(), Failed> {
        let directory = confine::open_place(&self.directory).map_err(|errno| (4, errno))?;
        // SAFETY: descriptors of the parent that are open here as well.
        unsafe {
            if libc::fchdir(directory) != 0 {
                return Err((4, errno()));
            }
            libc::close(directory);
            for (number, fd) in self.streams.iter().enumerate() {
                if libc::dup2(*fd, number as i32) < 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn order(argv: &[&str]) -> Order {
        Order {
            program: argv[0].into(),
            argv: argv.iter().map(|s| s.to_string()).collect(),
            environment: vec!["PATH=/usr/bin:/bin".into()],
            directory: "/".into(),
            streams: vec![0, 1, 2],
            held: false,
            cgroups: vec![],
            user: None,
            scheduling: None,
            cpus: vec![],
            same_session: false,
            confinement: None,
            kept: false,
            room: None,
        }
    }

    #[test]
    fn an_exit_status_and_a_signal_are_told_apart() {
        let mut exits = Launched::start(&order(&["/bin/sh", "-c", "exit 3"])).unwrap();
        let ending = exits.wait(Duration::from_secs(10)).unwrap();
        assert_eq!((ending.status, ending.signal), (Some(3), None));
        let mut dies = Launched::start(&order(&["/bin/sh", "-c", "kill -9 $$"])).unwrap();
        let ending = dies.wait(Duration::from_secs(10)).unwrap();
        assert_eq!((ending.status, ending.signal), (None, Some(9)));
    }

    #[test]
    fn a_program_that_is_missing_is_an_error_that_names_the_step() {
        let refusal = Launched::start(&order(&["/nonexistent"])).err().unwrap();
        assert_eq!(refusal.step, "program");
        assert_eq!(refusal.source.raw_os_error(), Some(libc::ENOENT));
        let mut elsewhere = order(&["/bin/true"]);
        elsewhere.directory = "/nonexistent".into();
        assert_eq!(Launched::start(&elsewhere).err().unwrap().step, "directory");
    }

    #[test]
    fn only_one_that_is_held_keeps_what_its_user_blocks() {
        std::thread::spawn(|| {
            // SAFETY: plain data; the mask is that of this thread.
            unsafe {
                let mut blocked: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut blocked, libc::SIGUSR1);
                libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, std::ptr::null_mut());
            }
            let mut order = order(&["/bin/sh", "-c", "kill -USR1 $$; kill -PIPE $$; exit 3"]);
            for (held, signal) in [(false, libc::SIGUSR1), (true, libc::SIGPIPE)] {
                order.held = held;
                let mut program = Launched::start(&order).unwrap();
                if held {
                    while Account::of(program.pid()).voluntary == 0 {
                        std::thread::yield_now(); // until it sleeps at the gate
                    }
                    program.release().unwrap();
                }
                let ending = program.wait(Duration::from_secs(10)).unwrap();
                assert_eq!(ending.signal, Some(signal), "{held}");
                // What it used while it was held is not counted.
                assert_eq!(ending.cpu_ns < ending.user_ns + ending.system_ns, held);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_program_has_its_users_groups_and_no_descriptor_of_its_starter() {
        // SAFETY: a duplicate of our own, which an exec leaves open.
        let open = unsafe { libc::dup(0) };
        let line = format!("test ! -e /proc/self/fd/{open} && test \"$(id -G)\" = \"$0\"");
        let as_root = rustix::process::geteuid().is_root();
        let own = std::process::Command::new("id").arg("-G").output().unwrap();
        let own = String::from_utf8(own.stdout).unwrap();
        let groups = if as_root { "65534 100" } else { own.trim() };
        let mut order = order(&["/bin/sh", "-c", &line, groups]);
        order.user = as_root.then(|| User {
            uid: 65534,
            gid: 65534,
            groups: vec![100, 65534],
        });
        let mut program = Launched::start(&order).unwrap();
        assert_eq!(
            program.wait(Duration::from_secs(10)).unwrap().status,
            Some(0)
        );
    }

    #[test]
    fn one_that_is_held_ends_with_its_starter_and_when_it_is_dropped() {
        let mut order = order(&["/bin/sleep", "100"]);
        order.held = true;
        let sleeps = Launched::start(&order).unwrap();
        let own = std::path::PathBuf::from(format!("/proc/{}/fd", sleeps.pid()));
        let gate = rustix::fs::fstat(sleeps.gate.as_ref().unwrap())
            .unwrap()
            .st_ino;
        let gate = std::path::PathBuf::from(format!("pipe:[{gate}]"));
        let ends = || {
            let links = std::fs::read_dir(&own).unwrap().filter_map(|one| one.ok());
            let links = links.filter_map(|one| std::fs::read_link(one.path()).ok());
            links.filter(|link| *link == gate).count()
        };
        // Its own writing end would keep the gate open for ever.
        let begun = std::time::Instant::now();
        while ends() != 1 {
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        drop(sleeps);
        assert!(!own.exists());
    }

    #[test]
    fn waiting_ends_at_its_timeout() {
        let mut sleeps = Launched::start(&order(&["/bin/sleep", "100"])).unwrap();
        assert!(sleeps.wait(Duration::from_millis(20)).is_none());
        sleeps.kill(Signal::TERM);
        let ending = sleeps.wait(Duration::from_secs(10)).unwrap();
        assert_eq!(ending.signal, Some(15));
    }
}
