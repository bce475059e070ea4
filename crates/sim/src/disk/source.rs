//! Where requests come from: a workload's endless stream, open or closed.

use std::collections::VecDeque;
use std::iter::Peekable;

use schedlab_model::{Arrivals, Bytes, Direction, Nanos, Pattern, Request, Rng, Workload};

use crate::error::require;
use crate::SimError;

/// A random order without replacement is kept in memory as 4 bytes a record.
const MOST_RECORDS_IN_ORDER: u64 = 100_000_000;

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
