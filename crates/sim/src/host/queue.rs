//! From a bio to the device: plug, merge, allocation, the scheduler, driver tags.

use std::collections::VecDeque;

use super::request::{Bio, HostRequest, Id, Op, Pool, NONE};
use super::{Allocation, Ctx, MergeKind, Scheduler};
use crate::{Kind, SimError, Stepped, Submission};

/// A plug list is flushed before a request is added to so many, or to a last one of so many sectors
/// (`blk_add_rq_to_plug` of `block/blk-mq.c`): until then that one grows.
const PLUG_REQUESTS: usize = 32;
const PLUG_SECTORS: u32 = 256;

/// The bounds of merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// 0: all merges; 1: only with the plug list and the request merged last; 2: none.
    pub nomerges: u8,
    /// Most sectors of a request.
    pub max_sectors: u32,
    /// Most pieces of memory of a request.
    pub max_segments: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nomerges: 0,
            max_sectors: 2560,
            max_segments: 128,
        }
    }
}

impl Limits {
    /// Whether a request may grow by so much.
    fn allows(&self, request: &HostRequest, op: Op, sectors: u32, segments: u32) -> bool {
        request.op == op
            && request.sectors + sectors <= self.max_sectors
            && request.segments + segments <= self.max_segments
    }
}

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) dispatched: u64,
    pub(super) merges: u64,
    pub(super) seek_sectors: f64,
    pub(super) requeues: u64,
    /// Requests in the device, times ns.
    pub(super) depth_ns: f64,
}

/// The queue of one device.
pub(super) struct Queue<S> {
    pub(super) ctx: Ctx,
    pub(super) scheduler: S,
    pub(super) bios: Pool<Bio>,
    pub(super) counts: Counts,
    /// Requests in the device.
    pub(super) in_driver: usize,
    limits: Limits,
    plugs: Vec<Vec<Id>>,
    /// Bios that wait for a tag, by kind, with their numbers in the one line of all; those for the
    /// driver's tags are all among the first.
    waiting: [VecDeque<(u64, u32)>; 3],
    waited: u64,
    /// Bios of a process that wait for a tag at most, and how many of each do.
    io_workers: usize,
    waiting_of: Vec<usize>,
    /// Bios of each process that wait for one of its workers.
    behind: Vec<VecDeque<Bio>>,
    /// Tags of the driver that became free while bios waited.
    freed: usize,
    /// Bios that have got the tag that they waited for.
    pub(super) admitted: Vec<Bio>,
    /// Requests allocated, by kind.
    held: [usize; 3],
    dispatch_list: VecDeque<Id>,
    seq: u64,
    last_merged: Id,
    last_end: u64,
    depth_since_ns: u64,
}

/// Reads, writes with a waiting process, and the rest.
fn kind_of(op: Op, sync: bool) -> usize {
    match (op, sync) {
        (Op::Read, true) => 0,
        (_, true) => 1,
        _ => 2,
    }
}

impl<S: Scheduler> Queue<S> {
    pub(super) fn new(
        scheduler: S,
        ctx: Ctx,
        limits: Limits,
        processes: usize,
        io_workers: usize,
    ) -> Self {
        Queue {
            ctx,
            scheduler,
            bios: Pool::default(),
            counts: Counts::default(),
            in_driver: 0,
            limits,
            plugs: vec![Vec::new(); processes],
            waiting: Default::default(),
            waited: 0,
            io_workers,
            waiting_of: vec![0; processes],
            behind: vec![VecDeque::new(); processes],
            freed: 0,
            admitted: Vec::new(),
            held: [0; 3],
            dispatch_list: VecDeque::new(),
            seq: 0,
            last_merged: NONE,
            last_end: 0,
            depth_since_ns: 0,
        }
    }

    /// Requests that have left the scheduler and are not in the device.
    #[cfg(test)]
    pub(super) fn set_aside(&self) -> usize {
        self.dispatch_list.len()
    }

