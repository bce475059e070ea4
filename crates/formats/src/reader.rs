//! From lines and binary records to requests in order.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use schedlab_model::Nanos;
use serde::Serialize;

use super::error::shown;
use super::fields::within;
use super::formats::{self, Binary, Format, Kind, Memory, Parsed};
use super::input::{Input, Line};
use super::reorder::Reorder;
use super::{Mismatch, TraceError, TraceOptions, TraceRecord};

const AGAIN: &str = "a later time; the clock starts again, as in a second capture (split the \
                     file, or merge by time with --reorder N)";
/// Requests of one second at most that are spread over it; further ones come at its end.
const SECOND_MAX: usize = 1 << 18;
/// No request of a real device is longer.
const LENGTH_BYTES_MAX: u64 = 4 << 30;

/// What was passed over, and whether what was read is in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Lines that are none, under `skip_bad_lines`.
    pub bad: u64,
    /// Lines that are understood and carry no I/O: headers, messages, flushes, other events.
    pub without_io: u64,
    /// How far the clock fell back at most, where that is a good part of all the time: the file
    /// may hold several captures, which were merged by time. Else 0.
    pub fell_back_ns: u64,
    /// Events that the trace says were lost before they were written.
    pub lost: u64,
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
    complained: bool,
    /// Earliest and latest arrival read, while a fall back to the earliest is looked for.
    range_ns: Option<(u64, u64)>,
    clock: Clock,
    second: Spread,
}

/// The least and the largest time that was read, and the longest fall from the latter.
#[derive(Default)]
struct Clock {
    range_ns: Option<(u64, u64)>,
    fall_ns: u64,
}

impl Clock {
    #[inline]
    fn read(&mut self, ns: u64) {
        let (first, last) = self.range_ns.get_or_insert((ns, ns));
        self.fall_ns = self.fall_ns.max(last.saturating_sub(ns));
        *first = ns.min(*first);
        *last = ns.max(*last);
    }

    /// The longest fall if requests that were only written down late do not explain it.
    fn fell_back_ns(&self) -> u64 {
        const LATE_NS: u64 = 1_000_000;
        let span = self.range_ns.map_or(0, |(first, last)| last - first);
        let is_long = self.fall_ns > LATE_NS && self.fall_ns >= span / 4;
        if is_long {
            self.fall_ns
        } else {
            0
        }
    }
}

enum Source {
    Text(Input, fn(&[u8], &mut Memory) -> Parsed, Box<Memory>),
    Binary(Box<dyn Binary>),
}

/// The requests of the second that is read, and those of the one before that are given.
#[derive(Default)]
struct Spread {
    waiting: Vec<TraceRecord>,
    given: VecDeque<TraceRecord>,
    last_ns: u64,
}

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
        complained: false,
        range_ns: (format.is_sorted() && options.reorder.is_none()).then_some((u64::MAX, 0)),
        clock: Clock::default(),
        second: Spread::default(),
    })
}

impl TraceReader {
    /// The format that is read.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        let fell_back_ns = self.clock.fell_back_ns();
        let lost = match &self.source {
            Source::Text(_, _, memory) => memory.lost(),
            Source::Binary(_) => 0,
        };
        Skipped {
            fell_back_ns,
            lost,
            ..self.skipped
        }
    }

    /// The name of a device as the trace has it.
    pub fn device_name(&self, device: u32) -> String {
        match &self.source {
            Source::Text(_, _, memory) => memory.device_name(device),
            Source::Binary(_) => super::formats::device_number(device),
        }
    }

    /// The name of a process, where the trace has names.
    pub fn process_name(&self, process: u32) -> Option<String> {
        match &self.source {
            Source::Text(_, _, memory) => memory.process_name(process),
            Source::Binary(binary) => binary.process_name(process),
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
                    let parsed = self.format.parsed(*parse, line, memory);
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
        if self.starts_again(record.request.arrival.0) {
            let actual = format!("{} ns", record.request.arrival.0);
            return self.refuse(Mismatch(AGAIN), actual);
        }
        self.clock.read(record.request.arrival.0);
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

    /// Whether the clock fell back to where the file began: another capture, which would be mixed
    /// into this one where it fits into the reorder buffer.
    #[inline]
    fn starts_again(&mut self, ns: u64) -> bool {
        const SPAN_NS: u64 = 500_000_000;
        let Some((first, last)) = &mut self.range_ns else {
            return false;
        };
        let span = last.saturating_sub(*first);
        if span >= SPAN_NS && ns <= *first + span / 8 {
            return true;
        }
        *first = ns.min(*first);
        *last = ns.max(*last);
        false
    }

    /// What is wrong with a trace that was read to its end.
    #[cold]
    fn complaint(&self) -> Option<String> {
        let (events, offsets, switches) = match &self.source {
            Source::Text(_, _, memory) => {
                let offsets = !memory.is_log_without_offsets();
                (memory.events(), offsets, memory.switches())
            }
            Source::Binary(binary) => (binary.events(), true, 0),
        };
        if self.base_ns.is_some() {
            return (!offsets).then(|| "all offsets are 0: write the log with log_offset=1".into());
        }
        Some(match (events.any(), self.number) {
            (true, _) => events.why(self.options.event),
            (false, 0) => "it is empty".into(),
            (false, _) if switches > 0 => {
                format!("it has {switches} switches of tasks: use sim cpu --tasks")
            }
            (false, lines) => {
                let (unit, bad) = (self.unit(), self.skipped.bad);
                format!("{lines} {unit}s, {bad} of them malformed, and no I/O in the others")
            }
        })
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

impl TraceReader {
    /// The next record, those of a whole second at equal distances instead of all at once.
    fn spread(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            if let Some(ready) = self.second.given.pop_front() {
                return Ok(Some(ready));
            }
            let next = self.advance()?;
            let waiting = &mut self.second.waiting;
            let arrival = waiting.first().map(|first| first.request.arrival);
            let same = |record: &TraceRecord| arrival.is_none_or(|a| a == record.request.arrival);
            if next.as_ref().is_some_and(same) && waiting.len() < SECOND_MAX {
                waiting.extend(next);
                continue;
            }
            if waiting.is_empty() {
                return Ok(None);
            }
            let count = waiting.len() as u64;
            for (number, each) in waiting.iter_mut().enumerate() {
                let at_ns = each.request.arrival.0 + number as u64 * 1_000_000_000 / count;
                self.second.last_ns = self.second.last_ns.max(at_ns);
                each.request.arrival = Nanos(self.second.last_ns);
            }
            self.second.given.extend(waiting.drain(..));
            waiting.extend(next);
        }
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRecord, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.format.whole_seconds {
            self.spread()
        } else {
            self.advance()
        };
        match next {
            Ok(None) if self.complained => None,
            Ok(None) => {
                self.complained = true;
                let path = self.path();
                self.complaint()
                    .map(|why| Err(TraceError::Empty { path, why }))
            }
            Err(error) => {
                self.complained = true;
                Some(Err(error))
            }
            Ok(Some(mut record)) => {
                // Clocks begin at the boot, in 1601 or with the capture; simulations begin at 0.
                let arrival = &mut record.request.arrival;
                let base_ns = *self.base_ns.get_or_insert(arrival.0);
                *arrival = Nanos(arrival.0 - base_ns);
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
    within(request.offset.0, request.length.0)?;
    let took_ns = record.latency.map_or(0, |latency| latency.0);
    if request.arrival.0.checked_add(took_ns).is_none() {
        return Err(Mismatch("a completion within 64 bits of nanoseconds"));
    }
    Ok((request.length.0 > 0).then_some(record))
}
