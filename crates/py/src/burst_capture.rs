//! `BurstCapture`: bursts of chosen processes by BPF, perf or schedstat. JSON in, JSON out.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use schedlab_trace::{Capture, Method, Options, TraceError};

use crate::stoppable::wrong;

/// (cpu, woken_ns, policy, nice, slice_ns)
type Scheduling = (u16, u64, u8, i8, u32);
/// (end_ns, duration_ns, task, preempted, scheduling)
type Record = (u64, u64, u32, bool, Option<Scheduling>);

fn unavailable(error: TraceError) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// A capture in progress; see `schedlab_trace::Capture`.
#[pyclass]
pub(crate) struct BurstCapture(Option<Capture>);

#[pymethods]
impl BurstCapture {
    #[new]
    fn start(py: Python<'_>, pids: Vec<i32>, options_json: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options_json).map_err(wrong)?;
        let capture = py.detach(|| Capture::start(&pids, &options));
        capture.map(|c| BurstCapture(Some(c))).map_err(unavailable)
    }

    /// Ends the capture: its totals as JSON, and every kept burst in order of its end.
    fn finish(&mut self, py: Python<'_>) -> PyResult<(String, Vec<Record>)> {
        let capture = self.0.take();
        let capture = capture.ok_or_else(|| PyRuntimeError::new_err("already finished"))?;
        let bursts = py.detach(|| capture.finish()).map_err(unavailable)?;
        let records = bursts.records.iter().map(|r| {
            let of =
                |s: schedlab_trace::Scheduling| (s.cpu, s.woken_ns, s.policy, s.nice, s.slice_ns);
            (
                r.end_ns,
                r.duration_ns,
                r.task,
                r.preempted,
                r.scheduling.map(of),
            )
        });
        let records = records.collect();
        Ok((serde_json::to_string(&bursts).map_err(wrong)?, records))
    }
}

/// Tries every source on this process: (name, "" or why it cannot be used).
#[pyfunction]
pub(crate) fn probe_burst_sources(py: Python<'_>) -> Vec<(String, String)> {
    let own = std::process::id() as i32;
    let probe = |method: Method| {
        let options = Options {
            method: Some(method),
            ring_bytes: 1 << 16,
            ..Options::default()
        };
        let tried = py.detach(|| Capture::start(&[own], &options).and_then(Capture::finish));
        let name = format!("{method:?}").to_lowercase();
        (name, tried.err().map(|e| e.to_string()).unwrap_or_default())
    };
    [Method::Bpf, Method::Perf, Method::Schedstat]
        .map(probe)
        .to_vec()
}