    /// A process submits a bio into its plug list; false if it has to wait for a tag.
    pub(super) fn submit(&mut self, bio: Bio) -> bool {
        if self.merge_in_plug(&bio) || self.merge_in_scheduler(&bio) {
            return true;
        }
        // The driver's tags go to whoever comes first, also past those that wait.
        let queues = S::ALLOCATION != Allocation::Driver && self.first_with_room().is_some();
        if queues || !self.has_room(&bio) {
            // The process blocks; what it has plugged goes out first.
            self.unplug(bio.process);
            self.wait(bio);
            return false;
        }
        let process = bio.process;
        let plug = &self.plugs[process as usize];
        let last = plug.last().map_or(0, |id| self.ctx.requests[*id].sectors);
        if plug.len() >= PLUG_REQUESTS || (last >= PLUG_SECTORS && self.limits.nomerges < 2) {
            self.unplug(process);
        }
        let id = self.allocate(bio);
        self.plugs[process as usize].push(id);
        true
    }

    /// A bio waits for a tag, or for a worker that does: a request that would block is given to one
    /// of a few (`io_wq_create` of `io_uring/io-wq.c`).
    fn wait(&mut self, bio: Bio) {
        let process = bio.process as usize;
        if self.waiting_of[process] >= self.io_workers {
            self.behind[process].push_back(bio);
            return;
        }
        self.waiting_of[process] += 1;
        let kind = match S::ALLOCATION {
            Allocation::Driver => 0,
            Allocation::Legacy | Allocation::Scheduler => kind_of(bio.op, bio.sync),
        };
        let place = self.bios.add(bio);
        self.waited += 1;
        self.waiting[kind].push_back((self.waited, place));
    }

    /// A bio has got the tag that it waited for; its worker takes the next one.
    fn admit(&mut self, bio: Bio) {
        self.admitted.push(bio);
        if !(S::ALLOCATION != Allocation::Driver && self.merge_in_scheduler(&bio)) {
            let id = self.allocate(bio);
            self.insert(id);
        }
        let process = bio.process as usize;
        self.waiting_of[process] -= 1;
        if let Some(next) = self.behind[process].pop_front() {
            self.wait(next);
        }
    }

    /// The plug list of the process goes to the scheduler.
    pub(super) fn unplug(&mut self, process: u32) {
        let mut plug = std::mem::take(&mut self.plugs[process as usize]);
        for id in plug.drain(..) {
            self.insert(id);
        }
        self.plugs[process as usize] = plug;
    }

    fn insert(&mut self, id: Id) {
        self.seq += 1;
        let request = &mut self.ctx.requests[id];
        request.seq = self.seq;
        request.inserted_ns = self.ctx.now_ns;
        self.scheduler.insert(&mut self.ctx, id);
        if self.limits.nomerges == 0 {
            self.join(id);
        }
    }

    /// Requests that adjoin the new one become one with it.
    fn join(&mut self, mut id: Id) {
        while let Some((into, gone)) = self.scheduler.joinable(&self.ctx, id) {
            let tail = self.ctx.requests[gone];
            let head = &self.ctx.requests[into];
            if !self
                .limits
                .allows(head, tail.op, tail.sectors, tail.segments)
            {
                return;
            }
            self.scheduler.joined(&mut self.ctx, into, gone);
            let head = &mut self.ctx.requests[into];
            head.sectors += tail.sectors;
            head.bios += tail.bios;
            head.segments += tail.segments;
            head.fifo_ns = head.fifo_ns.min(tail.fifo_ns);
            self.bios[head.last_bio].next = tail.first_bio;
            head.last_bio = tail.last_bio;
            self.free(gone);
            self.counts.merges += 1;
            id = into;
        }
    }

    fn allocate(&mut self, bio: Bio) -> Id {
        self.held[kind_of(bio.op, bio.sync)] += 1;
        let now_ns = self.ctx.now_ns;
        let place = self.bios.add(Bio { next: NONE, ..bio });
        self.ctx.requests.add(HostRequest::of(&bio, place, now_ns))
    }

