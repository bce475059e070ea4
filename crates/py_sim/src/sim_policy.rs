//! A policy of the command queue that is a Python object, called for every dispatch.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedlab_sim::device::View;
use schedlab_sim::engine::{Command, Window};
use schedlab_sim::policy::Policy;
use schedlab_sim::SimError;

/// Bytes of a row of the queue.
const ROW_BYTES: usize = 64;

/// The facts of the device that a policy may ask for.
#[pyclass(frozen)]
pub struct PolicyDevice {
    read_ns: f64,
    write_ns: f64,
}

#[pymethods]
impl PolicyDevice {
    /// Time of one page in the flash, ns.
    fn page_ns(&self, is_write: bool) -> f64 {
        if is_write {
            self.write_ns
        } else {
            self.read_ns
        }
    }
}

/// How the object decides: the method that it has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Select,
    Order,
    Estimate,
}

/// A Python object as a policy.
pub struct PythonPolicy {
    name: String,
    method: Py<PyAny>,
    /// `numpy.frombuffer` and the type of a row.
    from_buffer: Py<PyAny>,
    row: Py<PyAny>,
    way: Way,
    uses_missing: bool,
    is_volatile: bool,
    device: Option<Py<PolicyDevice>>,
    /// Requests to dispatch next, the first one last, and the newest request when they were given.
    ordered: Vec<u64>,
    newest: u64,
    bytes: Vec<u8>,
}

impl PythonPolicy {
    /// The policy of an object with a method `select`, `order` or `estimate`; `row` is the numpy
    /// type of a row of the queue.
    pub fn new(name: String, object: &Bound<'_, PyAny>, row: Py<PyAny>) -> PyResult<Self> {
        let py = object.py();
        let ways = [
            ("select", Way::Select),
            ("order", Way::Order),
            ("estimate", Way::Estimate),
        ];
        let known = ways
            .iter()
            .find(|(method, _)| object.hasattr(*method).unwrap_or(false));
        let Some((method, way)) = known else {
            let detail = format!("policy {name}: expected a method select, order or estimate");
            return Err(pyo3::exceptions::PyValueError::new_err(detail));
        };
        let uses_missing = match object.getattr("uses") {
            Ok(uses) => uses.contains("missing")?,
            Err(_) => true,
        };
        let is_volatile = match object.getattr("volatile") {
            Ok(volatile) => volatile.is_truthy()?,
            Err(_) => false,
        };
        Ok(PythonPolicy {
            name,
            method: object.getattr(*method)?.unbind(),
            from_buffer: py.import("numpy")?.getattr("frombuffer")?.unbind(),
            row,
            way: *way,
            uses_missing,
            is_volatile,
            device: None,
            ordered: Vec::new(),
            newest: u64::MAX,
            bytes: Vec::new(),
        })
    }

    fn add_row(
        &mut self,
        command: &Command,
        overtaken: u32,
        estimate: f64,
        power: f64,
        unit_ns: [f64; 2],
    ) {
        let mut row = [0; ROW_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            row[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&command.index.to_le_bytes());
        put(&command.arrival_ns.to_le_bytes());
        put(&command.admitted_ns.to_le_bytes());
        put(&command.first_page.to_le_bytes());
        put(&command.pages.to_le_bytes());
        put(&command.missing.to_le_bytes());
        put(&[u8::from(command.is_write), u8::from(command.is_trim)]);
        put(&(overtaken.min(65_535) as u16).to_le_bytes());
        put(&estimate.to_le_bytes());
        put(&power.to_le_bytes());
        put(&unit_ns[usize::from(command.is_write)].to_le_bytes());
        self.bytes.extend_from_slice(&row);
    }

    fn fill(&mut self, window: &Window, view: &dyn View) {
        self.bytes.clear();
        let unit_ns = [false, true].map(|is_write| view.page_time_ns(is_write));
        let columns = window
            .overtaken()
            .iter()
            .zip(window.estimates())
            .zip(window.weights());
        for (command, ((overtaken, estimate), power)) in window.commands().iter().zip(columns) {
            self.add_row(command, *overtaken, *estimate, *power, unit_ns);
        }
    }

    /// Calls the method with the rows in `bytes`.
    fn call<'py>(
        &mut self,
        py: Python<'py>,
        now_ns: u64,
        view: &dyn View,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.device.is_none() {
            let device = PolicyDevice {
                read_ns: view.page_time_ns(false),
                write_ns: view.page_time_ns(true),
            };
            self.device = Some(Py::new(py, device)?);
        }
        let bytes = PyBytes::new(py, &self.bytes);
        let queue = self
            .from_buffer
            .bind(py)
            .call1((bytes, self.row.bind(py)))?;
        let device = self.device.as_ref().map(|device| device.bind(py).clone());
        self.method.bind(py).call1((queue, now_ns, device))
    }

