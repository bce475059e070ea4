//! Starts a user's program for a measurement, and awaits its end.
//!
//! The child puts itself into its cgroups, takes its scheduling, builds what confines it
//! (`confine`), takes its user and its directory, and executes. The clock is read by the child,
//! directly before that: a fork takes the longer the more memory its parent has. The time and each
//! refusal of the kernel come back through a pipe that a successful `exec` closes, so a start
//! either happens as ordered or is an error that names the step. Between fork and exec only system
//! calls are made on memory that was prepared before (`starting`): the caller may have other
//! threads. One that
//! is confined or `kept` is the child of a `keeper`, which awaits it and ends what it leaves.
//! Every path is an absolute one: where it leads was decided where it was typed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use serde::Serialize;

use crate::child::{self, reap, Refusal};
use crate::clock::{self, Cpu};
use crate::confine::{IN_PROCESSES, IN_USERS, WALLS};
use crate::cpu::account::Account;
use crate::keeper::{is_readable, End, Keeper, Plan};
use crate::starting::{
    become_program, pipe, pointers, prepare, Reports, Word, ASKS_MAPS, CONFINEMENT, IS, STARTS,
    STEPS,
};
pub use crate::starting::{Order, User};

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

/// A started program. Dropping it kills and reaps it, and with a keeper all that it left.
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
                Ok(()) => plan.start_and_keep(reports.pipe, prepared.group(), || {
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

    /// Ends it, and with a keeper all that it left.
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

impl Drop for Launched {
    fn drop(&mut self) {
        self.end();
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::Confinement;

    fn order(argv: &[&str]) -> Order {
        Order {
            program: argv[0].into(),
            argv: argv.iter().map(|s| s.to_string()).collect(),
            environment: vec!["PATH=/usr/bin:/bin".into()],
            directory: "/".into(),
            streams: vec![0, 1, 2],
            input: None,
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

    #[test]
    fn a_kept_program_tells_its_end_and_leaves_nothing() {
        let mut order = order(&["/bin/sh", "-c", "sleep 1000 & sleep 1000 & exit 3"]);
        for confinement in [None, Some(Confinement::default())] {
            order.kept = true;
            order.confinement = confinement;
            let mut program = match Launched::start(&order) {
                Err(refusal) if refusal.errno() == libc::EPERM => return, // no namespaces here
                other => other.unwrap(),
            };
            let ending = program.wait(Duration::from_secs(10)).unwrap();
            assert_eq!((ending.status, ending.signal), (Some(3), None));
            let keeper = program.keeper().unwrap();
            let children = format!("/proc/{keeper}/task/{keeper}/children");
            let left = std::fs::read_to_string(&children).unwrap();
            assert_eq!(left.split_whitespace().count(), 2, "adopted");
            let is_walled = program.walls().contains(&"process");
            assert_eq!(is_walled, order.confinement.is_some());
            program.end();
            for pid in left.split_whitespace() {
                assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
            }
        }
    }

    #[test]
    fn a_path_is_an_absolute_one() {
        for path in ["", ".", "x", "../x"] {
            let mut order = order(&["/bin/true"]);
            order.directory = path.into();
            assert_eq!(Launched::start(&order).err().unwrap().step, "directory");
        }
    }
}
