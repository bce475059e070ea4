//! The life of a mix: fork all tasks, wait until each is settled, start, await, add up.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::super::attributes_of;
use super::super::scheduling::{pin, Refusal};
use super::board::{Board, Desk, Header, A_WHILE};
use super::job::{Group, GroupResult, Job, JobResult, Role};
use super::messaging::{self, Channel};
use super::wakeup::{record_unfinished, Schedule};
use super::{fork_storm, steady, wakeup};
use crate::child::{
    detach, enter_cgroups, futex_wait, futex_wake, kill, open_cgroups, reap, DONE, FAILED, READY,
};
use crate::clock::{self, Cpu};

/// Time that tasks have to end after the window.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time after the window in which requests that were planned in it are served, beside the load.
const SERVED_LATE_NS: u64 = 1_000_000_000;
/// Failed steps of a task by the number that it leaves in its desk.
const STEPS: [&str; 3] = ["cgroup", "policy", "worker"];

struct Task {
    pid: i32,
    group: usize,
    cpu_ns: Option<u64>,
}

/// Forked tasks. Dropping it kills and reaps them.
pub struct Mix {
    job: Job,
    board: Board,
    tasks: Vec<Task>,
    /// Index of the first desk of each group.
    first: Vec<usize>,
    attributes: Vec<(u32, i32, u32, u64)>,
}

/// Number of processes of a group.
fn processes(group: &Group) -> usize {
    let tasks = group.tasks as usize;
    match group.role {
        Role::Wakeup { workers, .. } => tasks * (workers as usize + 1),
        Role::Messaging { .. } => tasks * 2,
        Role::Pipe { .. } => 2,
        _ => tasks,
    }
}

impl Mix {
    /// Forks all tasks under their settings and waits until they sleep before the start.
    pub fn launch(job: Job) -> Result<Self, Refusal> {
        let counts: Vec<usize> = job.groups.iter().map(processes).collect();
        let first = (0..counts.len())
            .map(|g| counts[..g].iter().sum())
            .collect();
        let mut mix = Mix {
            board: Board::new(counts.iter().sum(), true)?,
            tasks: Vec::new(),
            first,
            attributes: Vec::new(),
            job,
        };
        for group in 0..mix.job.groups.len() {
            mix.fork_group(group)?;
        }
        mix.await_ready()?;
        mix.attributes = mix
            .tasks
            .iter()
            .map(|task| attributes_of(task.pid).unwrap_or_default())
            .collect();
        Ok(mix)
    }

    /// The processes of all groups.
    pub fn pids(&self) -> Vec<(usize, i32)> {
        self.tasks
            .iter()
            .map(|task| (task.group, task.pid))
            .collect()
    }

    /// Starts all tasks at once.
    pub fn start(&self) {
        let header = self.board.header();
        let from = clock::now() + self.job.ramp_ns;
        header.count_from_ns.store(from, Relaxed);
        let end = from + self.job.window_ns;
        header.close_ns.store(end + SERVED_LATE_NS, Relaxed);
        header.end_ns.store(end, Release);
        header.gate.store(1, Release);
        futex_wake(&header.gate, i32::MAX);
    }

    /// Waits at most `timeout`; whether the window is over and its requests are served (or a
    /// second has passed since), or every finite task has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let over = self.is_over() || self.finite_are_done();
            if over || Instant::now() >= deadline {
                return over;
            }
            // Seldom: the parent must not be an additional load.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends all tasks and gives what they did.
    pub fn finish(&mut self) -> JobResult {
        let ended = clock::now();
        self.board.header().stop.store(1, Release);
        self.board.parts().iter().for_each(|desk| {
            futex_wake(&desk.posted, 1);
        });
        let deadline = Instant::now() + PATIENCE;
        while !self.reap() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.kill();
        let header = self.board.header();
        let groups = 0..self.job.groups.len();
        JobResult {
            window_ns: ended
                .min(header.end_ns.load(Relaxed))
                .saturating_sub(header.count_from_ns.load(Relaxed)),
            groups: groups.map(|group| self.result_of(group, ended)).collect(),
        }
    }

