//! Block events of the kernel's trace points as text (`kernel_text.rs`). The kernel's own layouts
//! are those of include/trace/events/block.h; `trace-cmd report -R` has the fields by name.

use super::super::fields::{times, whole, words};
use super::super::kernel_text::{device_number, kernel_line, value, KernelEvent, KernelLine};
use super::super::Mismatch;
use super::blk::{operation, Action, BlkEvent};
use super::{Memory, Parsed, SECTOR_BYTES};

const EXPECTED: &str =
    "major,minor rwbs [bytes (command)] sector + n …, or dev= sector= nr_sector=";

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    let event = match kernel_line(line)? {
        KernelLine::Event(event) => event,
        KernelLine::Lost(count) => {
            memory.lost += count;
            return Ok(None);
        }
        KernelLine::Other => return Ok(None),
    };
    let action = match event.name {
        b"block_bio_queue" => Action::Queue,
        b"block_rq_issue" => Action::Dispatch,
        b"block_rq_complete" => Action::Complete,
        name => {
            memory.others.0 += 1;
            memory.others.1 += u64::from(name == b"sched_switch");
            return Ok(None);
        }
    };
    let (device, letters, sector, sectors) = range(&event).ok_or(Mismatch(EXPECTED))?;
    let Some((is_write, trim, sync)) = operation(letters) else {
        return Ok(None);
    };
    memory.blk.see(&BlkEvent {
        time_ns: event.time_ns,
        device,
        process: event.thread.unwrap_or(0),
        offset: times(sector, SECTOR_BYTES, EXPECTED)?,
        length: times(sectors, SECTOR_BYTES, EXPECTED)?,
        action,
        is_write,
        trim,
        sync,
    })
}

/// (device, letters of the operation, sector, number of sectors).
fn range<'a>(event: &KernelEvent<'a>) -> Option<(u32, &'a [u8], u64, u64)> {
    let number = |text: &[u8]| whole(text, EXPECTED).ok();
    if let Some(device) = value(event.rest, b"dev") {
        let device = device_number(device).or_else(|| u32::try_from(number(device)?).ok())?;
        let named = |key: &[u8]| value(event.rest, key);
        let (sector, sectors) = (named(b"sector")?, named(b"nr_sector")?);
        return Some((device, named(b"rwbs")?, number(sector)?, number(sectors)?));
    }
    let rest: Vec<&[u8]> = words(event.rest).collect();
    let plus = rest.iter().position(|word| *word == b"+")?;
    Some((
        device_number(rest[0])?,
        rest.get(1)?,
        number(rest.get(plus.checked_sub(1)?)?)?,
        number(rest.get(plus + 1)?)?,
    ))
}
