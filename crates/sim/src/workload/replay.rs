//! A trace as the requests of one simulated device: volumes kept apart, addresses that fit, times
//! stretched.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use schedlab_formats::{
    open, per_cpu_files, Event, Fit, Skipped, TraceError, TraceOptions, TraceReader, TraceRecord,
    UNIT_BYTES,
};
use schedlab_model::{Bytes, Nanos, Request};
use serde::{Deserialize, Serialize};

use super::{Incoming, Real, Source};
use crate::error::require;
use crate::SimError;

/// Volumes that an error names.
const NAMED_MAX: usize = 16;

impl From<TraceRecord> for Incoming {
    fn from(record: TraceRecord) -> Self {
        Incoming {
            request: record.request,
            trim: record.trim,
        }
    }
}

impl From<TraceError> for SimError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Stopped => SimError::Stopped,
            other => SimError::Source(Box::new(other)),
        }
    }
}

/// How a trace is read and replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayOptions {
    /// Count and skip malformed lines instead of an error.
    pub skip_bad_lines: bool,
    /// Requests held back to put them in order.
    pub reorder: Option<usize>,
    /// The event of blkparse and blktrace traces that is the arrival.
    pub event: Event,
    /// `refuse` several volumes, give each its own `region`, or `select=ID,…`.
    pub volumes: String,
    /// The treatment of addresses beyond the device.
    pub fit: Fit,
    /// Times are divided by it.
    pub time_scale: Option<Real>,
    /// Requests per second that times are stretched to.
    pub rate: Option<Real>,
    /// The number of requests that are always outstanding, independent of their times.
    pub closed: Option<u32>,
    /// Each request follows the completion before it after the measured think time.
    pub think: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            skip_bad_lines: false,
            reorder: None,
            event: Event::default(),
            volumes: "refuse".into(),
            fit: Fit::default(),
            time_scale: None,
            rate: None,
            closed: None,
            think: false,
        }
    }
}

impl ReplayOptions {
    fn reading(&self) -> TraceOptions {
        TraceOptions {
            skip_bad_lines: self.skip_bad_lines,
            reorder: self.reorder,
            event: self.event,
        }
    }

    fn check(&self) -> Result<(), SimError> {
        for (key, value) in [("time_scale", self.time_scale), ("rate", self.rate)] {
            let number = value.map_or(1.0, |value| value.0);
            let fits = number.is_finite() && number > 0.0;
            require(fits, key, number, "a number above 0")?;
        }
        if self.time_scale.is_some() && self.rate.is_some() {
            let detail = "time_scale and rate cannot be used together";
            return Err(SimError::Workload(detail.into()));
        }
        match self.closed {
            Some(depth @ (0 | 1_000_001..)) => {
                Err(SimError::range("closed", depth, "1 to 1000000"))
            }
            Some(_) if self.think => {
                let detail = "closed with a depth and think times cannot be used together";
                Err(SimError::Workload(detail.into()))
            }
            _ => Ok(()),
        }
    }
}

/// A volume of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeUse {
    /// Its name in the trace.
    pub name: String,
    /// Its requests that were replayed.
    pub requests: u64,
    /// End of its furthest request.
    pub end_bytes: u64,
    /// Where its address 0 is on the device.
    pub base_bytes: u64,
}

/// A trace and its changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplaySummary {
    /// The format.
    pub format: &'static str,
    /// Its volumes.
    pub volumes: Vec<VolumeUse>,
    /// Requests replayed; a request that was split counts once.
    pub requests: u64,
    /// Of them those whose address was changed to fit, as a share.
    pub changed_share: f64,
    /// Requests that were split.
    pub split: u64,
    /// Times were divided by it.
    pub time_scale: f64,
    /// Lines that were skipped.
    pub skipped: Skipped,
    /// Lines that were read.
    pub lines: u64,
}

#[derive(Default)]
struct Volume {
    name: String,
    requests: u64,
    end_bytes: u64,
    base_bytes: u64,
    is_selected: bool,
    /// In the order of appearance, from 0.
    number: u32,
}

