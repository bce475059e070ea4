//! The input of a simulation: tasks, the settings of a run, and the errors for what cannot be.

use std::str::FromStr;

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

use super::kernel::{CfsKeys, EevdfKeys, Kernel};
use crate::error::{require, within};
use crate::SimError;

/// Weight of nice 0.
pub(super) const NICE_0_WEIGHT: u64 = 1024;
/// The longest schedule: times up to here cannot overflow anywhere.
const MAX_TIME_NS: u64 = 1_000_000_000_000_000;
/// Weights of nice −20 … 19: one step of nice is about 10 % of CPU (Linux, kernel/sched/core.c,
/// `sched_prio_to_weight`).
pub(super) const NICE_WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// A task: when it comes and what it alternately computes and waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// How it is called in tables and charts.
    pub name: String,
    /// When it enters the system.
    #[serde(default)]
    pub arrival: Nanos,
    /// CPU burst, I/O burst, CPU burst, …: begins and ends with a CPU burst. I/O of different
    /// tasks never queues.
    pub bursts: Vec<Nanos>,
    /// Smaller is more urgent (policies `priority` and `priority-preemptive`).
    #[serde(default)]
    pub priority: i32,
    /// −20 … 19, sets the weight as Linux does.
    #[serde(default)]
    pub nice: Option<i8>,
    /// Tickets of lottery and stride, weight of cfs and eevdf; 1024 when neither is given.
    #[serde(default, alias = "tickets")]
    pub weight: Option<u64>,
    /// Own slice under eevdf instead of the quantum.
    #[serde(default)]
    pub slice: Option<Nanos>,
}

impl Task {
    /// Tickets or weight.
    pub(super) fn effective_weight(&self) -> u64 {
        let of_nice = |nice: i8| NICE_WEIGHTS[(nice + 20) as usize];
        self.weight
            .or(self.nice.map(of_nice))
            .unwrap_or(NICE_0_WEIGHT)
    }
}

/// A number without a unit is milliseconds here: textbook schedules are written `A:0:8`.
fn milliseconds(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    let unit = if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        "ms"
    } else {
        ""
    };
    format!("{text}{unit}")
        .parse()
        .map_err(|_| format!("{text:?} is not a time"))
}

impl FromStr for Task {
    type Err = SimError;

    /// `NAME:ARRIVAL:CPU[/IO/CPU…][:KEY=VALUE…]`, times in ms unless they have a unit; keys are
    /// prio, nice, weight (tickets) and slice.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let malformed = |why: String| {
            let expected = "NAME:ARRIVAL:CPU[/IO/CPU…][:prio=P][:nice=N][:weight=W][:slice=S]";
            SimError::range("task", format!("{text:?}"), format!("{expected}; {why}"))
        };
        let mut parts = text.trim().split(':');
        let (Some(name), Some(arrival), Some(bursts)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("a part is missing".into()));
        };
        let bursts: Result<Vec<Nanos>, String> = bursts.split('/').map(milliseconds).collect();
        let mut task = Task {
            name: name.trim().to_owned(),
            arrival: milliseconds(arrival).map_err(malformed)?,
            bursts: bursts.map_err(malformed)?,
            priority: 0,
            nice: None,
            weight: None,
            slice: None,
        };
        for option in parts {
            let unreadable = || malformed(format!("{option:?} is not KEY=VALUE"));
            let (key, value) = option.split_once('=').ok_or_else(unreadable)?;
            match key.trim() {
                "prio" | "priority" => task.priority = value.parse().map_err(|_| unreadable())?,
                "nice" => task.nice = Some(value.parse().map_err(|_| unreadable())?),
                "weight" | "tickets" => {
                    task.weight = Some(value.parse().map_err(|_| unreadable())?);
                }
                "slice" => task.slice = Some(milliseconds(value).map_err(malformed)?),
                _ => return Err(malformed(format!("key {key:?} is not known"))),
            }
        }
        Ok(task)
    }
}

