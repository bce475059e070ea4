//! Loads recorded by `schedlab trace io --out`; the layout is in `crates/trace/src/records.rs`.

use std::collections::HashMap;
use std::path::Path;

use schedlab_model::Nanos;
use serde_json::Value;

use super::super::fields::{times, within};
use super::super::input::{Input, Line};
use super::super::{record, Mismatch, TraceError, TraceOptions};
use super::words::{u16_at, u32_at, u64_at};
use super::{Binary, Parsed, SECTOR_BYTES};

const MAGIC: &[u8] = b"SCHEDLAB TRACE ";
/// Of versions 1 and 2, by which a file says how long its records are.
const VERSIONS: [(&[u8], usize); 2] = [(b"1 ", 96), (b"2 ", 112)];
const EXPECTED: &str = "a whole record";
const FIRST_LINE: &str = "the first line of a recorded load";
/// Of the last record, which counts.
const END: u16 = u16::MAX;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 2;
const DISCARD: u16 = 3;
const SYNC: u16 = 1;
const FUA: u16 = 8;
const PREFLUSH: u16 = 16;
/// The time of its completion is the latest possible.
const NO_COMPLETION: u16 = 256;

struct Recorded {
    input: Input,
    ended: bool,
    names: HashMap<u32, String>,
    /// Bytes of a record.
    length: usize,
}

pub(super) fn open(
    mut inputs: Vec<Input>,
    _: &TraceOptions,
) -> Result<Box<dyn Binary>, TraceError> {
    let mut input = inputs.swap_remove(0);
    let head = match input.line()? {
        Some(Line::Text(line)) => head(line).map(|(length, _)| length),
        _ => None,
    };
    let length = head.ok_or_else(|| bad(input.path(), 0, FIRST_LINE, String::new()))?;
    Ok(Box::new(Recorded {
        input,
        ended: false,
        names: HashMap::new(),
        length,
    }))
}

