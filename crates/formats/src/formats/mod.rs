//! The registry of trace formats, the state of a format, and the detection of formats.

mod alibaba;
mod biosnoop;
pub(super) mod blk;
mod blkparse;
mod blktrace;
mod disksim;
mod disksim_validate;
mod ftrace;
mod iolog;
mod mqsim;
mod msr;
mod requests;
pub(super) mod schedlab;
mod simlog;
mod spc;
mod systor;
mod tencent;
mod vscsi;
mod words;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::error::shown;
use super::input::Input;
use super::{Event, Mismatch, TraceError, TraceOptions, TraceRecord};

/// What a second capture in one file is met with.
pub(super) const SECOND: &str =
    "the next line of one capture; here a second one begins (split the file)";
/// Length of a sector wherever a format counts in sectors.
const SECTOR_BYTES: u64 = 512;
/// More files or hosts than that are no names but noise.
const NAMES_MAX: usize = 1 << 16;
/// Enough for formats that claim to be sorted; their real files are nearly so.
const NEARLY_SORTED: usize = 4096;
/// For formats known to be out of order.
const UNSORTED: usize = 1 << 16;

/// What a line is: a request, understood without one, or none.
pub type Parsed = Result<Option<TraceRecord>, Mismatch>;

/// A trace format.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// How it is read.
    pub(super) kind: Kind,
    /// The names of its columns, as a line above its requests may state them.
    pub(super) columns: &'static str,
    /// Its times are whole seconds: the requests of one are spread over it.
    pub(super) whole_seconds: bool,
    /// Requests held back to sort.
    pub(super) reorder: usize,
    /// How a record of it is written, after the header line if there is one.
    pub(super) write: Option<(&'static str, WriteLine)>,
    /// It has the stages of requests instead of lines (`convert.rs`).
    pub(super) is_timeline: bool,
    /// What comes before the first request of a device, and after the last request of all.
    pub(super) devices: Option<(WriteDevice, WriteDevice)>,
}

/// Appends one record as a line (with its end).
pub(super) type WriteLine = fn(&TraceRecord, &mut Vec<u8>);
/// Appends a line about a device at a time in ns.
pub(super) type WriteDevice = fn(u32, u64, &mut Vec<u8>);
type ParseLine = fn(&[u8], &mut Memory) -> Parsed;
type OpenBinary = fn(Vec<Input>, &TraceOptions) -> Result<Box<dyn Binary>, TraceError>;

/// Lines, or records of fixed layout.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text(ParseLine),
    Binary(OpenBinary),
}

/// A binary trace: gives records one by one, with what to show of one that is none.
pub(super) trait Binary: Send {
    fn next(&mut self) -> Result<Option<(Parsed, String)>, TraceError>;
    fn path(&self) -> &Path;
    /// The name of a process, where the trace has names.
    fn process_name(&self, _: u32) -> Option<String> {
        None
    }
    /// The events seen, for a trace without requests.
    fn events(&self) -> blk::Seen {
        blk::Seen::default()
    }
}

