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
#[derive(Clone, Default)]
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
    pub(super) last_end_ns: u64,

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
    pub(super) is_shared: bool,
    /// It is shared and seeks: its processes leave it with their next requests.
    pub(super) splits: bool,
    pub(super) split_ns: Option<u64>,

    pub(super) inject_limit: usize,
    pub(super) inject_base_ns: u64,
    pub(super) inject_since_ns: u64,
    pub(super) waker: Option<u32>,
    pub(super) tentative: Tentative,
    /// Queues that it wakes, the one that was busy last at the end.
    pub(super) woken: Vec<u32>,
}

/// A process, whatever queue it uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    /// Its requests, in the device too.
    pub(super) held: u32,
    /// The queue of a process that was created together with it.
    pub(super) stable_with: Option<u32>,
    /// It stays with those that were created together with it.
    pub(super) is_stable: bool,
    /// Its own queue, as that was when it was merged.
    pub(super) saved: Option<Saved>,
}

/// The state of a queue that its process takes along when it leaves a shared one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    think: ThinkTime,
    last_end_ns: u64,
    short_think: bool,
    io_bound: bool,
    window_start_ns: u64,
    idle_ns: u64,
    in_large_burst: bool,
    raised: Raised,
    raised_ns: u64,
    raised_for_ns: u64,
    raised_service: u64,
    interactive_since_ns: Option<u64>,
    inject_limit: usize,
    inject_base_ns: u64,
    inject_since_ns: u64,
}

/// A queue whose completions seem to wake another's process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tentative {
    pub(super) waker: Option<u32>,
    pub(super) times: u32,
    pub(super) since_ns: u64,
}

impl Queue {
    /// Made at this time, which is in this tick.
    pub(super) fn new(
        context: IoContext,
        is_sync: bool,
        now_ns: u64,
        tick_ns: u64,
        max_budget: u64,
    ) -> Self {
        let mut queue = Queue {
            context,
            is_sync,
            max_budget: max_budget * 2 / 3,
            // In the future: the first pause is as long as any can be.
            last_end_ns: now_ns + 1,
            seeks: Seeks::after_a_seek(),
            short_think: is_sync && context.class != Class::Idle,
            io_bound: true,
            window_start_ns: now_ns,
            created_ns: tick_ns,
            just_created: is_sync,
            raised_ns: tick_ns,
            backlogged_ns: tick_ns,
            inject_since_ns: tick_ns,
            soft_next_ns: Some(tick_ns),
            ..Self::default()
        };
        queue.weight = queue.own_weight();
        queue
    }

    /// Its state, for its process.
    pub(super) fn saved(&self) -> Saved {
        Saved {
            think: self.think,
            last_end_ns: self.last_end_ns,
            short_think: self.short_think,
            io_bound: self.io_bound,
            window_start_ns: self.window_start_ns,
            idle_ns: self.idle_ns,
            in_large_burst: self.in_large_burst,
            raised: self.raised,
            raised_ns: self.raised_ns,
            raised_for_ns: self.raised_for_ns,
            raised_service: self.raised_service,
            interactive_since_ns: self.interactive_since_ns,
            inject_limit: self.inject_limit,
            inject_base_ns: self.inject_base_ns,
            inject_since_ns: self.inject_since_ns,
        }
    }

    /// A new queue that goes on from there.
    pub(super) fn resumed(self, saved: &Saved, tick_ns: u64) -> Self {
        let is_over = tick_ns > saved.raised_ns + saved.raised_for_ns;
        let raised = match saved.raised {
            Raised::SoftRealtime if is_over && !saved.in_large_burst => Raised::Interactive,
            _ if is_over || saved.in_large_burst => Raised::No,
            raised => raised,
        };
        Queue {
            think: saved.think,
            last_end_ns: saved.last_end_ns,
            short_think: saved.short_think,
            io_bound: saved.io_bound,
            window_start_ns: saved.window_start_ns,
            idle_ns: saved.idle_ns,
            in_large_burst: saved.in_large_burst,
            raised,
            raised_ns: saved.raised_ns,
            raised_for_ns: saved.raised_for_ns,
            raised_service: saved.raised_service,
            interactive_since_ns: saved.interactive_since_ns,
            inject_limit: saved.inject_limit,
            inject_base_ns: saved.inject_base_ns,
            inject_since_ns: saved.inject_since_ns,
            ..self
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

    /// A soft real-time queue that got no service has its raise go on for as long.
    pub(super) fn postpone_end_of_soft(&mut self, now_ns: u64) {
        let since_ns = self.timeout_ns.unwrap_or(0);
        if self.raised == Raised::SoftRealtime && now_ns > self.raised_ns && now_ns > since_ns {
            self.raised_ns = match since_ns > self.raised_ns {
                true => self.raised_ns + (now_ns - since_ns),
                false => now_ns,
            };
        }
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
