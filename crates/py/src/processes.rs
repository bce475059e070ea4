//! Descriptions that the load engine and the simulator share: processes, tunables.

use pyo3::prelude::*;
use schedlab_model::process::{ProcessSpec, Processes, PRESETS};
use schedlab_model::tunables::TUNABLES;
use schedlab_model::Workload;
use serde::Serialize;

use crate::stoppable::wrong;

/// Shipped files of processes: name and text.
#[pyfunction]
pub fn process_presets() -> Vec<(&'static str, &'static str)> {
    PRESETS.to_vec()
}

/// A process and the name of its table in the file; with a device its region there, and the
/// requests of the load engine.
#[derive(Serialize)]
struct Described {
    table: String,
    #[serde(flatten)]
    process: ProcessSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<Workload>,
}

/// The processes of a file (`text` from `place`) or of a preset, one for each of `count`, as JSON
/// with all keys; on a device of so many bytes each has its region, and `workload` for the engine.
#[pyfunction]
#[pyo3(signature = (text, place=None, capacity_bytes=None, seed=0))]
pub fn host_processes(
    text: &str,
    place: Option<&str>,
    capacity_bytes: Option<u64>,
    seed: u64,
) -> PyResult<String> {
    let read = Processes::read(text, place).map_err(wrong)?;
    let all: Vec<(ProcessSpec, Option<Workload>)> = match capacity_bytes {
        None => read.each().into_iter().map(|spec| (spec, None)).collect(),
        Some(capacity) => {
            let placed = read.placed(capacity, seed).map_err(wrong)?;
            placed
                .into_iter()
                .map(|(s, work)| (s, Some(work)))
                .collect()
        }
    };
    let same = |spec: &ProcessSpec| std::iter::repeat_n(spec.name.clone(), spec.count as usize);
    let tables = read.processes.iter().flat_map(same);
    let described = tables
        .zip(all)
        .map(|(table, (process, workload))| Described {
            table,
            process,
            workload,
        });
    serde_json::to_string(&described.collect::<Vec<_>>()).map_err(wrong)
}

/// The tunables of each scheduler that has some, as JSON.
#[pyfunction]
pub fn host_tunables() -> PyResult<String> {
    serde_json::to_string(&*TUNABLES).map_err(wrong)
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(process_presets, module)?)?;
    module.add_function(wrap_pyfunction!(host_processes, module)?)?;
    module.add_function(wrap_pyfunction!(host_tunables, module)?)
}