/// Every format, one line each.
pub static FORMATS: &[Format] = &[
    text(
        "requests",
        "arrival_ms,is_write,first_page,pages (4 KiB pages)",
        requests::line,
    )
    .with_columns(requests::COLUMNS)
    .written(requests::COLUMNS, requests::write),
    text("msr", "MSR Cambridge CSV", msr::line)
        .with_columns("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")
        .written("", msr::write),
    text("spc", "SPC (UMass repository)", spc::line)
        .with_columns("ASU,LBA,Size,Opcode,Timestamp")
        .written("", spc::write),
    text("iolog", "fio iolog, versions 2 and 3", iolog::line)
        .written(iolog::HEADER, iolog::write)
        .with_devices(iolog::open, iolog::close),
    text("blkparse", "text output of blkparse", blkparse::line),
    binary(
        "blktrace",
        "binary files of blktrace, one per CPU",
        blktrace::open,
    ),
    text(
        "ftrace",
        "block events of ftrace, trace-cmd report, perf script",
        ftrace::line,
    ),
    text("biosnoop", "biosnoop of bcc", biosnoop::line).unsorted(),
    text("alibaba", "Alibaba block traces 2020", alibaba::line)
        .with_columns("device_id,opcode,offset,length,timestamp")
        .written("", alibaba::write),
    text("tencent", "Tencent CBS", tencent::line)
        .with_columns("Timestamp,Offset,Size,IOType,VolumeID")
        .unsorted()
        .in_whole_seconds()
        .written("", tencent::write),
    text("systor", "SYSTOR'17 enterprise VDI", systor::line)
        .with_columns(systor::COLUMNS)
        .unsorted()
        .written(systor::COLUMNS, systor::write),
    text("mqsim", "MQSim ASCII", mqsim::line).written("", mqsim::write),
    text("disksim", "DiskSim ASCII", disksim::line).written("", disksim::write),
    text(
        "disksim-validate",
        "DiskSim validation trace",
        disksim_validate::line,
    ),
    binary("vscsi", "VMware vSCSI, version 1", vscsi::open),
    binary(
        "schedlab",
        "load recorded by schedlab trace io --out",
        schedlab::open,
    )
    .unsorted(),
    text(
        "sim-log",
        "simulated requests, by sim run --log FILE.csv",
        simlog::line,
    )
    .unsorted(),
    text("perfetto", "Perfetto (written only)", written_only).of_timeline(),
    text("ctf", "CTF 1.8 of LTTng (written only)", written_only).of_timeline(),
    text(
        "fio-log",
        "fio log with offsets (log_offset=1)",
        iolog::log_line,
    ),
];

fn written_only(_: &[u8], _: &mut Memory) -> Parsed {
    Err(Mismatch("a format that is read; this one is only written"))
}

const fn text(name: &'static str, title: &'static str, parse: ParseLine) -> Format {
    Format {
        name,
        title,
        kind: Kind::Text(parse),
        columns: "",
        whole_seconds: false,
        reorder: NEARLY_SORTED,
        write: None,
        is_timeline: false,
        devices: None,
    }
}

const fn binary(name: &'static str, title: &'static str, open: OpenBinary) -> Format {
    Format {
        kind: Kind::Binary(open),
        ..text(name, title, requests::line)
    }
}

impl Format {
    /// Whether traces can be converted to it.
    pub fn is_writable(&self) -> bool {
        self.write.is_some() || self.is_timeline
    }

    /// The line, or nothing for one that is empty or names the columns.
    #[inline]
    pub(super) fn parsed(&self, parse: ParseLine, line: &[u8], memory: &mut Memory) -> Parsed {
        if line.is_empty() {
            return Ok(None);
        }
        parse(line, memory).or_else(|mismatch| match self.is_header(line) {
            true => Ok(None),
            false => Err(mismatch),
        })
    }

    /// Whether a line has the names of the columns, in whatever spelling.
    #[cold]
    fn is_header(&self, line: &[u8]) -> bool {
        let letters = |text: &'_ [u8]| -> Vec<u8> {
            let kept = text
                .iter()
                .filter(|b| b.is_ascii_alphanumeric() || **b == b',');
            kept.map(u8::to_ascii_lowercase).collect()
        };
        !self.columns.is_empty() && letters(line) == letters(self.columns.as_bytes())
    }

    const fn with_columns(mut self, names: &'static str) -> Self {
        self.columns = names;
        self
    }

    const fn in_whole_seconds(mut self) -> Self {
        self.whole_seconds = true;
        self
    }

    /// Whether its lines are in the order of time but for those that are late a little.
    pub(super) fn is_sorted(&self) -> bool {
        self.reorder <= NEARLY_SORTED
    }

    const fn with_devices(mut self, first: WriteDevice, last: WriteDevice) -> Self {
        self.devices = Some((first, last));
        self
    }

    const fn of_timeline(mut self) -> Self {
        self.is_timeline = true;
        self
    }

    const fn unsorted(mut self) -> Self {
        self.reorder = UNSORTED;
        self
    }

    const fn written(mut self, header: &'static str, line: WriteLine) -> Self {
        self.write = Some((header, line));
        self
    }
}

