//! A crew of worker processes: forked, held, started together, watched, reaped.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::account::{is_asleep, Account};
use super::attributes::Attributes;
use super::kernel::Kernel;
use super::scheduling::{self, allowed_cpus, effective_slice_ns, pin, Refusal};
use super::shared::{Shared, GO, PREPARE};
use super::worker::{self, open_gate, Orders};
use crate::child::{errno, kill, DONE, FAILED, READY};
use crate::clock;

/// What a crew shall do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// How many worker processes.
    pub processes: u32,
    /// Wall time after the common start; nothing means until [`WorkerGroup::stop`].
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The calculation.
    #[serde(default)]
    pub kernel: Kernel,
    /// How the workers are scheduled.
    #[serde(default)]
    pub scheduling: Attributes,
    /// CPUs that the workers are pinned to; empty: not pinned.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Length of a reported epoch.
    pub epoch_ns: u64,
    /// Epochs on a fixed grid with missed ones counted, or each from the end of the last.
    #[serde(default)]
    pub epoch_grid: bool,
    /// Whether the workers report every preemption ([`WorkerGroup::take_preemptions`]).
    #[serde(default)]
    pub slices: bool,
}

/// A completed epoch of one worker.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Epoch {
    /// Number of the worker, from 0.
    pub process: usize,
    /// Time since the common start.
    pub at_ns: u64,
    /// Calculations since the common start.
    pub count: u64,
    /// Epochs that ended since the last report: more than one when the worker was off the CPU.
    pub epochs: u64,
}

/// A preemption of one worker: one slice ends with it, and the next begins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Preemption {
    /// Number of the worker, from 0.
    pub process: usize,
    /// Monotonic time of the last calculation's end before it.
    pub at_ns: u64,
    /// Calculations since the common start, with the one that it fell into.
    pub count: u64,
    /// CPU time of the worker at the end of that calculation.
    pub cpu_ns: u64,
    /// Calculations so far that no switch and no tick came near.
    pub plain_count: u64,
    /// CPU time that those took.
    pub plain_cpu_ns: u64,
}

/// The account of one worker.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// Process id.
    pub pid: i32,
    /// Calculations.
    pub count: u64,
    /// Wall time from the common start to the last calculation.
    pub elapsed_ns: u64,
    /// CPU time of the calculations, without the exit; 0 when killed.
    pub calculation_cpu_ns: u64,
    /// CPU time from the start to the exit (the kernel's own account).
    pub cpu_ns: u64,
    /// Voluntary switches from the start to the exit, the exit included.
    pub voluntary_switches: u64,
    /// Preemptions from the start to the exit.
    pub involuntary_switches: u64,
    /// Checksum of the result.
    pub checksum: u32,
    /// Whether it ended by itself.
    pub completed: bool,
}

struct Member {
    pid: i32,
    before: Account,
    after: Option<Account>,
    reaped: bool,
    epochs_read: u64,
    slices_read: u64,
}

/// Running workers. Dropping it kills and reaps them.
pub struct WorkerGroup {
    job: Job,
    shared: Shared,
    members: Vec<Member>,
    lost_events: u64,
    cpus_before: Vec<usize>,
}

impl WorkerGroup {
    /// Forks the workers under the job's policy and affinity; they wait at the first gate.
    ///
    /// The calling thread takes policy and affinity on for the moment of the forks, so that all
    /// workers inherit them, then returns to its own policy and to the CPUs that the workers do
    /// not use, where there are any. It must live as long as the crew: the workers die with it.
    pub fn launch(job: Job) -> Result<Self, Refusal> {
        let shared = Shared::new(job.processes as usize, false)?;
        let mut crew = WorkerGroup {
            job,
            shared,
            members: Vec::new(),
            lost_events: 0,
            cpus_before: allowed_cpus(),
        };
        crew.fork_all()?;
        Ok(crew)
    }

    fn fork_all(&mut self) -> Result<(), Refusal> {
        let (policy, priority) = scheduling::current();
        if !self.job.cpus.is_empty() {
            pin(None, &self.job.cpus)?;
        }
        let forked = self
            .job
            .scheduling
            .enter()
            .and_then(|()| (0..self.job.processes as usize).try_for_each(|i| self.fork_one(i)));
        let back = scheduling::set_current(policy, priority);
        let used = &self.job.cpus;
        let free: Vec<usize> = self
            .cpus_before
            .iter()
            .copied()
            .filter(|c| !used.contains(c))
            .collect();
        pin(
            None,
            if free.is_empty() {
                &self.cpus_before
            } else {
                &free
            },
        )?;
        forked?;
        back.map_err(|errno| Refusal::new("policy", errno))
    }

