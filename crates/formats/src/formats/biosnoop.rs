//! Tables of `biosnoop` (bcc and its libbpf tools):
//! `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`. A line is printed at the completion;
//! LAT is the time since the issue, QUE that in the queue before.

use schedlab_model::Nanos;

use super::super::fields::{decimal, times, whole, words};
use super::super::{record, Event, Mismatch, TraceRecord};
use super::blk::operation;
use super::{Memory, Parsed, SECTOR_BYTES};

const HEADER: &str = "the header TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)";
const EXPECTED: &str = "seconds, command, process, disk, R or W, sector, bytes, milliseconds";
/// Times begin at the first completion, so requests begin before it.
const BEFORE_NS: u64 = 1 << 50;

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    let found: Vec<&[u8]> = words(line).collect();
    // What a terminal shows of Ctrl-C is no line of the table.
    if found.is_empty() || found == [b"^C"] || (memory.columns.is_empty() && found[0] == b"Tracing")
    {
        return Ok(None);
    }
    if found[0] == b"TIME(s)" {
        let columns = found.iter().map(|name| name.to_vec()).collect();
        memory.columns = columns;
        return Ok(None);
    }
    let columns = &memory.columns;
    if !columns.iter().any(|name| name == b"SECTOR") {
        return Err(Mismatch(HEADER));
    }
    // One whose beginning was not seen, or that is of no file system, has no disk.
    let behind = columns.iter().rev().position(|name| name == b"T");
    let kind_at = behind.and_then(|behind| found.len().checked_sub(behind + 1));
    let kind_at = kind_at.filter(|at| *at > 2).ok_or(Mismatch(EXPECTED))?;
    if operation(found[kind_at]).is_some() && found[kind_at - 1].iter().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    if found.len() < columns.len() {
        return Err(Mismatch(EXPECTED));
    }
    // A command may have spaces.
    let spaces = found.len() - columns.len();
    let of = |name: &str| {
        let at = columns
            .iter()
            .position(|column| column == name.as_bytes())?;
        Some(found[if at > 1 { at + spaces } else { at }])
    };
    let text = |name| of(name).ok_or(Mismatch(HEADER));
    let ms = |name| of(name).map_or(Ok(0), |text| decimal(text, 6, EXPECTED));
    let done_ns = decimal(text("TIME(s)")?, 9, EXPECTED)?.checked_add(BEFORE_NS);
    let done_ns = done_ns.ok_or(Mismatch(EXPECTED))?;
    let kind = operation(text("T")?);
    let sector = text("SECTOR")?;
    let bytes = whole(text("BYTES")?, EXPECTED)?;
    let carries = bytes > 0 && !sector.starts_with(b"-");
    let Some((is_write, trim, _)) = kind.filter(|_| carries) else {
        return Ok(None);
    };
    let waited_ns = if memory.blk.arrives_at(Event::Queue) {
        ms("QUE(ms)")?
    } else {
        0
    };
    let took_ns = ms("LAT(ms)")?.saturating_add(waited_ns);
    let arrival_ns = done_ns.checked_sub(took_ns).ok_or(Mismatch(EXPECTED))?;
    let offset = times(whole(sector, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    let process = u32::try_from(whole(text("PID")?, EXPECTED)?).ok();
    let disk = text("DISK")?.to_vec();
    Ok(Some(TraceRecord {
        trim,
        latency: Some(Nanos(took_ns)),
        device: memory.number_of(&disk)?,
        process,
        ..record(arrival_ns, offset, bytes, is_write)
    }))
}
