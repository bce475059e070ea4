//! Scheduling attributes as the kernel takes and reports them (sched(7), kernel/sched/syscalls.c).

use std::io;

use rustix::process::Pid;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use super::attributes::{attributes_of, Attributes};

/// The default static priority of real-time workers.
pub const PRIORITY_DEFAULT: i32 = 10;

/// A scheduling policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_OTHER: EEVDF.
    #[default]
    Other,
    /// SCHED_BATCH: EEVDF without wake-up preemption.
    Batch,
    /// SCHED_IDLE: only what others leave.
    Idle,
    /// SCHED_FIFO: runs until it blocks.
    Fifo,
    /// SCHED_RR: FIFO with a global quantum.
    Rr,
    /// SCHED_DEADLINE: constant bandwidth server, earliest deadline first.
    Deadline,
    /// SCHED_EXT: a scheduler loaded as BPF.
    Ext,
}

impl Policy {
    pub(super) fn number(self) -> i32 {
        match self {
            Policy::Other => 0,
            Policy::Fifo => 1,
            Policy::Rr => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
            Policy::Deadline => 6,
            Policy::Ext => 7,
        }
    }

    fn is_real_time(self) -> bool {
        matches!(self, Policy::Fifo | Policy::Rr)
    }
}

/// What the kernel refused: the step, and its errno.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct Refusal {
    /// `policy`, `slice`, `deadline`, `affinity`, `fork`, `memory` or `worker`.
    pub step: &'static str,
    /// The operating system's error.
    pub source: io::Error,
}

impl Refusal {
    pub(crate) fn new(step: &'static str, errno: i32) -> Self {
        Refusal {
            step,
            source: io::Error::from_raw_os_error(errno),
        }
    }

    pub(crate) fn last(step: &'static str) -> Self {
        Refusal {
            step,
            source: io::Error::last_os_error(),
        }
    }
}

/// How workers are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scheduling {
    /// The policy.
    pub policy: Policy,
    /// Static priority for `fifo` and `rr`; 0 for the others.
    pub priority: i32,
    /// EEVDF slice of `other` and `batch`; run time per period of `deadline`.
    pub slice_ns: Option<u64>,
    /// Period (and relative deadline) of `deadline`.
    pub period_ns: Option<u64>,
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

/// errno of the last failed call of this thread; async-signal-safe.
pub(super) fn errno() -> i32 {
    // SAFETY: glibc gives a valid thread-local address.
    unsafe { *libc::__errno_location() }
}

impl Scheduling {
    /// What is set in the parent before the fork and inherited by all workers.
    pub(super) fn enter(&self) -> Result<(), Refusal> {
        let priority = if self.policy.is_real_time() {
            self.priority
        } else {
            0
        };
        if self.policy == Policy::Deadline {
            return Ok(()); // the kernel lets no DEADLINE task fork: each worker enters by itself
        }
        set_current(self.policy.number(), priority).map_err(|e| Refusal::new("policy", e))
    }

    /// What each worker sets for itself. Makes one system call at most: safe after fork.
    pub(super) fn enter_worker(&self) -> Result<(), i32> {
        match (self.policy, self.slice_ns) {
            (Policy::Deadline, slice) => {
                let runtime_ns = slice.unwrap_or(10_000_000);
                let period_ns = self.period_ns.unwrap_or(runtime_ns * 10);
                set_attributes(0, self.policy, runtime_ns, period_ns)
            }
            (Policy::Other | Policy::Batch, Some(slice)) => {
                set_attributes(0, self.policy, slice, 0)
            }
            _ => Ok(()),
        }
    }

    /// Gives a running worker another EEVDF slice.
    pub(super) fn set_slice(&self, pid: i32, slice_ns: u64) -> Result<(), Refusal> {
        set_attributes(pid, self.policy, slice_ns, 0).map_err(|e| Refusal::new("slice", e))
    }
}

fn set_attributes(pid: i32, policy: Policy, slice_ns: u64, period_ns: u64) -> Result<(), i32> {
    let attributes = Attributes {
        policy,
        slice_ns,
        period_ns,
        ..Attributes::default()
    };
    attributes.apply(pid)
}

/// The quantum that the kernel really uses for `pid`, or nothing where its policy has none.
///
/// `rr`: `sched_rr_get_interval`, because the sysctl's text does not show it. Fair policies and
/// `deadline`: `sched_getattr`'s runtime (0 before Linux 6.12, given as nothing).
pub fn effective_slice_ns(policy: Policy, pid: i32) -> Option<u64> {
    match policy {
        Policy::Rr => {
            let mut interval = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: writes to a valid timespec.
            let result = unsafe { libc::sched_rr_get_interval(pid, &mut interval) };
            (result == 0).then(|| interval.tv_sec as u64 * 1_000_000_000 + interval.tv_nsec as u64)
        }
        Policy::Fifo | Policy::Idle | Policy::Ext => None,
        Policy::Other | Policy::Batch | Policy::Deadline => attributes_of(pid)
            .map(|(_, _, _, slice_ns)| slice_ns)
            .filter(|slice_ns| *slice_ns > 0),
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
