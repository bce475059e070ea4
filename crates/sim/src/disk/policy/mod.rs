//! The order of the command queue: one line for each policy, and a file where it keeps a state.

mod scan;
mod sptf;

use schedlab_model::Request;

use super::geometry::Place;
use crate::registry::{self, Entry};
use crate::SimError;

/// How a policy is made.
pub type Make = fn() -> Box<dyn HeadPolicy>;

/// All policies. `sstf` starves what is far while work is near; `clook` treats the middle and the
/// edges of the disk alike.
pub const POLICIES: &[Entry<Make>] = &[
    ("fcfs", "first come, first served", || Box::new(By(|_| 0))),
    ("sstf", "shortest seek time first", || Box::new(By(nearest))),
    ("scan", "elevator from edge to edge", scan::build),
    ("clook", "upwards only, back to the lowest request", || {
        Box::new(By(upwards))
    }),
    (
        "sptf",
        "shortest positioning time first, with a bound of age",
        sptf::build,
    ),
];

/// A new instance of the policy of that name.
pub(super) fn find(name: &str) -> Result<Box<dyn HeadPolicy>, SimError> {
    let (.., build) = registry::find("policy", name, POLICIES, |entry| entry.0)?;
    Ok(build())
}

/// A command in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// The number that it was submitted with.
    pub tag: u64,
    /// As the host sent it.
    pub request: Request,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Place of the first sector.
    pub place: Place,
    /// When the policy could choose it for the first time, ns.
    pub queued_ns: u64,
}

/// The facts that a policy may look at.
pub struct View<'a> {
    /// Now, ns.
    pub now_ns: u64,
    /// Where the head is.
    pub head: Place,
    /// Last cylinder of the disk.
    pub last_cylinder: u32,
    /// The queue in the order of arrival; never empty.
    pub queue: &'a [Queued],
    /// Time until the command's first sector can be transferred, ns.
    pub positioning_ns: &'a dyn Fn(&Queued) -> u64,
}

/// The decision: which command, and over which edge of the disk the arm goes there, if over one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Position in the queue.
    pub index: usize,
    /// Cylinder that is visited before.
    pub via: Option<u32>,
}

impl Choice {
    /// The arm goes there directly.
    fn direct(index: usize) -> Self {
        Choice { index, via: None }
    }
}

/// A policy of the command queue. Equal keys: who came first.
pub trait HeadPolicy {
    /// The next command.
    fn choose(&mut self, view: &View) -> Choice;
}

/// Position of the smallest key among the commands that have one.
fn smallest(view: &View, key: impl Fn(&Queued) -> Option<u64>) -> Option<usize> {
    let keyed = view.queue.iter().enumerate();
    let keyed = keyed.filter_map(|(i, queued)| key(queued).map(|key| (key, i)));
    keyed.min().map(|(_, i)| i)
}

/// A policy without a state: position of the command that goes next.
struct By(fn(&View) -> usize);

impl HeadPolicy for By {
    fn choose(&mut self, view: &View) -> Choice {
        Choice::direct(self.0(view))
    }
}

/// The nearest cylinder.
fn nearest(view: &View) -> usize {
    let here = view.head.cylinder;
    smallest(view, |q| Some(u64::from(q.place.cylinder.abs_diff(here)))).unwrap_or(0)
}

/// The next cylinder upwards; from the last command in one seek to the lowest.
fn upwards(view: &View) -> usize {
    let here = view.head.cylinder;
    let ahead = smallest(view, |queued| {
        queued.place.cylinder.checked_sub(here).map(u64::from)
    });
    let lowest = || smallest(view, |queued| Some(u64::from(queued.place.cylinder)));
    ahead.or_else(lowest).unwrap_or(0)
}
