//! A device of pages in steps: the same window, policy and device as a batch run.

use std::collections::VecDeque;

use super::{Device, Incoming, SimError, Simulation};
use crate::stepped::{Completion, Kind, Stepped, Submission};

/// A simulation whose requests come one by one, at times that are not known before.
pub struct SteppedDevice<D> {
    simulation: Simulation<D>,
    /// Tags of the requests from `first_index` on; nothing for those that are done.
    tags: VecDeque<Option<u64>>,
    first_index: u64,
    /// Time of submissions that were not offered to the device yet.
    undispatched_ns: Option<u64>,
    /// Free of cost: flushes, because the page buffer counts as protected against power loss.
    instant: VecDeque<Completion>,
}

impl<D: Device> SteppedDevice<D> {
    /// Steps a simulation with nothing in it.
    pub fn new(mut simulation: Simulation<D>) -> Self {
        simulation.completions = Some(Vec::new());
        SteppedDevice {
            simulation,
            tags: VecDeque::new(),
            first_index: 0,
            undispatched_ns: None,
            instant: VecDeque::new(),
        }
    }

    fn hand_out(&mut self, completions: &mut Vec<Completion>) {
        let Some(device_completions) = &mut self.simulation.completions else {
            return;
        };
        for (index, at_ns) in device_completions.drain(..) {
            let place = (index - self.first_index) as usize;
            let tag = self.tags.get_mut(place).and_then(Option::take);
            completions.extend(tag.map(|tag| Completion { tag, at_ns }));
        }
        while self.tags.front() == Some(&None) {
            self.tags.pop_front();
            self.first_index += 1;
        }
    }
}

impl<D: Device> Stepped for SteppedDevice<D> {
    fn capacity_bytes(&self) -> u64 {
        u64::from(self.simulation.device.pages()) * self.simulation.page_bytes
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        let Submission { at_ns, tag, .. } = submission;
        if submission.kind == Kind::Flush {
            self.instant.push_back(Completion { tag, at_ns });
            return Ok(());
        }
        let incoming = Incoming {
            trim: submission.kind == Kind::Trim,
            ..Incoming::from(submission.request())
        };
        self.simulation.check(&incoming)?;
        let command = self.simulation.command(&incoming);
        self.simulation.arrive(command)?;
        self.tags.push_back(Some(tag));
        self.undispatched_ns = Some(at_ns);
        Ok(())
    }

    fn next_time_ns(&self) -> Option<u64> {
        let device_ns = self.simulation.device.next_time_ns();
        let instant_ns = self.instant.front().map(|completion| completion.at_ns);
        let times = [device_ns, instant_ns, self.undispatched_ns];
        times.into_iter().flatten().min()
    }

    fn advance(&mut self, completions: &mut Vec<Completion>) {
        let Some(now_ns) = self.next_time_ns() else {
            return;
        };
        while self.instant.front().is_some_and(|c| c.at_ns == now_ns) {
            completions.extend(self.instant.pop_front());
        }
        if self.undispatched_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.undispatched_ns = None;
        }
        let simulation = &mut self.simulation;
        while simulation.device.next_time_ns() == Some(now_ns) {
            simulation.advance();
        }
        simulation.complete(now_ns);
        // Built-in policies cannot fail; those from Python are not stepped.
        let _infallible = simulation.dispatch(now_ns);
        self.hand_out(completions);
    }
}
