//! The life of a task, from fork to exit.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::board::{Board, Desk, ReportBoard};
use super::job::{CrewJob, Role, TaskGroup};
use super::roles::kernel::Matrices;
use super::roles::messaging::{self, Channel};
use super::roles::spin::steps_of;
use super::roles::wakeup::{self, Schedule};
use super::roles::{calculation, fork_storm, steady, turns};
use super::scheduling::pin;
use crate::child::{
    close_files, detach, enter_cgroups, errno, futex_wait, futex_wake, open_cgroups, open_gate,
    own_memory, Refusal, DONE, FAILED, READY,
};
use crate::clock;

/// Steps before the gate; a task that fails leaves the number of its step on its desk.
const STEPS: [&str; 4] = ["cgroup", "affinity", "memory", "policy"];

/// The step that failed before the gate, and its errno.
type Failure = (u64, i32);

/// All that the tasks of a group need, made before the fork.
pub(crate) struct Setting<'a> {
    job: &'a CrewJob,
    group: &'a TaskGroup,
    /// Number of the group.
    index: usize,
    /// Number of the group's first task.
    first: usize,
    board: &'a Board,
    reports: &'a ReportBoard,
    cgroups: Vec<OwnedFd>,
    channels: Vec<Channel>,
    program: Option<CString>,
    parent: i32,
}

/// Memory of a task that it has before the gate.
enum Own {
    Nothing,
    /// A messenger has those of its workers, a worker its own, each with the next planned time.
    Schedules(Vec<(Schedule, u64)>),
    Matrices(&'static mut Matrices),
    Memory(&'static mut [u8]),
}

impl<'a> Setting<'a> {
    /// For the group number `index`, whose tasks have the numbers from `first` on.
    pub(crate) fn of(
        job: &'a CrewJob,
        index: usize,
        first: usize,
        board: &'a Board,
        reports: &'a ReportBoard,
    ) -> Result<Self, Refusal> {
        let group = &job.groups[index];
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
            parent: std::process::id() as i32,
            job,
            group,
            index,
            first,
            board,
            reports,
        })
    }

    /// Takes the settings of task `number` of the group on, and its memory.
    fn settle(&self, number: usize) -> Result<Own, Failure> {
        enter_cgroups(&self.cgroups).map_err(|errno| (0, errno))?;
        if self.channels.is_empty() && self.program.is_none() {
            close_files(); // a guardian's pipe, which shall see its owner die
        }
        if self.group.own_sessions {
            // SAFETY: no memory is involved; each task is its own session.
            unsafe { libc::setsid() };
        }
        if !self.job.cpus.is_empty() {
            pin(None, &self.job.cpus).map_err(|refusal| (1, refusal.errno()))?;
        }
        let own = match &self.group.role {
            Role::Calculation(how) => {
                Own::Matrices(Matrices::own(how.kernel).ok_or_else(|| (2, errno()))?)
            }
            Role::Yields { bytes, .. } => {
                let memory = own_memory(*bytes).ok_or_else(|| (2, errno()))?;
                turns::touch(memory);
                Own::Memory(memory)
            }
            Role::Wakeup { workers, rate, .. } => {
                let (messengers, workers) = (self.group.tasks as usize, *workers as usize);
                let mine = if number < messengers {
                    let first = messengers + number * workers;
                    first..first + workers
                } else {
                    number..number + 1
                };
                // They start at 0 here; the start is known only behind the gate.
                let schedules = mine.map(|worker| {
                    let schedule = Schedule::of(self.job.seed, self.index, worker, *rate, 0);
                    (schedule, 0)
                });
                Own::Schedules(schedules.collect())
            }
            _ => Own::Nothing,
        };
        self.group.scheduling.apply(0).map_err(|errno| (3, errno))?;
        Ok(own)
    }

