//! Carrying out a job: one thread or process per worker, a gate that opens when all are ready, and
//! a main thread that waits with an open ear.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{eventfd, EventfdFlags};
use rustix::thread::UnshareFlags;
use schedlab_model::Bytes;
use serde::Serialize;

use super::engine::ring;
use super::error::{describe, IoError};
use super::inflight::Sampler;
use super::job::{EngineKind, FileState, Group, Job};
use super::process;
use super::report::{Message, Report, Voice, WorkerSetup};
use super::result::JobResult;
use super::shared::{Control, GROUPS_MAX};
use super::summary;
use super::tally::Stop;
use crate::clock::{self, Cpu};

/// How often the main thread asks its caller, and so how fast Ctrl-C is.
const POLL: Duration = Duration::from_millis(20);
/// Workers end by their own clock; after this time the main thread wakes those that wait.
const GRACE_NS: u64 = 2_000_000;
/// An interrupted job waits this long for requests in flight, and for workers that wait for a CPU.
const PATIENCE_NS: u64 = 500_000_000;

/// The caller's decision on a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Keep running.
    Continue,
    /// End the measured window now, as if its time were over; requests in flight are awaited.
    Stop,
    /// Stop now, and report what was counted so far.
    Abort,
}

/// The workers of one group, which are ready and wait at the gate.
#[derive(Clone, Debug, Serialize)]
pub struct ReadyGroup {
    /// Name of the group.
    pub name: String,
    /// Process of each worker (thread, where workers are threads).
    pub ids: Vec<u32>,
}

/// Runs a job. `poll` is called every 20 ms, and may end or stop it. A job that is stopped
/// awaits its requests in flight for a moment only: workers that are stuck in the kernel are
/// abandoned (they end when their requests do) and counted in the result.
pub fn run(job: &Job, poll: &mut dyn FnMut() -> Decision) -> Result<JobResult, IoError> {
    run_watched(job, &mut |_| (), poll)
}

/// The same; `ready` gets the workers when all are ready, before the gate opens.
pub fn run_watched(
    job: &Job,
    ready: &mut dyn FnMut(&[ReadyGroup]),
    poll: &mut dyn FnMut() -> Decision,
) -> Result<JobResult, IoError> {
    job.check()?;
    check_memory(job)?;
    if job.groups.len() > GROUPS_MAX {
        return Err(IoError::Malformed(format!("at most {GROUPS_MAX} groups")));
    }
    let (job, fallbacks) = with_engines_that_work(job)?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
        IoError::Ring {
            operation: "eventfd",
            errno,
        }
    })?;
    let before = clock::process_cpu();
    let mut workers = Workers::start(&job, wake)?;
    let sampler = job.device.as_deref().map(Sampler::start);
    workers.attend(&job, ready, poll);
    let used = clock::process_cpu().since(before).and(workers.children_cpu);
    remove_unfinished(&job, &workers.reports);
    let gate = workers.start_ns;
    let window = workers.window();
    let inflight = sampler.map(|sampler| sampler.finish(gate, window.0, window.1));
    if let Some(error) = workers.failure.take() {
        return Err(error);
    }
    let mut result = summary::sum_up(&job, &workers.reports, &fallbacks, gate);
    result.inflight = inflight;
    result.interrupted = workers.interrupted;
    result.abandoned_workers = workers.running;
    result.process_cpu_user_ns = used.user;
    result.process_cpu_system_ns = used.system;
    Ok(result)
}

/// Refuses jobs whose buffers and orders would fill the memory: the kernel would kill a process.
fn check_memory(job: &Job) -> Result<(), IoError> {
    let system = rustix::system::sysinfo();
    let limit = system.totalram / 2 * u64::from(system.mem_unit.max(1));
    let needed = job
        .groups
        .iter()
        .fold(0u64, |sum, group| sum.saturating_add(group.memory()));
    if needed <= limit {
        return Ok(());
    }
    Err(IoError::TooMuchMemory {
        needed: Bytes(needed),
        limit: Bytes(limit),
    })
}

/// The job with psync in the place of a refused io_uring, where the group allows that.
fn with_engines_that_work(job: &Job) -> Result<(Arc<Job>, Vec<Option<String>>), IoError> {
    let mut job = job.clone();
    let mut fallbacks = vec![None; job.groups.len()];
    if job.groups.iter().any(|g| g.engine == EngineKind::IoUring) {
        let probe = ring::build(1);
        if let Err(IoError::RingRefused { errno }) = probe {
            for (group, fallback) in job.groups.iter_mut().zip(&mut fallbacks) {
                if group.engine != EngineKind::IoUring {
                    continue;
                }
                if !group.allow_fallback {
                    return Err(IoError::RingRefused { errno });
                }
                group.fall_back();
                *fallback = Some(format!(
                    "io_uring refused by the kernel: {}; psync, one request in flight",
                    describe(errno)
                ));
            }
        }
    }
    Ok((Arc::new(job), fallbacks))
}

/// All workers of a job, seen from the main thread.
struct Workers {
    control: Arc<Control>,
    wake: OwnedFd,
    messages: Receiver<Message>,
    running: u32,
    /// Holds on the worker processes.
    processes: Vec<OwnedFd>,
    ready_groups: Vec<ReadyGroup>,
    children_cpu: Cpu,
    /// When the gate was opened.
    start_ns: u64,
    reports: Vec<Report>,
    failure: Option<IoError>,
    interrupted: bool,
}

