//! fio's iolog (what to replay) and its logs (what was measured).
//!
//! Version 2: `file action` and `file action offset length`; `wait` is in milliseconds since
//! the start, in the place of the offset. Version 3: a time stamp before each line, microseconds
//! since the start (so written and replayed by fio 3.33, iolog.c).
//! Logs: `msec, value, direction, length, offset[, priority]`, offsets with `log_offset=1`.

use super::super::fields::{times, whole, words, Fields};
use super::super::{record, Mismatch, TraceRecord};
use super::{Memory, Parsed, SECOND};

pub(super) const HEADER: &str = "fio version 3 iolog";
const START: &str = "the first line `fio version 2 iolog` or `fio version 3 iolog`";
const VERSION_2: &str = "file action, or file action offset length";
const VERSION_3: &str = "microseconds file action, or microseconds file action offset length";
const LOG: &str = "msec, latency in ns, direction (0 read, 1 write, 2 trim), length, offset";
const AVERAGED: &str = "the length of one request: an averaged log (log_avg_msec) has no requests";

pub(super) fn line(line: &[u8], memory: &mut Memory) -> Parsed {
    match memory.version {
        0 => {
            memory.version = match line.trim_ascii() {
                b"fio version 2 iolog" => 2,
                b"fio version 3 iolog" => 3,
                _ => return Err(Mismatch(START)),
            };
            Ok(None)
        }
        _ if line.starts_with(b"fio version ") => Err(Mismatch(SECOND)),
        2 => action(&mut words(line), VERSION_2, memory),
        _ => {
            let mut words = words(line);
            let stamp = whole(words.next().ok_or(Mismatch(VERSION_3))?, VERSION_3)?;
            memory.clock_ns = times(stamp, 1_000, VERSION_3)?;
            action(&mut words, VERSION_3, memory)
        }
    }
}

fn action<'a>(
    words: &mut impl Iterator<Item = &'a [u8]>,
    expected: &'static str,
    memory: &mut Memory,
) -> Parsed {
    let missing = Mismatch(expected);
    let file = words.next().ok_or(missing)?;
    let action = words.next().ok_or(missing)?;
    let numbers = match (words.next(), words.next(), words.next()) {
        (None, ..) => None,
        (Some(offset), Some(length), None) => {
            Some((whole(offset, expected)?, whole(length, expected)?))
        }
        _ => return Err(missing),
    };
    match (action, numbers) {
        (b"add" | b"open" | b"close", None) => Ok(None),
        (b"sync" | b"datasync", Some(_)) => Ok(None),
        (b"wait", Some((ms, _))) if memory.version == 2 => {
            memory.clock_ns = memory.clock_ns.max(times(ms, 1_000_000, expected)?);
            Ok(None)
        }
        (b"read" | b"write" | b"trim", Some((offset, length))) => Ok(Some(TraceRecord {
            trim: action == b"trim",
            device: memory.number_of(file)?,
            ..record(memory.clock_ns, offset, length, action == b"write")
        })),
        _ => Err(missing),
    }
}

pub(super) fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let request = &record.request;
    let action = record.operation();
    let us = request.arrival.0 / 1_000;
    let (device, offset, length) = (record.device, request.offset.0, request.length.0);
    out.extend_from_slice(format!("{us} file{device} {action} {offset} {length}\n").as_bytes());
}

/// fio needs a file to be added and opened before its first request.
pub(super) fn open(device: u32, ns: u64, out: &mut Vec<u8>) {
    let us = ns / 1_000;
    out.extend_from_slice(format!("{us} file{device} add\n{us} file{device} open\n").as_bytes());
}

pub(super) fn close(device: u32, ns: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{} file{device} close\n", ns / 1_000).as_bytes());
}

/// A line of a latency log with offsets.
pub(super) fn log_line(line: &[u8], memory: &mut Memory) -> Parsed {
    let mut fields = Fields::new(line, b',');
    let arrival_ns = times(whole(fields.take(LOG)?, LOG)?, 1_000_000, LOG)?;
    let latency_ns = whole(fields.take(LOG)?, LOG)?;
    let direction = fields.take(LOG)?;
    let length = whole(fields.take(LOG)?, LOG)?;
    let offset = whole(fields.take(LOG)?, LOG)?;
    let (is_write, trim) = match direction {
        b"0" => (false, false),
        b"1" => (true, false),
        b"2" => (false, true),
        _ => return Err(Mismatch(LOG)),
    };
    if length == 0 {
        return Err(Mismatch(AVERAGED));
    }
    memory.log.0 += 1;
    memory.log.1 += u64::from(offset > 0);
    Ok(Some(TraceRecord {
        trim,
        latency: Some(schedlab_model::Nanos(latency_ns)),
        ..record(arrival_ns, offset, length, is_write)
    }))
}
