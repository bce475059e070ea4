//! Run-queue latency of classes of tasks: how long they waited for a CPU after a wake-up, and after
//! a preemption. For explanatory runs: each wake-up and switch of the machine costs about 0.1 µs
//! more meanwhile.

use serde::Serialize;

use crate::bpf::RunQueue;

/// The most classes.
pub const RUN_QUEUE_CLASSES_MAX: u32 = 16;

/// Waits of one kind in one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// How many there were.
    pub waits: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Rows low, high, count: one per octave.
    pub histogram: Vec<(u64, u64, u64)>,
}

/// One class of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassWaits {
    /// From the wake-up (or the birth) to the CPU.
    pub woken: Waits,
    /// From the loss of a CPU to the next.
    pub preempted: Waits,
}

/// What was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunQueueResult {
    /// By class, in their order.
    pub classes: Vec<ClassWaits>,
    /// Forked tasks that were not followed.
    pub lost_tasks: u64,
}

/// A capture in progress.
pub struct RunQueueCapture {
    programs: RunQueue,
    classes: u32,
}

impl RunQueueCapture {
    /// Follows tasks, given as (class, thread id), and what they fork. The reason when it cannot.
    pub fn start(tasks: &[(u32, i32)]) -> Result<Self, String> {
        let classes = tasks.iter().map(|(class, _)| class + 1).max().unwrap_or(0);
        if classes > RUN_QUEUE_CLASSES_MAX {
            return Err(format!("more than {RUN_QUEUE_CLASSES_MAX} classes"));
        }
        Ok(RunQueueCapture {
            programs: RunQueue::start(tasks)?,
            classes,
        })
    }

    /// Ends the capture and gives its result.
    pub fn finish(self) -> Result<RunQueueResult, String> {
        let (waits_by_class, lost_tasks) = self.programs.finish(self.classes)?;
        let class = |[woken, preempted]: [Waits; 2]| ClassWaits { woken, preempted };
        Ok(RunQueueResult {
            classes: waits_by_class.into_iter().map(class).collect(),
            lost_tasks,
        })
    }
}
