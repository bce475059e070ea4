//! What the engine itself costs: the hot loop of io_uring, orders, time-stamps and histogram
//! included, over requests that do nothing (`IORING_OP_NOP`). Stored with every run, so that a
//! reader can separate the device's nanoseconds from ours.

use std::path::PathBuf;
use std::sync::Arc;

use io_uring::opcode;
use schedlab_model::{Arrivals, Bytes, Direction, Pattern, Steps, Workload};
use serde::Serialize;

use super::engine::ring::{self, errno_of};
use super::engine::uring::Uring;
use super::error::IoError;
use super::job::{EngineKind, Group, Job};
use super::shared::Control;
use super::tally::Tally;
use super::worker::Worker;
use crate::clock;

const ROUNDS: usize = 31;
const ROUND_SECONDS: f64 = 0.005;
/// Submissions of the bare loop between two readings of the clock.
const BARE_SUBMISSIONS: u32 = 16;

/// The engine's own cost per request, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct NopCost {
    /// Entries of the ring.
    pub depth: u32,
    /// Requests per submission.
    pub batch: u32,
    /// Wall time per request, median of the rounds: engine, system call and kernel's dispatch.
    pub ns_per_io: f64,
    /// The same of the fastest round.
    pub ns_per_io_min: f64,
    /// User part of the CPU time per request, all rounds: the engine alone.
    pub user_ns_per_io: f64,
    /// System part of the CPU time per request, all rounds.
    pub system_ns_per_io: f64,
    /// Wall time per request, median, of a bare loop that only submits NOPs and forgets them: what
    /// the kernel alone costs here. Taken in turns with the rounds above.
    pub bare_ns_per_io: f64,
    /// The same of the fastest round.
    pub bare_ns_per_io_min: f64,
    /// Flags of the ring.
    pub flags: String,
}

/// Measures for about 0.4 s on a ring of `depth` entries, `batch` requests per submission.
pub fn calibrate(depth: u32, batch: u32) -> Result<NopCost, IoError> {
    // A separate thread: rings register themselves with the thread that uses them.
    std::thread::spawn(move || measure(depth, batch))
        .join()
        .map_err(|_| IoError::Thread("the calibration died".into()))?
}

fn measure(depth: u32, batch: u32) -> Result<NopCost, IoError> {
    let job = Job {
        seconds: Some(ROUND_SECONDS),
        ramp_seconds: ROUND_SECONDS / 10.0,
        process: false,
        device: None,
        groups: vec![idle_group(depth, batch)?],
    };
    job.check()?;
    let group = Arc::new(job.groups[0].clone());
    let control = Arc::new(Control::new(-1)?);
    let (mut rounds, mut bare) = (Vec::new(), Vec::new());
    let (mut user, mut system, mut operations) = (0, 0, 0);
    let mut flags = String::new();
    for _ in 0..ROUNDS {
        let mut worker = Worker::prepare(&job, 0, &group, 0, &control)?;
        let reads = Workload {
            direction: Direction::Read,
            ..group.workload
        };
        worker.steps = Steps::new(&reads, None);
        worker.tally = Tally::new([0; 2]); // a NOP moves 0 bytes
        let mut engine = Uring::prepare_idle(batch, depth)?;
        engine.run(&mut worker, clock::now())?;
        let (usage, nops) = (worker.meter.usage(), worker.tally.sides[0].operations);
        rounds.push(usage.elapsed_ns as f64 / nops.max(1) as f64);
        user += usage.cpu.user;
        system += usage.cpu.system;
        operations += nops;
        flags.clone_from(&engine.facts.flags);
        drop(engine);
        bare.push(bare_round(depth, batch)?);
    }
    rounds.sort_by(f64::total_cmp);
    bare.sort_by(f64::total_cmp);
    let per_io = |ns: u64| ns as f64 / operations.max(1) as f64;
    Ok(NopCost {
        depth,
        batch,
        ns_per_io: rounds[ROUNDS / 2],
        ns_per_io_min: rounds[0],
        user_ns_per_io: per_io(user),
        system_ns_per_io: per_io(system),
        bare_ns_per_io: bare[ROUNDS / 2],
        bare_ns_per_io_min: bare[0],
        flags,
    })
}

/// Nanoseconds per NOP of a loop without order, clock, histogram or slots.
fn bare_round(depth: u32, batch: u32) -> Result<f64, IoError> {
    let (mut ring, _) = ring::build(depth)?;
    let (mut submitter, mut submissions, mut completions) = ring.split();
    let _ = submitter.register_ring_fd();
    let nop = opcode::Nop::new().build();
    let (mut nops, start) = (0u64, clock::now());
    loop {
        for _ in 0..BARE_SUBMISSIONS {
            for _ in 0..batch {
                // SAFETY: a NOP points to no memory.
                let _ = unsafe { submissions.push(&nop) };
            }
            submissions.sync();
            let entered = submitter.submit_and_wait(batch as usize);
            entered.map_err(|error| IoError::Ring {
                operation: "enter",
                errno: errno_of(&error),
            })?;
            completions.sync();
            submissions.sync();
            nops += completions.by_ref().count() as u64;
        }
        let elapsed = (clock::now() - start) as f64;
        if elapsed >= ROUND_SECONDS * 1e9 {
            return Ok(elapsed / nops.max(1) as f64);
        }
    }
}

/// NOPs complete when they are submitted, so as many are in flight as are submitted at once.
fn idle_group(depth: u32, batch: u32) -> Result<Group, IoError> {
    let text = serde_json::json!({
        "name": "nop", "path": PathBuf::from("/dev/null"), "engine": "io_uring", "batch": batch,
        "max_in_flight": depth,
        "workload": Workload {
            pattern: Pattern::Random { replacement: false },
            direction: Direction::Write,
            record: Bytes(4096),
            span: Bytes(1 << 26),
            arrivals: Arrivals::Closed { depth: batch },
            seed: 1,
        },
    });
    let group: Group =
        serde_json::from_value(text).map_err(|error| IoError::Malformed(error.to_string()))?;
    debug_assert_eq!(group.engine, EngineKind::IoUring);
    if batch == 0 || batch > depth {
        return Err(IoError::Setting {
            group: "nop".into(),
            key: "batch",
            reason: format!("1 to the depth ({depth})"),
        });
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_knows_its_own_cost() {
        match calibrate(32, 32) {
            Ok(cost) => {
                assert!(cost.ns_per_io > 1.0 && cost.ns_per_io < 1e6, "{cost:?}");
                assert!(cost.bare_ns_per_io > 1.0, "{cost:?}");
            }
            Err(IoError::RingRefused { errno }) => println!("skipped: io_uring refused: {errno}"),
            Err(error) => panic!("{error}"),
        }
        assert!(calibrate(4, 5).unwrap_err().to_string().contains("batch"));
    }
}
