//! The run: admits requests, lets the policy choose, and serves one command after another.

mod stepped;

use std::collections::VecDeque;

use schedlab_model::{Arrivals, Request, Workload};
use serde::{Deserialize, Serialize};

pub use stepped::SteppedDisk;

use super::cache::{Cache, Hit};
use super::geometry::Place;
use super::mechanics::Mechanics;
use super::policy::{self, Choice, HeadPolicy, Queued, View};
use super::result::{DiskResult, Tally};
use super::source::{requests, Source};
use super::spec::DiskSpec;
use crate::error::require;
use crate::workload::trace::TraceReader;
use crate::{SimError, Stop};

/// Commands between two looks at the stop flag.
const COMMANDS_PER_POLL: u64 = 1024;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A name of [`POLICIES`](super::POLICIES).
    pub policy: String,
    /// How many requests are served.
    pub requests: u64,
    /// What they are.
    pub workload: Workload,
}

/// Serves `run.requests` requests of the workload; [`SimError::Stopped`] once `stop` is set.
pub fn simulate(spec: &DiskSpec, run: &Run, stop: &Stop) -> Result<DiskResult, SimError> {
    spec.check()?;
    require(run.requests > 0, "requests", run.requests, "at least 1")?;
    let stream = requests(&run.workload)?.take(usize::try_from(run.requests).unwrap_or(usize::MAX));
    let depth = match run.workload.arrivals {
        Arrivals::Closed { depth } => Some(depth),
        Arrivals::Poisson { .. } | Arrivals::Constant { .. } => None,
    };
    let source = Source::new(Box::new(stream), depth);
    Engine::new(spec, policy::find(&run.policy)?, source)
        .run(stop)
        .map(|tally| tally.finish(&run.policy, run.workload.seed))
}

/// Serves requests that come at their own times, for example those of a trace, in this order.
pub fn replay<'a>(
    spec: &DiskSpec,
    policy: &str,
    requests: impl Iterator<Item = Request> + 'a,
    stop: &Stop,
) -> Result<DiskResult, SimError> {
    spec.check()?;
    let source = Source::new(Box::new(requests), None);
    Engine::new(spec, policy::find(policy)?, source)
        .run(stop)
        .map(|tally| tally.finish(policy, 0))
}

/// Serves a trace, at most `most` requests of it; what moves no data, such as trims, is left out.
pub fn replay_trace(
    spec: &DiskSpec,
    policy: &str,
    trace: TraceReader,
    most: Option<u64>,
    stop: &Stop,
) -> Result<DiskResult, SimError> {
    let mut broken = None;
    let records = trace.map_while(|record| record.map_err(|error| broken = Some(error)).ok());
    let requests = records
        .filter(|record| !record.trim && record.request.length.0 > 0)
        .map(|record| record.request)
        .take(most.map_or(usize::MAX, |most| most as usize));
    let result = replay(spec, policy, requests, stop);
    match broken {
        Some(error) => Err(error.into()),
        None => result,
    }
}

struct Engine<'a> {
    spec: DiskSpec,
    mechanics: Mechanics,
    cache: Cache,
    policy: Box<dyn HeadPolicy>,
    source: Source<'a>,
    host: VecDeque<Queued>,
    queue: Vec<Queued>,
    head: Place,
    tally: Tally,
}

