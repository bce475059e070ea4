//! `RecordCapture`: every request of a device into a file. JSON in, JSON out; the formats are
//! documented in `crates/trace/src/records.rs`.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::stoppable::wrong;

/// A recording in progress; see `schedlab_trace::RecordCapture`.
#[pyclass]
pub(crate) struct RecordCapture(Option<schedlab_trace::RecordCapture>);

#[pymethods]
impl RecordCapture {
    #[new]
    fn start(py: Python<'_>, options_json: &str) -> PyResult<Self> {
        let options = serde_json::from_str(options_json).map_err(wrong)?;
        let capture = py.detach(|| schedlab_trace::RecordCapture::start(&options));
        capture
            .map(|running| RecordCapture(Some(running)))
            .map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Ends the recording, completes the file and says what is in it.
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let capture = self.0.take();
        let capture = capture.ok_or_else(|| PyRuntimeError::new_err("already finished"))?;
        let result = py.detach(|| capture.finish());
        let result = result.map_err(|error| PyOSError::new_err(error.to_string()))?;
        serde_json::to_string(&result).map_err(wrong)
    }
}
