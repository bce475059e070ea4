//! Who issues what and when: a file of processes, for the load engine and for the simulator.

use serde::{Deserialize, Serialize};

use crate::error::{require, within, DescriptionError};
pub use crate::presets::PRESETS;
use crate::{workload, Bytes, Direction, Nanos, Real, Rng, Workload};

/// Class of I/O priority, the highest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Before all others.
    Realtime,
    /// The usual one.
    #[default]
    BestEffort,
    /// Only when no other request wants the device.
    Idle,
}

impl Class {
    /// 0 for realtime, 1 for best effort, 2 for idle.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl std::hash::Hash for Class {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u8(*self as u8);
    }
}

/// `be:4`, `rt:0` or `idle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IoPriority {
    /// The class.
    pub class: Class,
    /// The level within it, 0 the highest of 8.
    pub level: u8,
}

impl Default for IoPriority {
    fn default() -> Self {
        IoPriority {
            class: Class::BestEffort,
            level: 4,
        }
    }
}

impl TryFrom<String> for IoPriority {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("ioprio {text:?}: expected rt:0 to rt:7, be:0 to be:7, or idle");
        let (class, level) = text.split_once(':').unwrap_or((&text, "4"));
        let class = match class {
            "rt" => Class::Realtime,
            "be" => Class::BestEffort,
            "idle" => Class::Idle,
            _ => return Err(wrong()),
        };
        let level = match class {
            Class::Idle => 7,
            _ => level.parse().ok().filter(|n| *n < 8).ok_or_else(wrong)?,
        };
        Ok(IoPriority { class, level })
    }
}

impl From<IoPriority> for String {
    fn from(priority: IoPriority) -> String {
        match priority.class {
            Class::Realtime => format!("rt:{}", priority.level),
            Class::BestEffort => format!("be:{}", priority.level),
            Class::Idle => "idle".into(),
        }
    }
}

/// Where a process goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Anywhere in its region.
    #[default]
    Random,
    /// On and on, from the start of its region again at the end.
    Sequential,
    /// From the end of its region to the start.
    Reverse,
}

/// When a process issues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Always `depth` records outstanding.
    #[default]
    Closed,
    /// Independent arrivals at a mean rate.
    Poisson,
    /// One record every 1/rate seconds.
    Constant,
}

/// A process, or several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSpec {
    /// Its name in the results.
    pub name: String,
    /// How many of them, each in its own region.
    pub count: u32,
    /// Where it goes.
    pub pattern: Pattern,
    /// Share of reads: 1 reads, 0 writes.
    pub read_share: Real,
    /// Bytes of a record.
    pub record: Bytes,
    /// Records outstanding in a closed loop.
    pub depth: u32,
    /// Pause after each record.
    pub think: Nanos,
    /// When it begins; up to 10 ms, drawn from the seed, are added.
    pub start: Nanos,
    /// First byte of its region; nothing is an equal share of the device.
    pub offset: Option<Bytes>,
    /// Bytes of its region; 0 is an equal share of the device.
    pub span: Bytes,
    /// Priority.
    pub ioprio: IoPriority,
    /// Weight of its cgroup; 0 outside one.
    pub weight: u16,
    /// Past the page cache.
    pub direct: bool,
    /// Writes without a waiting process, as the kernel's flusher sends them.
    pub background: bool,
    /// Buffered: how much may be dirty before a write waits.
    pub dirty_limit: Bytes,
    /// Buffered: an fsync after so many records; 0 is never.
    pub fsync_every: u64,
    /// When it issues.
    pub arrivals: Arrivals,
    /// Records per second of an open loop.
    pub rate_per_s: Real,
}

impl Default for ProcessSpec {
    fn default() -> Self {
        ProcessSpec {
            name: String::new(),
            count: 1,
            pattern: Pattern::default(),
            read_share: Real(1.0),
            record: Bytes(4096),
            depth: 1,
            think: Nanos(0),
            start: Nanos(0),
            offset: None,
            span: Bytes(0),
            ioprio: IoPriority::default(),
            weight: 0,
            direct: true,
            background: false,
            dirty_limit: Bytes(64 << 20),
            fsync_every: 0,
            arrivals: Arrivals::default(),
            rate_per_s: Real(100.0),
        }
    }
}

impl ProcessSpec {
    fn check(&self) -> Result<(), DescriptionError> {
        let key = |name: &str| format!("process {:?}: {name}", self.name);
        within(key("count"), self.count, 1..=1024)?;
        let record = self.record.0;
        let fits = record > 0 && record % 512 == 0 && record <= 1 << 30;
        require(
            fits,
            key("record"),
            self.record,
            "a multiple of 512 B, at most 1 GiB",
        )?;
        within(key("depth"), self.depth, 1..=65536)?;
        let share = self.read_share.0;
        within(key("read_share"), share, 0.0..=1.0)?;
        let percent = share * 100.0;
        let fits = (percent - percent.round()).abs() < 1e-9;
        require(fits, key("read_share"), share, "a whole percentage")?;
        let most = 10_000;
        let fits = self.weight == 0 || (1..=most).contains(&self.weight);
        require(
            fits,
            key("weight"),
            self.weight,
            "1 to 10000, or 0 for no cgroup",
        )?;
        let rate = self.rate_per_s.0;
        let fits = rate > 0.0 && rate <= 1e9;
        require(fits, key("rate_per_s"), rate, "above 0, at most 1e9")?;
        let writes_only = !self.background || share == 0.0;
        require(
            writes_only,
            key("read_share"),
            share,
            "0 with background = true",
        )?;
        let one = self.direct || self.depth == 1;
        require(one, key("depth"), self.depth, "1 with direct = false")
    }
}

