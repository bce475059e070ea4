//! `timed_reads`: single reads of a device, each with its times.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedlab_load::io::timed::{read_timed, TimedRead};

use crate::io_job::raise;

/// Reads `(offset, length)` of a device or file past the page cache, `depth` at a time, and gives
/// `(submitted, completed)` of each in ns of the monotonic clock. Where `together`, the next
/// `depth` begin when all before have completed. The GIL is released.
#[pyfunction]
#[pyo3(signature = (path, reads, depth=1, together=false))]
pub fn timed_reads(
    py: Python<'_>,
    path: PathBuf,
    reads: Vec<(u64, u32)>,
    depth: u32,
    together: bool,
) -> PyResult<Vec<(u64, u64)>> {
    let timed = |(offset, length)| TimedRead {
        offset,
        length,
        ..TimedRead::default()
    };
    let mut reads: Vec<TimedRead> = reads.into_iter().map(timed).collect();
    py.detach(|| read_timed(&path, &mut reads, depth.max(1), together))
        .map_err(|error| raise(py, &error))?;
    Ok(reads
        .iter()
        .map(|read| (read.sent_ns, read.done_ns))
        .collect())
}
