//! The work of a device, described once for the kernel and for the simulator.

use serde::{Deserialize, Serialize};

use crate::error::DescriptionError;
use crate::{Bytes, Nanos, Rng};

/// The order in which records are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Pattern {
    /// From the first record to the last.
    Sequential,
    /// From the last record to the first.
    Reverse,
    /// Random order: every record once (`replacement = false`, as IOzone does), or independent
    /// draws (as fio does with `norandommap`).
    Random {
        /// Whether a record may come again before all others came.
        #[serde(default)]
        replacement: bool,
    },
    /// Every n-th record, then the next phase, until all were touched (IOzone: 17).
    Stride {
        /// Distance of two neighbours, in records.
        records: u64,
    },
    /// The same record again and again.
    Same,
}

/// Reads, writes, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Direction {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Each request is a read with this probability.
    Mixed {
        /// Reads per hundred requests.
        read_percent: u8,
    },
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Arrivals {
    /// Closed loop: `depth` requests are always outstanding.
    Closed {
        /// Requests in flight.
        depth: u32,
    },
    /// Open loop: independent arrivals at this mean rate.
    Poisson {
        /// Requests per second.
        rate_per_s: f64,
    },
    /// Open loop: one request every 1/rate seconds.
    Constant {
        /// Requests per second.
        rate_per_s: f64,
    },
}

/// One stream of equal records over one file or device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Order of the records.
    pub pattern: Pattern,
    /// Reads or writes.
    pub direction: Direction,
    /// Bytes per request.
    pub record: Bytes,
    /// Bytes of the file or device that are used, from its start.
    pub span: Bytes,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// Fixes order, mix and arrivals.
    pub seed: u64,
}

/// One request of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the host issued it.
    pub arrival: Nanos,
    /// First byte.
    pub offset: Bytes,
    /// Bytes.
    pub length: Bytes,
    /// Write or read.
    pub is_write: bool,
}

impl Workload {
    /// How many whole records the span holds.
    pub fn records(&self) -> u64 {
        self.span.0.checked_div(self.record.0).unwrap_or(0)
    }

    /// Refuses what cannot be carried out, naming the key.
    pub fn check(&self) -> Result<(), DescriptionError> {
        let refuse = |key: &str, value: String, expected: &str| {
            Err(DescriptionError::range(key, value, expected))
        };
        if self.record.0 == 0 {
            return refuse("record", self.record.to_string(), "at least 1 byte");
        }
        if self.records() == 0 {
            return refuse("span", self.span.to_string(), "at least one record");
        }
        if self.records() > u64::from(u32::MAX) {
            return refuse(
                "span",
                self.span.to_string(),
                "at most 4,294,967,295 records",
            );
        }
        match self.arrivals {
            Arrivals::Closed { depth: 0 } => {
                return refuse("depth", "0".into(), "at least 1");
            }
            Arrivals::Poisson { rate_per_s } | Arrivals::Constant { rate_per_s }
                if !(rate_per_s.is_finite() && rate_per_s > 0.0) =>
            {
                return refuse("rate_per_s", rate_per_s.to_string(), "a positive number");
            }
            _ => {}
        }
        if let Pattern::Stride { records: 0 } = self.pattern {
            return refuse("stride", "0".into(), "at least 1 record");
        }
        if let Direction::Mixed {
            read_percent: 101..,
        } = self.direction
        {
            return refuse("read_percent", "above 100".into(), "0 to 100");
        }
        Ok(())
    }

    /// Record numbers in the order in which one pass touches them; for draws with replacement,
    /// as many draws as there are records.
    pub fn order(&self) -> Vec<u32> {
        let n = self.records() as u32;
        match self.pattern {
            Pattern::Sequential => (0..n).collect(),
            Pattern::Reverse => (0..n).rev().collect(),
            Pattern::Random { replacement: false } => Rng::new(self.seed, 0).permutation(n),
            Pattern::Random { replacement: true } => {
                let mut rng = Rng::new(self.seed, 0);
                (0..n).map(|_| rng.below(u64::from(n)) as u32).collect()
            }
            Pattern::Stride { records } => {
                let step = records.min(u64::from(n)) as usize;
                (0..step as u32)
                    .flat_map(|phase| (phase..n).step_by(step))
                    .collect()
            }
            Pattern::Same => vec![0; n as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(pattern: Pattern) -> Workload {
        Workload {
            pattern,
            direction: Direction::Read,
            record: Bytes(4096),
            span: Bytes(4096 * 100),
            arrivals: Arrivals::Closed { depth: 1 },
            seed: 1,
        }
    }

    #[test]
    fn every_order_without_replacement_touches_each_record_once() {
        let all: Vec<u32> = (0..100).collect();
        for pattern in [
            Pattern::Sequential,
            Pattern::Reverse,
            Pattern::Random { replacement: false },
            Pattern::Stride { records: 17 },
        ] {
            let mut order = workload(pattern).order();
            order.sort_unstable();
            assert_eq!(order, all, "{pattern:?}");
        }
    }

    #[test]
    fn a_stride_of_17_skips_16_records() {
        let order = workload(Pattern::Stride { records: 17 }).order();
        assert_eq!(order[..7], [0, 17, 34, 51, 68, 85, 1]);
    }

    #[test]
    fn impossible_workloads_name_their_key() {
        let mut broken = workload(Pattern::Sequential);
        broken.record = Bytes(0);
        assert!(broken
            .check()
            .unwrap_err()
            .to_string()
            .starts_with("record"));
        broken = workload(Pattern::Sequential);
        broken.span = Bytes(100);
        assert!(broken.check().unwrap_err().to_string().starts_with("span"));
        broken = workload(Pattern::Sequential);
        broken.arrivals = Arrivals::Poisson {
            rate_per_s: f64::NAN,
        };
        assert!(broken
            .check()
            .unwrap_err()
            .to_string()
            .starts_with("rate_per_s"));
        let key = |workload: &Workload| match workload.check().unwrap_err() {
            DescriptionError::OutOfRange { key, .. } => key,
            other => panic!("{other}"),
        };
        for rate_per_s in [0.0, -1.0, f64::INFINITY] {
            broken.arrivals = Arrivals::Constant { rate_per_s };
            assert_eq!(key(&broken), "rate_per_s");
        }
        broken = workload(Pattern::Stride { records: 0 });
        assert_eq!(key(&broken), "stride");
        // A record has a number of 32 bits.
        broken = workload(Pattern::Sequential);
        (broken.record, broken.span) = (Bytes(1), Bytes(1 << 32));
        assert_eq!(key(&broken), "span");
        broken.span.0 -= 1;
        assert_eq!(broken.check(), Ok(()));
    }
}
