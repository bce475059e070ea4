//! Block I/O traces that other programs wrote, read as a stream: memory does not depend on the
//! length of the trace. Converted, counted, and as the scripts of a replay on a real device.
//!
//! [`open`] gives a [`TraceReader`], an iterator of records in the order of arrival. Plain, gzip,
//! zstd and bzip2 files are detected by their first bytes, and formats by their first lines
//! where that is unambiguous. A format is one file in `formats/` and one line in [`FORMATS`].
//!
//! ```
//! use schedlab_formats::{read_bytes, TraceOptions};
//!
//! let text = "0,20941264,8192,W,0.551706\n0,20939840,8192,R,0.554041\n";
//! let reader = read_bytes("x.spc", text.into(), None, &TraceOptions::default()).unwrap();
//! let records: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
//! assert_eq!(records[0].request.offset.0, 20941264 * 512);
//! // Times are those since the first arrival.
//! assert_eq!(records[1].request.arrival.0, 2_335_000);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bursts;
mod convert;
mod ctf;
mod error;
mod fields;
mod formats;
mod input;
mod kernel_text;
mod perfetto;
mod reader;
mod reorder;
mod rows;
mod script;
mod stats;

pub use bursts::{sched_bursts, Burst, Bursts};
pub use convert::{convert, Converted};
pub use ctf::metadata as ctf_metadata;
pub use error::{Mismatch, TraceError};
pub use formats::{format_named, per_cpu_files, Format, FORMATS};
pub use reader::{open, read_bytes, Skipped, TraceReader};
pub use rows::{rows, Rows};
pub use script::{scripts, ScriptError, ScriptOptions, Scripts, Stream};
pub use stats::{TraceStats, TraceSummary};

use schedlab_model::{Bytes, Nanos, Request};
use serde::{Deserialize, Serialize};

/// What [`Fit::Compact`] moves.
pub const UNIT_BYTES: u64 = 1 << 20;

/// A request of a trace, with what else the trace knows about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When, where and how much. The first arrival is 0, whatever the clock of the trace.
    pub request: Request,
    /// Discards the range instead of reading or writing it.
    pub trim: bool,
    /// The response time that was measured, where the trace has it.
    pub latency: Option<Nanos>,
    /// How long it waited for a tag, and then in the scheduler, before it went to the device.
    pub waited: Option<[Nanos; 2]>,
    /// Device, volume or file of the trace, as numbered there or in the order of appearance.
    pub device: u32,
    /// The process that sent it, where the trace has it.
    pub process: Option<u32>,
    /// The trace says that nobody waits for it, such as data that the page cache writes back: it
    /// lacks the kernel's REQ_SYNC, REQ_PREFLUSH and REQ_FUA (op_is_sync of
    /// include/linux/blk_types.h).
    pub is_async: bool,
}

/// Which event of a kernel trace is the arrival of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// It entered the block layer (Q).
    #[default]
    Queue,
    /// It went to the device (D).
    Dispatch,
    /// It went to the device, and came back (D, with the latency up to C); others are omitted.
    Complete,
}

/// How a trace is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOptions {
    /// Count and pass over lines that are none, instead of an error.
    pub skip_bad_lines: bool,
    /// Requests held back to put them in order; the format's own number where not given.
    pub reorder: Option<usize>,
    /// The event of blkparse and blktrace traces that is the arrival.
    pub event: Event,
}

/// What becomes of addresses beyond the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// An error.
    #[default]
    Refuse,
    /// Modulo the target's size. A request over its end is split by a simulation, and moved down
    /// by a replay on a real device.
    Wrap,
    /// Units of [`UNIT_BYTES`] without the gaps between them: distances of reuse stay.
    Compact,
    /// Proportionally, from the span of the trace to the target.
    Scale,
}

impl TraceRecord {
    /// What it does, in a word.
    fn operation(&self) -> &'static str {
        match (self.trim, self.request.is_write) {
            (true, _) => "trim",
            (false, true) => "write",
            (false, false) => "read",
        }
    }
}

/// A request of which no more is known.
impl From<Request> for TraceRecord {
    #[inline]
    fn from(request: Request) -> Self {
        TraceRecord {
            request,
            trim: false,
            latency: None,
            waited: None,
            device: 0,
            process: None,
            is_async: false,
        }
    }
}

/// A record from the parts that every format has.
#[inline]
fn record(arrival_ns: u64, offset: u64, length: u64, is_write: bool) -> TraceRecord {
    TraceRecord::from(Request {
        arrival: Nanos(arrival_ns),
        offset: Bytes(offset),
        length: Bytes(length),
        is_write,
    })
}

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timeline_tests;
#[cfg(test)]
mod whole_tests;
