//! `schedlab._core`: one file per exposed thing, no logic. Its typed face is `python/schedlab/_core.pyi`.

use pyo3::prelude::*;

/// Everything that Python can reach, one line per file.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