/// A trace that is being replayed.
pub struct Replay {
    reader: TraceReader,
    path: PathBuf,
    options: ReplayOptions,
    capacity_bytes: u64,
    align_bytes: u64,
    span_bytes: u64,
    limit: u64,
    keeps_apart: bool,
    time_scale: f64,
    volumes: BTreeMap<u32, Volume>,
    units: HashMap<u64, u64>,
    pieces: VecDeque<TraceRecord>,
    /// Response time of the request given last.
    measured: Option<Nanos>,
    requests: u64,
    changed: u64,
    split: u64,
}

impl Replay {
    /// Opens a trace for a device of this size, whose addresses `scale` aligns to `align_bytes`;
    /// at most `limit` requests are replayed. `volumes = region`, `fit = scale` and `rate` read a
    /// file twice.
    pub fn open(
        path: &Path,
        format: Option<&str>,
        options: &ReplayOptions,
        (capacity_bytes, align_bytes): (u64, u64),
        limit: Option<u64>,
    ) -> Result<Self, SimError> {
        options.check()?;
        let mut replay = Replay {
            reader: open(path, format, &options.reading())?,
            path: path.to_owned(),
            options: options.clone(),
            capacity_bytes,
            align_bytes: align_bytes.max(1),
            span_bytes: capacity_bytes,
            limit: limit.unwrap_or(u64::MAX),
            keeps_apart: options.volumes == "refuse",
            time_scale: options.time_scale.map_or(1.0, |scale| scale.0),
            volumes: BTreeMap::new(),
            units: HashMap::new(),
            pieces: VecDeque::new(),
            measured: None,
            requests: 0,
            changed: 0,
            split: 0,
        };
        let chosen = selection(&options.volumes)?;
        if !replay.keeps_apart || options.fit == Fit::Scale || options.rate.is_some() {
            replay.survey(format, chosen.as_deref())?;
        }
        Ok(replay)
    }

    /// Reads the whole trace once: where its volumes end, and how fast requests come.
    fn survey(&mut self, format: Option<&str>, chosen: Option<&[String]>) -> Result<(), SimError> {
        let is_file = self.path.is_file() || per_cpu_files(&self.path).is_some();
        if !is_file {
            let detail = format!(
                "{}: volumes, fit = scale and rate need a file that can be read twice",
                self.path.display()
            );
            return Err(SimError::Workload(detail));
        }
        let mut reader = open(&self.path, format, &self.options.reading())?;
        let (mut count, mut first_ns, mut last_ns) = (0u64, None, 0);
        while count < self.limit {
            let Some(record) = reader.next().transpose()? else {
                break;
            };
            let known = self.volumes.len() as u32;
            let volume = self.volumes.entry(record.device).or_default();
            if volume.name.is_empty() {
                volume.number = known;
                volume.name = reader.device_name(record.device);
                let named = |names: &[String]| names.contains(&volume.name);
                volume.is_selected = chosen.is_none_or(named);
            }
            if !volume.is_selected {
                continue;
            }
            let request = &record.request;
            volume.end_bytes = volume.end_bytes.max(request.offset.0 + request.length.0);
            count += 1;
            first_ns.get_or_insert(request.arrival.0);
            last_ns = request.arrival.0;
        }
        self.check_selection(chosen)?;
        if self.keeps_apart && self.volumes.len() > 1 {
            return Err(self.several());
        }
        let mut base_bytes = 0;
        for volume in self.volumes.values_mut().filter(|v| v.is_selected) {
            volume.base_bytes = base_bytes;
            self.span_bytes = base_bytes + volume.end_bytes;
            let region = volume.end_bytes.div_ceil(UNIT_BYTES) * UNIT_BYTES;
            base_bytes = base_bytes.saturating_add(region);
        }
        if let Some(Real(rate)) = self.options.rate {
            let span_ns = last_ns - first_ns.unwrap_or(0);
            if span_ns == 0 {
                let detail = format!("rate = {rate}: all requests of the trace come at one time");
                return Err(SimError::Workload(detail));
            }
            self.time_scale = rate / (count as f64 / (span_ns as f64 / 1e9));
        }
        Ok(())
    }

