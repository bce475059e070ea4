//! The kernel's own switches, one after another: does a policy let the same task run, given the
//! same wake-ups, sleeps and ticks? After a difference it goes on with the kernel's task.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};

use super::policy::{self, Policy, Ready, System, TaskState};
use super::task::{Settings, NICE_WEIGHTS};
use super::{EevdfKeys, Kernel};
use crate::judged::{self, Judged};
use schedlab_model::Nanos;

/// A wake-up or tick makes the kernel switch within this time, or not.
const AT_ONCE_NS: u64 = 100_000;

/// Recordings begin at 1 s. In the first 50 ms the tasks start, and the model learns what those
/// from before are owed.
const COUNTS_FROM_NS: u64 = 1_050_000_000;

struct Judge<'a> {
    policy: Box<dyn Policy>,
    system: System,
    /// Index by process.
    tasks: HashMap<u32, usize>,
    /// Tasks from before the recording: what they are owed shows when they first run.
    unknown: HashSet<usize>,
    waiting: HashSet<usize>,
    running: Option<usize>,
    /// The model wants another task at the next chance.
    wants: bool,
    /// Of the tasks that are judged.
    priorities: std::ops::RangeInclusive<u32>,
    /// Processes that are groups of the scheduler, which a model does not have.
    groups: Vec<u32>,
    events: Vec<Vec<&'a str>>,
    judged: Judged,
}

/// Lines of `time event …` after `policy NAME release R hz N slice_ns N priorities FROM TO` and
/// the groups, made by `tools/decisions.py`.
fn judge(text: &str) -> Judged {
    let mut lines = text.lines().map(|line| line.split(' ').collect());
    let header: Vec<&str> = lines.next().unwrap();
    let number = |at: usize| header[at].parse::<u64>().unwrap();
    let slice = Nanos(number(7));
    let settings = Settings {
        policy: header[1].into(),
        hz: Some(number(5)),
        quantum: slice,
        kernel: Some(Kernel::V6_12),
        eevdf: EevdfKeys {
            slice: Some(slice),
            ..EevdfKeys::default()
        },
        ..Settings::default()
    };
    let (.., build) = policy::find(&settings.policy).unwrap();
    let mut judge = Judge {
        policy: build(&settings),
        system: System::default(),
        tasks: HashMap::new(),
        unknown: HashSet::new(),
        waiting: HashSet::new(),
        running: None,
        wants: false,
        priorities: number(9) as u32..=number(10) as u32,
        groups: header[11..]
            .iter()
            .map(|word| word.parse().unwrap())
            .collect(),
        events: lines.collect(),
        judged: Judged::default(),
    };
    for at in 0..judge.events.len() {
        judge.event(at);
    }
    judge.judged
}

