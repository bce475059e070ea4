//! The host's queue above a simulated device: JSON in, JSON out.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedlab_formats::TraceRecord;
use schedlab_sim::host::{
    run, HostJob, HostLogged, HostResult, HostSettings, Processes, Settings, PRESETS, SCHEDULERS,
    TUNABLES,
};
use schedlab_sim::model::{DeviceConfig, Dilated, Model};
use schedlab_sim::workload::{Replay, ReplayOptions};
use schedlab_sim::{SimError, Stepped, Stop};
use serde::Deserialize;

use crate::sim_run::SimStop;
use crate::stoppable::stoppable;
use crate::wrong;

/// `processes` is the text of a TOML file from `place`, or the name of a preset.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    device: DeviceConfig,
    /// How many times slower the device is.
    #[serde(default)]
    dilate: u64,
    scheduler: String,
    #[serde(default)]
    settings: HostSettings,
    processes: Option<String>,
    place: Option<String>,
    trace: Option<Trace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    path: PathBuf,
    format: Option<String>,
    requests: Option<u64>,
    #[serde(default)]
    options: ReplayOptions,
}

impl Job {
    fn processes(&self) -> Result<Processes, SimError> {
        let text = self.processes.as_deref().unwrap_or("random32");
        if let Some(place) = &self.place {
            return Processes::from_toml(place, text);
        }
        let preset = PRESETS.iter().find(|(name, _)| *name == text);
        let (name, text) = preset.ok_or_else(|| SimError::Unknown {
            key: "processes",
            name: text.into(),
            known: PRESETS
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", "),
        })?;
        Processes::from_toml(name, text)
    }

    fn trace(&self, capacity_bytes: u64) -> Result<Vec<TraceRecord>, SimError> {
        let Some(trace) = &self.trace else {
            return Ok(Vec::new());
        };
        let (size, format) = ((capacity_bytes, 512), trace.format.as_deref());
        let mut replay = Replay::open(&trace.path, format, &trace.options, size, trace.requests)?;
        let mut records = Vec::new();
        while let Some(record) = replay.next_piece()? {
            records.push(record);
        }
        Ok(records)
    }

    fn run(self, stop: &Stop) -> Result<HostResult, SimError> {
        let model = Model::new(&self.device)?;
        let mut device = Dilated::new(model.build()?, self.dilate);
        let mut settings = self.settings.clone();
        settings.rotational = model.facts().rotational;
        let job = HostJob {
            settings,
            processes: self.processes()?,
            trace: self.trace(device.capacity_bytes())?,
        };
        run(&Settings::parse(&self.scheduler)?, &job, &mut device, stop)
    }
}

/// Simulates processes above a device and gives the figures as JSON, and the log as packed
/// little-endian rows, which `HOST_LOG_DTYPE` of `schedlab.sim.host` reads.
#[pyfunction]
#[pyo3(signature = (job_json, stop=None))]
pub fn run_host_simulation<'py>(
    py: Python<'py>,
    job_json: &str,
    stop: Option<&SimStop>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let job: Job = serde_json::from_str(job_json).map_err(wrong)?;
    let stop = stop.map_or_else(Arc::default, |flag| flag.0.clone());
    let result = stoppable(py, stop, move |stop| job.run(stop))?;
    let json = serde_json::to_string(&result).map_err(wrong)?;
    Ok((json, PyBytes::new(py, &packed(&result.log))))
}

fn packed(log: &[HostLogged]) -> Vec<u8> {
    let mut out = Vec::with_capacity(log.len() * 53);
    for row in log {
        for word in [
            row.sector,
            row.arrival_ns,
            row.inserted_ns,
            row.dispatched_ns,
            row.completed_ns,
        ] {
            out.extend(word.to_le_bytes());
        }
        for word in [row.process, row.sectors, row.bios] {
            out.extend(word.to_le_bytes());
        }
        out.push(row.op as u8);
    }
    out
}

/// Name, what it does, and which kernels have it.
#[pyfunction]
pub fn host_schedulers() -> Vec<(&'static str, &'static str, &'static str)> {
    let entries = SCHEDULERS.iter();
    entries
        .map(|entry| (entry.name, entry.about, entry.kernels))
        .collect()
}

/// The scheduler with its tunables as they were understood; an unknown one is an error.
#[pyfunction]
pub fn host_scheduler_text(text: &str) -> PyResult<String> {
    Ok(Settings::parse(text).map_err(wrong)?.text())
}

type TunableRow = (
    &'static str,
    &'static str,
    &'static str,
    u64,
    u64,
    u64,
    &'static str,
);

/// Scheduler, name, unit, default, least, most, and what it does.
#[pyfunction]
pub fn host_tunables() -> Vec<TunableRow> {
    let row = |row: &schedlab_sim::host::Tunable| {
        let range = (row.default, row.min, row.max);
        (
            row.scheduler,
            row.name,
            row.unit,
            range.0,
            range.1,
            range.2,
            row.about,
        )
    };
    TUNABLES.iter().map(row).collect()
}

/// Shipped processes: name and TOML text.
#[pyfunction]
pub fn host_presets() -> Vec<(&'static str, &'static str)> {
    PRESETS.to_vec()
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_host_simulation, module)?)?;
    module.add_function(wrap_pyfunction!(host_schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(host_scheduler_text, module)?)?;
    module.add_function(wrap_pyfunction!(host_tunables, module)?)?;
    module.add_function(wrap_pyfunction!(host_presets, module)?)
}
