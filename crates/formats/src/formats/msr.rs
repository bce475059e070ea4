//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` with times in
//! Windows ticks of 100 ns since 1601, sizes in bytes. (Narayanan, Donnelly, Rowstron, "Write
//! off-loading", FAST 2008.)

use schedlab_model::Nanos;

use super::super::fields::{times, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed};

const EXPECTED: &str = "Timestamp,Hostname,DiskNumber,Read|Write,Offset,Size,ResponseTime";
const TICK_NS: u64 = 100;

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let arrival_ns = times(whole(fields.take(EXPECTED)?, EXPECTED)?, TICK_NS, EXPECTED)?;
    let host = fields.take(EXPECTED)?;
    let disk = fields.take(EXPECTED)?;
    whole(disk, EXPECTED)?;
    // A disk has its number on its host only. The two fields are neighbours in the line.
    let from = host.as_ptr() as usize - line.as_ptr() as usize;
    let volume = memory.number_of(&line[from..from + host.len() + 1 + disk.len()])?;
    let is_write = match fields.take(EXPECTED)? {
        b"Read" | b"read" => false,
        b"Write" | b"write" => true,
        _ => return Err(Mismatch(EXPECTED)),
    };
    let offset = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let length = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let response = times(whole(fields.take(EXPECTED)?, EXPECTED)?, TICK_NS, EXPECTED)?;
    fields.end(EXPECTED)?;
    Ok(Some(TraceRecord {
        latency: Some(Nanos(response)),
        device: volume,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let kind = if request.is_write { "Write" } else { "Read" };
    let ticks = request.arrival.0 / TICK_NS;
    let response = record.latency.map_or(0, |latency| latency.0 / TICK_NS);
    let (offset, size) = (request.offset.0, request.length.0);
    out.extend_from_slice(
        format!(
            "{ticks},host,{},{kind},{offset},{size},{response}\n",
            record.device
        )
        .as_bytes(),
    );
}
