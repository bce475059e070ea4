//! The work of a task behind the gate, one file per role.

pub(super) mod calculation;
pub(super) mod fork_storm;
pub(super) mod kernel;
pub(super) mod messaging;
pub(super) mod spin;
pub(super) mod steady;
pub(super) mod turns;
pub(super) mod wakeup;
