//! Like Linux's completely fair scheduler (kernel/sched/fair.c, 2.6.23 to 6.5): the smallest
//! virtual run time runs; a task's slice is its share of `latency`, at least the quantum (minimum
//! granularity); a waking task gets at most half a latency of credit and preempts a task that is
//! ahead of it by more than the wake-up granularity, which is 1 ms · (1 + ⌊log₂ CPUs⌋) scaled by
//! the weight of the woken task (wakeup_gran(), sysctl_sched_wakeup_granularity). A new task starts
//! behind by a virtual slice (START_DEBIT). One queue for all CPUs, where Linux has one each and
//! balances.

use super::{take_min, Policy, Ready, Settings, System};
use crate::cpu::task::NICE_0_WEIGHT;

/// Virtual run time units per nanosecond at nice 0.
const SCALE: u128 = 1 << 20;

struct Cfs {
    waiting: Vec<usize>,
    settings: Settings,
    vruntimes: Vec<u128>,
    /// When each arrived or woke last.
    joined_ns: Vec<u64>,
    min_vruntime: u128,
    /// Waiting and running tasks.
    runnable: Vec<usize>,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(Cfs {
        waiting: Vec::new(),
        settings: settings.clone(),
        vruntimes: Vec::new(),
        joined_ns: Vec::new(),
        min_vruntime: 0,
        runnable: Vec::new(),
    })
}

/// `ran_ns` of a task of this weight in virtual time.
fn virtual_time(ran_ns: u64, weight: u64) -> u128 {
    u128::from(ran_ns) * SCALE * u128::from(NICE_0_WEIGHT) / u128::from(weight)
}

impl Cfs {
    /// The share of `latency` of a task of this weight among tasks that weigh `load`, ns.
    fn share_ns(&self, weight: u64, load: u64) -> u64 {
        (u128::from(self.settings.latency.0) * u128::from(weight) / u128::from(load)) as u64
    }

    fn load(&self, system: &System) -> u64 {
        let runnable = self.runnable.iter();
        runnable.map(|task| system.tasks[*task].weight).sum()
    }

    /// The lag of a new task, in virtual time: its slice with itself in the load.
    fn debit(&self, system: &System, task: usize) -> u128 {
        if !self.settings.cfs.start_debit.unwrap_or(true) {
            return 0;
        }
        let weight = system.tasks[task].weight;
        let slice_ns = self.share_ns(weight, self.load(system) + weight);
        virtual_time(slice_ns.max(self.settings.quantum.0), weight)
    }

    /// Moves the floor for joining tasks up to the smallest runnable one.
    fn advance(&mut self) {
        let all = self.runnable.iter().map(|task| self.vruntimes[*task]);
        self.min_vruntime = self.min_vruntime.max(all.min().unwrap_or(0));
    }
}

impl Policy for Cfs {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.vruntimes.resize(system.tasks.len(), 0);
        self.joined_ns.resize(system.tasks.len(), 0);
        let credit = match why {
            Ready::Woken => virtual_time(self.settings.latency.0 / 2, NICE_0_WEIGHT),
            _ => 0,
        };
        if why == Ready::Arrived || why == Ready::Woken {
            self.advance();
            let debit = match why {
                Ready::Arrived => self.debit(system, task),
                _ => 0,
            };
            let floor = (self.min_vruntime + debit).saturating_sub(credit);
            self.vruntimes[task] = self.vruntimes[task].max(floor);
            self.joined_ns[task] = system.now_ns;
            self.runnable.push(task);
        }
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let key = |task: usize| (self.vruntimes[task], system.tie(task));
        take_min(&mut self.waiting, key)
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        let state = &system.tasks[task];
        let share_ns = self.share_ns(state.weight, self.load(system));
        let slice_ns = share_ns.max(self.settings.quantum.0);
        let needed_ns = slice_ns.saturating_sub(state.since_pick_ns);
        Some(self.settings.until_tick(system.now_ns, needed_ns))
    }

    fn ran(&mut self, system: &System, task: usize, ran_ns: u64) {
        self.vruntimes[task] += virtual_time(ran_ns, system.tasks[task].weight);
    }

    fn gone(&mut self, _system: &System, task: usize) {
        self.advance();
        self.runnable.retain(|other| *other != task);
    }

    fn victim(&self, system: &System, running: &[usize]) -> Option<usize> {
        let waiting = self.waiting.iter().copied();
        let joined = waiting.filter(|task| self.joined_ns[*task] == system.now_ns);
        let woken = joined.min_by_key(|task| (self.vruntimes[*task], system.tie(*task)))?;
        let (at, worst) = running
            .iter()
            .enumerate()
            .max_by_key(|(_, task)| self.vruntimes[**task])?;
        let granularity_ns = self.settings.wakeup_granularity_ns();
        let margin = virtual_time(granularity_ns, system.tasks[woken].weight);
        (self.vruntimes[woken] + margin < self.vruntimes[*worst]).then_some(at)
    }
}
