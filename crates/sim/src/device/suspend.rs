//! A plane whose programs and erasures give way to reads: reads go first, and one that meets a
//! program or an erasure in service suspends it, as often and as late as the device file allows.

use std::collections::VecDeque;

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

use super::stations::NONE;

/// Programs and erasures that reads interrupt (Wu and He, "Reducing SSD read latency via NAND
/// flash program and erase suspension", FAST 2012). Host reads then go before waiting programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuspendSpec {
    /// Whether programs, also those that move pages, can be suspended.
    pub program: bool,
    /// Whether erasures can be suspended.
    pub erase: bool,
    /// Time from the arrival of the read until the plane is free for it.
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
}

/// What a plane can do with an operation that is in service when a read comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Yields {
    /// It is a read.
    Never,
    /// It is a program.
    Program,
    /// It is an erasure.
    Erase,
}

/// An operation in service or suspended.
#[derive(Clone, Copy)]
struct Served {
    slot: u32,
    yields: Yields,
    /// End in service, or the time left while suspended.
    time_ns: u64,
    suspensions: u32,
}

/// One plane: what waits, what is in service, what is suspended.
#[derive(Default)]
struct PlaneQueue {
    reads: VecDeque<Waiting>,
    others: VecDeque<Waiting>,
    /// In service; nothing while the plane is idle or suspends an operation.
    served: Option<Served>,
    suspended: Option<Served>,
    is_suspending: bool,
    /// Events of an earlier generation are void: their operation was suspended.
    generation: u32,
}

#[derive(Clone, Copy)]
struct Waiting {
    slot: u32,
    plane_ns: u64,
    yields: Yields,
}

/// The planes of a device with suspension.
pub(super) struct Suspension {
    spec: SuspendSpec,
    planes: Vec<PlaneQueue>,
    /// How often an operation was suspended.
    pub(super) count: u64,
}

/// What a plane does next: how long, until an event of this generation.
pub(super) struct Next {
    pub(super) time_ns: u64,
    pub(super) generation: u32,
}

impl Suspension {
    pub(super) fn new(spec: SuspendSpec, planes: u32) -> Self {
        Suspension {
            spec,
            planes: (0..planes).map(|_| PlaneQueue::default()).collect(),
            count: 0,
        }
    }

    /// Time that one suspension costs the plane.
    pub(super) fn overhead_ns(&self) -> u64 {
        self.spec.cost.0 + self.spec.resume.0
    }

    /// An operation comes; gives what the plane starts with it, if anything.
    pub(super) fn arrive(
        &mut self,
        now_ns: u64,
        plane: u32,
        slot: u32,
        plane_ns: u64,
        yields: Yields,
    ) -> Option<Next> {
        let queue = &mut self.planes[plane as usize];
        let waiting = Waiting {
            slot,
            plane_ns,
            yields,
        };
        let is_read = yields == Yields::Never;
        if is_read {
            queue.reads.push_back(waiting);
        } else {
            queue.others.push_back(waiting);
        }
        let Some(served) = queue.served else {
            // While it suspends an operation the plane is not idle.
            return if queue.is_suspending {
                None
            } else {
                self.next(now_ns, plane)
            };
        };
        let may = match served.yields {
            Yields::Never => false,
            Yields::Program => self.spec.program,
            Yields::Erase => self.spec.erase,
        };
        let left_ns = served.time_ns - now_ns;
        let is_worth = left_ns > self.spec.least.0 && served.suspensions < self.spec.limit;
        if !(is_read && may && is_worth) {
            return None;
        }
        self.count += 1;
        queue.served = None;
        queue.is_suspending = true;
        queue.generation = queue.generation.wrapping_add(1);
        queue.suspended = Some(Served {
            time_ns: left_ns,
            suspensions: served.suspensions + 1,
            ..served
        });
        Some(Next {
            time_ns: self.spec.cost.0,
            generation: queue.generation,
        })
    }

