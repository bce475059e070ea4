//! The host's queues behind the command window, and in which order the device fetches from them.
//!
//! Round robin takes a turn from each. Weighted round robin (NVMe base specification, "Weighted
//! Round Robin with Urgent Priority Class") serves urgent queues first; of the others each has
//! as many commands in a round as its weight, in turns of at most a burst.

use std::collections::VecDeque;

use serde::Serialize;

use super::Command;
use crate::device::{Arbitration, Class, DeviceSpec, HostQueueSpec, QueueFrom};
use crate::workload::Incoming;

/// What went through a host queue that has a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueUse {
    /// Its name.
    pub name: String,
    /// Requests that came.
    pub arrived: u64,
    /// Requests that the device fetched.
    pub fetched: u64,
    /// Requests that found all entries in use.
    pub found_full: u64,
    /// Most requests that waited at the same time.
    pub waiting_max: u64,
    /// Mean time from arrival to completion, ns.
    pub mean_response_ns: Option<f64>,
    #[serde(skip)]
    completed: u64,
    #[serde(skip)]
    response_ns: f64,
}

/// The queues of the host.
pub struct HostQueues {
    queues: Vec<VecDeque<Command>>,
    waiting: usize,
    /// Which queue has the turn, and what is left of it.
    turn: usize,
    turn_left: u32,
    /// Order of the queues in a round, the urgent ones first.
    round: Vec<usize>,
    /// How many of `round` are urgent, and which of them is next.
    urgent: usize,
    next_urgent: usize,
    /// What each queue has left of its round.
    credits: Vec<u32>,
    specs: Vec<HostQueueSpec>,
    arbitration: Arbitration,
    burst: u32,
    uses: Vec<QueueUse>,
}

impl HostQueues {
    /// `count` queues without names that are served in turn, one command each.
    pub fn plain(count: u32) -> Self {
        let count = count as usize;
        HostQueues {
            queues: vec![VecDeque::new(); count],
            waiting: 0,
            turn: 0,
            turn_left: 1,
            round: (0..count).collect(),
            urgent: 0,
            next_urgent: 0,
            credits: Vec::new(),
            specs: Vec::new(),
            arbitration: Arbitration::Rr,
            burst: 1,
            uses: Vec::new(),
        }
    }

    /// The queues of a checked device.
    pub fn of(spec: &DeviceSpec) -> Self {
        let specs = &spec.host_queue;
        if specs.is_empty() {
            return Self::plain(spec.queue.host_queues);
        }
        let mut queues = Self::plain(specs.len() as u32);
        queues.arbitration = spec.queue.arbitration;
        queues.burst = spec.queue.burst;
        if queues.arbitration == Arbitration::Wrr {
            queues.round.sort_by_key(|queue| specs[*queue].class);
            let urgent = specs.iter().filter(|spec| spec.class == Class::Urgent);
            queues.urgent = urgent.count();
            queues.turn = queues.urgent % specs.len();
            queues.credits = specs.iter().map(|spec| spec.weight).collect();
        }
        queues.turn_left = queues.burst;
        let name = |spec: &HostQueueSpec| QueueUse {
            name: spec.name.clone(),
            ..QueueUse::default()
        };
        queues.uses = specs.iter().map(name).collect();
        queues.specs.clone_from(specs);
        queues
    }

    /// Requests that wait.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The queue of a request whose first page is one of `pages`.
    #[inline]
    pub fn queue_of(&self, incoming: &Incoming, first_page: u32, pages: u32) -> u16 {
        if self.queues.len() == 1 {
            return 0;
        }
        let count = self.queues.len() as u64;
        let from = self
            .specs
            .first()
            .map_or(QueueFrom::Share, |spec| spec.from);
        let queue = match from {
            QueueFrom::Volume => u64::from(incoming.volume) % count,
            QueueFrom::Thread => u64::from(incoming.thread) % count,
            QueueFrom::Share => u64::from(first_page) / u64::from(pages).div_ceil(count),
        };
        queue as u16
    }

    /// A request comes that need not wait.
    #[inline]
    pub fn pass(&mut self, command: &Command) {
        if let Some(used) = self.uses.get_mut(usize::from(command.queue)) {
            used.arrived += 1;
            used.fetched += 1;
        }
    }

    /// A request comes and waits in its queue.
    pub fn push(&mut self, command: Command) {
        let queue = usize::from(command.queue);
        self.queues[queue].push_back(command);
        self.waiting += 1;
        let waiting = self.queues[queue].len() as u64;
        if let Some(used) = self.uses.get_mut(queue) {
            used.arrived += 1;
            used.waiting_max = used.waiting_max.max(waiting);
            used.found_full += u64::from(waiting > u64::from(self.specs[queue].depth));
        }
    }

    /// The device fetches a command.
    pub fn pop(&mut self) -> Option<Command> {
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        let queue = match self.arbitration {
            Arbitration::Rr => self.in_turn(),
            Arbitration::Wrr => self.urgent_or_weighted(),
        };
        if let Some(used) = self.uses.get_mut(queue) {
            used.fetched += 1;
        }
        self.queues[queue].pop_front()
    }

