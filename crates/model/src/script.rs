//! A recorded stream of requests as work to be done again: what each request does, and when it
//! starts. The dependencies are inferred from the times of the record, as block-level replay tools
//! such as TBBT (Zhu et al., FAST 2005) and hfplayer (Haghdoost et al., FAST 2017) do.
//!
//! A [`Script`] is the stream, a [`Course`] is one replay of it: a state machine without a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Two completions that are so close before an arrival may both have caused it.
const AMBIGUOUS_NS: u64 = 20_000;
const NONE: u32 = u32::MAX;
/// From so many think times on their lower decile is what waking up and submitting takes; no more
/// than that, because a program may need more after each.
const OWN_COST_SAMPLES: usize = 100;
const OWN_COST_NS_MAX: u64 = 100_000;

/// When the requests of a script start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// After the completion that it waited for, and the time that the program then needed.
    #[default]
    Dependent,
    /// At the recorded time, whether or not earlier requests have completed.
    Open,
    /// As soon as no more requests are in flight than there were: no think time.
    Closed,
}

impl Timing {
    /// The name in jobs and results.
    pub fn name(self) -> &'static str {
        match self {
            Timing::Dependent => "dependent",
            Timing::Open => "open",
            Timing::Closed => "closed",
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub enum Action {
    Read,
    Write,
    /// Data that the page cache writes back; no program waits for it.
    WriteBack,
    Flush,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The beginning of the record.
    Begin,
    /// The start of an earlier request.
    Start(u32),
    /// The end of an earlier request.
    End(u32),
}

/// One request of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// What it does.
    pub action: Action,
    /// The data is on the device when a write ends.
    pub durable: bool,
    /// First byte on the target.
    pub offset: u64,
    /// Bytes.
    pub bytes: u32,
    /// Its start and its end, since the beginning of the record.
    pub at_ns: u64,
    /// The end, not before the start; the start itself where it is not known.
    pub end_ns: u64,
}

/// The requests of one stream in the order of their arrival, with their dependencies.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The requests.
    pub steps: Vec<ScriptStep>,
    /// What each waits for, and how long after that it starts.
    pub after: Vec<(After, u64)>,
    /// Requests in flight when each had started.
    pub depths: Vec<u32>,
    /// Arrivals with two completions shortly before.
    pub ambiguous: u64,
    /// Length of the whole record.
    period_ns: u64,
    think_limit_ns: u64,
}

impl Script {
    /// Infers what each of `steps`, sorted by arrival, waited for: the last completion before it,
    /// or, if that is longer ago than `think_limit_ns`, the arrival before it.
    pub fn new(steps: Vec<ScriptStep>, period_ns: u64, think_limit_ns: u64) -> Script {
        let mut ends: Vec<(u64, u32)> = (0..).zip(&steps).map(|(n, s)| (s.end_ns, n)).collect();
        ends.sort_unstable();
        let mut script = Script {
            period_ns,
            think_limit_ns,
            ..Script::default()
        };
        let mut ended = 0;
        for (number, step) in steps.iter().enumerate() {
            while ended < ends.len() && ends[ended].0 <= step.at_ns {
                ended += 1;
            }
            // What begins and ends at one time has ended after it began.
            let earlier = ends.partition_point(|end| *end < (step.at_ns, number as u32));
            let before = ends[..earlier].last();
            let near = |end: &(u64, u32)| step.at_ns - end.0 <= AMBIGUOUS_NS;
            script.ambiguous += u64::from(ended > 1 && near(&ends[ended - 2]));
            let after = match before {
                Some((end_ns, trigger)) if step.at_ns - end_ns <= think_limit_ns => {
                    // What its program waited for a CPU counts: the replay has nobody to wait for.
                    (After::End(*trigger), step.at_ns - end_ns)
                }
                _ if number == 0 => (After::Begin, step.at_ns),
                _ => (
                    After::Start(number as u32 - 1),
                    step.at_ns - steps[number - 1].at_ns,
                ),
            };
            script.after.push(after);
            script
                .depths
                .push((number + 1).saturating_sub(ended).max(1) as u32);
        }
        script.leave_out_own_cost();
        script.steps = steps;
        script
    }

    /// A replay wakes up and submits as the program did: this must not count twice.
    fn leave_out_own_cost(&mut self) {
        let is_end = |(after, _): &&mut (After, u64)| matches!(after, After::End(_));
        let mut delays: Vec<u64> = self.after.iter_mut().filter(is_end).map(|a| a.1).collect();
        if delays.len() < OWN_COST_SAMPLES {
            return;
        }
        let decile = delays.len() / 10;
        let own_ns = (*delays.select_nth_unstable(decile).1).min(OWN_COST_NS_MAX);
        for (_, delay_ns) in self.after.iter_mut().filter(is_end) {
            *delay_ns = delay_ns.saturating_sub(own_ns);
        }
    }