/// What the reader of a text format keeps from line to line.
pub(super) struct Memory {
    /// Of devices, volumes or files.
    names: Numbers,
    processes: Numbers,
    clock_ns: u64,
    version: u8,
    finished: bool,
    blk: blk::Tracker,
    sequences: blk::Sequences,
    /// The header of a table.
    columns: Vec<Vec<u8>>,
    /// Events that the writer of the trace says it lost.
    lost: u64,
    /// Events of the kernel that are not of the block layer, and how many are of the scheduler.
    others: (u64, u64),
    /// Requests of a log, and those of them that are not at offset 0.
    log: (u64, u64),
}

impl Memory {
    pub(super) fn new(event: Event) -> Self {
        Memory {
            names: Numbers::default(),
            processes: Numbers::default(),
            clock_ns: 0,
            version: 0,
            finished: false,
            blk: blk::Tracker::new(event),
            sequences: blk::Sequences::default(),
            columns: Vec::new(),
            lost: 0,
            others: (0, 0),
            log: (0, 0),
        }
    }

    /// The events of a kernel trace seen so far.
    pub(super) fn events(&self) -> blk::Seen {
        self.blk.seen()
    }

    /// The events that were lost, as the trace says.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Switches between tasks, which are no requests.
    pub(super) fn switches(&self) -> u64 {
        self.others.1
    }

    /// Whether a log has several requests and all of them at offset 0: the column is another one.
    pub(super) fn is_log_without_offsets(&self) -> bool {
        self.log.0 > 1 && self.log.1 == 0
    }

    /// The name that was given this number, or the number itself.
    pub(super) fn device_name(&self, number: u32) -> String {
        let named = self.names.name_of(number);
        named.map_or_else(|| device_number(number), |name| name.replace(',', "."))
    }

    /// The name of a process, where the trace has names.
    pub(super) fn process_name(&self, process: u32) -> Option<String> {
        self.processes.name_of(process.checked_sub(1)?)
    }

    /// The number of a device's name.
    #[inline]
    fn number_of(&mut self, name: &[u8]) -> Result<u32, Mismatch> {
        self.names.number_of(name)
    }
}

/// A device that has no name: those of the kernel as it prints them, major and minor.
pub(super) fn device_number(number: u32) -> String {
    match (number >> 20, number & 0xf_ffff) {
        (0, number) => number.to_string(),
        (major, minor) => format!("{major}:{minor}"),
    }
}

/// Numbers for names, in the order of appearance.
#[derive(Default)]
struct Numbers {
    known: HashMap<Vec<u8>, u32>,
    last: (Vec<u8>, u32),
}

impl Numbers {
    fn name_of(&self, number: u32) -> Option<String> {
        let named = self.known.iter().find(|(_, known)| **known == number);
        named.map(|(name, _)| String::from_utf8_lossy(name).into_owned())
    }

    /// The number of a name, in the order of appearance.
    #[inline]
    fn number_of(&mut self, name: &[u8]) -> Result<u32, Mismatch> {
        if self.last.0 == name && !name.is_empty() {
            return Ok(self.last.1);
        }
        let next = self.known.len() as u32;
        let number = match self.known.get(name) {
            Some(number) => *number,
            None if self.known.len() >= NAMES_MAX => {
                return Err(Mismatch("at most 65,536 different names"));
            }
            None => {
                self.known.insert(name.to_vec(), next);
                next
            }
        };
        self.last = (name.to_vec(), number);
        Ok(number)
    }
}

/// The format of that name.
pub fn format_named(name: &str) -> Result<&'static Format, TraceError> {
    FORMATS
        .iter()
        .find(|format| format.name == name)
        .ok_or_else(|| TraceError::Unknown {
            name: name.to_owned(),
            known: known(),
        })
}

