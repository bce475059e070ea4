//! The life of a worker, thread or process, up to its report, and what it says meanwhile.

use std::fs::File;
use std::io::Write;
use std::os::fd::RawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::error::IoError;
use super::job::{Group, Job};
use super::place;
use super::result::{Prepared, RingFacts};
use super::shared::Control;
use super::tally::{Stop, Tally};
use super::target::Target;
use super::worker::{Usage, Worker};
use crate::clock::{self, Cpu};

/// The report of a worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    pub group: usize,
    pub number: u32,
    pub id: u32,
    pub path: PathBuf,
    pub tally: Tally,
    pub usage: Usage,
    pub stop: Stop,
    pub fsync_ns: u64,
    pub prepared: Prepared,
    pub ring: Option<RingFacts>,
}

pub(crate) enum Message {
    Ready {
        group: usize,
        id: u32,
    },
    /// A report, and the CPU time of the whole process where the worker was one.
    Done(Box<Report>, Cpu),
    /// The gate never opened for this worker.
    Absent,
    Failed(IoError),
}

/// What goes through the pipe.
#[derive(Serialize, Deserialize)]
pub(crate) enum Word {
    Ready,
    Absent,
    Done(Box<Report>),
    Failed {
        text: String,
        hint: String,
        description: bool,
    },
}

/// The channel from a worker to the main thread.
pub(crate) enum Voice {
    Channel(Sender<Message>),
    Pipe(File),
}

impl Voice {
    fn say(&self, message: Message) {
        match self {
            // The receiver is gone when an interrupted job left this worker behind.
            Voice::Channel(sender) => drop(sender.send(message)),
            Voice::Pipe(pipe) => say(pipe, message),
        }
    }
}

/// Everything that a worker needs to run.
pub(crate) struct WorkerSetup {
    pub job: Arc<Job>,
    pub group: Arc<Group>,
    pub index: usize,
    pub number: u32,
    pub control: Arc<Control>,
    pub voice: Voice,
}

impl WorkerSetup {
    /// The descriptors that the worker needs, with `pipe`.
    pub(crate) fn descriptors(&self, pipe: RawFd) -> Vec<RawFd> {
        let log = self.group.log.as_ref().and_then(|log| log.fd);
        let mut all = vec![pipe, self.control.wake];
        all.extend(self.group.fd.into_iter().chain(log));
        all
    }

    /// The life of the worker.
    pub(crate) fn work(&self) {
        let message = match catch_unwind(AssertUnwindSafe(|| self.run_job())) {
            Ok(Ok(Some(report))) => Message::Done(Box::new(report), Cpu::default()),
            Ok(Ok(None)) => Message::Absent,
            Ok(Err(error)) => Message::Failed(error),
            Err(_) => Message::Failed(IoError::Thread("a worker died of a bug".into())),
        };
        self.voice.say(message);
    }

    fn run_job(&self) -> Result<Option<Report>, IoError> {
        place::enter(&self.group)?;
        let (job, group, number) = (&self.job, &self.group, self.number);
        let mut worker = Worker::prepare(job, self.index, group, number, &self.control)?;
        let mut engine = Engine::prepare(&worker, self.control.wake)?;
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        self.voice.say(Message::Ready {
            group: self.index,
            id,
        });
        let Some(gate_ns) = self.control.wait() else {
            return Ok(None);
        };
        let mut stop = engine.run(&mut worker, gate_ns)?;
        let finished = matches!(stop, Stop::Time | Stop::Pass);
        let mut fsync_ns = 0;
        if self.group.fsync_at_end && finished {
            let start_ns = clock::now();
            if let Err(errno) = engine.flush(&worker) {
                let (offset, errno) = (worker.target.offset, errno.raw_os_error());
                worker.tally.fail("fsync", offset, errno);
                stop = worker.tally.verdict().unwrap_or(Stop::Errors);
            }
            fsync_ns = clock::now() - start_ns;
            worker.meter.extend();
        }
        let ring = engine.ring_facts();
        drop(engine);
        // The file is closed here, in the thread whose table holds it.
        let Worker {
            target: Target { file, path, .. },
            mut meter,
            tally,
            prepared,
            ..
        } = worker;
        drop(file);
        if self.group.close_counted && finished {
            meter.extend();
        }
        Ok(Some(Report {
            group: self.index,
            number: self.number,
            id,
            prepared,
            usage: meter.usage(),
            path,
            tally,
            stop,
            fsync_ns,
            ring,
        }))
    }
}

/// Sends a message to the parent.
fn say(mut pipe: &File, message: Message) {
    let word = match message {
        Message::Ready { .. } => Word::Ready,
        Message::Absent => Word::Absent,
        Message::Done(report, _) => Word::Done(report),
        Message::Failed(error) => Word::Failed {
            text: error.to_string(),
            hint: error.hint(),
            description: error.is_description(),
        },
    };
    // A parent that is gone has already ended this process.
    if let Ok(text) = serde_json::to_vec(&word) {
        let _ = pipe.write_all(&(text.len() as u64).to_ne_bytes());
        let _ = pipe.write_all(&text);
    }
}
