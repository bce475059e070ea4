//! `sim_names`: what the registries of the simulator hold.

use pyo3::prelude::*;
use schedlab_sim::{model, policy, workload};

/// Name and one line about each `device`, `policy` or `workload`; nothing for other kinds.
#[pyfunction]
pub fn sim_names(kind: &str) -> Vec<(&'static str, &'static str)> {
    match kind {
        "device" => model::shipped().collect(),
        "policy" => policy::POLICIES
            .iter()
            .map(|(n, about, _)| (*n, *about))
            .collect(),
        "workload" => workload::NAMED
            .iter()
            .map(|(n, about, _)| (*n, *about))
            .collect(),
        _ => Vec::new(),
    }
}
