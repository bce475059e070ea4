//! Loads recorded by `schedlab trace io --out`; the layout is in `crates/trace/src/records.rs`.

use std::path::Path;

use super::super::fields::times;
use super::super::input::Input;
use super::super::reader::Parsed;
use super::super::{record, Mismatch, TraceError, TraceOptions};
use super::{Binary, SECTOR_BYTES};
use schedlab_model::Nanos;

const MAGIC: &[u8] = b"SCHEDLAB TRACE 1 ";
const RECORD_BYTES: usize = 96;
const EXPECTED: &str = "a record of 96 bytes";
/// Of the last record, which counts.
const END: u16 = u16::MAX;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCARD: u16 = 3;
const SYNC: u16 = 1;
const FUA_OR_PREFLUSH: u16 = 8 | 16;

struct Recorded {
    input: Input,
    ended: bool,
}

pub(super) fn open(
    mut inputs: Vec<Input>,
    _: &TraceOptions,
) -> Result<Box<dyn Binary>, TraceError> {
    let mut input = inputs.swap_remove(0);
    input.line()?;
    Ok(Box::new(Recorded {
        input,
        ended: false,
    }))
}

/// Whether the first line is that of a recorded load.
pub(super) fn looks_like(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn parse(bytes: &[u8]) -> Parsed {
    let (operation, flags) = (u16_at(bytes, 72), u16_at(bytes, 74));
    let size_bytes = u64::from(u32_at(bytes, 56));
    // A flush has no range.
    if !matches!(operation, READ | WRITE | DISCARD) || size_bytes == 0 {
        return Ok(None);
    }
    let offset = times(u64_at(bytes, 24), SECTOR_BYTES, "a sector below 2^55")?;
    let (arrival_ns, done_ns) = (u64_at(bytes, 0), u64_at(bytes, 16));
    let mut parsed = record(arrival_ns, offset, size_bytes, operation == WRITE);
    parsed.trim = operation == DISCARD;
    parsed.latency = Some(Nanos(done_ns.saturating_sub(arrival_ns)));
    parsed.process = Some(u32_at(bytes, 60));
    parsed.is_async = operation == WRITE && flags & (SYNC | FUA_OR_PREFLUSH) == 0;
    Ok(Some(parsed))
}

impl Binary for Recorded {
    fn next(&mut self) -> Result<Option<(Parsed, String)>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let bytes = self.input.take(RECORD_BYTES)?;
        Ok(match bytes.len() {
            RECORD_BYTES if u16_at(bytes, 72) == END => {
                self.ended = true;
                None
            }
            RECORD_BYTES => Some((parse(bytes), String::new())),
            short => {
                self.ended = true;
                let actual = format!("an end without its counts, after {short} bytes");
                Some((Err(Mismatch(EXPECTED)), actual))
            }
        })
    }

    fn path(&self) -> &Path {
        self.input.path()
    }
}
