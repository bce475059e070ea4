//! One queue of cfq, and the group that it belongs to.

use super::super::order::{Requests, Seeks, ThinkTime};
use super::super::{Class, IoContext};

/// The trees of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Kind {
    Async,
    /// Sync, and not waited for one by one.
    SyncNoIdle,
    #[default]
    Sync,
}

/// Times are ns.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) context: IoContext,
    pub(super) is_sync: bool,
    pub(super) group: u32,
    pub(super) requests: Requests,
    pub(super) in_flight: usize,
    pub(super) is_busy: bool,
    /// Its place among those that wait for a slice.
    pub(super) key: i64,
    /// The rest of its slice, or, below 0, what it took too much.
    pub(super) residual_ns: i64,
    /// Nothing until its first completion.
    pub(super) slice_end_ns: Option<u64>,
    pub(super) active_since_ns: u64,
    pub(super) slice_dispatched: u64,
    pub(super) fifo_checked: bool,
    pub(super) waits: bool,
    pub(super) idle_window: bool,
    pub(super) is_deep: bool,
    pub(super) seeks: Seeks,
    pub(super) think: ThinkTime,
    pub(super) last_end_ns: Option<u64>,
    pub(super) merged_into: Option<u32>,
}

impl Queue {
    pub(super) fn new(context: IoContext, is_sync: bool, group: u32) -> Self {
        Queue {
            context,
            is_sync,
            group,
            idle_window: is_sync && context.class != Class::Idle,
            ..Self::default()
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match (self.is_sync, self.idle_window) {
            (false, _) => Kind::Async,
            (true, false) => Kind::SyncNoIdle,
            (true, true) => Kind::Sync,
        }
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count() > 4
    }

    /// Requests of an async slice.
    pub(super) fn most_async(&self, slice_async_rq: u64) -> u64 {
        2 * slice_async_rq * (8 - u64::from(self.context.level))
    }
}

/// Queues that share a weight.
pub(super) struct Group {
    pub(super) weight: u64,
    /// Time used, by weight.
    pub(super) time: u64,
    /// Busy queues of each class, as an average.
    pub(super) average: [u64; 3],
}

impl Group {
    pub(super) fn new(weight: u16) -> Self {
        Group {
            weight: u64::from(weight),
            time: 0,
            average: [0; 3],
        }
    }
}
