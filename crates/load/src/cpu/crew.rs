//! A crew: all tasks forked, settled, started together, watched, ended, added up.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::account::{is_asleep, Account};
use super::attributes::{attributes_of, effective_slice_ns, Attributes};
use super::board::{Board, Counts, Desk, ReportBoard, Reports, Ring};
use super::job::{CrewJob, CrewResult, GroupResult, Role, TaskResult};
use super::roles::spin::spin_ns_per_1000;
use super::roles::wakeup::{record_unfinished, Schedule};
use super::scheduling::{self, allowed_cpus, pin};
use super::task::{refusal_of, Setting};
use crate::child::{
    futex_wait, futex_wake, has_ended, kill, open_gate, reap, Refusal, DONE, FAILED, READY,
};
use crate::clock;

/// Time that tasks have to settle before the gate.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Time that tasks have to end after they were stopped.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Time after the window in which requests that were planned in it are served, beside the load.
const SERVED_LATE_NS: u64 = 1_000_000_000;
/// Seldom: the parent must not be an additional load.
const LOOK_EVERY: Duration = Duration::from_millis(20);

struct Task {
    pid: i32,
    group: usize,
    attributes: (u32, i32, u32, u64),
    /// At the gate.
    before: Account,
    /// In all, once it was reaped.
    used: Option<Account>,
}

/// Forked tasks. Dropping it kills and reaps them.
pub struct Crew {
    job: CrewJob,
    board: Board,
    reports: ReportBoard,
    /// In the order of their desks.
    tasks: Vec<Task>,
    cpus_before: Vec<usize>,
}

impl Crew {
    /// Forks all tasks under their settings; returns when all sleep at the gate.
    ///
    /// The calling thread takes the policy of each group on for the moment of its forks, so that
    /// the tasks inherit it, then returns to its own and to the CPUs that the tasks do not use,
    /// where there are any. It must live as long as the crew: the tasks die with it.
    pub fn launch(job: CrewJob) -> Result<Self, Refusal> {
        let count = job.groups.iter().map(|group| group.processes()).sum();
        let reporting = job.groups.iter().any(|group| group.role.is_calculation());
        spin_ns_per_1000(); // before any task is a load
        let mut crew = Crew {
            board: Board::new(count, true)?,
            reports: ReportBoard::new(if reporting { count } else { 1 }, false)?,
            tasks: Vec::with_capacity(count),
            cpus_before: allowed_cpus(),
            job,
        };
        for group in 0..crew.job.groups.len() {
            let (policy, priority) = scheduling::current();
            let forked = crew.fork_group(group);
            let back = scheduling::set_current(policy, priority);
            forked?;
            back.map_err(|errno| Refusal::new("policy", errno))?;
        }
        let (used, before) = (&crew.job.cpus, &crew.cpus_before);
        let free: Vec<usize> = before
            .iter()
            .filter(|c| !used.contains(c))
            .copied()
            .collect();
        if !free.is_empty() {
            pin(None, &free)?;
        }
        crew.await_ready()?;
        Ok(crew)
    }

    fn fork_group(&mut self, index: usize) -> Result<(), Refusal> {
        let (job, first) = (&self.job, self.tasks.len());
        let setting = Setting::of(job, index, first, &self.board, &self.reports)?;
        job.groups[index].scheduling.enter()?;
        for number in 0..job.groups[index].processes() {
            // SAFETY: the child runs only what the module's description allows and never returns.
            match unsafe { libc::fork() } {
                -1 => return Err(Refusal::last("fork")),
                0 => setting.live(number),
                pid => self.tasks.push(Task {
                    pid,
                    group: index,
                    attributes: Default::default(),
                    before: Account::default(),
                    used: None,
                }),
            }
        }
        Ok(())
    }

    fn await_ready(&mut self) -> Result<(), Refusal> {
        let deadline = Instant::now() + READY_WITHIN;
        for (task, desk) in self.tasks.iter_mut().zip(self.board.parts()) {
            loop {
                let gone = has_ended(task.pid);
                match desk.state.load(Acquire) {
                    FAILED => return Err(refusal_of(desk, &self.job.groups[task.group])),
                    READY if is_asleep(task.pid) => break,
                    _ if gone || Instant::now() > deadline => {
                        return Err(Refusal::new("worker", libc::ETIMEDOUT))
                    }
                    _ => std::thread::sleep(Duration::from_micros(200)),
                }
            }
            task.before = Account::of(task.pid);
            task.attributes = attributes_of(task.pid).unwrap_or_default();
        }
        Ok(())
    }

