//! Text of blkparse in its default layout:
//! `%D %2c %8s %5T.%9t %5p %2a %3d`, then `sector + n [process]`, and its summary at the end.

use super::super::fields::{decimal, times, whole, words};
use super::super::kernel_text::device_number;
use super::super::Mismatch;
use super::blk::{operation, Action, BlkEvent};
use super::{Memory, Parsed, SECOND, SECTOR_BYTES};

const EXPECTED: &str = "major,minor cpu sequence seconds.ns pid action rwbs [sector + n [process]]";

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    let missing = Mismatch(EXPECTED);
    if memory.finished {
        // The summary has no lines that begin with a device.
        let starts = line.trim_ascii_start();
        let device = words(starts).next().and_then(device_number);
        return device.map_or(Ok(None), |_| Err(Mismatch(SECOND)));
    }
    let mut words = words(line);
    let Some(device) = words.next() else {
        return Ok(None);
    };
    if device.starts_with(b"CPU") || device == b"Total" {
        memory.finished = true;
        return Ok(None);
    }
    let device = device_number(device).ok_or(missing)?;
    let mut word = || words.next().ok_or(missing);
    let cpu = whole(word()?, EXPECTED)?;
    let sequence = whole(word()?, EXPECTED)?;
    memory.sequences.see(device, cpu, sequence)?;
    let time_ns = decimal(word()?, 9, EXPECTED)?;
    let process = whole(word()?, EXPECTED)?;
    let action = match word()? {
        b"Q" => Action::Queue,
        b"D" => Action::Dispatch,
        b"C" => Action::Complete,
        _ => return Ok(None),
    };
    let Some((is_write, trim, sync)) = operation(word()?) else {
        return Ok(None);
    };
    let Ok(sector) = word() else {
        return Err(missing);
    };
    // A flush has no range: `FWS [process]`.
    if sector.starts_with(b"[") {
        return Ok(None);
    }
    let offset = times(whole(sector, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    match word() {
        Ok(b"+") => {}
        // A completion of a flush: `FF 0 [0]`.
        Ok(rest) if rest.starts_with(b"[") => return Ok(None),
        _ => return Err(missing),
    }
    let length = times(whole(word()?, EXPECTED)?, SECTOR_BYTES, EXPECTED)?;
    memory.blk.see(&BlkEvent {
        time_ns,
        device,
        process: u32::try_from(process).map_err(|_| missing)?,
        offset,
        length,
        action,
        is_write,
        trim,
        sync,
    })
}