    fn fork_one(&mut self, number: usize) -> Result<(), Refusal> {
        let orders = Orders {
            kernel: self.job.kernel,
            scheduling: self.job.scheduling,
            duration_ns: self.job.duration_ns.unwrap_or(0),
            epoch_ns: self.job.epoch_ns.max(1),
            epoch_grid: self.job.epoch_grid,
            tick_ns: if self.job.slices { tick_ns() } else { 0 },
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        };
        // SAFETY: the child runs `worker::run` only, which is async-signal-safe and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(Refusal::last("fork")),
            0 => worker::run(&orders, self.shared.header(), &self.shared.parts()[number]),
            pid => {
                self.members.push(Member {
                    pid,
                    before: Account::default(),
                    after: None,
                    reaped: false,
                    epochs_read: 0,
                    slices_read: 0,
                });
                Ok(())
            }
        }
    }

    /// Process ids in the order of the workers' numbers.
    pub fn pids(&self) -> Vec<i32> {
        self.members.iter().map(|m| m.pid).collect()
    }

    /// Lets the workers take their own settings; returns when all sleep, ready to start.
    pub fn prepare(&mut self, patience: Duration) -> Result<(), Refusal> {
        open_gate(self.shared.header(), PREPARE);
        let deadline = Instant::now() + patience;
        for (member, slot) in self.members.iter_mut().zip(self.shared.parts()) {
            loop {
                let state = slot.state.load(Acquire);
                if state == FAILED {
                    let step = match self.job.scheduling.policy {
                        scheduling::Policy::Deadline => "deadline",
                        _ => "slice",
                    };
                    return Err(Refusal::new(step, slot.errno.load(Relaxed)));
                }
                if state == READY && is_asleep(member.pid) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(Refusal::new("worker", libc::ETIMEDOUT));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            member.before = Account::of(member.pid);
        }
        Ok(())
    }

    /// The quantum that the kernel uses for the workers.
    pub fn effective_slice_ns(&self) -> Option<u64> {
        let first = self.members.first()?;
        effective_slice_ns(self.job.scheduling.policy, first.pid)
    }

    /// Opens the barrier: the time of all workers runs from now.
    pub fn start(&mut self) {
        let header = self.shared.header();
        header.start_ns.store(clock::now(), Relaxed);
        open_gate(header, GO);
    }

    /// Asks all workers to end after the calculation that they are in.
    pub fn stop(&self) {
        self.shared.header().stop.store(1, Relaxed);
    }

    /// Kills the workers that have not ended.
    pub fn kill(&self) {
        let left = self.members.iter().filter(|m| !m.reaped);
        left.for_each(|member| kill(member.pid));
    }

    /// Gives all workers another EEVDF slice.
    pub fn set_slice(&self, slice_ns: u64) -> Result<(), Refusal> {
        let scheduling = Attributes {
            slice_ns,
            ..self.job.scheduling
        };
        let mut pids = self.pids().into_iter();
        pids.try_for_each(|pid| scheduling.apply(pid))
            .map_err(|errno| Refusal::new("slice", errno))
    }

    /// Waits until all workers have ended, at most `timeout`; reaps; whether all have ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            self.members.iter_mut().for_each(Member::try_reap);
            if self.members.iter().all(|m| m.reaped) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    /// Epochs since the last call, in order of time.
    pub fn take_epochs(&mut self) -> Vec<Epoch> {
        let mut epochs = Vec::new();
        for (process, member) in self.members.iter_mut().enumerate() {
            let ring = &self.shared.parts()[process].epochs;
            let (events, lost) = ring.take(&mut member.epochs_read);
            self.lost_events += lost;
            epochs.extend(events.into_iter().map(|[at_ns, count, epochs]| Epoch {
                process,
                at_ns,
                count,
                epochs,
            }));
        }
        epochs.sort_by_key(|e| (e.at_ns, e.process));
        epochs
    }

    /// Preemptions reported since the last call, in order for each worker.
    pub fn take_preemptions(&mut self) -> Vec<Preemption> {
        let mut preemptions = Vec::new();
        for (process, member) in self.members.iter_mut().enumerate() {
            let ring = &self.shared.parts()[process].slices;
            let (events, lost) = ring.take(&mut member.slices_read);
            self.lost_events += lost;
            preemptions.extend(events.into_iter().map(
                |[at_ns, count, cpu_ns, plain_count, plain_cpu_ns]| Preemption {
                    process,
                    at_ns,
                    count,
                    cpu_ns,
                    plain_count,
                    plain_cpu_ns,
                },
            ));
        }
        preemptions
    }

    /// Epochs and preemptions that were overwritten before they were taken.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// The account of every worker, complete once [`WorkerGroup::wait`] returns true.
    pub fn totals(&self) -> Vec<Totals> {
        let slots = self.shared.parts();
        self.members
            .iter()
            .zip(slots)
            .map(|(member, slot)| {
                let after = member.after.unwrap_or_else(|| Account::of(member.pid));
                let before = member.before;
                Totals {
                    pid: member.pid,
                    count: slot.count.load(Relaxed),
                    elapsed_ns: slot.elapsed_ns.load(Relaxed),
                    calculation_cpu_ns: slot.cpu_ns.load(Relaxed),
                    cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
                    voluntary_switches: after.voluntary.saturating_sub(before.voluntary),
                    involuntary_switches: after.involuntary.saturating_sub(before.involuntary),
                    checksum: slot.checksum.load(Relaxed),
                    completed: slot.state.load(Acquire) == DONE,
                }
            })
            .collect()
    }
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        self.kill();
        self.wait(Duration::from_secs(5));
        let _ = pin(None, &self.cpus_before);
    }
}

