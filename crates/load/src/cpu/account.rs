//! The kernel's account of a process: CPU time and switches.

use crate::clock::Cpu;

/// CPU time and switches since the process was born. A zombie still answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub cpu_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
}

impl Account {
    /// Reads `/proc/PID/schedstat` (CPU time in ns; needs CONFIG_SCHED_INFO) and the switches of
    /// `/proc/PID/status`. What cannot be read is 0.
    pub fn of(pid: i32) -> Self {
        let status = read_proc(pid, "status");
        let field = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.and_then(first_number).unwrap_or(0)
        };
        Account {
            cpu_ns: first_number(&read_proc(pid, "schedstat")).unwrap_or(0),
            voluntary: field("voluntary_ctxt_switches:"),
            involuntary: field("nonvoluntary_ctxt_switches:"),
        }
    }

    /// Of one that was reaped, with the children that it awaited.
    pub fn in_all(usage: &libc::rusage) -> Self {
        Account {
            cpu_ns: Cpu::of(usage).total(),
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        }
    }

    /// The part of it after `before`.
    pub fn since(self, before: Account) -> Self {
        Account {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }
}

/// Whether the process sleeps in an interruptible wait.
pub(super) fn is_asleep(pid: i32) -> bool {
    let stat = read_proc(pid, "stat");
    // The name in parentheses may hold anything; the state follows the last of them.
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('S'))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

fn read_proc(pid: i32, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_gives_up_the_cpu_by_itself() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let before = Account::of(tid);
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let after = Account::of(tid);
        assert!(
            after.voluntary >= before.voluntary + 20,
            "{before:?} {after:?}"
        );
        assert!(
            after.involuntary < before.involuntary + 20,
            "{before:?} {after:?}"
        );
        assert!(after.cpu_ns > before.cpu_ns);
    }
}
