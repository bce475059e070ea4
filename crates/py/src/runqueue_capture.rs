//! `RunQueueCapture`: how long tasks wait for a CPU. JSON out; the format is documented in
//! `crates/trace/src/runqueue.rs`.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::stoppable::wrong;

/// A capture in progress; see `schedlab_trace::RunQueueCapture`.
#[pyclass]
pub(crate) struct RunQueueCapture(Option<schedlab_trace::RunQueueCapture>);

#[pymethods]
impl RunQueueCapture {
    #[new]
    fn start(py: Python<'_>, tasks: Vec<(u32, i32)>) -> PyResult<Self> {
        py.detach(|| schedlab_trace::RunQueueCapture::start(&tasks))
            .map(|capture| RunQueueCapture(Some(capture)))
            .map_err(PyOSError::new_err)
    }

    /// Ends the capture and gives its result.
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let capture = self.0.take();
        let capture = capture.ok_or_else(|| PyRuntimeError::new_err("already finished"))?;
        let result = py.detach(|| capture.finish()).map_err(PyOSError::new_err)?;
        serde_json::to_string(&result).map_err(wrong)
    }
}
