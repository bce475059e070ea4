//! `Launched`: a program that was started for a measurement. JSON in, JSON out.

use std::time::Duration;

use pyo3::prelude::*;
use schedlab_load::cpu::attributes_of;
use schedlab_load::keeper::{self, RoomOrder};
use schedlab_load::launch::{self, Order};

use crate::cpu_crew::refused;
use crate::stoppable::wrong;

/// See `schedlab_load::launch::Launched`.
#[pyclass]
pub(crate) struct Launched(launch::Launched);

#[pymethods]
impl Launched {
    #[new]
    fn start(py: Python<'_>, order_json: &str) -> PyResult<Self> {
        let order: Order = serde_json::from_str(order_json).map_err(wrong)?;
        py.detach(|| launch::Launched::start(&order))
            .map(Launched)
            .map_err(refused)
    }

    fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// The process that keeps it: what it started are descendants of this one.
    fn keeper(&self) -> Option<i32> {
        self.0.keeper()
    }

    /// The names of the walls that it is in.
    fn walls(&self) -> Vec<&'static str> {
        self.0.walls()
    }

    /// Ends it, and what it left in a process namespace of its own.
    fn end(&mut self, py: Python<'_>) {
        py.detach(|| self.0.end());
    }

    /// Lets one that is held begin.
    fn release(&mut self) -> PyResult<()> {
        self.0.release().map_err(refused)
    }

    /// How it ended, as JSON, or None while it runs.
    fn wait(&mut self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<String>> {
        let ending = py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s)));
        let text = ending.map(|e| serde_json::to_string(&e));
        text.transpose().map_err(wrong)
    }
}

/// See `schedlab_load::keeper::Room`.
#[pyclass]
pub(crate) struct Room(keeper::Room);

#[pymethods]
impl Room {
    #[new]
    fn open(order_json: &str) -> PyResult<Self> {
        let order: RoomOrder = serde_json::from_str(order_json).map_err(wrong)?;
        keeper::Room::open(&order).map(Room).map_err(refused)
    }

    fn pid(&self) -> i32 {
        self.0.pid()
    }

    fn end(&mut self, py: Python<'_>) {
        py.detach(|| self.0.end());
    }
}

/// (policy number, nice value, priority, slice in ns) of a thread; None when it is gone.
#[pyfunction]
pub(crate) fn scheduling_of(pid: i32) -> Option<(u32, i32, u32, u64)> {
    attributes_of(pid)
}

/// Every match of a pattern in bytes, as (value, unit, what follows the value). The value is the
/// group `value`, or the only group, or the whole match; what follows is at most 16 bytes.
#[pyfunction]
pub(crate) fn match_output(
    pattern: &str,
    text: &[u8],
) -> PyResult<Vec<(String, Option<String>, String)>> {
    let pattern = regex::bytes::RegexBuilder::new(pattern)
        .multi_line(true)
        .unicode(false)
        .build()
        .map_err(wrong)?;
    let words = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    let matches = pattern.captures_iter(text).filter_map(|captures| {
        let value = captures
            .name("value")
            .or_else(|| captures.get(captures.len() - 1))?;
        let unit = captures.name("unit").map(|unit| words(unit.as_bytes()));
        let rest = &text[value.end()..(value.end() + 16).min(text.len())];
        Some((words(value.as_bytes()), unit, words(rest)))
    });
    Ok(matches.collect())
}

/// Number of groups of a pattern and whether one is named `value`; ValueError if it is none.
#[pyfunction]
pub(crate) fn pattern_groups(pattern: &str) -> PyResult<(usize, bool)> {
    let compiled = regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .build();
    let compiled = compiled.map_err(wrong)?;
    let has_value = compiled.capture_names().any(|name| name == Some("value"));
    Ok((compiled.captures_len() - 1, has_value))
}
