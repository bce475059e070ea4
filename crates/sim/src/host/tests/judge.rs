//! The kernel's own decisions, one after another: does a model decide the same, given the same
//! requests? After a difference the model does as the kernel did, so that each is counted once.

use std::collections::{HashMap, VecDeque};

use super::super::bfq::Bfq;
use super::super::kyber::Kyber;
use super::super::mq_deadline::MqDeadline;
use super::{on_device, MergeKind, NONE};
use crate::host::{Bio, Class, Ctx, HostRequest, Id, IoContext, Op, Scheduler};
use crate::judged::{self, Judged};

/// A scheduler that can be made to hand out a certain request, as another would have done.
pub(super) trait Follows: Scheduler + Clone {
    /// Hands out the request `id`, which waits in it.
    fn follow(&mut self, ctx: &mut Ctx, id: Id);
}

struct Judge<S> {
    scheduler: S,
    ctx: Ctx,
    waiting: HashMap<u64, Id>,
    in_device: HashMap<u64, VecDeque<Id>>,
    seq: u64,
    /// Nothing happened since the kernel last had nothing to hand out.
    idle: bool,
    judged: Judged,
}

/// Judges by one recording: lines of `time event …`, made by `tools/decisions.py`.
pub(super) fn judge(text: &str) -> Judged {
    let header = text.lines().next().unwrap();
    let name = header.split_whitespace().nth(1).unwrap();
    match name {
        "bfq" => Judge::<Bfq>::run(header, text),
        "kyber" => Judge::<Kyber>::run(header, text),
        "mq-deadline" => Judge::<MqDeadline>::run(header, text),
        other => panic!("no model of {other}"),
    }
}

/// `process class level R|W sync sector sectors`
fn bio_of(words: &[&str], now_ns: u64) -> Bio {
    let number = |place: usize| words[place].parse::<u64>().unwrap();
    let class = match words[1] {
        "rt" => Class::Realtime,
        "idle" => Class::Idle,
        _ => Class::BestEffort,
    };
    let context = IoContext {
        owner: number(0) as u32,
        class,
        level: number(2) as u8,
        weight: 0,
    };
    Bio {
        process: context.owner,
        io: 0,
        context,
        op: if words[3] == "W" { Op::Write } else { Op::Read },
        sync: words[4] == "1",
        sector: number(5),
        sectors: number(6) as u32,
        segments: 1,
        arrival_ns: now_ns,
        next: NONE,
    }
}

impl<S: Follows> Judge<S> {
    fn run(header: &str, text: &str) -> Judged {
        let words: Vec<&str> = header.split_whitespace().collect();
        let number = |name: &str| -> usize {
            let place = words.iter().position(|word| *word == name).unwrap();
            words[place + 1].parse().unwrap()
        };
        let (scheduler, mut ctx) =
            on_device::<S>(words[1], number("rotational") == 1, number("tags"));
        ctx.device.nr_requests = number("nr_requests");
        ctx.device.hz = number("hz") as u64;
        let mut judge = Judge {
            scheduler,
            ctx,
            waiting: HashMap::new(),
            in_device: HashMap::new(),
            seq: 0,
            idle: false,
            judged: Judged::default(),
        };
        for line in text.lines().skip(1) {
            judge.event(line);
        }
        judge.judged
    }

    fn event(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now_ns: u64 = words[0].parse().unwrap();
        while let Some(at_ns) = self.scheduler.next_timer().filter(|at_ns| *at_ns <= now_ns) {
            self.ctx.now_ns = at_ns.max(self.ctx.now_ns);
            self.scheduler.timer(&mut self.ctx);
            self.idle = false;
        }
        self.ctx.now_ns = now_ns;
        match words[1] {
            "insert" => self.insert(&bio_of(&words[2..], now_ns)),
            "grow" => self.grow(&bio_of(&words[2..], now_ns)),
            "join" => self.join(words[2].parse().unwrap(), words[3].parse().unwrap()),
            "dispatch" => self.dispatch(words.get(2).map(|sector| sector.parse().unwrap())),
            "complete" => self.complete(words[2].parse().unwrap()),
            other => panic!("{other}"),
        }
        self.idle &= words[1] == "dispatch";
    }

