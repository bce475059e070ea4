//! Orders of dispatch worked out by hand, merges, and what must hold for every scheduler.
#![allow(clippy::unwrap_used)]

mod by_hand;
mod invariants;
mod judge;
mod merging;

use super::queue::{Limits, Queue};
use super::request::{Class, HostRequest, Id, IoContext, Op, Pool, NONE};
use super::{Bio, Ctx, Facts, MergeKind, Scheduler, Settings};

pub(super) const MS: u64 = 1_000_000;

/// A scheduler without a device around it.
pub(super) struct Bench<S> {
    pub(super) ctx: Ctx,
    pub(super) scheduler: S,
    seq: u64,
}

impl<S: Scheduler> Bench<S> {
    pub(super) fn new(settings: &str) -> Self {
        Self::on(settings, true)
    }

    pub(super) fn on(settings: &str, rotational: bool) -> Self {
        let (scheduler, ctx) = on_device(settings, rotational, 1 << 20);
        Bench {
            ctx,
            scheduler,
            seq: 0,
        }
    }

    /// `R100` or `W100` of process 0, 8 sectors.
    pub(super) fn add(&mut self, texts: &str) {
        for text in texts.split_whitespace() {
            self.add_as(text, context(0));
        }
    }

    pub(super) fn add_as(&mut self, text: &str, context: IoContext) -> Id {
        let mut bio = bio(text, context);
        bio.arrival_ns = self.ctx.now_ns;
        let mut request = HostRequest::of(&bio, NONE, self.ctx.now_ns);
        self.seq += 1;
        request.seq = self.seq;
        let id = self.ctx.requests.add(request);
        self.scheduler.insert(&mut self.ctx, id);
        id
    }

    pub(super) fn take(&mut self) -> Option<Id> {
        let id = self.scheduler.dispatch(&mut self.ctx)?;
        self.ctx.requests[id].dispatched_ns = self.ctx.now_ns;
        Some(id)
    }

    /// Takes the next one, which must be this.
    pub(super) fn expect(&mut self, text: &str) -> Id {
        let id = self.take().unwrap();
        assert_eq!(self.text(id), text);
        id
    }

    pub(super) fn complete(&mut self, id: Id) {
        self.scheduler.completed(&mut self.ctx, id);
        self.ctx.requests.release(id);
    }

    pub(super) fn text(&self, id: Id) -> String {
        let request = &self.ctx.requests[id];
        let kind = if request.is_write() { 'W' } else { 'R' };
        format!("{kind}{}", request.sector)
    }

    /// Everything, one after another, each completed before the next.
    pub(super) fn drain(&mut self) -> String {
        let mut order = Vec::new();
        while let Some(id) = self.take() {
            order.push(self.text(id));
            self.complete(id);
        }
        order.join(" ")
    }
}

/// A scheduler as it is on a device with so many tags.
fn on_device<S: Scheduler>(settings: &str, rotational: bool, driver_tags: usize) -> (S, Ctx) {
    let settings = Settings::parse(settings).unwrap();
    let facts = Facts {
        rotational,
        driver_tags,
        nr_requests: 256,
        hz: 250,
    };
    let ctx = Ctx {
        now_ns: 0,
        device: facts,
        requests: Pool::default(),
    };
    (S::new(&settings, &facts), ctx)
}

/// The queue above a scheduler, with four processes.
pub(super) fn queue<S: Scheduler>(settings: &str, limits: Limits, tags: usize) -> Queue<S> {
    let (scheduler, ctx) = on_device(settings, true, tags);
    Queue::new(scheduler, ctx, limits, 4, 2)
}

pub(super) fn context(owner: u32) -> IoContext {
    IoContext {
        owner,
        class: Class::BestEffort,
        level: 4,
        weight: 0,
    }
}

pub(super) fn bio(text: &str, context: IoContext) -> Bio {
    let op = if text.starts_with('W') {
        Op::Write
    } else {
        Op::Read
    };
    Bio {
        process: context.owner,
        io: 0,
        context,
        op,
        sync: op == Op::Read,
        sector: text[1..].parse().unwrap(),
        sectors: 8,
        segments: 1,
        arrival_ns: 0,
        next: NONE,
    }
}
