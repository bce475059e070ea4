//! Where requests come from: a workload's endless stream, open or closed.

use std::collections::VecDeque;
use std::iter::Peekable;

use schedlab_model::{Arrivals, Bytes, Direction, Nanos, Pattern, Request, Rng, Workload};

use serde::Deserialize;

use crate::error::require;
use crate::registry;
use crate::workload::Real;
use crate::SimError;

/// A random order without replacement is kept in memory as 4 bytes a record.
const MOST_RECORDS_IN_ORDER: u64 = 100_000_000;

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

/// The requests of a workload, without end; in a closed loop all arrive at 0.
pub(super) fn requests(workload: &Workload) -> Result<Box<dyn Iterator<Item = Request>>, SimError> {
    workload.check()?;
    let records = workload.records();
    let mut order: Box<dyn Iterator<Item = u64>> = match workload.pattern {
        Pattern::Sequential => Box::new((0..records).cycle()),
        Pattern::Reverse => Box::new((0..records).rev().cycle()),
        Pattern::Same => Box::new(std::iter::repeat(0)),
        Pattern::Random { replacement: true } => {
            let mut rng = Rng::new(workload.seed, 0);
            Box::new(std::iter::repeat_with(move || rng.below(records)))
        }
        Pattern::Random { .. } | Pattern::Stride { .. } => {
            let expected = format!("at most {MOST_RECORDS_IN_ORDER} records in this order");
            let fits = records <= MOST_RECORDS_IN_ORDER;
            require(fits, "span", format!("{records} records"), expected)?;
            Box::new(workload.order().into_iter().map(u64::from).cycle())
        }
    };
    let (direction, record) = (workload.direction, workload.record);
    let mut mix = Rng::new(workload.seed, 1);
    let mut times = Rng::new(workload.seed, 2);
    let arrivals = workload.arrivals;
    let mut now_ns = 0.0;
    Ok(Box::new(std::iter::from_fn(move || {
        let is_write = match direction {
            Direction::Read => false,
            Direction::Write => true,
            Direction::Mixed { read_percent } => mix.below(100) >= u64::from(read_percent),
        };
        now_ns += match arrivals {
            Arrivals::Closed { .. } => 0.0,
            Arrivals::Poisson { rate_per_s } => times.exponential(1e9 / rate_per_s),
            Arrivals::Constant { rate_per_s } => 1e9 / rate_per_s,
        };
        Some(Request {
            arrival: Nanos(now_ns as u64),
            offset: Bytes(order.next()? * record.0),
            length: record,
            is_write,
        })
    })))
}

/// A request with what a trace knows about it.
#[derive(Clone, Copy, Debug)]
pub struct Replayed {
    /// The request at its time in the trace.
    pub request: Request,
    /// Its measured response time.
    pub measured_ns: Option<u64>,
}

impl From<Request> for Replayed {
    fn from(request: Request) -> Self {
        Replayed {
            request,
            measured_ns: None,
        }
    }
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// At their own times.
    #[default]
    AtTimes,
    /// So many are always outstanding.
    Closed(u32),
    /// Each follows the completion of the one before after its think time: its measured arrival
    /// less the measured completion before it, at least 0.
    Think,
}

enum Gate {
    AtTimes,
    /// When requests may still be issued.
    Closed(VecDeque<u64>),
    /// The last completion: measured, and simulated if there was one.
    Think {
        measured_ns: u64,
        simulated_ns: Option<u64>,
    },
}

/// Requests with their times of arrival.
pub(super) struct Source<'a> {
    requests: Peekable<Box<dyn Iterator<Item = Replayed> + 'a>>,
    gate: Gate,
}

impl<'a> Source<'a> {
    pub(super) fn new(requests: Box<dyn Iterator<Item = Replayed> + 'a>, pace: Pace) -> Self {
        Source {
            requests: requests.peekable(),
            gate: match pace {
                Pace::AtTimes => Gate::AtTimes,
                Pace::Closed(depth) => Gate::Closed(vec![0; depth as usize].into()),
                Pace::Think => Gate::Think {
                    measured_ns: 0,
                    simulated_ns: Some(0),
                },
            },
        }
    }

    /// Whether arrivals wait for completions.
    pub(super) fn is_closed(&self) -> bool {
        !matches!(self.gate, Gate::AtTimes)
    }

    /// When the next request arrives; nothing when none will before a completion.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        let arrival_ns = self.requests.peek()?.request.arrival.0;
        match &self.gate {
            Gate::AtTimes => Some(arrival_ns),
            Gate::Closed(times) => times.front().copied(),
            Gate::Think {
                measured_ns,
                simulated_ns,
            } => {
                let think_ns = arrival_ns.saturating_sub(*measured_ns);
                simulated_ns.map(|done_ns| done_ns + think_ns)
            }
        }
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Option<Replayed> {
        let at_ns = self.next_ns()?;
        let mut next = self.requests.next()?;
        match &mut self.gate {
            Gate::AtTimes => {}
            Gate::Closed(times) => drop(times.pop_front()),
            Gate::Think {
                measured_ns,
                simulated_ns,
            } => {
                *measured_ns = next.request.arrival.0 + next.measured_ns.unwrap_or(0);
                *simulated_ns = None;
            }
        }
        next.request.arrival = Nanos(at_ns);
        Some(next)
    }

    /// A request has completed; in a closed loop the next one is issued.
    pub(super) fn completed(&mut self, now_ns: u64) {
        match &mut self.gate {
            Gate::AtTimes => {}
            Gate::Closed(times) => times.push_back(now_ns),
            Gate::Think { simulated_ns, .. } => *simulated_ns = Some(now_ns),
        }
    }
}
