//! The CPU scheduler simulator: JSON in, JSON out.

use std::sync::Arc;

use pyo3::prelude::*;
use schedlab_model::Nanos;
use schedlab_sim::cpu::{self, Settings, Task};
use serde::Deserialize;

use crate::stoppable::{stoppable, wrong};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    tasks: Vec<Task>,
    settings: Settings,
}

/// Simulates `{"tasks": […], "settings": {…}}` and gives the schedule as JSON.
#[pyfunction]
pub fn run_cpu_simulation(py: Python<'_>, job_json: &str) -> PyResult<String> {
    let job: Job = serde_json::from_str(job_json).map_err(wrong)?;
    let work = move |stop: &_| cpu::simulate(&job.tasks, &job.settings, stop);
    let result = stoppable(py, Arc::default(), work)?;
    serde_json::to_string(&result).map_err(wrong)
}

/// Tasks in the compact form `NAME:ARRIVAL:CPU[/IO/CPU…],…` as a JSON list.
#[pyfunction]
pub fn parse_cpu_tasks(text: &str) -> PyResult<String> {
    let tasks = cpu::parse_tasks(text).map_err(wrong)?;
    serde_json::to_string(&tasks).map_err(wrong)
}

/// A time with its unit (`20us`, `3s`) in nanoseconds.
#[pyfunction]
pub fn parse_time_ns(text: &str) -> PyResult<u64> {
    let time: Nanos = text.parse().map_err(wrong)?;
    Ok(time.0)
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_cpu_simulation, module)?)?;
    module.add_function(wrap_pyfunction!(parse_cpu_tasks, module)?)?;
    module.add_function(wrap_pyfunction!(parse_time_ns, module)?)
}
