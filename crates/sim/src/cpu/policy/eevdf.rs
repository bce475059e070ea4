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
//! picked.
//! With ticks (`hz`) slices end at the first tick after their end, or where a task joins; who goes
//! on after its slice loses the CPU as soon as it is not eligible (did_preempt_short()).
//!
//! On several CPUs all waiting tasks can have negative lag; then the smallest v runs, so that no
//! CPU idles while a task waits.

use super::{Policy, Ready, Settings, System};
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
    /// It has to give way to the pick of the queue: its slice is used up, or it has no protection
    /// any more and is not eligible (update_curr()).
    is_over: bool,
    /// It is in the slice for which it was picked (RUN_TO_PARITY). Who continues after the end of
    /// its slice is not (set_next_entity() is for another task only).
    is_protected: bool,
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
        wanted_ns.unwrap_or(self.settings.base_slice_ns())
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
            LagLimit::TwoSlices => {
                let slices_ns = 2 * self.slice_ns(system, task);
                slices_ns.max(self.settings.tick_ns())
            }
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

    /// Whether a running task keeps the CPU only as long as it is eligible (did_preempt_short()).
    fn is_watched(&self, task: usize) -> bool {
        let is_protected = self.accounts[task].is_protected || self.runnable.len() < 2;
        !is_protected && self.settings.tick_ns() > 0
    }

    /// After how much more CPU time a watched task is not eligible.
    fn eligible_ns(&self, system: &System, task: usize) -> u64 {
        let (product, load) = self.sums(system);
        let weight = i128::from(system.tasks[task].weight);
        let owed = product - self.accounts[task].vruntime * load;
        let per_ns = SCALE * i128::from(NICE_0_WEIGHT) * (load - weight) / weight;
        (owed.div_euclid(per_ns) + 1).max(0) as u64
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

    /// What it lags behind the mean.
    #[cfg(test)]
    fn owed(&self, system: &System, task: usize) -> i128 {
        let (product, load) = self.sums(system);
        product / load - self.accounts[task].vruntime
    }

    /// Moves a task by so much, and 20 µs more, as seen from the mean.
    #[cfg(test)]
    fn shift(&mut self, system: &System, task: usize, by: i128) {
        let (_, load) = self.sums(system);
        let others = load - i128::from(system.tasks[task].weight);
        let by = (by + by.signum() * SCALE * 20_000) * load / others.max(1);
        self.accounts[task].vruntime += by;
        self.accounts[task].deadline += by;
    }

    /// The pick of the queue.
    fn first(&mut self, system: &System) -> Option<usize> {
        // Each round but the last lets a sleeping task leave.
        loop {
            let sums = self.sums(system);
            let key = |task: usize| {
                let account = self.accounts[task];
                let rank = if self.is_eligible(task, sums) {
                    (false, account.deadline)
                } else {
                    (true, account.vruntime)
                };
                (rank, system.tie(task))
            };
            let queued = self.waiting.iter().chain(&self.delayed);
            let first = *queued.min_by_key(|task| key(**task))?;
            if !self.delayed.contains(&first) {
                return Some(first);
            }
            self.leave(system, first);
        }
    }

    /// A waiting task runs. The others have a whole slice when they do.
    fn start(&mut self, task: usize) {
        self.waiting.retain(|other| *other != task);
        for other in &self.waiting {
            self.accounts[*other].is_protected = true;
        }
    }
}

impl Policy for Eevdf {
    fn ready(&mut self, system: &System, task: usize, why: Ready) {
        self.accounts.resize(system.tasks.len(), Account::default());
        match why {
            Ready::Arrived => self.place(system, task, true),
            Ready::Woken if self.delayed.contains(&task) => self.wake_delayed(system, task),
            Ready::Woken => self.place(system, task, false),
            Ready::Expired | Ready::Preempted => {}
        }
        if matches!(why, Ready::Arrived | Ready::Woken) {
            self.accounts[task].is_protected = true;
        }
        self.accounts[task].is_over = false;
        self.waiting.push(task);
    }

