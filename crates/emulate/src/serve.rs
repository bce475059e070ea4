//! The worker: feeds the model in the order of time and replies when modelled time has come.
//!
//! Lateness never feeds back. The model decides with modelled times only; a late reply makes the
//! next request of a closed loop come later, as interrupts and drivers do on real devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use schedlab_sim::{Completion, Kind, SimError, Stepped, Submission};

use crate::account::{Account, Report, Served};
use crate::clock::Scale;
use crate::Model;

/// The way back to the sender of a request.
pub trait Reply {
    /// Reports that the request is complete.
    fn complete(self);
    /// Reports that the device failed.
    fn failed(self);
}

/// A request with the wall-clock time at which a reader saw it first.
pub struct Arrival<R> {
    /// ns.
    pub at_ns: u64,
    /// What it asks for.
    pub kind: Kind,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
    /// The way back.
    pub reply: R,
}

struct Pending<R> {
    at_ns: u64,
    kind: Kind,
    length_bytes: u64,
    reply: R,
}

/// A model in real time. It reads no clock: the caller passes the time.
pub struct Worker<R> {
    model: Model,
    device: Box<dyn Stepped>,
    scale: Scale,
    /// Replies are sent so much before their modelled time, to make up for the way to the caller.
    lead_ns: u64,
    /// By tag.
    pending: Vec<Option<Pending<R>>>,
    free_tags: Vec<usize>,
    /// Those of the pending that are flushes.
    flushes: u64,
    /// Wall time at which the device's time was 0.
    origin_ns: u64,
    /// Modelled times.
    event_ns: u64,
    submitted_ns: u64,
    account: Account,
    depth: Arc<AtomicU64>,
    completions: Vec<Completion>,
    /// The model is passed by: everything is answered at once.
    is_bypassed: bool,
}

impl<R: Reply> Worker<R> {
    /// A worker whose device is in its first state at `now_ns`. `depth` is where it publishes how
    /// many requests are in the model, without flushes, which the kernel does not count.
    pub fn new(
        model: Model,
        scale: Scale,
        depth: Arc<AtomicU64>,
        now_ns: u64,
    ) -> Result<Self, SimError> {
        Ok(Worker {
            device: model.build()?,
            model,
            scale,
            lead_ns: 0,
            pending: Vec::new(),
            free_tags: Vec::new(),
            flushes: 0,
            origin_ns: now_ns,
            event_ns: 0,
            submitted_ns: 0,
            account: Account::new(now_ns, 0),
            depth,
            completions: Vec::new(),
            is_bypassed: false,
        })
    }

    /// Feeds arrivals, sends replies due at `now_ns`, and returns when to call again. `clock` is
    /// asked when a reply was sent.
    pub fn step(
        &mut self,
        now_ns: u64,
        arrivals: &mut Vec<Arrival<R>>,
        clock: &dyn Fn() -> u64,
    ) -> Option<u64> {
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        for arrival in arrivals.drain(..) {
            self.arrive(arrival, clock);
        }
        let horizon_ns = self.to_model_ns(now_ns + self.lead_ns);
        while self.device.next_time_ns().is_some_and(|t| t <= horizon_ns) {
            self.advance(clock);
        }
        let next_ns = self.device.next_time_ns()?;
        Some(self.to_wall_ns(next_ns).saturating_sub(self.lead_ns))
    }

    /// Begins a window.
    pub fn mark(&mut self, now_ns: u64) {
        self.account = Account::new(now_ns, self.in_model());
    }

    /// The account since the mark.
    pub fn report(&mut self, now_ns: u64) -> Report {
        self.account.report(now_ns)
    }

