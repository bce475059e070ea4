//! Block-I/O jobs: `run_io_job`, `io_timings`, `io_nop_calibration`. JSON in, JSON out; the formats
//! are documented in `crates/load/src/io/job.rs` and `result.rs`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use schedlab_load::io::{self, nop, timings, Crewmates, IoError, Job, Wish};

/// Carries out a job and gives its result as JSON.
///
/// The GIL is released; signals are looked at every 20 ms. Ctrl-C ends the job, whose result then
/// says `interrupted`. `should_end`, if given, is called as often; by giving true it ends the
/// measured window, as if its time were over. `on_ready`, if given, is called once with the JSON of
/// the workers, `[{"name": "reader", "ids": [4711]}]`, before the first of them begins.
#[pyfunction]
#[pyo3(signature = (job_json, should_end=None, on_ready=None))]
pub fn run_io_job(
    py: Python<'_>,
    job_json: &str,
    should_end: Option<Py<PyAny>>,
    on_ready: Option<Py<PyAny>>,
) -> PyResult<String> {
    let ear = Mutex::new(Ear::new(should_end));
    let listen = || match ear.lock() {
        Ok(mut ear) => ear.listen(),
        Err(_) => Wish::Stop,
    };
    let introduce = |mates: &[Crewmates]| {
        if let (Some(callable), Ok(mut ear)) = (&on_ready, ear.lock()) {
            ear.introduce(callable, mates);
        }
    };
    let done = py.detach(|| {
        let job = Job::from_json(job_json)?;
        io::run_watched(&job, &mut |mates| introduce(mates), &mut || listen())
    });
    let ear = ear.into_inner().unwrap_or_else(PoisonError::into_inner);
    ear.answer(py, done)
}

/// hdparm's cached and buffered timings of a device or file, as JSON; about 9 s.
#[pyfunction]
#[pyo3(signature = (path, direct=false))]
pub fn io_timings(py: Python<'_>, path: PathBuf, direct: bool) -> PyResult<String> {
    let mut ear = Ear::new(None);
    let done = py.detach(|| timings::measure(&path, direct, &mut || ear.listen()));
    ear.answer(py, done)
}

/// The engine's own cost per request over io_uring NOPs, as JSON; about 0.4 s.
#[pyfunction]
#[pyo3(signature = (depth=32, batch=32))]
pub fn io_nop_calibration(py: Python<'_>, depth: u32, batch: u32) -> PyResult<String> {
    let done = py.detach(|| nop::calibrate(depth, batch));
    Ear::new(None).answer(py, done)
}

/// Listens to signals and to the caller while Rust works.
struct Ear {
    should_end: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Ear {
    fn new(should_end: Option<Py<PyAny>>) -> Ear {
        Ear {
            should_end,
            raised: None,
        }
    }

    /// Tells the caller who the workers are; what it raises ends the job.
    fn introduce(&mut self, callable: &Py<PyAny>, mates: &[Crewmates]) {
        let text = serde_json::to_string(mates).unwrap_or_default();
        let told = Python::attach(|py| callable.call1(py, (text,)).map(drop));
        self.raised = self.raised.take().or(told.err());
    }

    fn listen(&mut self) -> Wish {
        if self.raised.is_some() {
            return Wish::Stop;
        }
        let end = Python::attach(|py| {
            py.check_signals()?;
            match &self.should_end {
                Some(callable) => callable.call0(py)?.is_truthy(py),
                None => Ok(false),
            }
        });
        match end {
            Ok(false) => Wish::Continue,
            Ok(true) => Wish::Enough,
            Err(error) => {
                self.raised = Some(error);
                Wish::Stop
            }
        }
    }

    /// The result as JSON. Ctrl-C is part of it; anything else that was raised goes on.
    fn answer<T: serde::Serialize>(
        self,
        py: Python<'_>,
        done: Result<T, IoError>,
    ) -> PyResult<String> {
        match self.raised {
            Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => return Err(error),
            _ => {}
        }
        let result = done.map_err(|error| raise(py, &error))?;
        serde_json::to_string(&result).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// The error as one of `schedlab.errors`, with its hint.
fn raise(py: Python<'_>, error: &IoError) -> PyErr {
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
