//! Starts a user's program for a measurement, and awaits its end.
//!
//! The child puts itself into its cgroups, takes its scheduling, builds what confines it
//! (`confine`), takes its user and its directory, and executes. The clock is read by the child,
//! directly before that: a fork takes the longer the more memory its parent has. The time and each
//! refusal of the kernel come back through a pipe that a successful `exec` closes, so a start
//! either happens as ordered or is an error that names the step. Between fork and exec only system
//! calls are made on memory that was prepared before: the caller may have other threads.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::child::{self, default_signals, enter_cgroups, errno, open_cgroups, reap, Refusal};
use crate::clock::{self, Cpu};
use crate::confine::{Confinement, Wall};
use crate::cpu::account::Account;
use crate::cpu::{pin, Attributes};

/// Steps of the child; what comes back through the pipe is an index of these, or
/// `STARTS`.
const STEPS: [&str; 7] = [
    "cgroup",
    "policy",
    "affinity",
    "user",
    "directory",
    "program",
    "confinement",
];

const STARTS: u32 = STEPS.len() as u32;

/// The child's message: the step that failed and its errno, or `STARTS` and the time.
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

/// A started program. Dropping it kills and reaps it.
pub struct Launched {
    pid: i32,
    hold: OwnedFd,
    words: OwnedFd,
    gate: Option<OwnedFd>,
    before: Account,
    started_ns: u64,
    ending: Option<Ending>,
}

/// All that the child needs, made before the fork.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    streams: Vec<RawFd>,
    /// Both ends of what is written to at the release.
    gate: Option<(OwnedFd, OwnedFd)>,
    cgroups: Vec<OwnedFd>,
    user: Option<User>,
    scheduling: Option<Attributes>,
    cpus: Vec<usize>,
    same_session: bool,
    wall: Option<Wall>,
}

