//! Where requests come from: generators, traces, arrays.

mod arrays;
mod replay;
mod synthetic;

pub use arrays::Arrays;
pub use replay::{Replay, ReplayOptions, ReplaySummary, VolumeUse};
pub use synthetic::{Arrival, Order, Synthetic, SyntheticSpec, NAMED};

pub use schedlab_model::Real;

use schedlab_model::Request;

use crate::SimError;

/// A request as it reaches the simulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// When, where and how much.
    pub request: Request,
    /// Discards the range instead of reading or writing it.
    pub trim: bool,
}

impl Incoming {
    /// Arrival in ns.
    #[inline]
    pub fn arrival_ns(&self) -> u64 {
        self.request.arrival.0
    }
}

impl From<Request> for Incoming {
    fn from(request: Request) -> Self {
        Incoming {
            request,
            trim: false,
        }
    }
}

/// A stream of requests, sorted by arrival.
pub trait Source {
    /// The next request, nothing at the end, or why it could not be read.
    fn next_request(&mut self) -> Result<Option<Incoming>, SimError>;

    /// Closed loop: so many requests are always outstanding; their arrival is then set by the
    /// completion of others, and the one in the stream is ignored.
    fn outstanding(&self) -> Option<u32> {
        None
    }

    /// Each request follows the completion before it after the think time that was measured.
    fn thinks(&self) -> bool {
        false
    }

    /// The response time, in ns, that was measured of the request given last.
    fn measured_ns(&self) -> Option<u64> {
        None
    }

    /// The summary of a trace, as far as it was replayed.
    fn summary(&self) -> Option<ReplaySummary> {
        None
    }
}

/// Every iterator of requests is an open-loop source.
impl<I: Iterator<Item = Result<Incoming, SimError>>> Source for I {
    #[inline]
    fn next_request(&mut self) -> Result<Option<Incoming>, SimError> {
        self.next().transpose()
    }
}
