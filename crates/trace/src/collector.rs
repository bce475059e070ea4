//! Bursts as they come out of a ring, added up per task and kept one by one within a limit.

use std::collections::BTreeMap;

use schedlab_model::Histogram;
use serde::Serialize;

/// One stay on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Monotonic time of its end.
    pub end_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// Thread id.
    pub task: u32,
    /// Whether the task could have gone on.
    pub preempted: bool,
    /// What the scheduler knew of it; only BPF sees that.
    pub scheduling: Option<Scheduling>,
}

/// A task as its scheduler saw it at the end of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// Where it ran.
    pub cpu: u16,
    /// When it was woken or forked for this burst; 0 where it had been preempted.
    pub woken_ns: u64,
    /// `SCHED_*` of sched.h.
    pub policy: u8,
    /// −20 … 19.
    pub nice: i8,
    /// The slice that EEVDF gives it; 0 before Linux 6.6.
    pub slice_ns: u32,
}

/// All bursts of one task together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TaskBursts {
    /// Thread id.
    pub task: u32,
    /// How many.
    pub bursts: u64,
    /// Their sum.
    pub total_ns: u64,
    /// How many ended by preemption.
    pub preempted: u64,
    /// Bursts whose beginning was not traced: BPF takes the CPU time charged as their length, perf
    /// knows none and adds nothing to `total_ns` and `histogram`.
    pub untraced_starts: u64,
    /// Rows (low_ns, high_ns, count): 64 bins per octave, or one per octave where records of
    /// single bursts were lost.
    pub histogram: Vec<(u64, u64, u64)>,
}

/// What a source has gathered.
#[derive(Default)]
pub(crate) struct Collected {
    pub tasks: Vec<TaskBursts>,
    pub records: Vec<Burst>,
    pub lost: u64,
}

/// Takes bursts one by one.
pub(crate) struct Collector {
    tasks: BTreeMap<u32, (TaskBursts, Histogram)>,
    records: Vec<Burst>,
    records_max: usize,
    unkept: u64,
}

impl Collector {
    pub fn new(records_max: usize) -> Self {
        Collector {
            tasks: BTreeMap::new(),
            records: Vec::new(),
            records_max,
            unkept: 0,
        }
    }

    fn task(&mut self, task: u32) -> &mut (TaskBursts, Histogram) {
        self.tasks.entry(task).or_insert_with(|| {
            let totals = TaskBursts {
                task,
                ..TaskBursts::default()
            };
            (totals, Histogram::new())
        })
    }

    /// A burst of which only the end was traced.
    pub fn add_untraced(&mut self, task: u32, preempted: bool) {
        let (task, _) = self.task(task);
        task.bursts += 1;
        task.untraced_starts += 1;
        task.preempted += u64::from(preempted);
    }

    pub fn add(&mut self, burst: Burst) {
        let (task, histogram) = self.task(burst.task);
        task.bursts += 1;
        task.total_ns += burst.duration_ns;
        task.preempted += u64::from(burst.preempted);
        histogram.record(burst.duration_ns);
        if self.records.len() < self.records_max {
            self.records.push(burst);
        } else {
            self.unkept += 1;
        }
    }

    /// Everything, with `lost` records that never arrived.
    pub fn finish(self, lost: u64) -> Collected {
        let tasks = self.tasks.into_values().map(|(mut task, histogram)| {
            task.histogram = histogram.bins().map(|b| (b.low, b.high, b.count)).collect();
            task
        });
        Collected {
            tasks: tasks.collect(),
            records: self.records,
            lost: lost + self.unkept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_beyond_the_limit_are_added_up_and_counted_as_lost() {
        let mut collector = Collector::new(2);
        for i in 1..=5 {
            collector.add(Burst {
                end_ns: i * 100,
                duration_ns: i,
                task: 7,
                preempted: i % 2 == 0,
                scheduling: None,
            });
        }
        collector.add_untraced(7, true);
        collector.add_untraced(9, false);
        let collected = collector.finish(3);
        let bursts = collected.tasks.iter().map(|of| (of.task, of.bursts));
        assert_eq!(bursts.collect::<Vec<_>>(), [(7, 6), (9, 1)]);
        assert_eq!((collected.records.len(), collected.lost), (2, 6));
        let task = &collected.tasks[0];
        assert_eq!((task.bursts, task.total_ns, task.preempted), (6, 15, 3));
        assert_eq!(task.untraced_starts, 1);
        assert_eq!(task.histogram.iter().map(|r| r.2).sum::<u64>(), 5);
    }
}
