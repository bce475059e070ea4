//! A CPU scheduler simulator: tasks with CPU and I/O bursts, a policy, 1 to n CPUs.
//!
//! Time is integer nanoseconds, nothing is read from a clock, and randomness (lottery) is seeded:
//! the same input gives the same schedule on every machine.
//!
//! **Tie rule.** At one instant, in this order: arrivals (in the order of the task list), ends of
//! I/O (in the order in which the I/O began), the policy's own timer (boost, aging), ends of bursts
//! and of quanta (by CPU number). Only then are CPUs filled, and only then may a waiting task
//! preempt. So a task that arrives exactly when a quantum ends is queued before the task whose
//! quantum ended. Among equal keys the earlier arrival goes first, then the order of the task
//! list; a running task is preempted only by a strictly better one.
//!
//! ```
//! use schedlab_sim::cpu::{simulate, Settings, Task};
//! use schedlab_sim::Stop;
//!
//! let tasks: Vec<Task> = ["A:0:8", "B:1:4"].iter().map(|t| t.parse().unwrap()).collect();
//! let settings = Settings { policy: "srtf".into(), ..Settings::default() };
//! let result = simulate(&tasks, &settings, &Stop::default()).unwrap();
//! assert_eq!(result.tasks[1].turnaround_ns, Some(4_000_000));
//! ```

mod engine;
#[cfg(test)]
mod judge;
mod kernel;
mod policy;
mod result;
mod task;

pub use engine::simulate;
pub use kernel::{CfsKeys, EevdfKeys, Kernel, LagLimit};
pub use policy::POLICIES;
pub use result::{CpuResult, Occupant, Segment, Summary, TaskResult};
pub use task::{parse_tasks, Settings, Task};
