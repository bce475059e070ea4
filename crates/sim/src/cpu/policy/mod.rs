//! The trait of a policy, and the registry: one file and one line for each.
//!
//! The engine keeps time and tasks; a policy keeps the waiting tasks and decides which is next, how
//! long a task may run, and whether a waiting task takes a CPU from a running one.

mod cfs;
mod eevdf;
mod fcfs;
mod lottery;
mod mlfq;
mod priority;
mod rr;
mod sjf;
mod stride;

use super::task::Settings;
use crate::registry::{self, Entry};
use crate::SimError;

/// How a policy is made.
pub type Make = fn(&Settings) -> Box<dyn Policy>;

/// All policies.
pub const POLICIES: &[Entry<Make>] = &[
    ("fcfs", "first come, first served", fcfs::build),
    ("sjf", "shortest job first", sjf::build),
    (
        "srtf",
        "shortest remaining time first",
        sjf::build_preemptive,
    ),
    ("priority", "by priority, not preemptive", priority::build),
    (
        "priority-preemptive",
        "by priority, preemptive",
        priority::build_preemptive,
    ),
    ("rr", "round robin", rr::build),
    ("mlfq", "multi-level feedback queue", mlfq::build),
    ("lottery", "lottery", lottery::build),
    ("stride", "stride", stride::build),
    ("cfs", "completely fair (virtual run time)", cfs::build),
    (
        "eevdf",
        "earliest eligible virtual deadline first",
        eevdf::build,
    ),
];

/// The registered policy of that name.
pub(super) fn find(name: &str) -> Result<&'static Entry<Make>, SimError> {
    registry::find("policy", name, POLICIES, |entry| entry.0)
}

/// The facts of a task for a policy. Real schedulers do not know `remaining_ns`; sjf and srtf
/// assume it.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    /// When it entered the system.
    pub arrival_ns: u64,
    /// Smaller is more urgent.
    pub priority: i32,
    /// Weight or tickets.
    pub weight: u64,
    /// Own slice, if any.
    pub slice_ns: Option<u64>,
    /// CPU time left in the current burst.
    pub remaining_ns: u64,
    /// CPU time since it was last picked.
    pub since_pick_ns: u64,
    /// Since when it waits for a CPU (while it waits).
    pub ready_since_ns: u64,
    /// Its last burst is over.
    pub has_ended: bool,
}

/// Now, and all tasks.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Simulated time.
    pub now_ns: u64,
    /// All tasks, also those that have not arrived, block, or have ended.
    pub tasks: Vec<TaskState>,
}

impl System {
    /// The order among tasks with equal keys.
    pub fn tie(&self, task: usize) -> (u64, usize) {
        (self.tasks[task].arrival_ns, task)
    }
}

/// Why a task waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It is new.
    Arrived,
    /// Its I/O is done.
    Woken,
    /// It used its slice.
    Expired,
    /// A better task took its CPU.
    Preempted,
}

/// A scheduling policy. All times are CPU nanoseconds.
pub trait Policy {
    /// `task` waits for a CPU from now on.
    fn ready(&mut self, system: &System, task: usize, why: Ready);
    /// Takes the next task out of the waiting ones.
    fn pick(&mut self, system: &System) -> Option<usize>;
    /// How much longer the running `task` may run; nothing means until its burst ends.
    fn slice_left_ns(&self, _system: &System, _task: usize) -> Option<u64> {
        None
    }
    /// The running `task` has run for `ran_ns`.
    fn ran(&mut self, _system: &System, _task: usize, _ran_ns: u64) {}
    /// The running `task` blocks or ends.
    fn gone(&mut self, _system: &System, _task: usize) {}
    /// Position in `running` of the task that must make room for the best waiting one, if any.
    fn victim(&self, _system: &System, _running: &[usize]) -> Option<usize> {
        None
    }
    /// The waiting tasks in their order, where one is kept. For the judge, as the next five.
    #[cfg(test)]
    fn line(&mut self) -> &mut std::collections::VecDeque<usize> {
        unimplemented!()
    }
    /// The task that would be picked.
    #[cfg(test)]
    fn choose(&mut self, _system: &System) -> Option<usize> {
        self.line().front().copied()
    }
    /// Takes a certain task out of the waiting ones.
    #[cfg(test)]
    fn take(&mut self, task: usize) {
        self.line().retain(|other| *other != task);
    }
    /// A task that comes from before the first event has slept for long.
    #[cfg(test)]
    fn owe(&mut self, _system: &System, _task: usize) {}
    /// The kernel runs `kernels`, not `models`: so must their accounts say.
    #[cfg(test)]
    fn follow(&mut self, _system: &System, _kernels: usize, _models: usize) {}
    /// The task has another weight from now on.
    #[cfg(test)]
    fn reweigh(&mut self, system: &mut System, task: usize, weight: u64) {
        system.tasks[task].weight = weight;
    }
    /// How often [`tick`](Policy::tick) is called.
    fn period_ns(&self) -> Option<u64> {
        None
    }
    /// The policy's own timer.
    fn tick(&mut self, _system: &System) {}
}

/// Takes the waiting task with the smallest key out of `waiting`.
fn take_min<K: Ord>(waiting: &mut Vec<usize>, key: impl Fn(usize) -> K) -> Option<usize> {
    let (at, _) = waiting
        .iter()
        .enumerate()
        .min_by_key(|(_, task)| key(**task))?;
    Some(waiting.remove(at))
}

/// The victim of a policy that is nothing but a key: the running task with the largest key, if
/// some waiting task has a strictly smaller one. `K` must not include the tie.
fn largest_above_waiting<K: Ord>(
    waiting: &[usize],
    running: &[usize],
    key: impl Fn(usize) -> K,
) -> Option<usize> {
    let best = waiting.iter().map(|task| key(*task)).min()?;
    let (at, worst) = running
        .iter()
        .enumerate()
        .max_by_key(|(_, task)| key(**task))?;
    (best < key(*worst)).then_some(at)
}
