//! Policy, nice value, slice and deadline of one process, set in one call and read back
//! (`sched_setattr(2)`). Safe between fork and exec.

use serde::{Deserialize, Serialize};

use super::scheduling::{set_current, Policy};
use crate::child::{errno, Refusal};

/// The settings of a process. Zeros of `slice_ns` and `period_ns` mean the kernel's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attributes {
    /// The policy.
    pub policy: Policy,
    /// Static priority of `fifo` and `rr`.
    pub priority: u32,
    /// Nice value of the fair policies; nothing: the one that it has.
    pub nice: Option<i32>,
    /// EEVDF slice; run time per period of `deadline`.
    pub slice_ns: u64,
    /// Period of `deadline`.
    pub period_ns: u64,
}

/// `struct sched_attr` up to the deadline fields (SCHED_ATTR_SIZE_VER0).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: usize = std::mem::size_of::<SchedAttr>();

impl Attributes {
    /// The priority that the policy has.
    fn static_priority(&self) -> u32 {
        if self.policy.is_real_time() {
            self.priority
        } else {
            0
        }
    }

    /// Policy and priority for the parent before the fork, inherited by all tasks. The kernel lets
    /// no DEADLINE task fork: each task enters by itself.
    pub(super) fn enter(&self) -> Result<(), Refusal> {
        if self.policy == Policy::Deadline {
            return Ok(());
        }
        set_current(self.policy.number(), self.static_priority() as i32)
            .map_err(|e| Refusal::new("policy", e))
    }

    /// The step that is refused to a task that has its policy.
    pub(super) fn step(&self) -> &'static str {
        match self.policy {
            Policy::Deadline => "deadline",
            _ if self.slice_ns > 0 => "slice",
            _ => "policy",
        }
    }

    /// Gives them to `pid` (0: the calling thread); errno when refused. Two system calls.
    pub fn apply(&self, pid: i32) -> Result<(), i32> {
        let own_nice = || attributes_of(pid).map_or(0, |(_, nice, ..)| nice);
        let attributes = SchedAttr {
            size: SIZE as u32,
            policy: self.policy.number() as u32,
            nice: self.nice.unwrap_or_else(own_nice),
            priority: self.static_priority(),
            runtime_ns: self.slice_ns,
            deadline_ns: self.period_ns,
            period_ns: self.period_ns,
            ..SchedAttr::default()
        };
        // SAFETY: the struct is valid, and its size field is its size.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &attributes, 0) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }
}

/// The kernel's values for `pid`: policy number, nice value, priority and slice in ns; nothing
/// when it is gone.
pub fn attributes_of(pid: i32) -> Option<(u32, i32, u32, u64)> {
    let mut values = SchedAttr::default();
    // SAFETY: the kernel writes at most SIZE bytes into the struct.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &mut values, SIZE, 0u32) };
    (result == 0).then_some((
        values.policy,
        values.nice,
        values.priority,
        values.runtime_ns,
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back() {
        std::thread::spawn(|| {
            let batch = Attributes {
                policy: Policy::Batch,
                nice: Some(5),
                slice_ns: 7_000_000,
                ..Attributes::default()
            };
            batch.apply(0).unwrap();
            let (policy, nice, priority, _) = attributes_of(0).unwrap();
            assert_eq!((policy, nice, priority), (3, 5, 0));
            Attributes::default().apply(0).unwrap();
            assert_eq!(
                attributes_of(0).map(|(policy, nice, ..)| (policy, nice)),
                Some((0, 5))
            );
        })
        .join()
        .unwrap();
        assert_eq!(attributes_of(i32::MAX), None);
    }
}
