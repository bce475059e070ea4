//! The run-queue source: loads `runqueue.bpf.c`, names the tasks of each class, reads the sums.

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::{failed, in_first_pid_namespace, load, map, open, words, Aligned};
use crate::runqueue::Waits;

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/runqueue.bpf.o")));

const BUCKETS: usize = 40;
/// Words of `struct totals`: three pairs, two histograms.
const WORDS: usize = 6 + 2 * BUCKETS;

/// The loaded and attached programs.
pub(crate) struct RunQueue {
    object: Object,
    links: Vec<Link>,
}

impl RunQueue {
    /// Loads, names the tasks (class, thread id) and attaches.
    pub(crate) fn start(tasks: &[(u32, i32)]) -> Result<Self, String> {
        in_first_pid_namespace()?;
        let object = load(open(PROGRAM)?)?;
        let known = map(&object, "tasks")?;
        for (class, pid) in tasks {
            let mut fresh = [0u8; 16];
            fresh[8..12].copy_from_slice(&class.to_ne_bytes());
            known
                .update(&pid.to_ne_bytes(), &fresh, MapFlags::ANY)
                .map_err(failed("name the tasks"))?;
        }
        let mut running = RunQueue {
            object,
            links: Vec::new(),
        };
        for program in running.object.progs_mut() {
            let link = program.attach().map_err(failed("attach"))?;
            running.links.push(link);
        }
        Ok(running)
    }

    /// Detaches and gives the sums of the first `classes` classes: (after a wake-up, after a
    /// preemption) of each, and how many forked tasks were not followed.
    pub(crate) fn finish(mut self, classes: u32) -> Result<(Vec<[Waits; 2]>, u64), String> {
        self.links.clear();
        let totals = map(&self.object, "totals")?;
        let read = |class: u32| {
            let value = totals.lookup(&class.to_ne_bytes(), MapFlags::ANY);
            let value = value.map_err(failed("read the sums"))?;
            let sums = words::<WORDS>(&value.unwrap_or_default());
            Ok([0, 1].map(|why| waits(&sums, why)))
        };
        let waits_by_class = (0..classes).map(read).collect::<Result<_, String>>()?;
        let lost = map(&self.object, "lost")?;
        let lost = lost.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let lost = lost.map_err(failed("read the sums"))?.unwrap_or_default();
        Ok((waits_by_class, words::<1>(&lost)[0]))
    }
}

fn waits(sums: &[u64; WORDS], why: usize) -> Waits {
    let first = 6 + why * BUCKETS;
    let occupied = sums[first..first + BUCKETS].iter().enumerate();
    Waits {
        waits: sums[why],
        sum_ns: sums[2 + why],
        max_ns: sums[4 + why],
        histogram: occupied
            .filter(|(_, n)| **n > 0)
            .map(|(k, n)| (1u64 << k, (2u64 << k) - 1, *n))
            .collect(),
    }
}
