//! One run: processes issue, the queue decides, the device serves, until the time is over.

mod buffered;
mod sent;
mod traced;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pages::{Dirty, ReadAhead};
use super::process::Records;
use super::queue::{Counts, Limits, Queue};
use super::request::{Bio, Class, IoContext, Op, Pool, FLUSHER};
use super::result::{HostLogged, HostResult, OrderResult, Tally};
use super::settings::HostJob;
use super::{scheduler_named, Allocation, Ctx, Scheduler, Settings};
use crate::{Completion, SimError, Stepped, Stop};
use schedlab_model::process::{Arrivals, ProcessSpec};
use schedlab_model::Rng;

/// Steps between two checks of the stop flag.
const STEPS_PER_LOOK: u32 = 4096;
/// Sectors of a page of 4 KiB.
const PAGE_SECTORS: u64 = 8;
/// Bytes of a huge page.
const HUGE_BYTES: u64 = 2 << 20;

/// Runs it under the scheduler that `scheduler` names.
pub fn run(
    scheduler: &Settings,
    job: &HostJob,
    device: &mut dyn Stepped,
    stop: &Stop,
) -> Result<HostResult, SimError> {
    job.settings.check()?;
    let (.., (_, run)) = scheduler_named(&scheduler.scheduler)?;
    run(scheduler, job, device, stop)
}

pub(super) fn with<S: Scheduler>(
    scheduler: &Settings,
    job: &HostJob,
    device: &mut dyn Stepped,
    stop: &Stop,
) -> Result<HostResult, SimError> {
    let mut run = Running::<S>::new(scheduler, job, device)?;
    run.go(stop)?;
    Ok(run.finish(scheduler))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A refused request comes back.
    Requeue(u32),
    /// A process issues so many records.
    Issue(u32, u32),
    /// The next of an open loop.
    Arrive(u32),
    /// The next of the trace.
    Trace,
    /// Somebody who waited for a tag is awake.
    Wake,
    /// The scheduler's queue is run after a completion.
    Restart,
}

impl Event {
    fn priority(self) -> u8 {
        match self {
            Event::Requeue(_) => 1,
            Event::Issue(..) | Event::Arrive(_) | Event::Trace => 2,
            Event::Wake => 3,
            Event::Restart => 4,
        }
    }
}

/// A record under way.
struct Io {
    left: u32,
    /// The sector behind its last.
    end: u64,
    arrival_ns: u64,
    purpose: Purpose,
}

/// Why a record is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The process waits for it.
    Own,
    /// Read ahead up to a sector.
    Ahead(u64),
    /// Dirty data.
    Flush,
}

struct Process {
    spec: ProcessSpec,
    context: IoContext,
    records: Records,
    tally: Tally,
    ahead: ReadAhead,
    dirty: Dirty,
    flushing: u32,
    /// It goes through the page cache, and what it submits waits for a tag.
    is_held_up: bool,
    /// The time that copying the latest buffered record took, before it was issued.
    copy_ns: u64,
    /// A buffered record that is blocked: since when, first and last sector, write or read.
    blocked: Option<(u64, u64, u64, Op)>,
    /// Records since the last fsync; whether one is waited for.
    unsynced: u64,
    is_syncing: bool,
    /// The buffers of its records are one mapping, of huge pages where it has room for one. Those
    /// of a trace are not known, and no limit.
    is_huge: bool,
}

impl Process {
    fn new(owner: u32, spec: ProcessSpec, records: Records, job: &HostJob) -> Process {
        let has_room = spec.record.0.saturating_mul(u64::from(spec.depth)) >= HUGE_BYTES;
        Process {
            is_huge: has_room || !job.trace.is_empty(),
            context: IoContext {
                owner,
                class: spec.ioprio.class,
                level: spec.ioprio.level,
                weight: spec.weight,
            },
            records,
            spec,
            tally: Tally::default(),
            ahead: ReadAhead::new(u64::from(job.settings.read_ahead_kb) * 2),
            dirty: Dirty::default(),
            flushing: 0,
            is_held_up: false,
            copy_ns: 0,
            blocked: None,
            unsynced: 0,
            is_syncing: false,
        }
    }
}

