//! Device files: every parameter of a simulated SSD, its range, and its default.

use std::collections::BTreeMap;

use schedlab_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::devices;
use crate::error::{require, within};
use crate::workload::Real;
use crate::SimError;

/// Most blocks of a plane: the translation layer numbers them in three bytes.
pub(crate) const BLOCKS_MAX: u32 = (1 << 24) - 3;
/// Most pages of a block.
pub(crate) const PAGES_MAX: u32 = u16::MAX as u32;

/// The service model of an SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// One command at a time.
    Serial,
    /// Channels, dies and planes behind a translation layer.
    #[default]
    Parallel,
}

impl Service {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Service::Serial => "serial",
            Service::Parallel => "parallel",
        }
    }
}

/// One device file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Short name.
    pub name: String,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Which service model an emulated device runs by itself; a simulation names its own.
    #[serde(default)]
    pub service: Option<Service>,
    /// Geometry and times.
    pub flash: FlashSpec,
    /// The page buffer.
    pub buffer: BufferSpec,
    /// The command queue.
    pub queue: QueueSpec,
    /// The translation layer; only `parallel` has one.
    #[serde(default)]
    pub ftl: FtlSpec,
    /// The device's processor, in `parallel`.
    #[serde(default)]
    pub controller: ControllerSpec,
    /// The link to the host, in `parallel`.
    #[serde(default)]
    pub link: LinkSpec,
    /// Programs and erasures that reads interrupt, in `parallel`.
    #[serde(default)]
    pub suspend: SuspendSpec,
    /// How the description was found, for people and for predictions.
    #[serde(default, skip_serializing)]
    pub fit: serde::de::IgnoredAny,
}

/// Geometry and times of the flash.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Buses to the packages.
    pub channels: u32,
    /// Packages on each bus.
    pub packages_per_channel: u32,
    /// Dies of a package.
    pub dies_per_package: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Bytes of a page.
    pub page: Bytes,
    /// Reading one page into the plane's register.
    pub page_read: Nanos,
    /// Programming one page from the plane's register.
    pub page_write: Nanos,
    /// Erasing one block.
    pub block_erase: Nanos,
    /// Moving one page over the channel.
    #[serde(default)]
    pub page_transfer: Nanos,
}

/// Which pages the buffer keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeps {
    /// Pages that were read and pages that were written.
    #[default]
    ReadWrite,
    /// Only pages that were written.
    WriteOnly,
}

/// The page buffer: least recently used goes first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSpec {
    /// Its size; 0 is no buffer.
    pub size: Bytes,
    /// Which pages it keeps.
    #[serde(default)]
    pub keeps: Keeps,
    /// Time of a page between buffer and link, in `parallel`.
    #[serde(default)]
    pub page_time: Nanos,
}

/// The command queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands that the device holds and orders.
    pub depth: u32,
}

/// How garbage collection chooses its victim block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collect {
    /// The block with the fewest valid pages.
    #[default]
    Greedy,
    /// The block that was filled first.
    Fifo,
    /// The largest age·(1−u)/2u (Kawaguchi, Nishioka and Motoda, 1995).
    CostBenefit,
}

/// The state of the flash before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// Erased.
    #[default]
    None,
    /// Full, with valid pages per block as uniform random writes leave them in the long run.
    Formula,
    /// Full, then overwritten once at random through the translation layer.
    Write,
}

/// The translation layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FtlSpec {
    /// Flash beyond what the host sees, as a share of what the host sees.
    pub over_provisioning: Real,
    /// `dynamic` (least busy plane) or an order of c, w, d, p: which of channel, way (package),
    /// die and plane changes first with the logical page number.
    pub allocation: String,
    /// How victims of garbage collection are chosen.
    pub collect: Collect,
    /// Collection begins when a plane has fewer free blocks. If absent: 4, or 1/64 of the plane's
    /// spare blocks where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_blocks_low: Option<u32>,
    /// Collection ends when a plane has so many free blocks. If absent: one more, or 1/256 of the
    /// spare blocks more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_blocks_high: Option<u32>,
    /// The state before the first request.
    pub precondition: Precondition,
    /// Commands in service at the same time.
    pub in_flight: u32,
}

