//! `schedlab._core`: one file per exposed thing, no logic.
//! Its typed face is `python/schedlab/_core.pyi`.

use pyo3::prelude::*;

mod block_capture;
mod burst_capture;
mod cpu_crew;
mod cpu_scheduler;
mod distributions;
mod io_job;
mod launched;
mod processes;
mod record_capture;
mod replay_plan;
mod runqueue_capture;
mod stoppable;
mod sync_capture;
mod timed_reads;
mod trace_file;

/// Everything that Python can reach, one line per file.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<block_capture::BlockCapture>()?;
    module.add_class::<record_capture::RecordCapture>()?;
    module.add_class::<replay_plan::ReplayPlan>()?;
    module.add_class::<burst_capture::BurstCapture>()?;
    module.add_function(wrap_pyfunction!(
        burst_capture::probe_burst_sources,
        module
    )?)?;
    module.add_class::<cpu_crew::CpuCrew>()?;
    module.add_class::<cpu_scheduler::CpuScheduler>()?;
    module.add_class::<runqueue_capture::RunQueueCapture>()?;
    module.add_class::<sync_capture::SyncCapture>()?;
    module.add_class::<launched::Launched>()?;
    module.add_class::<launched::Room>()?;
    module.add_function(wrap_pyfunction!(launched::scheduling_of, module)?)?;
    module.add_function(wrap_pyfunction!(launched::match_output, module)?)?;
    module.add_function(wrap_pyfunction!(launched::pattern_groups, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_crew::calibrate_cpu_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(distributions::normal_tail, module)?)?;
    module.add_function(wrap_pyfunction!(distributions::f_tail, module)?)?;
    module.add_function(wrap_pyfunction!(distributions::t_quantile, module)?)?;
    processes::register(module)?;
    module.add_function(wrap_pyfunction!(io_job::run_io_job, module)?)?;
    module.add_function(wrap_pyfunction!(io_job::io_nop_calibration, module)?)?;
    module.add_function(wrap_pyfunction!(timed_reads::timed_reads, module)?)?;
    module.add_function(wrap_pyfunction!(trace_file::trace_stats, module)?)?;
    module.add_function(wrap_pyfunction!(trace_file::trace_convert, module)?)?;
    module.add_function(wrap_pyfunction!(trace_file::sched_bursts, module)?)?;
    module.add_function(wrap_pyfunction!(trace_file::trace_rows, module)?)?;
    module.add_function(wrap_pyfunction!(trace_file::trace_formats, module)?)?;
    module.add_function(wrap_pyfunction!(trace_file::trace_format_of, module)?)?;
    Ok(())
}
