//! The result of a simulated schedule: per task, in sum, and segment by segment.

use serde::Serialize;

use schedlab_model::Nanos;

/// The work of a CPU during a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Occupant {
    /// Ran the task with this index.
    Task(usize),
    /// Switched to the task with this index.
    Switch(usize),
    /// Nothing.
    Idle,
}

/// A stretch of time in which one CPU did one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The CPU.
    pub cpu: usize,
    /// Its work.
    #[serde(flatten)]
    pub occupant: Occupant,
    /// First nanosecond.
    pub start_ns: u64,
    /// First nanosecond after.
    pub end_ns: u64,
}

/// One task's figures. Times that need the end of the task are missing when it did not end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskResult {
    /// The task.
    pub name: String,
    /// When it came.
    pub arrival_ns: u64,
    /// When it ended.
    pub finish_ns: Option<u64>,
    /// End − arrival.
    pub turnaround_ns: Option<u64>,
    /// Time in the system neither on a CPU nor in I/O; being switched to counts as waiting.
    pub waiting_ns: u64,
    /// First time on a CPU − arrival.
    pub response_ns: Option<u64>,
    /// The longest single wait for a CPU.
    pub longest_wait_ns: u64,
    /// CPU time got.
    pub cpu_ns: u64,
    /// I/O time.
    pub io_ns: u64,
    /// Stretches on a CPU: from being switched to until another task is, the CPU idles or it ends.
    pub bursts: u64,
    /// Bursts that ended because the slice was used up or a better task came.
    pub involuntary_switches: u64,
    /// Calculations of the CPU lab's kernel, if its time per calculation was given.
    pub calculations: Option<u64>,
    /// Intervals [start, end] of the task's I/O.
    pub io: Vec<(u64, u64)>,
}

/// Figures of the whole schedule. Means are over the tasks that have the figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// From time 0 to the last end, or to where the simulation was stopped.
    pub makespan_ns: u64,
    /// Mean of end − arrival, ns.
    pub turnaround_ns_mean: Option<f64>,
    /// Mean waiting time, ns.
    pub waiting_ns_mean: f64,
    /// Mean response time, ns.
    pub response_ns_mean: Option<f64>,
    /// Share of the CPUs' time in which tasks ran.
    pub utilisation: f64,
    /// Share of the CPUs' time lost in switches.
    pub switch_share: f64,
    /// How often a CPU took another task than the last it ran.
    pub switches: u64,
    /// Ended tasks per second.
    pub throughput_per_s: f64,
    /// Jain's index of CPU time per weight and time in the system outside I/O; 1 is equal.
    pub fairness_jain: f64,
}

/// A simulated schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuResult {
    /// The policy's name.
    pub policy: String,
    /// The quantum as requested.
    pub quantum_requested: Nanos,
    /// The quantum as given, after rounding to jiffies.
    pub quantum_effective: Nanos,
    /// How many CPUs.
    pub cpus: usize,
    /// The whole.
    pub summary: Summary,
    /// In the order of the task list.
    pub tasks: Vec<TaskResult>,
    /// By start, then CPU.
    pub segments: Vec<Segment>,
    /// Segments omitted because there were more than `max_segments`.
    pub segments_dropped: u64,
}