impl Launched {
    /// Starts the program, in its own session unless the order requests otherwise.
    pub fn start(order: &Order) -> Result<Self, Refusal> {
        let prepared = prepare(order)?;
        let argv = pointers(&prepared.argv);
        let environment = pointers(&prepared.environment);
        let (words, writing) = pipe()?;
        // SAFETY: see the module's description; the child never returns.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(Refusal::last("fork")),
            0 => become_program(&prepared, &argv, &environment, writing.as_raw_fd()),
            pid => pid,
        };
        drop(writing);
        let hold = Pid::from_raw(pid)
            .ok_or(libc::ESRCH)
            .and_then(|p| pidfd_open(p, PidfdFlags::empty()).map_err(|e| e.raw_os_error()))
            .map_err(|errno| {
                child::kill(pid);
                reap(pid, 0);
                Refusal::new("fork", errno)
            })?;
        let mut launched = Launched {
            pid,
            hold,
            words,
            gate: prepared.gate.map(|(_, writing)| writing),
            before: Account::default(),
            started_ns: 0,
            ending: None,
        };
        if launched.gate.is_none() {
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
            if word.step == STARTS {
                self.started_ns = word.at_ns;
                continue;
            }
            self.wait(Duration::from_secs(10));
            return Err(Refusal::new(STEPS[word.step as usize], word.errno));
        }
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits at most `timeout`; how it ended, or nothing while it runs.
    pub fn wait(&mut self, timeout: Duration) -> Option<Ending> {
        if self.ending.is_none() {
            let mut polled = libc::pollfd {
                fd: self.hold.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid pollfd; the caller repeats an interrupted call.
            let ready = unsafe { libc::poll(&raw mut polled, 1, timeout.as_millis() as i32) };
            if ready > 0 {
                self.ending = self.ended();
            }
        }
        self.ending
    }

    /// Sends it a signal, if it still runs.
    pub fn kill(&self, signal: Signal) {
        if self.ending.is_none() {
            // One that ended meanwhile needs none.
            let _ = pidfd_send_signal(&self.hold, signal);
        }
    }

    fn ended(&self) -> Option<Ending> {
        let elapsed_ns = clock::now() - self.started_ns;
        let (status, usage) = reap(self.pid, 0)?;
        let (cpu, used) = (Cpu::of(&usage), Account::in_all(&usage).since(self.before));
        let signalled = libc::WIFSIGNALED(status);
        Some(Ending {
            elapsed_ns,
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
        })
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
        self.kill(Signal::KILL);
        self.wait(Duration::from_secs(5));
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Refusal> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| Refusal::new("fork", e.raw_os_error()))
}

fn prepare(order: &Order) -> Result<Prepared, Refusal> {
    let text = |s: &String| CString::new(s.as_str()).map_err(|_| Refusal::new("program", 22));
    let all = |list: &[String]| list.iter().map(text).collect::<Result<Vec<_>, _>>();
    Ok(Prepared {
        program: text(&order.program)?,
        argv: all(&order.argv)?,
        environment: all(&order.environment)?,
        directory: text(&order.directory)?,
        streams: order.streams.clone(),
        gate: order.held.then(pipe).transpose()?,
        cgroups: open_cgroups(&order.cgroups)?,
        user: order.user.clone(),
        scheduling: order.scheduling,
        cpus: order.cpus.clone(),
        same_session: order.same_session,
        wall: (order.confinement.as_ref().map(Wall::of).transpose())
            .map_err(|errno| Refusal::new("confinement", errno))?,
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
    pipe: RawFd,
) -> ! {
    let (step, errno) = match settle(prepared) {
        Err(failed) => failed,
        Ok(()) => {
            let starts = Word {
                step: STARTS,
                errno: 0,
                at_ns: clock::now(),
            };
            starts.write(pipe);
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
    let failed = Word {
        step,
        errno,
        at_ns: 0,
    };
    failed.write(pipe);
    // SAFETY: ends the process.
    unsafe { libc::_exit(127) }
}

/// All steps before exec; the index of the one that failed, and its errno.
fn settle(prepared: &Prepared) -> Result<(), (u32, i32)> {
    let failed = |step: u32| (step, errno());
    enter_cgroups(&prepared.cgroups).map_err(|errno| (0, errno))?;
    // SAFETY: system calls on the child's own state.
    unsafe {
        if !prepared.same_session {
            libc::setsid();
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
    if prepared.gate.is_none() {
        // One that is held is the user's own: what the user ignores (`nohup`) it ignores.
        default_signals();
    }
    if let Some(attributes) = &prepared.scheduling {
        attributes.apply(0).map_err(|errno| (1, errno))?;
    }
    if !prepared.cpus.is_empty() {
        pin(None, &prepared.cpus).map_err(|refusal| (2, refusal.errno()))?;
    }
    if let Some(wall) = &prepared.wall {
        wall.build().map_err(|errno| (6, errno))?;
    }
    if let Some(user) = &prepared.user {
        // SAFETY: system calls on the child's own credentials, groups first.
        let refused = unsafe {
            libc::setgroups(user.groups.len(), user.groups.as_ptr()) != 0
                || libc::setresgid(user.gid, user.gid, user.gid) != 0
                || libc::setresuid(user.uid, user.uid, user.uid) != 0
        };
        if refused {
            return Err(failed(3));
        }
    }
    // SAFETY: a null-terminated path; descriptors of the parent that are open here as well.
    unsafe {
        if libc::chdir(prepared.directory.as_ptr()) != 0 {
            return Err(failed(4));
        }
        for (number, fd) in prepared.streams.iter().enumerate() {
            if libc::dup2(*fd, number as i32) < 0 {
                return Err(failed(5));
            }
        }
        const CLOEXEC: libc::c_uint = 4;
        if !prepared.streams.is_empty() {
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOEXEC);
        }
        if let Some((reading, writing)) = &prepared.gate {
            // The parent's end alone keeps it open: one whose parent is gone does not run.
            libc::close(writing.as_raw_fd());
            let mut byte = 0u8;
            if libc::read(reading.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
        }
    }
    Ok(())
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
