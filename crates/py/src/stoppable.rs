//! Work without the GIL that Ctrl-C and a flag end within 100 ms. A file of both extension modules.

use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use schedlab_model::Stop;

/// How long Ctrl-C may go unnoticed.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// An input that is refused.
pub fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The outcome of `work`, which runs on a separate thread and checks `stop`. A refused input
/// is a `ValueError`, being stopped a `RuntimeError`, a signal what its Python handler raised.
pub fn stoppable<T: Send + 'static, E: ToString + Send + 'static>(
    py: Python<'_>,
    stop: Arc<Stop>,
    work: impl FnOnce(&Stop) -> Result<T, E> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    let stop_worker = stop.clone();
    let worker = std::thread::spawn(move || {
        let _ = sender.send(work(&stop_worker));
    });
    let outcome = loop {
        // By `&mut`: a shared receiver must not leave its thread.
        let waiting = &mut receiver;
        match py.detach(move || waiting.recv_timeout(SIGNAL_POLL)) {
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the work panicked"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    stop.set();
                    let _ = py.detach(|| worker.join());
                    return Err(signal);
                }
            }
        }
    };
    outcome.map_err(|error| match stop.is_set() {
        true => PyRuntimeError::new_err(error.to_string()),
        false => wrong(error),
    })
}