    /// Puts the device into its first state, that of another model if there is one; data stay.
    /// Refused while requests are in it.
    pub fn reset(&mut self, now_ns: u64, model: Option<Model>) -> Result<(), String> {
        if self.in_model() > 0 {
            return Err(format!("{} requests are in the device", self.in_model()));
        }
        if let Some(model) = model {
            self.model = model;
        }
        self.device = self.model.build().map_err(|error| error.to_string())?;
        (self.origin_ns, self.event_ns, self.submitted_ns) = (now_ns, 0, 0);
        Ok(())
    }

    /// Answers everything at once, now and until this is ended: to measure the way to the device
    /// and back, and to end a device without waiting for it.
    pub fn bypass(&mut self, is_bypassed: bool) {
        self.is_bypassed = is_bypassed;
        // The tags stay taken until the model is done with them, too.
        for pending in self.pending.iter_mut().filter_map(Option::take) {
            pending.reply.complete();
        }
        self.flushes = 0;
    }

    /// Sends replies so much before their modelled time from now on.
    pub fn lead(&mut self, lead_ns: u64) {
        self.lead_ns = lead_ns;
    }

    /// Requests in the model.
    fn in_model(&self) -> u64 {
        (self.pending.len() - self.free_tags.len()) as u64
    }

    fn to_model_ns(&self, wall_ns: u64) -> u64 {
        self.scale
            .to_model_ns(wall_ns.saturating_sub(self.origin_ns))
    }

    fn to_wall_ns(&self, model_ns: u64) -> u64 {
        self.origin_ns + self.scale.to_wall_ns(model_ns)
    }

    fn arrive(&mut self, arrival: Arrival<R>, clock: &dyn Fn() -> u64) {
        if self.is_bypassed {
            return arrival.reply.complete();
        }
        let stamped_ns = self.to_model_ns(arrival.at_ns);
        while self.device.next_time_ns().is_some_and(|t| t < stamped_ns) {
            self.advance(clock);
        }
        if self.event_ns > stamped_ns + self.scale.to_model_ns(self.lead_ns) {
            self.account.reordered();
        }
        let at_ns = stamped_ns.max(self.event_ns).max(self.submitted_ns);
        self.submitted_ns = at_ns;
        let tag = self.free_tags.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        let submission = Submission {
            at_ns,
            tag: tag as u64,
            kind: arrival.kind,
            offset_bytes: arrival.offset_bytes,
            length_bytes: arrival.length_bytes,
        };
        if self.device.submit(submission).is_err() {
            self.free_tags.push(tag);
            return arrival.reply.failed();
        }
        self.pending[tag] = Some(Pending {
            at_ns: arrival.at_ns,
            kind: arrival.kind,
            length_bytes: arrival.length_bytes,
            reply: arrival.reply,
        });
        self.flushes += u64::from(arrival.kind == Kind::Flush);
        self.publish(self.to_wall_ns(at_ns));
    }

    /// How many requests are in the model from `at_ns` on.
    fn publish(&mut self, at_ns: u64) {
        let depth = self.in_model();
        self.account.depth(at_ns, depth);
        self.depth.store(depth - self.flushes, Ordering::Relaxed);
    }

    /// Lets the next event happen and replies to what it completes.
    fn advance(&mut self, clock: &dyn Fn() -> u64) {
        if let Some(next_ns) = self.device.next_time_ns() {
            self.event_ns = next_ns;
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(&mut completions);
        for completion in completions.drain(..) {
            let tag = completion.tag as usize;
            self.free_tags.push(tag);
            let Some(pending) = self.pending.get_mut(tag).and_then(Option::take) else {
                continue;
            };
            pending.reply.complete();
            let due_ns = self.to_wall_ns(completion.at_ns);
            self.flushes -= u64::from(pending.kind == Kind::Flush);
            self.publish(due_ns);
            self.account.served(Served {
                kind: pending.kind,
                length_bytes: pending.length_bytes,
                at_ns: pending.at_ns,
                due_ns,
                lead_ns: self.lead_ns,
                replied_ns: clock(),
            });
        }
        self.completions = completions;
    }
}

#[cfg(test)]
mod tests;
