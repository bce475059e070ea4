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

/// Requests with their times of arrival: given, or as soon as another has completed.
pub(super) struct Source<'a> {
    requests: Peekable<Box<dyn Iterator<Item = Request> + 'a>>,
    /// In a closed loop, when requests may still be issued.
    issue_at: Option<VecDeque<u64>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        requests: Box<dyn Iterator<Item = Request> + 'a>,
        depth: Option<u32>,
    ) -> Self {
        Source {
            requests: requests.peekable(),
            issue_at: depth.map(|depth| vec![0; depth as usize].into()),
        }
    }

    /// When the next request arrives; nothing when none will before a completion.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        let request = self.requests.peek()?;
        match &self.issue_at {
            None => Some(request.arrival.0),
            Some(times) => times.front().copied(),
        }
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Option<Request> {
        let mut request = self.requests.next()?;
        if let Some(times) = &mut self.issue_at {
            request.arrival = Nanos(times.pop_front()?);
        }
        Some(request)
    }

    /// A request has completed; in a closed loop the next one is issued.
    pub(super) fn completed(&mut self, now_ns: u64) {
        if let Some(times) = &mut self.issue_at {
            times.push_back(now_ns);
        }
    }
}