    /// Rows (number of the group, process id) of all tasks.
    pub fn pids(&self) -> Vec<(usize, i32)> {
        self.tasks
            .iter()
            .map(|task| (task.group, task.pid))
            .collect()
    }

    /// The quantum that the kernel uses for the first task.
    pub fn effective_slice_ns(&self) -> Option<u64> {
        let first = self.tasks.first()?;
        effective_slice_ns(self.job.groups[first.group].scheduling.policy, first.pid)
    }

    /// Opens the gate: the time of all tasks runs from now.
    pub fn start(&self) {
        let (header, start) = (self.board.header(), clock::now());
        let from = start + self.job.ramp_ns;
        let end = self.job.window_ns.map_or(u64::MAX, |window| from + window);
        header.start_ns.store(start, Relaxed);
        header.count_from_ns.store(from, Relaxed);
        header
            .close_ns
            .store(end.saturating_add(SERVED_LATE_NS), Relaxed);
        header.end_ns.store(end, Release);
        header.gate.store(1, Release);
        open_gate(&header.gate);
    }

    /// Gives all tasks another EEVDF slice.
    pub fn set_slice(&self, slice_ns: u64) -> Result<(), Refusal> {
        self.tasks.iter().try_for_each(|task| {
            let scheduling = Attributes {
                slice_ns,
                ..self.job.groups[task.group].scheduling
            };
            let given = scheduling.apply(task.pid);
            given.map_err(|errno| Refusal::new(scheduling.step(), errno))
        })
    }