/// Period of the tick: the coarse clock moves once in it.
fn tick_ns() -> u64 {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    resolution.tv_nsec as u64
}

impl Member {
    /// Reaps the process if it has ended, reading the kernel's account first.
    fn try_reap(&mut self) {
        if self.reaped || !has_ended(self.pid, libc::WNOWAIT) {
            return;
        }
        // A zombie shows its state a moment before its last switch is counted.
        std::thread::sleep(Duration::from_millis(1));
        self.after = Some(Account::of(self.pid));
        self.reaped = has_ended(self.pid, 0);
    }
}

/// Whether the child is a zombie; with flags 0 it is gone afterwards.
fn has_ended(pid: i32, flags: i32) -> bool {
    // SAFETY: siginfo_t is plain data that the kernel fills.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | flags;
        match libc::waitid(libc::P_PID, pid as u32, &mut info, options) {
            0 => info.si_pid() == pid,
            _ => errno() == libc::ECHILD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(processes: u32) -> Job {
        Job {
            processes,
            duration_ns: Some(250_000_000),
            kernel: Kernel::Matmul,
            scheduling: Attributes::default(),
            cpus: vec![allowed_cpus()[0]],
            epoch_ns: 100_000_000,
            epoch_grid: true,
            slices: true,
        }
    }

    #[test]
    fn two_workers_share_a_cpu_and_are_accounted() {
        // Long enough for both to be seen to share; on a busy machine a worker may get little of
        // it, so that what is asserted relates the accounts to each other, not to the clock.
        let mut crew = WorkerGroup::launch(Job {
            duration_ns: Some(600_000_000),
            ..job(2)
        })
        .unwrap();
        crew.prepare(Duration::from_secs(20)).unwrap();
        crew.start();
        assert!(crew.wait(Duration::from_secs(60)));
        let (epochs, preemptions) = (crew.take_epochs(), crew.take_preemptions());
        let totals = crew.totals();
        assert_eq!(totals[0].checksum, totals[1].checksum);
        let mut cpu_ns = 0;
        for (process, worker) in totals.iter().enumerate() {
            assert!(worker.completed && worker.count > 0, "{totals:?}");
            assert!(worker.elapsed_ns >= 600_000_000, "{totals:?}");
            // The exit and the last switch come after the last calculation.
            assert!(worker.calculation_cpu_ns <= worker.cpu_ns, "{totals:?}");
            assert!(worker.voluntary_switches >= 1, "{totals:?}");
            let own = epochs.iter().filter(|e| e.process == process);
            let grid = own.clone().map(|e| e.epochs).sum::<u64>() * 100_000_000;
            assert!(
                grid + 100_000_000 > worker.elapsed_ns,
                "{epochs:?} {totals:?}"
            );
            assert!(
                own.max_by_key(|e| e.at_ns)
                    .is_some_and(|e| e.count <= worker.count),
                "{epochs:?}"
            );
            let own = preemptions.iter().filter(|p| p.process == process);
            assert!(own.clone().count() as u64 <= worker.involuntary_switches);
            assert!(own
                .clone()
                .is_sorted_by_key(|p| (p.at_ns, p.count, p.cpu_ns)));
            cpu_ns += worker.cpu_ns;
        }
        // One CPU for both: together they cannot have had more of it than there was, to a tick.
        let longest_ns = totals.iter().map(|w| w.elapsed_ns).max().unwrap();
        assert!(cpu_ns < longest_ns + 50_000_000, "{totals:?}");
    }

    #[test]
    fn a_dropped_crew_leaves_no_process() {
        let mut crew = WorkerGroup::launch(Job {
            duration_ns: None,
            ..job(2)
        })
        .unwrap();
        let pids = crew.pids();
        crew.prepare(Duration::from_secs(5)).unwrap();
        crew.start();
        drop(crew);
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        }
    }
}
