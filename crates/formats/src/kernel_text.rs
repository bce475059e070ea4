//! Events of the kernel as the lines of tracefs `trace`, `trace-cmd report`, `perf script` and
//! `perf sched script`, and of bpftrace programs that print the same:
//!
//! ```text
//!  opt cgu.0-22464 [001] d..2. 12994.591499: sched_switch: prev_comm=…
//!        fio 19182 [000] 12772.395480671:    block:block_rq_issue: 7,0 WS 4096 () 31616 + 8 [fio]
//!        fio-20681   0...1. 12877.598849: block_rq_insert:      7,0 WS …
//! ```

use super::fields::{decimal, whole, words};
use super::Mismatch;

const EXPECTED: &str = "TASK-PID [CPU] seconds: event: …, as ftrace, trace-cmd and perf print it";

/// An event with what stands before and after its name.
pub(super) struct KernelEvent<'a> {
    /// The thread that ran.
    pub thread: Option<u32>,
    pub cpu: Option<u64>,
    pub time_ns: u64,
    pub name: &'a [u8],
    pub rest: &'a [u8],
}

/// What a line is.
pub(super) enum KernelLine<'a> {
    Event(KernelEvent<'a>),
    /// The kernel's ring overflowed there, by so many events.
    Lost(u64),
    /// A comment, a stack, the number of CPUs.
    Other,
}

/// Reads one line.
pub(super) fn kernel_line(line: &[u8]) -> Result<KernelLine<'_>, Mismatch> {
    let missing = Mismatch(EXPECTED);
    let text = line.trim_ascii();
    if text.is_empty() || text[0] == b'#' || is_stack(text) || text.starts_with(b"cpus=") {
        return Ok(KernelLine::Other);
    }
    if let Some(rest) = text.strip_prefix(b"CPU:") {
        return lost(rest).ok_or(missing);
    }
    let Some((time_ns, before, after)) = time_of(text) else {
        let is_note = [&b"CPU "[..], b"version ", b"Attaching "];
        let is_note = is_note.iter().any(|start| text.starts_with(start));
        // An address in a file, of a call chain of perf, may be short.
        return match is_note || words(text).next().is_some_and(is_address) {
            true => Ok(KernelLine::Other),
            false => Err(missing),
        };
    };
    // perf prints the period before the name, trace-cmd the time since the event before.
    let named = words(after).take(3).find(|word| is_name(word));
    let name = named.ok_or(missing)?;
    let end = name.as_ptr() as usize - after.as_ptr() as usize + name.len();
    let name = name.strip_suffix(b":").unwrap_or(name);
    let name = name.rsplit(|byte| *byte == b':').next().unwrap_or(name);
    let (thread, cpu) = task_of(before);
    Ok(KernelLine::Event(KernelEvent {
        thread,
        cpu,
        time_ns,
        name,
        rest: &after[end..],
    }))
}

/// The value of `key=` in the raw layout of an event.
pub(super) fn value<'a>(rest: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    words(rest).find_map(|word| word.strip_prefix(key)?.strip_prefix(b"="))
}

/// `7,0` as the kernel numbers devices.
pub(super) fn device_number(word: &[u8]) -> Option<u32> {
    let comma = word.iter().position(|byte| *byte == b',')?;
    let major = whole(&word[..comma], EXPECTED).ok()?;
    let minor = whole(&word[comma + 1..], EXPECTED).ok()?;
    (major < 1 << 12 && minor < 1 << 20).then_some(((major << 20) | minor) as u32)
}

/// `1 [LOST 5 EVENTS]` of ftrace, `0 [5 EVENTS DROPPED]` of trace-cmd.
fn lost(rest: &[u8]) -> Option<KernelLine<'_>> {
    let mut words = words(rest);
    words.next()?;
    let counts = words.find_map(|word| {
        let word = word.strip_prefix(b"[").unwrap_or(word);
        whole(word, EXPECTED).ok()
    });
    counts.map(KernelLine::Lost)
}

/// A line of a call chain begins with an address, or with an arrow.
fn is_stack(text: &[u8]) -> bool {
    let first = words(text).next().unwrap_or_default();
    first == b"=>"
        || (first.len() >= 8 && is_address(first))
            && words(text)
                .nth(1)
                .is_some_and(|word| !word[0].is_ascii_digit())
}

fn is_address(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_hexdigit)
}

/// (ns, text before it, text after it) of the time: seconds with a colon, or bpftrace's `nsecs`.
fn time_of(text: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let found = |with_colon: bool| {
        words(text).find_map(|word| {
            let digits = match word.strip_suffix(b":") {
                Some(digits) => digits,
                None if with_colon => return None,
                None => word,
            };
            let ns = match digits.contains(&b'.') {
                true => decimal(digits, 9, EXPECTED),
                false if digits.len() >= 10 => whole(digits, EXPECTED),
                false => return None,
            };
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            ns.ok()
                .map(|ns| (ns, &text[..at], &text[at + word.len()..]))
        })
    };
    found(true).or_else(|| found(false))
}

fn is_name(word: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:".contains(byte);
    word.contains(&b'_') && word.iter().all(allowed)
}

/// The thread and the CPU of `comm-19182 [000] d..2.`, `comm 19182/19183 [000]`,
/// `comm-19182 (  19182) [000]` or `comm-19182 0d..2.`.
fn task_of(before: &[u8]) -> (Option<u32>, Option<u64>) {
    let before = before.trim_ascii();
    let bracket = before.iter().rposition(|byte| *byte == b'[');
    let (mut task, cpu) = match bracket {
        Some(at) => {
            let end = before[at..].iter().position(|byte| *byte == b']');
            (&before[..at], &before[at + 1..at + end.unwrap_or(1)])
        }
        None => {
            let start = before.iter().rposition(|byte| *byte == b' ').unwrap_or(0);
            let flags = before[start..].trim_ascii();
            let digits = flags
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            match flags.len() > digits && digits > 0 && !flags.contains(&b'/') {
                true => (&before[..start], &flags[..digits]),
                false => (before, &[][..]),
            }
        }
    };
    task = task.trim_ascii_end();
    if task.ends_with(b")") {
        let open = task.iter().rposition(|byte| *byte == b'(').unwrap_or(0);
        task = task[..open].trim_ascii_end();
    }
    let digits = task
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let thread = whole(&task[task.len() - digits..], EXPECTED).ok();
    (
        thread.and_then(|id| u32::try_from(id).ok()),
        whole(cpu, EXPECTED).ok(),
    )
}
