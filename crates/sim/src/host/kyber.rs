//! `kyber` (`block/kyber-iosched.c`): tokens for each kind of request, fewer of them for those
//! that make others late.

use super::noop::adjoining_newest;
use super::sorted::Fifo;
use super::{Allocation, Bio, Ctx, Facts, Id, MergeKind, Op, Scheduler, Settings};

/// Reads, writes, discards.
const DOMAINS: usize = 3;
const READ: usize = 0;
const WRITE: usize = 1;
/// Most tokens of each.
const MOST_TOKENS: [u64; DOMAINS] = [256, 128, 64];
/// Requests of one turn.
const BATCH: [u64; DOMAINS] = [16, 8, 1];
/// Bins of a histogram; the first half is within the target.
const BINS: usize = 8;
const GOOD_BINS: usize = 4;
/// A percentile needs so many samples, or so long since the first.
const SAMPLES: u64 = 500;
const PATIENCE_NS: u64 = 1_000_000_000;
const DISCARD_TARGET_NS: u64 = 5_000_000_000;

/// Latencies in quarters of the target.
#[derive(Clone, Copy, Default)]
struct Latencies([u64; BINS]);

impl Latencies {
    fn add(&mut self, latency_ns: u64, target_ns: u64) {
        let quarter_ns = (target_ns / GOOD_BINS as u64).max(1);
        let bin = (latency_ns.saturating_sub(1) / quarter_ns).min(BINS as u64 - 1);
        self.0[bin as usize] += 1;
    }

    fn samples(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The bin of a percentile; the bins are empty afterwards.
    fn percentile(&mut self, percent: u64) -> usize {
        let mut left = (self.samples() * percent).div_ceil(100);
        let mut percentile_bin = BINS - 1;
        for (bin, count) in self.0.iter().enumerate() {
            if *count >= left {
                percentile_bin = bin;
                break;
            }
            left -= count;
        }
        *self = Latencies::default();
        percentile_bin
    }
}

#[derive(Clone, Default)]
struct Domain {
    fifo: Fifo,
    queued: usize,
    depth: u64,
    taken: u64,
    target_ns: u64,
    total: Latencies,
    device: Latencies,
    /// From when on fewer samples suffice.
    timeout_ns: Option<u64>,
    remembered: Option<usize>,
}

impl Domain {
    fn can_dispatch(&self) -> bool {
        self.queued > 0 && self.taken < self.depth
    }

    /// A percentile, if there are samples enough.
    fn percentile(&mut self, now_ns: u64, of_device: bool, percent: u64) -> Option<usize> {
        let bins = if of_device {
            &mut self.device
        } else {
            &mut self.total
        };
        let samples = bins.samples();
        if samples == 0 {
            return None;
        }
        let timeout_ns = *self.timeout_ns.get_or_insert(now_ns + PATIENCE_NS);
        if samples < SAMPLES && now_ns < timeout_ns {
            return None;
        }
        self.timeout_ns = None;
        Some(bins.percentile(percent))
    }
}

/// The domains and whose turn it is.
#[derive(Clone)]
pub struct Kyber {
    domains: [Domain; DOMAINS],
    current: usize,
    batching: u64,
    timer_ns: Option<u64>,
    timer_interval_ns: u64,
    async_depth: usize,
}

impl Kyber {
    fn domain_of(op: Op) -> usize {
        match op {
            Op::Read => READ,
            Op::Write => WRITE,
            Op::Discard => 2,
        }
    }

    fn take(&mut self, ctx: &mut Ctx) -> Option<Id> {
        let domain = &mut self.domains[self.current];
        if !domain.can_dispatch() {
            return None;
        }
        let id = domain.fifo.pop(&mut ctx.requests)?;
        domain.queued -= 1;
        domain.taken += 1;
        self.batching += 1;
        Some(id)
    }

    /// Hands out a certain request.
    #[cfg(test)]
    pub(super) fn take_that(&mut self, ctx: &mut Ctx, id: Id) {
        self.current = Self::domain_of(ctx.requests[id].op);
        let domain = &mut self.domains[self.current];
        domain.fifo.remove(&mut ctx.requests, id);
        domain.queued -= 1;
        domain.taken += 1;
        self.batching += 1;
    }

