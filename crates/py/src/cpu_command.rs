//! `HeldCommand`: a command that waits until it is released.

use std::ffi::CString;
use std::time::Duration;

use pyo3::prelude::*;

use crate::cpu_crew::refused;
use crate::wrong;

/// A forked child that will execute a command; see `schedlab_load::cpu::HeldCommand`.
#[pyclass]
pub(crate) struct HeldCommand(schedlab_load::cpu::HeldCommand);

#[pymethods]
impl HeldCommand {
    #[new]
    fn launch(
        program: CString,
        arguments: Vec<CString>,
        environment: Vec<CString>,
    ) -> PyResult<Self> {
        schedlab_load::cpu::HeldCommand::launch(&program, &arguments, &environment)
            .map(HeldCommand)
            .map_err(refused)
    }

    fn pid(&self) -> i32 {
        self.0.pid()
    }

    fn release(&mut self) {
        self.0.release();
    }

    /// How it ended, as JSON, or None while it runs.
    fn wait(&mut self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<String>> {
        let ended = py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s)));
        ended
            .map(|e| serde_json::to_string(&e))
            .transpose()
            .map_err(wrong)
    }
}
