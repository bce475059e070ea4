//! The disk in steps: one event is the completion of the command in service, if there is one, and
//! the start of the next.

use std::collections::VecDeque;

use super::{Disk, DiskSpec, SimError};
use crate::stepped::{Completion, Kind, Stepped, Submission};

/// A disk whose requests come one by one, at times that are not known before.
pub struct SteppedDisk {
    disk: Disk,
    /// Commands that were submitted and not yet started.
    waiting: usize,
    /// Flushes that wait for the end of the command in service: they cover only writes that are
    /// complete, so those that wait may come later.
    flushes: VecDeque<u64>,
    /// Completion time and tag of the command in service.
    serving: Option<(u64, u64)>,
    /// Completions that cost no time: discards, and flushes of a disk that caches no writes.
    instant: VecDeque<Completion>,
    last_arrival_ns: u64,
}

impl SteppedDisk {
    /// An idle disk at time 0 with the policy of that name.
    pub fn new(spec: &DiskSpec, policy: &str) -> Result<Self, SimError> {
        spec.check()?;
        Ok(SteppedDisk {
            disk: Disk::new(spec, policy)?,
            waiting: 0,
            flushes: VecDeque::new(),
            serving: None,
            instant: VecDeque::new(),
            last_arrival_ns: 0,
        })
    }

    fn is_waiting(&self) -> bool {
        self.waiting > 0 || !self.flushes.is_empty()
    }
}

impl Stepped for SteppedDisk {
    fn capacity_bytes(&self) -> u64 {
        self.disk.capacity_bytes()
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        let Submission { at_ns, tag, .. } = submission;
        self.last_arrival_ns = at_ns;
        match submission.kind {
            Kind::Trim => {
                self.instant.push_back(Completion { tag, at_ns });
                return Ok(());
            }
            Kind::Flush if self.disk.writes.is_none() => {
                self.instant.push_back(Completion { tag, at_ns });
                return Ok(());
            }
            Kind::Flush => {
                self.flushes.push_back(tag);
                return Ok(());
            }
            Kind::Read | Kind::Write => {}
        }
        self.disk.submit(tag, submission.request())?;
        self.waiting += 1;
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
        if let Some(tag) = self.flushes.pop_front() {
            self.serving = Some((self.disk.drain(now_ns), tag));
        } else if let Some(served) = self.disk.serve(now_ns) {
            self.waiting -= 1;
            self.serving = Some((served.done_ns, served.tag));
        }
    }
}
