//! The read cache: segments of the data read, and the stream that keeps filling one of them
//! while the head stays where it is.

use super::mechanics::Mechanics;
use super::spec::{CacheSpec, DiskSpec, ReadOn};

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
    /// Only its first sectors, this many, are in the cache.
    Partial(u64),
}

pub(super) struct Cache {
    segments: Vec<Segment>,
    stream: Option<Stream>,
    spec: CacheSpec,
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
            spec: spec.cache,
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
        let follows = |stream: &Stream| {
            let segment = self.segments[stream.segment];
            let is_near = segment.start <= lba && lba <= segment.end && segment.end < stream.limit;
            is_near && end - stream.lba <= self.segment_sectors
        };
        if let Some(stream) = self.stream.filter(follows) {
            let (passed_ns, _) = mechanics.transfer(stream.start_ns, stream.lba, end - stream.lba);
            return Some(Hit::Streaming(passed_ns));
        }
        let begins = |segment: &&Segment| segment.start <= lba && lba < segment.end;
        let segment = self.segments.iter().find(begins)?;
        self.spec
            .partial_hits
            .then_some(Hit::Partial(segment.end - lba))
    }

    /// Up to where the head reads on behind a read that ends at `end`, in a segment that began at
    /// `start`.
    fn limit(&self, start: u64, end: u64, mechanics: &Mechanics) -> u64 {
        let ahead = (end + self.ahead_sectors).min(self.disk_sectors);
        let geometry = &mechanics.geometry;
        match self.spec.read_on {
            ReadOn::Segment => ahead,
            ReadOn::Track => geometry.end_of_track(end - 1, false).min(ahead),
            ReadOn::Cylinder => geometry.end_of_track(end - 1, true).min(ahead),
            ReadOn::NextTrack if end >= self.disk_sectors || ahead == end => end,
            ReadOn::NextTrack => {
                let limit = geometry.end_of_track(end, false);
                let (first, last) = (geometry.place(start), geometry.place(end));
                let is_same = (first.cylinder, first.head) == (last.cylinder, last.head);
                if is_same || limit >= self.disk_sectors {
                    return limit;
                }
                geometry.end_of_track(limit, false)
            }
        }
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
        let Some(mut stream) = self.stream else {
            return;
        };
        let segment = self.segments[stream.segment];
        if lba < segment.start || lba > segment.end {
            return;
        }
        let limit = self.limit(segment.start, end, mechanics);
        let is_idle = segment.end == stream.limit;
        if limit <= stream.limit || (is_idle && !self.spec.hit_reads_on) {
            return;
        }
        if is_idle {
            let place = |lba| mechanics.geometry.place(lba);
            let (from, to) = (place(segment.end - 1), place(segment.end));
            let positioning = mechanics.positioning(done_ns, from, to, false);
            stream.start_ns = done_ns + positioning.total_ns();
            stream.lba = segment.end;
        }
        stream.limit = limit;
        self.stream = Some(stream);
    }

    /// Notes a read of [lba, end) from the medium, where `lba` began to pass at `start_ns`. What
    /// comes before, from `first` on, is in the cache, or has passed the head too.
    pub(super) fn read(
        &mut self,
        start_ns: u64,
        first: u64,
        lba: u64,
        end: u64,
        mechanics: &Mechanics,
    ) {
        self.stream = None;
        if self.spec.segments == 0 {
            return;
        }
        let begins = |s: &Segment| s.start <= first && first < s.end;
        let overlapping = self.segments.iter().position(begins);
        let start = match overlapping {
            Some(slot) if self.segments[slot].end == lba => self.segments[slot].start,
            _ => first,
        };
        let slot = overlapping.unwrap_or_else(|| self.free_slot());
        self.uses += 1;
        self.segments[slot] = Segment {
            start: start.max(end.saturating_sub(self.segment_sectors)),
            end,
            used: self.uses,
        };
        let mut stream = Stream {
            segment: slot,
            start_ns,
            lba,
            limit: self.limit(start, end, mechanics),
        };
        stream.rebase(end, mechanics);
        self.stream = Some(stream);
    }

    /// The place for another segment: a new one, or that of the least recently used.
    fn free_slot(&mut self) -> usize {
        let oldest = (0..self.segments.len()).min_by_key(|i| self.segments[*i].used);
        if let (true, Some(oldest)) = (self.segments.len() >= self.spec.segments, oldest) {
            return oldest;
        }
        self.segments.push(Segment {
            start: 0,
            end: 0,
            used: 0,
        });
        self.segments.len() - 1
    }

    /// Keeps written data, which are on the medium now, as a segment; not in the place of the one
    /// that is being filled.
    pub(super) fn keep(&mut self, lba: u64, sectors: u64) {
        if self.spec.segments == 0 {
            return;
        }
        let slot = self.free_slot();
        if self.stream.is_some_and(|stream| stream.segment == slot) {
            return;
        }
        self.uses += 1;
        let end = lba + sectors;
        self.segments[slot] = Segment {
            start: lba.max(end.saturating_sub(self.segment_sectors)),
            end,
            used: self.uses,
        };
    }

    /// Forgets what a write of [lba, lba + sectors) into the write cache makes stale; the head
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
                segment.end = segment.start;
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
