//! One queue of bfq: the requests of a process, its place in the fair queue, its history.

use super::super::order::{Requests, Seeks, ThinkTime};
use super::super::request::{Class, Id, IoContext};

/// The weight of best effort at level 4, the only one that is ever raised.
pub(super) const COMMON_WEIGHT: u64 = 40;

/// The place of a queue in the fair queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Standing {
    #[default]
    Off,
    Active,
    InService,
    /// Without requests, but ahead of the virtual time.
    Idle,
}

/// Why a queue's slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    TooIdle,
    Timeout,
    Exhausted,
    NoMore,
    Preempted,
}

/// Why a queue's weight is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Raised {
    #[default]
    No,
    Interactive,
    SoftRealtime,
}

/// Times are ns, service is in sectors, virtual times are sectors per weight, shifted.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) context: IoContext,
    pub(super) is_sync: bool,
    pub(super) requests: Requests,
    pub(super) in_flight: usize,

    pub(super) standing: Standing,
    pub(super) start: u64,
    pub(super) finish: u64,
    pub(super) weight: u64,
    pub(super) budget: u64,
    pub(super) service: u64,
    pub(super) max_budget: u64,
    /// Busy: it has requests, or is in service.
    pub(super) is_busy: bool,
    /// It counts among the weights of busy queues with this one.
    pub(super) counted: Option<u64>,

    pub(super) fifo_checked: bool,
    /// The request that is next because it had waited too long.
    pub(super) late: Option<Id>,
    pub(super) waits: bool,
    /// It expired while waiting for its next request.
    pub(super) was_waiting: bool,
    pub(super) timeout_ns: Option<u64>,
    pub(super) last_end_ns: Option<u64>,

    pub(super) seeks: Seeks,
    pub(super) think: ThinkTime,
    pub(super) short_think: bool,
    pub(super) io_bound: bool,
    pub(super) window_start_ns: u64,
    pub(super) idle_ns: u64,

    pub(super) created_ns: u64,
    pub(super) just_created: bool,
    /// First service since it was idle, if it has had any.
    pub(super) first_service_ns: u64,
    pub(super) in_large_burst: bool,

    pub(super) raised: Raised,
    pub(super) raised_ns: u64,
    pub(super) raised_for_ns: u64,
    pub(super) raised_service: u64,
    pub(super) interactive_since_ns: Option<u64>,
    pub(super) soft_next_ns: Option<u64>,
    pub(super) backlogged_ns: u64,
    pub(super) backlogged_service: u64,
    pub(super) soft_update: bool,

    /// The queue that took its process over.
    pub(super) merged_into: Option<u32>,
    /// Candidate for a stable merge.
    pub(super) stable_with: Option<u32>,
    pub(super) is_shared: bool,
    pub(super) is_stable: bool,

    pub(super) inject_limit: usize,
    pub(super) inject_base_ns: u64,
    pub(super) inject_since_ns: u64,
    pub(super) waker: Option<u32>,
    pub(super) tentative_waker: Option<(u32, u32)>,
    pub(super) woken: Option<u32>,
}

impl Queue {
    pub(super) fn new(context: IoContext, is_sync: bool, now_ns: u64, max_budget: u64) -> Self {
        Queue {
            context,
            is_sync,
            max_budget: max_budget * 2 / 3,
            seeks: Seeks::after_a_seek(),
            short_think: is_sync && context.class != Class::Idle,
            io_bound: true,
            window_start_ns: now_ns,
            created_ns: now_ns,
            just_created: is_sync,
            raised_ns: now_ns,
            backlogged_ns: now_ns,
            inject_since_ns: now_ns,
            ..Self::default()
        }
    }

    /// Weight without raising.
    pub(super) fn own_weight(&self) -> u64 {
        match self.context.weight {
            0 => (8 - u64::from(self.context.level)) * 10,
            weight => u64::from(weight),
        }
    }

    /// By how much the weight is raised.
    pub(super) fn coefficient(&self) -> u64 {
        match self.raised {
            Raised::No => 1,
            Raised::Interactive => 30,
            Raised::SoftRealtime => 3000,
        }
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raised != Raised::No
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count() > 19
    }

    pub(super) fn budget_left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    pub(super) fn class(&self) -> usize {
        self.context.class.index()
    }
}