    /// Requests in flight at most.
    pub fn depth(&self) -> u32 {
        self.depths.iter().copied().max().unwrap_or(1)
    }

    /// From the last end to the first arrival of the next lap.
    fn gap_ns(&self) -> u64 {
        let last_ns = self.steps.iter().map(|step| step.end_ns).max();
        let first_ns = self.steps.first().map_or(0, |step| step.at_ns);
        self.period_ns.saturating_sub(last_ns.unwrap_or(0)) + first_ns
    }
}

/// A replay of a script, again and again, by times that the caller tells.
pub struct Course {
    script: Arc<Script>,
    timing: Timing,
    /// When the current lap began: where the times of the record are 0.
    lap_ns: u64,
    /// Dependent: requests that may start, by time.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Dependent: the first request that waits for the start and the end of each, and the next one
    /// that waits for the same.
    first: [Vec<u32>; 2],
    sibling: Vec<u32>,
    /// Open, closed: the next request.
    next: u32,
    in_flight: u32,
    /// Requests of this lap that have ended.
    ended: usize,
}

impl Course {
    /// A replay of a script that has requests.
    pub fn new(script: Arc<Script>, timing: Timing) -> Course {
        let count = script.steps.len();
        let mut first = [vec![NONE; count], vec![NONE; count]];
        let mut sibling = vec![NONE; count];
        for (number, (after, _)) in script.after.iter().enumerate().rev() {
            let place = match after {
                After::Begin => continue,
                After::Start(of) => &mut first[0][*of as usize],
                After::End(of) => &mut first[1][*of as usize],
            };
            sibling[number] = std::mem::replace(place, number as u32);
        }
        Course {
            script,
            timing,
            lap_ns: 0,
            waiting: BinaryHeap::with_capacity(count),
            first,
            sibling,
            next: 0,
            in_flight: 0,
            ended: 0,
        }
    }

    /// The step of a number.
    pub fn step(&self, number: u32) -> &ScriptStep {
        &self.script.steps[number as usize]
    }

    /// The record begins at `now`.
    pub fn begin(&mut self, now: u64) {
        self.lap_ns = now;
        self.waiting.push(Reverse((now + self.step(0).at_ns, 0)));
    }

    /// When the next request is due; nothing where it waits for a completion.
    pub fn due(&self) -> Option<u64> {
        match self.timing {
            Timing::Dependent => self.waiting.peek().map(|Reverse((due_ns, _))| *due_ns),
            Timing::Open => Some(self.lap_ns + self.step(self.next).at_ns),
            Timing::Closed => {
                (self.in_flight < self.script.depths[self.next as usize]).then_some(0)
            }
        }
    }

    /// Starts the next request if it is due: its number, and since when it is.
    pub fn start(&mut self, now: u64) -> Option<(u32, u64)> {
        let due_ns = self.due().filter(|due_ns| *due_ns <= now)?;
        self.in_flight += 1;
        if self.timing == Timing::Dependent {
            let Reverse((_, number)) = self.waiting.pop()?;
            self.release(0, number, due_ns);
            return Some((number, due_ns));
        }
        let number = self.next;
        self.next += 1;
        if self.next as usize == self.script.steps.len() {
            self.next = 0;
            self.lap_ns += self.script.period_ns;
        }
        Some((
            number,
            if self.timing == Timing::Closed {
                now
            } else {
                due_ns
            },
        ))
    }

    /// A request has ended.
    pub fn end(&mut self, number: u32, now: u64) {
        self.in_flight -= 1;
        if self.timing != Timing::Dependent {
            return;
        }
        self.release(1, number, now);
        self.ended += 1;
        if self.ended == self.script.steps.len() {
            self.ended = 0;
            // A stream that works all the time goes on; one that pauses keeps its period.
            let gap_ns = self.script.gap_ns();
            let lap_ns = self.lap_ns + self.script.period_ns;
            let (due_ns, begun_ns) = if gap_ns <= self.script.think_limit_ns {
                (now + gap_ns, now)
            } else {
                (now.max(lap_ns + self.step(0).at_ns), lap_ns)
            };
            self.lap_ns = begun_ns;
            self.waiting.push(Reverse((due_ns, 0)));
        }
    }

