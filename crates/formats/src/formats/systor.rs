//! SYSTOR'17 enterprise VDI: `Timestamp,Response,IOType,LUN,Offset,Size`; seconds with a fraction,
//! bytes, not sorted. (Lee et al., "Understanding storage traffic characteristics on enterprise
//! virtual desktop infrastructure", SYSTOR 2017.)

use schedlab_model::Nanos;

use super::super::fields::{decimal, whole, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed};

pub(super) const COLUMNS: &str = "Timestamp,Response,IOType,LUN,Offset,Size";
const EXPECTED: &str = "Timestamp,Response (s, may be empty),R|W (may be empty),LUN,Offset,Size";

pub(super) fn line(line: &[u8], _: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let arrival_ns = decimal(fields.take(EXPECTED)?, 9, EXPECTED)?;
    let latency = match fields.take(EXPECTED)? {
        b"" => None,
        text => Some(Nanos(decimal(text, 9, EXPECTED)?)),
    };
    // Some lines of the data set have no type: whether they read or wrote is not known.
    let is_write = match fields.take(EXPECTED)? {
        b"R" => false,
        b"W" => true,
        b"" => {
            for _ in 0..3 {
                fields.take(EXPECTED)?;
            }
            fields.end(EXPECTED)?;
            return Ok(None);
        }
        _ => return Err(Mismatch(EXPECTED)),
    };
    let lun = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let offset = whole(fields.take(EXPECTED)?, EXPECTED)?;
    let length = whole(fields.take(EXPECTED)?, EXPECTED)?;
    fields.end(EXPECTED)?;
    let device = u32::try_from(lun).map_err(|_| Mismatch(EXPECTED))?;
    Ok(Some(TraceRecord {
        latency,
        device,
        ..record(arrival_ns, offset, length, is_write)
    }))
}

pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let request = &record.request;
    let kind = if request.is_write { 'W' } else { 'R' };
    let response = record.latency.map_or_else(String::new, |l| seconds(l.0));
    let (offset, size) = (request.offset.0, request.length.0);
    let stamp = seconds(request.arrival.0);
    out.extend_from_slice(
        format!(
            "{stamp},{response},{kind},{},{offset},{size}\n",
            record.device
        )
        .as_bytes(),
    );
}
