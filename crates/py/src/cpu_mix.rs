//! `CpuMix`: work that is sensitive to CPU scheduling. JSON in, JSON out.

use std::time::Duration;

use pyo3::prelude::*;
use schedlab_load::cpu::mix::{self, Job};

use crate::cpu_crew::refused;
use crate::wrong;

/// Forked tasks in groups; see `schedlab_load::cpu::mix::Mix`.
#[pyclass]
pub(crate) struct CpuMix(mix::Mix);

#[pymethods]
impl CpuMix {
    #[new]
    fn launch(py: Python<'_>, job_json: &str) -> PyResult<Self> {
        let job: Job = serde_json::from_str(job_json).map_err(wrong)?;
        py.detach(|| mix::Mix::launch(job))
            .map(CpuMix)
            .map_err(refused)
    }

    /// Rows (number of the group, process id).
    fn pids(&self) -> Vec<(usize, i32)> {
        self.0.pids()
    }

    fn start(&self) {
        self.0.start();
    }

    fn wait(&mut self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s)))
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let result = py.detach(|| self.0.finish());
        serde_json::to_string(&result).map_err(wrong)
    }
}

/// Nanoseconds of a thousand steps of a mix's work on an idle CPU.
#[pyfunction]
pub(crate) fn spin_ns_per_1000(py: Python<'_>) -> f64 {
    py.detach(mix::spin_ns_per_1000)
}
