//! `schedlab_sim._simulators`: one file per exposed thing, no logic.
//! Its typed face is `python/schedlab_sim/_simulators.pyi`.

use pyo3::prelude::*;

mod cpu_sim;
mod emulated_device;
mod sim_policy;
mod simulation;
#[path = "../../py/src/stoppable.rs"]
mod stoppable;

/// Everything that Python can reach, one line per file.
#[pymodule]
fn _simulators(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    cpu_sim::register(module)?;
    emulated_device::register(module)?;
    simulation::register(module)
}
