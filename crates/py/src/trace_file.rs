//! Block I/O traces: statistics and conversion, JSON out.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedlab_formats::{convert, open, rows, TraceError, TraceOptions, TraceStats, FORMATS};
use serde_json::json;

use crate::stoppable::stoppable;

/// Records between two questions whether to stop.
const ASK_EVERY: u64 = 1 << 14;

fn options_from(options_json: &str) -> PyResult<TraceOptions> {
    serde_json::from_str(options_json).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// What a trace is like, as JSON: `format`, `lines`, `skipped` and the summary.
#[pyfunction]
#[pyo3(signature = (path, format=None, options_json="{}"))]
pub fn trace_stats(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    options_json: &str,
) -> PyResult<String> {
    let options = options_from(options_json)?;
    stoppable::<_, TraceError>(py, Arc::default(), move |stop| {
        let mut reader = open(&path, format.as_deref(), &options)?;
        let mut stats = TraceStats::default();
        let mut count = 0u64;
        for record in reader.by_ref() {
            stats.record(&record?);
            count += 1;
            if count % ASK_EVERY == 0 && stop.is_set() {
                return Err(TraceError::Stopped);
            }
        }
        let (name, lines, skipped) = (reader.format().name, reader.lines(), reader.skipped());
        let document = json!({
            "format": name, "lines": lines, "skipped": skipped, "summary": stats.summary(),
        });
        Ok(document.to_string())
    })
}

/// Writes a trace in another format; returns the counts as JSON. `ctf` needs a folder as `out`.
#[pyfunction]
#[pyo3(signature = (path, out, to, format=None, options_json="{}"))]
pub fn trace_convert(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    to: String,
    format: Option<String>,
    options_json: &str,
) -> PyResult<String> {
    let options = options_from(options_json)?;
    stoppable::<_, TraceError>(py, Arc::default(), move |stop| {
        let mut reader = open(&path, format.as_deref(), &options)?;
        let mut file = out.clone();
        if to == "ctf" {
            let place = out.join("metadata");
            let written = std::fs::write(&place, schedlab_formats::ctf_metadata());
            written.map_err(TraceError::io(&place, "write"))?;
            file = out.join("stream");
        }
        let created = File::create(&file).map_err(TraceError::io(&file, "create"));
        let counts = convert(&mut reader, &mut created?, &out, &to, stop)?;
        let document = json!({ "format": reader.format().name, "to": to, "done": counts });
        Ok(document.to_string())
    })
}

/// Every request of a trace: its head as JSON, and packed rows as in crates/formats/src/rows.rs.
#[pyfunction]
#[pyo3(signature = (path, format=None, options_json="{}"))]
pub fn trace_rows<'py>(
    py: Python<'py>,
    path: PathBuf,
    format: Option<String>,
    options_json: &str,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let options = options_from(options_json)?;
    let found = py.detach(|| rows(&path, format.as_deref(), &options));
    let found = found.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((found.head.to_string(), PyBytes::new(py, &found.packed)))
}

/// The name of the format that the content of a trace has.
#[pyfunction]
pub fn trace_format_of(path: PathBuf) -> PyResult<&'static str> {
    let reader = open(&path, None, &TraceOptions::default());
    let reader = reader.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(reader.format().name)
}

/// (name, what it is, whether it can be written) of every trace format.
#[pyfunction]
pub fn trace_formats() -> Vec<(&'static str, &'static str, bool)> {
    FORMATS
        .iter()
        .map(|format| (format.name, format.title, format.is_writable()))
        .collect()
}

/// A burst as `BurstCapture` has it: (end_ns, duration_ns, thread, is preempted, (cpu, woken_ns,
/// policy, nice, slice_ns)); the last only where the trace has wake-ups.
type PyBurst = (u64, u64, u32, bool, Option<(u64, u64, u32, i8, u64)>);

/// (bursts, name of each thread, lost events) of a text with `sched_switch` events.
#[pyfunction]
pub fn sched_bursts(path: PathBuf) -> PyResult<(Vec<PyBurst>, BTreeMap<u32, String>, u64)> {
    const SCHED_FIFO: u32 = 1;
    let read = schedlab_formats::sched_bursts(&path);
    let read = read.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let known = |b: &schedlab_formats::Burst| {
        // Events do not tell the real-time policies apart, and have no slice.
        let policy = if b.nice.is_some() { 0 } else { SCHED_FIFO };
        (b.cpu, b.woken_ns, policy, b.nice.unwrap_or(0), 0)
    };
    let rows = read.bursts.iter().map(|b| {
        let scheduling = read.has_wakeups.then(|| known(b));
        (
            b.end_ns,
            b.duration_ns,
            b.thread,
            b.is_preempted,
            scheduling,
        )
    });
    Ok((rows.collect(), read.names, read.lost))
}
