//! Emulated devices: serve one, describe one, predict what it gives. JSON in, JSON out.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use pyo3::prelude::*;
use schedlab_emulate::{predict, serve_device, DeviceConfig, EmulateError, Model, ServerConfig};
use serde::Deserialize;

/// A closed loop of random requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Loop {
    requests: u64,
    depth: u32,
    record_bytes: u64,
    #[serde(default)]
    is_write: bool,
    #[serde(default)]
    host_delay_ns: u64,
}

/// Serves a device until its connection ends, without the GIL. Both descriptors are taken over.
#[pyfunction]
pub fn serve_emulated_device(
    py: Python<'_>,
    config_json: &str,
    fuse: RawFd,
    control: RawFd,
) -> PyResult<()> {
    let config: ServerConfig = parse(py, config_json)?;
    // SAFETY: the caller hands over two open descriptors that nothing else uses or closes; the
    // process was started for this call only.
    let (fuse, control) = unsafe { (OwnedFd::from_raw_fd(fuse), OwnedFd::from_raw_fd(control)) };
    py.detach(|| serve_device(&config, fuse, control))
        .map_err(|error| raise(py, &error))
}

/// What a device would be: kind, size, queue depth, policy, as JSON.
#[pyfunction]
pub fn emulated_facts(py: Python<'_>, config_json: &str) -> PyResult<String> {
    let config: DeviceConfig = parse(py, config_json)?;
    let model = model(py, &config)?;
    Ok(serde_json::to_string(model.facts()).unwrap_or_default())
}

/// What its model gives for random requests in a closed loop, as JSON; no clock, no kernel.
#[pyfunction]
pub fn emulated_prediction(py: Python<'_>, config_json: &str, loop_json: &str) -> PyResult<String> {
    let config: DeviceConfig = parse(py, config_json)?;
    let job: Loop = parse(py, loop_json)?;
    let model = model(py, &config)?;
    let prediction = py.detach(|| {
        predict(
            &model,
            job.requests,
            job.depth,
            job.record_bytes,
            job.is_write,
            job.host_delay_ns,
        )
    });
    let prediction = prediction.map_err(|error| raise(py, &error.into()))?;
    Ok(serde_json::to_string(&prediction).unwrap_or_default())
}

fn model(py: Python<'_>, config: &DeviceConfig) -> PyResult<Model> {
    Model::new(config).map_err(|error| raise(py, &error.into()))
}

fn parse<'a, T: Deserialize<'a>>(py: Python<'_>, json: &'a str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| error_of(py, "SpecError", &error.to_string()))
}

fn raise(py: Python<'_>, error: &EmulateError) -> PyErr {
    let class = match error.is_description() {
        true => "SpecError",
        false => "HostError",
    };
    error_of(py, class, &error.to_string())
}

fn error_of(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let built = py
        .import("schedlab.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    match built {
        Ok(value) => PyErr::from_value(value),
        Err(failed) => failed,
    }
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(serve_emulated_device, module)?)?;
    module.add_function(wrap_pyfunction!(emulated_facts, module)?)?;
    module.add_function(wrap_pyfunction!(emulated_prediction, module)?)
}
