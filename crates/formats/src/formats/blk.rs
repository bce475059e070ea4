//! What blkparse and blktrace have in common: events of the block layer become requests.

use std::collections::HashMap;

use schedlab_model::Nanos;

use super::super::{record, Event, Mismatch, TraceRecord};
use super::{Parsed, SECOND};

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

/// What the letters of an operation say, such as `WFS`: (is a write, is a trim, somebody waits);
/// nothing of those that carry no I/O. `F` is a flush before it or, after the letter of the
/// operation, FUA.
pub(super) fn operation(letters: &[u8]) -> Option<(bool, bool, bool)> {
    let has = |letter: u8| letters.contains(&letter);
    let trim = has(b'D');
    let waits = has(b'R') || has(b'S') || has(b'F');
    (trim || has(b'R') || has(b'W')).then_some((!trim && has(b'W'), trim, waits))
}

/// How many events of each kind carried I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Seen {
    queue: u64,
    dispatch: u64,
    complete: u64,
}

impl Seen {
    /// Whether there is one.
    pub(in super::super) fn any(&self) -> bool {
        self.queue + self.dispatch + self.complete > 0
    }

    /// What a trace without requests has instead, and the option that reads it.
    pub(in super::super) fn why(&self, wanted: Event) -> String {
        let names = [
            ("Q", self.queue, "queue"),
            ("D", self.dispatch, "dispatch"),
            ("C", self.complete, ""),
        ];
        let present: Vec<String> = names
            .iter()
            .filter(|(_, count, _)| *count > 0)
            .map(|(name, count, _)| format!("{count} {name}"))
            .collect();
        let missing = match wanted {
            Event::Queue => "no Q event",
            Event::Dispatch => "no D event",
            Event::Complete => "no D event with its C",
        };
        let usable = names[..2].iter().find(|(_, count, _)| *count > 0);
        let option = usable.map_or("capture the queue or issue events", |(_, _, option)| option);
        let option = if usable.is_some() {
            format!("use --event {option}")
        } else {
            option.to_owned()
        };
        format!("{missing}; it has {}: {option}", present.join(", "))
    }
}

/// The first and the last sequence number of each device and CPU: after higher ones, the first
/// comes again only in another capture.
#[derive(Default)]
pub(super) struct Sequences {
    range: HashMap<(u32, u64), (u64, u64)>,
}

impl Sequences {
    /// Refuses what cannot follow in one capture. Messages have no number of their own.
    pub(super) fn see(&mut self, device: u32, cpu: u64, sequence: u64) -> Result<(), Mismatch> {
        const CPUS_MAX: usize = 1 << 16;
        if sequence == 0 || self.range.len() >= CPUS_MAX {
            return Ok(());
        }
        let range = self.range.entry((device, cpu));
        let (first, last) = range.or_insert((sequence, sequence));
        if sequence <= *first && *last > *first {
            return Err(Mismatch(SECOND));
        }
        *last = sequence.max(*last);
        Ok(())
    }
}

/// Chooses the events that are arrivals, and joins dispatch and completion.
pub(super) struct Tracker {
    event: Event,
    dispatched: HashMap<(u32, u64), TraceRecord>,
    seen: Seen,
}

impl Tracker {
    pub(super) fn new(event: Event) -> Self {
        Tracker {
            event,
            dispatched: HashMap::new(),
            seen: Seen::default(),
        }
    }

    /// Whether that event is the arrival.
    pub(super) fn arrives_at(&self, event: Event) -> bool {
        self.event == event
    }

    /// The events seen so far.
    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// The request that the event makes known, if any.
    #[inline]
    pub(super) fn see(&mut self, event: &BlkEvent) -> Parsed {
        match event.action {
            _ if event.length == 0 => {} // a flush
            Action::Queue => self.seen.queue += 1,
            Action::Dispatch => self.seen.dispatch += 1,
            Action::Complete => self.seen.complete += 1,
        }
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
                r.waited = Some([Nanos(0), Nanos(0)]);
                r
            })),
            _ => Ok(None),
        }
    }
}
