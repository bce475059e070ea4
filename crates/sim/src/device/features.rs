//! What newer SSDs add to flash and queue, each off unless the device file has it: suspended
//! programs and erasures, host queues with weights, a mapping that is cached only in part, and
//! several write streams.

use schedlab_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::SimError;

/// Programs and erasures that reads interrupt (Wu and He, "Reducing SSD read latency via NAND
/// flash program and erase suspension", FAST 2012). Host reads then go before waiting programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuspendSpec {
    /// Whether programs, also those that move pages, can be suspended.
    pub program: bool,
    /// Whether erasures can be suspended.
    pub erase: bool,
    /// Time from the arrival of the read until the plane is free for it.
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

impl SuspendSpec {
    /// Whether anything can be suspended.
    pub fn is_on(&self) -> bool {
        (self.program || self.erase) && self.limit > 0
    }
}

/// A mapping of which only some entries are in memory; the others are in translation pages in the
/// flash (Gupta, Kim and Urgaonkar, "DFTL", ASPLOS 2009).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapSpec {
    /// Memory for entries.
    pub cache: Bytes,
    /// Bytes of an entry in memory.
    #[serde(default = "entry_bytes")]
    pub entry: u32,
    /// Entries of a translation page.
    #[serde(default = "entries_per_page")]
    pub per_page: u32,
}

fn entry_bytes() -> u32 {
    8
}

fn entries_per_page() -> u32 {
    512
}

/// What decides the stream of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamBy {
    /// The volume of the trace, modulo the number of streams.
    #[default]
    Volume,
    /// The host queue, modulo the number of streams.
    Queue,
    /// The request's size: one page, up to 3, up to 7, …; the last stream takes what is longer.
    Size,
    /// The time since the page was written last: up to `hot_window`, four times that, …; the last
    /// stream takes the others, and what is written for the first time.
    Recency,
}

/// Writes kept apart in separate blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamsSpec {
    /// Streams, each with a block that is being filled in every plane.
    pub number: u32,
    /// What decides the stream of a write.
    pub by: StreamBy,
    /// See [`StreamBy::Recency`].
    pub hot_window: Nanos,
}

impl Default for StreamsSpec {
    fn default() -> Self {
        StreamsSpec {
            number: 1,
            by: StreamBy::default(),
            hot_window: Nanos(1_000_000_000),
        }
    }
}

/// Order in which the device fetches from host queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arbitration {
    /// Each queue in turn.
    #[default]
    Rr,
    /// Urgent queues first; the others by weight.
    Wrr,
}

/// Class of a host queue under `wrr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Before all others.
    Urgent,
    /// First in a round.
    High,
    /// After `high` in a round.
    #[default]
    Medium,
    /// Last in a round.
    Low,
}

/// Which requests a host queue takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueFrom {
    /// Those of every n-th volume of the trace.
    Volume,
    /// Those of every n-th thread of the workload.
    Thread,
    /// Those of one n-th of the address range.
    #[default]
    Share,
}

/// One `[[host_queue]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostQueueSpec {
    /// Its name in the result.
    pub name: String,
    /// Commands of a round under `wrr`.
    #[serde(default = "one")]
    pub weight: u32,
    /// Its class under `wrr`.
    #[serde(default)]
    pub class: Class,
    /// Entries; what finds them full waits at the host, in the same order.
    #[serde(default = "entries")]
    pub depth: u32,
    /// Which requests it takes; the same for all queues.
    #[serde(default)]
    pub from: QueueFrom,
}

fn one() -> u32 {
    1
}

fn entries() -> u32 {
    1024
}

impl MapSpec {
    pub(super) fn check(&self) -> Result<(), SimError> {
        let entry = u64::from(self.entry);
        require(
            (1..=64).contains(&self.entry),
            "map.entry",
            self.entry,
            "1 to 64 bytes",
        )?;
        let per_page = 1..=1 << 16;
        require(
            per_page.contains(&self.per_page),
            "map.per_page",
            self.per_page,
            "1 to 65536",
        )?;
        let expected = "at least one entry";
        require(self.cache.0 >= entry, "map.cache", self.cache, expected)
    }
}

impl StreamsSpec {
    pub(super) fn check(&self) -> Result<(), SimError> {
        require(
            (1..=16).contains(&self.number),
            "streams.number",
            self.number,
            "1 to 16",
        )?;
        let window = self.hot_window.0;
        require(window > 0, "streams.hot_window", window, "more than 0")
    }
}

/// Refuses host queues that cannot be served.
pub(super) fn check_queues(queues: &[HostQueueSpec]) -> Result<(), SimError> {
    require(
        queues.len() <= 256,
        "host_queue",
        queues.len(),
        "at most 256 queues",
    )?;
    for (i, queue) in queues.iter().enumerate() {
        let key = |name| format!("host_queue.{i}.{name}");
        let weight = queue.weight;
        require(
            (1..=256).contains(&weight),
            key("weight"),
            weight,
            "1 to 256",
        )?;
        require(
            (1..=65_536).contains(&queue.depth),
            key("depth"),
            queue.depth,
            "1 to 65536",
        )?;
        let is_new = queues[..i].iter().all(|other| other.name != queue.name);
        require(is_new, key("name"), &queue.name, "a unique name")?;
        let is_same = queue.from == queues[0].from;
        let expected = "the same for every host queue";
        require(is_same, key("from"), format!("{:?}", queue.from), expected)?;
    }
    Ok(())
}