impl Workers {
    fn start(job: &Arc<Job>, wake: OwnedFd) -> Result<Workers, IoError> {
        let (sender, messages) = channel();
        let control = Control::new(wake.as_raw_fd())?;
        let ready_group = |group: &Group| ReadyGroup {
            name: group.name.clone(),
            ids: Vec::new(),
        };
        let mut workers = Workers {
            control: Arc::new(control),
            wake,
            messages,
            running: 0,
            processes: Vec::new(),
            ready_groups: job.groups.iter().map(ready_group).collect(),
            children_cpu: Cpu::default(),
            start_ns: 0,
            reports: Vec::new(),
            failure: None,
            interrupted: false,
        };
        for (index, group) in job.groups.iter().enumerate() {
            let group = Arc::new(group.clone());
            for number in 0..group.workers {
                let setup = WorkerSetup {
                    job: Arc::clone(job),
                    group: Arc::clone(&group),
                    index,
                    number,
                    control: Arc::clone(&workers.control),
                    voice: Voice::Channel(sender.clone()),
                };
                if let Err(error) = workers.start_one(setup, &sender) {
                    workers.control.give_up();
                    workers.leave_behind();
                    return Err(error);
                }
                workers.running += 1;
            }
        }
        Ok(workers)
    }

    fn start_one(&mut self, setup: WorkerSetup, sender: &Sender<Message>) -> Result<(), IoError> {
        if setup.job.process {
            self.processes.push(process::start(setup, sender.clone())?);
            return Ok(());
        }
        let name = format!("schedlab-io-{}.{}", setup.index, setup.number);
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            leave_signals_to_the_main_thread();
            own_file_table(setup.control.wake);
            setup.work();
        });
        spawned
            .map(drop)
            .map_err(|error| IoError::Thread(error.to_string()))
    }

    /// Ends the worker processes that are still there.
    fn leave_behind(&self) {
        self.processes.iter().for_each(process::kill);
    }

    /// The measured window of all workers together.
    fn window(&self) -> (u64, u64) {
        let windows = || self.reports.iter().map(|report| report.usage.window);
        let from = windows().map(|window| window.0).min();
        let to = windows().map(|window| window.1).max();
        (from.unwrap_or(self.start_ns), to.unwrap_or(self.start_ns))
    }

    /// Opens the gate when all workers are ready, and waits until all are done.
    fn attend(
        &mut self,
        job: &Job,
        ready: &mut dyn FnMut(&[ReadyGroup]),
        poll: &mut dyn FnMut() -> Decision,
    ) {
        let mut waiting = self.running;
        let mut window_end = u64::MAX;
        let mut give_up_at = u64::MAX;
        while self.running > 0 && clock::now() < give_up_at {
            match self.messages.recv_timeout(POLL) {
                Ok(message) => waiting -= u32::from(self.hear(job, message)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if waiting == 0 && window_end == u64::MAX && self.failure.is_none() {
                ready(&self.ready_groups);
                self.start_ns = self.control.open();
                let length = job.seconds.map(|s| ((s + job.ramp_seconds) * 1e9) as u64);
                window_end = length.map_or(u64::MAX - 1, |ns| self.start_ns + ns + GRACE_NS);
            }
            let decision = if self.interrupted {
                Decision::Continue
            } else {
                poll()
            };
            if decision == Decision::Abort {
                self.interrupted = true;
                give_up_at = clock::now() + PATIENCE_NS;
                self.control.give_up();
                self.stop(Control::interrupt);
            } else if decision == Decision::Stop || clock::now() >= window_end {
                self.control.give_up();
                self.stop(Control::time_over);
            }
        }
        if self.running > 0 {
            self.leave_behind();
        }
    }

    /// Handles a message; true if it reports a worker as ready.
    fn hear(&mut self, job: &Job, message: Message) -> bool {
        match message {
            Message::Ready { group, id } => {
                self.ready_groups[group].ids.push(id);
                return true;
            }
            Message::Done(report, cpu) => {
                self.running -= 1;
                self.children_cpu = self.children_cpu.and(cpu);
                let group = report.group;
                self.reports.push(*report);
                let count = self.reports.iter().filter(|r| r.group == group).count();
                if job.groups[group].ends_job && count == job.groups[group].workers as usize {
                    self.stop(Control::time_over);
                }
            }
            Message::Absent => self.running -= 1,
            Message::Failed(error) => {
                self.running -= 1;
                self.failure.get_or_insert(error);
                self.control.give_up();
                self.stop(Control::interrupt);
            }
        }
        false
    }

    fn stop(&self, how: fn(&Control)) {
        how(&self.control);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Signals belong to the main thread; only faults of this thread itself stay with it.
fn leave_signals_to_the_main_thread() {
    // SAFETY: plain data filled by the calls below; changes the mask of this thread only.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for fault in [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(&mut set, fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Gives this thread its own file table that holds only the standard streams and the
/// wake-up: no contended reference counts, and a worker left behind keeps no lock file open.
fn own_file_table(wake: RawFd) {
    // SAFETY: this thread uses no descriptor that was opened before, except `wake`.
    if unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }.is_ok() {
        let wake = wake as libc::c_uint;
        // SAFETY: closes copies in the table that now belongs to this thread alone.
        unsafe {
            if wake > 3 {
                libc::syscall(libc::SYS_close_range, 3, wake - 1, 0);
            }
            libc::syscall(libc::SYS_close_range, wake.max(2) + 1, libc::c_uint::MAX, 0);
        }
    }
}

/// A full disk leaves no half-written file of ours behind.
fn remove_unfinished(job: &Job, reports: &[Report]) {
    for report in reports {
        let ours = job.groups[report.group].file == FileState::Fresh && report.path.is_file();
        if ours && report.stop == Stop::NoSpace {
            let _ = std::fs::remove_file(&report.path);
        }
    }
}
