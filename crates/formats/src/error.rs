//! What can be wrong with a trace; each error names file, place, what was expected and found.

use std::path::{Path, PathBuf};

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system or a decompressor refused.
    #[error("{}: cannot {operation}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line, or a record of a binary trace, that is none.
    #[error("{}, {unit} {number}: expected {expected}, found {actual:?}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// "line", or "record" in a binary trace.
        unit: &'static str,
        /// Its number, from 1.
        number: u64,
        /// The expected text.
        expected: String,
        /// What does, cut at 120 bytes.
        actual: String,
    },
    /// A request that is earlier than one that was given already.
    #[error(
        "{}, {unit} {number}: is {late_ns} ns earlier than a request before it, by more than the \
         {window} requests that are held back to sort; reorder with a larger window", path.display()
    )]
    Order {
        /// The file.
        path: PathBuf,
        /// "line" or "record".
        unit: &'static str,
        /// Its number, from 1.
        number: u64,
        /// How much earlier it is.
        late_ns: u64,
        /// How many requests are held back.
        window: usize,
    },
    /// A format that no registry holds.
    #[error("trace format {name:?} is not known: expected one of {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A file whose content is ambiguous between formats.
    #[error(
        "{}: cannot recognise the format ({why}); name it as FILE:FORMAT, one of {known}",
        path.display()
    )]
    Undetected {
        /// The file.
        path: PathBuf,
        /// Nothing fits, or several do.
        why: String,
        /// The names that exist.
        known: String,
    },
    /// A trace that was read to its end and has no request.
    #[error("{}: has no request: {why}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it has instead.
        why: String,
    },
    /// A text of kernel events without bursts.
    #[error("{}: no burst between two sched_switch events of one CPU", .0.display())]
    NoBursts(PathBuf),
    /// The caller asked to stop.
    #[error("reading the trace was stopped")]
    Stopped,
}

impl TraceError {
    /// An error of the operating system.
    pub fn io(path: &Path, operation: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| TraceError::Io {
            path,
            operation,
            source,
        }
    }
}

/// What a line should have been; the reader adds where and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch(pub &'static str);

/// The start of a line for an error message.
pub(super) fn shown(line: &[u8]) -> String {
    const SHOWN_BYTES: usize = 120;
    let cut = &line[..line.len().min(SHOWN_BYTES)];
    String::from_utf8_lossy(cut).trim().to_owned()
}