    /// Runs task `number` of the group in a forked child.
    pub(crate) fn live(&self, number: usize) -> ! {
        let (header, desk) = (
            self.board.header(),
            &self.board.parts()[self.first + number],
        );
        detach(self.parent);
        let mut own = self.settle(number).unwrap_or_else(|(step, errno)| {
            desk.units.store(step, Relaxed);
            desk.errno.store(errno, Relaxed);
            desk.state.store(FAILED, Release);
            // SAFETY: ends the process without running anything else.
            unsafe { libc::_exit(1) }
        });
        desk.state.store(READY, Release);
        while header.gate.load(Acquire) == 0 {
            futex_wait(&header.gate, 0, None);
        }
        open_gate(&header.gate);
        let cpu_before = clock::thread_ns();
        let is_done = self.work(desk, number, &mut own);
        desk.cpu_ns.store(clock::thread_ns() - cpu_before, Relaxed);
        match own {
            Own::Matrices(matrices) => desk.checksum.store(matrices.checksum(), Relaxed),
            _ => desk.done_ns.store(clock::now(), Relaxed),
        }
        let state = if is_done { DONE } else { FAILED };
        desk.state.store(state, Release);
        // Only the last: to wake the parent takes time from those that still work.
        if header.ended.fetch_add(1, AcqRel) + 1 == self.board.parts().len() as u32 {
            futex_wake(&header.ended);
        }
        // SAFETY: ends the process without running anything else.
        unsafe { libc::_exit(0) }
    }

    /// A task's part behind the gate; whether it did all that was asked.
    fn work(&self, desk: &Desk, number: usize, own: &mut Own) -> bool {
        let (header, channels) = (self.board.header(), &self.channels);
        let start = header.start_ns.load(Acquire);
        let tasks = self.group.tasks as usize;
        match (&self.group.role, own) {
            (Role::Calculation(how), Own::Matrices(matrices)) => {
                let reports = &self.reports.parts()[self.first + number];
                calculation::count(how, header, desk, reports, matrices);
            }
            (
                Role::Wakeup {
                    workers, work_ns, ..
                },
                Own::Schedules(schedules),
            ) => {
                for (schedule, _) in schedules.iter_mut() {
                    schedule.start_at(start);
                }
                if number < tasks {
                    let first = self.first + tasks + number * *workers as usize;
                    let mine = &self.board.parts()[first..first + *workers as usize];
                    wakeup::messenger(header, mine, schedules);
                } else {
                    wakeup::worker(header, desk, &mut schedules[0].0, steps_of(*work_ns));
                }
            }
            (
                Role::Yields {
                    rounds, touches, ..
                },
                Own::Memory(memory),
            ) => return turns::yields(header, desk, memory, *rounds, *touches),
            (Role::Futex { rounds }, _) => {
                let turn = &self.board.parts()[self.first].posted;
                return turns::hand_over(header, desk, turn, *rounds, number as u32);
            }
            (Role::Hog { work_ns }, _) => steady::hog(header, desk, steps_of(*work_ns)),
            (Role::Periodic { period_ns, work_ns }, _) => {
                let start = start + self.group.shift_ns(*period_ns, number);
                steady::periodic(header, desk, start, *period_ns, steps_of(*work_ns));
            }
            (Role::Messaging { rounds, bytes, .. }, _) if number < tasks => {
                return messaging::sender(header, desk, channels, *rounds, *bytes);
            }
            (Role::Messaging { rounds, bytes, .. }, _) => {
                let channel = &channels[number - tasks];
                let messages = *rounds * tasks as u64;
                return messaging::receiver(header, desk, channel, messages, *bytes);
            }
            (Role::Pipe { rounds }, _) => {
                let pair = (&channels[number], &channels[1 - number]);
                return messaging::ping_pong(header, desk, pair, *rounds, number == 0);
            }
            (
                Role::ForkStorm {
                    children, work_ns, ..
                },
                _,
            ) => {
                let (steps, program) = (steps_of(*work_ns), self.program.as_ref());
                return fork_storm::slot(header, desk, *children, steps, program);
            }
            _ => return false,
        }
        true
    }
}

/// The refusal that a task of `group` left on its desk.
pub(crate) fn refusal_of(desk: &Desk, group: &TaskGroup) -> Refusal {
    let step = match STEPS[desk.units.load(Relaxed) as usize % STEPS.len()] {
        "policy" => group.scheduling.step(),
        step => step,
    };
    Refusal::new(step, desk.errno.load(Relaxed))
}
