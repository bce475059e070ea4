//! A device that is advanced event by event from outside, by a caller with a clock. The batch runs
//! and this interface use the same model: equal arrivals give equal completions.

use schedlab_model::{Bytes, Nanos, Request};

use crate::SimError;

/// The operation that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Discard the range.
    Trim,
    /// Complete once all data acknowledged before are on the medium.
    Flush,
}

/// A request as it reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// When, in the device's time, ns.
    pub at_ns: u64,
    /// By which its completion is known again.
    pub tag: u64,
    /// Its operation.
    pub kind: Kind,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes; 0 for a flush.
    pub length_bytes: u64,
}

impl Submission {
    /// The range that is read or written, as arriving now.
    pub(crate) fn request(&self) -> Request {
        Request {
            arrival: Nanos(self.at_ns),
            offset: Bytes(self.offset_bytes),
            length: Bytes(self.length_bytes),
            is_write: self.kind == Kind::Write,
        }
    }
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The tag of its submission.
    pub tag: u64,
    /// When, in the device's time, ns.
    pub at_ns: u64,
}

/// A device in steps. Time never goes back: a submission is not earlier than the one before, nor
/// than an event that has already happened. An event at the very time of a submission comes after
/// the submission.
pub trait Stepped {
    /// Bytes that requests may address.
    fn capacity_bytes(&self) -> u64;

    /// A request arrives. Refused if it does not fit the device.
    fn submit(&mut self, submission: Submission) -> Result<(), SimError>;

    /// When the next event happens; nothing while the device is idle.
    fn next_time_ns(&self) -> Option<u64>;

    /// Lets the next event happen; what it completes is appended to `completions`.
    fn advance(&mut self, completions: &mut Vec<Completion>);
}
