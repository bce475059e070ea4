//! CPU schedulers of one's own, written in BPF (`sched_ext`).

use std::path::Path;

use crate::bpf::Scheduler;

/// A loaded scheduler: the kernel uses it until this is dropped, or until it ejects it.
pub struct CpuScheduler {
    _loaded: Scheduler,
}

impl CpuScheduler {
    /// Loads a compiled object and attaches its schedulers. The reason when it cannot.
    pub fn load(file: &Path) -> Result<Self, String> {
        let _loaded = Scheduler::load(file)?;
        Ok(CpuScheduler { _loaded })
    }
}
