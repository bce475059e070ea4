//! A die, its planes and a channel: what each does, and what waits for it.

use std::collections::VecDeque;

use crate::ftl::Victim;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Program,
    /// The two halves of moving a page.
    MoveOut,
    MoveIn,
    Erase,
}

#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) plane: u32,
    /// Slot of the command that waits for it.
    pub(super) waiter: u32,
}

/// An operation of the flash cells, in service or suspended.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) operation: Operation,
    /// End in service, or the time left while suspended.
    pub(super) time_ns: u64,
    pub(super) suspensions: u32,
}

/// Where the page is that collection moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moving {
    /// On the way to the controller, or from it.
    Under,
    /// In the controller.
    Held,
}

#[derive(Default)]
pub(super) struct Die {
    pub(super) reads: VecDeque<Operation>,
    pub(super) programs: VecDeque<Operation>,
    /// A program whose page is in the register, or on the way to it.
    pub(super) loaded: Option<Operation>,
    pub(super) is_loading: bool,
    pub(super) served: Option<Served>,
    pub(super) suspended: Option<Served>,
    pub(super) is_suspending: bool,
    /// Events of the cells of an earlier generation are void: their operation was suspended.
    pub(super) generation: u32,
    /// The time that reads in a row took of the cells while a program waited.
    pub(super) passed_ns: u64,
    /// The plane whose page is being moved.
    pub(super) moving: Option<(u32, Moving)>,
    /// Moves and erasures since the last program of the host.
    pub(super) steps_since: u64,
    pub(super) busy_ns: u64,
}

impl Die {
    /// No read waits, and nothing gave way to one.
    #[inline]
    pub(super) fn is_undisturbed(&self) -> bool {
        self.reads.is_empty() && self.suspended.is_none()
    }
}

#[derive(Default)]
pub(super) struct Plane {
    /// The page register holds a page.
    pub(super) is_taken: bool,
    /// Blocks that wait to be collected, the first one in work.
    pub(super) victims: VecDeque<Victim>,
    /// Moves and erasures to do.
    pub(super) steps: u64,
    /// Blocks that are free in the tables.
    pub(super) free_blocks: i64,
    /// Of these, blocks that the steps to do have not made free yet.
    pub(super) owed_blocks: i64,
}

#[derive(Default)]
pub(super) struct Channel {
    /// The first one is in service.
    pub(super) queue: VecDeque<Operation>,
    pub(super) busy_ns: u64,
}