    /// Tokens in force, by domain.
    #[cfg(test)]
    pub(super) fn depths(&self) -> [u64; DOMAINS] {
        [0, 1, 2].map(|domain| self.domains[domain].depth)
    }

    #[cfg(test)]
    pub(super) fn set_depth(&mut self, domain: usize, depth: u64) {
        self.domains[domain].depth = depth;
    }
}

impl Scheduler for Kyber {
    const ALLOCATION: Allocation = Allocation::Scheduler;

    fn new(settings: &Settings, facts: &Facts) -> Self {
        let targets_ns = [
            settings.get("read_lat_nsec"),
            settings.get("write_lat_nsec"),
            DISCARD_TARGET_NS,
        ];
        let domain = |index: usize| Domain {
            depth: MOST_TOKENS[index],
            target_ns: targets_ns[index],
            ..Domain::default()
        };
        let tick_ns = 1_000_000_000 / facts.hz;
        Kyber {
            domains: [domain(0), domain(1), domain(2)],
            current: READ,
            batching: 0,
            timer_ns: None,
            timer_interval_ns: facts.hz / 10 * tick_ns,
            async_depth: (facts.nr_requests * 3 / 4).max(1),
        }
    }

    fn insert(&mut self, ctx: &mut Ctx, id: Id) {
        let domain = &mut self.domains[Self::domain_of(ctx.requests[id].op)];
        domain.fifo.push(&mut ctx.requests, id);
        domain.queued += 1;
    }

    fn dispatch(&mut self, ctx: &mut Ctx) -> Option<Id> {
        if self.batching < BATCH[self.current] {
            if let Some(id) = self.take(ctx) {
                return Some(id);
            }
        }
        self.batching = 0;
        for _ in 0..DOMAINS {
            self.current = (self.current + 1) % DOMAINS;
            if let Some(id) = self.take(ctx) {
                return Some(id);
            }
        }
        None
    }

    fn completed(&mut self, ctx: &mut Ctx, id: Id) {
        let request = &ctx.requests[id];
        let domain = &mut self.domains[Self::domain_of(request.op)];
        domain.taken -= 1;
        let target_ns = domain.target_ns;
        domain.total.add(ctx.now_ns - request.arrival_ns, target_ns);
        domain
            .device
            .add(ctx.now_ns - request.dispatched_ns, target_ns);
        if self.timer_ns.is_none() {
            self.timer_ns = Some(ctx.now_ns + self.timer_interval_ns);
        }
    }

    fn find_merge(&mut self, ctx: &Ctx, bio: &Bio) -> Option<(Id, MergeKind)> {
        let domain = &self.domains[Self::domain_of(bio.op)];
        adjoining_newest(&domain.fifo, ctx, bio)
    }

    fn limit_depth(&self, _ctx: &Ctx, _op: Op, sync: bool) -> usize {
        if sync {
            usize::MAX
        } else {
            self.async_depth
        }
    }

    fn next_timer(&self) -> Option<u64> {
        self.timer_ns
    }

    fn timer(&mut self, ctx: &mut Ctx) {
        self.timer_ns = None;
        let mut bad = false;
        for domain in &mut self.domains {
            let late = domain.percentile(ctx.now_ns, true, 90);
            bad |= late.is_some_and(|bin| bin >= GOOD_BINS);
        }
        for (index, domain) in self.domains.iter_mut().enumerate() {
            let mut bin = domain.percentile(ctx.now_ns, false, 99);
            if bad {
                bin = bin.or(domain.remembered.take());
            } else if bin.is_some() {
                domain.remembered = bin;
            }
            let Some(bin) = bin else {
                continue;
            };
            if bad || bin >= GOOD_BINS {
                let depth = domain.depth * (bin as u64 + 1) / GOOD_BINS as u64;
                domain.depth = depth.clamp(1, MOST_TOKENS[index]);
            }
        }
    }

    fn queued(&self) -> usize {
        self.domains.iter().map(|domain| domain.queued).sum()
    }
}
