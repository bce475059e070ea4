//! DiskSim's validation trace: `R|W action block blocks service_us next_us`. It is a closed loop:
//! a request arrives `next_us` of the line before after the completion of that line's request.
//! (DiskSim 4.0, disksim_iotrace.c.)

use schedlab_model::Nanos;

use super::super::fields::{decimal, times, whole, words};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECTOR_BYTES};

const EXPECTED: &str = "R|W action block blocks service_us next_us";

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    let missing = Mismatch(EXPECTED);
    let mut words = words(line);
    let mut word = || words.next().ok_or(missing);
    let is_write = match word()? {
        b"R" => false,
        b"W" => true,
        _ => return Err(missing),
    };
    if !word()?.iter().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(missing);
    }
    let offset = times(whole(word()?, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    let length = times(whole(word()?, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    let service_ns = decimal(word()?, 3, EXPECTED)?;
    let next_ns = decimal(word()?, 3, EXPECTED)?;
    if words.next().is_some() {
        return Err(missing);
    }
    let arrival_ns = memory.clock_ns;
    memory.clock_ns = arrival_ns
        .checked_add(service_ns)
        .and_then(|ns| ns.checked_add(next_ns))
        .ok_or(missing)?;
    Ok(Some(TraceRecord {
        latency: Some(Nanos(service_ns)),
        ..record(arrival_ns, offset, length, is_write)
    }))
}
