//! A scheduler as it is asked for, with some of its tunables.

use std::collections::BTreeMap;

use schedlab_model::tunables::{Tunable, TUNABLES};

use crate::SimError;

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
        let scheduler = super::scheduler_named(scheduler.trim())?.0;
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

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES.get(&self.scheduler).map_or(&[], Vec::as_slice)
    }

    /// Changes one tunable.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), SimError> {
        let own = self.tunables();
        let Some(row) = own.iter().find(|row| row.name == name) else {
            let known: Vec<&str> = own.iter().map(|row| row.name.as_str()).collect();
            let none = format!("none: {} has no tunables", self.scheduler);
            let listed = if known.is_empty() {
                vec![none.as_str()]
            } else {
                known
            };
            return Err(SimError::unknown("tunable", name, listed));
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
        let row = self.tunables().iter().find(|row| row.name == name);
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