impl Judge<'_> {
    fn time(&self, at: usize) -> u64 {
        self.events[at][0].parse().unwrap()
    }

    /// Whether a task of this priority is of the class that is judged.
    fn is_ours(&self, process: &str, priority: &str) -> bool {
        process != "0" && self.priorities.contains(&priority.parse().unwrap())
    }

    fn task(&mut self, process: &str, priority: &str) -> usize {
        let process = process.parse().unwrap();
        let priority: usize = priority.parse().unwrap();
        let weight = NICE_WEIGHTS.get(priority.wrapping_sub(100));
        let weight = weight.copied().unwrap_or(1024);
        if let Some(task) = self.tasks.get(&process) {
            if self.system.tasks[*task].weight != weight {
                self.policy.reweigh(&mut self.system, *task, weight);
            }
            return *task;
        }
        let task = self.system.tasks.len();
        self.system.tasks.push(TaskState {
            arrival_ns: self.system.now_ns,
            weight,
            remaining_ns: u64::MAX >> 1,
            ..TaskState::default()
        });
        self.tasks.insert(process, task);
        task
    }

    fn event(&mut self, at: usize) {
        self.system.now_ns = self.time(at);
        let words = self.events[at].clone();
        match words[1] {
            "new" | "wake" if self.is_ours(words[2], words[3]) => {
                self.wakes(words[2], words[3], words[1] == "new");
                self.continues_or_switches(at);
            }
            "nice" => {
                self.task(words[2], words[3]);
                self.wants = true;
            }
            "ran" => self.ran(at, words[2], words[3].parse().unwrap()),
            "switch" => self.switch(at, &words),
            _ => {}
        }
    }

    /// The kernel has accounted what the running task has had, and looks at its slice.
    fn ran(&mut self, at: usize, process: &str, ran_ns: u64) {
        let task = self.tasks.get(&process.parse().unwrap()).copied();
        if let Some(running) = self.running.filter(|running| task == Some(*running)) {
            self.system.tasks[running].since_pick_ns += ran_ns;
            self.policy.ran(&self.system, running, ran_ns);
            self.continues_or_switches(at);
        }
    }

    fn wakes(&mut self, process: &str, priority: &str, is_new: bool) {
        let is_known = self.tasks.contains_key(&process.parse().unwrap());
        let task = self.task(process, priority);
        if self.running == Some(task) || self.waiting.contains(&task) {
            return;
        }
        if !is_known && !is_new {
            self.unknown.insert(task);
            self.policy.owe(&self.system, task);
        }
        let why = if is_new { Ready::Arrived } else { Ready::Woken };
        self.ready(task, why);
        if let Some(running) = self.running {
            self.wants |= self.policy.victim(&self.system, &[running]).is_some();
        }
    }

    fn ready(&mut self, task: usize, why: Ready) {
        self.policy.ready(&self.system, task, why);
        self.waiting.insert(task);
    }

    /// The running task waits again.
    fn gives_way(&mut self, running: usize) {
        let is_over = self.policy.slice_left_ns(&self.system, running) == Some(0);
        let why = match is_over {
            true => Ready::Expired,
            false => Ready::Preempted,
        };
        self.ready(running, why);
        self.running = None;
    }

    fn runs(&mut self, task: usize) {
        self.policy.take(task);
        self.waiting.remove(&task);
        self.system.tasks[task].since_pick_ns = 0;
        self.running = Some(task);
        self.wants = false;
    }

    /// The switch that follows at once, if another event of these tasks does not come first.
    fn next_switch(&self, at: usize) -> Result<Option<usize>, ()> {
        let now_ns = self.time(at);
        for next in at + 1..self.events.len() {
            if self.time(next) > now_ns + AT_ONCE_NS {
                return Ok(None);
            }
            let words = &self.events[next];
            match words[1] {
                "switch" => return Ok(Some(next)),
                "ran" => {}
                "new" | "wake" if !self.is_ours(words[2], words[3]) => {}
                _ => return Err(()),
            }
        }
        Err(())
    }

    /// After a wake-up or a tick: does the running task go on?
    fn continues_or_switches(&mut self, at: usize) {
        let Some(running) = self.running else {
            return;
        };
        self.wants |= self.policy.slice_left_ns(&self.system, running) == Some(0);
        match self.next_switch(at) {
            Ok(None) if self.wants => {
                self.gives_way(running);
                self.picks(at, running);
            }
            Ok(Some(next)) if !self.wants => {
                let words = self.events[next].clone();
                // Else it blocks by itself, or another class takes the CPU.
                if words[4].starts_with('R') && self.is_ours(words[5], words[6]) {
                    let kernels = self.task(words[5], words[6]);
                    self.meets(kernels);
                    self.compare(at, kernels, running);
                    self.policy.follow(&self.system, kernels, running);
                    self.gives_way(running);
                    self.runs(kernels);
                }
            }
            _ => {}
        }
    }

    /// A task that runs without having been woken was there before.
    fn meets(&mut self, task: usize) {
        if !self.waiting.contains(&task) {
            self.unknown.insert(task);
            self.policy.owe(&self.system, task);
            self.ready(task, Ready::Woken);
        }
    }

    /// Which of the waiting tasks is next? `kernels` was.
    fn picks(&mut self, at: usize, kernels: usize) {
        let is_choice = self.waiting.len() > 1;
        self.meets(kernels);
        let models = self.policy.choose(&self.system).unwrap();
        if is_choice {
            self.compare(at, kernels, models);
        }
        if models != kernels {
            self.policy.follow(&self.system, kernels, models);
        }
        self.runs(kernels);
    }

    /// `switch process priority state next priority`
    fn switch(&mut self, at: usize, words: &[&str]) {
        let is_next_ours = self.is_ours(words[5], words[6]);
        if self.is_ours(words[2], words[3]) {
            let from = self.task(words[2], words[3]);
            if is_next_ours && self.running == self.tasks.get(&words[5].parse().unwrap()).copied() {
                return;
            }
            if self.running == Some(from) && words[4].starts_with('R') {
                self.gives_way(from);
            } else if self.running == Some(from) {
                self.system.tasks[from].has_ended = "XZ".contains(&words[4][..1]);
                self.policy.gone(&self.system, from);
                self.running = None;
            } else if words[4].starts_with('R') && !self.waiting.contains(&from) {
                // It ran before the first event, or came from another class.
                self.unknown.insert(from);
                self.ready(from, Ready::Woken);
            }
        }
        if is_next_ours {
            let next = self.task(words[5], words[6]);
            self.picks(at, next);
        } else {
            // Another class has the CPU: who runs after that begins anew.
            self.policy.take(usize::MAX);
        }
    }

    fn compare(&mut self, at: usize, kernels: usize, models: usize) {
        let are_known = [kernels, models].map(|task| !self.unknown.remove(&task));
        let process = |of: usize| *self.tasks.iter().find(|(_, task)| **task == of).unwrap().0;
        let (kernel, model) = (process(kernels), process(models));
        let is_group = |process| self.groups.contains(process);
        let is_early = self.system.now_ns < COUNTS_FROM_NS;
        if are_known != [true, true] || is_early || [kernel, model].iter().any(is_group) {
            return;
        }
        let difference = (kernels != models).then(|| {
            let event = self.events[at].join(" ");
            format!("{event}: kernel {kernel}, model {model}")
        });
        self.judged.count(difference);
    }
}

#[test]
fn a_policy_runs_the_task_that_the_kernel_ran_at_least_95_times_in_100() {
    judged::hold("policy ", 50, judge);
}