/// Whether the first line is that of a recorded load.
pub(super) fn looks_like(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The length of the records of a file, and its facts, by its first line.
fn head(line: &[u8]) -> Option<(usize, &[u8])> {
    let rest = line.strip_prefix(MAGIC)?;
    let of = |(version, length): &(&[u8], usize)| Some((*length, rest.strip_prefix(*version)?));
    VERSIONS.iter().find_map(of)
}

fn bad(path: &Path, number: usize, expected: &str, actual: String) -> TraceError {
    TraceError::Bad {
        path: path.to_owned(),
        unit: "record",
        number: number as u64,
        expected: expected.into(),
        actual,
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let (operation, flags) = (u16_at(bytes, 72), u16_at(bytes, 74));
    let size_bytes = u64::from(u32_at(bytes, 56));
    // A flush has no range.
    if !matches!(operation, READ | WRITE | DISCARD) || size_bytes == 0 {
        return Ok(None);
    }
    let offset = times(u64_at(bytes, 24), SECTOR_BYTES, "a sector below 2^55")?;
    let [arrival_ns, issued_ns, done_ns] = [0, 8, 16].map(|at| u64_at(bytes, at));
    let mut parsed = record(arrival_ns, offset, size_bytes, operation == WRITE);
    parsed.trim = operation == DISCARD;
    let latency = Nanos(done_ns.saturating_sub(arrival_ns));
    parsed.latency = (flags & NO_COMPLETION == 0).then_some(latency);
    let in_order = (arrival_ns..=done_ns).contains(&issued_ns);
    // Of one that joined another request, and in version 1, when it had a tag is not known.
    let tagged_ns = step(bytes, 96).clamp(arrival_ns, issued_ns.max(arrival_ns));
    let waited = [tagged_ns - arrival_ns, issued_ns.saturating_sub(tagged_ns)].map(Nanos);
    parsed.waited = (in_order && parsed.latency.is_some()).then_some(waited);
    parsed.process = Some(u32_at(bytes, 60));
    parsed.is_async = operation == WRITE && flags & (SYNC | (FUA | PREFLUSH)) == 0;
    Ok(Some(parsed))
}

/// A time that only version 2 has; 0 in version 1.
fn step(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |_| u64_at(bytes, at))
}

/// A record with all that a replay needs.
#[derive(Default)]
pub(in super::super) struct Full {
    pub arrival_ns: u64,
    /// When it had a tag, entered the scheduler, went to the device; 0: not seen.
    pub steps_ns: [u64; 3],
    /// At the latest, where the end was not seen.
    pub done_ns: u64,
    pub has_end: bool,
    pub offset: u64,
    pub bytes: u32,
    pub is_write: bool,
    pub is_discard: bool,
    pub is_async: bool,
    pub is_flush: bool,
    pub is_durable: bool,
    pub process: u32,
    pub thread: u32,
    pub command: String,
    pub ioprio: u16,
    pub cgroup: u64,
}

/// A whole file.
pub(in super::super) struct Whole {
    pub facts: Value,
    pub records: Vec<Full>,
    pub lost: u64,
}

/// Reads a file into memory, at most `most` records of it.
pub(in super::super) fn read_whole(path: &Path, most: usize) -> Result<Whole, TraceError> {
    let mut input = Input::open(path)?;
    let facts = match input.line()? {
        Some(Line::Text(line)) => head(line).map(|(n, facts)| (n, serde_json::from_slice(facts))),
        _ => None,
    };
    let bad = |number: usize, expected: &str, actual: String| bad(path, number, expected, actual);
    let Some((length, Ok(facts))) = facts else {
        return Err(bad(0, FIRST_LINE, String::new()));
    };
    let mut records = Vec::new();
    loop {
        let number = records.len() + 1;
        let bytes = input.take(length)?;
        if bytes.len() < length {
            let actual = format!("an end without its counts, after {} bytes", bytes.len());
            return Err(bad(number, EXPECTED, actual));
        }
        if u16_at(bytes, 72) == END {
            let lost = u64_at(bytes, 8);
            return Ok(Whole {
                facts,
                records,
                lost,
            });
        }
        if number > most {
            let expected = format!("at most {most} records (record for a shorter time)");
            return Err(bad(number, &expected, "more".into()));
        }
        let wrong = |Mismatch(expected)| bad(number, expected, String::new());
        records.extend(full(bytes).map_err(wrong)?);
    }
}

/// The name of the thread.
fn name_of(bytes: &[u8]) -> String {
    let name = bytes[80..96].split(|byte| *byte == 0).next();
    String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
}

/// Nothing for an operation that moves no data of a program, such as the reset of a zone.
fn full(bytes: &[u8]) -> Result<Option<Full>, Mismatch> {
    let (operation, flags) = (u16_at(bytes, 72), u16_at(bytes, 74));
    if !matches!(operation, READ | WRITE | FLUSH | DISCARD) {
        return Ok(None);
    }
    let size = u32_at(bytes, 56);
    let offset = times(u64_at(bytes, 24), SECTOR_BYTES, "a sector below 2^55")?;
    within(offset, size.into())?;
    Ok(Some(Full {
        arrival_ns: u64_at(bytes, 0),
        steps_ns: [step(bytes, 96), step(bytes, 104), u64_at(bytes, 8)],
        done_ns: u64_at(bytes, 16),
        has_end: flags & NO_COMPLETION == 0,
        offset,
        bytes: size,
        is_write: operation == WRITE,
        is_discard: operation == DISCARD,
        is_async: operation == WRITE && flags & (SYNC | FUA | PREFLUSH) == 0,
        is_flush: operation == FLUSH || (size == 0 && flags & PREFLUSH != 0),
        is_durable: flags & (FUA | PREFLUSH) != 0,
        process: u32_at(bytes, 60),
        thread: u32_at(bytes, 64),
        command: match name_of(bytes) {
            // Any of them does the work of all.
            name if name.starts_with("kworker/") => "kworker".into(),
            name => name,
        },
        ioprio: u16_at(bytes, 76),
        cgroup: u64_at(bytes, 32),
    }))
}

impl Binary for Recorded {
    fn next(&mut self) -> Result<Option<(Parsed, String)>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let bytes = self.input.take(self.length)?;
        Ok(match bytes.len() {
            whole if whole == self.length && u16_at(bytes, 72) == END => {
                self.ended = true;
                None
            }
            whole if whole == self.length => {
                self.names
                    .entry(u32_at(bytes, 60))
                    .or_insert_with(|| name_of(bytes));
                Some((parse(bytes), String::new()))
            }
            short => {
                self.ended = true;
                let actual = format!("an end without its counts, after {short} bytes");
                Some((Err(Mismatch(EXPECTED)), actual))
            }
        })
    }

    fn process_name(&self, process: u32) -> Option<String> {
        self.names.get(&process).cloned()
    }

    fn path(&self) -> &Path {
        self.input.path()
    }
}
