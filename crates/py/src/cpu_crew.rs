//! `CpuCrew`: worker processes that count calculations. JSON in, JSON out.

use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use schedlab_load::cpu::{self, Job, Kernel, Refusal, WorkerGroup};

use crate::wrong;

pub(crate) fn refused(refusal: Refusal) -> PyErr {
    let errno = refusal.source.raw_os_error().unwrap_or(0);
    PyOSError::new_err((errno, refusal.source.to_string(), refusal.step))
}

/// Forked workers; see `schedlab_load::cpu::WorkerGroup`.
#[pyclass]
pub(crate) struct CpuCrew(WorkerGroup);

#[pymethods]
impl CpuCrew {
    #[new]
    fn launch(py: Python<'_>, job_json: &str) -> PyResult<Self> {
        let job: Job = serde_json::from_str(job_json).map_err(wrong)?;
        py.detach(|| WorkerGroup::launch(job))
            .map(CpuCrew)
            .map_err(refused)
    }

    fn pids(&self) -> Vec<i32> {
        self.0.pids()
    }

    fn prepare(&mut self, py: Python<'_>, patience_s: f64) -> PyResult<()> {
        py.detach(|| self.0.prepare(Duration::from_secs_f64(patience_s)))
            .map_err(refused)
    }

    fn effective_slice_ns(&self) -> Option<u64> {
        self.0.effective_slice_ns()
    }

    fn start(&mut self) {
        self.0.start();
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn kill(&self) {
        self.0.kill();
    }

    fn set_slice(&self, slice_ns: u64) -> PyResult<()> {
        self.0.set_slice(slice_ns).map_err(refused)
    }

    fn wait(&mut self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s)))
    }

    /// Rows (process, at_ns, count, epochs).
    fn take_epochs(&mut self) -> Vec<(usize, u64, u64, u64)> {
        let epochs = self.0.take_epochs();
        epochs
            .iter()
            .map(|e| (e.process, e.at_ns, e.count, e.epochs))
            .collect()
    }

    /// Rows (process, (at_ns, count, cpu_ns, plain_count, plain_cpu_ns)).
    fn take_preemptions(&mut self) -> Vec<(usize, [u64; 5])> {
        let preemptions = self.0.take_preemptions();
        preemptions
            .iter()
            .map(|p| {
                let marks = [p.at_ns, p.count, p.cpu_ns, p.plain_count, p.plain_cpu_ns];
                (p.process, marks)
            })
            .collect()
    }

    fn lost_events(&self) -> u64 {
        self.0.lost_events()
    }

    fn totals(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.totals()).map_err(wrong)
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