/// Several tasks in the compact form, separated by commas.
pub fn parse_tasks(text: &str) -> Result<Vec<Task>, SimError> {
    text.split(',')
        .filter(|part| !part.trim().is_empty())
        .map(str::parse)
        .collect()
}

/// The settings of one simulated run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A name of [`POLICIES`](super::POLICIES).
    pub policy: String,
    /// Quantum of rr, lottery, stride; quantum of mlfq's top level (doubled at each level below);
    /// minimum granularity of cfs; base slice of eevdf.
    pub quantum: Nanos,
    /// How many CPUs share the one run queue.
    pub cpus: usize,
    /// Lost whenever a CPU takes a task that is not the last it ran.
    pub switch_cost: Nanos,
    /// Ticks per second: quanta are rounded up to whole jiffies. Without it they are exact.
    pub hz: Option<u64>,
    /// Stop here, finished or not.
    pub until: Option<Nanos>,
    /// priority: a waiting task gains one level per this time.
    pub aging: Option<Nanos>,
    /// mlfq: number of queues.
    pub levels: usize,
    /// mlfq: all tasks return to the top queue this often.
    pub boost: Option<Nanos>,
    /// cfs: time in which each runnable task should run once.
    pub latency: Nanos,
    /// cfs: how far ahead a running task must be of a woken one to make room; 1 ms · (1 + ⌊log₂
    /// CPUs⌋) where missing.
    pub wakeup_granularity: Option<Nanos>,
    /// eevdf and cfs: sets their features together; keys of `eevdf` and `cfs` win.
    pub kernel: Option<Kernel>,
    /// Features of eevdf.
    pub eevdf: EevdfKeys,
    /// Features of cfs.
    pub cfs: CfsKeys,
    /// lottery: fixes the draws.
    pub seed: u64,
    /// Nanoseconds of CPU per calculation of the CPU lab's kernel; gives counts.
    pub calculation_ns: Option<f64>,
    /// How many segments of the schedule are kept for the Gantt chart.
    pub max_segments: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: "rr".into(),
            quantum: Nanos(4_000_000),
            cpus: 1,
            switch_cost: Nanos(0),
            hz: None,
            until: None,
            aging: None,
            levels: 3,
            boost: None,
            latency: Nanos(24_000_000),
            wakeup_granularity: None,
            kernel: None,
            eevdf: EevdfKeys::default(),
            cfs: CfsKeys::default(),
            seed: 1,
            calculation_ns: None,
            max_segments: 1_000_000,
        }
    }
}

impl Settings {
    /// `time` at the resolution of the tick: rounded up to whole jiffies where `hz` is set.
    pub(super) fn in_jiffies(&self, time_ns: u64) -> u64 {
        match self.hz {
            Some(hz) => {
                let jiffies = (u128::from(time_ns) * u128::from(hz)).div_ceil(1_000_000_000);
                (jiffies * 1_000_000_000 / u128::from(hz)) as u64
            }
            None => time_ns,
        }
    }

    /// From `now_ns` to the first tick by which `needed_ns` are over; exactly those without ticks.
    pub(super) fn until_tick(&self, now_ns: u64, needed_ns: u64) -> u64 {
        match self.tick_ns() {
            0 => needed_ns,
            tick_ns => (now_ns + needed_ns).next_multiple_of(tick_ns) - now_ns,
        }
    }

    /// One tick; 0 where time is exact.
    pub(super) fn tick_ns(&self) -> u64 {
        self.hz.map_or(0, |hz| 1_000_000_000 / hz)
    }

    /// The kernel's default scales with the CPUs, of which it counts at most eight.
    pub(super) fn wakeup_granularity_ns(&self) -> u64 {
        let default_ns = 1_000_000 * self.cpu_factor();
        self.wakeup_granularity.map_or(default_ns, |time| time.0)
    }

    /// The quantum that tasks really get.
    pub fn effective_quantum(&self) -> Nanos {
        Nanos(self.in_jiffies(self.quantum.0))
    }

    /// The factor of the kernel's times: 1 + log2 of the CPUs, of which it counts eight.
    pub(super) fn cpu_factor(&self) -> u64 {
        1 + u64::from((self.cpus.clamp(1, 8) as u64).ilog2())
    }

