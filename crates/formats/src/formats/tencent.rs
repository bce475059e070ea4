//! Tencent CBS: `Timestamp,Offset,Size,IOType,VolumeID`; whole seconds, sectors of 512 bytes, type
//! 0 read, 1 write; out of order. (Zhang et al., "OSCA", USENIX ATC 2020.)

use super::super::fields::{times, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECTOR_BYTES};

const EXPECTED: &str = "Timestamp in s,Offset,Size,0|1,VolumeID (in sectors)";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let arrival_ns = times(
        whole(fields.take(EXPECTED)?, EXPECTED)?,
        1_000_000_000,
        EXPECTED,
    )?;
    let offset = times(
        whole(fields.take(EXPECTED)?, EXPECTED)?,
        SECTOR_BYTES,
        EXPECTED,
    )?;
    let length = times(
        whole(fields.take(EXPECTED)?, EXPECTED)?,
        SECTOR_BYTES,
        EXPECTED,
    )?;
    let is_write = match fields.take(EXPECTED)? {
        b"0" => false,
        b"1" => true,
        _ => return Err(Mismatch(EXPECTED)),
    };
    let volume = whole(fields.take(EXPECTED)?, EXPECTED)?;
    fields.end(EXPECTED)?;
    Ok(Some(TraceRecord {
        device: u32::try_from(volume).map_err(|_| Mismatch(EXPECTED))?,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

/// Whole seconds only: finer times are lost.
pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let (kind, s) = (
        u8::from(request.is_write),
        request.arrival.0 / 1_000_000_000,
    );
    let first = request.offset.0 / SECTOR_BYTES;
    let sectors = (request.offset.0 + request.length.0).div_ceil(SECTOR_BYTES) - first;
    out.extend_from_slice(format!("{s},{first},{sectors},{kind},{}\n", record.device).as_bytes());
}
