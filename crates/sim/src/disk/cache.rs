//! The read cache: segments of the data read, and the stream that keeps filling one of them
//! while the head stays where it is.

use super::mechanics::Mechanics;
use super::spec::DiskSpec;

/// Sectors [start, end) that are in the cache.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// The head reads on: sector `lba` begins to pass at `start_ns`, and it goes up to `limit`.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    start_ns: u64,
    lba: u64,
    limit: u64,
}

/// How a read can be served without positioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// All of it is in the cache.
    Cached,
    /// The rest is passing the head; the last sector has passed at this time.
    Streaming(u64),
}

pub(super) struct Cache {
    segments: Vec<Segment>,
    stream: Option<Stream>,
    most: usize,
    segment_sectors: u64,
    ahead_sectors: u64,
    disk_sectors: u64,
    uses: u64,
}

impl Cache {
    pub(super) fn new(spec: &DiskSpec) -> Self {
        Cache {
            segments: Vec::new(),
            stream: None,
            most: spec.cache.segments,
            segment_sectors: spec.cache.segment.0 / spec.sector.0,
            ahead_sectors: spec.cache.read_ahead.0 / spec.sector.0,
            disk_sectors: spec.capacity().0 / spec.sector.0,
            uses: 0,
        }
    }

    /// Takes in what has passed the head until `now_ns`. Gives the last sector under the head, if
    /// the head has moved by reading ahead.
    pub(super) fn advance(&mut self, now_ns: u64, mechanics: &Mechanics) -> Option<u64> {
        let stream = self.stream.as_mut()?;
        let most = stream.limit - stream.lba;
        let passed = mechanics.passed(stream.start_ns, stream.lba, most, now_ns);
        let reached = stream.lba + passed;
        stream.rebase(reached, mechanics);
        let segment = &mut self.segments[stream.segment];
        segment.end = segment.end.max(reached);
        segment.start = segment
            .start
            .max(segment.end.saturating_sub(self.segment_sectors));
        (passed > 0).then(|| reached - 1)
    }

    /// How the read [lba, lba + sectors) can be served; call [`advance`](Self::advance) before.
    pub(super) fn look_up(&self, lba: u64, sectors: u64, mechanics: &Mechanics) -> Option<Hit> {
        let end = lba + sectors;
        let holds = |segment: &&Segment| segment.start <= lba && end <= segment.end;
        if self.segments.iter().any(|segment| holds(&segment)) {
            return Some(Hit::Cached);
        }
        let stream = self.stream?;
        let segment = self.segments[stream.segment];
        let follows = segment.start <= lba && lba <= segment.end && segment.end < stream.limit;
        if !follows || end - stream.lba > self.segment_sectors {
            return None;
        }
        let (passed_ns, _) = mechanics.transfer(stream.start_ns, stream.lba, end - stream.lba);
        Some(Hit::Streaming(passed_ns))
    }

    /// When a read that [`look_up`](Self::look_up) found in the stream is over the bus, at
    /// `bus_ns` a sector and from `start_ns` on.
    pub(super) fn over_bus_ns(
        &self,
        start_ns: u64,
        lba: u64,
        sectors: u64,
        bus_ns: u64,
        mechanics: &Mechanics,
    ) -> u64 {
        let mut done_ns = start_ns + sectors * bus_ns;
        let Some(stream) = self.stream else {
            return done_ns;
        };
        let skip = lba.saturating_sub(stream.lba);
        let all = (lba + sectors).saturating_sub(stream.lba);
        if all > skip {
            mechanics.transfer_runs(stream.start_ns, stream.lba, all, |stretch| {
                done_ns = done_ns.max(stretch.over_bus_ns(skip, all - skip, bus_ns));
            });
        }
        done_ns
    }

