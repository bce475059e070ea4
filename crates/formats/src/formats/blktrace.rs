//! Binary files of blktrace (struct blk_io_trace of include/uapi/linux/blktrace_api.h), one per
//! CPU, merged by time.

use std::path::Path;

use super::super::fields::times;
use super::super::input::Input;
use super::super::{Mismatch, TraceError, TraceOptions};
use super::blk::{Action, BlkEvent, Seen, Sequences, Tracker};
use super::{Binary, Parsed, SECTOR_BYTES};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const HEADER_BYTES: usize = 48;
const EXPECTED: &str = "a record of 48 bytes that begins with the magic 0x65617407";

const CATEGORY_WRITE: u32 = 1 << 1;
const CATEGORY_FLUSH: u32 = 1 << 2;
const CATEGORY_SYNC: u32 = 1 << 3;
const CATEGORY_PC: u32 = 1 << 9;
const CATEGORY_NOTIFY: u32 = 1 << 10;
const CATEGORY_DISCARD: u32 = 1 << 13;
const CATEGORY_FUA: u32 = 1 << 15;
/// Set in the low half when the payload names a cgroup.
const WITH_CGROUP: u32 = 1 << 8;

/// Whether a file begins with a record, in either byte order.
pub(super) fn looks_like(start: &[u8]) -> bool {
    start
        .first_chunk::<4>()
        .is_some_and(|bytes| byte_order(*bytes).is_some())
}

/// How to read four bytes, by the magic.
fn byte_order(magic: [u8; 4]) -> Option<bool> {
    if u32::from_le_bytes(magic) == MAGIC | VERSION {
        Some(false)
    } else if u32::from_be_bytes(magic) == MAGIC | VERSION {
        Some(true)
    } else {
        None
    }
}

/// A record of one CPU: its time, its sequence number, what it is, and how to show what is none.
type Waiting = (u64, u64, Result<Option<BlkEvent>, Mismatch>, String);

struct Cpu {
    input: Input,
    next: Option<Waiting>,
}

struct Blktrace {
    cpus: Vec<Cpu>,
    tracker: Tracker,
    sequences: Sequences,
    last: usize,
}

pub(super) fn open(
    inputs: Vec<Input>,
    options: &TraceOptions,
) -> Result<Box<dyn Binary>, TraceError> {
    let mut cpus = Vec::with_capacity(inputs.len());
    for input in inputs {
        let mut cpu = Cpu { input, next: None };
        cpu.advance(0)?;
        cpus.push(cpu);
    }
    Ok(Box::new(Blktrace {
        cpus,
        tracker: Tracker::new(options.event),
        sequences: Sequences::default(),
        last: 0,
    }))
}

impl Cpu {
    /// Reads the next record; a broken one keeps the time of the one before, to come at once.
    fn advance(&mut self, before_ns: u64) -> Result<(), TraceError> {
        let bytes = self.input.take(HEADER_BYTES)?;
        if bytes.is_empty() {
            self.next = None;
            return Ok(());
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>().copied() else {
            let actual = format!("the last {} bytes", bytes.len());
            return self.broken(before_ns, actual);
        };
        let magic = [header[0], header[1], header[2], header[3]];
        let Some(swapped) = byte_order(magic) else {
            return self.broken(before_ns, format!("{magic:02x?}"));
        };
        let header = Header {
            bytes: header,
            swapped,
        };
        let payload = usize::from(header.u16(46));
        let length = self.input.take(payload)?.len();
        if length < payload {
            let actual = format!("a payload of {length} bytes instead of {payload}");
            return self.broken(before_ns, actual);
        }
        let sequence = u64::from(header.u32(4));
        self.next = Some((header.u64(8), sequence, header.event(), String::new()));
        Ok(())
    }

    fn broken(&mut self, before_ns: u64, actual: String) -> Result<(), TraceError> {
        self.next = Some((before_ns, 0, Err(Mismatch(EXPECTED)), actual));
        Ok(())
    }
}

struct Header {
    bytes: [u8; HEADER_BYTES],
    swapped: bool,
}

impl Header {
    fn take<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        if self.swapped {
            out.reverse();
        }
        out
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.take(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.take(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.take(at))
    }

    /// The event, nothing when it carries no I/O.
    fn event(&self) -> Result<Option<BlkEvent>, Mismatch> {
        let action = self.u32(28);
        let category = action >> 16;
        let action = match action & 0xffff & !WITH_CGROUP {
            1 => Action::Queue,
            7 => Action::Dispatch,
            8 => Action::Complete,
            _ => return Ok(None),
        };
        if category & (CATEGORY_NOTIFY | CATEGORY_PC) != 0 {
            return Ok(None);
        }
        let offset = times(self.u64(16), SECTOR_BYTES, "a sector below 2^55")?;
        let trim = category & CATEGORY_DISCARD != 0;
        let changes = trim || category & CATEGORY_WRITE != 0;
        let waited_for = CATEGORY_SYNC | CATEGORY_FLUSH | CATEGORY_FUA;
        Ok(Some(BlkEvent {
            time_ns: self.u64(8),
            device: self.u32(36),
            process: self.u32(32),
            offset,
            length: u64::from(self.u32(24)),
            action,
            is_write: changes && !trim,
            trim,
            sync: !changes || category & waited_for != 0,
        }))
    }
}

impl Binary for Blktrace {
    fn next(&mut self) -> Result<Option<(Parsed, String)>, TraceError> {
        let times = self.cpus.iter().enumerate();
        let earliest = times
            .filter_map(|(i, cpu)| cpu.next.as_ref().map(|(time_ns, ..)| (*time_ns, i)))
            .min();
        let Some((time_ns, at)) = earliest else {
            return Ok(None);
        };
        self.last = at;
        let Some((_, sequence, event, actual)) = self.cpus[at].next.take() else {
            return Ok(None);
        };
        self.cpus[at].advance(time_ns)?;
        let parsed = match event {
            // Each file is of one CPU.
            Ok(Some(event)) => {
                let number = self.sequences.see(event.device, at as u64, sequence);
                number.and_then(|()| self.tracker.see(&event))
            }
            Ok(None) => Ok(None),
            Err(mismatch) => Err(mismatch),
        };
        Ok(Some((parsed, actual)))
    }

    fn path(&self) -> &Path {
        self.cpus[self.last].input.path()
    }

    fn events(&self) -> Seen {
        self.tracker.seen()
    }
}
