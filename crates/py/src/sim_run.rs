//! `simulate`: one simulation from its JSON description, without the GIL, stoppable.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use schedlab_sim::engine::Logged;
use schedlab_sim::policy::Policy;
use schedlab_sim::workload::{Arrays, Source};
use schedlab_sim::{Config, Report, SimError, Stop};

use crate::sim_policy::PythonPolicy;
use crate::stoppable::stoppable;
use crate::wrong;

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

/// Runs the simulation that `config` (JSON) describes and gives its report (JSON), its log, and the
/// service model that was in force.
///
/// `requests` replaces the workload by columns in little-endian bytes: arrival in ns (u64), first
/// byte (u64), bytes (u64), operation (u8: 0 read, 1 write, 2 trim). `policy` (name, object, numpy
/// type of a row of the queue) replaces the policy of `config`; its aging stays.
#[pyfunction]
#[pyo3(signature = (config, requests=None, stop=None, policy=None))]
pub fn simulate<'py>(
    py: Python<'py>,
    config: &str,
    requests: Option<RawColumns>,
    stop: Option<&SimStop>,
    policy: Option<(String, Bound<'py, PyAny>, Py<PyAny>)>,
) -> PyResult<(String, Bound<'py, PyBytes>, &'static str)> {
    let config: Config = serde_json::from_str(config).map_err(wrong)?;
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
    let (report, log, service) = stoppable(py, stop, move |stop| match policy {
        // Attached for the whole run: a call for each dispatch would pay for it every time.
        Some(policy) => Python::attach(|_| work(&config, columns, Some(policy), stop)),
        None => work(&config, columns, None, stop),
    })?;
    let json = serde_json::to_string(&report)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok((json, PyBytes::new(py, &packed(&log)), service))
}

fn work(
    config: &Config,
    columns: Option<Columns>,
    policy: Option<PythonPolicy>,
    stop: &Stop,
) -> Result<(Report, Vec<Logged>, &'static str), SimError> {
    let mut arrays = match columns {
        Some((arrival, offset, length, operation)) => {
            Some(Arrays::new(arrival, offset, length, operation)?)
        }
        None => None,
    };
    let (report, log) = config.run_with(
        arrays.as_mut().map(|arrays| arrays as &mut dyn Source),
        policy.map(|policy| Box::new(policy) as Box<dyn Policy>),
        stop,
    )?;
    Ok((report, log, config.service()?.name()))
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

/// The log as packed little-endian rows; `LOG_DTYPE` of `schedlab.sim` reads them.
fn packed(log: &[Logged]) -> Vec<u8> {
    let mut out = Vec::with_capacity(log.len() * 49);
    for Logged {
        command,
        completed_ns,
    } in log
    {
        for word in [
            command.index,
            command.arrival_ns,
            command.admitted_ns,
            command.dispatched_ns,
            *completed_ns,
        ] {
            out.extend(word.to_le_bytes());
        }
        out.extend(command.first_page.to_le_bytes());
        out.extend(command.pages.to_le_bytes());
        out.push(u8::from(command.is_write) + 2 * u8::from(command.is_trim));
    }
    out
}
