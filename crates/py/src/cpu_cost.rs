//! `measure_cpu_costs`: what a context switch costs. JSON in, JSON out.

use std::cell::RefCell;

use pyo3::prelude::*;
use schedlab_load::cpu::{measure_costs, CostJob};

use crate::cpu_crew::refused;
use crate::wrong;

/// Measures switch costs; Ctrl-C is checked between two measurements.
#[pyfunction]
pub(crate) fn measure_cpu_costs(py: Python<'_>, job_json: &str) -> PyResult<String> {
    let job: CostJob = serde_json::from_str(job_json).map_err(wrong)?;
    let (costs, interrupt) = py.detach(|| {
        let interrupt = RefCell::new(None);
        let costs = measure_costs(&job, || {
            Python::attach(|py| py.check_signals())
                .map_err(|error| *interrupt.borrow_mut() = Some(error))
                .is_ok()
        });
        (costs, interrupt.into_inner())
    });
    interrupt.map_or(Ok(()), Err)?;
    serde_json::to_string(&costs.map_err(refused)?).map_err(wrong)
}