struct Running<'a, S> {
    job: &'a HostJob,
    queue: Queue<S>,
    device: &'a mut dyn Stepped,
    processes: Vec<Process>,
    ios: Pool<Io>,
    events: BinaryHeap<Reverse<(u64, u8, u64, Event)>>,
    sequence: u64,
    traced: usize,
    /// Of a trace: who owns the requests of each process, in its order.
    owners: Vec<u32>,
    /// The device was idle when the last request came: it starts after everything of that time.
    is_starting: bool,
    /// When the scheduler's queue is run next after a completion.
    restart_ns: Option<u64>,
    refusals: Rng,
    races: Rng,
    end_ns: u64,
    warm_ns: u64,
    /// Once the time is over: what was counted until then, and when the last event was.
    ended: Option<(Counts, u64)>,
    log: Vec<HostLogged>,
    completions: Vec<Completion>,
    completed_bios: Vec<Bio>,
}

impl<'a, S: Scheduler> Running<'a, S> {
    fn new(
        scheduler: &Settings,
        job: &'a HostJob,
        device: &'a mut dyn Stepped,
    ) -> Result<Self, SimError> {
        let settings = &job.settings;
        let facts = settings.facts(scheduler);
        let owners = traced::owners(&job.trace)?;
        let specs = match job.trace.is_empty() {
            true => job.processes.each(),
            false => owners.iter().map(traced::process).collect(),
        };
        let count = specs.len();
        let capacity_bytes = device.capacity_bytes();
        let process = |(index, spec): (usize, ProcessSpec)| {
            let place = (index, count);
            let records = Records::new(&spec, place, capacity_bytes, settings.seed)?;
            Ok(Process::new(index as u32, spec, records, job))
        };
        let processes = specs
            .into_iter()
            .enumerate()
            .map(process)
            .collect::<Result<_, SimError>>()?;
        let ctx = Ctx {
            now_ns: 0,
            device: facts,
            requests: Pool::default(),
        };
        let limits = Limits {
            nomerges: settings.nomerges,
            max_sectors: settings.max_sectors_kb * 2,
            ..Limits::default()
        };
        let to_ns = |seconds: f64| (seconds * 1e9) as u64;
        let mut run = Running {
            job,
            queue: Queue::new(
                S::new(scheduler, &facts),
                ctx,
                limits,
                count,
                settings.io_workers,
            ),
            device,
            processes,
            ios: Pool::default(),
            events: BinaryHeap::new(),
            sequence: 0,
            traced: 0,
            owners,
            is_starting: false,
            restart_ns: None,
            refusals: Rng::new(settings.seed, 1),
            races: Rng::new(settings.seed, 2),
            end_ns: to_ns(settings.seconds.0),
            warm_ns: to_ns(settings.warm_up_seconds.0),
            ended: None,
            log: Vec::new(),
            completions: Vec::new(),
            completed_bios: Vec::new(),
        };
        run.begin();
        Ok(run)
    }