impl<'a> Engine<'a> {
    fn new(spec: &DiskSpec, policy: Box<dyn HeadPolicy>, source: Source<'a>) -> Self {
        let mechanics = Mechanics::new(spec);
        Engine {
            spec: spec.clone(),
            head: mechanics.geometry.place(0),
            mechanics,
            cache: Cache::new(spec),
            policy,
            source,
            host: VecDeque::new(),
            queue: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn run(mut self, stop: &Stop) -> Result<Tally, SimError> {
        let (mut now_ns, mut commands) = (0, 0u64);
        loop {
            self.admit(now_ns)?;
            if self.queue.is_empty() {
                match self.source.next_ns() {
                    Some(arrival_ns) => now_ns = arrival_ns,
                    None => return Ok(self.tally),
                }
                continue;
            }
            commands += 1;
            if commands % COMMANDS_PER_POLL == 0 && stop.is_set() {
                return Err(SimError::Stopped);
            }
            let (done_ns, _) = self.serve_next(now_ns);
            self.source.completed(done_ns);
            now_ns = done_ns;
        }
    }

    /// Takes in what has arrived; the device's queue is filled from the host's in order.
    fn admit(&mut self, now_ns: u64) -> Result<(), SimError> {
        while self.source.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            let Some(request) = self.source.take() else {
                break;
            };
            let queued = self.queued(request, 0)?;
            self.host.push_back(queued);
        }
        self.fill_queue();
        Ok(())
    }

    /// Fills the device's queue from the host's.
    fn fill_queue(&mut self) {
        let room = self.spec.queue_depth - self.queue.len();
        self.queue
            .extend(self.host.drain(..room.min(self.host.len())));
    }

    fn queued(&self, request: Request, tag: u64) -> Result<Queued, SimError> {
        let (sector, capacity) = (self.spec.sector.0, self.spec.capacity());
        let end = request.offset.0.saturating_add(request.length.0);
        require(
            request.length.0 > 0 && end <= capacity.0,
            "request",
            format!("{} bytes at {}", request.length.0, request.offset.0),
            format!(
                "at least 1 byte, ending within the disk's {} bytes",
                capacity.0
            ),
        )?;
        let lba = request.offset.0 / sector;
        Ok(Queued {
            request,
            tag,
            lba,
            sectors: end.div_ceil(sector) - lba,
            place: self.mechanics.geometry.place(lba),
        })
    }

    /// Serves the command that the policy chooses; gives the time of its completion and its tag.
    fn serve_next(&mut self, now_ns: u64) -> (u64, u64) {
        if let Some(lba) = self.cache.advance(now_ns, &self.mechanics) {
            self.head = self.mechanics.geometry.place(lba);
        }
        let start_ns = now_ns + self.spec.overhead.0;
        let choice = self.choose(start_ns);
        let queued = self.queue.remove(choice.index);
        let hit = self.hit(&queued);
        let done_ns = match hit {
            Some(hit) => {
                let from_cache_ns = u128::from(queued.request.length.0) * 1_000_000_000
                    / u128::from(self.spec.interface_bytes_per_s);
                let done_ns = match hit {
                    Hit::Cached => start_ns + from_cache_ns as u64,
                    Hit::Streaming(passed_ns) => start_ns.max(passed_ns),
                };
                let (lba, sectors) = (queued.lba, queued.sectors);
                self.cache.hit(done_ns, lba, sectors, &self.mechanics);
                done_ns
            }
            None => self.access(start_ns, &queued, choice.via),
        };
        let tally = &mut self.tally;
        tally.reads += u64::from(!queued.request.is_write);
        tally.hits += u64::from(hit.is_some());
        tally.bytes += queued.request.length.0;
        tally.latency.record(done_ns - queued.request.arrival.0);
        tally.service.record(done_ns - now_ns);
        tally.end_ns = done_ns;
        (done_ns, queued.tag)
    }

    fn choose(&mut self, start_ns: u64) -> Choice {
        let (mechanics, cache, head) = (&self.mechanics, &self.cache, self.head);
        let positioning_ns = |queued: &Queued| {
            let is_write = queued.request.is_write;
            let hit = cache.look_up(queued.lba, queued.sectors, mechanics);
            match hit.filter(|_| !is_write) {
                Some(_) => 0,
                None => mechanics
                    .positioning(start_ns, head, queued.place, is_write)
                    .total_ns(),
            }
        };
        self.policy.choose(&View {
            head,
            last_cylinder: mechanics.last_cylinder,
            queue: &self.queue,
            positioning_ns: &positioning_ns,
        })
    }

    fn hit(&self, queued: &Queued) -> Option<Hit> {
        if queued.request.is_write {
            return None;
        }
        self.cache
            .look_up(queued.lba, queued.sectors, &self.mechanics)
    }

    /// Reads or writes the medium from `start_ns` on; gives the time when the last sector passed.
    fn access(&mut self, start_ns: u64, queued: &Queued, via: Option<u32>) -> u64 {
        let is_write = queued.request.is_write;
        let (mut begin_ns, mut from) = (start_ns, self.head);
        if let Some(edge) = via {
            begin_ns += self.mechanics.seek_ns(from.cylinder.abs_diff(edge));
            from.cylinder = edge;
        }
        let positioning = self
            .mechanics
            .positioning(begin_ns, from, queued.place, is_write);
        let passes_ns = begin_ns + positioning.total_ns();
        let (done_ns, head) = self
            .mechanics
            .transfer(passes_ns, queued.lba, queued.sectors);
        let tally = &mut self.tally;
        tally.medium += 1;
        tally.seek_ns += begin_ns - start_ns + positioning.seek_ns;
        tally.rotation_ns += positioning.rotation_ns;
        tally.transfer_ns += done_ns - passes_ns;
        tally.cylinders += u64::from(self.head.cylinder.abs_diff(from.cylinder))
            + u64::from(from.cylinder.abs_diff(queued.place.cylinder));
        self.head = head;
        if is_write {
            self.cache.write(queued.lba, queued.sectors);
        } else {
            self.cache
                .read(passes_ns, queued.lba, queued.sectors, &self.mechanics);
        }
        done_ns
    }
}
