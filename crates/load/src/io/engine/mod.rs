//! The ways to hand requests to the kernel, one file each.

pub(crate) mod mmap;
pub(crate) mod psync;
mod queue;
pub(crate) mod ring;
mod sigbus;
pub(crate) mod uring;
mod uring_open;
mod uring_replay;

use rustix::io::Errno;

use super::error::IoError;
use super::job::EngineKind;
use super::result::RingFacts;
use super::tally::Stop;
use super::worker::Worker;

/// A prepared engine: its memory, ring or mapping exist before the clock starts.
pub(crate) enum Engine {
    Psync(psync::Psync),
    Uring(Box<uring::Uring>),
    Mmap(mmap::Mapping),
}

impl Engine {
    /// Prepares the engine of a worker; `wake` is the descriptor that ends its waiting.
    pub(crate) fn prepare(worker: &Worker, wake: i32) -> Result<Engine, IoError> {
        Ok(match worker.group.engine {
            EngineKind::Psync => Engine::Psync(psync::Psync::prepare(worker)?),
            EngineKind::IoUring => Engine::Uring(Box::new(uring::Uring::prepare(worker, wake)?)),
            EngineKind::Mmap => Engine::Mmap(mmap::Mapping::prepare(worker)?),
        })
    }

    /// Runs the worker's requests until it has reason to stop.
    pub(crate) fn run(&mut self, worker: &mut Worker, gate_ns: u64) -> Result<Stop, IoError> {
        match self {
            Engine::Psync(engine) => Ok(engine.run(worker, gate_ns)),
            Engine::Uring(engine) => engine.run(worker, gate_ns),
            Engine::Mmap(engine) => Ok(engine.run(worker, gate_ns)),
        }
    }

    /// Makes what was written durable.
    pub(crate) fn flush(&self, worker: &Worker) -> Result<(), Errno> {
        rustix::fs::fsync(&worker.target.file)
    }

    /// How the ring was set up.
    pub(crate) fn ring_facts(&self) -> Option<RingFacts> {
        match self {
            Engine::Uring(engine) => Some(engine.facts.clone()),
            _ => None,
        }
    }
}
