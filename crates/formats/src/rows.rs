//! A trace as rows of fixed length, for pictures: when each request took which step.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{json, Value};

use super::formats::schedlab::read_whole;
use super::{open, TraceError, TraceOptions};

/// Requests that are kept in memory, 64 bytes each.
const REQUESTS_MAX: usize = 4_000_000;

/// All requests of a trace.
pub struct Rows {
    /// `format`, `facts` (of a recorded load) and `names` of tasks by their number.
    pub head: Value,
    /// Rows of 64 bytes, little endian: u64 arrival, tag, insert, issue, completion in ns (0: not
    /// known), first byte; u32 bytes, process, thread; u8 operation (0 read, 1 write, 2 discard,
    /// 3 flush), three zeros.
    pub packed: Vec<u8>,
}

/// Reads all requests of a trace, with the times of their steps where it has them.
pub fn rows(path: &Path, format: Option<&str>, options: &TraceOptions) -> Result<Rows, TraceError> {
    let mut reader = open(path, format, options)?;
    let mut packed = Vec::new();
    let mut names = BTreeMap::new();
    let mut facts = Value::Null;
    if reader.format().name == "schedlab" {
        let whole = read_whole(path, REQUESTS_MAX)?;
        facts = whole.facts;
        for one in whole.records {
            let operation = match (one.is_flush, one.is_discard, one.is_write) {
                (true, _, _) => 3,
                (_, true, _) => 2,
                (_, _, is_write) => u8::from(is_write),
            };
            let done_ns = if one.has_end { one.done_ns } else { 0 };
            let [tag, insert, issue] = one.steps_ns;
            let times = [one.arrival_ns, tag, insert, issue, done_ns, one.offset];
            pack(
                &mut packed,
                times,
                [one.bytes, one.process, one.thread],
                operation,
            );
            names.insert(one.thread, one.command);
        }
    } else {
        for record in reader.by_ref() {
            let record = record?;
            if packed.len() / 64 == REQUESTS_MAX {
                return Err(TraceError::Bad {
                    path: path.to_owned(),
                    unit: "request",
                    number: REQUESTS_MAX as u64,
                    expected: format!("at most {REQUESTS_MAX} requests (a part of the file)"),
                    actual: "more".into(),
                });
            }
            let (request, task) = (record.request, record.process.unwrap_or(record.device));
            let done = record.latency.map_or(0, |ns| request.arrival.0 + ns.0);
            let operation = if record.trim {
                2
            } else {
                u8::from(request.is_write)
            };
            let size = u32::try_from(request.length.0).unwrap_or(u32::MAX);
            let times = [request.arrival.0, 0, 0, 0, done, request.offset.0];
            pack(&mut packed, times, [size, task, task], operation);
        }
    }
    let head = json!({"format": reader.format().name, "facts": facts, "names": names});
    Ok(Rows { head, packed })
}

fn pack(out: &mut Vec<u8>, words: [u64; 6], halves: [u32; 3], operation: u8) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    out.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    out.extend([operation, 0, 0, 0]);
}
