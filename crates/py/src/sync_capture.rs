//! `SyncCapture`: how long programs wait until their data is durable. JSON in, JSON out; the
//! formats are documented in `crates/trace/src/syncs.rs`.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use schedlab_trace::SyncResult;

use crate::stoppable::wrong;

/// A capture in progress; see `schedlab_trace::SyncCapture`.
#[pyclass]
pub(crate) struct SyncCapture(Option<schedlab_trace::SyncCapture>);

fn ended() -> PyErr {
    PyRuntimeError::new_err("already finished")
}

fn json(result: Result<SyncResult, String>) -> PyResult<String> {
    serde_json::to_string(&result.map_err(PyOSError::new_err)?).map_err(wrong)
}

#[pymethods]
impl SyncCapture {
    #[new]
    fn start(py: Python<'_>, options_json: &str) -> PyResult<Self> {
        let options = serde_json::from_str(options_json).map_err(wrong)?;
        py.detach(|| schedlab_trace::SyncCapture::start(&options))
            .map(|capture| SyncCapture(Some(capture)))
            .map_err(PyOSError::new_err)
    }

    /// Counts one more process, and what it forks.
    fn follow(&self, process: u32) -> PyResult<()> {
        let capture = self.0.as_ref().ok_or_else(ended)?;
        let followed = capture.follow(process, schedlab_trace::Follow::Itself);
        followed.map_err(PyOSError::new_err)
    }

    /// What was captured so far.
    fn snapshot(&self, py: Python<'_>) -> PyResult<String> {
        let capture = self.0.as_ref().ok_or_else(ended)?;
        json(py.detach(|| capture.snapshot()))
    }

    /// Ends the capture and gives its result.
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let capture = self.0.take().ok_or_else(ended)?;
        json(py.detach(|| capture.finish()))
    }
}
