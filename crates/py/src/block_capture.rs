//! `BlockCapture`: where the requests of a device spend their time. JSON in, JSON out; the formats
//! are documented in `crates/trace/src/blocks.rs`.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use schedlab_trace::{BlockError, BlockResult};

use crate::stoppable::wrong;

/// A capture in progress; see `schedlab_trace::BlockCapture`.
#[pyclass]
pub(crate) struct BlockCapture(Option<schedlab_trace::BlockCapture>);

fn unavailable(error: BlockError) -> PyErr {
    PyOSError::new_err(error.to_string())
}

fn ended() -> PyErr {
    PyRuntimeError::new_err("already finished")
}

fn json(result: Result<BlockResult, BlockError>) -> PyResult<String> {
    serde_json::to_string(&result.map_err(unavailable)?).map_err(wrong)
}

#[pymethods]
impl BlockCapture {
    #[new]
    fn start(py: Python<'_>, options_json: &str) -> PyResult<Self> {
        let options = serde_json::from_str(options_json).map_err(wrong)?;
        let capture = py.detach(|| schedlab_trace::BlockCapture::start(options));
        capture.map(|c| BlockCapture(Some(c))).map_err(unavailable)
    }

    /// Puts a process or thread into a class of the options (1 is the first).
    fn add(&self, class_number: usize, pid: u32) -> PyResult<()> {
        let capture = self.0.as_ref().ok_or_else(ended)?;
        capture.add(class_number, pid).map_err(unavailable)
    }

    /// What was captured so far; without `over_time` no series.
    #[pyo3(signature = (over_time = true))]
    fn snapshot(&self, py: Python<'_>, over_time: bool) -> PyResult<String> {
        let capture = self.0.as_ref().ok_or_else(ended)?;
        json(py.detach(|| capture.snapshot(over_time)))
    }

    /// Ends the capture and gives its result.
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let capture = self.0.take().ok_or_else(ended)?;
        json(py.detach(|| capture.finish()))
    }
}
