//! Carrying out a job: one thread per worker, a gate that opens when all are ready, and a main
//! thread that waits with an open ear.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{eventfd, EventfdFlags};
use rustix::thread::UnshareFlags;
use schedlab_model::Bytes;

use super::clock;
use super::engine::{ring, Engine};
use super::error::{describe, IoError};
use super::job::{EngineKind, FileState, Group, Job};
use super::result::{JobResult, RingFacts};
use super::summary;
use super::tally::{Stop, Tally};
use super::target::Target;
use super::verify::Findings;
use super::worker::{Control, Usage, Worker};

/// How often the main thread asks its caller, and so how fast Ctrl-C is.
const POLL: Duration = Duration::from_millis(20);
/// Workers end by their own clock; after this time the main thread wakes those that wait.
const GRACE_NS: u64 = 2_000_000;
/// An interrupted job waits this long for requests in flight.
const PATIENCE_NS: u64 = 60_000_000;

/// What the caller of a running job wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Continue,
    /// End the measured window now, as if its time were over; requests in flight are awaited.
    Enough,
    /// Stop now and say what was counted so far.
    Stop,
}

/// What a worker hands back.
pub(crate) struct Report {
    pub group: usize,
    pub number: u32,
    pub path: PathBuf,
    pub tally: Tally,
    pub findings: Findings,
    pub usage: Usage,
    pub stop: Stop,
    pub fsync_ns: u64,
    pub ring: Option<RingFacts>,
}

enum Message {
    Ready,
    Done(Box<Report>),
    /// The gate never opened for this worker.
    Absent,
    Failed(IoError),
}

