//! MQSim ASCII: `arrival_ns device lba_sectors size_sectors type`; sectors of 512 bytes, type 0
//! write, 1 read. (Tavakkol et al., "MQSim", FAST 2018.)

use super::super::fields::{times, whole, words};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECTOR_BYTES};

const EXPECTED: &str = "arrival_ns device lba_sectors size_sectors type (0 write, 1 read)";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let mut words = words(line);
    let mut number = || whole(words.next().ok_or(Mismatch(EXPECTED))?, EXPECTED);
    let arrival_ns = number()?;
    let device = number()?;
    let offset = times(number()?, SECTOR_BYTES, EXPECTED)?;
    let length = times(number()?, SECTOR_BYTES, EXPECTED)?;
    let kind = number()?;
    if words.next().is_some() {
        return Err(Mismatch(EXPECTED));
    }
    let is_write = match kind {
        0 => true,
        1 => false,
        // Published traces have other types only in lines without I/O.
        _ if length == 0 => return Ok(None),
        _ => return Err(Mismatch(EXPECTED)),
    };
    Ok(Some(TraceRecord {
        device: u32::try_from(device).map_err(|_| Mismatch(EXPECTED))?,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

/// Requests that are not aligned are widened to whole sectors.
pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let first = request.offset.0 / SECTOR_BYTES;
    let sectors = (request.offset.0 + request.length.0).div_ceil(SECTOR_BYTES) - first;
    let (arrival, kind) = (request.arrival.0, u8::from(!request.is_write));
    out.extend_from_slice(
        format!("{arrival} {} {first} {sectors} {kind}\n", record.device).as_bytes(),
    );
}