    /// Notes that a read was served by a hit, completely at `done_ns`. The stream may now go
    /// further; if it had stopped for being far enough ahead, it continues where it stopped, when
    /// that passes the head again.
    pub(super) fn hit(&mut self, done_ns: u64, lba: u64, sectors: u64, mechanics: &Mechanics) {
        let end = lba + sectors;
        self.uses += 1;
        let used = self.uses;
        let holds = |s: &&mut Segment| s.start <= lba && lba <= s.end;
        if let Some(segment) = self.segments.iter_mut().find(holds) {
            segment.used = used;
        }
        let Some(stream) = self.stream.as_mut() else {
            return;
        };
        let segment = self.segments[stream.segment];
        let limit = (end + self.ahead_sectors).min(self.disk_sectors);
        if lba < segment.start || lba > segment.end || limit <= stream.limit {
            return;
        }
        if segment.end == stream.limit {
            let place = |lba| mechanics.geometry.place(lba);
            let (from, to) = (place(segment.end - 1), place(segment.end));
            let positioning = mechanics.positioning(done_ns, from, to, false);
            stream.start_ns = done_ns + positioning.total_ns();
            stream.lba = segment.end;
        }
        stream.limit = limit;
    }

    /// Notes a read from the medium whose first sector began to pass at `start_ns`.
    pub(super) fn read(&mut self, start_ns: u64, lba: u64, sectors: u64, mechanics: &Mechanics) {
        self.stream = None;
        if self.most == 0 {
            return;
        }
        let end = lba + sectors;
        self.uses += 1;
        let new = Segment {
            start: lba.max(end.saturating_sub(self.segment_sectors)),
            end,
            used: self.uses,
        };
        let overlapping = self
            .segments
            .iter()
            .position(|s| s.start <= lba && lba < s.end);
        let oldest = || (0..self.segments.len()).min_by_key(|i| self.segments[*i].used);
        let slot = match overlapping {
            None if self.segments.len() < self.most => None,
            None => oldest(),
            found => found,
        };
        let slot = match slot {
            Some(slot) => {
                self.segments[slot] = new;
                slot
            }
            None => {
                self.segments.push(new);
                self.segments.len() - 1
            }
        };
        let mut stream = Stream {
            segment: slot,
            start_ns,
            lba,
            limit: (end + self.ahead_sectors).min(self.disk_sectors),
        };
        stream.rebase(end, mechanics);
        self.stream = Some(stream);
    }

    /// Cuts off what a write of [lba, lba + sectors) into the write cache makes stale; the head
    /// continues reading unless it is where the write goes.
    pub(super) fn cut(&mut self, lba: u64, sectors: u64) {
        let end = lba + sectors;
        let overlaps = |s: &Segment| s.start < end && lba < s.end;
        if let Some(stream) = self.stream {
            let ahead = stream.lba < end && lba < stream.limit;
            if ahead || overlaps(&self.segments[stream.segment]) {
                self.stream = None;
            }
        }
        for segment in &mut self.segments {
            if overlaps(segment) {
                if segment.start < lba {
                    segment.end = lba;
                } else {
                    segment.start = end.min(segment.end);
                }
            }
        }
        if self.stream.is_none() {
            self.segments.retain(|segment| segment.start < segment.end);
        }
    }

    /// Ends the stream, since the arm writes [lba, lba + sectors).
    pub(super) fn stop(&mut self, lba: u64, sectors: u64) {
        self.stream = None;
        self.cut(lba, sectors);
    }

    /// Forgets what a write of [lba, lba + sectors) makes stale, and ends the stream.
    pub(super) fn write(&mut self, lba: u64, sectors: u64) {
        self.stream = None;
        self.segments
            .retain(|s| s.end <= lba || lba + sectors <= s.start);
    }
}

impl Stream {
    /// Moves the origin to the last sector before `reached`, so that later questions need not go
    /// over the tracks before it again.
    fn rebase(&mut self, reached: u64, mechanics: &Mechanics) {
        if reached <= self.lba + 1 {
            return;
        }
        let (end_ns, place) = mechanics.transfer(self.start_ns, self.lba, reached - self.lba);
        let last = mechanics.geometry.place(reached - 1);
        debug_assert_eq!((last.cylinder, last.head), (place.cylinder, place.head));
        let passing = |sector: u32| mechanics.geometry.passing_ns(last, sector);
        self.start_ns = end_ns - (passing(last.sector + 1) - passing(last.sector));
        self.lba = reached - 1;
    }
}