    /// Waits at most `timeout`; whether every finite task has ended, or the window is over and its
    /// requests are served (or a second has passed since).
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = self.board.header().ended.load(Acquire);
            let over = self.is_over();
            if over || left.is_zero() {
                return over;
            }
            let limit = left.min(LOOK_EVERY).as_nanos() as i64;
            let limit = libc::timespec {
                tv_sec: 0,
                tv_nsec: limit,
            };
            futex_wait(&self.board.header().ended, ended, Some(&limit));
        }
    }

    fn is_over(&self) -> bool {
        let (header, now) = (self.board.header(), clock::now());
        let roles = || self.job.groups.iter().map(|group| &group.role).enumerate();
        let mut finite = roles().filter(|(_, role)| role.is_finite()).peekable();
        if finite.peek().is_some() && finite.all(|(group, _)| self.is_done(group)) {
            return true;
        }
        // A calculation ends when it gets a CPU after the end, however late.
        let mut counting = roles().filter(|(_, role)| role.is_calculation());
        let mut waking = roles().filter(|(_, role)| matches!(role, Role::Wakeup { .. }));
        now >= header.end_ns.load(Acquire)
            && counting.all(|(group, _)| self.is_done(group))
            && (now >= header.close_ns.load(Acquire)
                || waking.all(|(group, _)| self.is_done(group)))
    }

    fn of_group(&self, group: usize) -> impl Iterator<Item = (&Task, &Desk)> + Clone {
        let all = self.tasks.iter().zip(self.board.parts());
        all.filter(move |(task, _)| task.group == group)
    }

    /// Whether all tasks of a group have ended, even those that something else killed.
    fn is_done(&self, group: usize) -> bool {
        self.of_group(group)
            .all(|(task, desk)| desk.state.load(Acquire) >= FAILED || has_ended(task.pid))
    }

    /// Epochs of calculations since the last call as (number of the task, event), in order of time;
    /// see `Reports`.
    pub fn take_epochs(&self) -> Vec<(usize, [u64; 3])> {
        let mut epochs = self.take(|reports| &reports.epochs);
        epochs.sort_by_key(|(task, event)| (event[0], *task));
        epochs
    }

    /// Preemptions reported since the last call, in order for each task; see `Reports`.
    pub fn take_preemptions(&self) -> Vec<(usize, [u64; 5])> {
        self.take(|reports| &reports.preemptions)
    }

    fn take<const WORDS: usize>(
        &self,
        ring: impl Fn(&Reports) -> &Ring<WORDS>,
    ) -> Vec<(usize, [u64; WORDS])> {
        let all = self.reports.parts().iter().enumerate();
        all.flat_map(|(task, reports)| ring(reports).take().into_iter().map(move |e| (task, e)))
            .collect()
    }

    /// Epochs and preemptions that were overwritten before they were taken.
    pub fn lost_events(&self) -> u64 {
        let all = self.reports.parts().iter();
        all.map(|reports| reports.epochs.lost() + reports.preemptions.lost())
            .sum()
    }

    /// Ends all tasks and gives what they did. A task that gets no CPU for 2 s is killed.
    pub fn finish(&mut self) -> CrewResult {
        let (header, ended) = (self.board.header(), clock::now());
        header.stop.store(1, Release);
        self.board.parts().iter().for_each(|desk| {
            futex_wake(&desk.posted);
        });
        let deadline = Instant::now() + END_WITHIN;
        let ends = |task: &Task| task.used.is_some() || has_ended(task.pid);
        while !self.tasks.iter().all(ends) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.kill();
        let header = self.board.header();
        let from = header.count_from_ns.load(Relaxed);
        CrewResult {
            window_ns: ended.min(header.end_ns.load(Relaxed)).saturating_sub(from),
            groups: (0..self.job.groups.len())
                .map(|group| self.result_of(group, ended))
                .collect(),
        }
    }

    /// Kills the tasks that have not ended, and reaps all.
    pub fn kill(&mut self) {
        let mut left: Vec<&mut Task> = (self.tasks.iter_mut())
            .filter(|task| task.used.is_none())
            .collect();
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|task| kill(task.pid));
        // A zombie shows its state a moment before its last switch is counted.
        std::thread::sleep(Duration::from_millis(1));
        for task in &mut left {
            let used = reap(task.pid, 0).map(|(_, usage)| Account::in_all(&usage));
            task.used = Some(used.unwrap_or_default());
        }
    }

    fn result_of(&self, index: usize, ended: u64) -> GroupResult {
        let (group, header) = (&self.job.groups[index], self.board.header());
        let (start, from, end) = (
            header.start_ns.load(Relaxed),
            header.count_from_ns.load(Relaxed),
            header.end_ns.load(Relaxed),
        );
        let (of_group, times) = (self.of_group(index), (from, end.min(ended), ended));
        let mut unfinished = 0;
        for (number, (_, desk)) in of_group.clone().enumerate() {
            match group.role {
                Role::Wakeup { rate, .. } if number >= group.tasks as usize => {
                    let mut schedule = Schedule::of(self.job.seed, index, number, rate, start);
                    unfinished += record_unfinished(desk, || schedule.next(), times);
                }
                Role::Periodic { period_ns, .. } => {
                    let mut planned = start + group.shift_ns(period_ns, number);
                    let next = || {
                        planned += period_ns;
                        planned
                    };
                    unfinished += record_unfinished(desk, next, times);
                }
                _ => {}
            }
        }
        let tasks: Vec<TaskResult> = of_group
            .clone()
            .map(|(task, desk)| task.result(desk, start))
            .collect();
        let all_done = group.role.is_finite() && tasks.iter().all(|task| task.completed);
        let last = tasks.iter().map(|task| task.elapsed_ns).max();
        GroupResult {
            name: group.name.clone(),
            units: tasks.iter().map(|task| task.count).sum(),
            unfinished,
            response: Counts::rows(of_group.clone().map(|(_, desk)| &desk.response)),
            wakeup: Counts::rows(of_group.clone().map(|(_, desk)| &desk.wakeup)),
            elapsed_ns: last.filter(|_| all_done),
            cpu_ns: of_group
                .clone()
                .filter_map(|(task, _)| Some(task.used?.cpu_ns))
                .sum(),
            attributes: of_group.map(|(task, _)| task.attributes).collect(),
            tasks,
        }
    }
}

impl Task {
    fn result(&self, desk: &Desk, start: u64) -> TaskResult {
        let used = self.used.unwrap_or_default().since(self.before);
        TaskResult {
            pid: self.pid,
            count: desk.units.load(Relaxed),
            began_ns: desk.began_ns.load(Relaxed).saturating_sub(start),
            elapsed_ns: desk.done_ns.load(Relaxed).saturating_sub(start),
            calculation_cpu_ns: desk.cpu_ns.load(Relaxed),
            cpu_ns: used.cpu_ns,
            voluntary_switches: used.voluntary,
            involuntary_switches: used.involuntary,
            checksum: desk.checksum.load(Relaxed),
            completed: desk.state.load(Acquire) == DONE,
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.kill();
        let _ = pin(None, &self.cpus_before);
    }
}
