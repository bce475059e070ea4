//! Requests from four columns in memory, as a caller in Python hands them over.

use schedlab_model::{Bytes, Nanos, Request};

use super::{Incoming, Source};
use crate::error::require;
use crate::SimError;

/// Columns of equal length: arrival in ns, first byte, bytes, and 0 read, 1 write, 2 trim.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    arrival_ns: Vec<u64>,
    offset_bytes: Vec<u64>,
    length_bytes: Vec<u64>,
    operation: Vec<u8>,
    next: usize,
}

impl Arrays {
    /// The columns, when they are of one length and hold known operations.
    pub fn new(
        arrival_ns: Vec<u64>,
        offset_bytes: Vec<u64>,
        length_bytes: Vec<u64>,
        operation: Vec<u8>,
    ) -> Result<Self, SimError> {
        let rows = arrival_ns.len();
        for (key, length) in [
            ("offset_bytes", offset_bytes.len()),
            ("length_bytes", length_bytes.len()),
            ("operation", operation.len()),
        ] {
            let (found, expected) = (format!("{length} rows"), format!("{rows} rows"));
            require(length == rows, key, found, expected)?;
        }
        let code = operation.iter().max().copied().unwrap_or(0);
        require(code <= 2, "operation", code, "0 read, 1 write or 2 trim")?;
        Ok(Arrays {
            arrival_ns,
            offset_bytes,
            length_bytes,
            operation,
            next: 0,
        })
    }
}

impl Source for Arrays {
    fn next_request(&mut self) -> Result<Option<Incoming>, SimError> {
        let i = self.next;
        if i == self.arrival_ns.len() {
            return Ok(None);
        }
        self.next += 1;
        let request = Request {
            arrival: Nanos(self.arrival_ns[i]),
            offset: Bytes(self.offset_bytes[i]),
            length: Bytes(self.length_bytes[i]),
            is_write: self.operation[i] == 1,
        };
        Ok(Some(Incoming {
            trim: self.operation[i] == 2,
            ..Incoming::from(request)
        }))
    }
}
