//! Suspended programs and erasures by hand and against closed forms, and what a trim discards.

#![allow(clippy::unwrap_used)]

mod common;

use common::{device, requests, run, small, Case};
use proptest::prelude::*;
use schedlab_model::{Bytes, Nanos, Request};
use schedlab_sim::device::{DeviceSpec, Parallel, SuspendSpec};
use schedlab_sim::engine::Aging;
use schedlab_sim::workload::{Incoming, Real};
use schedlab_sim::{Job, Outcome, Report, Stop};
use serde_json::{json, Value};

/// One die without buffer and channel, that is never full.
fn one_die() -> Value {
    json!({
        "flash.channels": 1, "flash.dies_per_package": 1, "flash.planes_per_die": 1,
        "flash.blocks_per_plane": 16_384, "flash.page_read": "75us", "flash.page_write": "750us",
        "flash.page_transfer": 0, "buffer.size": 0,
        "ftl.in_flight": 65_536, "queue.depth": 65_536,
    })
}

fn merged(mut all: Value, more: Value) -> Value {
    let (Value::Object(all_keys), Value::Object(more)) = (&mut all, more) else {
        unreachable!("both are tables")
    };
    all_keys.extend(more);
    all
}

fn simulate(set: &Value, policy: &str, workload: Value, requests: u64) -> Report {
    let job: Job = serde_json::from_value(json!({
        "device": {"device": "ncq2014", "service": "parallel", "set": set}, "seed": 7,
        "policy": {"name": policy, "alpha": 1.0}, "workload": workload, "requests": requests,
    }))
    .unwrap();
    match job.run(None, None, &Stop::default()).unwrap() {
        Outcome::Ssd(report, _) => *report,
        other => panic!("{other:?}"),
    }
}

fn text(report: &Report) -> String {
    serde_json::to_string(report).unwrap()
}

/// 4000 reads/s of 75 us and 400 writes/s of 750 us: 309 us in order, 177 us with reads first, by
/// the policy or by the die, 16 us with suspension at no cost.
#[test]
fn the_wait_of_reads_follows_the_closed_forms() {
    let (reads, writes) = (4_000.0, 400.0);
    let workload = json!({
        "name": "random4k", "read_share": reads / (reads + writes),
        "inter_arrival_ms": 1e3 / (reads + writes),
    });
    let wait = |more, policy| {
        let report = simulate(
            &merged(one_die(), more),
            policy,
            workload.clone(),
            1_500_000,
        );
        let suspensions = report.device.suspensions.unwrap_or(0);
        let work = report.read.response.count * 75_000 + report.write.response.count * 750_000;
        assert_eq!(
            report.device.busy_ns[0], work,
            "nothing is lost or done twice"
        );
        (
            report.read.response.mean.unwrap() / 1e9 - 75e-6,
            suspensions,
        )
    };
    let of_reads = reads * 75e-6f64.powi(2);
    let of_all = of_reads + writes * 750e-6f64.powi(2);
    let (load_reads, load) = (reads * 75e-6, reads * 75e-6 + writes * 750e-6);
    let free = json!({
        "suspend.program": true, "suspend.cost": 0, "suspend.resume": 0, "suspend.least": 0,
        "suspend.limit": 4_000_000,
    });
    let one = json!({"ftl.in_flight": 1});
    let reads_first = of_all / (2.0 * (1.0 - load_reads));
    for (more, policy, known) in [
        (one.clone(), "fcfs", of_all / (2.0 * (1.0 - load))),
        (one, "ts", reads_first),
        (json!({}), "fcfs", reads_first),
        (free, "fcfs", of_reads / (2.0 * (1.0 - load_reads))),
    ] {
        let suspends = more.get("suspend.program").is_some();
        let (measured, suspensions) = wait(more, policy);
        let off = measured / known - 1.0;
        assert!(off.abs() < 0.02, "{policy} {suspends}: {measured} {known}");
        assert_eq!(suspensions > 0, suspends);
    }
}

fn everything(seed: u64, suspends: bool) -> DeviceSpec {
    let case = case(seed);
    let mut spec = device(&case);
    spec.ftl.over_provisioning = Real(2.4);
    spec.ftl.collect = small::COLLECT[seed as usize % 3];
    spec.ftl.precondition = small::PRECONDITION[seed as usize / 3 % 3];
    if suspends {
        spec.suspend = SuspendSpec {
            program: seed % 2 == 0,
            erase: true,
            cost: Nanos(seed % 9_000),
            least: Nanos(seed % 70_000),
            limit: 1 + (seed % 5) as u32,
            ..SuspendSpec::default()
        };
    }
    spec
}

