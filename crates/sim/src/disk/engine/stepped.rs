//! The disk in steps: one event is the completion of the command in service, if there is one, and
//! the start of the next.

use std::collections::VecDeque;

use schedlab_model::{Bytes, Nanos, Request};

use super::{policy, DiskSpec, Engine, SimError, Source};
use crate::stepped::{Completion, Kind, Stepped, Submission};

/// A disk whose requests come one by one, at times that are not known before.
pub struct SteppedDisk {
    engine: Engine<'static>,
    /// Completion time and tag of the command in service.
    serving: Option<(u64, u64)>,
    /// What costs no time: discards, and flushes of a disk that caches no writes.
    instant: VecDeque<Completion>,
    last_arrival_ns: u64,
}

impl SteppedDisk {
    /// An idle disk at time 0 with the policy of that name.
    pub fn new(spec: &DiskSpec, policy: &str) -> Result<Self, SimError> {
        spec.check()?;
        let nothing = Source::new(Box::new(std::iter::empty()), None);
        Ok(SteppedDisk {
            engine: Engine::new(spec, policy::find(policy)?, nothing),
            serving: None,
            instant: VecDeque::new(),
            last_arrival_ns: 0,
        })
    }

    fn is_waiting(&self) -> bool {
        !(self.engine.queue.is_empty() && self.engine.host.is_empty())
    }
}

impl Stepped for SteppedDisk {
    fn capacity_bytes(&self) -> u64 {
        self.engine.spec.capacity().0
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        let Submission { at_ns, tag, .. } = submission;
        self.last_arrival_ns = at_ns;
        if matches!(submission.kind, Kind::Trim | Kind::Flush) {
            self.instant.push_back(Completion { tag, at_ns });
            return Ok(());
        }
        let request = Request {
            arrival: Nanos(at_ns),
            offset: Bytes(submission.offset_bytes),
            length: Bytes(submission.length_bytes),
            is_write: submission.kind == Kind::Write,
        };
        let queued = self.engine.queued(request, tag)?;
        self.engine.host.push_back(queued);
        Ok(())
    }

    fn next_time_ns(&self) -> Option<u64> {
        let instant = self.instant.front().map(|completion| completion.at_ns);
        let command = match self.serving {
            Some((done_ns, _)) => Some(done_ns),
            None => self.is_waiting().then_some(self.last_arrival_ns),
        };
        match (instant, command) {
            (Some(instant), Some(command)) => Some(instant.min(command)),
            (one, other) => one.or(other),
        }
    }

    fn advance(&mut self, completions: &mut Vec<Completion>) {
        let Some(now_ns) = self.next_time_ns() else {
            return;
        };
        while self.instant.front().is_some_and(|c| c.at_ns == now_ns) {
            completions.extend(self.instant.pop_front());
        }
        match self.serving {
            Some((done_ns, _)) if done_ns > now_ns => return,
            Some((at_ns, tag)) => completions.push(Completion { tag, at_ns }),
            None => {}
        }
        self.serving = None;
        self.engine.fill_queue();
        if !self.engine.queue.is_empty() {
            self.serving = Some(self.engine.serve_next(now_ns));
        }
    }
}
