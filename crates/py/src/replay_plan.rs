//! A trace as the streams of a replay: `ReplayPlan`, whose scripts `run_io_job` takes.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_formats::{scripts, ScriptError, ScriptOptions, Scripts};
use schedlab_model::Script;

/// The scripts of a trace; `options_json` as `ScriptOptions` of crates/formats.
#[pyclass(frozen)]
pub struct ReplayPlan(Scripts);

#[pymethods]
impl ReplayPlan {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        options_json: &str,
    ) -> PyResult<ReplayPlan> {
        let wrong = |error: String| PyValueError::new_err(error);
        let options: ScriptOptions =
            serde_json::from_str(options_json).map_err(|error| wrong(error.to_string()))?;
        let read = py.detach(|| scripts(&path, format.as_deref(), &options));
        read.map(ReplayPlan).map_err(|error| {
            let hint = match &error {
                ScriptError::Unfit { hint, .. } => hint,
                ScriptError::Trace(_) => "",
            };
            wrong(format!("{error}\nhint: {hint}"))
        })
    }

    /// What the trace is like and what its streams are, as JSON.
    fn summary(&self) -> String {
        self.0.summary.to_string()
    }
}

impl ReplayPlan {
    /// The scripts, in the order of the streams of the summary.
    pub(crate) fn scripts(&self) -> Vec<Arc<Script>> {
        let scripts = self.0.streams.iter().map(|one| Arc::clone(&one.script));
        scripts.collect()
    }
}