    fn failed(&self, detail: &str, first: &Command, now_ns: u64) -> SimError {
        SimError::Policy(format!(
            "{}: {detail}; at {now_ns} ns, with request {} first in the queue",
            self.name, first.index
        ))
    }

    fn raised(&self, py: Python<'_>, error: &PyErr, first: &Command, now_ns: u64) -> SimError {
        let mut place = String::new();
        let mut next = error.traceback(py).map(|traceback| traceback.into_any());
        while let Some(traceback) = next {
            let line = traceback
                .getattr("tb_lineno")
                .and_then(|line| line.extract::<u32>());
            let code = traceback
                .getattr("tb_frame")
                .and_then(|f| f.getattr("f_code"));
            let file = code
                .and_then(|c| c.getattr("co_filename"))
                .and_then(|f| f.extract::<String>());
            if let (Ok(line), Ok(file)) = (line, file) {
                place = format!("{file}, line {line}: ");
            }
            next = traceback
                .getattr("tb_next")
                .ok()
                .filter(|next| !next.is_none());
        }
        self.failed(&format!("{place}{error}"), first, now_ns)
    }
}

impl Policy for PythonPolicy {
    /// Not used: estimates come together.
    fn estimate(&self, _command: &Command, _view: &dyn View) -> f64 {
        match self.way {
            Way::Estimate => f64::NAN,
            Way::Select | Way::Order => 0.0,
        }
    }

    fn uses_buffer(&self) -> bool {
        self.uses_missing
    }

    fn is_volatile(&self) -> bool {
        self.is_volatile && self.way == Way::Estimate
    }

    fn estimates_together(&self) -> bool {
        self.way == Way::Estimate
    }

    fn estimate_together(
        &mut self,
        commands: &[Command],
        now_ns: u64,
        view: &dyn View,
    ) -> Result<Vec<f64>, SimError> {
        self.bytes.clear();
        let unit_ns = [false, true].map(|is_write| view.page_time_ns(is_write));
        for command in commands {
            self.add_row(command, 0, f64::NAN, 1.0, unit_ns);
        }
        let first = commands[0];
        Python::attach(|py| {
            let numbers = match self.call(py, now_ns, view) {
                Ok(numbers) => numbers,
                Err(error) => return Err(self.raised(py, &error, &first, now_ns)),
            };
            let numbers: Vec<f64> = match numbers.call_method0("tolist") {
                Ok(list) => list.extract().unwrap_or_default(),
                Err(_) => numbers.extract().unwrap_or_default(),
            };
            let whole = numbers.len() == commands.len() && numbers.iter().all(|n| !n.is_nan());
            if !whole {
                let detail = format!("expected {} numbers, none of them NaN", commands.len());
                return Err(self.failed(&detail, &first, now_ns));
            }
            Ok(numbers)
        })
    }

    fn select(&mut self, window: &Window, now_ns: u64, view: &dyn View) -> Result<usize, SimError> {
        if self.way == Way::Estimate {
            return Ok(window.least());
        }
        let commands = window.commands();
        let (first, newest) = (commands[0], commands[commands.len() - 1].index);
        if self.way == Way::Order && newest == self.newest {
            while let Some(index) = self.ordered.pop() {
                if let Some(position) = commands.iter().position(|c| c.index == index) {
                    return Ok(position);
                }
            }
        }
        self.fill(window, view);
        Python::attach(|py| {
            let chosen = match self.call(py, now_ns, view) {
                Ok(chosen) => chosen,
                Err(error) => return Err(self.raised(py, &error, &first, now_ns)),
            };
            let rows: Vec<usize> = if self.way == Way::Order {
                let list = chosen.call_method0("tolist").unwrap_or(chosen);
                list.extract().unwrap_or_default()
            } else {
                chosen.extract().map(|row| vec![row]).unwrap_or_default()
            };
            if rows.is_empty() || rows.iter().any(|row| *row >= commands.len()) {
                let detail = format!("expected rows of the queue, 0 to {}", commands.len() - 1);
                return Err(self.failed(&detail, &first, now_ns));
            }
            self.newest = newest;
            let later = rows[1..].iter().rev();
            self.ordered = later.map(|row| commands[*row].index).collect();
            Ok(rows[0])
        })
    }
}
