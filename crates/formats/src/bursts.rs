//! CPU bursts from the events `sched_switch`, and when tasks were woken from `sched_wakeup`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::error::shown;
use super::fields::whole;
use super::input::{Input, Line};
use super::kernel_text::{kernel_line, value, KernelEvent, KernelLine};
use super::{Mismatch, TraceError};

/// More of them do not fit into a simulation.
const BURSTS_MAX: usize = 1_000_000;
const EXPECTED: &str =
    "prev_comm=… prev_pid=N … ==> next_comm=… next_pid=N, or comm:N [120] S ==> …";
/// Of nice 0.
const DEFAULT_PRIORITY: i64 = 120;
/// Priorities below are those of real-time policies.
const RT_PRIORITIES: u64 = 100;

/// A stay of a thread on a CPU, ns of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When it left the CPU.
    pub end_ns: u64,
    /// How long it was there.
    pub duration_ns: u64,
    /// The thread.
    pub thread: u32,
    /// It could have gone on.
    pub is_preempted: bool,
    /// The CPU.
    pub cpu: u64,
    /// When it was woken for it; 0 where it had been preempted, or where that was not traced.
    pub woken_ns: u64,
    /// Its nice value; none of a real-time policy.
    pub nice: Option<i8>,
}

/// The bursts of a trace.
#[derive(Debug, Default)]
pub struct Bursts {
    /// In the order of their ends. Idle CPUs have none.
    pub bursts: Vec<Burst>,
    /// Names of the threads, as they were last.
    pub names: BTreeMap<u32, String>,
    /// Whether the trace has wake-ups.
    pub has_wakeups: bool,
    /// Events that the kernel's ring lost.
    pub lost: u64,
}

#[derive(Clone, Copy)]
struct Task<'a> {
    comm: &'a [u8],
    pid: u32,
    nice: Option<i8>,
}

/// Reads the bursts of a text that ftrace, trace-cmd or perf printed.
pub fn sched_bursts(path: &Path) -> Result<Bursts, TraceError> {
    let mut input = Input::open(path)?;
    let mut read = Bursts::default();
    let mut running: HashMap<u64, (u32, u64)> = HashMap::new();
    let mut woken: HashMap<u32, u64> = HashMap::new();
    let mut number = 0;
    while let Some(line) = input.line()? {
        number += 1;
        let line = match line {
            Line::Text(line) | Line::TooLong(line) => line,
        };
        let seen = kernel_line(line).and_then(|line| match line {
            KernelLine::Event(event) => read.see(&event, &mut running, &mut woken),
            KernelLine::Lost(count) => {
                read.lost += count;
                running.clear();
                Ok(())
            }
            KernelLine::Other => Ok(()),
        });
        seen.map_err(|Mismatch(expected)| TraceError::Bad {
            path: path.to_owned(),
            unit: "line",
            number,
            expected: expected.to_owned(),
            actual: shown(line),
        })?;
    }
    if read.bursts.is_empty() {
        return Err(TraceError::NoBursts(path.to_owned()));
    }
    Ok(read)
}

impl Bursts {
    fn see(
        &mut self,
        event: &KernelEvent<'_>,
        running: &mut HashMap<u64, (u32, u64)>,
        woken: &mut HashMap<u32, u64>,
    ) -> Result<(), Mismatch> {
        let missing = Mismatch(EXPECTED);
        if matches!(event.name, b"sched_wakeup" | b"sched_wakeup_new") {
            self.has_wakeups = true;
            let task = task(event.rest, b"comm", b"pid", b"prio").ok_or(missing)?;
            woken.entry(task.pid).or_insert(event.time_ns);
            return Ok(());
        }
        // A probe may have the name of the event, with the address of the function instead.
        if event.name != b"sched_switch" || event.rest.trim_ascii_start().starts_with(b"(") {
            return Ok(());
        }
        let cpu = event
            .cpu
            .ok_or(Mismatch("the CPU as [000] before the time"))?;
        let arrow = memchr::memmem::find(event.rest, b"==>").ok_or(missing)?;
        let (left, right) = (&event.rest[..arrow], &event.rest[arrow + 3..]);
        let before = task(left, b"prev_comm", b"prev_pid", b"prev_prio").ok_or(missing)?;
        let after = task(right, b"next_comm", b"next_pid", b"next_prio").ok_or(missing)?;
        let state = value(left, b"prev_state").or_else(|| super::fields::words(left).last());
        let started = running.insert(cpu, (after.pid, event.time_ns));
        let start_ns = started
            .filter(|(pid, _)| *pid == before.pid)
            .map(|(_, ns)| ns);
        // Also of a stay whose start is not known: what woke it then wakes it no more.
        let woken_ns = woken.remove(&before.pid);
        if let (Some(start_ns), true) = (start_ns, before.pid > 0) {
            if self.bursts.len() >= BURSTS_MAX || event.time_ns < start_ns {
                return Err(Mismatch("times in order, and at most 1,000,000 bursts"));
            }
            self.bursts.push(Burst {
                end_ns: event.time_ns,
                duration_ns: event.time_ns - start_ns,
                thread: before.pid,
                is_preempted: state.is_some_and(|state| state.starts_with(b"R")),
                cpu,
                // A wake-up while it ran is one before it could sleep.
                woken_ns: woken_ns.filter(|ns| *ns <= start_ns).unwrap_or(0),
                nice: before.nice,
            });
            let name = String::from_utf8_lossy(before.comm).into_owned();
            self.names.insert(before.pid, name);
        }
        Ok(())
    }
}

/// A task as the kernel prints it (`comm=a b pid=1 prio=120`), or as libtraceevent does
/// (`a b:1 [120]`).
fn task<'a>(text: &'a [u8], comm: &[u8], pid: &[u8], priority: &[u8]) -> Option<Task<'a>> {
    let number = |text: &[u8]| whole(text, EXPECTED).ok();
    let text = text.trim_ascii();
    if let Some(rest) = text
        .strip_prefix(comm)
        .and_then(|rest| rest.strip_prefix(b"="))
    {
        let end = memchr::memmem::rfind(rest, &[b" ", pid, b"="].concat())?;
        return Some(Task {
            comm: &rest[..end],
            pid: u32::try_from(number(value(&rest[end..], pid)?)?).ok()?,
            nice: nice_of(value(&rest[end..], priority)?)?,
        });
    }
    let open = memchr::memmem::rfind(text, b" [")?;
    let close = open + text[open..].iter().position(|byte| *byte == b']')?;
    let colon = text[..open].iter().rposition(|byte| *byte == b':')?;
    Some(Task {
        comm: &text[..colon],
        pid: u32::try_from(number(&text[colon + 1..open])?).ok()?,
        nice: nice_of(&text[open + 2..close])?,
    })
}

/// The nice value that a priority of the kernel stands for: none of a real-time one, nor of -1,
/// which is that of SCHED_DEADLINE.
fn nice_of(priority: &[u8]) -> Option<Option<i8>> {
    if priority == b"-1" {
        return Some(None);
    }
    let priority = whole(priority, EXPECTED).ok()?;
    if priority < RT_PRIORITIES {
        return Some(None);
    }
    let nice = i64::try_from(priority).ok()? - DEFAULT_PRIORITY;
    i8::try_from(nice).ok().map(Some)
}