    fn insert(&mut self, bio: &Bio) {
        let mut request = HostRequest::of(bio, NONE, self.ctx.now_ns);
        self.seq += 1;
        request.seq = self.seq;
        let id = self.ctx.requests.add(request);
        self.waiting.insert(bio.sector, id);
        self.scheduler.insert(&mut self.ctx, id);
    }

    /// A bio became part of a request; if that is still in the plug, its insertion tells.
    fn grow(&mut self, bio: &Bio) {
        let Some((id, kind)) = self.scheduler.find_merge(&self.ctx, bio) else {
            return;
        };
        let request = &mut self.ctx.requests[id];
        let old_key = request.key();
        request.sectors += bio.sectors;
        if kind == MergeKind::Front {
            request.sector = bio.sector;
            self.waiting.remove(&old_key.0);
            self.waiting.insert(bio.sector, id);
        }
        self.scheduler.merged(&mut self.ctx, id, kind, old_key);
    }

    /// The request at `sector` became part of the one before it; it may not have been inserted.
    fn join(&mut self, sector: u64, sectors: u32) {
        let Some(gone) = self.waiting.get(&sector).copied() else {
            let requests = &mut self.ctx.requests;
            let mut waiting = self.waiting.values();
            if let Some(into) = waiting.find(|id| requests[**id].end() == sector) {
                requests[*into].sectors += sectors;
            }
            return;
        };
        let Some((into, gone)) = self.scheduler.joinable(&self.ctx, gone) else {
            return;
        };
        self.scheduler.joined(&mut self.ctx, into, gone);
        let tail = self.ctx.requests[gone];
        self.ctx.requests[into].sectors += tail.sectors;
        self.waiting.remove(&tail.sector);
        self.ctx.requests.release(gone);
    }

    fn dispatch(&mut self, kernel: Option<u64>) {
        let kernels = match kernel {
            Some(sector) => match self.waiting.remove(&sector) {
                Some(id) => Some(id),
                None => return,
            },
            None if self.idle => return,
            None => None,
        };
        let (mut scheduler, mut ctx) = (self.scheduler.clone(), self.ctx.clone());
        let models = scheduler.dispatch(&mut ctx);
        let difference = (models != kernels).then(|| self.differing(kernels, models));
        self.judged.count(difference);
        if models == kernels {
            (self.scheduler, self.ctx) = (scheduler, ctx);
        } else if let Some(id) = kernels {
            self.scheduler.follow(&mut self.ctx, id);
        }
        self.idle = kernels.is_none();
        if let Some(id) = kernels {
            let request = &mut self.ctx.requests[id];
            request.dispatched_ns = self.ctx.now_ns;
            self.in_device
                .entry(request.sector)
                .or_default()
                .push_back(id);
        }
    }

    fn differing(&self, kernels: Option<Id>, models: Option<Id>) -> String {
        let name = |id: Option<Id>| match id.map(|id| &self.ctx.requests[id]) {
            Some(it) => format!("{} of {}", it.sector, it.context.owner),
            None => "nothing".into(),
        };
        let (now_ns, kernels, models) = (self.ctx.now_ns, name(kernels), name(models));
        format!("at {now_ns} ns: kernel {kernels}, model {models}")
    }

    fn complete(&mut self, sector: u64) {
        let Some(id) = self
            .in_device
            .get_mut(&sector)
            .and_then(VecDeque::pop_front)
        else {
            return;
        };
        self.scheduler.completed(&mut self.ctx, id);
        self.ctx.requests.release(id);
    }
}

impl Follows for MqDeadline {
    fn follow(&mut self, ctx: &mut Ctx, id: Id) {
        self.take(ctx, id);
    }
}

impl Follows for Kyber {
    fn follow(&mut self, ctx: &mut Ctx, id: Id) {
        self.take_that(ctx, id);
    }
}

impl Follows for Bfq {
    fn follow(&mut self, ctx: &mut Ctx, id: Id) {
        self.serve_that(ctx, id);
    }
}

#[test]
fn a_model_decides_as_the_kernel_did_at_least_95_times_in_100() {
    judged::hold("scheduler ", 100, judge);
}