    fn begin(&mut self) {
        if let Some(first) = self.job.trace.first() {
            self.at(first.request.arrival.0, Event::Trace);
            return;
        }
        let several = self.processes.len() > 1;
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            let mut start_ns = process.spec.start.0;
            if several {
                start_ns += process
                    .records
                    .start_offset_ns(self.job.settings.start_spread_ns);
            }
            match process.records.begin(start_ns) {
                Some(due_ns) => self.at(due_ns, Event::Arrive(index as u32)),
                None => {
                    let depth = process.spec.depth;
                    self.at(start_ns, Event::Issue(index as u32, depth));
                }
            }
        }
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        let entry = (at_ns, event.priority(), self.sequence, event);
        self.events.push(Reverse(entry));
    }

    fn go(&mut self, stop: &Stop) -> Result<(), SimError> {
        let mut steps = 0;
        loop {
            steps += 1;
            if steps % STEPS_PER_LOOK == 0 && stop.is_set() {
                return Err(SimError::Stopped);
            }
            let device_ns = self.device.next_time_ns().unwrap_or(u64::MAX);
            let event_ns = self
                .events
                .peek()
                .map_or(u64::MAX, |Reverse(entry)| entry.0);
            let timer_ns = self.queue.scheduler.next_timer().unwrap_or(u64::MAX);
            let now_ns = device_ns.min(event_ns).min(timer_ns);
            if now_ns > self.end_ns && self.ended.is_none() {
                self.queue.account_depth();
                self.ended = Some((self.queue.counts, self.queue.ctx.now_ns));
            }
            // What is under way at the end is still answered: the longest waits are among it.
            if self.ended.is_some() && (self.ios.held() == 0 || now_ns == u64::MAX) {
                return Ok(());
            }
            self.queue.ctx.now_ns = self.queue.ctx.now_ns.max(now_ns);
            if device_ns == now_ns && !(self.is_starting && event_ns == now_ns) {
                self.serve()?;
                if S::ALLOCATION == Allocation::Scheduler {
                    self.restart();
                    continue;
                }
            } else if event_ns == now_ns {
                if let Some(Reverse((.., event))) = self.events.pop() {
                    self.happen(event)?;
                }
            } else {
                self.queue.scheduler.timer(&mut self.queue.ctx);
            }
            self.pass()?;
        }
    }

    /// A worker of the kernel runs the queue of a scheduler after a completion; the process that
    /// waited for it was woken before (`blk_mq_end_request`, `blk_mq_sched_restart` of `block/`).
    fn restart(&mut self) {
        let at_ns = self.queue.ctx.now_ns + self.job.settings.turnaround_ns;
        if self.restart_ns != Some(at_ns) {
            self.restart_ns = Some(at_ns);
            self.at(at_ns, Event::Restart);
        }
    }

    /// Dispatches, lets those in that waited for a tag, and dispatches again.
    fn pass(&mut self) -> Result<(), SimError> {
        let before = self.queue.in_driver;
        self.queue.pass(self.device)?;
        while self.let_in() {
            self.queue.pass(self.device)?;
        }
        for _ in 0..self.queue.take_freed() {
            let settings = &self.job.settings;
            let is_late = self.races.unit() < settings.woken_early.0;
            let pause_ns = if is_late { settings.turnaround_ns } else { 0 };
            self.at(self.queue.ctx.now_ns + pause_ns, Event::Wake);
        }
        if before == 0 && self.queue.in_driver > 0 {
            self.is_starting = true;
        }
        Ok(())
    }

    /// Those that waited for a tag continue; true if one did.
    fn let_in(&mut self) -> bool {
        self.queue.refill();
        let mut admitted = std::mem::take(&mut self.queue.admitted);
        let came = !admitted.is_empty();
        for bio in admitted.drain(..) {
            let end = self.ios[bio.io].end;
            let is_whole = bio.end() == end || self.submit(bio, bio.end(), end);
            let process = &mut self.processes[bio.process as usize];
            if is_whole && std::mem::take(&mut process.is_held_up) {
                self.flush(bio.process);
                self.unblock(bio.process);
            }
            self.queue.unplug(bio.process);
        }
        self.queue.admitted = admitted;
        came
    }

    fn serve(&mut self) -> Result<(), SimError> {
        self.is_starting = false;
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(&mut completions);
        for (index, completion) in completions.iter().enumerate() {
            let id = completion.tag as u32;
            let rate = self.job.settings.requeue_rate.0;
            if rate > 0.0 && self.refusals.unit() < rate {
                // Seen by the host as a command that has to be sent again.
                self.at(self.queue.ctx.now_ns, Event::Requeue(id));
            } else {
                self.complete(id);
            }
            if index + 1 < completions.len() && S::ALLOCATION != Allocation::Scheduler {
                self.pass()?;
            }
        }
        completions.clear();
        self.completions = completions;
        Ok(())
    }

    fn complete(&mut self, id: u32) {
        let mut completed_bios = std::mem::take(&mut self.completed_bios);
        let request = self.queue.complete(id, &mut completed_bios);
        let now_ns = self.queue.ctx.now_ns;
        let in_time = self.ended.is_none();
        if self.job.settings.log && in_time {
            self.log.push(HostLogged::of(&request, now_ns));
        }
        for bio in completed_bios.drain(..) {
            let io = &mut self.ios[bio.io];
            io.left -= 1;
            if io.purpose == Purpose::Own && now_ns >= self.warm_ns && in_time {
                // At once: a record may take longer than the run.
                let bytes = u64::from(bio.sectors) * 512;
                self.processes[bio.process as usize].tally.moved(bytes);
            }
            if io.left == 0 {
                let (arrival_ns, purpose) = (io.arrival_ns, io.purpose);
                self.ios.release(bio.io);
                self.finished(bio.process, arrival_ns, purpose);
            }
        }
        self.completed_bios = completed_bios;
    }

    /// A record is complete: it counts, and its process continues after its turn-round.
    fn finished(&mut self, index: u32, arrival_ns: u64, purpose: Purpose) {
        let now_ns = self.queue.ctx.now_ns;
        let in_time = self.ended.is_none();
        let process = &mut self.processes[index as usize];
        match purpose {
            Purpose::Own => {
                if now_ns >= self.warm_ns {
                    process.tally.record(now_ns - arrival_ns, in_time);
                }
                if process.spec.arrivals == Arrivals::Closed && self.job.trace.is_empty() {
                    let think_ns = process.spec.think.0 + process.copy_ns;
                    let pause_ns = self.job.settings.turnaround_ns + think_ns;
                    self.at(now_ns + pause_ns, Event::Issue(index, 1));
                }
            }
            Purpose::Ahead(end) => {
                process.ahead.there = process.ahead.there.max(end);
                self.unblock(index);
            }
            Purpose::Flush => {
                process.flushing -= 1;
                self.flush(index);
                self.unblock(index);
            }
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), SimError> {
        match event {
            Event::Requeue(id) => self.queue.requeue(id),
            Event::Wake => self.queue.wake(),
            Event::Restart => {}
            _ if self.ended.is_some() => {}
            Event::Issue(index, count) => self.submit_batch(index, count)?,
            Event::Arrive(index) => {
                self.issue(index);
                self.queue.unplug(index);
                if let Some(due_ns) = self.processes[index as usize].records.next_arrival_ns() {
                    self.at(due_ns, Event::Arrive(index));
                }
            }
            Event::Trace => self.replay()?,
        }
        Ok(())
    }

    fn issue(&mut self, index: u32) {
        let process = &mut self.processes[index as usize];
        let (sector, sectors, op) = process.records.draw();
        if process.spec.direct {
            let (context, sync) = match process.spec.background {
                true => (flusher(), false),
                false => (process.context, true),
            };
            self.send(index, context, (op, sync), (sector, sectors), Purpose::Own);
            return;
        }
        let now_ns = self.queue.ctx.now_ns;
        process.blocked = Some((now_ns, sector, sector + sectors, op));
        if op == Op::Write {
            process.dirty.add(sector, sectors);
            process.unsynced += 1;
            let every = process.spec.fsync_every;
            process.is_syncing = every > 0 && process.unsynced >= every;
            self.flush(index);
        }
        self.unblock(index);
    }

    fn finish(self, scheduler: &Settings) -> HostResult {
        let (counts, last_ns) = self.ended.unwrap_or_default();
        // A trace ends with its last request, not with the time that was allowed for it.
        let until_ns = if self.job.trace.is_empty() {
            self.end_ns
        } else {
            last_ns
        };
        let seconds = (until_ns.saturating_sub(self.warm_ns) as f64 / 1e9).max(1e-9);
        let mut total = Tally::default();
        for process in &self.processes {
            total.add(&process.tally);
        }
        let each = counts.dispatched.max(1) as f64;
        HostResult {
            scheduler: scheduler.text(),
            seed: self.job.settings.seed,
            seconds,
            total: total.finish("total", seconds),
            processes: self
                .processes
                .iter()
                .map(|process| process.tally.finish(&process.spec.name, seconds))
                .collect(),
            order: OrderResult {
                dispatched: counts.dispatched,
                merges_per_request: counts.merges as f64 / each,
                seek_bytes_mean: counts.seek_sectors * 512.0 / each,
                depth_mean: counts.depth_ns / last_ns.max(1) as f64,
                requeues: counts.requeues,
            },
            trace: None,
            log: self.log,
        }
    }
}

/// The context of writes that the kernel sends for others.
fn flusher() -> IoContext {
    IoContext {
        owner: FLUSHER,
        class: Class::BestEffort,
        level: 4,
        weight: 0,
    }
}