/// A file of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processes {
    /// A sentence about it.
    #[serde(default)]
    pub about: String,
    /// They.
    #[serde(rename = "process")]
    pub processes: Vec<ProcessSpec>,
}

impl Processes {
    /// Checked processes: the text of a file from `place`, or the name of a preset.
    pub fn read(text: &str, place: Option<&str>) -> Result<Self, DescriptionError> {
        if let Some(place) = place {
            return Self::from_toml(place, text);
        }
        let Some((place, text)) = PRESETS.iter().find(|(name, _)| *name == text) else {
            let names = PRESETS.iter().map(|(name, _)| *name);
            return Err(DescriptionError::unknown("processes", text, names));
        };
        Self::from_toml(place, text)
    }

    /// Checked processes from TOML; `place` is where it comes from, for errors.
    pub fn from_toml(place: &str, text: &str) -> Result<Self, DescriptionError> {
        let mut read: Processes =
            toml::from_str(text).map_err(|error| DescriptionError::file(place, error))?;
        if read.processes.is_empty() {
            return Err(DescriptionError::file(place, "there is no [[process]]"));
        }
        for (index, process) in read.processes.iter_mut().enumerate() {
            if process.name.is_empty() {
                process.name = format!("process-{}", index + 1);
            }
            process.check()?;
        }
        Ok(read)
    }

    /// Every process by itself on a device of so many bytes, in its region, with the requests that
    /// the load engine sends for the same seed.
    pub fn placed(
        &self,
        capacity_bytes: u64,
        seed: u64,
    ) -> Result<Vec<(ProcessSpec, Workload)>, DescriptionError> {
        let each = self.each();
        let all = each.iter().enumerate();
        all.map(|(index, spec)| spec.placed((index, each.len()), capacity_bytes, seed))
            .collect()
    }

    /// Every process by itself.
    pub fn each(&self) -> Vec<ProcessSpec> {
        let mut all = Vec::new();
        for process in &self.processes {
            for number in 1..=process.count {
                let name = match process.count {
                    1 => process.name.clone(),
                    _ => format!("{}-{number}", process.name),
                };
                let (count, offset) = (1, process.offset);
                let span = process.span.0 / u64::from(process.count);
                let offset = offset.map(|at| Bytes(at.0 + span * u64::from(number - 1)));
                all.push(ProcessSpec {
                    name,
                    count,
                    offset,
                    span: Bytes(span),
                    ..process.clone()
                });
            }
        }
        all
    }
}

/// Stream of the seed from which the seeds of processes are drawn.
const STREAM_PROCESSES: u64 = 16;

/// Where the equal shares of a device begin: records of two sizes must not meet.
const PART_ALIGNMENT: u64 = 4096;

impl ProcessSpec {
    /// The same as process `index` of `count` on a device of so many bytes, in its region, and its
    /// requests as the load engine would send them.
    pub fn placed(
        &self,
        (index, count): (usize, usize),
        capacity_bytes: u64,
        seed: u64,
    ) -> Result<(ProcessSpec, Workload), DescriptionError> {
        let record = self.record.0;
        let part = capacity_bytes / count as u64 / PART_ALIGNMENT * PART_ALIGNMENT;
        let share = (part / record).min(u64::from(u32::MAX)) * record;
        let offset = self.offset.map_or(part * index as u64, |offset| offset.0);
        let offset = offset / 512 * 512;
        let span = if self.span.0 == 0 { share } else { self.span.0 };
        let key = format!("process {:?}: span", self.name);
        let fits = span >= record && offset.saturating_add(span) <= capacity_bytes;
        let expected = format!("at least a record, ending within {capacity_bytes} bytes");
        require(fits, &key, format!("{span} at {offset}"), expected)?;
        let expected = format!("at most {} records", u32::MAX);
        require(span / record <= u64::from(u32::MAX), key, span, expected)?;
        let rate_per_s = self.rate_per_s.0;
        let workload = Workload {
            pattern: match self.pattern {
                Pattern::Random => workload::Pattern::Random { replacement: true },
                Pattern::Sequential => workload::Pattern::Sequential,
                Pattern::Reverse => workload::Pattern::Reverse,
            },
            direction: match (self.read_share.0 * 100.0).round() as u8 {
                0 => Direction::Write,
                100 => Direction::Read,
                read_percent => Direction::Mixed { read_percent },
            },
            record: self.record,
            span: Bytes(span),
            arrivals: match self.arrivals {
                Arrivals::Closed => workload::Arrivals::Closed { depth: self.depth },
                Arrivals::Poisson => workload::Arrivals::Poisson { rate_per_s },
                Arrivals::Constant => workload::Arrivals::Constant { rate_per_s },
            },
            seed: Rng::new(seed, STREAM_PROCESSES + 2 * index as u64).next_u64(),
        };
        let placed = ProcessSpec {
            offset: Some(Bytes(offset)),
            span: Bytes(span),
            ..self.clone()
        };
        Ok((placed, workload))
    }
}
