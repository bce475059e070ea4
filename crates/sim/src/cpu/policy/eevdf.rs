//! Earliest eligible virtual deadline first (Stoica and Abdel-Wahab, 1995; Linux 6.6 and later,
//! kernel/sched/fair.c).
//!
//! V is the weighted mean of the virtual run times v of all runnable tasks; the lag of a task is
//! w·(V − v): what it is owed. A task is eligible when its lag is not negative; the eligible task
//! with the earliest virtual deadline v + slice/w runs until its slice is used up. A task that
//! joins preempts if it is the pick of the whole queue (check_preempt_wakeup_fair()); with
//! RUN_TO_PARITY only where the running one is no longer eligible, or, with PREEMPT_SHORT, has the
//! longer slice. A task that blocks keeps its lag within a limit (update_entity_lag()) and joins
//! again with it; with DELAY_DEQUEUE one with negative lag stays and counts in V until it is
//! picked. Omitted: a running task that met a shorter slice and is not eligible any more loses the
//! CPU at the next tick (did_preempt_short()).
//!
//! On several CPUs all waiting tasks can have negative lag; then the smallest v runs, so that no
//! CPU idles while a task waits.

use super::{take_min, Policy, Ready, Settings, System};
use crate::cpu::kernel::LagLimit;
use crate::cpu::task::NICE_0_WEIGHT;

/// Virtual time units per nanosecond at nice 0.
const SCALE: i128 = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Account {
    vruntime: i128,
    deadline: i128,
    /// Its lag when it blocked, in virtual time of its own weight.
    lag: i128,
    /// CPU time since the deadline was set.
    used_ns: u64,
    joined_ns: u64,
}

struct Eevdf {
    waiting: Vec<usize>,
    runnable: Vec<usize>,
    /// Runnable ones that sleep: they leave when they are picked.
    delayed: Vec<usize>,
    settings: Settings,
    accounts: Vec<Account>,
}

pub(super) fn build(settings: &Settings) -> Box<dyn Policy> {
    Box::new(Eevdf {
        waiting: Vec::new(),
        runnable: Vec::new(),
        delayed: Vec::new(),
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
            .in_jiffies(wanted_ns.unwrap_or(self.settings.base_slice_ns()))
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
    fn place(&mut self, system: &System, task: usize, is_new: bool) {
        let (product, load) = self.sums(system);
        let weight = i128::from(system.tasks[task].weight);
        let slice = self.slice(system, task);
        let is_half = is_new && self.settings.eevdf.initial_half.unwrap_or(true);
        let used_ns = if is_half {
            self.slice_ns(system, task) / 2
        } else {
            0
        };
        let account = &mut self.accounts[task];
        if load > 0 {
            account.vruntime = product / load - account.lag * (load + weight) / load;
        }
        let used = virtual_time(used_ns, system.tasks[task].weight);
        account.deadline = account.vruntime + slice - used;
        account.used_ns = used_ns;
        account.joined_ns = system.now_ns;
        self.runnable.push(task);
    }

    /// Lag of a runnable task, within its limit.
    fn lag(&self, system: &System, task: usize) -> i128 {
        let (product, load) = self.sums(system);
        let limit_ns = match self.settings.eevdf.lag_limit {
            // Slices are whole ticks, so this is at least the tick that the kernel demands.
            LagLimit::TwoSlices => 2 * self.slice_ns(system, task),
            LagLimit::LargestSlice => {
                let slices = self
                    .runnable
                    .iter()
                    .map(|other| self.slice_ns(system, *other));
                slices.max().unwrap_or(0) + self.settings.tick_ns()
            }
        };
        let limit = virtual_time(limit_ns, system.tasks[task].weight);
        (product / load - self.accounts[task].vruntime).clamp(-limit, limit)
    }

    /// A sleeping task that was kept leaves now.
    fn leave(&mut self, system: &System, task: usize) {
        let mut lag = self.lag(system, task);
        if self
            .settings
            .eevdf
            .delay_zero
            .unwrap_or(self.settings.since_6_12())
        {
            lag = lag.min(0);
        }
        self.accounts[task].lag = lag;
        self.delayed.retain(|other| *other != task);
        self.runnable.retain(|other| *other != task);
    }

    /// A task wakes before it left: it continues where it is, or is placed again without the lag
    /// that grew above 0 meanwhile.
    fn wake_delayed(&mut self, system: &System, task: usize) {
        let drops = self
            .settings
            .eevdf
            .delay_zero
            .unwrap_or(self.settings.since_6_12());
        if drops && self.lag(system, task) > 0 {
            self.leave(system, task);
            return self.place(system, task, false);
        }
        self.delayed.retain(|other| *other != task);
        self.accounts[task].joined_ns = system.now_ns;
    }
}

impl Policy for Eevdf {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.accounts.resize(system.tasks.len(), Account::default());
        match why {
            Ready::Arrived => self.place(system, task, true),
            Ready::Woken if self.delayed.contains(&task) => self.wake_delayed(system, task),
            Ready::Woken => self.place(system, task, false),
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
        // Each round but the last lets a sleeping task leave.
        loop {
            let sums = self.sums(system);
            let mut candidates = self.waiting.clone();
            candidates.extend(&self.delayed);
            let key = |task: usize| {
                let account = self.accounts[task];
                let rank = if self.is_eligible(task, sums) {
                    (false, account.deadline)
                } else {
                    (true, account.vruntime)
                };
                (rank, system.tie(task))
            };
            let picked = take_min(&mut candidates, key)?;
            if !self.delayed.contains(&picked) {
                self.waiting.retain(|other| *other != picked);
                return Some(picked);
            }
            self.leave(system, picked);
        }
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
        let lag = self.lag(system, task);
        let delays = self.settings.eevdf.delay_dequeue;
        let may_stay = delays.unwrap_or(self.settings.since_6_12());
        if may_stay && lag < 0 && !system.tasks[task].has_ended {
            return self.delayed.push(task);
        }
        self.accounts[task].lag = lag;
        self.runnable.retain(|other| *other != task);
    }

    fn victim(&self, system: &System, running: &[usize]) -> Option<usize> {
        let sums = self.sums(system);
        let deadline = |task: &usize| self.accounts[*task].deadline;
        let queued = self.waiting.iter().chain(&self.delayed);
        let eligible = queued.filter(|task| self.is_eligible(**task, sums));
        let best = *eligible.min_by_key(|task| (deadline(task), system.tie(**task)))?;
        if self.accounts[best].joined_ns != system.now_ns {
            return None;
        }
        let (at, worst) = running
            .iter()
            .enumerate()
            .max_by_key(|(_, t)| (!self.is_eligible(**t, sums), deadline(t)))?;
        if !self.is_eligible(*worst, sums) {
            return Some(at);
        }
        let keys = &self.settings.eevdf;
        let is_shorter = self.slice_ns(system, best) < self.slice_ns(system, *worst);
        let cuts = keys.preempt_short.unwrap_or(self.settings.since_6_12()) && is_shorter;
        let is_protected = keys.run_to_parity.unwrap_or(true) && !cuts;
        (!is_protected && deadline(&best) < deadline(worst)).then_some(at)
    }
}
