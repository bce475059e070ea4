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
mod presets;
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

pub use presets::PRESETS;
pub use process::{Arrivals, IoPriority, Pattern, ProcessSpec, Processes};
pub use queue::Limits;
pub use request::{Bio, Class, HostRequest, Id, IoContext, Op, Pool, FLUSHER, NONE};
pub use result::{HostLogged, HostResult, OrderResult, ProcessResult};
pub use run::run;
pub use settings::{HostJob, HostSettings};
pub use tunables::{Settings, Tunable, TUNABLES};

use mq_deadline::MqDeadline;

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

/// A scheduler by name.
#[derive(Clone, Copy)]
pub struct SchedulerEntry {
    /// As in `/sys/block/*/queue/scheduler`.
    pub name: &'static str,
    /// Its principle.
    pub about: &'static str,
    /// Which kernels have it.
    pub kernels: &'static str,
    run: Run,
}

const fn entry(
    name: &'static str,
    kernels: &'static str,
    about: &'static str,
    run: Run,
) -> SchedulerEntry {
    SchedulerEntry {
        name,
        about,
        kernels,
        run,
    }
}

/// The scheduler of that name.
fn scheduler_named(name: &str) -> Result<&'static SchedulerEntry, SimError> {
    let known = SCHEDULERS.iter().map(|entry| entry.name);
    let entry = SCHEDULERS.iter().find(|entry| entry.name == name);
    entry.ok_or_else(|| SimError::unknown("scheduler", name, known))
}

/// All of them, one line each.
#[rustfmt::skip]
pub const SCHEDULERS: &[SchedulerEntry] = &[
    entry("none", "from 3.13", "first come, first served", run::with::<noop::None>),
    entry("noop", "to 4.20", "first come, first served, with merges", run::with::<noop::Noop>),
    entry("deadline", "to 4.20", "by sector, unless one is late", run::with::<deadline::Deadline>),
    entry("cfq", "to 4.20", "time slices for each process", run::with::<cfq::Cfq>),
    entry("mq-deadline", "from 4.11", "by sector, unless one is late", run::with::<MqDeadline>),
    entry("kyber", "from 4.12", "tokens by latency", run::with::<kyber::Kyber>),
    entry("bfq", "from 4.12", "shares of the service for each process", run::with::<bfq::Bfq>),
];
