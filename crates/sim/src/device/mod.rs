//! Devices: what a simulated device offers to the command queue, and the shipped device files.
//!
//! `serial` is one server (what the numbers of the NCQ paper imply), `parallel` a whole SSD.

mod buffer;
mod dies;
mod front;
mod page_index;
mod parallel;
mod serial;
mod suspend;

pub use buffer::{Buffer, Evicted, Touch};
pub use parallel::Parallel;
pub use serial::Serial;

use crate::ftl::FtlUsage;
pub use crate::spec::{
    BufferSpec, Collect, ControllerSpec, DeviceSpec, FlashSpec, FtlSpec, Keeps, LinkSpec,
    Precondition, QueueSpec, SuspendSpec,
};
use crate::window::Command;
pub use crate::window::View;

/// How many requests are drawn from the source at once.
pub const BATCH: usize = 32;

/// A device that serves commands in simulated time.
pub trait Device: View {
    /// Bytes of a page.
    fn page_bytes(&self) -> u64;

    /// Pages that the host can address.
    fn pages(&self) -> u32;

    /// Brings the entries that at most [`BATCH`] commands will need for their first pages into the
    /// cache of the processor.
    fn prefetch(&self, commands: &[Command]);

    /// Whether a command can be dispatched now.
    fn is_ready(&self) -> bool;

    /// Begins to serve a command; one that costs nothing goes to `completions` at once.
    fn start(&mut self, now_ns: u64, command: &Command, completions: &mut Vec<Command>);

    /// When the next thing happens inside the device.
    fn next_time_ns(&self) -> Option<u64>;

    /// Lets that thing happen; what is completed by it goes to `completions`.
    fn advance(&mut self, completions: &mut Vec<Command>);

    /// The same for all that happens before `end_ns` and ends no command, up to the first thing
    /// that may end one; gives when that happened, if it did.
    fn pass(&mut self, _end_ns: u64, _completions: &mut Vec<Command>) -> Option<u64> {
        None
    }

    /// Runs of pages (end excluded) that came into the buffer or left it in the last `start`.
    fn changed(&self) -> &[(u32, u32)];

    /// Whether `advance` changes the buffer too, and `changed` returns the changes.
    fn changes_later(&self) -> bool {
        false
    }

    /// Whether it is written to and not yet what it will be under this load: its buffer was never
    /// full, or its flash was erased and no block was collected.
    fn is_cold(&self) -> bool {
        false
    }

    /// The counters so far.
    fn usage(&self) -> Usage;
}

/// Counters of a device, for the report.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Usage {
    /// Sum of all service times by server, in ns: one for `serial`, one per die for `parallel`.
    pub busy_ns: Vec<u64>,
    /// The same per channel; empty for `serial`.
    pub channel_busy_ns: Vec<u64>,
    /// Pages read by the host, and those of them found in the buffer.
    pub read_pages: u64,
    /// See `read_pages`.
    pub read_hits: u64,
    /// Pages written by the host, and those of them found in the buffer.
    pub write_pages: u64,
    /// See `write_pages`.
    pub write_hits: u64,
    /// Counters of the translation layer; `serial` has none.
    pub ftl: Option<FtlUsage>,
    /// How often an operation was suspended; nothing where none can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspensions: Option<u64>,
}

impl Usage {
    /// Keeps the events since `before` was counted.
    pub fn subtract(&mut self, before: &Usage) {
        for (now, before) in self.busy_ns.iter_mut().zip(&before.busy_ns) {
            *now -= before;
        }
        for (now, before) in self.channel_busy_ns.iter_mut().zip(&before.channel_busy_ns) {
            *now -= before;
        }
        self.read_pages -= before.read_pages;
        self.read_hits -= before.read_hits;
        self.write_pages -= before.write_pages;
        self.write_hits -= before.write_hits;
        if let (Some(now), Some(before)) = (&mut self.ftl, &before.ftl) {
            now.subtract(before);
        }
        if let (Some(now), Some(before)) = (&mut self.suspensions, before.suspensions) {
            *now -= before;
        }
    }
}
