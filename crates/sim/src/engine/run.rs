//! The loop: requests arrive at the host, enter the command window when it has room, are
//! dispatched in the order of the policy, and are completed by the device.

mod stepped;

use std::collections::VecDeque;

use schedlab_model::{Nanos, Stop};

pub use stepped::SteppedDevice;

use super::{Logged, Measures, Report, WarmUp};
use crate::device::{Device, BATCH};
use crate::window::{Command, Policy, Window};
use crate::workload::{Incoming, Source};
use crate::SimError;

/// Steps between two checks of the stop flag; well under 1 ms.
const STEPS_PER_LOOK: u32 = 4096;

/// One device with its command window and the host's queue behind it.
pub struct Simulation<D> {
    device: D,
    page_bytes: u64,
    policy: Box<dyn Policy>,
    uses_buffer: bool,
    is_volatile: bool,
    is_stateless: bool,
    window: Window,
    window_depth: usize,
    /// Requests that the window has no room for, in order of arrival.
    waiting: VecDeque<Command>,
    measures: Measures,
    completed_commands: Vec<Command>,
    /// Commands of requests that were drawn together, and how many of them arrived.
    ahead: Vec<Command>,
    ahead_arrived: usize,
    drawn: u64,
    last_arrival_ns: u64,
    /// Index and time of each completion, where a caller steps the device and requests them.
    completions: Option<Vec<(u64, u64)>>,
}

impl<D: Device> Simulation<D> {
    /// A simulation at time 0 with nothing in it.
    pub fn new(
        device: D,
        policy: Box<dyn Policy>,
        window: Window,
        window_depth: u32,
        log: bool,
    ) -> Self {
        Simulation {
            page_bytes: device.page_bytes(),
            device,
            uses_buffer: policy.uses_buffer(),
            is_volatile: policy.is_volatile(),
            is_stateless: policy.is_stateless(),
            policy,
            window,
            window_depth: window_depth as usize,
            waiting: VecDeque::new(),
            measures: Measures::new(log, WarmUp::default()),
            completed_commands: Vec::new(),
            ahead: Vec::with_capacity(BATCH),
            ahead_arrived: 0,
            drawn: 0,
            last_arrival_ns: 0,
            completions: None,
        }
    }

    /// The same, of which only what follows the warm-up is reported.
    pub fn after(mut self, warm_up: WarmUp) -> Self {
        self.measures = Measures::new(self.measures.keeps_log(), warm_up);
        self
    }

    /// Runs until every request of `source` is completed.
    pub fn run(
        mut self,
        source: &mut dyn Source,
        stop: &Stop,
    ) -> Result<(Report, Vec<Logged>, D), SimError> {
        let closed_loop = source.outstanding();
        let mut next_ns = match closed_loop {
            Some(outstanding) => {
                for _ in 0..outstanding {
                    self.issue(source, 0)?;
                }
                self.dispatch(0)?;
                None
            }
            None => self.next_arrival(source)?,
        };
        self.reissue(source, closed_loop, 0)?;
        let mut steps = 0;
        loop {
            steps += 1;
            if steps % STEPS_PER_LOOK == 0 && stop.is_set() {
                return Err(SimError::Stopped);
            }
            // While nothing waits, only an arrival or the end of a command matters out here.
            let passed_ns = match self.window.is_empty() {
                true => {
                    let end_ns = next_ns.unwrap_or(u64::MAX);
                    self.device.pass(end_ns, &mut self.completed_commands)
                }
                false => None,
            };
            let event_ns = passed_ns.or_else(|| self.device.next_time_ns());
            if let Some(at_ns) = next_ns {
                if self.may_pass(at_ns, event_ns) {
                    next_ns = self.pass_alone(source, at_ns)?;
                    continue;
                }
            }
            let now_ns = match (next_ns, event_ns) {
                (None, None) => break,
                (Some(next_ns), None) => next_ns,
                (None, Some(event_ns)) => event_ns,
                (Some(next_ns), Some(event_ns)) => next_ns.min(event_ns),
            };
            while next_ns.is_some_and(|next_ns| next_ns <= now_ns) {
                let command = self.ahead[self.ahead_arrived];
                self.ahead_arrived += 1;
                self.arrive(command)?;
                next_ns = self.next_arrival(source)?;
            }
            while self.device.next_time_ns() == Some(now_ns) {
                self.advance();
            }
            self.complete(now_ns);
            if !self.window.is_empty() {
                self.dispatch(now_ns)?;
            }
            self.reissue(source, closed_loop, now_ns)?;
        }
        let depth = closed_loop.is_none().then_some(self.window_depth as u64);
        let (mut report, log) =
            self.measures
                .finish(self.device.usage(), self.device.page_bytes(), depth);
        report.trace = source.summary();
        Ok((report, log, self.device))
    }

