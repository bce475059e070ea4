//! The disk with heads: JSON in, JSON out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedlab_model::{Bytes, Workload};
use schedlab_sim::disk::{self, DiskLogged, DiskSpec, LoggedResult, Run};
use schedlab_sim::workload::{Replay, ReplayOptions};
use schedlab_sim::{SimError, Stop};
use serde::Deserialize;
use serde_json::Value;

use crate::sim_run::SimStop;
use crate::stoppable::stoppable;
use crate::wrong;

/// `device` is a shipped name, or the text of a TOML file that came from `path`; `set` changes keys
/// of it. Requests come from `trace`, all where `requests` is missing, or from `workload`, where a
/// span of 0 is the whole disk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    device: String,
    path: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    policy: String,
    requests: Option<u64>,
    workload: Option<Workload>,
    trace: Option<Trace>,
    #[serde(default)]
    log: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    path: PathBuf,
    format: Option<String>,
    #[serde(default)]
    options: ReplayOptions,
}

impl Job {
    fn spec(&self) -> Result<DiskSpec, SimError> {
        match &self.path {
            Some(path) => DiskSpec::from_toml_with(path, &self.device, &self.set),
            None => DiskSpec::shipped_with(&self.device, &self.set),
        }
    }
}

/// Simulates one run and gives its figures as JSON, and its log as packed little-endian rows, which
/// `DISK_LOG_DTYPE` of `schedlab.sim.disk` reads.
#[pyfunction]
#[pyo3(signature = (job_json, stop=None))]
pub fn run_disk_simulation<'py>(
    py: Python<'py>,
    job_json: &str,
    stop: Option<&SimStop>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let job: Job = serde_json::from_str(job_json).map_err(wrong)?;
    let spec = job.spec().map_err(wrong)?;
    let stop = stop.map_or_else(Arc::default, |flag| flag.0.clone());
    let (result, log) = stoppable(py, stop, move |stop| work(&spec, job, stop))?;
    let json = serde_json::to_string(&result).map_err(wrong)?;
    Ok((json, PyBytes::new(py, &packed(&log))))
}

fn work(spec: &DiskSpec, job: Job, stop: &Stop) -> Result<LoggedResult, SimError> {
    if let Some(Trace {
        path,
        format,
        options,
    }) = job.trace
    {
        let size = (spec.capacity().0, spec.sector.0);
        let mut replay = Replay::open(&path, format.as_deref(), &options, size, job.requests)?;
        return disk::replay_trace(spec, &job.policy, &mut replay, None, job.log, stop);
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
    disk::simulate_logged(spec, &run, job.log, stop)
}

fn packed(log: &[DiskLogged]) -> Vec<u8> {
    let mut out = Vec::with_capacity(log.len() * 58);
    for row in log {
        let request = &row.request;
        for word in [
            row.index,
            request.arrival.0,
            row.start_ns,
            row.completed_ns,
            request.offset.0,
            request.length.0,
            row.measured_ns.unwrap_or(u64::MAX),
        ] {
            out.extend(word.to_le_bytes());
        }
        out.push(u8::from(request.is_write));
        out.push(row.kind as u8);
    }
    out
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
    module.add_function(wrap_pyfunction!(disk_policies, module)?)
}
