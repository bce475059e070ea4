//! The simulator against what is known in closed form: queueing theory, the worked example of the
//! NCQ paper, and the write amplification of greedy garbage collection.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{device, known_amplification, run, Case};
use schedlab_model::{Bytes, Nanos, Request, Rng};
use schedlab_sim::device::{DeviceSpec, Precondition, Serial};
use schedlab_sim::engine::Aging;
use schedlab_sim::ftl::Ftl;
use schedlab_sim::workload::{Incoming, Real};

const FCFS: Case = Case {
    seed: 11,
    policy: "fcfs",
    aging: Aging::DispatchOvertake,
    alpha: 1.0,
    buffer: 0,
    depth: 65_536,
    in_flight: 1,
    count: 0,
};

fn page_request(arrival_ns: u64, pages: u64, is_write: bool) -> Incoming {
    Incoming::from(Request {
        arrival: Nanos(arrival_ns),
        offset: Bytes(0),
        length: Bytes(pages * 4096),
        is_write,
    })
}

/// Mean and half-width of its 99.9 % interval over 30 batches, leaving the first out.
fn batch_means(values: &[f64]) -> (f64, f64) {
    let size = values.len() / 31;
    let means: Vec<f64> = values[size..]
        .chunks_exact(size)
        .map(|b| b.iter().sum::<f64>() / size as f64)
        .collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, 3.66 * (variance / n).sqrt())
}

/// Responses of a single server without a buffer, in ns.
fn responses(spec: &DeviceSpec, requests: &[Incoming]) -> Vec<f64> {
    let (_, mut log, _) = run(&FCFS, Serial::new(spec), requests);
    log.sort_by_key(|entry| entry.command.index);
    log.iter()
        .map(|entry| (entry.completed_ns - entry.command.arrival_ns) as f64)
        .collect()
}

#[test]
fn constant_service_gives_the_mean_of_m_d_1() {
    let spec = device(&FCFS);
    let service = spec.flash.page_read.0 as f64;
    for load in [0.3, 0.6, 0.8] {
        let mut rng = Rng::new(FCFS.seed, 1);
        let mut now = 0.0;
        let requests: Vec<Incoming> = (0..60_000)
            .map(|_| {
                now += rng.exponential(service / load);
                page_request(now as u64, 1, false)
            })
            .collect();
        let (mean, half) = batch_means(&responses(&spec, &requests));
        let known = service * (1.0 + load / (2.0 * (1.0 - load)));
        assert!(
            (mean - known).abs() <= half,
            "load {load}: {mean} ± {half}, known {known}"
        );
        assert!(half < 0.15 * known, "the interval says too little: {half}");
    }
}

#[test]
fn exponential_service_gives_the_mean_of_m_m_1() {
    let mut spec = device(&FCFS);
    spec.flash.blocks_per_plane = 4096;
    spec.flash.page_read = Nanos(10);
    let pages = 200.0;
    let service = pages * 10.0;
    for load in [0.3, 0.6] {
        let mut rng = Rng::new(FCFS.seed, 2);
        let mut now = 0.0;
        let requests: Vec<Incoming> = (0..60_000)
            .map(|_| {
                now += rng.exponential(service / load);
                // Half up on the mean of a page: the rounded length has the exponential's mean.
                page_request(now as u64, (rng.exponential(pages) + 0.5) as u64, false)
            })
            .collect();
        let (mean, half) = batch_means(&responses(&spec, &requests));
        let known = service / (1.0 - load);
        assert!(
            (mean - known).abs() <= half,
            "load {load}: {mean} ± {half}, known {known}"
        );
        assert!(half < 0.15 * known, "the interval says too little: {half}");
    }
}

#[test]
fn a_write_passes_the_reads_of_the_worked_example_at_n_4() {
    // A long write holds the device while a 1-page write (0.2 ms) and six 7-page reads (0.14 ms)
    // wait. 0.2·0.9^n is 0.18, 0.162, 0.1458, 0.1312: the write goes after the fourth read.
    let mut requests = vec![page_request(0, 12, true), page_request(1, 1, true)];
    requests.extend((2..8).map(|arrival_ns| page_request(arrival_ns, 7, false)));
    let case = Case {
        policy: "ts",
        alpha: 0.9,
        ..FCFS
    };
    let (_, log, _) = run(&case, Serial::new(&device(&case)), &requests);
    let order: Vec<u64> = log.iter().map(|entry| entry.command.index).collect();
    assert_eq!(order, [0, 2, 3, 4, 5, 1, 6, 7]);
    // Without aging it goes last.
    let case = Case { alpha: 1.0, ..case };
    let (_, log, _) = run(&case, Serial::new(&device(&case)), &requests);
    assert_eq!(log.last().unwrap().command.index, 1);
}

#[test]
fn greedy_write_amplification_follows_the_known_curve() {
    for over_provisioning in [0.07, 0.15, 0.28, 0.5] {
        for precondition in [Precondition::Formula, Precondition::Write] {
            let mut spec = DeviceSpec::shipped("ncq2014", &BTreeMap::new()).unwrap();
            spec.flash.channels = 1;
            spec.flash.dies_per_package = 1;
            spec.flash.planes_per_die = 1;
            spec.flash.blocks_per_plane = 1024;
            spec.ftl.over_provisioning = Real(over_provisioning);
            spec.ftl.precondition = precondition;
            spec.ftl.free_blocks_low = Some(2);
            spec.ftl.free_blocks_high = Some(3);
            let mut ftl = Ftl::new(&spec, 5).unwrap();
            let pages = ftl.logical_pages();
            let mut rng = Rng::new(5, 0);
            let mut write = |ftl: &mut Ftl, count| {
                for _ in 0..count {
                    let page = rng.below(u64::from(pages)) as u32;
                    let plane = ftl.plane_for(page, &[]);
                    ftl.write(page, plane);
                }
                let usage = ftl.usage();
                (usage.host_programs as f64, usage.gc_moved_pages as f64)
            };
            let before = write(&mut ftl, 3 * pages);
            let after = write(&mut ftl, 2 * pages);
            let measured = 1.0 + (after.1 - before.1) / (after.0 - before.0);
            // Two or three blocks are erased and two being filled, on average half.
            let full_pages = (1024.0 - 2.5 - 1.0) * 64.0;
            let known = known_amplification(f64::from(pages) / full_pages, 64.0);
            let off = measured / known - 1.0;
            assert!(
                off.abs() < 0.05,
                "{over_provisioning} {precondition:?}: {measured} {known}"
            );
            assert_eq!(ftl.audit().unwrap(), u64::from(pages));
        }
    }
}

#[test]
fn formula_and_writing_agree_from_the_first_request_on() {
    let amplification = |precondition| {
        let mut spec = DeviceSpec::shipped("ncq2014", &BTreeMap::new()).unwrap();
        spec.flash.channels = 1;
        spec.flash.dies_per_package = 1;
        spec.flash.planes_per_die = 1;
        spec.flash.blocks_per_plane = 1024;
        spec.ftl.over_provisioning = Real(0.28);
        spec.ftl.precondition = precondition;
        let mut ftl = Ftl::new(&spec, 5).unwrap();
        let pages = ftl.logical_pages();
        let mut rng = Rng::new(6, 0);
        for _ in 0..pages / 2 {
            let page = rng.below(u64::from(pages)) as u32;
            let plane = ftl.plane_for(page, &[]);
            ftl.write(page, plane);
        }
        ftl.usage().write_amplification
    };
    let [formula, written] = [Precondition::Formula, Precondition::Write].map(amplification);
    assert!((formula / written - 1.0).abs() < 0.1, "{formula} {written}");
}
