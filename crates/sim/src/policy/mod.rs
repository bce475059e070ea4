//! Policies of the command queue: one line in [`POLICIES`], and a file where it keeps a state.
//!
//! FCFS, S, SB, TS and TSB are those of the NCQ paper; IRBW, STB and SITF come from its related
//! work, whose bundle size and timers were not published and are parameters here.

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::registry::{self, Entry};
pub use crate::window::Policy;
use crate::window::{Aging, Command, View, Window};
use crate::workload::Real;
use crate::SimError;

mod irbw;
mod stb;

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

/// How a policy is made.
pub type Make = fn(&PolicySpec) -> Box<dyn Policy>;

/// Every policy by name; TSB is the proposal of the NCQ paper. Where nothing is estimated, nothing
/// is overtaken, and aging has no effect.
#[rustfmt::skip]
pub const POLICIES: &[Entry<Make>] = &[
    ("fcfs", "arrival order", |_| Box::new(Least { in_order: true, ..Least::by(|_, _| 0.0) })),
    ("s", "smallest request first", |_| {
        Box::new(Least::by(|command, _| f64::from(command.pages)))
    }),
    ("sb", "fewest missing pages first", |_| {
        Box::new(Least::by_missing(|command, _| f64::from(command.missing)))
    }),
    ("ts", "least time by type and size", |_| {
        Box::new(Least::by(|c, view| f64::from(c.pages) * view.page_time_ns(c.is_write)))
    }),
    ("tsb", "least time by type, size and buffer", |_| {
        Box::new(Least::by_missing(|c, view| f64::from(c.missing) * view.page_time_ns(c.is_write)))
    }),
    ("irbw-fifo", "reads alone, writes bundled by block, in arrival order", |spec| {
        irbw(spec, false)
    }),
    ("irbw-fifo-rp", "the same, waiting reads before the next bundle", |spec| irbw(spec, true)),
    ("stb", "reads first, time limits, bundles where they pay", |spec| Box::new(stb::Stb {
        bundle: irbw::Bundle::new(spec.bundle_pages),
        bundle_min: spec.bundle_min,
        read_limit_ns: spec.read_limit.0,
        write_limit_ns: spec.write_limit.0,
    })),
    // Missing pages, and in the `parallel` model also how long each plane is busy.
    ("sitf", "shortest service time as the device foresees it", |_| Box::new(Least {
        is_volatile: true,
        ..Least::by(|command, view| view.service_time_ns(command))
    })),
];

fn irbw(spec: &PolicySpec, reads_first: bool) -> Box<dyn Policy> {
    Box::new(irbw::Irbw {
        bundle: irbw::Bundle::new(spec.bundle_pages),
        reads_first,
    })
}

/// The least estimate first.
struct Least<F> {
    estimate: F,
    /// Who came first goes first, whatever the estimate.
    in_order: bool,
    uses_buffer: bool,
    is_volatile: bool,
}

impl<F: Fn(&Command, &dyn View) -> f64> Least<F> {
    fn by(estimate: F) -> Self {
        Least {
            estimate,
            in_order: false,
            uses_buffer: false,
            is_volatile: false,
        }
    }

    fn by_missing(estimate: F) -> Self {
        Least {
            uses_buffer: true,
            ..Least::by(estimate)
        }
    }
}

impl<F: Fn(&Command, &dyn View) -> f64 + Send> Policy for Least<F> {
    fn estimate(&self, command: &Command, view: &dyn View) -> f64 {
        (self.estimate)(command, view)
    }

    fn choose(&mut self, window: &Window, _now_ns: u64) -> usize {
        if self.in_order {
            return 0;
        }
        window.least()
    }

    fn uses_buffer(&self) -> bool {
        self.uses_buffer
    }

    fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    fn is_stateless(&self) -> bool {
        true
    }
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
    pub fn make(&self, registry: &[Entry<Make>]) -> Result<Box<dyn Policy>, SimError> {
        self.check()?;
        let name = registry::spelled(&self.name, registry);
        let (.., make) = registry::find("policy", name, registry, |entry| entry.0)?;
        Ok(make(self))
    }
}
