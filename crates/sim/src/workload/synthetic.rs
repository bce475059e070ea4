//! Generated requests: the workloads A–D of the NCQ paper, and any other setting of theirs.
//!
//! Thread k owns one file of `first_file`·2^k, the files lie one after the other from the start
//! of the device. A request belongs to a thread drawn uniformly; its record size is drawn
//! uniformly from the powers of two between `record_min` and `record_max`.

use std::collections::BTreeMap;

use schedlab_model::{Bytes, Nanos, Request, Rng};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Incoming, Real, Source};
use crate::error::{require, within};
use crate::registry::{self, Entry};
use crate::SimError;

/// Where in its file a thread works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Uniform, aligned to the record.
    Random,
    /// After the last request of the thread; from the start again where the record does not fit.
    Sequential,
}

/// The shape of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Arrival {
    /// Independent arrivals.
    Poisson,
    /// `size` requests at once, the groups Poisson with the same mean rate of requests.
    Bursts {
        /// Requests of a group.
        size: u32,
    },
    /// One request every mean inter-arrival time.
    Constant,
    /// `outstanding` requests are always at the device.
    Closed {
        /// Requests outstanding.
        outstanding: u32,
    },
}

/// A generated workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyntheticSpec {
    /// Threads, each with its file.
    pub threads: u32,
    /// Size of the first thread's file; each further file is twice as large.
    pub first_file: Bytes,
    /// Smallest record.
    pub record_min: Bytes,
    /// Largest record.
    pub record_max: Bytes,
    /// Random or sequential.
    pub order: Order,
    /// Share of reads.
    pub read_share: Real,
    /// Share of trims among what is not read.
    #[serde(default = "zero")]
    pub trim_share: Real,
    /// Mean time between two requests.
    pub inter_arrival_ms: Real,
    /// The shape of arrivals.
    pub arrivals: Arrival,
}

fn zero() -> Real {
    Real(0.0)
}

/// A thread's files up to 1 GiB with records of 4 … 512 KiB, as in the paper.
const fn paper(inter_arrival_ms: f64, read_share: f64, order: Order) -> SyntheticSpec {
    SyntheticSpec {
        threads: 12,
        first_file: Bytes(512 << 10),
        record_min: Bytes(4 << 10),
        record_max: Bytes(512 << 10),
        order,
        read_share: Real(read_share),
        trim_share: Real(0.0),
        inter_arrival_ms: Real(inter_arrival_ms),
        arrivals: Arrival::Poisson,
    }
}

/// 4 KiB requests over one file of 1 GiB.
const fn four_kib(read_share: f64, order: Order) -> SyntheticSpec {
    SyntheticSpec {
        threads: 1,
        first_file: Bytes(1 << 30),
        record_max: Bytes(4 << 10),
        ..paper(0.25, read_share, order)
    }
}

/// The workloads that have a name, one line each.
pub const NAMED: &[Entry<SyntheticSpec>] = &[
    (
        "A",
        "random, 2:1, 1.78 ms",
        paper(1.78, 2.0 / 3.0, Order::Random),
    ),
    ("B", "random, 1:1, 1.76 ms", paper(1.76, 0.5, Order::Random)),
    (
        "C",
        "sequential, 2:1, 1.08 ms",
        paper(1.08, 2.0 / 3.0, Order::Sequential),
    ),
    (
        "D",
        "sequential, 1:1, 1.58 ms",
        paper(1.58, 0.5, Order::Sequential),
    ),
    (
        "random4k",
        "4 KiB random, 2:1, 0.25 ms",
        four_kib(2.0 / 3.0, Order::Random),
    ),
    (
        "randread4k",
        "4 KiB random reads, 0.25 ms",
        four_kib(1.0, Order::Random),
    ),
    (
        "randwrite4k",
        "4 KiB random writes, 0.25 ms",
        four_kib(0.0, Order::Random),
    ),
    (
        "sequential4k",
        "4 KiB sequential, 2:1, 0.25 ms",
        four_kib(2.0 / 3.0, Order::Sequential),
    ),
];

impl SyntheticSpec {
    /// The workload of that name, with some keys changed.
    pub fn named(name: &str, changes: BTreeMap<String, Value>) -> Result<Self, SimError> {
        let name = registry::spelled(name, NAMED);
        let (.., spec) = registry::find("workload", name, NAMED, |entry| entry.0)?;
        if changes.is_empty() {
            return Ok(spec.clone());
        }
        let wrong = |error: serde_json::Error| SimError::Workload(error.to_string());
        let mut tree = serde_json::to_value(spec).map_err(wrong)?;
        if let Value::Object(keys) = &mut tree {
            keys.extend(changes);
        }
        serde_json::from_value(tree).map_err(wrong)
    }