    fn pick(&mut self, system: &System) -> Option<usize> {
        let picked = self.first(system)?;
        self.start(picked);
        Some(picked)
    }

    fn slice_left_ns(&self, system: &System, task: usize) -> Option<u64> {
        let account = &self.accounts[task];
        if account.is_over {
            return Some(0);
        }
        let mut needed_ns = self.slice_ns(system, task) - account.used_ns;
        if self.is_watched(task) {
            needed_ns = needed_ns.min(self.eligible_ns(system, task).max(1));
        }
        Some(self.settings.until_tick(system.now_ns, needed_ns))
    }

    fn ran(&mut self, system: &System, task: usize, ran_ns: u64) {
        let slice_ns = self.slice_ns(system, task);
        let slice = self.slice(system, task);
        let account = &mut self.accounts[task];
        account.vruntime += virtual_time(ran_ns, system.tasks[task].weight);
        account.used_ns += ran_ns;
        let is_used_up = account.used_ns >= slice_ns;
        if is_used_up {
            account.deadline = account.vruntime + slice;
            account.used_ns = 0;
            account.is_protected = false;
        }
        let is_behind = || !self.is_eligible(task, self.sums(system));
        let gives_way = is_used_up || (self.is_watched(task) && is_behind());
        self.accounts[task].is_over = gives_way && self.runnable.len() > 1;
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
        let is_kept = keys.run_to_parity.unwrap_or(true) && self.accounts[*worst].is_protected;
        let is_protected = is_kept && !cuts;
        (!is_protected && deadline(&best) < deadline(worst)).then_some(at)
    }

    #[cfg(test)]
    fn choose(&mut self, system: &System) -> Option<usize> {
        self.first(system)
    }

    #[cfg(test)]
    fn take(&mut self, task: usize) {
        self.start(task);
    }

    #[cfg(test)]
    fn owe(&mut self, system: &System, task: usize) {
        self.accounts.resize(system.tasks.len(), Account::default());
        let lag_ns = self.settings.tick_ns() / 2;
        self.accounts[task].lag = virtual_time(lag_ns, NICE_0_WEIGHT);
    }

    #[cfg(test)]
    fn follow(&mut self, system: &System, kernels: usize, _models: usize) {
        let behind = -self.owed(system, kernels);
        if behind > 0 {
            self.shift(system, kernels, -behind);
        }
        let mut others = self.runnable.clone();
        others.sort_by_key(|task| self.accounts[*task].deadline);
        for other in others.into_iter().filter(|task| *task != kernels) {
            let owed = self.owed(system, other);
            let later = self.accounts[kernels].deadline - self.accounts[other].deadline;
            if owed < 0 || later < 0 {
                continue;
            }
            // The smaller change: it is owed nothing, or the kernel's task is owed more.
            match owed < later {
                true => self.shift(system, other, owed),
                false => self.shift(system, kernels, -later),
            }
        }
    }

    /// `set_user_nice()` takes it out and places it again with the lag of the other weight.
    #[cfg(test)]
    fn reweigh(&mut self, system: &mut System, task: usize, weight: u64) {
        let before = std::mem::replace(&mut system.tasks[task].weight, weight);
        let scaled = |lag: i128| lag * i128::from(before) / i128::from(weight);
        if !self.runnable.contains(&task) {
            if let Some(account) = self.accounts.get_mut(task) {
                account.lag = scaled(account.lag);
            }
            return;
        }
        system.tasks[task].weight = before;
        let lag = self.lag(system, task);
        system.tasks[task].weight = weight;
        self.runnable.retain(|other| *other != task);
        let left = self.accounts[task].deadline - self.accounts[task].vruntime;
        self.accounts[task].lag = scaled(lag);
        self.place(system, task, false);
        let slice_ns = self.slice_ns(system, task);
        let account = &mut self.accounts[task];
        account.deadline = account.vruntime + left;
        let left_ns = left * i128::from(weight) / (SCALE * i128::from(NICE_0_WEIGHT));
        account.used_ns = slice_ns.saturating_sub(left_ns as u64);
        account.is_protected = true;
    }
}
