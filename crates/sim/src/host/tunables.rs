//! The one table of the tunables of schedulers: names, units, defaults and ranges as in sysfs.

use std::collections::BTreeMap;

use crate::SimError;

/// One file of `/sys/block/*/queue/iosched`.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The file.
    pub name: &'static str,
    /// Unit of the number; empty for counts and switches.
    pub unit: &'static str,
    /// Its default.
    pub default: u64,
    /// The least that is accepted.
    pub min: u64,
    /// The most that is accepted.
    pub max: u64,
    /// Its effect.
    pub about: &'static str,
}

const MOST: u64 = i32::MAX as u64;

const fn row(
    scheduler: &'static str,
    name: &'static str,
    unit: &'static str,
    (default, min, max): (u64, u64, u64),
    about: &'static str,
) -> Tunable {
    Tunable {
        scheduler,
        name,
        unit,
        default,
        min,
        max,
        about,
    }
}

/// Every tunable. Those that begin with `x_` are not the kernel's: they switch off a part of a
/// scheduler, to see what it does.
#[rustfmt::skip]
pub const TUNABLES: &[Tunable] = &[
    row("deadline", "read_expire", "ms", (500, 0, MOST), "a read is late after"),
    row("deadline", "write_expire", "ms", (5000, 0, MOST), "a write is late after"),
    row("deadline", "writes_starved", "", (2, 0, MOST), "batches of reads before writes"),
    row("deadline", "fifo_batch", "", (16, 0, MOST), "requests of a batch"),
    row("deadline", "front_merges", "", (1, 0, 1), "look for front merges"),
    row("mq-deadline", "read_expire", "ms", (500, 0, MOST), "a read is late after"),
    row("mq-deadline", "write_expire", "ms", (5000, 0, MOST), "a write is late after"),
    row("mq-deadline", "writes_starved", "", (2, 0, MOST), "batches of reads before writes"),
    row("mq-deadline", "fifo_batch", "", (16, 0, MOST), "requests of a batch"),
    row("mq-deadline", "front_merges", "", (1, 0, 1), "look for front merges"),
    row("mq-deadline", "prio_aging_expire", "ms", (10_000, 0, MOST), "a lower class waits at most"),
    row("mq-deadline", "async_depth", "", (0, 0, MOST), "tags of all but reads; 0: all"),
    row("kyber", "read_lat_nsec", "ns", (2_000_000, 1, u64::MAX >> 1), "wanted latency of reads"),
    row("kyber", "write_lat_nsec", "ns", (10_000_000, 1, u64::MAX >> 1), "the same of writes"),
    row("cfq", "quantum", "", (8, 1, MOST), "requests of a queue in the device"),
    row("cfq", "fifo_expire_sync", "ms", (125, 1, MOST), "a sync request is late after"),
    row("cfq", "fifo_expire_async", "ms", (250, 1, MOST), "an async request is late after"),
    row("cfq", "back_seek_max", "KiB", (16_384, 0, MOST), "how far back counts as near"),
    row("cfq", "back_seek_penalty", "", (2, 1, MOST), "how much farther back is than forward"),
    row("cfq", "slice_sync", "ms", (100, 1, MOST), "time slice of a sync queue"),
    row("cfq", "slice_async", "ms", (40, 1, MOST), "time slice of an async queue"),
    row("cfq", "slice_async_rq", "", (2, 1, MOST), "requests of an async slice at level 7"),
    row("cfq", "slice_idle", "ms", (8, 0, MOST), "wait for a queue's next request"),
    row("cfq", "group_idle", "ms", (8, 0, MOST), "wait for a group's next request"),
    row("cfq", "target_latency", "ms", (300, 1, MOST), "time in which every queue has a slice"),
    row("cfq", "low_latency", "", (1, 0, 1), "shorten slices when many queues are busy"),
    row("bfq", "fifo_expire_sync", "ms", (125, 1, MOST), "a sync request is late after"),
    row("bfq", "fifo_expire_async", "ms", (250, 1, MOST), "an async request is late after"),
    row("bfq", "back_seek_max", "KiB", (16_384, 0, MOST), "how far back counts as near"),
    row("bfq", "back_seek_penalty", "", (2, 1, MOST), "how much farther back is than forward"),
    row("bfq", "slice_idle", "ms", (8, 0, MOST), "wait for a queue's next request"),
    row("bfq", "slice_idle_us", "us", (8000, 0, MOST), "the same, finer"),
    row("bfq", "max_budget", "sectors", (0, 0, MOST), "most of a slot; 0: by the device"),
    row("bfq", "timeout_sync", "ms", (125, 1, MOST), "most time of a slot"),
    row("bfq", "strict_guarantees", "", (0, 0, 1), "one request in the device"),
    row("bfq", "low_latency", "", (1, 0, 1), "raise the weight of interactive and soft real-time"),
    row("bfq", "x_stable_merge", "", (1, 0, 1), "join queues created together"),
    row("bfq", "x_queue_merge", "", (1, 0, 1), "join queues that read close to each other"),
    row("bfq", "x_injection", "", (1, 0, 1), "serve others while waiting for a queue"),
];

