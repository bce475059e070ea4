//! What blkparse and blktrace have in common: events of the block layer become requests.

use std::collections::HashMap;

use schedlab_model::Nanos;

use super::super::reader::Parsed;
use super::super::{record, Event, Mismatch, TraceRecord};

/// More requests than any device has in flight.
const IN_FLIGHT_MAX: usize = 1 << 18;

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Queue,
    Dispatch,
    Complete,
}

/// One event with I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlkEvent {
    pub time_ns: u64,
    pub device: u32,
    pub process: u32,
    pub offset: u64,
    pub length: u64,
    pub action: Action,
    pub is_write: bool,
    pub trim: bool,
    /// Somebody waits for it.
    pub sync: bool,
}

/// Chooses the events that are arrivals, and joins dispatch and completion.
pub(super) struct Tracker {
    event: Event,
    dispatched: HashMap<(u32, u64), TraceRecord>,
}

impl Tracker {
    pub(super) fn new(event: Event) -> Self {
        Tracker {
            event,
            dispatched: HashMap::new(),
        }
    }

    /// The request that the event makes known, if any.
    #[inline]
    pub(super) fn see(&mut self, event: &BlkEvent) -> Parsed {
        let new_record = || TraceRecord {
            trim: event.trim,
            device: event.device,
            // Whoever dispatches a request may not be who sent it.
            process: (event.action == Action::Queue).then_some(event.process),
            is_async: !event.sync,
            ..record(event.time_ns, event.offset, event.length, event.is_write)
        };
        let key = (event.device, event.offset);
        match (self.event, event.action) {
            (Event::Queue, Action::Queue) | (Event::Dispatch, Action::Dispatch) => {
                Ok(Some(new_record()))
            }
            (Event::Complete, Action::Dispatch) => {
                if self.dispatched.len() >= IN_FLIGHT_MAX {
                    return Err(Mismatch("completions of the requests that were dispatched"));
                }
                self.dispatched.insert(key, new_record());
                Ok(None)
            }
            (Event::Complete, Action::Complete) => Ok(self.dispatched.remove(&key).map(|mut r| {
                let took_ns = event.time_ns.saturating_sub(r.request.arrival.0);
                r.latency = Some(Nanos(took_ns));
                r
            })),
            _ => Ok(None),
        }
    }
}