fn case(seed: u64) -> Case {
    Case {
        seed,
        policy: ["fcfs", "tsb", "sitf"][seed as usize % 3],
        aging: Aging::DispatchOvertake,
        alpha: 0.9,
        buffer: (seed % 20) as u32,
        depth: 1 + (seed % 12) as u32,
        in_flight: 1 + (seed % 7) as u32,
        count: 300,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_combination_serves_every_request_and_loses_no_page(
        seed in any::<u64>(), suspends in any::<bool>(),
    ) {
        let case = case(seed);
        let spec = everything(seed, suspends);
        spec.check().unwrap();
        let mut requests = requests(&case, true);
        for incoming in &mut requests {
            // The device is smaller than that of the other tests.
            incoming.request.offset.0 %= 80 * 4096;
        }
        let device = Parallel::new(&spec, seed).unwrap();
        prop_assert!(device.ftl().logical_pages() >= 92);
        device.ftl().audit().unwrap();
        let (report, log, device) = run(&case, device, &requests);
        prop_assert_eq!(report.requests, requests.len() as u64);
        prop_assert!(log.iter().all(|entry| entry.completed_ns >= entry.command.dispatched_ns));
        let after = device.ftl().audit().unwrap();
        prop_assert!(after <= u64::from(device.ftl().logical_pages()));
        let twice = run(&case, Parallel::new(&spec, seed).unwrap(), &requests).0;
        prop_assert_eq!(text(&report), text(&twice));
    }

    #[test]
    fn suspensions_add_their_own_time_and_no_other(
        seed in any::<u64>(), cost in 0u64..9_000, resume in 0u64..9_000, limit in 1u32..9,
    ) {
        let set = merged(one_die(), json!({
            "suspend.program": true, "suspend.cost": cost, "suspend.resume": resume,
            "suspend.limit": limit, "suspend.least": seed % 300_000,
        }));
        let workload = json!({"name": "random4k", "read_share": 0.7});
        let report = simulate(&set, "fcfs", workload, 2_000);
        let suspensions = report.device.suspensions.unwrap();
        let work = report.read.response.count * 75_000 + report.write.response.count * 750_000;
        prop_assert_eq!(report.device.busy_ns[0], work + suspensions * (cost + resume));
        prop_assert!(suspensions > 0);
        prop_assert!(suspensions <= report.write.response.count * u64::from(limit));
    }

}

/// What shares a page with the range stays.
#[test]
fn a_trim_discards_only_the_pages_that_it_covers() {
    let page: u64 = 4096;
    let trimmed = |offset, length| {
        let request = |at_ms: u64, offset, length, is_write| Request {
            arrival: Nanos(at_ms * 1_000_000),
            offset: Bytes(offset),
            length: Bytes(length),
            is_write,
        };
        let write = Incoming::from(request(0, 0, 4 * page, true));
        let trim = Incoming {
            trim: true,
            ..Incoming::from(request(100, offset, length, false))
        };
        let case = Case {
            seed: 1,
            policy: "fcfs",
            aging: Aging::default(),
            alpha: 1.0,
            buffer: 0,
            depth: 4,
            in_flight: 4,
            count: 0,
        };
        let device = Parallel::new(&device(&case), 1).unwrap();
        let (report, ..) = run(&case, device, &[write, trim]);
        report.device.ftl.unwrap().trimmed_pages
    };
    assert_eq!(trimmed(0, 4 * page), 4);
    assert_eq!(trimmed(page, page), 1);
    assert_eq!(trimmed(512, 3 * page), 2);
    assert_eq!(trimmed(512, page), 0);
    assert_eq!(trimmed(512, 512), 0);
}

#[test]
fn a_key_of_a_feature_that_is_gone_is_named() {
    for (key, value) in [
        ("map.cache", json!("2MiB")),
        ("streams.number", json!(2)),
        ("host_queue", json!([{"name": "first"}])),
        ("queue.host_queues", json!(2)),
        ("flash.program", json!(["1ms"])),
    ] {
        let set = [(key.to_owned(), value)].into();
        let error = DeviceSpec::shipped("nvme", &set).unwrap_err().to_string();
        let name = key.rsplit('.').next().unwrap();
        let table = key.split('.').next().unwrap();
        let is_named =
            error.contains(&format!("`{name}`")) || error.contains(&format!("`{table}`"));
        assert!(
            is_named && error.contains("unknown field"),
            "{key}: {error}"
        );
    }
}
