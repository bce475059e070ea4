//! The log of simulated requests that `schedlab sim run --log FILE.csv` writes: one run, in the
//! order of completion. The header says which of its columns there are.

use schedlab_model::Nanos;

use super::super::fields::{times, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECTOR_BYTES};

const HEADER: &str = "the header of a simulated log, with arrival_ns and completed_ns";
const EXPECTED: &str = "as many figures as the header has columns, in ns";
const ONE_RUN: &str = "requests of the same run; here a second one begins (split the file)";
const PAGE_BYTES: u64 = 4096;

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let cells: Vec<&[u8]> = std::iter::from_fn(|| fields.take(EXPECTED).ok()).collect();
    if memory.columns.is_empty() {
        let has = |name: &[u8]| cells.contains(&name);
        if !(has(b"arrival_ns") && has(b"dispatched_ns") && has(b"completed_ns")) {
            return Err(Mismatch(HEADER));
        }
        memory.columns = cells.iter().map(|name| name.to_vec()).collect();
        return Ok(None);
    }
    request(&cells, memory)
}

fn request(cells: &[&[u8]], memory: &mut Memory) -> Parsed {
    // A candidate may have commas in its name: all other columns are counted from the end.
    let extra = cells
        .len()
        .checked_sub(memory.columns.len())
        .ok_or(Mismatch(EXPECTED))?;
    let columns = &memory.columns;
    let of = |name: &str| {
        let at = columns
            .iter()
            .position(|column| column == name.as_bytes())?;
        Some(cells[if at > 0 { at + extra } else { at }])
    };
    let number = |name| of(name).map(|text| whole(text, EXPECTED)).transpose();
    let needed = |name| number(name).and_then(|value| value.ok_or(Mismatch(HEADER)));
    let (arrival_ns, issued_ns) = (needed("arrival_ns")?, needed("dispatched_ns")?);
    let done_ns = needed("completed_ns")?;
    let inserted_ns = number("inserted_ns")?
        .or(number("admitted_ns")?)
        .unwrap_or(arrival_ns);
    if !(arrival_ns <= inserted_ns && inserted_ns <= issued_ns && issued_ns <= done_ns) {
        return Err(Mismatch(
            "times in the order of arrival, dispatch and completion",
        ));
    }
    let range = |first, count, unit| -> Result<Option<(u64, u64)>, Mismatch> {
        let (Some(first), Some(count)) = (number(first)?, number(count)?) else {
            return Ok(None);
        };
        Ok(Some((
            times(first, unit, EXPECTED)?,
            times(count, unit, EXPECTED)?,
        )))
    };
    let place = range("sector", "sectors", SECTOR_BYTES)?
        .or(range("first_page", "pages", PAGE_BYTES)?)
        .or(range("offset_bytes", "length_bytes", 1)?);
    let (offset, length) = place.ok_or(Mismatch(HEADER))?;
    let operation = of("operation").ok_or(Mismatch(HEADER))?;
    if !matches!(operation, b"read" | b"write" | b"trim") {
        return Err(Mismatch("read, write or trim as the operation"));
    }
    let (trim, is_write) = (operation == b"trim", operation == b"write");
    let end = columns
        .iter()
        .position(|name| name == b"seed")
        .ok_or(Mismatch(HEADER))?
        + extra;
    let run = cells[..=end].join(&b' ');
    let process = of("process").map(<[u8]>::to_vec);
    let device = memory.names.number_of(&run)?;
    if device > 0 {
        return Err(Mismatch(ONE_RUN));
    }
    let process = process
        .map(|name| memory.processes.number_of(&name))
        .transpose()?;
    Ok(Some(TraceRecord {
        trim,
        latency: Some(Nanos(done_ns - arrival_ns)),
        waited: Some([
            Nanos(inserted_ns - arrival_ns),
            Nanos(issued_ns - inserted_ns),
        ]),
        device,
        process: process.map(|number| number + 1),
        ..record(arrival_ns, offset, length, is_write)
    }))
}