    /// Lets the device's next event happen, and the waiting commands see what it changed.
    #[inline]
    fn advance(&mut self) {
        self.device.advance(&mut self.completed_commands);
        if self.uses_buffer && self.device.changes_later() {
            self.window
                .refresh(self.device.changed(), &*self.policy, &self.device);
        }
    }

    /// Whether a request that arrives now finds nothing that waits and a device that can take it,
    /// before anything else happens: it needs no window then.
    #[inline]
    fn may_pass(&self, at_ns: u64, event_ns: Option<u64>) -> bool {
        self.is_stateless
            && event_ns.is_none_or(|event_ns| event_ns > at_ns)
            && self.window.is_empty()
            && self.waiting.is_empty()
            && self.device.is_ready()
    }

    /// Hands the next request to the device at once, unless another arrives at the same time;
    /// gives when the next one arrives.
    #[inline]
    fn pass_alone(&mut self, source: &mut dyn Source, at_ns: u64) -> Result<Option<u64>, SimError> {
        let mut command = self.ahead[self.ahead_arrived];
        self.ahead_arrived += 1;
        self.measures.arrived(at_ns);
        let next_ns = self.next_arrival(source)?;
        if next_ns == Some(at_ns) {
            self.enter(command, at_ns)?;
            return Ok(next_ns);
        }
        if self.uses_buffer {
            command.missing = self.missing(&command);
        }
        self.device
            .start(at_ns, &command, &mut self.completed_commands);
        self.complete(at_ns);
        Ok(next_ns)
    }

    /// When the next request of an open-loop source arrives, the first in `ahead` that did not.
    #[inline]
    fn next_arrival(&mut self, source: &mut dyn Source) -> Result<Option<u64>, SimError> {
        if self.ahead_arrived == self.ahead.len() {
            self.draw(source)?;
        }
        let next = self.ahead.get(self.ahead_arrived);
        Ok(next.map(|command| command.arrival_ns))
    }

    /// Draws several requests at once; what the device will look up for them is fetched from
    /// memory for all at the same time. They are read later: what was just written in pieces
    /// could only be copied after a wait.
    #[inline(never)]
    fn draw(&mut self, source: &mut dyn Source) -> Result<(), SimError> {
        self.ahead.clear();
        self.ahead_arrived = 0;
        while self.ahead.len() < BATCH {
            let next = source.next_request();
            match &next {
                Ok(Some(incoming)) => {
                    self.check(incoming)?;
                    let command = self.command(incoming);
                    self.ahead.push(command);
                }
                Ok(None) => break,
                Err(_) => return next.map(drop),
            }
        }
        self.device.prefetch(&self.ahead);
        Ok(())
    }

    /// Closed loop: lets the next request come for each one completed, until all outstanding ones
    /// take time.
    #[inline]
    fn reissue(
        &mut self,
        source: &mut dyn Source,
        closed_loop: Option<u32>,
        now_ns: u64,
    ) -> Result<(), SimError> {
        let Some(outstanding) = closed_loop else {
            return Ok(());
        };
        while self.measures.outstanding() < u64::from(outstanding) {
            if !self.issue(source, now_ns)? {
                break;
            }
            self.dispatch(now_ns)?;
        }
        Ok(())
    }

    /// Takes a request from a closed-loop source; false when there is none.
    fn issue(&mut self, source: &mut dyn Source, now_ns: u64) -> Result<bool, SimError> {
        let Some(mut incoming) = source.next_request()? else {
            return Ok(false);
        };
        incoming.request.arrival = Nanos(now_ns);
        self.check(&incoming)?;
        let command = self.command(&incoming);
        self.arrive(command)?;
        Ok(true)
    }

    /// Puts a command that arrives into the window or behind it.
    fn arrive(&mut self, command: Command) -> Result<(), SimError> {
        self.measures.arrived(command.arrival_ns);
        if self.waiting.is_empty() && self.window.len() < self.window_depth {
            return self.enter(command, command.arrival_ns);
        }
        self.waiting.push_back(command);
        Ok(())
    }

    /// Pages of a command that are not in the buffer, if the policy uses them.
    #[inline]
    fn missing(&self, command: &Command) -> u32 {
        if self.uses_buffer {
            self.device.missing(command.first_page, command.pages)
        } else {
            command.pages
        }
    }