    fn free(&mut self, id: Id) {
        let request = &self.ctx.requests[id];
        self.held[kind_of(request.op, request.sync)] -= 1;
        if S::ALLOCATION == Allocation::Driver && !self.waiting[0].is_empty() {
            self.freed += 1;
        }
        self.ctx.requests.release(id);
        if self.last_merged == id {
            self.last_merged = NONE;
        }
    }

    /// The kind of the bio that has waited longest of those that there is room for. All of a kind
    /// have room or none has, so that this walks one line of all in its order (`blk_mq_get_tag`).
    fn first_with_room(&self) -> Option<usize> {
        let first = |kind: usize| {
            let (number, place) = *self.waiting[kind].front()?;
            self.has_room(&self.bios[place]).then_some((number, kind))
        };
        let firsts = (0..self.waiting.len()).filter_map(first);
        firsts.min().map(|(_, kind)| kind)
    }

    fn has_room(&self, bio: &Bio) -> bool {
        let [reads, writes, others] = self.held;
        let most = self.ctx.device.nr_requests;
        match S::ALLOCATION {
            Allocation::Driver => reads + writes + others < self.ctx.device.driver_tags,
            Allocation::Legacy if bio.sync => reads + writes < most,
            Allocation::Legacy => others < most,
            Allocation::Scheduler => {
                // The limits are of the same tags: the lowest ones (`shallow_depth`).
                let limit = |sync| {
                    let limit = self.scheduler.limit_depth(&self.ctx, Op::Write, sync);
                    limit.min(most)
                };
                let (of_writes, of_others) = (limit(true), limit(false));
                let fits = match kind_of(bio.op, bio.sync) {
                    0 => true,
                    1 => writes + others < of_writes,
                    // Sync writes are spread over all tags that they may have.
                    _ => others * of_writes + writes * of_others < of_writes * of_others,
                };
                reads + writes + others < most && fits
            }
        }
    }

    fn merge_in_plug(&mut self, bio: &Bio) -> bool {
        if self.limits.nomerges == 2 {
            return false;
        }
        let plug = &self.plugs[bio.process as usize];
        let merge = plug.iter().rev().find_map(|id| {
            let request = &self.ctx.requests[*id];
            let kind = match () {
                () if request.end() == bio.sector => MergeKind::Back,
                () if bio.end() == request.sector => MergeKind::Front,
                () => return None,
            };
            Some((*id, kind))
        });
        let Some((id, kind)) = merge else {
            return false;
        };
        let request = &self.ctx.requests[id];
        if request.sync != bio.sync
            || !self
                .limits
                .allows(request, bio.op, bio.sectors, bio.segments)
        {
            return false;
        }
        self.grow(id, kind, bio);
        true
    }

    fn merge_in_scheduler(&mut self, bio: &Bio) -> bool {
        if self.limits.nomerges == 2 {
            return false;
        }
        let Some((id, kind)) = self.scheduler.find_merge(&self.ctx, bio) else {
            return false;
        };
        if self.limits.nomerges == 1 && id != self.last_merged {
            return false;
        }
        let request = &self.ctx.requests[id];
        if !self
            .limits
            .allows(request, bio.op, bio.sectors, bio.segments)
        {
            return false;
        }
        let old_key = request.key();
        self.grow(id, kind, bio);
        self.scheduler.merged(&mut self.ctx, id, kind, old_key);
        self.last_merged = id;
        if self.limits.nomerges == 0 {
            self.join(id);
        }
        true
    }

    fn grow(&mut self, id: Id, kind: MergeKind, bio: &Bio) {
        self.counts.merges += 1;
        let request = &mut self.ctx.requests[id];
        request.sectors += bio.sectors;
        request.bios += 1;
        request.segments += bio.segments;
        match kind {
            MergeKind::Back => {
                let place = self.bios.add(Bio { next: NONE, ..*bio });
                self.bios[request.last_bio].next = place;
                request.last_bio = place;
            }
            MergeKind::Front => {
                request.sector = bio.sector;
                let next = request.first_bio;
                request.first_bio = self.bios.add(Bio { next, ..*bio });
            }
        }
    }

