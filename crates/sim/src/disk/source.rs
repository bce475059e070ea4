//! The requests of a workload of a disk, and when those of any source arrive.

use std::collections::VecDeque;

use schedlab_model::{
    Arrivals, Bytes, Direction, Nanos, Pattern, Request, Schedule, Steps, Workload,
};

use serde::Deserialize;

use crate::error::require;
use crate::registry;
use crate::workload::{Incoming, Real, Source};
use crate::SimError;

/// Streams of the seed; places are drawn from stream 0.
const STREAM_MIX: u64 = 1;
const STREAM_ARRIVALS: u64 = 2;

const RANDOM: Pattern = Pattern::Random { replacement: true };
const MIXED: Direction = Direction::Mixed { read_percent: 70 };

/// The workloads of a disk that have a name: order, direction, record.
#[rustfmt::skip]
pub const WORKLOADS: &[(&str, Pattern, Direction, Bytes)] = &[
    ("random4k", RANDOM, Direction::Read, Bytes(4 << 10)),
    ("random64k", RANDOM, Direction::Read, Bytes(64 << 10)),
    ("randwrite4k", RANDOM, Direction::Write, Bytes(4 << 10)),
    ("mixed4k", RANDOM, MIXED, Bytes(4 << 10)),
    ("seqread", Pattern::Sequential, Direction::Read, Bytes(128 << 10)),
    ("seqwrite", Pattern::Sequential, Direction::Write, Bytes(128 << 10)),
];

/// A workload of [`WORKLOADS`] as asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskWorkload {
    /// The first one where there is none.
    name: Option<String>,
    /// Size of the requests instead of the workload's own.
    record: Option<Bytes>,
    /// Bytes used from the start of the disk; 0: all of it.
    span: Bytes,
    /// Requests always outstanding, 1 where nothing is said.
    depth: Option<u32>,
    /// Poisson arrivals, so many per second, instead of a closed loop.
    rate: Option<Real>,
}

impl DiskWorkload {
    /// The workload on a disk of that size.
    pub fn workload(&self, capacity: Bytes, seed: u64) -> Result<Workload, SimError> {
        let name = self.name.as_deref().unwrap_or(WORKLOADS[0].0);
        let named = registry::find("workload", name, WORKLOADS, |entry| entry.0)?;
        let (_, pattern, direction, record) = *named;
        let arrivals = match (self.rate, self.depth) {
            (Some(_), Some(_)) => {
                let detail = "depth and rate cannot be used together";
                return Err(SimError::Workload(detail.into()));
            }
            (Some(Real(rate_per_s)), None) => Arrivals::Poisson { rate_per_s },
            (None, depth) => Arrivals::Closed {
                depth: depth.unwrap_or(1),
            },
        };
        Ok(Workload {
            pattern,
            direction,
            record: self.record.unwrap_or(record),
            span: match self.span {
                Bytes(0) => capacity,
                span => span,
            },
            arrivals,
            seed,
        })
    }
}

/// Requests of a workload; in a closed loop they come as others are completed.
pub struct Generated {
    workload: Workload,
    steps: Steps,
    schedule: Option<Schedule>,
}

impl Generated {
    /// So many.
    pub fn new(workload: Workload, requests: u64) -> Result<Self, SimError> {
        require(requests > 0, "requests", requests, "at least 1")?;
        workload.check()?;
        let (arrivals, seed) = (workload.arrivals, workload.seed);
        let mut schedule = Schedule::drawn_by(arrivals, seed, STREAM_ARRIVALS);
        if let Some(schedule) = &mut schedule {
            schedule.begin(0);
        }
        Ok(Generated {
            steps: Steps::mixed_by(&workload, Some(requests), STREAM_MIX),
            schedule,
            workload,
        })
    }
}

impl Source for Generated {
    fn next_request(&mut self) -> Result<Option<Incoming>, SimError> {
        let Some(step) = self.steps.next() else {
            return Ok(None);
        };
        let record = self.workload.record;
        let request = Request {
            arrival: Nanos(self.schedule.as_ref().map_or(0, Schedule::due)),
            offset: Bytes(u64::from(step.record) * record.0),
            length: record,
            is_write: step.is_write,
        };
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        Ok(Some(request.into()))
    }

    fn outstanding(&self) -> Option<u32> {
        match self.workload.arrivals {
            Arrivals::Closed { depth } => Some(depth),
            _ => None,
        }
    }
}

enum Pace {
    /// At their own times.
    AtTimes,
    /// So many are always outstanding: when requests may still be issued.
    Closed(VecDeque<u64>),
    /// Each follows the completion of the one before after its think time: its measured arrival
    /// less the measured completion before it, at least 0. The last completion: measured, and
    /// simulated if there was one.
    Think {
        measured_ns: u64,
        simulated_ns: Option<u64>,
    },
}

/// A request, and the response time that a trace states of it.
type Measured = (Request, Option<u64>);

/// The requests of a source with their times of arrival; those that move no data are omitted.
pub(super) struct Paced<'a> {
    source: &'a mut dyn Source,
    next: Option<Measured>,
    pace: Pace,
}

impl<'a> Paced<'a> {
    pub(super) fn new(source: &'a mut dyn Source) -> Result<Self, SimError> {
        let pace = match source.outstanding() {
            Some(depth) => Pace::Closed(vec![0; depth as usize].into()),
            None if source.thinks() => Pace::Think {
                measured_ns: 0,
                simulated_ns: Some(0),
            },
            None => Pace::AtTimes,
        };
        let next = None;
        let mut paced = Paced { source, next, pace };
        paced.draw()?;
        Ok(paced)
    }

    fn draw(&mut self) -> Result<(), SimError> {
        self.next = None;
        while let Some(incoming) = self.source.next_request()? {
            if !incoming.trim && incoming.request.length.0 > 0 {
                self.next = Some((incoming.request, self.source.measured_ns()));
                break;
            }
        }
        Ok(())
    }

    /// Whether arrivals wait for completions.
    pub(super) fn is_closed(&self) -> bool {
        !matches!(self.pace, Pace::AtTimes)
    }

    /// When the next request arrives; nothing when none will before a completion.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let arrival_ns = self.next.as_ref()?.0.arrival.0;
        match &self.pace {
            Pace::AtTimes => Some(arrival_ns),
            Pace::Closed(times) => times.front().copied(),
            Pace::Think {
                measured_ns,
                simulated_ns,
            } => {
                let think_ns = arrival_ns.saturating_sub(*measured_ns);
                simulated_ns.map(|done_ns| done_ns + think_ns)
            }
        }
    }

    /// Takes the next request, if it has arrived by `now_ns`.
    pub(super) fn take(&mut self, now_ns: u64) -> Result<Option<Measured>, SimError> {
        let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= now_ns) else {
            return Ok(None);
        };
        let mut next = self.next;
        if let Some((request, measured)) = &mut next {
            match &mut self.pace {
                Pace::AtTimes => {}
                Pace::Closed(times) => drop(times.pop_front()),
                Pace::Think {
                    measured_ns,
                    simulated_ns,
                } => {
                    *measured_ns = request.arrival.0 + measured.unwrap_or(0);
                    *simulated_ns = None;
                }
            }
            request.arrival = Nanos(at_ns);
        }
        self.draw()?;
        Ok(next)
    }

    /// A request has completed; in a closed loop the next one is issued.
    pub(super) fn completed(&mut self, now_ns: u64) {
        match &mut self.pace {
            Pace::AtTimes => {}
            Pace::Closed(times) => times.push_back(now_ns),
            Pace::Think { simulated_ns, .. } => *simulated_ns = Some(now_ns),
        }
    }
}