    /// Refuses a next request that does not fit.
    #[inline]
    fn check(&self, incoming: &Incoming) -> Result<(), SimError> {
        let request = &incoming.request;
        let size_bytes = u64::from(self.device.pages()) * self.page_bytes;
        let wrong = |key, value: u64, expected: String| SimError::Request {
            index: self.drawn,
            key,
            value: value.to_string(),
            expected,
        };
        if request.arrival.0 < self.last_arrival_ns {
            let expected = format!("at least {} ns: sorted by arrival", self.last_arrival_ns);
            return Err(wrong("arrival", request.arrival.0, expected));
        }
        let end_bytes = request.offset.0.checked_add(request.length.0);
        if request.offset.0 >= size_bytes || end_bytes.is_none_or(|end| end > size_bytes) {
            let expected = format!("0 to {size_bytes} (the device's end) with its length");
            return Err(wrong("offset", request.offset.0, expected));
        }
        Ok(())
    }

    /// The command of the next request, which was checked.
    #[inline]
    fn command(&mut self, incoming: &Incoming) -> Command {
        let request = &incoming.request;
        let (index, page_bytes) = (self.drawn, self.page_bytes);
        let first = request.offset.0 / page_bytes;
        let end = match request.length.0 {
            0 => first,
            length => (request.offset.0 + length).div_ceil(page_bytes),
        };
        let (first, end) = match incoming.trim {
            true => {
                covered(request.offset.0, request.length.0, page_bytes).unwrap_or((first, first))
            }
            false => (first, end),
        };
        let (arrival_ns, pages) = (request.arrival.0, (end - first) as u32);
        self.drawn += 1;
        self.last_arrival_ns = arrival_ns;
        Command {
            index,
            arrival_ns,
            admitted_ns: arrival_ns,
            dispatched_ns: arrival_ns,
            first_page: first as u32,
            pages,
            missing: pages,
            is_write: request.is_write,
            is_trim: incoming.trim,
        }
    }

    /// Lets a command into the window.
    fn enter(&mut self, mut command: Command, now_ns: u64) -> Result<(), SimError> {
        command.admitted_ns = now_ns;
        command.missing = self.missing(&command);
        let compares = self.window.compares_on_entry();
        if compares && self.policy.estimates_together() && !command.is_trim {
            let estimates = self
                .policy
                .estimate_together(&[command], now_ns, &self.device)?;
            self.window.admit_with(command, estimates[0]);
        } else {
            self.window.admit(command, &*self.policy, &self.device);
        }
        Ok(())
    }

    /// Fills the window from the host's queue.
    fn admit(&mut self, now_ns: u64) -> Result<(), SimError> {
        while self.window.len() < self.window_depth {
            let Some(command) = self.waiting.pop_front() else {
                break;
            };
            self.enter(command, now_ns)?;
        }
        Ok(())
    }

    /// Hands commands to the device until it or the window has no more.
    fn dispatch(&mut self, now_ns: u64) -> Result<(), SimError> {
        while !self.window.is_empty() && self.device.is_ready() {
            if self.is_volatile {
                self.window.estimate_all(&*self.policy, &self.device);
            }
            if self.policy.estimates_together() {
                self.window
                    .complete_estimates(now_ns, &mut *self.policy, &self.device)?;
            }
            let position = self.policy.select(&self.window, now_ns, &self.device)?;
            let mut command = self.window.take(position);
            command.dispatched_ns = now_ns;
            self.admit(now_ns)?;
            self.device
                .start(now_ns, &command, &mut self.completed_commands);
            if self.uses_buffer {
                self.window
                    .refresh(self.device.changed(), &*self.policy, &self.device);
            }
            self.complete(now_ns);
        }
        Ok(())
    }

    #[inline]
    fn complete(&mut self, now_ns: u64) {
        if !self.completed_commands.is_empty() {
            self.measure_completed(now_ns);
        }
    }

    fn measure_completed(&mut self, now_ns: u64) {
        for command in &self.completed_commands {
            if self.measures.is_warm_at(now_ns) {
                self.measures.begin(now_ns, self.device.usage());
            }
            self.measures.completed(now_ns, command);
            if self.device.is_cold() {
                self.measures.was_cold();
            }
            if let Some(completions) = &mut self.completions {
                completions.push((command.index, now_ns));
            }
        }
        self.completed_commands.clear();
    }
}

/// First page and end of those that a range covers completely; what else a page holds must stay.
fn covered(offset: u64, length: u64, page_bytes: u64) -> Option<(u64, u64)> {
    let (first, end) = (offset.div_ceil(page_bytes), (offset + length) / page_bytes);
    (first < end).then_some((first, end))
}
