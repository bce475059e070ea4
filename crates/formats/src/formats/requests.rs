//! Requests of the simulator's own files: `arrival_ms,is_write,first_page,pages` in pages of
//! 4 KiB; `is_write` is 0 for a read, 1 for a write, 2 for a trim.

use super::super::fields::{decimal, times, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed};

const PAGE_BYTES: u64 = 4096;
const EXPECTED: &str = "arrival_ms,is_write (0, 1; 2: trim),first_page,pages";
pub(super) const COLUMNS: &str = "arrival_ms,is_write,first_page,pages";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let arrival_ns = decimal(fields.take(EXPECTED)?, 6, EXPECTED)?;
    let operation = fields.take(EXPECTED)?;
    let offset = times(
        whole(fields.take(EXPECTED)?, EXPECTED)?,
        PAGE_BYTES,
        EXPECTED,
    )?;
    let length = times(
        whole(fields.take(EXPECTED)?, EXPECTED)?,
        PAGE_BYTES,
        EXPECTED,
    )?;
    fields.end(EXPECTED)?;
    let (is_write, trim) = match operation {
        b"0" => (false, false),
        b"1" => (true, false),
        b"2" => (false, true),
        _ => return Err(Mismatch(EXPECTED)),
    };
    Ok(Some(TraceRecord {
        trim,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

/// Requests that are not aligned are widened to whole pages.
pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let first = request.offset.0 / PAGE_BYTES;
    let pages = (request.offset.0 + request.length.0).div_ceil(PAGE_BYTES) - first;
    let operation = if record.trim {
        2
    } else {
        u8::from(request.is_write)
    };
    let (ms, ns) = (request.arrival.0 / 1_000_000, request.arrival.0 % 1_000_000);
    out.extend_from_slice(format!("{ms}.{ns:06},{operation},{first},{pages}\n").as_bytes());
}
