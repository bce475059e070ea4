//! The host's queue above a simulated device: what Linux does between a process and the driver.
//!
//! A bio is gathered in its process's plug list, merged into a request that it adjoins, ordered by
//! an I/O scheduler, and handed to the device while that has tags. The schedulers are written from
//! their rules; the kernel files that each follows are named in its own file.
//!
//! Omitted: zones, nested cgroups, several hardware queues, and the CPU time of all of it.

mod bfq;
mod cfq;
mod deadline;
mod kyber;
mod mq_deadline;
mod noop;
mod order;
mod pages;
mod process;
mod queue;
mod request;
mod result;
mod run;
mod settings;
mod sorted;
mod tunables;

#[cfg(test)]
mod tests;

pub use queue::Limits;
pub use request::{Bio, Class, HostRequest, Id, IoContext, Op, Pool, FLUSHER, NONE};
pub use result::{HostLogged, HostResult, OrderResult, ProcessResult};
pub use run::run;
pub use schedlab_model::process::{Arrivals, IoPriority, Pattern, ProcessSpec, Processes, PRESETS};
pub use schedlab_model::tunables::{Tunable, TUNABLES};
pub use settings::{HostJob, HostSettings};
pub use tunables::Settings;

use mq_deadline::MqDeadline;

use crate::registry::{self, Entry};
use crate::{SimError, Stepped, Stop};

/// The facts that a scheduler may know of the device.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// It has a head that moves.
    pub rotational: bool,
    /// Commands that the driver lets into it.
    pub driver_tags: usize,
    /// Requests that may be allocated.
    pub nr_requests: usize,
    /// Ticks per second of the kernel.
    pub hz: u64,
}

/// The state that every call of a scheduler is given.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The time.
    pub now_ns: u64,
    /// The device.
    pub device: Facts,
    /// All requests.
    pub requests: Pool<HostRequest>,
}

/// On which side of a request a bio was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// Behind it.
    Back,
    /// Before it.
    Front,
}

/// Whose tags a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// The driver's: there is no scheduler.
    Driver,
    /// The scheduler's own.
    Scheduler,
    /// As many for sync as for async requests each, as up to Linux 4.20.
    Legacy,
}

/// An I/O scheduler.
pub trait Scheduler: Sized {
    /// Whose tags a request takes.
    const ALLOCATION: Allocation;

    /// An empty one.
    fn new(settings: &Settings, facts: &Facts) -> Self;

    /// Takes a request in.
    fn insert(&mut self, ctx: &mut Ctx, id: Id);

    /// The request to hand to the device next, if any should be.
    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id>;

    /// A request is complete.
    fn completed(&mut self, _ctx: &mut Ctx, _id: Id) {}

    /// A request that the bio adjoins and may be merged into.
    fn find_merge(&mut self, _ctx: &Ctx, _bio: &Bio) -> Option<(Id, MergeKind)> {
        None
    }

    /// A bio was merged into a request, which stood at `old_key` in the order of sectors.
    fn merged(&mut self, _ctx: &mut Ctx, _id: Id, _kind: MergeKind, _old_key: (u64, u64)) {}

    /// Two requests that adjoin each other, one of which is `id`, the lower first.
    fn joinable(&self, _ctx: &Ctx, _id: Id) -> Option<(Id, Id)> {
        None
    }

    /// `gone`, not yet longer part of `into`, leaves the scheduler.
    fn joined(&mut self, _ctx: &mut Ctx, _into: Id, _gone: Id) {}

    /// How many requests of such a kind may be allocated.
    fn limit_depth(&self, _ctx: &Ctx, _op: Op, _sync: bool) -> usize {
        usize::MAX
    }

    /// When its timer runs out.
    fn next_timer(&self) -> Option<u64> {
        None
    }

    /// The timer ran out.
    fn timer(&mut self, _ctx: &mut Ctx) {}

    /// The device refused a request; it will be sent before any other.
    fn requeued(&mut self, _ctx: &mut Ctx, _id: Id) {}

    /// Requests that wait in it.
    fn queued(&self) -> usize;
}

type Run = fn(&Settings, &HostJob, &mut dyn Stepped, &Stop) -> Result<HostResult, SimError>;

/// The scheduler of that name.
fn scheduler_named(name: &str) -> Result<&'static Entry<(&'static str, Run)>, SimError> {
    registry::find("scheduler", name, SCHEDULERS, |entry| entry.0)
}

/// Each scheduler by its name in `/sys/block/*/queue/scheduler`: its principle, which kernels have
/// it, and a run under it.
#[rustfmt::skip]
pub const SCHEDULERS: &[Entry<(&str, Run)>] = &[
    ("none", "first come, first served", ("from 3.13", run::with::<noop::None>)),
    ("noop", "first come, first served, with merges", ("to 4.20", run::with::<noop::Noop>)),
    ("deadline", "by sector, unless one is late", ("to 4.20", run::with::<deadline::Deadline>)),
    ("cfq", "time slices for each process", ("to 4.20", run::with::<cfq::Cfq>)),
    ("mq-deadline", "by sector, unless one is late", ("from 4.11", run::with::<MqDeadline>)),
    ("kyber", "tokens by latency", ("from 4.12", run::with::<kyber::Kyber>)),
    ("bfq", "shares of the service for each process", ("from 4.12", run::with::<bfq::Bfq>)),
];
