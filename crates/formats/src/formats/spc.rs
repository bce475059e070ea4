//! SPC trace file format 1.0.1: `ASU,LBA,Size,Opcode,Timestamp[,…]`; blocks of 512 bytes, sizes in
//! bytes, decimal seconds; white space and further fields are allowed.

use super::super::fields::{decimal, times, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECTOR_BYTES};

const EXPECTED: &str = "ASU,LBA,Size,R|W,Timestamp in seconds";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let unit = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let offset = times(
        whole(fields.take(EXPECTED)?, EXPECTED)?,
        SECTOR_BYTES,
        EXPECTED,
    )?;
    let length = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let is_write = match fields.take(EXPECTED)? {
        b"r" | b"R" => false,
        b"w" | b"W" => true,
        _ => return Err(Mismatch(EXPECTED)),
    };
    let arrival_ns = decimal(fields.take(EXPECTED)?, 9, EXPECTED)?;
    Ok(Some(TraceRecord {
        device: u32::try_from(unit).map_err(|_| Mismatch(EXPECTED))?,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let kind = if request.is_write { 'W' } else { 'R' };
    let (block, size) = (request.offset.0 / SECTOR_BYTES, request.length.0);
    let (s, ns) = (
        request.arrival.0 / 1_000_000_000,
        request.arrival.0 % 1_000_000_000,
    );
    out.extend_from_slice(
        format!("{},{block},{size},{kind},{s}.{ns:09}\n", record.device).as_bytes(),
    );
}
