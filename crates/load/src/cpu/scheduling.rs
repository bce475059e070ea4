//! Scheduling attributes as the kernel takes and reports them (sched(7), kernel/sched/syscalls.c).

use rustix::process::Pid;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use crate::child::{errno, Refusal};

/// A scheduling policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_OTHER: EEVDF.
    #[default]
    Other = 0,
    /// SCHED_BATCH: EEVDF without wake-up preemption.
    Batch = 3,
    /// SCHED_IDLE: only what others leave.
    Idle = 5,
    /// SCHED_FIFO: runs until it blocks.
    Fifo = 1,
    /// SCHED_RR: FIFO with a global quantum.
    Rr = 2,
    /// SCHED_DEADLINE: constant bandwidth server, earliest deadline first.
    Deadline = 6,
    /// SCHED_EXT: a scheduler loaded as BPF.
    Ext = 7,
}

impl Policy {
    pub(super) fn number(self) -> i32 {
        self as i32
    }

    pub(super) fn is_real_time(self) -> bool {
        matches!(self, Policy::Fifo | Policy::Rr)
    }
}

/// The policy (with its flags) and static priority of the calling thread.
pub(super) fn current() -> (i32, i32) {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: both calls read the calling thread only and write to a valid struct.
    unsafe {
        let policy = libc::sched_getscheduler(0);
        libc::sched_getparam(0, &mut parameters);
        (policy, parameters.sched_priority)
    }
}

/// Sets policy number and static priority of the calling thread; keeps nice value and slice.
pub(super) fn set_current(policy: i32, priority: i32) -> Result<(), i32> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: a plain system call on a valid struct.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// The CPUs that the calling thread may use.
pub fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Pins a thread (`None`: the calling one) to `cpus`.
pub fn pin(pid: Option<Pid>, cpus: &[usize]) -> Result<(), Refusal> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|c| **c < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    rustix::thread::sched_setaffinity(pid, &set)
        .map_err(|e| Refusal::new("affinity", e.raw_os_error()))
}