    /// The event of a plane: gives the operation that ended, or `NONE` if the event only ended a
    /// suspending, and nothing if it is void.
    pub(super) fn ended(&mut self, plane: u32, generation: u32) -> Option<u32> {
        let queue = &mut self.planes[plane as usize];
        if queue.generation != generation {
            return None;
        }
        if std::mem::take(&mut queue.is_suspending) {
            return Some(NONE);
        }
        queue.served.take().map(|served| served.slot)
    }

    /// What a plane without an operation in service does next: a read, what it suspended, or what
    /// came first of the others.
    pub(super) fn next(&mut self, now_ns: u64, plane: u32) -> Option<Next> {
        let queue = &mut self.planes[plane as usize];
        debug_assert!(queue.served.is_none() && !queue.is_suspending);
        let (served, time_ns) = if let Some(read) = queue.reads.pop_front() {
            (Served::of(read), read.plane_ns)
        } else if let Some(suspended) = queue.suspended.take() {
            (suspended, self.spec.resume.0 + suspended.time_ns)
        } else {
            let other = queue.others.pop_front()?;
            (Served::of(other), other.plane_ns)
        };
        queue.served = Some(Served {
            time_ns: now_ns + time_ns,
            ..served
        });
        Some(Next {
            time_ns,
            generation: queue.generation,
        })
    }
}

impl Served {
    fn of(waiting: Waiting) -> Self {
        Served {
            slot: waiting.slot,
            yields: waiting.yields,
            time_ns: 0,
            suspensions: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A program of 100 from time 0 on, cost 5, resume 7, a read of 20 at 30 and one of 10 at 40:
    /// reads at 35–55 and 55–65, the rest of 70 resumes at 65 and ends at 142.
    #[test]
    fn a_suspended_program_by_hand() {
        let spec = SuspendSpec {
            program: true,
            cost: Nanos(5),
            resume: Nanos(7),
            least: Nanos(10),
            limit: 1,
            ..SuspendSpec::default()
        };
        let mut planes = Suspension::new(spec, 1);
        let first = planes.arrive(0, 0, 1, 100, Yields::Program).unwrap();
        assert_eq!(first.time_ns, 100);
        let pause = planes.arrive(30, 0, 2, 20, Yields::Never).unwrap();
        assert_eq!(pause.time_ns, 5);
        assert!(planes.ended(0, first.generation).is_none(), "void");
        assert_eq!(planes.ended(0, pause.generation), Some(NONE));
        let read = planes.next(35, 0).unwrap();
        assert_eq!(read.time_ns, 20);
        assert!(planes.arrive(40, 0, 3, 10, Yields::Never).is_none());
        assert_eq!(planes.ended(0, read.generation), Some(2));
        let read = planes.next(55, 0).unwrap();
        assert_eq!(planes.ended(0, read.generation), Some(3));
        let rest = planes.next(65, 0).unwrap();
        assert_eq!(rest.time_ns, 77);
        // The limit is 1: this read waits for the end.
        assert!(planes.arrive(70, 0, 4, 20, Yields::Never).is_none());
        assert_eq!(planes.ended(0, rest.generation), Some(1));
        assert_eq!(planes.next(142, 0).unwrap().time_ns, 20);
        assert_eq!(planes.count, 1);
    }

    #[test]
    fn the_end_of_an_operation_is_not_suspended_nor_what_may_not_be() {
        let spec = SuspendSpec {
            erase: true,
            least: Nanos(10),
            ..SuspendSpec::default()
        };
        for (yields, at_ns, is_suspended) in [
            (Yields::Erase, 89, true),
            (Yields::Erase, 90, false),
            (Yields::Program, 0, false),
            (Yields::Never, 0, false),
        ] {
            let mut planes = Suspension::new(spec, 1);
            planes.arrive(0, 0, 1, 100, yields);
            let next = planes.arrive(at_ns, 0, 2, 20, Yields::Never);
            assert_eq!(next.is_some(), is_suspended);
        }
    }
}
