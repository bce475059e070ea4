//! Alibaba block traces 2020: `device_id,opcode,offset,length,timestamp`; R or W, bytes,
//! microseconds. (Li et al., "An in-depth analysis of cloud block storage workloads", IISWC 2020.)

use super::super::fields::{times, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed};

const EXPECTED: &str = "device_id,R|W,offset,length,timestamp in µs";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let device = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let is_write = match fields.take(EXPECTED)? {
        b"R" => false,
        b"W" => true,
        _ => return Err(Mismatch(EXPECTED)),
    };
    let offset = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let length = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let arrival_ns = times(whole(fields.take(EXPECTED)?, EXPECTED)?, 1_000, EXPECTED)?;
    fields.end(EXPECTED)?;
    Ok(Some(TraceRecord {
        device: u32::try_from(device).map_err(|_| Mismatch(EXPECTED))?,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let kind = if request.is_write { 'W' } else { 'R' };
    let (offset, length) = (request.offset.0, request.length.0);
    let us = request.arrival.0 / 1_000;
    out.extend_from_slice(format!("{},{kind},{offset},{length},{us}\n", record.device).as_bytes());
}
