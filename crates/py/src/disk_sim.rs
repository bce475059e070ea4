//! The disk with heads: JSON in, JSON out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_model::{Bytes, Workload};
use schedlab_sim::disk::{self, DiskResult, DiskSpec, Run};
use schedlab_sim::workload::trace::{self, TraceOptions};
use schedlab_sim::{SimError, Stop};
use serde::Deserialize;

use crate::sim_run::SimStop;
use crate::stoppable::stoppable;

/// `device` is a shipped name, or the text of a TOML file that came from `path`. Requests come from
/// `trace`, all where `requests` is missing, or from `workload`, where a span of 0 is the whole
/// disk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    device: String,
    path: Option<String>,
    policy: String,
    requests: Option<u64>,
    workload: Option<Workload>,
    trace: Option<Trace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    path: PathBuf,
    format: Option<String>,
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
    let stop = stop.map_or_else(Arc::default, |flag| flag.0.clone());
    let result = stoppable(py, stop, move |stop| work(&spec, job, stop))?;
    serde_json::to_string(&result).map_err(wrong)
}

fn work(spec: &DiskSpec, job: Job, stop: &Stop) -> Result<DiskResult, SimError> {
    if let Some(Trace { path, format }) = job.trace {
        let reader = trace::open(&path, format.as_deref(), &TraceOptions::default())?;
        return disk::replay_trace(spec, &job.policy, reader, job.requests, stop);
    }
    let missing = || SimError::Workload("neither workload nor trace".into());
    let mut workload = job.workload.ok_or_else(missing)?;
    if workload.span == Bytes(0) {
        workload.span = spec.capacity();
    }
    let run = Run {
        policy: job.policy,
        requests: job.requests.unwrap_or(0),
        workload,
    };
    disk::simulate(spec, &run, stop)
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