    fn check_selection(&self, chosen: Option<&[String]>) -> Result<(), SimError> {
        for name in chosen.into_iter().flatten() {
            if !self.volumes.values().any(|volume| volume.name == *name) {
                return Err(SimError::unknown("volumes", name, [self.names().as_str()]));
            }
        }
        Ok(())
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.volumes.values().map(|v| v.name.as_str()).collect();
        let more = names.len().saturating_sub(NAMED_MAX);
        let mut text = names[..names.len() - more].join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        text
    }

    fn several(&self) -> SimError {
        SimError::Workload(format!(
            "{}: the trace has {} volumes, {}, which share no addresses: expected \
             volumes = region or select=ID",
            self.path.display(),
            self.volumes.len(),
            self.names()
        ))
    }

    /// The next piece of a request at its time and address on the device.
    pub fn next_piece(&mut self) -> Result<Option<TraceRecord>, SimError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if self.requests == self.limit {
                return Ok(None);
            }
            let Some(record) = self.reader.next().transpose()? else {
                return Ok(None);
            };
            if let Some(base_bytes) = self.base_of(&record)? {
                self.requests += 1;
                self.place(record, base_bytes)?;
            }
        }
    }

    /// Where the record's volume begins on the device; nothing for one that is not selected.
    #[inline]
    fn base_of(&mut self, record: &TraceRecord) -> Result<Option<u64>, SimError> {
        if !self.volumes.contains_key(&record.device) {
            let volume = Volume {
                name: self.reader.device_name(record.device),
                is_selected: self.keeps_apart,
                number: self.volumes.len() as u32,
                ..Volume::default()
            };
            self.volumes.insert(record.device, volume);
            if self.keeps_apart && self.volumes.len() > 1 {
                self.list_volumes();
                return Err(self.several());
            }
        }
        let Some(volume) = self.volumes.get_mut(&record.device) else {
            return Ok(None);
        };
        if !volume.is_selected {
            return Ok(None);
        }
        let end_bytes = record.request.offset.0 + record.request.length.0;
        volume.requests += 1;
        volume.end_bytes = volume.end_bytes.max(end_bytes);
        Ok(Some(volume.base_bytes))
    }

    /// Reads on to name all volumes in the error; what cannot be read is not named.
    fn list_volumes(&mut self) {
        while let Some(Ok(record)) = self.reader.next() {
            if !self.volumes.contains_key(&record.device) {
                let name = self.reader.device_name(record.device);
                let volume = Volume {
                    name,
                    ..Volume::default()
                };
                self.volumes.insert(record.device, volume);
            }
        }
    }

    /// Puts the pieces of a record at their places.
    fn place(&mut self, mut record: TraceRecord, base_bytes: u64) -> Result<(), SimError> {
        if self.time_scale != 1.0 {
            let arrival = &mut record.request.arrival;
            *arrival = Nanos((arrival.0 as f64 / self.time_scale).round() as u64);
        }
        let was = (record.request.offset.0, record.request.length.0);
        let offset = was.0.saturating_add(base_bytes);
        let before = self.pieces.len();
        match self.options.fit {
            Fit::Refuse => self.piece(&record, offset, was.1),
            Fit::Wrap => self.wrap(&record, offset, was.1),
            Fit::Scale => self.scale(&record, offset, was.1),
            Fit::Compact => self.compact(&record, offset, was.1)?,
        }
        let pieces = self.pieces.len() - before;
        self.split += u64::from(pieces > 1);
        let now = self.pieces.get(before).map(|piece| piece.request.offset.0);
        self.changed += u64::from(pieces > 1 || now != Some(offset));
        Ok(())
    }

    fn piece(&mut self, record: &TraceRecord, offset: u64, length: u64) {
        let request = Request {
            offset: Bytes(offset),
            length: Bytes(length),
            ..record.request
        };
        self.pieces.push_back(TraceRecord { request, ..*record });
    }

    fn wrap(&mut self, record: &TraceRecord, offset: u64, length: u64) {
        let (mut offset, mut left) = (offset % self.capacity_bytes, length);
        while left > 0 {
            let part = left.min(self.capacity_bytes - offset);
            self.piece(record, offset, part);
            (offset, left) = (0, left - part);
        }
    }

    fn scale(&mut self, record: &TraceRecord, offset: u64, length: u64) {
        let scaled = u128::from(offset) * u128::from(self.capacity_bytes)
            / u128::from(self.span_bytes.max(1));
        // A request at the end keeps its length, and moves down by it; one that is longer than
        // the device is refused by the device.
        let last = self.capacity_bytes.saturating_sub(length);
        let offset = (scaled as u64).min(last) / self.align_bytes * self.align_bytes;
        self.piece(record, offset, length);
    }

    fn compact(&mut self, record: &TraceRecord, offset: u64, length: u64) -> Result<(), SimError> {
        let end = offset.saturating_add(length);
        let (mut from, mut open): (u64, Option<(u64, u64)>) = (offset, None);
        while from < end {
            let unit = from / UNIT_BYTES;
            let to = end.min((unit + 1).saturating_mul(UNIT_BYTES));
            let next = self.units.len() as u64;
            let number = *self.units.entry(unit).or_insert(next);
            if (number + 1) * UNIT_BYTES > self.capacity_bytes {
                return Err(SimError::Workload(format!(
                    "fit = compact: the trace touches more than the {} MiB of the device",
                    self.capacity_bytes / UNIT_BYTES
                )));
            }
            let at = number * UNIT_BYTES + from % UNIT_BYTES;
            open = match open {
                Some((start, length)) if start + length == at => Some((start, length + to - from)),
                other => {
                    if let Some((start, length)) = other {
                        self.piece(record, start, length);
                    }
                    Some((at, to - from))
                }
            };
            from = to;
        }
        if let Some((start, length)) = open {
            self.piece(record, start, length);
        }
        Ok(())
    }

    /// The summary of the requests so far.
    pub fn summary(&self) -> ReplaySummary {
        let used = self.volumes.values().filter(|v| v.requests > 0);
        let volume = |volume: &Volume| VolumeUse {
            name: volume.name.clone(),
            requests: volume.requests,
            end_bytes: volume.end_bytes,
            base_bytes: volume.base_bytes,
        };
        ReplaySummary {
            format: self.reader.format().name,
            volumes: used.map(volume).collect(),
            requests: self.requests,
            changed_share: self.changed as f64 / self.requests.max(1) as f64,
            split: self.split,
            time_scale: self.time_scale,
            skipped: self.reader.skipped(),
            lines: self.reader.lines(),
        }
    }
}

impl Source for Replay {
    fn next_request(&mut self) -> Result<Option<Incoming>, SimError> {
        let piece = self.next_piece()?;
        self.measured = piece.and_then(|piece| piece.latency);
        Ok(piece.map(Incoming::from))
    }

    fn thinks(&self) -> bool {
        self.options.think
    }

    fn measured_ns(&self) -> Option<u64> {
        self.measured.map(|latency| latency.0)
    }

    fn outstanding(&self) -> Option<u32> {
        self.options.closed
    }

    fn summary(&self) -> Option<ReplaySummary> {
        Some(Replay::summary(self))
    }
}

/// The volumes that `volumes` selects; nothing for all.
fn selection(volumes: &str) -> Result<Option<Vec<String>>, SimError> {
    if volumes == "refuse" || volumes == "region" {
        return Ok(None);
    }
    let names = volumes.strip_prefix("select=").unwrap_or_default();
    let names = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    let expected = "refuse, region or select=ID,…";
    require(!names.is_empty(), "volumes", volumes, expected)?;
    Ok(Some(names))
}

#[cfg(test)]
mod tests;
