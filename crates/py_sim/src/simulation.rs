//! `simulate`: one simulation from its JSON description, without the GIL, stoppable; and what the
//! registries of the simulators hold.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use schedlab_sim::disk::{self, DiskLogged};
use schedlab_sim::engine::Logged;
use schedlab_sim::host::{HostLogged, Settings, SCHEDULERS};
use schedlab_sim::policy::{self, Policy};
use schedlab_sim::workload::{self, Arrays, Source};
use schedlab_sim::{cpu, model, Entry, Job, Outcome, SimError, Stop};

use crate::sim_policy::PythonPolicy;
use crate::stoppable::{stoppable, wrong};

/// A flag that ends running simulations from another thread.
#[pyclass(frozen)]
#[derive(Default)]
pub struct SimStop(pub(crate) Arc<Stop>);

#[pymethods]
impl SimStop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends every simulation that was given this flag.
    fn set(&self) {
        self.0.set();
    }
}

type RawColumns = (PyBackedBytes, PyBackedBytes, PyBackedBytes, PyBackedBytes);
type Columns = (Vec<u64>, Vec<u64>, Vec<u64>, Vec<u8>);

/// Runs the simulation that `job` (JSON) describes and gives its figures (JSON) and its log, packed
/// little-endian rows that the types of `schedlab_sim.results` read.
///
/// `requests` replaces the workload by columns in little-endian bytes: arrival in ns (u64), first
/// byte (u64), bytes (u64), operation (u8: 0 read, 1 write, 2 trim). `policy` (name, object, numpy
/// type of a row of the queue) replaces the policy of the job; its aging stays.
#[pyfunction]
#[pyo3(signature = (job, requests=None, stop=None, policy=None))]
pub fn simulate<'py>(
    py: Python<'py>,
    job: &str,
    requests: Option<RawColumns>,
    stop: Option<&SimStop>,
    policy: Option<(String, Bound<'py, PyAny>, Py<PyAny>)>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let job: Job = serde_json::from_str(job).map_err(wrong)?;
    let columns = requests.map(|(arrival, offset, length, operation)| {
        (
            words(&arrival),
            words(&offset),
            words(&length),
            operation.to_vec(),
        )
    });
    let stop = stop.map_or_else(Arc::default, |flag| flag.0.clone());
    let policy = match policy {
        Some((name, object, row)) => Some(PythonPolicy::new(name, &object, row)?),
        None => None,
    };
    let outcome = stoppable(py, stop, move |stop| match policy {
        // Attached for the whole run: a call for each dispatch would pay for it every time.
        Some(policy) => Python::attach(|_| work(&job, columns, Some(policy), stop)),
        None => work(&job, columns, None, stop),
    })?;
    let json = outcome.to_json().map_err(wrong)?;
    Ok((json, PyBytes::new(py, &packed(&outcome))))
}

fn work(
    job: &Job,
    columns: Option<Columns>,
    policy: Option<PythonPolicy>,
    stop: &Stop,
) -> Result<Outcome, SimError> {
    let mut arrays = match columns {
        Some((arrival, offset, length, operation)) => {
            Some(Arrays::new(arrival, offset, length, operation)?)
        }
        None => None,
    };
    job.run(
        arrays.as_mut().map(|arrays| arrays as &mut dyn Source),
        policy.map(|policy| Box::new(policy) as Box<dyn Policy>),
        stop,
    )
}

/// Little-endian 64-bit words of `bytes`.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        chunk
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    bytes.chunks_exact(8).map(word).collect()
}

fn packed(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::new();
    match outcome {
        Outcome::Ssd(_, log) => log.iter().for_each(|row| pack_ssd(&mut out, row)),
        Outcome::Disk(_, log) => log.iter().for_each(|row| pack_disk(&mut out, row)),
        Outcome::Host(result) => result.log.iter().for_each(|row| pack_host(&mut out, row)),
    }
    out
}

/// Adds a row: 64-bit words, 32-bit words, bytes.
fn pack<const W: usize, const H: usize>(
    out: &mut Vec<u8>,
    words: [u64; W],
    halves: [u32; H],
    bytes: &[u8],
) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    out.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    out.extend(bytes);
}

fn pack_ssd(out: &mut Vec<u8>, row: &Logged) {
    let command = &row.command;
    let words = [
        command.index,
        command.arrival_ns,
        command.admitted_ns,
        command.dispatched_ns,
        row.completed_ns,
    ];
    let operation = u8::from(command.is_write) + 2 * u8::from(command.is_trim);
    let pages = [command.first_page, command.pages];
    pack(out, words, pages, &[operation]);
}

fn pack_disk(out: &mut Vec<u8>, row: &DiskLogged) {
    let request = &row.request;
    let words = [
        row.index,
        request.arrival.0,
        row.start_ns,
        row.completed_ns,
        request.offset.0,
        request.length.0,
        row.measured_ns.unwrap_or(u64::MAX),
    ];
    pack(
        out,
        words,
        [],
        &[u8::from(request.is_write), row.kind as u8],
    );
}

fn pack_host(out: &mut Vec<u8>, row: &HostLogged) {
    let words = [
        row.sector,
        row.arrival_ns,
        row.inserted_ns,
        row.dispatched_ns,
        row.completed_ns,
    ];
    let halves = [row.process, row.sectors, row.bios];
    pack(out, words, halves, &[row.op as u8]);
}

/// Name and one line about each entry of a registry: `device`, `policy`, `disk policy`,
/// `cpu policy`, `workload`, `disk workload`; nothing for others.
#[pyfunction]
pub fn sim_names(registry: &str) -> Vec<(&'static str, &'static str)> {
    fn named<T>(entries: &[Entry<T>]) -> Vec<(&'static str, &'static str)> {
        entries
            .iter()
            .map(|(name, about, _)| (*name, *about))
            .collect()
    }
    match registry {
        "device" => model::SHIPPED.to_vec(),
        "policy" => named(policy::POLICIES),
        "disk policy" => named(disk::POLICIES),
        "cpu policy" => named(cpu::POLICIES),
        "workload" => named(workload::NAMED),
        "disk workload" => disk::WORKLOADS.iter().map(|(n, ..)| (*n, "")).collect(),
        _ => Vec::new(),
    }
}

/// The kernel's schedulers: name, what it does, and which kernels have it.
#[pyfunction]
pub fn host_schedulers() -> Vec<(&'static str, &'static str, &'static str)> {
    let entries = SCHEDULERS.iter();
    entries
        .map(|(name, about, (kernels, _))| (*name, *about, *kernels))
        .collect()
}

/// The scheduler with its tunables as they were understood; an unknown one is an error.
#[pyfunction]
pub fn host_scheduler_text(text: &str) -> PyResult<String> {
    Ok(Settings::parse(text).map_err(wrong)?.text())
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimStop>()?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(sim_names, module)?)?;
    module.add_function(wrap_pyfunction!(host_schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(host_scheduler_text, module)?)
}
