//! The worker: feeds the model in the order of time and replies when modelled time has come.
//!
//! Lateness never feeds back. The model decides with modelled times only; a late reply makes the
//! next request of a closed loop come later, as interrupts and drivers do on real devices.

use std::collections::VecDeque;

use schedlab_sim::{Completion, Kind, SimError, Stepped, Submission};
use serde::Deserialize;

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

/// How much before their modelled time replies are sent, to make up for the way to the caller.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Lead {
    /// The way of a request of 4 KiB, ns.
    pub ns: u64,
    /// What each MiB beyond that takes to copy, ns, of a read.
    pub read_per_mib_ns: u64,
    /// And of a write.
    pub write_per_mib_ns: u64,
}

impl Lead {
    /// How long the data of a request are under way, ns.
    fn copy_ns<R>(self, of: &Pending<R>) -> u64 {
        let per_mib_ns = match of.kind {
            Kind::Read => self.read_per_mib_ns,
            Kind::Write => self.write_per_mib_ns,
            Kind::Trim | Kind::Flush => 0,
        };
        (per_mib_ns * of.length_bytes.saturating_sub(4096)) >> 20
    }
}

/// A completion whose reply waits for its time.
struct Held {
    /// When to begin with the reply; wall clock.
    send_ns: u64,
    /// When the model completed it; wall clock.
    due_ns: u64,
    tag: usize,
}

/// A model in real time. It reads no clock: the caller passes the time.
pub struct Worker<R> {
    model: Model,
    device: Box<dyn Stepped>,
    scale: Scale,
    lead: Lead,
    /// How long before its time the last event happened: by the lead, and by what the data of the
    /// longest request took, which may be over by now.
    early_ns: u64,
    /// In the order of their times.
    held: VecDeque<Held>,
    /// By tag.
    pending: Vec<Option<Pending<R>>>,
    free_tags: Vec<usize>,
    /// Wall time at which the device's time was 0.
    origin_ns: u64,
    /// Modelled times.
    event_ns: u64,
    submitted_ns: u64,
    account: Account,
    completions: Vec<Completion>,
    /// The model is passed by: everything is answered at once.
    is_bypassed: bool,
}

impl<R: Reply> Worker<R> {
    /// A worker whose device is in its first state at `now_ns`.
    pub fn new(model: Model, scale: Scale, now_ns: u64) -> Result<Self, SimError> {
        Ok(Worker {
            device: model.build()?,
            model,
            scale,
            lead: Lead::default(),
            early_ns: 0,
            held: VecDeque::new(),
            pending: Vec::new(),
            free_tags: Vec::new(),
            origin_ns: now_ns,
            event_ns: 0,
            submitted_ns: 0,
            account: Account::new(now_ns, 0),
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
        let before_ns = self.lead.ns + self.longest_copy_ns();
        let horizon_ns = self.to_model_ns(now_ns + before_ns);
        while self.device.next_time_ns().is_some_and(|t| t <= horizon_ns) {
            self.advance();
            self.early_ns = before_ns;
        }
        self.reply(now_ns, clock);
        let event_ns = self.device.next_time_ns();
        let event_ns = event_ns.map(|next_ns| self.to_wall_ns(next_ns).saturating_sub(before_ns));
        let reply_ns = self.held.front().map(|held| held.send_ns);
        event_ns.into_iter().chain(reply_ns).min()
    }

    fn longest_copy_ns(&self) -> u64 {
        let pending = self.pending.iter().flatten();
        pending.map(|one| self.lead.copy_ns(one)).max().unwrap_or(0)
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
    }

    /// Sends replies so much before their modelled time from now on.
    pub fn lead(&mut self, lead: Lead) {
        self.lead = lead;
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
            self.advance();
        }
        self.reply(arrival.at_ns, clock);
        if self.event_ns > stamped_ns + self.scale.to_model_ns(self.early_ns) {
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
        self.account.depth(self.to_wall_ns(at_ns), self.in_model());
    }

    /// Lets the next event happen; what it completes waits for the time of its reply.
    fn advance(&mut self) {
        if let Some(next_ns) = self.device.next_time_ns() {
            self.event_ns = next_ns;
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(&mut completions);
        for completion in completions.drain(..) {
            let tag = completion.tag as usize;
            let due_ns = self.to_wall_ns(completion.at_ns);
            let pending = self.pending.get(tag).and_then(Option::as_ref);
            let early_ns = self.lead.ns + pending.map_or(0, |one| self.lead.copy_ns(one));
            let held = Held {
                send_ns: due_ns.saturating_sub(early_ns),
                due_ns,
                tag,
            };
            let place = self.held.partition_point(|one| one.send_ns <= held.send_ns);
            self.held.insert(place, held);
        }
        self.completions = completions;
    }

    /// Sends the replies whose time has come.
    fn reply(&mut self, now_ns: u64, clock: &dyn Fn() -> u64) {
        while self.held.front().is_some_and(|one| one.send_ns <= now_ns) {
            let Some(Held { due_ns, tag, .. }) = self.held.pop_front() else {
                return;
            };
            self.free_tags.push(tag);
            let Some(pending) = self.pending.get_mut(tag).and_then(Option::take) else {
                continue;
            };
            pending.reply.complete();
            self.account.depth(due_ns, self.in_model());
            self.account.served(Served {
                kind: pending.kind,
                length_bytes: pending.length_bytes,
                at_ns: pending.at_ns,
                due_ns,
                lead_ns: self.lead.ns,
                replied_ns: clock(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
