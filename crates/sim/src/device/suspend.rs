//! Programs and erasures that give way to reads, as often and as late as the device file allows.

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

/// Programs and erasures that reads interrupt (Wu and He, "Reducing SSD read latency via NAND
/// flash program and erase suspension", FAST 2012). Host reads then go before waiting programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuspendSpec {
    /// Whether programs, also those that move pages, can be suspended.
    pub program: bool,
    /// Whether erasures can be suspended.
    pub erase: bool,
    /// Time from the arrival of the read until the die is free for it.
    pub cost: Nanos,
    /// Time to take the suspended operation up again.
    pub resume: Nanos,
    /// An operation with no more time left than this is not suspended.
    pub least: Nanos,
    /// How often an operation is suspended at most.
    pub limit: u32,
}

impl Default for SuspendSpec {
    fn default() -> Self {
        SuspendSpec {
            program: false,
            erase: false,
            cost: Nanos(5_000),
            resume: Nanos(5_000),
            least: Nanos(50_000),
            limit: 8,
        }
    }
}

impl SuspendSpec {
    /// Whether anything can be suspended.
    pub fn is_on(&self) -> bool {
        (self.program || self.erase) && self.limit > 0
    }

    /// Whether a read suspends an operation with so much time left, suspended so often before.
    pub(super) fn allows(&self, yields: Yields, left_ns: u64, suspensions: u32) -> bool {
        let may = match yields {
            Yields::Never => false,
            Yields::Program => self.program,
            Yields::Erase => self.erase,
        };
        may && left_ns > self.least.0 && suspensions < self.limit
    }
}

/// The right of a die over an operation that is in service when a read comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Yields {
    /// It is a read.
    Never,
    /// It is a program.
    Program,
    /// It is an erasure.
    Erase,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_operation_is_not_suspended_nor_what_may_not_be() {
        let spec = SuspendSpec {
            erase: true,
            least: Nanos(10),
            limit: 2,
            ..SuspendSpec::default()
        };
        for (yields, left_ns, suspensions, is_suspended) in [
            (Yields::Erase, 11, 1, true),
            (Yields::Erase, 10, 1, false),
            (Yields::Erase, 11, 2, false),
            (Yields::Program, 100, 0, false),
            (Yields::Never, 100, 0, false),
        ] {
            assert_eq!(spec.allows(yields, left_ns, suspensions), is_suspended);
        }
    }
}
