//! A device whose every request takes the same time: for calibration, and where a test must know
//! the answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Completion, SimError, Stepped, Submission};

use super::*;

/// The file of such a device.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct FixedSpec {
    /// Time of a request.
    pub service: Nanos,
    /// Requests that are served at the same time.
    pub servers: u32,
    /// Size of the device.
    pub size: Bytes,
}

/// `servers` equal servers with one queue.
pub struct Fixed {
    spec: FixedSpec,
    /// When each server has done all it was given.
    free_ns: BinaryHeap<Reverse<u64>>,
    in_flight: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Fixed {
    pub fn new(spec: FixedSpec) -> Self {
        Fixed {
            spec,
            free_ns: (0..spec.servers.max(1)).map(|_| Reverse(0)).collect(),
            in_flight: BinaryHeap::new(),
        }
    }
}

impl Stepped for Fixed {
    fn capacity_bytes(&self) -> u64 {
        self.spec.size.0
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        let Reverse(free_ns) = self.free_ns.pop().unwrap_or(Reverse(0));
        let done_ns = free_ns.max(submission.at_ns) + self.spec.service.0;
        self.free_ns.push(Reverse(done_ns));
        self.in_flight.push(Reverse((done_ns, submission.tag)));
        Ok(())
    }

    fn next_time_ns(&self) -> Option<u64> {
        self.in_flight.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    fn advance(&mut self, completions: &mut Vec<Completion>) {
        if let Some(Reverse((at_ns, tag))) = self.in_flight.pop() {
            completions.push(Completion { tag, at_ns });
        }
    }
}