    fn fork_group(&mut self, index: usize) -> Result<(), Refusal> {
        let group = self.job.groups[index].clone();
        let setting = Setting::of(&self.job, &group, index)?;
        for number in 0..processes(&group) {
            let desk = &self.board.parts()[self.first[index] + number];
            let parent = std::process::id() as i32;
            // SAFETY: the child runs only what the module's description allows and never returns.
            match unsafe { libc::fork() } {
                -1 => return Err(Refusal::last("fork")),
                0 => live(
                    &setting,
                    self.board.header(),
                    self.board.parts(),
                    desk,
                    number,
                    parent,
                ),
                pid => self.tasks.push(Task {
                    pid,
                    group: index,
                    cpu_ns: None,
                }),
            }
        }
        Ok(())
    }

    fn await_ready(&mut self) -> Result<(), Refusal> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let states: Vec<u32> = self
                .board
                .parts()
                .iter()
                .map(|d| d.state.load(Acquire))
                .collect();
            if let Some(failed) = states.iter().position(|s| *s == FAILED) {
                let desk = &self.board.parts()[failed];
                let step = desk.units.load(Relaxed) as usize % STEPS.len();
                return Err(Refusal::new(STEPS[step], desk.errno.load(Relaxed)));
            }
            if states.iter().all(|s| *s == READY) {
                return Ok(());
            }
            if Instant::now() > deadline || self.reap() {
                return Err(Refusal::new("worker", libc::ETIMEDOUT));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn desks_of(&self, group: usize) -> &[Desk] {
        let first = self.first[group];
        &self.board.parts()[first..first + processes(&self.job.groups[group])]
    }

    fn is_over(&self) -> bool {
        let (header, now) = (self.board.header(), clock::now());
        let wakes = |g: &usize| matches!(self.job.groups[*g].role, Role::Wakeup { .. });
        let mut waking = (0..self.job.groups.len()).filter(wakes);
        now >= header.close_ns.load(Acquire)
            || now >= header.end_ns.load(Acquire) && waking.all(|group| self.is_done(group))
    }

    fn is_done(&self, group: usize) -> bool {
        self.desks_of(group)
            .iter()
            .all(|desk| desk.state.load(Acquire) >= FAILED)
    }

    fn finite_are_done(&self) -> bool {
        let finite = |g: &usize| self.job.groups[*g].role.is_finite();
        let mut groups = (0..self.job.groups.len()).filter(finite).peekable();
        groups.peek().is_some() && groups.all(|group| self.is_done(group))
    }

    /// Awaits what has ended; whether all have.
    fn reap(&mut self) -> bool {
        for task in self.tasks.iter_mut().filter(|task| task.cpu_ns.is_none()) {
            task.cpu_ns = try_reap(task.pid, libc::WNOHANG);
        }
        self.tasks.iter().all(|task| task.cpu_ns.is_some())
    }

    fn kill(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.cpu_ns.is_none()) {
            kill(task.pid);
            task.cpu_ns = try_reap(task.pid, 0).or(Some(0));
        }
    }