    /// Lets what waited for the start (0) or the end (1) of a request be due.
    fn release(&mut self, what: usize, number: u32, now: u64) {
        let mut follower = self.first[what][number as usize];
        while follower != NONE {
            let delay_ns = self.script.after[follower as usize].1;
            self.waiting.push(Reverse((now + delay_ns, follower)));
            follower = self.sibling[follower as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    /// Seven requests (start and end in µs): a burst of three, a follower of the second's end, one
    /// of the last end of the burst, a pause longer than the limit, and a follower after it.
    const RECORD: [(u64, u64); 7] = [
        (0, 100),
        (5, 80),
        (10, 300),
        (90, 150),
        (320, 400),
        (2000, 2100),
        (2130, 2200),
    ];

    fn script() -> Arc<Script> {
        let step = |(at, end): (u64, u64)| ScriptStep {
            action: Action::Read,
            durable: false,
            offset: 0,
            bytes: 4096,
            at_ns: at * US,
            end_ns: end * US,
        };
        Arc::new(Script::new(RECORD.map(step).to_vec(), 3000 * US, 500 * US))
    }

    /// Starts in µs of `count` requests on a device where each takes `service_us`.
    fn starts(timing: Timing, service_us: u64, count: usize) -> Vec<(u32, u64)> {
        let mut course = Course::new(script(), timing);
        course.begin(0);
        let (mut now, mut starts) = (0, Vec::new());
        let mut in_flight: Vec<(u64, u32)> = Vec::new();
        while starts.len() < count {
            while let Some((number, _)) = course.start(now) {
                starts.push((number, now / US));
                in_flight.push((now + service_us * US, number));
            }
            let ends = in_flight.iter().map(|end| end.0);
            now = ends
                .chain(course.due().filter(|due| *due > now))
                .min()
                .unwrap();
            in_flight.sort_unstable();
            while in_flight.first().is_some_and(|end| end.0 <= now) {
                course.end(in_flight.remove(0).1, now);
            }
        }
        starts.truncate(count);
        starts
    }

    #[test]
    fn each_request_waits_for_the_last_end_before_it_or_the_start_before_a_pause() {
        let script = script();
        let expected = [
            (After::Begin, 0),
            (After::Start(0), 5),
            (After::Start(1), 5),
            (After::End(1), 10),
            (After::End(2), 20),
            (After::Start(4), 1680),
            (After::End(5), 30),
        ];
        assert_eq!(script.after, expected.map(|(after, us)| (after, us * US)));
        assert_eq!(script.depths, [1, 2, 3, 3, 1, 1, 1]);
    }

    #[test]
    fn dependent_starts_stretch_with_the_device() {
        // On a device of 200 µs: 3 starts 10 µs after the end of 1 at 205, 4 starts 20 µs after
        // that of 2 at 210; 5 keeps its distance to 4; 6 starts 30 µs after the end of 5. The gap
        // of 800 µs is above the limit, so the second lap keeps the period.
        let expected = [
            (0, 0),
            (1, 5),
            (2, 10),
            (3, 215),
            (4, 230),
            (5, 1910),
            (6, 2140),
            (0, 3000),
            (1, 3005),
        ];
        assert_eq!(starts(Timing::Dependent, 200, 9), expected);
    }

    #[test]
    fn open_starts_are_those_of_the_record_on_every_device() {
        let expected = [
            (0, 0),
            (1, 5),
            (2, 10),
            (3, 90),
            (4, 320),
            (5, 2000),
            (6, 2130),
            (0, 3000),
            (1, 3005),
        ];
        for service_us in [1, 200, 5000] {
            assert_eq!(starts(Timing::Open, service_us, 9), expected);
        }
    }

    #[test]
    fn closed_starts_keep_the_depth_and_nothing_else() {
        // Depths 1, 2, 3, 3, 1, 1, 1: 0 alone may start; 1 and 2 fill up to 2 and 3; 3 needs one
        // end, 4 needs all of them to have ended.
        let expected = [
            (0, 0),
            (1, 0),
            (2, 0),
            (3, 200),
            (4, 400),
            (5, 600),
            (6, 800),
            (0, 1000),
            (1, 1000),
        ];
        assert_eq!(starts(Timing::Closed, 200, 9), expected);
    }

    #[test]
    fn a_stream_without_a_pause_goes_on_after_its_last_end() {
        let mut steps = script().steps.clone();
        steps.truncate(4);
        let mut course = Course::new(
            Arc::new(Script::new(steps, 310 * US, 500 * US)),
            Timing::Dependent,
        );
        course.begin(0);
        let mut now = 0;
        for number in 0..4 {
            now = course.due().unwrap();
            assert_eq!(course.start(now), Some((number, now)));
            if number == 1 {
                course.end(1, now);
            }
        }
        for number in [0, 2, 3] {
            course.end(number, now + u64::from(number));
        }
        assert_eq!(course.due(), Some(now + 3 + 10 * US));
    }

    #[test]
    fn what_every_request_costs_is_not_thinking() {
        // 200 requests of 50 µs; after nine of ten 30 µs pass, after the tenth 500.
        let mut at_us = 0;
        let steps = (0..200).map(|number| {
            let step = ScriptStep {
                at_ns: at_us * US,
                end_ns: (at_us + 50) * US,
                ..script().steps[0]
            };
            at_us += if number % 10 == 9 { 550 } else { 80 };
            step
        });
        let script = Script::new(steps.collect(), 40_000 * US, 1000 * US);
        assert_eq!(script.after[5], (After::End(4), 0));
        assert_eq!(script.after[10], (After::End(9), 470 * US));
    }
}
