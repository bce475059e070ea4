//! Which record comes next, and whether it is read or written: the orders of [`Pattern`] as a
//! generator that neither allocates nor asks the kernel. For the same seed the load engine and the
//! simulators visit the same places; a simulated disk draws mix and arrivals from other streams.

use crate::{Direction, Pattern, Rng, Workload};

/// Stream of the workload's seed; the orders use stream 0, the arrivals stream 1.
const STREAM_MIX: u64 = 2;

/// Draws records, without end or the requested number.
pub struct Steps {
    order: Order,
    mix: Mix,
    records: u32,
    left: u64,
}

enum Order {
    Sequential { next: u32 },
    Reverse { next: u32 },
    Stride { step: u64, next: u64, phase: u64 },
    Table { order: Vec<u32>, next: usize },
    Draw(Rng),
    Same,
}

enum Mix {
    Fixed { write: bool },
    Random { read_percent: u64, rng: Rng },
}

/// One record to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the record.
    pub record: u32,
    /// Write or read.
    pub is_write: bool,
}

impl Steps {
    /// The steps of a checked workload; they end after `limit`, if there is one.
    pub fn new(workload: &Workload, limit: Option<u64>) -> Steps {
        Steps::mixed_by(workload, limit, STREAM_MIX)
    }

    /// The same with the directions from that stream of the seed.
    pub fn mixed_by(workload: &Workload, limit: Option<u64>, stream: u64) -> Steps {
        let records = workload.records() as u32;
        let order = match workload.pattern {
            Pattern::Sequential => Order::Sequential { next: 0 },
            Pattern::Reverse => Order::Reverse { next: records - 1 },
            Pattern::Stride { records: step } => Order::Stride {
                step: step.min(u64::from(records)),
                next: 0,
                phase: 0,
            },
            Pattern::Random { replacement: false } => Order::Table {
                order: workload.order(),
                next: 0,
            },
            Pattern::Random { replacement: true } => Order::Draw(Rng::new(workload.seed, 0)),
            Pattern::Same => Order::Same,
        };
        let mix = match workload.direction {
            Direction::Read => Mix::Fixed { write: false },
            Direction::Write => Mix::Fixed { write: true },
            Direction::Mixed { read_percent } => Mix::Random {
                read_percent: u64::from(read_percent),
                rng: Rng::new(workload.seed, stream),
            },
        };
        Steps {
            order,
            mix,
            records,
            left: limit.unwrap_or(u64::MAX),
        }
    }

    /// Lets so many steps more be drawn, from where the order stands.
    pub fn allow(&mut self, more: u64) {
        self.left = more;
    }

    /// The next step; nothing after the pass.
    #[inline]
    #[allow(clippy::should_implement_trait)] // an iterator's adapters have no place in a hot loop
    pub fn next(&mut self) -> Option<Step> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let is_write = match &mut self.mix {
            Mix::Fixed { write } => *write,
            Mix::Random { read_percent, rng } => rng.below(100) >= *read_percent,
        };
        Some(Step {
            record: self.order.next(self.records),
            is_write,
        })
    }
}

impl Order {
    #[inline]
    fn next(&mut self, records: u32) -> u32 {
        match self {
            Order::Sequential { next } => {
                let record = *next;
                *next = if record + 1 == records { 0 } else { record + 1 };
                record
            }
            Order::Reverse { next } => {
                let record = *next;
                *next = if record == 0 { records - 1 } else { record - 1 };
                record
            }
            Order::Stride { step, next, phase } => {
                let record = *next;
                *next += *step;
                if *next >= u64::from(records) {
                    *phase = if *phase + 1 == *step { 0 } else { *phase + 1 };
                    *next = *phase;
                }
                record as u32
            }
            Order::Table { order, next } => {
                let record = order[*next];
                *next = if *next + 1 == order.len() {
                    0
                } else {
                    *next + 1
                };
                record
            }
            Order::Draw(rng) => rng.below(u64::from(records)) as u32,
            Order::Same => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Bytes};

    fn workload(pattern: Pattern, direction: Direction) -> Workload {
        Workload {
            pattern,
            direction,
            record: Bytes(512),
            span: Bytes(512 * 101),
            arrivals: Arrivals::Closed { depth: 1 },
            seed: 7,
        }
    }

    fn drawn(steps: &mut Steps, count: usize) -> Vec<u32> {
        (0..count)
            .map_while(|_| steps.next().map(|step| step.record))
            .collect()
    }

    #[test]
    fn steps_follow_the_order_of_the_model_and_begin_anew() {
        for pattern in [
            Pattern::Sequential,
            Pattern::Reverse,
            Pattern::Random { replacement: false },
            Pattern::Random { replacement: true },
            Pattern::Stride { records: 17 },
            Pattern::Stride { records: 500 },
            Pattern::Same,
        ] {
            let workload = workload(pattern, Direction::Read);
            let order = workload.order();
            let mut pass = Steps::new(&workload, Some(101));
            assert_eq!(drawn(&mut pass, 1000), order, "{pattern:?}");
            let mut endless = Steps::new(&workload, None);
            assert_eq!(drawn(&mut endless, 101), order);
            if pattern != (Pattern::Random { replacement: true }) {
                assert_eq!(drawn(&mut endless, 101), order, "{pattern:?}");
            }
        }
    }

    #[test]
    fn what_a_request_does_does_not_tell_where_it_goes() {
        let direction = Direction::Mixed { read_percent: 50 };
        let pattern = Pattern::Random { replacement: true };
        let mut steps = Steps::new(&workload(pattern, direction), None);
        let steps = (0..10_000).map_while(|_| steps.next());
        let agree = steps.filter(|step| step.is_write == (step.record > 50));
        let agree = agree.count() as i32;
        assert!((agree - 5000).abs() < 250, "{agree}");
    }

    #[test]
    fn a_mix_has_its_share_of_reads() {
        let direction = Direction::Mixed { read_percent: 70 };
        let mut steps = Steps::new(&workload(Pattern::Sequential, direction), None);
        let reads = (0..100_000)
            .filter(|_| !steps.next().unwrap().is_write)
            .count() as f64;
        // Five standard deviations of a binomial count.
        assert!((reads - 70_000.0).abs() < 5.0 * 145.0, "{reads}");
    }
}
