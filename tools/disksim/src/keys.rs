//! The keys of one block of a parameter file, looked up by name; those that are never used are
//! what the import ignores.

use std::collections::BTreeSet;
use std::path::Path;

use schedlab_model::Nanos;

use super::parse::{Block, Value};
use schedlab_sim::SimError;

const NUMBERS_MAX: usize = 1_000_000;

/// Keys that must be 0, since what they turn on is not modelled.
const OFF: [&str; 7] = [
    "Preseeking level",
    "Allow almost read hits",
    "Allow sneaky full read hits",
    "Allow sneaky partial read hits",
    "Allow sneaky intermediate read hits",
    "Allow write prebuffering",
    "Percent error in rpms",
];

/// A block whose keys are looked up by name; those that are never used are ignored.
pub(super) struct Keys<'a> {
    pub(super) place: String,
    block: &'a Block,
    used: BTreeSet<&'a str>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(path: &Path, block: &'a Block) -> Self {
        let place = format!("{}: {} {}", path.display(), block.kind, block.name);
        Keys {
            place: place.trim_end().to_owned(),
            block,
            used: BTreeSet::new(),
        }
    }

    pub(super) fn wrong(&self, detail: impl ToString) -> SimError {
        SimError::file(&self.place, detail)
    }

    pub(super) fn get(&mut self, key: &str) -> Option<&'a Value> {
        let same = |(known, _): &&(String, Value)| known.eq_ignore_ascii_case(key);
        let (known, value) = self.block.entries.iter().find(same)?;
        self.used.insert(known);
        Some(value)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<&'a str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn block(&mut self, key: &str) -> Result<&'a Block, SimError> {
        match self.get(key) {
            Some(Value::Block(block)) => Ok(block),
            _ => Err(self.wrong(format!("expected a block {key} = type {{…}}"))),
        }
    }

    pub(super) fn optional(&mut self, key: &str) -> Result<Option<f64>, SimError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = match value {
            Value::Text(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(format!("{key}: expected a number"))),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<f64, SimError> {
        self.optional(key)?
            .ok_or_else(|| self.wrong(format!("expected the key {key}")))
    }

    pub(super) fn or_zero(&mut self, key: &str) -> Result<f64, SimError> {
        Ok(self.optional(key)?.unwrap_or(0.0))
    }

    pub(super) fn whole(&mut self, key: &str) -> Result<u32, SimError> {
        let number = self.number(key)?;
        if number < 0.0 || number > f64::from(u32::MAX) || number.fract() != 0.0 {
            return Err(self.wrong(format!("{key} = {number}: expected a whole number")));
        }
        Ok(number as u32)
    }

    /// Milliseconds as ns.
    pub(super) fn ms(&mut self, key: &str) -> Result<Nanos, SimError> {
        let ms = self.or_zero(key)?;
        nanos(ms).ok_or_else(|| self.wrong(format!("{key} = {ms}: expected 0 to 1000 ms")))
    }

    pub(super) fn numbers(&mut self, key: &str) -> Result<Vec<f64>, SimError> {
        let mut numbers = Vec::new();
        if let Some(Value::List(list)) = self.get(key) {
            if list.len() > NUMBERS_MAX {
                return Err(self.wrong(format!("{key}: expected at most {NUMBERS_MAX} numbers")));
            }
            for value in list {
                let number = match value {
                    Value::Text(text) => text.parse::<f64>().ok().filter(|n| n.is_finite()),
                    _ => None,
                };
                let number = number.ok_or_else(|| self.wrong(format!("{key}: expected numbers")));
                numbers.push(number?);
            }
        }
        Ok(numbers)
    }

    pub(super) fn places(&mut self, key: &str) -> Result<Vec<u32>, SimError> {
        let numbers = self.numbers(key)?;
        let fits = |number: &f64| *number >= 0.0 && *number <= f64::from(u32::MAX);
        if !numbers.iter().all(fits) {
            return Err(self.wrong(format!("{key}: expected numbers from 0 on")));
        }
        Ok(numbers.into_iter().map(|number| number as u32).collect())
    }

    pub(super) fn must_be_off(&mut self) -> Result<(), SimError> {
        for key in OFF {
            let value = self.or_zero(key)?;
            if value != 0.0 {
                return Err(self.wrong(format!("{key} = {value}: expected 0, it is not modelled")));
            }
        }
        Ok(())
    }

    /// Keys that were never used, with their values.
    pub(super) fn ignored(&self, into: &mut Vec<(String, String)>) {
        for (key, value) in &self.block.entries {
            if let (false, Value::Text(text)) = (self.used.contains(key.as_str()), value) {
                into.push((key.clone(), text.clone()));
            }
        }
    }
}

/// Milliseconds as ns, up to a second.
pub(super) fn nanos(ms: f64) -> Option<Nanos> {
    (0.0..=1000.0)
        .contains(&ms)
        .then(|| Nanos((ms * 1e6).round() as u64))
}
