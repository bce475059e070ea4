//! DiskSim's default ASCII trace: `arrival_ms device block blocks flags`; blocks of 512 bytes,
//! hexadecimal flags of which bit 0 is a read. (DiskSim 4.0, disksim_iotrace.c.)

use super::super::fields::{decimal, times, whole, words};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECTOR_BYTES};

const EXPECTED: &str = "arrival_ms device block blocks flags (hexadecimal, bit 0: read)";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let missing = Mismatch(EXPECTED);
    let mut words = words(line);
    let mut word = || words.next().ok_or(missing);
    let arrival_ns = decimal(word()?, 6, EXPECTED)?;
    let device = whole(word()?, EXPECTED)?;
    let offset = times(whole(word()?, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    let length = times(whole(word()?, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    let flags = word()?;
    let flags = flags.strip_prefix(b"0x").unwrap_or(flags);
    let text = std::str::from_utf8(flags).map_err(|_| missing)?;
    let flags = u32::from_str_radix(text, 16).map_err(|_| missing)?;
    if words.next().is_some() {
        return Err(missing);
    }
    Ok(Some(TraceRecord {
        device: u32::try_from(device).map_err(|_| missing)?,
        ..record(arrival_ns, offset, length, flags & 1 == 0)
    }))
}

pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let first = request.offset.0 / SECTOR_BYTES;
    let blocks = (request.offset.0 + request.length.0).div_ceil(SECTOR_BYTES) - first;
    let (ms, ns) = (request.arrival.0 / 1_000_000, request.arrival.0 % 1_000_000);
    let flags = u8::from(!request.is_write);
    out.extend_from_slice(
        format!(
            "{ms}.{ns:06} {} {first} {blocks} {flags:x}\n",
            record.device
        )
        .as_bytes(),
    );
}
