//! `CpuScheduler`: a scheduler written in BPF, loaded until it is unloaded.

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// A loaded scheduler; see `schedlab_trace::CpuScheduler`.
#[pyclass]
pub(crate) struct CpuScheduler(Option<schedlab_trace::CpuScheduler>);

#[pymethods]
impl CpuScheduler {
    #[new]
    fn load(py: Python<'_>, file: PathBuf) -> PyResult<Self> {
        py.detach(|| schedlab_trace::CpuScheduler::load(&file))
            .map(|loaded| CpuScheduler(Some(loaded)))
            .map_err(PyOSError::new_err)
    }

    /// Unloads it: the kernel returns to its own scheduler.
    fn unload(&mut self, py: Python<'_>) {
        let loaded = self.0.take();
        py.detach(|| drop(loaded));
    }
}