    /// Default slice of a task of eevdf.
    pub(super) fn base_slice_ns(&self) -> u64 {
        let of_kernel = self.kernel.map(|kernel| match kernel >= Kernel::V6_12 {
            true => 700_000 * self.cpu_factor(),
            false => 750_000 * self.cpu_factor(),
        });
        let own = self.eevdf.slice.map(|slice| slice.0);
        own.or(of_kernel).unwrap_or(self.quantum.0)
    }

    /// Whether the kernel has what came with 6.12.
    pub(super) fn since_6_12(&self) -> bool {
        self.kernel.is_some_and(|kernel| kernel >= Kernel::V6_12)
    }
}

/// Refuses what cannot be simulated, naming the key.
pub(super) fn check(tasks: &[Task], settings: &Settings) -> Result<(), SimError> {
    check_settings(settings)?;
    require(!tasks.is_empty(), "tasks", "none", "at least one task")?;
    require(
        tasks.len() <= 100_000,
        "tasks",
        tasks.len(),
        "at most 100000",
    )?;
    let mut names = std::collections::HashSet::new();
    for task in tasks {
        check_task(task)?;
        let unused = names.insert(task.name.as_str());
        require(unused, "name", &task.name, "a unique name")?;
    }
    let sum = |task: &Task| task.bursts.iter().map(|b| u128::from(b.0)).sum::<u128>();
    let total: u128 = tasks.iter().map(sum).sum();
    require(
        total <= u128::from(MAX_TIME_NS),
        "bursts",
        format!("{total} ns"),
        "at most 11 days in sum",
    )
}

fn positive(key: &str, time: Nanos) -> Result<(), SimError> {
    require(
        time.0 > 0 && time.0 <= MAX_TIME_NS,
        key,
        format!("{} ns", time.0),
        "a time above 0, at most 11 days",
    )
}

fn check_settings(settings: &Settings) -> Result<(), SimError> {
    within("cpus", settings.cpus, 1..=1024)?;
    positive("quantum", settings.quantum)?;
    positive("latency", settings.latency)?;
    settings.aging.map_or(Ok(()), |t| positive("aging", t))?;
    settings.boost.map_or(Ok(()), |t| positive("boost", t))?;
    settings.until.map_or(Ok(()), |t| positive("until", t))?;
    let slice = settings.eevdf.slice;
    slice.map_or(Ok(()), |t| positive("eevdf.slice", t))?;
    let granularity = settings.wakeup_granularity;
    granularity.map_or(Ok(()), |t| positive("wakeup_granularity", t))?;
    let cost = settings.switch_cost.0;
    require(cost <= 1_000_000_000, "switch_cost", cost, "at most 1 s")?;
    within("hz", settings.hz.unwrap_or(1), 1..=1_000_000)?;
    within("levels", settings.levels, 1..=64)?;
    let calculation = settings.calculation_ns.unwrap_or(1.0);
    require(
        calculation.is_finite() && calculation > 0.0,
        "calculation_ns",
        calculation,
        "a positive number",
    )
}

fn check_task(task: &Task) -> Result<(), SimError> {
    let key = |what: &str| format!("task {:?}: {what}", task.name);
    require(
        !task.name.is_empty() && !task.name.contains(char::is_control),
        "name",
        format!("{:?}", task.name),
        "printable text",
    )?;
    require(
        task.bursts.len() % 2 == 1,
        key("bursts"),
        task.bursts.len(),
        "an odd number: CPU, I/O, CPU, …, CPU",
    )?;
    for burst in &task.bursts {
        positive(&key("burst"), *burst)?;
    }
    task.slice.map_or(Ok(()), |t| positive(&key("slice"), t))?;
    require(
        task.arrival.0 <= MAX_TIME_NS,
        key("arrival"),
        task.arrival.0,
        "at most 11 days",
    )?;
    within(key("nice"), task.nice.unwrap_or(0), -20..=19)?;
    within(key("weight"), task.weight.unwrap_or(1), 1..=1 << 20)
}
