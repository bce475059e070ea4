//! Earliest eligible virtual deadline first (Stoica and Abdel-Wahab, 1995; Linux 6.6 and later,
//! kernel/sched/fair.c).
//!
//! V is the weighted mean of the virtual run times v of all runnable tasks; the lag of a task is
//! w·(V − v): what it is owed. A task is eligible when its lag is not negative; the eligible task
//! with the earliest virtual deadline v + slice/w runs until its slice is used up (as with
//! RUN_TO_PARITY), except that a task which joins with an earlier deadline preempts. A task that
//! blocks keeps its lag, held within two slices or a tick (update_entity_lag()), and joins again
//! with it.
//!
//! On several CPUs all waiting tasks can have negative lag; then the smallest v runs, so that no
//! CPU idles while a task waits.

use super::{take_min, Policy, Ready, Settings, System};
use crate::cpu::task::NICE_0_WEIGHT;

/// Virtual time units per nanosecond at nice 0.
const SCALE: i128 = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Account {
    vruntime: i128,
    deadline: i128,
    /// What it was owed when it blocked, in virtual time of its own weight.
    lag: i128,
    /// CPU time since the deadline was set.
    used_ns: u64,
    joined_ns: u64,
}

struct Eevdf {
    waiting: Vec<usize>,
    runnable: Vec<usize>,
    settings: Settings,
    accounts: Vec<Account>,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(Eevdf {
        waiting: Vec::new(),
        runnable: Vec::new(),
        settings: settings.clone(),
        accounts: Vec::new(),
    })
}

fn virtual_time(ran_ns: u64, weight: u64) -> i128 {
    i128::from(ran_ns) * SCALE * i128::from(NICE_0_WEIGHT) / i128::from(weight)
}

impl Eevdf {
    fn slice_ns(&self, system: &System, task: usize) -> u64 {
        let wanted_ns = system.tasks[task].slice_ns;
        self.settings
            .in_jiffies(wanted_ns.unwrap_or(self.settings.quantum.0))
    }

    fn slice(&self, system: &System, task: usize) -> i128 {
        virtual_time(self.slice_ns(system, task), system.tasks[task].weight)
    }

    /// Σ w·v and Σ w over the runnable tasks.
    fn sums(&self, system: &System) -> (i128, i128) {
        self.runnable.iter().fold((0, 0), |(product, load), task| {
            let weight = i128::from(system.tasks[*task].weight);
            (
                product + weight * self.accounts[*task].vruntime,
                load + weight,
            )
        })
    }

    fn is_eligible(&self, task: usize, (product, load): (i128, i128)) -> bool {
        self.accounts[task].vruntime * load <= product
    }

    /// Sets v so that the task's lag is the same after joining: joining moves V towards v, so the
    /// distance is stretched by (W + w)/W, as place_entity() does.
    fn place(&mut self, system: &System, task: usize) {
        let (product, load) = self.sums(system);
        let weight = i128::from(system.tasks[task].weight);
        let slice = self.slice(system, task);
        let account = &mut self.accounts[task];
        if load > 0 {
            account.vruntime = product / load - account.lag * (load + weight) / load;
        }
        account.deadline = account.vruntime + slice;
        account.used_ns = 0;
        account.joined_ns = system.now_ns;
        self.runnable.push(task);
    }
}

impl Policy for Eevdf {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.accounts.resize(system.tasks.len(), Account::default());
        match why {
            Ready::Arrived | Ready::Woken => self.place(system, task),
            Ready::Expired => {
                let slice = self.slice(system, task);
                let account = &mut self.accounts[task];
                account.deadline = account.vruntime + slice;
                account.used_ns = 0;
            }
            Ready::Preempted => {}
        }
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let sums = self.sums(system);
        let mut waiting = std::mem::take(&mut self.waiting);
        let key = |task: usize| {
            let account = self.accounts[task];
            let rank = if self.is_eligible(task, sums) {
                (false, account.deadline)
            } else {
                (true, account.vruntime)
            };
            (rank, system.tie(task))
        };
        let picked = take_min(&mut waiting, key);
        self.waiting = waiting;
        picked
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        Some(self.slice_ns(system, task) - self.accounts[task].used_ns)
    }

    fn ran(&mut self, system: &System, task: usize, ran_ns: u64) {
        let account = &mut self.accounts[task];
        account.vruntime += virtual_time(ran_ns, system.tasks[task].weight);
        account.used_ns += ran_ns;
    }

    fn gone(&mut self, system: &System, task: usize) {
        let (product, load) = self.sums(system);
        let tick_ns = self.settings.tick_ns();
        let limit_ns = (2 * self.slice_ns(system, task)).max(tick_ns);
        let limit = virtual_time(limit_ns, system.tasks[task].weight);
        let account = &mut self.accounts[task];
        account.lag = (product / load - account.vruntime).clamp(-limit, limit);
        self.runnable.retain(|other| *other != task);
    }

    fn victim(&self, system: &System, running: &[usize]) -> Option<usize> {
        let sums = self.sums(system);
        let deadline = |task: &usize| self.accounts[*task].deadline;
        let has_joined = |task: &usize| self.accounts[*task].joined_ns == system.now_ns;
        let may_preempt = |task: &&usize| has_joined(task) && self.is_eligible(**task, sums);
        let best = self
            .waiting
            .iter()
            .filter(may_preempt)
            .map(deadline)
            .min()?;
        let (at, worst) = running
            .iter()
            .enumerate()
            .max_by_key(|(_, t)| deadline(t))?;
        (best < deadline(worst)).then_some(at)
    }
}
