//! The job of a mix, and its result.

use serde::{Deserialize, Serialize};

use super::super::Attributes;

/// What the tasks of a group do.
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
    /// Whether its tasks end when their work is done.
    pub fn is_finite(&self) -> bool {
        matches!(
            self,
            Role::Messaging { .. } | Role::Pipe { .. } | Role::ForkStorm { .. }
        )
    }
}

/// Tasks of one role under one scheduling.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name in the result.
    pub name: String,
    /// What the tasks do.
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

/// A mix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The groups.
    pub groups: Vec<Group>,
    /// What is planned before is not counted.
    pub ramp_ns: u64,
    /// Length of the counted window; the limit of finite tasks.
    pub window_ns: u64,
    /// Result of [`super::spin_ns_per_1000`].
    pub spin_ns_per_1000: f64,
    /// CPUs that all tasks may use; empty: all.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Fixes the arrivals.
    pub seed: u64,
}

/// Rows low, high, count.
pub type Rows = Vec<(u64, u64, u64)>;

/// What a group did.
#[derive(Clone, Debug, Serialize)]
pub struct GroupResult {
    /// Its name.
    pub name: String,
    /// Pieces of work, requests, rounds or children that were finished in the counted window.
    pub units: u64,
    /// Requests that were planned and not finished; their waiting so far is in `response`.
    pub unfinished: u64,
    /// From the planned time to the end of a request.
    pub response: Rows,
    /// From the wake-up to the first instruction.
    pub wakeup: Rows,
    /// Finite tasks: from the start until the last was done; nothing when one was not.
    pub elapsed_ns: Option<u64>,
    /// CPU time of all its tasks.
    pub cpu_ns: u64,
    /// Policy number, nice value, priority and slice of each task at the start, as read back.
    pub attributes: Vec<(u32, i32, u32, u64)>,
}

/// What a mix did.
#[derive(Clone, Debug, Serialize)]
pub struct JobResult {
    /// Length of the counted window.
    pub window_ns: u64,
    /// In the order of the job.
    pub groups: Vec<GroupResult>,
}