/// A requested scheduler: its name and the tunables that differ from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the scheduler.
    pub scheduler: String,
    /// The values set.
    pub values: BTreeMap<String, u64>,
}

impl Settings {
    /// `bfq:slice_idle=0,low_latency=0`. Values carry no unit: they are as sysfs shows them.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let (scheduler, rest) = text.split_once(':').unwrap_or((text, ""));
        let scheduler = super::scheduler_named(scheduler.trim())?.name;
        let mut settings = Settings {
            scheduler: scheduler.into(),
            values: BTreeMap::new(),
        };
        for part in rest
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let number = value.trim().parse();
            let number = number.map_err(|_| {
                SimError::range(format!("{scheduler}:{name}"), value, "a whole number")
            })?;
            settings.set(name.trim(), number)?;
        }
        Ok(settings)
    }

    /// Changes one tunable.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), SimError> {
        let own = || {
            TUNABLES
                .iter()
                .filter(|row| row.scheduler == self.scheduler)
        };
        let Some(row) = own().find(|row| row.name == name) else {
            let known: Vec<&str> = own().map(|row| row.name).collect();
            return Err(SimError::Unknown {
                key: "tunable",
                name: name.into(),
                known: match known.is_empty() {
                    true => format!("none: {} has no tunables", self.scheduler),
                    false => known.join(", "),
                },
            });
        };
        if !(row.min..=row.max).contains(&value) {
            let key = format!("{}:{name}", self.scheduler);
            let expected = format!("{} to {} {}", row.min, row.max, row.unit);
            return Err(SimError::range(key, value, expected.trim_end()));
        }
        self.values.insert(name.into(), value);
        // The two files show one number in two units.
        match (self.scheduler.as_str(), name) {
            ("bfq", "slice_idle") => {
                self.values.insert("slice_idle_us".into(), value * 1000);
            }
            ("bfq", "slice_idle_us") => {
                self.values.insert("slice_idle".into(), value / 1000);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the caller set it.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value in force; a name that the table does not hold is a mistake in this crate.
    pub fn get(&self, name: &str) -> u64 {
        if let Some(value) = self.values.get(name) {
            return *value;
        }
        let mut rows = TUNABLES.iter();
        let row = rows.find(|row| row.scheduler == self.scheduler && row.name == name);
        debug_assert!(row.is_some(), "{name} is in no row of {}", self.scheduler);
        row.map_or(0, |row| row.default)
    }

    /// The same of a tunable in ms, in ns, rounded up to whole ticks of `hz`.
    pub fn ticks_ns(&self, name: &str, hz: u64) -> u64 {
        ticks_ns(self.get(name), hz)
    }

    /// The same in ns, unrounded.
    pub fn ms_as_ns(&self, name: &str) -> u64 {
        self.get(name).saturating_mul(1_000_000)
    }

    /// As it is written on the command line.
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (name, value) in &self.values {
            // Written once, in ms where that is exact.
            let whole = self
                .values
                .get("slice_idle_us")
                .is_none_or(|us| us % 1000 == 0);
            if (name == "slice_idle_us" && whole) || (name == "slice_idle" && !whole) {
                continue;
            }
            parts.push(format!("{name}={value}"));
        }
        match parts.is_empty() {
            true => self.scheduler.clone(),
            false => format!("{}:{}", self.scheduler, parts.join(",")),
        }
    }
}

/// So many ms in whole ticks of `hz`, in ns.
pub fn ticks_ns(ms: u64, hz: u64) -> u64 {
    let tick_ns = 1_000_000_000 / hz;
    ms.saturating_mul(1_000_000)
        .div_ceil(tick_ns)
        .saturating_mul(tick_ns)
}
