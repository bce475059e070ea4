//! The job of a crew, and its result.

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::roles::calculation::Counting;

/// The work of the tasks of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Role {
    /// Want the CPU all the time; a piece of work is `work_ns`.
    Hog {
        /// Length of a piece.
        work_ns: u64,
    },
    /// Do a piece of work in every period.
    Periodic {
        /// Time between two planned starts.
        period_ns: u64,
        /// Length of a piece.
        work_ns: u64,
    },
    /// Repeat one calculation and count it, until the end of the window.
    Calculation(Counting),
    /// `tasks` messengers with `workers` each, to which they post requests.
    Wakeup {
        /// Workers of each messenger.
        workers: u32,
        /// Requests per second of each worker.
        rate: f64,
        /// Work per request.
        work_ns: u64,
    },
    /// `tasks` senders and as many receivers; each sender writes `rounds` messages to each.
    Messaging {
        /// Messages from each sender to each receiver.
        rounds: u64,
        /// Bytes of a message, up to 4096.
        bytes: usize,
        /// Socket pairs instead of pipes.
        #[serde(default)]
        sockets: bool,
    },
    /// Two tasks that pass a byte back and forth `rounds` times.
    Pipe {
        /// Round trips.
        rounds: u64,
    },
    /// Two tasks that hand a token over by a futex.
    Futex {
        /// Round trips.
        rounds: u64,
    },
    /// Two tasks that touch memory and yield.
    Yields {
        /// Yields of each.
        rounds: u64,
        /// Touches before each yield.
        touches: u32,
        /// Memory of each.
        bytes: usize,
    },
    /// `tasks` slots, each of which forks `children` children one after the other.
    ForkStorm {
        /// Children of each slot.
        children: u64,
        /// Work of a child.
        work_ns: u64,
        /// A program that it then executes.
        #[serde(default)]
        program: Option<String>,
    },
}

impl Role {
    /// Whether a crew is over as soon as all tasks of such roles have ended.
    pub(super) fn is_finite(&self) -> bool {
        use Role::{Hog, Periodic, Wakeup};
        !matches!(self, Hog { .. } | Periodic { .. } | Wakeup { .. })
    }

    pub(super) fn is_calculation(&self) -> bool {
        matches!(self, Role::Calculation(_))
    }
}

/// Tasks of one role under one scheduling.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskGroup {
    /// Its name in the result.
    pub name: String,
    /// The work of its tasks.
    pub role: Role,
    /// How many (see the role).
    pub tasks: u32,
    /// Policy, nice value and slice.
    #[serde(default)]
    pub scheduling: Attributes,
    /// Files `cgroup.procs` that the tasks join.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// Each task in its own session, so that autogroup gives each its own group.
    #[serde(default)]
    pub own_sessions: bool,
}

impl TaskGroup {
    /// Number of its processes.
    pub(super) fn processes(&self) -> usize {
        let tasks = self.tasks as usize;
        match self.role {
            Role::Wakeup { workers, .. } => tasks * (workers as usize + 1),
            Role::Messaging { .. } => tasks * 2,
            Role::Pipe { .. } | Role::Futex { .. } | Role::Yields { .. } => 2,
            _ => tasks,
        }
    }

    /// Periodic tasks are planned one after the other, not all at the same moment.
    pub(super) fn shift_ns(&self, period_ns: u64, number: usize) -> u64 {
        period_ns * number as u64 / u64::from(self.tasks.max(1))
    }
}

/// The groups that run together, and for how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrewJob {
    /// The groups.
    pub groups: Vec<TaskGroup>,
    /// Work that is planned before is not counted.
    #[serde(default)]
    pub ramp_ns: u64,
    /// Length of the counted window, the limit of finite tasks; nothing: until it is finished.
    pub window_ns: Option<u64>,
    /// CPUs that all tasks are pinned to; empty: not pinned.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Fixes the arrivals.
    #[serde(default)]
    pub seed: u64,
}

/// Rows low, high, count.
pub type Rows = Vec<(u64, u64, u64)>;

/// The account of one process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TaskResult {
    /// Process id.
    pub pid: i32,
    /// Pieces of work, requests, rounds, children or calculations.
    pub count: u64,
    /// Wall time from the common start until its first round was over, of a pair that takes turns.
    pub began_ns: u64,
    /// Wall time from the common start until its work was done (a calculation: so far).
    pub elapsed_ns: u64,
    /// CPU time of its work, without the exit; 0 when killed.
    pub calculation_cpu_ns: u64,
    /// CPU time from the gate to the exit, with that of its children.
    pub cpu_ns: u64,
    /// Voluntary switches from the gate to the exit, the exit included.
    pub voluntary_switches: u64,
    /// Preemptions from the gate to the exit.
    pub involuntary_switches: u64,
    /// Checksum of a calculation's result.
    pub checksum: u32,
    /// Whether it did all that was asked and ended by itself.
    pub completed: bool,
}

/// The account of a group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupResult {
    /// Its name.
    pub name: String,
    /// Units of all its tasks in the counted window.
    pub units: u64,
    /// Requests that were planned and not finished; their waiting so far is in `response`.
    pub unfinished: u64,
    /// From the planned time to the end of a request.
    pub response: Rows,
    /// From the wake-up to the first instruction.
    pub wakeup: Rows,
    /// Finite tasks: from the start until the last was done; nothing when one was not.
    pub elapsed_ns: Option<u64>,
    /// CPU time of all its tasks, from their birth.
    pub cpu_ns: u64,
    /// Policy number, nice value, priority and slice of each task at the start, as read back.
    pub attributes: Vec<(u32, i32, u32, u64)>,
    /// Its processes.
    pub tasks: Vec<TaskResult>,
}

/// The account of a crew.
#[derive(Clone, Debug, Serialize)]
pub struct CrewResult {
    /// Length of the counted window.
    pub window_ns: u64,
    /// In the order of the job.
    pub groups: Vec<GroupResult>,
}