    fn result_of(&self, index: usize, ended: u64) -> GroupResult {
        let (group, desks) = (&self.job.groups[index], self.desks_of(index));
        let header = self.board.header();
        let (from, end) = (
            header.count_from_ns.load(Relaxed),
            header.end_ns.load(Relaxed),
        );
        let start = from - self.job.ramp_ns;
        let times = (from, end.min(ended), ended);
        let mut unfinished = 0;
        match group.role {
            Role::Wakeup { rate, .. } => {
                for (number, desk) in desks.iter().enumerate().skip(group.tasks as usize) {
                    let mut schedule = schedule(&self.job, index, number, rate, start);
                    unfinished += record_unfinished(desk, || schedule.next(), times);
                }
            }
            Role::Periodic { period_ns, .. } => {
                for (number, desk) in desks.iter().enumerate() {
                    let mut planned = start + shift(period_ns, number, group);
                    let next = || {
                        planned += period_ns;
                        planned
                    };
                    unfinished += record_unfinished(desk, next, times);
                }
            }
            _ => {}
        }
        let all_done = desks.iter().all(|desk| desk.state.load(Acquire) == DONE);
        let last = desks.iter().map(|desk| desk.done_ns.load(Relaxed)).max();
        let mine = || {
            self.tasks
                .iter()
                .enumerate()
                .filter(|(_, t)| t.group == index)
        };
        GroupResult {
            name: group.name.clone(),
            units: desks.iter().map(|desk| desk.units.load(Relaxed)).sum(),
            unfinished,
            response: merged(desks.iter().map(|desk| desk.response.rows())),
            wakeup: merged(desks.iter().map(|desk| desk.wakeup.rows())),
            elapsed_ns: (group.role.is_finite() && all_done)
                .then(|| last.unwrap_or(0).saturating_sub(start)),
            cpu_ns: mine().filter_map(|(_, task)| task.cpu_ns).sum(),
            attributes: mine().map(|(number, _)| self.attributes[number]).collect(),
        }
    }
}

impl Drop for Mix {
    fn drop(&mut self) {
        self.kill();
    }
}

fn merged(all: impl Iterator<Item = Vec<(u64, u64, u64)>>) -> Vec<(u64, u64, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (low, high, count) in all.flatten() {
        *sums.entry((low, high)).or_insert(0) += count;
    }
    sums.into_iter()
        .map(|((low, high), n)| (low, high, n))
        .collect()
}

/// CPU time of a child that has ended, with the children that it awaited.
fn try_reap(pid: i32, options: i32) -> Option<u64> {
    reap(pid, options).map(|(_, usage)| Cpu::of(&usage).total())
}

fn schedule(job: &Job, group: usize, number: usize, rate: f64, start: u64) -> Schedule {
    Schedule::new(
        job.seed,
        ((group as u64) << 32) | number as u64,
        rate,
        start,
    )
}

/// Tasks of one group are planned one after the other, not all at the same moment.
fn shift(period_ns: u64, number: usize, group: &Group) -> u64 {
    period_ns * number as u64 / u64::from(group.tasks.max(1))
}

/// All that a task needs, made before the fork.
struct Setting {
    job: Job,
    group: Group,
    index: usize,
    first: usize,
    cgroups: Vec<OwnedFd>,
    channels: Vec<Channel>,
    program: Option<CString>,
}

impl Setting {
    fn of(job: &Job, group: &Group, index: usize) -> Result<Self, Refusal> {
        let (count, sockets) = match group.role {
            Role::Messaging { sockets, .. } => (group.tasks as usize, sockets),
            Role::Pipe { .. } => (2, false),
            _ => (0, false),
        };
        let program = match &group.role {
            Role::ForkStorm { program, .. } => program.as_deref(),
            _ => None,
        };
        let program = program.map(CString::new).transpose();
        Ok(Setting {
            cgroups: open_cgroups(&group.cgroups)?,
            channels: (0..count)
                .map(|_| Channel::new(sockets))
                .collect::<Result<_, _>>()?,
            program: program.map_err(|_| Refusal::new("worker", libc::EINVAL))?,
            first: job.groups[..index].iter().map(processes).sum(),
            job: job.clone(),
            group: group.clone(),
            index,
        })
    }

    fn steps(&self, work_ns: u64) -> u64 {
        (work_ns as f64 / self.job.spin_ns_per_1000 * 1000.0) as u64
    }
}