impl Default for FtlSpec {
    fn default() -> Self {
        FtlSpec {
            over_provisioning: Real(0.07),
            allocation: "cwdp".into(),
            collect: Collect::Greedy,
            free_blocks_low: None,
            free_blocks_high: None,
            precondition: Precondition::None,
            in_flight: 64,
        }
    }
}

/// The processor of the device: every command needs it twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerSpec {
    /// Commands that it handles at the same time.
    pub cores: u32,
    /// Time for a command when it comes.
    pub command: Nanos,
    /// Time for its completion.
    pub completion: Nanos,
}

impl Default for ControllerSpec {
    fn default() -> Self {
        ControllerSpec {
            cores: 2,
            command: Nanos(1_000),
            completion: Nanos(500),
        }
    }
}

/// The link to the host; both directions work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// Speed of each direction; 0 takes no time.
    pub bytes_per_s: Real,
    /// Added to every transfer.
    pub latency: Nanos,
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            bytes_per_s: Real(3.2e9),
            latency: Nanos(1_000),
        }
    }
}

impl ControllerSpec {
    fn check(&self) -> Result<(), SimError> {
        within("controller.cores", self.cores, 1..=1024)
    }
}

impl LinkSpec {
    fn check(&self) -> Result<(), SimError> {
        let speed = self.bytes_per_s.0;
        let fits = speed == 0.0 || (1e3..=1e15).contains(&speed);
        require(fits, "link.bytes_per_s", speed, "0, or 1e3 to 1e15")
    }
}

/// Programs and erasures that reads interrupt (Wu and He, "Reducing SSD read latency via NAND
/// flash program and erase suspension", FAST 2012). Host reads then go before waiting programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuspendSpec {
    /// Whether programs, also those that move pages, can be suspended.
    pub program: bool,
    /// Whether erasures can be suspended.
    pub erase: bool,
    /// Time from the arrival of the read until the die is free for it.
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

impl FlashSpec {
    /// Planes of the whole device.
    pub fn planes(&self) -> u32 {
        self.channels * self.packages_per_channel * self.dies_per_package * self.planes_per_die
    }

    /// Pages of the whole device.
    pub fn pages(&self) -> u64 {
        u64::from(self.planes())
            * u64::from(self.blocks_per_plane)
            * u64::from(self.pages_per_block)
    }

    /// Reading or programming a page, without its transfer, in ns.
    #[inline]
    pub(crate) fn cells_ns(&self, is_write: bool) -> u64 {
        match is_write {
            true => self.page_write.0,
            false => self.page_read.0,
        }
    }

    fn check(&self) -> Result<(), SimError> {
        let counts = [
            ("flash.channels", self.channels),
            ("flash.packages_per_channel", self.packages_per_channel),
            ("flash.dies_per_package", self.dies_per_package),
            ("flash.planes_per_die", self.planes_per_die),
            ("flash.blocks_per_plane", self.blocks_per_plane),
            ("flash.pages_per_block", self.pages_per_block),
        ];
        let mut pages: u64 = 1;
        for (key, count) in counts {
            let most = match key {
                "flash.pages_per_block" => PAGES_MAX,
                _ => BLOCKS_MAX,
            };
            within(key, count, 1..=most)?;
            pages = pages.saturating_mul(u64::from(count));
        }
        let found = format!("{pages} pages");
        require(pages <= 1 << 31, "flash", found, "at most 2^31 pages")?;
        let fits = (512..=1 << 20).contains(&self.page.0);
        require(fits, "flash.page", self.page, "512 B to 1 MiB")
    }
}