/// Closed until all workers are ready; holds the time at which the job began, or 0 to give up.
#[derive(Default)]
struct Gate {
    opened: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Gate {
    fn open(&self, start_ns: u64) {
        self.opened
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(start_ns);
        self.changed.notify_all();
    }

    /// Sends waiting workers home; does nothing when the gate is open.
    fn give_up(&self) {
        self.open(0);
    }

    fn wait(&self) -> Option<u64> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *opened {
                Some(0) => return None,
                Some(start_ns) => return Some(start_ns),
                None => {
                    opened = self
                        .changed
                        .wait(opened)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Carries out a job. `poll` is called every 20 ms, and may end or stop it. A job that is stopped
/// awaits its requests in flight for a moment only: workers that are stuck in the kernel are left
/// behind (they end when their requests do) and counted in the result.
pub fn run(job: &Job, poll: &mut dyn FnMut() -> Wish) -> Result<JobResult, IoError> {
    job.check()?;
    check_memory(job)?;
    let (job, fallbacks) = with_engines_that_work(job)?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
        IoError::Ring {
            operation: "eventfd",
            errno,
        }
    })?;
    let mut crew = Crew::start(&job, wake)?;
    let before = clock::process_cpu();
    crew.attend(&job, poll);
    let used = clock::process_cpu().since(before);
    remove_unfinished(&job, &crew.reports);
    if let Some(error) = crew.failure.take() {
        return Err(error);
    }
    let mut result = summary::sum_up(&job, &crew.reports, &fallbacks);
    result.interrupted = crew.interrupted;
    result.abandoned_workers = crew.running;
    result.process_cpu_user_ns = used.user;
    result.process_cpu_system_ns = used.system;
    Ok(result)
}

/// Refuses jobs whose buffers and orders would fill the memory: the kernel would kill somebody.
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
        let probe = ring::build(ring::Wanted {
            entries: 1,
            ..ring::Wanted::default()
        });
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
struct Crew {
    gate: Arc<Gate>,
    control: Arc<Control>,
    wake: OwnedFd,
    messages: Receiver<Message>,
    running: u32,
    reports: Vec<Report>,
    failure: Option<IoError>,
    interrupted: bool,
}

impl Crew {
    fn start(job: &Arc<Job>, wake: OwnedFd) -> Result<Crew, IoError> {
        let (sender, messages) = channel();
        let mut crew = Crew {
            gate: Arc::default(),
            control: Arc::new(Control::new(wake.as_raw_fd())),
            wake,
            messages,
            running: 0,
            reports: Vec::new(),
            failure: None,
            interrupted: false,
        };
        for (index, group) in job.groups.iter().enumerate() {
            let group = Arc::new(group.clone());
            for number in 0..group.workers {
                let berth = Berth {
                    job: Arc::clone(job),
                    group: Arc::clone(&group),
                    index,
                    number,
                    gate: Arc::clone(&crew.gate),
                    control: Arc::clone(&crew.control),
                    sender: sender.clone(),
                };
                let spawned = std::thread::Builder::new()
                    .name(format!("schedlab-io-{index}.{number}"))
                    .spawn(move || berth.work());
                if let Err(error) = spawned {
                    crew.gate.give_up();
                    return Err(IoError::Thread(error.to_string()));
                }
                crew.running += 1;
            }
        }
        Ok(crew)
    }

    /// Opens the gate when all workers are ready, and waits until all are done.
    fn attend(&mut self, job: &Job, poll: &mut dyn FnMut() -> Wish) {
        let mut waiting = self.running;
        let mut window_end = u64::MAX;
        let mut give_up_at = u64::MAX;
        while self.running > 0 && clock::now() < give_up_at {
            match self.messages.recv_timeout(POLL) {
                Ok(Message::Ready) => waiting -= 1,
                Ok(Message::Done(report)) => {
                    self.running -= 1;
                    self.reports.push(*report);
                }
                Ok(Message::Absent) => self.running -= 1,
                Ok(Message::Failed(error)) => {
                    self.running -= 1;
                    self.failure.get_or_insert(error);
                    self.gate.give_up();
                    self.stop(Control::interrupt);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if waiting == 0 && window_end == u64::MAX && self.failure.is_none() {
                let start = clock::now();
                self.gate.open(start);
                let length = job.seconds.map(|s| ((s + job.ramp_seconds) * 1e9) as u64);
                window_end = length.map_or(u64::MAX - 1, |ns| start + ns + GRACE_NS);
            }
            let wish = if self.interrupted {
                Wish::Continue
            } else {
                poll()
            };
            if wish == Wish::Stop {
                self.interrupted = true;
                give_up_at = clock::now() + PATIENCE_NS;
                self.gate.give_up();
                self.stop(Control::interrupt);
            } else if wish == Wish::Enough || clock::now() >= window_end {
                self.gate.give_up();
                self.stop(Control::time_over);
            }
        }
    }

    fn stop(&self, how: fn(&Control)) {
        how(&self.control);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A worker thread's place: what it was given.
struct Berth {
    job: Arc<Job>,
    group: Arc<Group>,
    index: usize,
    number: u32,
    gate: Arc<Gate>,
    control: Arc<Control>,
    sender: Sender<Message>,
}

impl Berth {
    fn work(self) {
        leave_signals_to_the_main_thread();
        own_file_table(self.control.wake);
        let message = match catch_unwind(AssertUnwindSafe(|| self.carry_out())) {
            Ok(Ok(Some(report))) => Message::Done(Box::new(report)),
            Ok(Ok(None)) => Message::Absent,
            Ok(Err(error)) => Message::Failed(error),
            Err(_) => Message::Failed(IoError::Thread("a worker died of a bug".into())),
        };
        // Nobody listens any more when an interrupted job left this worker behind.
        let _ = self.sender.send(message);
    }

    fn carry_out(&self) -> Result<Option<Report>, IoError> {
        let mut worker = Worker::prepare(&self.job, &self.group, self.number, &self.control)?;
        let mut engine = Engine::prepare(&worker, self.control.wake)?;
        let _ = self.sender.send(Message::Ready);
        let Some(gate_ns) = self.gate.wait() else {
            return Ok(None);
        };
        let mut stop = engine.run(&mut worker, gate_ns)?;
        let finished = matches!(stop, Stop::Time | Stop::Pass);
        let mut fsync_ns = 0;
        if self.group.fsync_at_end && finished {
            let begun = clock::now();
            if let Err(errno) = engine.flush(&worker) {
                let (offset, errno) = (worker.target.offset, errno.raw_os_error());
                worker.tally.fail("fsync", offset, errno);
                stop = worker.tally.verdict().unwrap_or(Stop::Errors);
            }
            fsync_ns = clock::now() - begun;
            worker.meter.extend();
        }
        let ring = engine.ring_facts();
        drop(engine);
        // The file is closed here, in the thread whose table holds it.
        let Worker {
            target: Target { file, path, .. },
            mut meter,
            payload,
            tally,
            ..
        } = worker;
        drop(file);
        if self.group.close_counted && finished {
            meter.extend();
        }
        Ok(Some(Report {
            group: self.index,
            number: self.number,
            findings: payload.findings(),
            usage: meter.usage(),
            path,
            tally,
            stop,
            fsync_ns,
            ring,
        }))
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

/// Gives this thread a file table of its own that holds nothing but the standard streams and the
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
