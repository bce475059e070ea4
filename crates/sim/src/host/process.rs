//! The next record of each process, and when it is due.

use schedlab_model::process::ProcessSpec;
use schedlab_model::{Rng, Schedule, Steps};

use super::request::Op;
use crate::SimError;

/// Stream of the simulation's seed from which the chances of processes to begin are drawn.
const STREAM_STARTS: u64 = 17;

/// The records of one process, in order, and when they are due.
pub(super) struct Records {
    region_sector: u64,
    records: u64,
    record_sectors: u64,
    steps: Steps,
    schedule: Option<Schedule>,
    starts: Rng,
}

impl Records {
    /// Those of process `index` of `count` on a device of so many bytes.
    pub(super) fn new(
        spec: &ProcessSpec,
        (index, count): (usize, usize),
        capacity_bytes: u64,
        seed: u64,
    ) -> Result<Self, SimError> {
        let (placed, workload) = spec.placed((index, count), capacity_bytes, seed)?;
        Ok(Records {
            region_sector: placed.offset.map_or(0, |offset| offset.0) / 512,
            records: workload.records(),
            record_sectors: workload.record.0 / 512,
            steps: Steps::new(&workload, None),
            schedule: Schedule::new(workload.arrivals, workload.seed),
            starts: Rng::new(seed, STREAM_STARTS + 2 * index as u64),
        })
    }

    /// First sector, number of sectors, and what is done to them.
    pub(super) fn draw(&mut self) -> (u64, u64, Op) {
        let step = self.steps.next().expect("steps without a limit never end");
        let sector = self.region_sector + u64::from(step.record) * self.record_sectors;
        let op = if step.is_write { Op::Write } else { Op::Read };
        (sector, self.record_sectors, op)
    }

    /// The sector behind the region.
    pub(super) fn end(&self) -> u64 {
        self.region_sector + self.records * self.record_sectors
    }

    /// Chance, so that the first requests do not fix the order of the processes for ever.
    pub(super) fn start_offset_ns(&mut self, spread_ns: u64) -> u64 {
        self.starts.below(spread_ns.max(1))
    }

    /// The first arrival of an open loop that begins now; nothing for a closed one.
    pub(super) fn begin(&mut self, now_ns: u64) -> Option<u64> {
        let schedule = self.schedule.as_mut()?;
        schedule.begin(now_ns);
        Some(schedule.due())
    }

    /// The arrival after the one that is due.
    pub(super) fn next_arrival_ns(&mut self) -> Option<u64> {
        let schedule = self.schedule.as_mut()?;
        schedule.advance();
        Some(schedule.due())
    }
}