impl DeviceSpec {
    /// A shipped device with some keys changed (`buffer.size`, `flash.channels`, …).
    pub fn shipped(name: &str, changes: &BTreeMap<String, Value>) -> Result<Self, SimError> {
        Self::from_toml(name, devices::shipped(name)?, changes)
    }

    /// The same from the text of a device file; `place` is where it comes from, for errors.
    pub fn from_toml(
        place: &str,
        text: &str,
        changes: &BTreeMap<String, Value>,
    ) -> Result<Self, SimError> {
        let wrong = |error| SimError::file(place, error);
        let tree = devices::changed(text, changes).map_err(wrong)?;
        let sections = [
            "flash",
            "buffer",
            "queue",
            "ftl",
            "controller",
            "link",
            "suspend",
        ];
        serde_json::from_value(tree.clone()).map_err(|error| {
            // The reader of values does not report in which table it was.
            let broken = sections
                .iter()
                .find(|section| !section_reads(section, &tree));
            SimError::file(place, format!("[{}] {error}", broken.unwrap_or(&"top")))
        })
    }

    /// Free blocks of a plane below which collection begins, and those at which it ends.
    pub fn free_blocks(&self) -> (u32, u32) {
        let share = self.ftl.over_provisioning.0;
        let spare = f64::from(self.flash.blocks_per_plane) * share / (1.0 + share);
        let low = self
            .ftl
            .free_blocks_low
            .unwrap_or((spare / 64.0).max(4.0) as u32);
        let more = (spare / 256.0).max(1.0) as u32;
        let high = self
            .ftl
            .free_blocks_high
            .unwrap_or(low.saturating_add(more));
        (low, high)
    }

    /// Pages of the buffer.
    pub fn buffer_pages(&self) -> u32 {
        (self.buffer.size.0 / self.flash.page.0) as u32
    }

    /// Refuses impossible parameters, naming the key and the range.
    pub fn check(&self) -> Result<(), SimError> {
        self.flash.check()?;
        self.controller.check()?;
        self.link.check()?;
        for (key, time) in [
            ("flash.page_read", self.flash.page_read),
            ("flash.page_write", self.flash.page_write),
            ("flash.block_erase", self.flash.block_erase),
            ("flash.page_transfer", self.flash.page_transfer),
            ("suspend.cost", self.suspend.cost),
            ("suspend.resume", self.suspend.resume),
            ("suspend.least", self.suspend.least),
            ("buffer.page_time", self.buffer.page_time),
            ("controller.command", self.controller.command),
            ("controller.completion", self.controller.completion),
            ("link.latency", self.link.latency),
        ] {
            let found = format!("{} ns", time.0);
            require(time.0 <= 1_000_000_000, key, found, "at most 1 s")?;
        }
        let bytes = self.flash.pages() * self.flash.page.0;
        let (size, expected) = (self.buffer.size, Bytes(bytes));
        let expected = format!("0 to the device's size, {expected}");
        require(size.0 <= bytes, "buffer.size", size, expected)?;
        within("queue.depth", self.queue.depth, 1..=65_536)
    }
}

/// Whether this table of a device file can be read on its own.
fn section_reads(section: &str, tree: &Value) -> bool {
    let Some(value) = tree.get(section).cloned() else {
        return !matches!(section, "flash" | "buffer" | "queue");
    };
    match section {
        "flash" => serde_json::from_value::<FlashSpec>(value).is_ok(),
        "buffer" => serde_json::from_value::<BufferSpec>(value).is_ok(),
        "queue" => serde_json::from_value::<QueueSpec>(value).is_ok(),
        "controller" => serde_json::from_value::<ControllerSpec>(value).is_ok(),
        "link" => serde_json::from_value::<LinkSpec>(value).is_ok(),
        "suspend" => serde_json::from_value::<SuspendSpec>(value).is_ok(),
        _ => serde_json::from_value::<FtlSpec>(value).is_ok(),
    }
}
