//! From lines and binary records to requests in order.

use std::path::{Path, PathBuf};

use schedlab_model::Nanos;
use serde::Serialize;

use super::error::shown;
use super::formats::{self, Binary, Format, Kind, Memory};
use super::input::{Input, Line};
use super::reorder::Reorder;
use super::{Mismatch, TraceError, TraceOptions, TraceRecord};

/// No request of a real device is longer.
const LENGTH_BYTES_MAX: u64 = 4 << 30;

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Lines that are none, under `skip_bad_lines`.
    pub bad: u64,
    /// Lines that are understood and carry no I/O: headers, messages, flushes, other events.
    pub without_io: u64,
}

/// Requests of a trace in the order of arrival. Give up after an error.
pub struct TraceReader {
    source: Source,
    format: &'static Format,
    options: TraceOptions,
    reorder: Reorder,
    skipped: Skipped,
    number: u64,
    base_ns: Option<u64>,
    ended: bool,
}

enum Source {
    Text(Input, fn(&[u8], &mut Memory) -> Parsed, Box<Memory>),
    Binary(Box<dyn Binary>),
}

/// What a line is: a request, understood without one, or none.
pub type Parsed = Result<Option<TraceRecord>, Mismatch>;

/// Opens a trace. `format` is a name of [`super::FORMATS`]; without one it is detected from the
/// content. For binary blktrace, `path` may also be the common name of per-CPU files
/// (`sda` for `sda.blktrace.0`, `sda.blktrace.1`, …), which are merged by time.
pub fn open(
    path: &Path,
    format: Option<&str>,
    options: &TraceOptions,
) -> Result<TraceReader, TraceError> {
    let paths = formats::per_cpu_files(path).unwrap_or_else(|| vec![path.to_owned()]);
    let inputs = paths.iter().map(|path| Input::open(path));
    assemble(path, inputs.collect::<Result<_, _>>()?, format, options)
}

/// The same from memory; `name` is the name of the file in errors.
pub fn read_bytes(
    name: &str,
    bytes: Vec<u8>,
    format: Option<&str>,
    options: &TraceOptions,
) -> Result<TraceReader, TraceError> {
    let input = Input::from_bytes(name, bytes)?;
    assemble(Path::new(name), vec![input], format, options)
}

fn assemble(
    path: &Path,
    mut inputs: Vec<Input>,
    format: Option<&str>,
    options: &TraceOptions,
) -> Result<TraceReader, TraceError> {
    let format = match format {
        Some(name) => formats::format_named(name)?,
        None => formats::detect(path, &mut inputs[0])?,
    };
    let source = match format.kind {
        Kind::Text(parse) => {
            let memory = Box::new(Memory::new(options.event));
            Source::Text(inputs.swap_remove(0), parse, memory)
        }
        Kind::Binary(open) => Source::Binary(open(inputs, options)?),
    };
    Ok(TraceReader {
        source,
        format,
        options: *options,
        reorder: Reorder::new(options.reorder.unwrap_or(format.reorder)),
        skipped: Skipped::default(),
        number: 0,
        base_ns: None,
        ended: false,
    })
}

impl TraceReader {
    /// The format that is read.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The name of a device as the trace has it.
    pub fn device_name(&self, device: u32) -> String {
        match &self.source {
            Source::Text(_, _, memory) => memory.device_name(device),
            Source::Binary(_) => device.to_string(),
        }
    }

    /// Lines or binary records read so far.
    pub fn lines(&self) -> u64 {
        self.number
    }

    fn path(&self) -> PathBuf {
        match &self.source {
            Source::Text(input, ..) => input.path().to_owned(),
            Source::Binary(binary) => binary.path().to_owned(),
        }
    }

    fn unit(&self) -> &'static str {
        match self.source {
            Source::Text(..) => "line",
            Source::Binary(_) => "record",
        }
    }

    /// Reads until a record is in order; nothing at the end.
    #[inline]
    fn advance(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            if let Some(record) = self.reorder.pop(self.ended) {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            self.read_one()?;
        }
    }

    /// Reads one line or record into the reorder buffer.
    #[inline]
    fn read_one(&mut self) -> Result<(), TraceError> {
        let (parsed, actual) = match &mut self.source {
            Source::Text(input, parse, memory) => match input.line()? {
                None => {
                    self.ended = true;
                    return Ok(());
                }
                Some(Line::TooLong(head)) => {
                    (Err(Mismatch("a line of at most 64 KiB")), shown(head))
                }
                Some(Line::Text(line)) => {
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    let parsed = if line.is_empty() {
                        Ok(None)
                    } else {
                        parse(line, memory)
                    };
                    match parsed.and_then(checked) {
                        Ok(record) => (Ok(record), String::new()),
                        Err(mismatch) => (Err(mismatch), shown(line)),
                    }
                }
            },
            Source::Binary(binary) => match binary.next()? {
                None => {
                    self.ended = true;
                    return Ok(());
                }
                Some((parsed, actual)) => (parsed.and_then(checked), actual),
            },
        };
        self.number += 1;
        match parsed {
            Ok(Some(record)) => self.push(record),
            Ok(None) => {
                self.skipped.without_io += 1;
                Ok(())
            }
            Err(mismatch) => self.refuse(mismatch, actual),
        }
    }

    #[inline]
    fn push(&mut self, record: TraceRecord) -> Result<(), TraceError> {
        match self.reorder.push(record) {
            Ok(()) => Ok(()),
            Err(_) if self.options.skip_bad_lines => {
                self.skipped.bad += 1;
                Ok(())
            }
            Err(late_ns) => Err(TraceError::Order {
                path: self.path(),
                unit: self.unit(),
                number: self.number,
                late_ns,
                window: self.reorder.window(),
            }),
        }
    }

    #[cold]
    fn refuse(&mut self, mismatch: Mismatch, actual: String) -> Result<(), TraceError> {
        if self.options.skip_bad_lines {
            self.skipped.bad += 1;
            return Ok(());
        }
        Err(TraceError::Bad {
            path: self.path(),
            unit: self.unit(),
            number: self.number,
            expected: mismatch.0.to_owned(),
            actual,
        })
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRecord, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(None) => None,
            Err(error) => Some(Err(error)),
            Ok(Some(mut record)) => {
                if self.format.calendar {
                    let arrival = &mut record.request.arrival;
                    let base_ns = *self.base_ns.get_or_insert(arrival.0);
                    *arrival = Nanos(arrival.0 - base_ns);
                }
                Some(Ok(record))
            }
        }
    }
}

/// Refuses what no device can do; a request of no bytes carries no I/O.
#[inline]
fn checked(record: Option<TraceRecord>) -> Parsed {
    let Some(record) = record else {
        return Ok(None);
    };
    let request = &record.request;
    if request.length.0 > LENGTH_BYTES_MAX && !record.trim {
        return Err(Mismatch("a request of at most 4 GiB"));
    }
    if request.offset.0.checked_add(request.length.0).is_none() {
        return Err(Mismatch("an end of the request below 2^64 bytes"));
    }
    Ok((request.length.0 > 0).then_some(record))
}