    /// Hands requests to the device until a request gets no tag or none comes.
    pub(super) fn pass(&mut self, device: &mut dyn Stepped) -> Result<(), SimError> {
        loop {
            let next = match self.dispatch_list.pop_front() {
                Some(id) => Some(id),
                None => self.scheduler.dispatch(&mut self.ctx),
            };
            let Some(id) = next else {
                return Ok(());
            };
            if self.in_driver >= self.ctx.device.driver_tags {
                self.dispatch_list.push_front(id);
                return Ok(());
            }
            self.start(id, device)?;
        }
    }

    fn start(&mut self, id: Id, device: &mut dyn Stepped) -> Result<(), SimError> {
        let now_ns = self.ctx.now_ns;
        self.account_depth();
        self.in_driver += 1;
        let request = &mut self.ctx.requests[id];
        request.dispatched_ns = now_ns;
        self.counts.dispatched += 1;
        self.counts.seek_sectors += request.sector.abs_diff(self.last_end) as f64;
        self.last_end = request.end();
        device.submit(Submission {
            at_ns: now_ns,
            tag: u64::from(id),
            kind: match request.op {
                Op::Read => Kind::Read,
                Op::Write => Kind::Write,
                Op::Discard => Kind::Trim,
            },
            offset_bytes: request.sector * 512,
            length_bytes: u64::from(request.sectors) * 512,
        })
    }

    /// The mean depth is weighted by time.
    pub(super) fn account_depth(&mut self) {
        let now_ns = self.ctx.now_ns;
        self.counts.depth_ns += self.in_driver as f64 * (now_ns - self.depth_since_ns) as f64;
        self.depth_since_ns = now_ns;
    }

    /// The device refused the request: it goes before all others.
    pub(super) fn requeue(&mut self, id: Id) {
        self.account_depth();
        self.in_driver -= 1;
        self.counts.requeues += 1;
        self.scheduler.requeued(&mut self.ctx, id);
        self.dispatch_list.push_front(id);
    }

    /// The device is done with a request; its bios are appended to `completed_bios`.
    pub(super) fn complete(&mut self, id: Id, completed_bios: &mut Vec<Bio>) -> HostRequest {
        self.account_depth();
        self.in_driver -= 1;
        self.scheduler.completed(&mut self.ctx, id);
        let request = self.ctx.requests[id];
        let mut place = request.first_bio;
        while place != NONE {
            let bio = self.bios[place];
            completed_bios.push(bio);
            self.bios.release(place);
            place = bio.next;
        }
        self.free(id);
        request
    }

    /// How many of those that wait for the driver's tags are to be woken: one for each freed tag.
    pub(super) fn take_freed(&mut self) -> usize {
        std::mem::take(&mut self.freed)
    }

    /// Who waited longest for a tag of the driver is awake: it takes one, or waits anew behind
    /// all others (`blk_mq_get_tag`).
    pub(super) fn wake(&mut self) {
        let Some((number, place)) = self.waiting[0].pop_front() else {
            return;
        };
        let bio = self.bios[place];
        if self.has_room(&bio) {
            self.bios.release(place);
            self.admit(bio);
        } else {
            self.waiting[0].push_back((number, place));
        }
    }

    /// Those that waited for a scheduler's tag come in while there are any, in the order in which
    /// they came; one whose kind has all that it may have is passed over.
    pub(super) fn refill(&mut self) {
        if S::ALLOCATION == Allocation::Driver {
            return;
        }
        while let Some(kind) = self.first_with_room() {
            let Some((_, place)) = self.waiting[kind].pop_front() else {
                return;
            };
            let bio = self.bios[place];
            self.bios.release(place);
            self.admit(bio);
        }
    }
}