/// The life of a task.
fn live(
    setting: &Setting,
    header: &Header,
    desks: &[Desk],
    desk: &Desk,
    number: usize,
    parent: i32,
) -> ! {
    detach(parent, false);
    let fail = |step: u64, errno: i32| {
        desk.units.store(step, Relaxed);
        desk.errno.store(errno, Relaxed);
        desk.state.store(FAILED, Release);
        // SAFETY: ends the process without running anything else.
        unsafe { libc::_exit(1) }
    };
    if let Err(errno) = enter_cgroups(&setting.cgroups) {
        fail(0, errno);
    }
    if setting.group.own_sessions {
        // SAFETY: no memory is involved; each task is its own session.
        unsafe { libc::setsid() };
    }
    if !setting.job.cpus.is_empty() {
        pin(None, &setting.job.cpus).unwrap_or_else(|refusal| fail(2, refusal.errno()));
    }
    let mut schedules = schedules(setting, number);
    if let Err(errno) = setting.group.scheduling.apply(0) {
        fail(1, errno);
    }
    desk.state.store(READY, Release);
    while header.gate.load(Acquire) == 0 {
        futex_wait(&header.gate, 0, Some(&A_WHILE));
    }
    let is_done = work(setting, header, desks, desk, number, &mut schedules);
    desk.done_ns.store(clock::now(), Relaxed);
    desk.state
        .store(if is_done { DONE } else { FAILED }, Release);
    // SAFETY: ends the process without running anything else.
    unsafe { libc::_exit(0) }
}

/// Room for the schedules of a task: a messenger has those of its workers, a worker its own. They
/// start at 0 here; the start is known only behind the gate.
fn schedules(setting: &Setting, number: usize) -> Vec<(Schedule, u64)> {
    let Role::Wakeup { workers, rate, .. } = setting.group.role else {
        return Vec::new();
    };
    let (messengers, workers) = (setting.group.tasks as usize, workers as usize);
    let mine = if number < messengers {
        let first = messengers + number * workers;
        first..first + workers
    } else {
        number..number + 1
    };
    mine.map(|worker| (schedule(&setting.job, setting.index, worker, rate, 0), 0))
        .collect()
}

/// A task's part after the start; whether it did all that was asked.
fn work(
    setting: &Setting,
    header: &Header,
    desks: &[Desk],
    desk: &Desk,
    number: usize,
    schedules: &mut [(Schedule, u64)],
) -> bool {
    let start = header.count_from_ns.load(Acquire) - setting.job.ramp_ns;
    let tasks = setting.group.tasks as usize;
    let channels = &setting.channels;
    match &setting.group.role {
        Role::Hog { work_ns } => steady::hog(header, desk, setting.steps(*work_ns)),
        Role::Periodic { period_ns, work_ns } => {
            let start = start + shift(*period_ns, number, &setting.group);
            let steps = setting.steps(*work_ns);
            steady::periodic(header, desk, start, *period_ns, steps);
        }
        Role::Wakeup {
            workers, work_ns, ..
        } => {
            schedules
                .iter_mut()
                .for_each(|(schedule, _)| schedule.start_at(start));
            if number < tasks {
                let first = setting.first + tasks + number * *workers as usize;
                let mine = &desks[first..first + *workers as usize];
                wakeup::messenger(header, mine, schedules);
            } else {
                let steps = setting.steps(*work_ns);
                wakeup::worker(header, desk, &mut schedules[0].0, steps);
            }
        }
        Role::Messaging { rounds, bytes, .. } if number < tasks => {
            return messaging::sender(header, desk, channels, *rounds, *bytes);
        }
        Role::Messaging { rounds, bytes, .. } => {
            let channel = &channels[number - tasks];
            let messages = *rounds * tasks as u64;
            return messaging::receiver(header, desk, channel, messages, *bytes);
        }
        Role::Pipe { rounds } => {
            let pair = if number == 0 { (0, 1) } else { (1, 0) };
            let pair = (&channels[pair.0], &channels[pair.1]);
            return messaging::ping_pong(header, desk, pair, *rounds, number == 0);
        }
        Role::ForkStorm {
            children, work_ns, ..
        } => {
            let (steps, program) = (setting.steps(*work_ns), setting.program.as_ref());
            return fork_storm::slot(header, desk, *children, steps, program);
        }
    }
    true
}
