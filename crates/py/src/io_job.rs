//! Block-I/O jobs: `run_io_job`, `io_nop_calibration`. JSON in, JSON out; the formats
//! are documented in `crates/load/src/io/job.rs` and `result.rs`.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use schedlab_load::io::{self, nop, Decision, IoError, Job, ReadyGroup};

use crate::replay_plan::ReplayPlan;
use crate::stoppable::wrong;

/// Runs a job and returns its result as JSON.
///
/// The GIL is released; signals are checked every 20 ms. Ctrl-C ends the job, whose result then
/// has `interrupted`. `should_end`, if given, is called as often; by giving true it ends the
/// measured window, as if its time were over. `on_ready`, if given, is called once with the JSON of
/// the workers, `[{"name": "reader", "ids": [4711]}]`, before the first of them starts. `replay`
/// has the streams that groups replay.
#[pyfunction]
#[pyo3(signature = (job_json, should_end=None, on_ready=None, replay=None))]
pub fn run_io_job(
    py: Python<'_>,
    job_json: &str,
    should_end: Option<Py<PyAny>>,
    on_ready: Option<Py<PyAny>>,
    replay: Option<PyRef<'_, ReplayPlan>>,
) -> PyResult<String> {
    let scripts = replay.map_or_else(Vec::new, |plan| plan.scripts());
    let cancel = Mutex::new(CancelPoll::new(should_end));
    let poll = || match cancel.lock() {
        Ok(mut cancel) => cancel.poll(),
        Err(_) => Decision::Abort,
    };
    let introduce = |groups: &[ReadyGroup]| {
        if let (Some(callable), Ok(mut cancel)) = (&on_ready, cancel.lock()) {
            cancel.introduce(callable, groups);
        }
    };
    let outcome = py.detach(|| {
        let mut job = Job::from_json(job_json)?;
        job.attach(&scripts)?;
        io::run_watched(&job, &mut |groups| introduce(groups), &mut || poll())
    });
    let cancel = cancel.into_inner().unwrap_or_else(PoisonError::into_inner);
    cancel.answer(py, outcome)
}

/// The engine's own cost per request over io_uring NOPs, as JSON; about 0.4 s.
#[pyfunction]
#[pyo3(signature = (depth=32, batch=32))]
pub fn io_nop_calibration(py: Python<'_>, depth: u32, batch: u32) -> PyResult<String> {
    let outcome = py.detach(|| nop::calibrate(depth, batch));
    CancelPoll::new(None).answer(py, outcome)
}

/// Checks signals and the caller's `should_end` while Rust works.
struct CancelPoll {
    should_end: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl CancelPoll {
    fn new(should_end: Option<Py<PyAny>>) -> CancelPoll {
        CancelPoll {
            should_end,
            raised: None,
        }
    }

    /// Passes the workers to the caller; an exception that it raises ends the job.
    fn introduce(&mut self, callable: &Py<PyAny>, groups: &[ReadyGroup]) {
        let text = serde_json::to_string(groups).unwrap_or_default();
        let answer = Python::attach(|py| callable.call1(py, (text,)).map(drop));
        self.raised = self.raised.take().or(answer.err());
    }

    fn poll(&mut self) -> Decision {
        if self.raised.is_some() {
            return Decision::Abort;
        }
        let end = Python::attach(|py| {
            py.check_signals()?;
            match &self.should_end {
                Some(callable) => callable.call0(py)?.is_truthy(py),
                None => Ok(false),
            }
        });
        match end {
            Ok(false) => Decision::Continue,
            Ok(true) => Decision::Stop,
            Err(error) => {
                self.raised = Some(error);
                Decision::Abort
            }
        }
    }

    /// The result as JSON. Ctrl-C is part of it; any other exception is passed on.
    fn answer<T: serde::Serialize>(
        self,
        py: Python<'_>,
        outcome: Result<T, IoError>,
    ) -> PyResult<String> {
        match self.raised {
            Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => return Err(error),
            _ => {}
        }
        let result = outcome.map_err(|error| raise(py, &error))?;
        serde_json::to_string(&result).map_err(wrong)
    }
}

/// The error as one of `schedlab.errors`, with its hint.
pub(crate) fn raise(py: Python<'_>, error: &IoError) -> PyErr {
    let class = if error.is_description() {
        "SpecError"
    } else {
        "HostError"
    };
    let built = py
        .import("schedlab.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((error.to_string(), error.hint())));
    match built {
        Ok(value) => PyErr::from_value(value),
        Err(failed) => failed,
    }
}
