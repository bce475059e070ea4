//! Replaying a trace: whose each request is, and when it is sent.

use std::collections::BTreeSet;

use schedlab_formats::TraceRecord;

use super::super::request::Op;
use super::super::ProcessSpec;
use super::super::Scheduler;
use super::{Event, Purpose, Running};
use crate::error::require;
use crate::SimError;

/// Each has a histogram and a row of the result.
const PROCESSES_MOST: usize = 4096;

impl<S: Scheduler> Running<'_, S> {
    /// Sends the next request of the trace.
    pub(super) fn replay(&mut self) -> Result<(), SimError> {
        let record = self.job.trace[self.traced];
        self.traced += 1;
        let request = record.request;
        let op = match (record.trim, request.is_write) {
            (true, _) => Op::Discard,
            (_, true) => Op::Write,
            _ => Op::Read,
        };
        let position = self.owners.binary_search(&owner(&record));
        let index = position.unwrap_or(0) as u32;
        let context = self.processes[index as usize].context;
        let first = request.offset.0 / 512;
        let end = (request.offset.0 + request.length.0).div_ceil(512);
        if end > first {
            self.send(
                index,
                context,
                (op, !record.is_async),
                (first, end - first),
                Purpose::Own,
            );
            self.queue.unplug(index);
        }
        if let Some(next) = self.job.trace.get(self.traced) {
            self.at(next.request.arrival.0, Event::Trace);
        }
        Ok(())
    }
}

/// Whose a request of a trace is: the process that sent it, or else its device.
fn owner(record: &TraceRecord) -> u32 {
    record.process.unwrap_or(record.device)
}

/// The owners of a trace, in order.
pub(super) fn owners(trace: &[TraceRecord]) -> Result<Vec<u32>, SimError> {
    let owners: BTreeSet<u32> = trace.iter().map(owner).collect();
    require(
        owners.len() <= PROCESSES_MOST,
        "processes of the trace",
        owners.len(),
        format!("at most {PROCESSES_MOST}"),
    )?;
    Ok(owners.into_iter().collect())
}

/// A process of a trace.
pub(super) fn process(owner: &u32) -> ProcessSpec {
    ProcessSpec {
        name: owner.to_string(),
        ..ProcessSpec::default()
    }
}