    /// The next queue with a command, which has at most a burst in a turn.
    fn in_turn(&mut self) -> usize {
        for _ in 0..=self.queues.len() {
            if self.turn_left > 0 && !self.queues[self.turn].is_empty() {
                let queue = self.turn;
                self.turn_left -= 1;
                if self.turn_left == 0 {
                    self.pass_turn(0);
                }
                return queue;
            }
            self.pass_turn(0);
        }
        unreachable!("a request waits in none of the queues")
    }

    /// The next queue of the round has the turn; the first `from` of the round have none.
    fn pass_turn(&mut self, from: usize) {
        self.turn = if self.turn + 1 < self.round.len() {
            self.turn + 1
        } else {
            from
        };
        self.turn_left = self.burst;
    }

    fn urgent_or_weighted(&mut self) -> usize {
        for i in 0..self.urgent {
            let at = (self.next_urgent + i) % self.urgent;
            if !self.queues[self.round[at]].is_empty() {
                self.next_urgent = (at + 1) % self.urgent;
                return self.round[at];
            }
        }
        // Two rounds: in the first all that is left may belong to empty queues.
        for _ in 0..2 {
            for _ in self.urgent..=self.round.len() {
                let queue = self.round[self.turn];
                let is_served =
                    self.turn_left > 0 && self.credits[queue] > 0 && !self.queues[queue].is_empty();
                if is_served {
                    self.turn_left -= 1;
                    self.credits[queue] -= 1;
                    return queue;
                }
                self.pass_turn(self.urgent);
            }
            let weights = self.specs.iter().map(|spec| spec.weight);
            self.credits = weights.collect();
            self.turn = self.urgent;
        }
        unreachable!("a request waits in none of the queues")
    }

    /// A request is complete.
    #[inline]
    pub fn completed(&mut self, command: &Command, now_ns: u64) {
        if let Some(used) = self.uses.get_mut(usize::from(command.queue)) {
            used.completed += 1;
            used.response_ns += (now_ns - command.arrival_ns) as f64;
        }
    }

    /// What went through the queues that have names.
    pub fn uses(&self) -> Vec<QueueUse> {
        let mut uses = self.uses.clone();
        for used in &mut uses {
            let count = used.completed;
            used.mean_response_ns = (count > 0).then(|| used.response_ns / count as f64);
        }
        uses
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn queues(arbitration: &str, burst: u32, list: serde_json::Value) -> HostQueues {
        let mut set = BTreeMap::new();
        set.insert("queue.arbitration".to_owned(), json!(arbitration));
        set.insert("queue.burst".to_owned(), json!(burst));
        set.insert("host_queue".to_owned(), list);
        let spec = DeviceSpec::read("ncq2014", &set).unwrap();
        spec.check().unwrap();
        HostQueues::of(&spec)
    }

    fn fill(queues: &mut HostQueues, counts: &[u64]) {
        for (queue, count) in counts.iter().enumerate() {
            for index in 0..*count {
                let queue = queue as u16;
                let command = Command {
                    index,
                    queue,
                    ..Command::default()
                };
                queues.push(command);
            }
        }
    }

    fn order(queues: &mut HostQueues) -> String {
        let fetched = std::iter::from_fn(|| queues.pop());
        fetched.map(|c| char::from(b'a' + c.queue as u8)).collect()
    }

    #[test]
    fn turns_by_hand() {
        let list = json!([{"name": "x"}, {"name": "y"}, {"name": "z"}]);
        let mut rr = queues("rr", 2, list);
        fill(&mut rr, &[5, 0, 3]);
        assert_eq!(order(&mut rr), "aaccaaca");
        // Weights 3 and 1 in turns of 2; high before low; urgent before all, in turn.
        let list = json!([
            {"name": "low", "class": "low", "weight": 1},
            {"name": "high", "class": "high", "weight": 3},
            {"name": "u", "class": "urgent"},
            {"name": "v", "class": "urgent"},
        ]);
        let mut wrr = queues("wrr", 2, list);
        fill(&mut wrr, &[4, 6, 2, 1]);
        assert_eq!(order(&mut wrr), "cdcbbabbbabaa");
        let uses = wrr.uses();
        assert!(uses.iter().all(|used| used.arrived == used.fetched));
        assert_eq!((uses[1].waiting_max, uses[1].found_full), (6, 0));
    }

    #[test]
    fn backlogged_queues_are_served_by_weight_within_a_burst() {
        for burst in [1, 3, 8] {
            let list = json!([
                {"name": "one", "weight": 1, "depth": 10},
                {"name": "empty", "weight": 9, "class": "high"},
                {"name": "five", "weight": 5, "class": "low"},
                {"name": "twelve", "weight": 12},
            ]);
            let mut wrr = queues("wrr", burst, list);
            fill(&mut wrr, &[2_000, 0, 2_000, 2_000]);
            for fetched in 1..=1_800u32 {
                wrr.pop().unwrap();
                for (queue, weight) in [(0, 1.0), (2, 5.0), (3, 12.0)] {
                    let fair = f64::from(fetched) * weight / 18.0;
                    let off = wrr.uses[queue].fetched as f64 - fair;
                    // Within a round the order of turns counts as well: at most one round off.
                    assert!(off.abs() <= 18.0, "{burst} {queue} {fetched}: {off}");
                    if fetched % 18 == 0 {
                        assert!(off.abs() <= f64::from(burst), "{queue} {fetched}: {off}");
                    }
                }
            }
            assert_eq!(wrr.uses[0].found_full, 1_990);
        }
    }
}
