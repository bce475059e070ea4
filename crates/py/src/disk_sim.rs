//! The disk with heads: JSON in, JSON out.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_model::{Bytes, Workload};
use schedlab_sim::disk::{self, DiskSpec, Run};
use serde::Deserialize;

use crate::sim_run::SimStop;
use crate::stoppable::stoppable;

/// `device` is a shipped name, or the text of a TOML file that came from `path`. A span of 0 is
/// the whole disk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    device: String,
    path: Option<String>,
    policy: String,
    requests: u64,
    workload: Workload,
}

fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Simulates one run and gives its figures as JSON.
#[pyfunction]
#[pyo3(signature = (job_json, stop=None))]
pub fn run_disk_simulation(
    py: Python<'_>,
    job_json: &str,
    stop: Option<&SimStop>,
) -> PyResult<String> {
    let job: Job = serde_json::from_str(job_json).map_err(wrong)?;
    let spec = match &job.path {
        Some(path) => DiskSpec::from_toml(path, &job.device),
        None => DiskSpec::shipped(&job.device),
    }
    .map_err(wrong)?;
    let mut workload = job.workload;
    if workload.span == Bytes(0) {
        workload.span = spec.capacity();
    }
    let run = Run {
        policy: job.policy,
        requests: job.requests,
        workload,
    };
    let stop = stop.map_or_else(Arc::default, |flag| flag.0.clone());
    let result = stoppable(py, stop, move |stop| disk::simulate(&spec, &run, stop))?;
    serde_json::to_string(&result).map_err(wrong)
}

/// Shipped disks: name and TOML text.
#[pyfunction]
pub fn disk_devices() -> BTreeMap<&'static str, &'static str> {
    disk::SHIPPED.iter().copied().collect()
}

/// Names of the policies with what they are.
#[pyfunction]
pub fn disk_policies() -> Vec<(&'static str, &'static str)> {
    let names = disk::POLICIES.iter();
    names.map(|(name, title, _)| (*name, *title)).collect()
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_disk_simulation, module)?)?;
    module.add_function(wrap_pyfunction!(disk_devices, module)?)?;
    module.add_function(wrap_pyfunction!(disk_policies, module)?)
}
