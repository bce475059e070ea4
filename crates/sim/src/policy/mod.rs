//! Policies of the command queue: one file each and one line in [`POLICIES`].
//!
//! FCFS, S, SB, TS and TSB are those of the NCQ paper; IRBW, STB and SITF come from its related
//! work, whose bundle size and timers were not published and are parameters here.

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::device::View;
use crate::engine::{Aging, Command, Window};
use crate::error::require;
use crate::workload::Real;
use crate::SimError;

mod fcfs;
mod irbw;
mod s;
mod sb;
mod sitf;
mod stb;
mod ts;
mod tsb;

/// Which waiting command is dispatched next.
pub trait Policy: Send {
    /// The time T that the command is taken to need, in ns; the least α^n·T goes first.
    fn estimate(&self, command: &Command, view: &dyn View) -> f64;

    /// Whether `estimate` reads [`Command::missing`]; it is then kept up to date.
    fn uses_buffer(&self) -> bool {
        false
    }

    /// Whether `estimate` changes while a command waits for other reasons than the buffer.
    fn is_volatile(&self) -> bool {
        false
    }

    /// Whether a command that is alone in the window can be dispatched without being asked about.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Position in the window of the command to dispatch; the window is never empty.
    fn choose(&mut self, window: &Window, _now_ns: u64) -> usize {
        window.least()
    }

    /// The same for a policy that may fail, because it is not ours.
    fn select(
        &mut self,
        window: &Window,
        now_ns: u64,
        _view: &dyn View,
    ) -> Result<usize, SimError> {
        Ok(self.choose(window, now_ns))
    }

    /// Whether estimates come from [`Policy::estimate_together`], once for all commands that need
    /// one, instead of one by one.
    fn estimates_together(&self) -> bool {
        false
    }

    /// The estimates of these commands, in their order.
    fn estimate_together(
        &mut self,
        commands: &[Command],
        _now_ns: u64,
        view: &dyn View,
    ) -> Result<Vec<f64>, SimError> {
        Ok(commands.iter().map(|c| self.estimate(c, view)).collect())
    }
}

/// A policy and its parameters, as configured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// A name of [`POLICIES`].
    pub name: String,
    /// Aging weight, 0 < α ≤ 1; 1 is no aging.
    pub alpha: Real,
    /// The event that ages a command.
    pub aging: Aging,
    /// Writes within one aligned range of so many pages are bundled (IRBW, STB). Default: a block.
    pub bundle_pages: u32,
    /// A read that waited longer goes first (STB).
    pub read_limit: Nanos,
    /// A write that waited longer goes first (STB).
    pub write_limit: Nanos,
    /// Writes are bundled only where at least so many wait for one range (STB).
    pub bundle_min: u32,
}

impl Default for PolicySpec {
    fn default() -> Self {
        PolicySpec {
            name: "fcfs".into(),
            alpha: Real(0.9),
            aging: Aging::default(),
            bundle_pages: 64,
            read_limit: Nanos(50_000_000),
            write_limit: Nanos(500_000_000),
            bundle_min: 2,
        }
    }
}

/// A line of the registry: name, what it does, how it is made.
pub type Entry = (
    &'static str,
    &'static str,
    fn(&PolicySpec) -> Box<dyn Policy>,
);

/// Every policy by name.
pub const POLICIES: &[Entry] = &[
    ("fcfs", "arrival order", |_| Box::new(fcfs::Fcfs)),
    ("s", "smallest request first", |_| Box::new(s::S)),
    ("sb", "fewest missing pages first", |_| Box::new(sb::Sb)),
    ("ts", "least time by type and size", |_| Box::new(ts::Ts)),
    ("tsb", "least time by type, size and buffer", |_| {
        Box::new(tsb::Tsb)
    }),
    (
        "irbw-fifo",
        "reads alone, writes bundled by block, in arrival order",
        |spec| irbw(spec, false),
    ),
    (
        "irbw-fifo-rp",
        "the same, waiting reads before the next bundle",
        |spec| irbw(spec, true),
    ),
    (
        "stb",
        "reads first, time limits, bundles where they pay",
        |spec| {
            Box::new(stb::Stb {
                bundle: irbw::Bundle::new(spec.bundle_pages),
                bundle_min: spec.bundle_min,
                read_limit_ns: spec.read_limit.0,
                write_limit_ns: spec.write_limit.0,
            })
        },
    ),
    (
        "sitf",
        "shortest service time as the device foresees it",
        |_| Box::new(sitf::Sitf),
    ),
];

fn irbw(spec: &PolicySpec, reads_first: bool) -> Box<dyn Policy> {
    Box::new(irbw::Irbw {
        bundle: irbw::Bundle::new(spec.bundle_pages),
        reads_first,
    })
}

impl PolicySpec {
    /// Refuses impossible parameters, naming the key.
    pub fn check(&self) -> Result<(), SimError> {
        let alpha = self.alpha.0;
        let fits = alpha > 0.0 && alpha <= 1.0;
        require(fits, "alpha", alpha, "a number above 0 and at most 1")?;
        require(self.bundle_pages > 0, "bundle_pages", 0, "at least 1")?;
        require(self.bundle_min > 0, "bundle_min", 0, "at least 1")
    }

    /// The policy of this name in `registry`.
    pub fn make(&self, registry: &[Entry]) -> Result<Box<dyn Policy>, SimError> {
        self.check()?;
        let name = self.name.to_ascii_lowercase();
        let entry = registry.iter().find(|(known, _, _)| *known == name);
        let known = registry.iter().map(|(known, _, _)| *known);
        let (_, _, make) = entry.ok_or_else(|| SimError::unknown("policy", &self.name, known))?;
        Ok(make(self))
    }
}
