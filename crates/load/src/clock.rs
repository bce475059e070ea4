//! Time and CPU time as the engine reads them: nanoseconds, no allocation.

use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, ClockId as SleepClock};
use rustix::time::{clock_gettime, ClockId, Timespec};
use serde::{Deserialize, Serialize};

/// CPU time of one thread or of the process, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cpu {
    pub user: u64,
    pub system: u64,
}

impl Cpu {
    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: Cpu) -> Cpu {
        Cpu {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    /// User and system time.
    pub(crate) fn total(self) -> u64 {
        self.user + self.system
    }

    /// The CPU times of a report of the kernel.
    pub(crate) fn of(usage: &libc::rusage) -> Cpu {
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        Cpu {
            user: ns(usage.ru_utime),
            system: ns(usage.ru_stime),
        }
    }
}

/// Monotonic time; read through the vDSO, so no system call.
#[inline]
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// CPU time of the calling thread, finer than `thread_cpu`.
pub(crate) fn thread_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps to an absolute monotonic time; whether a signal interrupted it before.
pub(crate) fn sleep_until(time_ns: u64) -> bool {
    let until = Timespec {
        tv_sec: (time_ns / 1_000_000_000) as i64,
        tv_nsec: (time_ns % 1_000_000_000) as i64,
    };
    clock_nanosleep_absolute(SleepClock::Monotonic, &until) == Err(Errno::INTR)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Cpu {
    usage(libc::RUSAGE_THREAD)
}

/// CPU time of the whole process, io_uring's kernel workers included.
pub(crate) fn process_cpu() -> Cpu {
    usage(libc::RUSAGE_SELF)
}

fn usage(who: libc::c_int) -> Cpu {
    // SAFETY: rusage is plain numbers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives through the call and has the type the kernel writes.
    unsafe { libc::getrusage(who, &mut usage) };
    Cpu::of(&usage)
}

/// CPU time used and time spent ready but not running, of the calling thread, in nanoseconds;
/// nothing where the kernel keeps no schedstats.
pub(crate) fn thread_schedstat() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
