//! The flash behind the translation layer, by the unit that works on its own.

use super::dies::Dies;
use super::stations::Stations;
use super::{DeviceSpec, Unit};
use crate::ftl::{Ftl, GcWork};

/// Planes that work on their own, or dies.
pub(super) enum Flash {
    Planes { stations: Stations, each: u32 },
    Dies(Dies),
}

impl Flash {
    pub(super) fn new(spec: &DeviceSpec) -> Self {
        match spec.flash.unit {
            Unit::Plane => Flash::Planes {
                stations: Stations::new(spec),
                each: spec.flash.planes_per_die,
            },
            Unit::Die => Flash::Dies(Dies::new(spec)),
        }
    }

    /// When each plane will have done what it was given, not counting waits for the channel.
    pub(super) fn busy_until_ns(&self) -> &[u64] {
        match self {
            Flash::Planes { stations, .. } => &stations.busy_until_ns,
            Flash::Dies(dies) => &dies.busy_until_ns,
        }
    }

    /// Reads a page of a plane; `waiter` learns when it is done.
    #[inline]
    pub(super) fn read(&mut self, now_ns: u64, plane: u32, waiter: u32) {
        match self {
            Flash::Planes { stations, .. } => stations.page(now_ns, plane, false, waiter),
            Flash::Dies(dies) => dies.page(now_ns, plane, false, waiter),
        }
    }

    /// Programs a page that the translation layer has written to a plane, where `work` is to be
    /// done; `waiter` learns when it is done.
    #[inline]
    pub(super) fn program(
        &mut self,
        now_ns: u64,
        plane: u32,
        (ftl, work): (&Ftl, GcWork),
        waiter: u32,
    ) {
        match self {
            Flash::Planes { stations, .. } => {
                if work.erased > 0 {
                    stations.collect(now_ns, plane, &work);
                }
                stations.page(now_ns, plane, true, waiter);
            }
            Flash::Dies(dies) => {
                if work.erased > 0 {
                    dies.collect(plane, ftl.victims());
                }
                dies.set_free_blocks(plane, ftl.free_blocks(plane));
                dies.page(now_ns, plane, true, waiter);
            }
        }
    }

    /// When the next stage of an operation ends.
    #[inline]
    pub(super) fn next_time_ns(&self) -> Option<u64> {
        match self {
            Flash::Planes { stations, .. } => stations.next_time_ns(),
            Flash::Dies(dies) => dies.next_time_ns(),
        }
    }

    /// Ends that stage; gives the time and who waits for the operation, if that was its last one.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<(u64, u32)> {
        match self {
            Flash::Planes { stations, .. } => stations.advance(),
            Flash::Dies(dies) => dies.advance(),
        }
    }

    /// Ends the stages that end before `end_ns`, up to the first for which somebody waits; gives
    /// the last of them. Planes that work on their own have few stages.
    #[inline]
    pub(super) fn pass(&mut self, end_ns: u64) -> Option<(u64, u32)> {
        match self {
            Flash::Planes { .. } => None,
            Flash::Dies(dies) => dies.pass(end_ns),
        }
    }

    /// Busy time of each die: where planes work on their own, the mean over them.
    pub(super) fn die_busy_ns(&self) -> Vec<u64> {
        match self {
            Flash::Planes { stations, each } => stations.plane_busy_ns(*each),
            Flash::Dies(dies) => dies.die_busy_ns(),
        }
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        match self {
            Flash::Planes { stations, .. } => stations.channel_busy_ns(),
            Flash::Dies(dies) => dies.channel_busy_ns(),
        }
    }

    /// How often an operation was suspended; nothing where none can be.
    pub(super) fn suspensions(&self) -> Option<u64> {
        match self {
            Flash::Planes { .. } => None,
            Flash::Dies(dies) => dies.suspensions(),
        }
    }
}
