//! Invariants of every scheduler, with random processes, devices and tunables.

use std::collections::VecDeque;

use proptest::prelude::*;
use schedlab_formats::TraceRecord;
use schedlab_model::{Bytes, Histogram, Nanos, Request, Rng};

use super::super::bfq::Bfq;
use super::super::cfq::Cfq;
use super::super::deadline::Deadline;
use super::super::kyber::Kyber;
use super::super::mq_deadline::MqDeadline;
use super::super::noop::None as Direct;
use super::super::process::Records;
use super::super::queue::{Limits, Queue};
use super::super::{
    run, Arrivals, HostJob, HostSettings, ProcessSpec, Processes, SCHEDULERS, TUNABLES,
};
use super::{bio, context, queue, Bench, MS};
use crate::host::{IoContext, Scheduler, Settings};
use crate::workload::Real;
use crate::{Completion, SimError, Stepped, Stop, Submission};

/// A device that serves one request after another, each in the same time.
struct Serial {
    service_ns: u64,
    waiting: VecDeque<u64>,
    serving: Option<(u64, u64)>,
    last_ns: u64,
}

impl Serial {
    fn new(service_ns: u64) -> Self {
        Serial {
            service_ns,
            waiting: VecDeque::new(),
            serving: None,
            last_ns: 0,
        }
    }
}

impl Stepped for Serial {
    fn capacity_bytes(&self) -> u64 {
        1 << 33
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        self.last_ns = submission.at_ns;
        self.waiting.push_back(submission.tag);
        Ok(())
    }

    fn next_time_ns(&self) -> Option<u64> {
        let start = (!self.waiting.is_empty()).then_some(self.last_ns);
        self.serving.map(|(at_ns, _)| at_ns).or(start)
    }

    fn advance(&mut self, completions: &mut Vec<Completion>) {
        let mut now_ns = self.last_ns;
        if let Some((at_ns, tag)) = self.serving.take() {
            completions.push(Completion { tag, at_ns });
            now_ns = at_ns;
        }
        self.serving = self
            .waiting
            .pop_front()
            .map(|tag| (now_ns + self.service_ns, tag));
    }
}

fn random_trace(seed: u64, count: u64) -> Vec<TraceRecord> {
    let mut rng = Rng::new(seed, 0);
    let mut at_ns = 0;
    let mut record = |_| {
        at_ns += rng.below(3 * MS);
        // Near each other, so that some are merged.
        let offset = rng.below(4000) * 4096 + rng.below(3) * (1 << 32);
        TraceRecord {
            trim: rng.below(20) == 0,
            device: rng.below(5) as u32,
            is_async: rng.below(4) == 0,
            ..Request {
                arrival: Nanos(at_ns),
                offset: Bytes(offset),
                length: Bytes(4096 * (1 + rng.below(32))),
                is_write: rng.below(2) == 1,
            }
            .into()
        }
    };
    (0..count).map(&mut record).collect()
}

fn random_settings(scheduler: &str, rng: &mut Rng) -> Settings {
    let mut settings = Settings::parse(scheduler).unwrap();
    for row in TUNABLES.get(scheduler).into_iter().flatten() {
        let most = row.max.min(4 * row.default.max(2));
        if rng.below(2) == 1 && row.name != "slice_idle_us" {
            let value = row.min + rng.below(most - row.min + 1);
            settings.set(&row.name, value).unwrap();
        }
    }
    settings
}