    /// Refuses impossible parameters, naming the key and the range.
    pub fn check(&self) -> Result<(), SimError> {
        let size = |key, bytes: Bytes| {
            let fits = bytes.0.is_power_of_two() && bytes.0 >= 512;
            require(fits, key, bytes, "a power of two from 512 B")
        };
        within("workload.threads", self.threads, 1..=32)?;
        size("workload.record_min", self.record_min)?;
        size("workload.record_max", self.record_max)?;
        let (least, most, first) = (self.record_min, self.record_max, self.first_file);
        let expected = format!("at least record_min, {least}");
        require(most >= least, "workload.record_max", most, expected)?;
        let fits = first >= most && first.0 <= 1 << 40;
        let expected = format!("record_max, {most}, to 1 TiB");
        require(fits, "workload.first_file", first, expected)?;
        within("workload.read_share", self.read_share.0, 0.0..=1.0)?;
        within("workload.trim_share", self.trim_share.0, 0.0..=1.0)?;
        let (key, pause) = ("workload.inter_arrival_ms", self.inter_arrival_ms.0);
        let fits = pause > 0.0 && pause <= 1e6;
        require(fits, key, pause, "above 0, at most 1e6")?;
        match self.arrivals {
            Arrival::Bursts { size } => {
                require(size > 0, "workload.arrivals.size", size, "at least 1")
            }
            Arrival::Closed { outstanding } => {
                within("workload.arrivals.outstanding", outstanding, 1..=1_000_000)
            }
            _ => Ok(()),
        }
    }
}

/// The generator of a workload.
///
/// One thread with records of one size draws its places from stream 0 of the seed, as
/// [`schedlab_model::Workload`] does: the same places in the same order as on a simulated disk and
/// in the load on a real device.
pub struct Synthetic {
    spec: SyntheticSpec,
    left: u64,
    next_index: u64,
    now_ns: f64,
    rng: Rng,
    /// Streams for direction and arrival, where places have a separate one.
    apart: Option<(Rng, Rng)>,
    record_sizes: u64,
    cursors: Vec<u64>,
}

impl Synthetic {
    /// `requests` requests of a workload; the same seed gives the same ones.
    pub fn new(spec: SyntheticSpec, requests: u64, seed: u64) -> Result<Self, SimError> {
        spec.check()?;
        let ratio = spec.record_max.0 / spec.record_min.0;
        Ok(Synthetic {
            left: requests,
            next_index: 0,
            now_ns: 0.0,
            rng: Rng::new(seed, 0),
            apart: (spec.threads == 1 && ratio == 1)
                .then(|| (Rng::new(seed, 1), Rng::new(seed, 2))),
            record_sizes: u64::from(ratio.trailing_zeros()) + 1,
            cursors: vec![0; spec.threads as usize],
            spec,
        })
    }

    /// Start and length of the next record.
    fn place(&mut self) -> (u64, u64) {
        let (thread, size) = match self.apart {
            Some(_) => (0, 0),
            None => (
                self.rng.below(u64::from(self.spec.threads)),
                self.rng.below(self.record_sizes),
            ),
        };
        let length = self.spec.record_min.0 << size;
        let file = self.spec.first_file.0 << thread;
        let start = self.spec.first_file.0 * ((1 << thread) - 1);
        let offset = match self.spec.order {
            Order::Random => {
                let bits = self.spec.record_min.0.trailing_zeros() + size as u32;
                self.rng.below(file >> bits) << bits
            }
            Order::Sequential => {
                let cursor = &mut self.cursors[thread as usize];
                let offset = if *cursor + length > file { 0 } else { *cursor };
                *cursor = offset + length;
                offset
            }
        };
        (start + offset, length)
    }

    fn arrive(&mut self) -> u64 {
        let mean_ns = self.spec.inter_arrival_ms.0 * 1e6;
        let rng = match &mut self.apart {
            Some((_, times)) => times,
            None => &mut self.rng,
        };
        match self.spec.arrivals {
            Arrival::Poisson => self.now_ns += rng.exponential(mean_ns),
            Arrival::Constant => self.now_ns += mean_ns,
            Arrival::Closed { .. } => {}
            Arrival::Bursts { size } => {
                if self.next_index % u64::from(size) == 0 {
                    self.now_ns += rng.exponential(mean_ns * f64::from(size));
                }
            }
        }
        self.now_ns as u64
    }
}

impl Source for Synthetic {
    fn next_request(&mut self) -> Result<Option<Incoming>, SimError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let arrival = Nanos(self.arrive());
        self.next_index += 1;
        let (offset, length) = self.place();
        let mix = match &mut self.apart {
            Some((mix, _)) => mix,
            None => &mut self.rng,
        };
        let is_read = mix.unit() < self.spec.read_share.0;
        let trim = !is_read && self.spec.trim_share.0 > 0.0 && mix.unit() < self.spec.trim_share.0;
        let request = Request {
            arrival,
            offset: Bytes(offset),
            length: Bytes(length),
            is_write: !is_read && !trim,
        };
        Ok(Some(Incoming {
            trim,
            ..Incoming::from(request)
        }))
    }

    fn outstanding(&self) -> Option<u32> {
        match self.spec.arrivals {
            Arrival::Closed { outstanding } => Some(outstanding),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use schedlab_model::{Arrivals, Direction, Pattern, Workload};

    #[test]
    fn random_4k_visits_the_places_of_the_common_workload() {
        let common = Workload {
            pattern: Pattern::Random { replacement: true },
            direction: Direction::Read,
            record: Bytes(4096),
            span: Bytes(1 << 30),
            arrivals: Arrivals::Closed { depth: 1 },
            seed: 7,
        };
        for name in ["random4k", "randread4k", "randwrite4k"] {
            let spec = SyntheticSpec::named(name, BTreeMap::new()).unwrap();
            let mut here = Synthetic::new(spec, 500, 7).unwrap();
            for record in &common.order()[..500] {
                let next = here.next_request().unwrap().unwrap();
                assert_eq!(next.request.offset.0, u64::from(*record) * 4096);
            }
        }
    }
}
