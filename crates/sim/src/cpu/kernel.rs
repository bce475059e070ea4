//! Features of the kernel's fair schedulers (kernel/sched/fair.c, features.h) that can be switched
//! one by one, or together to those of a version.

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

/// Versions whose features are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kernel {
    /// The first one with EEVDF.
    #[serde(rename = "6.6")]
    V6_6,
    /// The first one that delays dequeuing.
    #[serde(rename = "6.12")]
    V6_12,
    /// The first one that was released with the shorter base slice.
    #[serde(rename = "6.15")]
    V6_15,
}

/// How far the lag of a task that sleeps can be from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LagLimit {
    /// Two of its own slices, at least a tick.
    #[default]
    TwoSlices,
    /// The largest slice among the runnable tasks and a tick.
    LargestSlice,
}

/// Keys of eevdf; what is missing is as in `kernel`, or as described.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EevdfKeys {
    /// How far the lag of a sleeping task can be from 0.
    pub lag_limit: LagLimit,
    /// A new task gets half a slice first (PLACE_DEADLINE_INITIAL). Default: yes.
    pub initial_half: Option<bool>,
    /// A task that sleeps with negative lag stays until it is picked (DELAY_DEQUEUE). Default: no.
    pub delay_dequeue: Option<bool>,
    /// Lag that grew above 0 meanwhile is dropped (DELAY_ZERO). Default: no.
    pub delay_zero: Option<bool>,
    /// A woken task waits until the running one has used its slice or is no longer eligible
    /// (RUN_TO_PARITY). Default: yes.
    pub run_to_parity: Option<bool>,
    /// Except where the woken one has the shorter slice (PREEMPT_SHORT). Default: no.
    pub preempt_short: Option<bool>,
    /// Slice of a task that sets none. Default: the quantum; with `kernel`, 0.75 ms, or 0.70 ms
    /// from 6.12 on (its stable releases follow 6.15), times 1 + log2 of the CPUs, at most 8.
    pub slice: Option<Nanos>,
}

/// Keys of cfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CfsKeys {
    /// A new task starts behind by a virtual slice (START_DEBIT). Default: yes.
    pub start_debit: Option<bool>,
}