fn job(seed: u64, tags: usize, trace: Vec<TraceRecord>) -> HostJob {
    HostJob {
        settings: HostSettings {
            tags,
            seed,
            seconds: Real(1e5),
            requeue_rate: Real(if seed % 2 == 0 { 0.1 } else { 0.0 }),
            rotational: seed % 3 != 0,
            nomerges: (seed % 3) as u8,
            log: true,
            ..HostSettings::default()
        },
        processes: Processes {
            about: String::new(),
            processes: Vec::new(),
        },
        trace,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_is_lost_or_served_twice(seed in 0_u64..1 << 40, tags in 1_usize..40) {
        let mut rng = Rng::new(seed, 9);
        let trace = random_trace(seed, 400);
        let bytes: u64 = trace.iter().map(|record| record.request.length.0).sum();
        for entry in SCHEDULERS {
            let settings = random_settings(entry.0, &mut rng);
            let job = job(seed, tags, trace.clone());
            let mut device = Serial::new(MS);
            let result = run(&settings, &job, &mut device, &Stop::default()).unwrap();
            let name = settings.text();
            prop_assert_eq!(result.total.requests, 400, "{}", name);
            prop_assert_eq!(result.total.bytes, bytes, "{}", name);
            let bios: u32 = result.log.iter().map(|row| row.bios).sum();
            prop_assert_eq!(bios, 400, "{}", name);
            for row in &result.log {
                prop_assert!(row.arrival_ns <= row.inserted_ns);
                prop_assert!(row.inserted_ns <= row.dispatched_ns);
                prop_assert!(row.dispatched_ns < row.completed_ns);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bits(seed in 0_u64..1 << 40) {
        for entry in SCHEDULERS {
            let settings = Settings::parse(entry.0).unwrap();
            let once = || {
                let job = job(seed, 4, random_trace(seed, 200));
                run(&settings, &job, &mut Serial::new(MS), &Stop::default()).unwrap()
            };
            prop_assert_eq!(once(), once());
        }
    }

    #[test]
    fn who_has_work_serves_it(seed in 0_u64..1 << 40) {
        conserves::<Deadline>("deadline", seed, false)?;
        conserves::<MqDeadline>("mq-deadline", seed, false)?;
        conserves::<Kyber>("kyber", seed, false)?;
        conserves::<Bfq>("bfq:slice_idle=0", seed, false)?;
        conserves::<Cfq>("cfq:slice_idle=0,group_idle=0", seed, true)?;
    }

    #[test]
    fn a_late_request_waits_for_no_more_than_two_batches(
        seed in 0_u64..1 << 40,
        batch in 1_u64..20,
    ) {
        let set = format!("fifo_batch={batch},read_expire=20");
        within_bounds::<Deadline>(&format!("deadline:{set}"), seed, batch)?;
        within_bounds::<MqDeadline>(&format!("mq-deadline:{set}"), seed, batch)?;
    }

    #[test]
    fn kyber_keeps_its_tokens_between_one_and_the_most(seed in 0_u64..1 << 40) {
        let mut bench = Bench::<Kyber>::new("kyber");
        let mut rng = Rng::new(seed, 1);
        for _ in 0..4000 {
            bench.add(["R1", "W1"][rng.below(2) as usize]);
            bench.ctx.now_ns += rng.below(40 * MS);
            if let Some(id) = bench.take() {
                bench.ctx.now_ns += rng.below(20 * MS);
                bench.complete(id);
            }
            bench.scheduler.timer(&mut bench.ctx);
            let depths = bench.scheduler.depths();
            for (depth, most) in depths.iter().zip([256, 128, 64]) {
                prop_assert!((1..=most).contains(depth), "{depths:?}");
            }
        }
    }

    #[test]
    fn bfq_shares_the_service_by_weight(
        seed in 0_u64..1 << 40,
        weights in prop::collection::vec(10_u16..500, 2..6),
    ) {
        let settings = "low_latency=0,x_queue_merge=0,x_stable_merge=0,max_budget=16384";
        let mut bench = Bench::<Bfq>::new(&format!("bfq:{settings}"));
        let mut rng = Rng::new(seed, 2);
        let sectors = [8, 64, 256][rng.below(3) as usize];
        let of = |owner: usize| IoContext { weight: weights[owner], ..context(owner as u32) };
        let mut served = vec![0_u64; weights.len()];
        let mut place = 0_u64;
        for owner in 0..weights.len() {
            for _ in 0..4 {
                place += sectors;
                let id = bench.add_as(&format!("R{}", place + owner as u64 * (1 << 30)), of(owner));
                bench.ctx.requests[id].sectors = sectors as u32;
            }
        }
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        // As long as the smallest needs for 60 budgets.
        let least = u64::from(*weights.iter().min().unwrap());
        let rounds = 60 * 16384 * total / least / sectors;
        for _ in 0..rounds.min(400_000) {
            let Some(id) = bench.take() else {
                bench.ctx.now_ns += 100_000;
                continue;
            };
            let owner = bench.ctx.requests[id].context.owner as usize;
            served[owner] += sectors;
            bench.ctx.now_ns += 1000 * sectors;
            place += sectors;
            let next = bench.add_as(&format!("R{}", place + owner as u64 * (1 << 30)), of(owner));
            bench.ctx.requests[next].sectors = sectors as u32;
            bench.complete(id);
        }
        let all: u64 = served.iter().sum();
        for (owner, weight) in weights.iter().enumerate() {
            let share = served[owner] as f64 / all as f64;
            let fair = f64::from(*weight) / total as f64;
            // Each queue may be a budget ahead or behind, and so may be this one at both ends.
            let slack = ((weights.len() + 2) * 16384) as f64 / all as f64;
            prop_assert!((share - fair).abs() <= 0.03 * fair + slack, "{share} of {fair}");
        }
    }
}

/// With requests queued, one comes out, or something that is waited for is in the device.
fn conserves<S: Scheduler>(text: &str, seed: u64, may_wait: bool) -> Result<(), TestCaseError> {
    let mut bench = Bench::<S>::new(text);
    let mut rng = Rng::new(seed, 3);
    let mut in_flight: Vec<u32> = Vec::new();
    for _ in 0..2000 {
        bench.ctx.now_ns += rng.below(2 * MS);
        if rng.below(2) == 0 {
            let kind = ['R', 'W'][rng.below(2) as usize];
            let text = format!("{kind}{}", rng.below(1 << 20));
            bench.add_as(&text, context(rng.below(4) as u32));
        } else if bench.scheduler.queued() > 0 {
            match bench.take() {
                Some(id) => in_flight.push(id),
                None => {
                    let waits = may_wait && !in_flight.is_empty();
                    prop_assert!(waits, "{text} keeps {}", bench.scheduler.queued());
                }
            }
        }
        if in_flight.len() > 8 || (!in_flight.is_empty() && rng.below(3) == 0) {
            let id = in_flight.swap_remove(rng.below(in_flight.len() as u64) as usize);
            bench.complete(id);
        }
    }
    Ok(())
}

/// A read that is late waits for a batch of each read before it, at most, and for the batches of
/// writes between them.
fn within_bounds<S: Scheduler>(text: &str, seed: u64, batch: u64) -> Result<(), TestCaseError> {
    let mut bench = Bench::<S>::new(text);
    let mut rng = Rng::new(seed, 4);
    let mut reads = std::collections::HashMap::new();
    for round in 0..3000_u64 {
        // More than is served, for a while.
        let count = if round % 300 < 150 { 2 } else { 0 };
        for _ in 0..count {
            let sector = rng.below(1 << 24);
            let older = reads.len() as u64;
            if rng.below(4) == 0 {
                bench.add(&format!("W{sector}"));
            } else {
                let id = bench.add_as(&format!("R{sector}"), context(0));
                reads.insert(id, (bench.ctx.now_ns, older));
            }
        }
        if let Some(id) = bench.take() {
            if let Some((since_ns, older)) = reads.remove(&id) {
                let batches = 3 * (older + 2) / 2 + 2;
                let bound_ns = (20 + batch * batches) * MS;
                let waited_ns = bench.ctx.now_ns - since_ns;
                prop_assert!(waited_ns <= bound_ns, "{waited_ns} behind {older}");
            }
            bench.complete(id);
        }
        bench.ctx.now_ns += MS;
    }
    Ok(())
}

#[test]
fn one_request_more_than_tags_has_left_the_scheduler() {
    for tags in [1, 4, 31] {
        let mut queue = queue::<MqDeadline>("mq-deadline", Limits::default(), tags);
        for sector in 0..100 {
            queue.submit(bio(&format!("R{}", sector * 100), context(0)));
        }
        queue.unplug(0);
        queue.pass(&mut Serial::new(MS)).unwrap();
        assert_eq!((queue.in_driver, queue.set_aside()), (tags, 1));
        assert_eq!(queue.scheduler.queued(), 100 - tags - 1);
    }
}

#[test]
fn without_a_scheduler_all_wait_for_a_tag_in_one_line() {
    let mut queue = queue::<Direct>("none", Limits::default(), 1);
    let mut device = Serial::new(MS);
    let mut served = Vec::new();
    for (process, text) in ["R0", "W800", "R1600"].into_iter().enumerate() {
        queue.submit(bio(text, context(process as u32)));
        queue.unplug(process as u32);
    }
    for _ in 0..3 {
        queue.pass(&mut device).unwrap();
        let mut completed_bios = Vec::new();
        queue.complete(0, &mut completed_bios);
        served.extend(completed_bios.iter().map(|bio| bio.sector));
        for _ in 0..queue.take_freed() {
            queue.wake();
        }
    }
    assert_eq!(served, [0, 800, 1600]);
}

/// The sectors of those that waited for the only tag, in the order in which they got it.
fn order_of_waiting<S: Scheduler>(settings: &str, texts: &[&str]) -> Vec<u64> {
    let mut queue = queue::<S>(settings, Limits::default(), 1);
    queue.ctx.device.nr_requests = 1;
    let mut device = Serial::new(MS);
    for (process, text) in texts.iter().enumerate() {
        let mut bio = bio(text, context(process as u32));
        bio.sync = true;
        assert_eq!(queue.submit(bio), process == 0);
        queue.unplug(process as u32);
    }
    for _ in texts {
        queue.pass(&mut device).unwrap();
        queue.complete(0, &mut Vec::new());
        queue.refill();
    }
    queue.admitted.iter().map(|bio| bio.sector).collect()
}

#[test]
fn with_a_scheduler_reads_and_writes_wait_for_a_tag_in_one_line() {
    let texts = ["R0", "R800", "W1600", "R2400"];
    let orders = [
        order_of_waiting::<MqDeadline>("mq-deadline", &texts),
        order_of_waiting::<Kyber>("kyber", &texts),
        order_of_waiting::<Bfq>("bfq:low_latency=0,slice_idle=0", &texts),
        order_of_waiting::<Deadline>("deadline", &texts),
    ];
    assert_eq!(orders, [[800, 1600, 2400]; 4]);
}

#[test]
fn who_may_have_no_more_tags_is_passed_over_in_the_line() {
    let mut queue = queue::<Bfq>("bfq:low_latency=0", Limits::default(), 1);
    queue.ctx.device.nr_requests = 4;
    // Two tags for writes that nobody waits for.
    let came = ["W0", "W800", "W1600", "R2400", "R3200", "R4000"].map(|text| {
        let came = queue.submit(bio(text, context(0)));
        queue.unplug(0);
        came
    });
    assert_eq!(came, [true, true, false, true, true, false]);
    queue.ctx.device.nr_requests = 5;
    queue.refill();
    let admitted: Vec<u64> = queue.admitted.iter().map(|bio| bio.sector).collect();
    assert_eq!(admitted, [4000]);
}

/// How many of so many sync writes, writes that nobody waits for, and reads get a tag of 8.
fn tags_of_8<S: Scheduler>(settings: &str, asked: &[(char, u64)]) -> Vec<u64> {
    let mut queue = queue::<S>(settings, Limits::default(), 1);
    queue.ctx.device.nr_requests = 8;
    let mut sector = 0;
    let mut admitted = |(kind, count): &(char, u64)| {
        let mut came = 0;
        while came < *count {
            sector += 800;
            let text = if *kind == 'R' { "R0" } else { "W0" };
            let mut bio = bio(text, context(0));
            (bio.sector, bio.sync) = (sector, *kind != 'A');
            if !queue.submit(bio) {
                break;
            }
            queue.unplug(0);
            came += 1;
        }
        came
    };
    asked.iter().map(&mut admitted).collect()
}

#[test]
fn writes_that_are_waited_for_and_others_share_the_tags_that_they_may_have() {
    let (sync, others, reads) = (('S', 8), ('A', 8), ('R', 8));
    let mq_deadline = |asked: &[_]| tags_of_8::<MqDeadline>("mq-deadline:async_depth=4", asked);
    assert_eq!(mq_deadline(&[others, reads]), [4, 4]);
    assert_eq!(mq_deadline(&[('S', 3), others, reads]), [3, 1, 4]);
    assert_eq!(mq_deadline(&[('A', 3), sync, reads]), [3, 1, 4]);
    // 6 for sync writes, and of these 4 for others: half of the 6 hold half of the 4.
    let bfq = |asked: &[_]| tags_of_8::<Bfq>("bfq:low_latency=0", asked);
    assert_eq!(bfq(&[others, sync, reads]), [4, 2, 2]);
    assert_eq!(bfq(&[('S', 3), others, reads]), [3, 2, 3]);
    assert_eq!(bfq(&[sync, others, reads]), [6, 0, 2]);
}

#[test]
fn who_wakes_too_late_for_a_tag_waits_behind_all_others() {
    let mut queue = queue::<Direct>("none", Limits::default(), 1);
    let mut device = Serial::new(MS);
    let mut served = Vec::new();
    let submit = |queue: &mut Queue<Direct>, process: u32, text: &str| {
        queue.submit(bio(text, context(process)));
        queue.unplug(process);
    };
    submit(&mut queue, 0, "R0");
    submit(&mut queue, 1, "R800");
    submit(&mut queue, 2, "R1600");
    for round in 0..4 {
        queue.pass(&mut device).unwrap();
        let mut completed_bios = Vec::new();
        queue.complete(0, &mut completed_bios);
        served.extend(completed_bios.iter().map(|bio| bio.sector));
        if round == 0 {
            submit(&mut queue, 0, "R8");
        }
        for _ in 0..queue.take_freed() {
            queue.wake();
        }
        assert!(queue.in_driver <= 1);
    }
    // R800 was woken in vain after R8 had taken the tag.
    assert_eq!(served, [0, 8, 1600, 800]);
}

#[test]
fn independent_arrivals_scatter_and_constant_ones_do_not() {
    for (arrivals, scatter) in [(Arrivals::Poisson, 1.0), (Arrivals::Constant, 0.0)] {
        let spec = ProcessSpec {
            arrivals,
            rate_per_s: Real(1e4),
            ..ProcessSpec::default()
        };
        let mut records = Records::new(&spec, (0, 1), 1 << 30, 1).unwrap();
        let mut gaps = Histogram::new();
        let mut last_ns = records.begin(0).unwrap();
        for _ in 0..20_000 {
            let due_ns = records.next_arrival_ns().unwrap();
            gaps.record(due_ns - std::mem::replace(&mut last_ns, due_ns));
        }
        let mean = gaps.mean().unwrap();
        assert!((mean / 1e5 - 1.0).abs() < 0.04, "{mean}");
        let deviation = gaps.deviation().unwrap() / mean;
        assert!((deviation - scatter).abs() < 0.04, "{deviation}");
    }
}

#[test]
fn tunables_are_those_of_the_table_and_no_others() {
    for (scheduler, row) in TUNABLES
        .iter()
        .flat_map(|(name, of)| of.iter().map(move |row| (name, row)))
    {
        let mut settings = Settings::parse(scheduler).unwrap();
        assert_eq!(settings.get(&row.name), row.default);
        settings.set(&row.name, row.max).unwrap();
        assert_eq!(settings.get(&row.name), row.max);
        assert!(settings.set(&row.name, row.max + 1).is_err());
        let (least, most) = row.search.unwrap_or((row.min, row.max));
        assert!(
            row.min <= least && least < most && most <= row.max,
            "{}",
            row.name
        );
    }
    assert_eq!(TUNABLES.values().map(Vec::len).sum::<usize>(), 39);
    for wrong in [
        "noop:quantum=1",
        "bfq:slice_sync=1",
        "deadline:read_expire=x",
        "elevator",
    ] {
        assert!(Settings::parse(wrong).is_err(), "{wrong}");
    }
    let settings = Settings::parse("bfq:slice_idle=0,low_latency=0").unwrap();
    assert_eq!(settings.get("slice_idle_us"), 0);
    assert_eq!(settings.text(), "bfq:low_latency=0,slice_idle=0");
}
