//! The run: requests arrive, the disk serves one after another, and what happened is counted.

mod stepped;

use std::collections::HashMap;

use schedlab_model::Request;

pub use stepped::SteppedDisk;

use super::model::Disk;
use super::result::{DiskLogged, DiskResult, WriteCacheUse};
use super::source::Paced;
use super::spec::DiskSpec;
use crate::workload::Source;
use crate::{SimError, Stop};

/// Commands between two checks of the stop flag.
const COMMANDS_PER_POLL: u64 = 1024;

/// A result, and every request where a log was requested.
pub type LoggedResult = (DiskResult, Vec<DiskLogged>);

/// Serves the requests of a source in the order of a policy of [`POLICIES`](super::POLICIES), with
/// a log of every request in the order of completion if `log` is set; trims and others that move
/// no data are omitted. [`SimError::Stopped`] once `stop` is set.
pub fn simulate(
    spec: &DiskSpec,
    policy: &str,
    source: &mut dyn Source,
    log: bool,
    stop: &Stop,
) -> Result<LoggedResult, SimError> {
    spec.check()?;
    let mut engine = Engine::new(spec, policy, log)?;
    engine.run(Paced::new(source)?, stop)?;
    let (mut result, log) = engine.finish(policy);
    result.trace = source.summary();
    Ok((result, log))
}

struct Engine {
    disk: Disk,
    depth: u64,
    submitted: u64,
    completed: u64,
    /// Requests not complete at the last arrival of an open loop.
    backlog: u64,
    log: Option<Vec<DiskLogged>>,
    /// Response times that the trace states, of requests that are not complete.
    measured: HashMap<u64, u64>,
}

impl Engine {
    fn new(spec: &DiskSpec, policy: &str, log: bool) -> Result<Self, SimError> {
        Ok(Engine {
            disk: Disk::new(spec, policy)?,
            depth: spec.queue_depth as u64,
            submitted: 0,
            completed: 0,
            backlog: 0,
            log: log.then(Vec::new),
            measured: HashMap::new(),
        })
    }

    fn run(&mut self, mut source: Paced<'_>, stop: &Stop) -> Result<(), SimError> {
        let mut now_ns = 0;
        let is_closed = source.is_closed();
        loop {
            while let Some((request, measured_ns)) = source.take(now_ns)? {
                self.submit(request, measured_ns)?;
            }
            let Some(served) = self.disk.serve(now_ns) else {
                match source.next_ns() {
                    Some(arrival_ns) => now_ns = arrival_ns,
                    None => break,
                }
                continue;
            };
            self.completed += 1;
            if let Some(log) = &mut self.log {
                log.push(DiskLogged {
                    index: served.tag,
                    request: served.request,
                    start_ns: served.start_ns,
                    completed_ns: served.done_ns,
                    kind: served.kind,
                    measured_ns: self.measured.remove(&served.tag),
                });
            }
            source.completed(served.done_ns);
            now_ns = served.done_ns;
            if self.completed % COMMANDS_PER_POLL == 0 && stop.is_set() {
                return Err(SimError::Stopped);
            }
        }
        if is_closed {
            self.backlog = 0;
        }
        let end_ns = self.disk.drain(now_ns);
        self.disk.tally.end_ns = self.disk.tally.end_ns.max(end_ns);
        Ok(())
    }

    fn submit(&mut self, request: Request, measured_ns: Option<u64>) -> Result<(), SimError> {
        if let (Some(measured_ns), Some(_)) = (measured_ns, &self.log) {
            self.measured.insert(self.submitted, measured_ns);
        }
        self.disk.submit(self.submitted, request)?;
        self.submitted += 1;
        self.backlog = self.submitted - self.completed;
        Ok(())
    }

    fn finish(mut self, policy: &str) -> LoggedResult {
        let mut tally = std::mem::take(&mut self.disk.tally);
        tally.write_cache = self.disk.write_cache_use();
        let result = tally.finish(policy, self.backlog, self.depth);
        (result, self.log.unwrap_or_default())
    }
}

impl Disk {
    fn write_cache_use(&self) -> Option<WriteCacheUse> {
        self.writes.as_ref().map(|writes| WriteCacheUse {
            written_sectors: writes.written,
            overwritten_sectors: writes.overwritten,
            destaged_sectors: writes.destaged,
        })
    }
}
