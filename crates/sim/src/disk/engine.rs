//! The run: requests arrive, the disk serves one after another, and what happened is counted.

mod stepped;

use std::collections::HashMap;

use schedlab_model::{Arrivals, Workload};
use serde::{Deserialize, Serialize};

pub use stepped::SteppedDisk;

use super::model::Disk;
use super::result::{DiskLogged, DiskResult, WriteCacheUse};
use super::source::{requests, Pace, Replayed, Source};
use super::spec::DiskSpec;
use crate::error::require;
use crate::workload::Replay;
use crate::{SimError, Stop};

/// Commands between two checks of the stop flag.
const COMMANDS_PER_POLL: u64 = 1024;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A name of [`POLICIES`](super::POLICIES).
    pub policy: String,
    /// How many requests are served.
    pub requests: u64,
    /// Their places, sizes and arrivals.
    pub workload: Workload,
}

/// A result, and every request where a log was requested.
pub type LoggedResult = (DiskResult, Vec<DiskLogged>);

/// Serves `run.requests` requests of the workload, with a log of every request in the order of
/// completion if `log` is set; [`SimError::Stopped`] once `stop` is set.
pub fn simulate(
    spec: &DiskSpec,
    run: &Run,
    log: bool,
    stop: &Stop,
) -> Result<LoggedResult, SimError> {
    require(run.requests > 0, "requests", run.requests, "at least 1")?;
    let stream = requests(&run.workload)?.take(usize::try_from(run.requests).unwrap_or(usize::MAX));
    let pace = match run.workload.arrivals {
        Arrivals::Closed { depth } => Pace::Closed(depth),
        Arrivals::Poisson { .. } | Arrivals::Constant { .. } => Pace::AtTimes,
    };
    let (mut result, log) = replay(spec, &run.policy, stream, pace, log, stop)?;
    result.seed = run.workload.seed;
    Ok((result, log))
}

/// The same of requests in their order, at any pace.
pub fn replay<'a>(
    spec: &DiskSpec,
    policy: &str,
    requests: impl Iterator<Item = impl Into<Replayed>> + 'a,
    pace: Pace,
    log: bool,
    stop: &Stop,
) -> Result<LoggedResult, SimError> {
    spec.check()?;
    let mut engine = Engine::new(spec, policy, log)?;
    let requests = requests.map(|request| -> Replayed { request.into() });
    engine.run(Source::new(Box::new(requests), pace), stop)?;
    Ok(engine.finish(policy))
}

/// The same of a trace; trims and others that move no data are omitted.
pub fn replay_trace(
    spec: &DiskSpec,
    policy: &str,
    trace: &mut Replay,
    log: bool,
    stop: &Stop,
) -> Result<LoggedResult, SimError> {
    let pace = match trace.options().closed {
        Some(depth) => Pace::Closed(depth),
        None if trace.options().think => Pace::Think,
        None => Pace::AtTimes,
    };
    let mut broken = None;
    let pieces = std::iter::from_fn(|| trace.next_piece().transpose());
    let pieces = pieces.map_while(|piece| piece.map_err(|error| broken = Some(error)).ok());
    let requests = pieces
        .filter(|piece| !piece.trim && piece.request.length.0 > 0)
        .map(|piece| Replayed {
            request: piece.request,
            measured_ns: piece.latency.map(|latency| latency.0),
        });
    let result = replay(spec, policy, requests, pace, log, stop);
    match broken {
        Some(error) => Err(error),
        None => result.map(|(mut result, log)| {
            result.trace = Some(trace.summary());
            (result, log)
        }),
    }
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

    fn run(&mut self, mut source: Source<'_>, stop: &Stop) -> Result<(), SimError> {
        let mut now_ns = 0;
        let is_closed = source.is_closed();
        loop {
            while source.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                let Some(next) = source.take() else {
                    break;
                };
                self.submit(next)?;
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

    fn submit(&mut self, next: Replayed) -> Result<(), SimError> {
        if let (Some(measured_ns), Some(_)) = (next.measured_ns, &self.log) {
            self.measured.insert(self.submitted, measured_ns);
        }
        self.disk.submit(self.submitted, next.request)?;
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
