//! Programs and erasures that give way to reads, as often and as late as the device file allows.

use crate::spec::SuspendSpec;

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
    use schedlab_model::Nanos;

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
