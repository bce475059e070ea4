//! `CpuCrew`: forked tasks that the CPU scheduler treats, and one of their calculations alone. JSON
//! in, JSON out.

use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use schedlab_load::cpu::{self, Crew, CrewJob, Kernel, Refusal};

use crate::stoppable::wrong;

pub(crate) fn refused(refusal: Refusal) -> PyErr {
    let errno = refusal.source.raw_os_error().unwrap_or(0);
    PyOSError::new_err((errno, refusal.source.to_string(), refusal.step))
}

/// See `schedlab_load::cpu::Crew`.
#[pyclass]
pub(crate) struct CpuCrew(Crew);

#[pymethods]
impl CpuCrew {
    #[new]
    fn launch(py: Python<'_>, job_json: &str) -> PyResult<Self> {
        let job: CrewJob = serde_json::from_str(job_json).map_err(wrong)?;
        py.detach(|| Crew::launch(job))
            .map(CpuCrew)
            .map_err(refused)
    }

    fn pids(&self) -> Vec<(usize, i32)> {
        self.0.pids()
    }

    fn effective_slice_ns(&self) -> Option<u64> {
        self.0.effective_slice_ns()
    }

    fn start(&self) {
        self.0.start();
    }

    fn set_slice(&self, slice_ns: u64) -> PyResult<()> {
        self.0.set_slice(slice_ns).map_err(refused)
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s)))
    }

    fn take_epochs(&self) -> Vec<(usize, [u64; 3])> {
        self.0.take_epochs()
    }

    fn take_preemptions(&self) -> Vec<(usize, [u64; 5])> {
        self.0.take_preemptions()
    }

    fn lost_events(&self) -> u64 {
        self.0.lost_events()
    }

    fn kill(&mut self, py: Python<'_>) {
        py.detach(|| self.0.kill());
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let result = py.detach(|| self.0.finish());
        serde_json::to_string(&result).map_err(wrong)
    }
}

/// Times one calculation: {"ns_p10", "ns_p50", "ns_p90"} as JSON.
#[pyfunction]
pub(crate) fn calibrate_cpu_kernel(
    py: Python<'_>,
    kernel: &str,
    repetitions: usize,
) -> PyResult<String> {
    let kernel: Kernel = serde_json::from_value(kernel.into()).map_err(wrong)?;
    let calibration = py.detach(|| cpu::calibrate(kernel, repetitions));
    serde_json::to_string(&calibration).map_err(wrong)
}
