//! Tails and quantiles of distributions, of many values at once.

use pyo3::prelude::*;
use schedlab_model::distributions;

/// The upper tail of the standard normal distribution at each value.
#[pyfunction]
pub fn normal_tail(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(distributions::normal_tail).collect()
}

/// The upper tail of F at each `(degrees between, degrees within, ratio)`.
#[pyfunction]
pub fn f_tail(cases: Vec<(f64, f64, f64)>) -> Vec<f64> {
    let tail = |(between, within, ratio)| distributions::f_tail(between, within, ratio);
    cases.into_iter().map(tail).collect()
}

/// What Student's t exceeds with probability `level`, for each number of degrees of freedom.
#[pyfunction]
pub fn t_quantile(level: f64, freedoms: Vec<f64>) -> Vec<f64> {
    let quantile = |freedom| distributions::t_quantile(level, freedom);
    freedoms.into_iter().map(quantile).collect()
}