/// The formats that are read.
fn known() -> String {
    let read = FORMATS.iter().filter(|format| !format.is_timeline);
    let names: Vec<&str> = read.map(|format| format.name).collect();
    names.join(", ")
}

/// The files `path.blktrace.N` that blktrace wrote, one per CPU, when `path` itself is none.
pub fn per_cpu_files(path: &Path) -> Option<Vec<PathBuf>> {
    if path.exists() {
        return None;
    }
    let files: Vec<PathBuf> = (0..4096)
        .map(|cpu| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".blktrace.{cpu}"));
            PathBuf::from(name)
        })
        .filter(|file| file.exists())
        .collect();
    (!files.is_empty()).then_some(files)
}

/// The one format that the start of a file fits.
pub(super) fn detect(path: &Path, input: &mut Input) -> Result<&'static Format, TraceError> {
    const PEEKED_BYTES: usize = 64 << 10;
    const LINES: usize = 32;
    let start = input.peek(PEEKED_BYTES)?;
    if blktrace::looks_like(start) {
        return format_named("blktrace");
    }
    if schedlab::looks_like(start) {
        return format_named("schedlab");
    }
    if vscsi::looks_like(start) {
        return format_named("vscsi");
    }
    let mut lines: Vec<&[u8]> = start.split(|byte| *byte == b'\n').collect();
    if start.len() == PEEKED_BYTES {
        lines.pop();
    }
    lines.truncate(LINES);
    let counted: Vec<(usize, &str)> = FORMATS
        .iter()
        .map(|format| (fits(format, &lines), format.name))
        .filter(|(count, _)| *count > 0)
        .collect();
    let most = counted.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let of_most: Vec<&str> = counted
        .iter()
        .filter(|(count, _)| *count == most)
        .map(|(_, name)| *name)
        .collect();
    let fitting = if most == lines.len() {
        &of_most[..]
    } else {
        &[]
    };
    if fitting == ["mqsim", "disksim"] && is_in_ns(&lines) {
        return format_named("mqsim");
    }
    let why = match fitting[..] {
        [name] => return format_named(name),
        [] if lines.iter().all(|line| line.trim_ascii().is_empty()) => "it is empty".to_owned(),
        [] => match of_most[..] {
            [name] => {
                let (number, line) = (most + 1, shown(lines[most]));
                format!("it is {name} up to line {number}, which is {line:?}")
            }
            _ => format!("no format fits {:?}", shown(lines[0])),
        },
        _ => format!("it may be {}", fitting.join(" or ")),
    };
    Err(TraceError::Undetected {
        path: path.to_owned(),
        why,
        known: known(),
    })
}

/// Whether lines of five whole numbers are MQSim's: each is a request, and the seconds between
/// requests that they would have in DiskSim's milliseconds are unlikely.
fn is_in_ns(lines: &[&[u8]]) -> bool {
    const GAP_NS: u64 = 1_000;
    let mut memory = Memory::new(Event::default());
    let whole = lines.iter().filter(|line| !line.trim_ascii().is_empty());
    let arrivals: Option<Vec<u64>> = whole
        .map(|line| mqsim::line(line, &mut memory).ok().flatten())
        .map(|record| record.map(|record| record.request.arrival.0))
        .collect();
    arrivals.is_some_and(|ns| {
        let span = ns.iter().max().unwrap_or(&0) - ns.iter().min().unwrap_or(&0);
        span >= GAP_NS * (ns.len() as u64).saturating_sub(1).max(1)
    })
}

/// How many lines from the first on are of the format; 0 where none of them carries I/O.
fn fits(format: &Format, lines: &[&[u8]]) -> usize {
    let Kind::Text(parse) = format.kind else {
        return 0;
    };
    let mut memory = Memory::new(Event::default());
    let (mut count, mut records) = (0, 0);
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match format.parsed(parse, line, &mut memory) {
            Ok(record) => records += usize::from(record.is_some()),
            Err(_) => break,
        }
        count += 1;
    }
    let has_io = records > 0 || memory.events().any() || memory.others.0 > 0;
    if has_io {
        count
    } else {
        0
    }
}
