//! The stations between host and flash: their times add up, and the slowest sets the rate.

#![allow(clippy::unwrap_used)]

use schedlab_sim::{Job, Outcome, Report, Stop};
use serde_json::{json, Value};

fn run(set: Value, workload: Value, requests: u64) -> Report {
    let job: Job = serde_json::from_value(json!({
        "device": {"device": "nvme", "service": "parallel", "set": set},
        "workload": workload, "requests": requests, "seed": 3,
    }))
    .unwrap();
    match job.run(None, None, &Stop::default()).unwrap() {
        Outcome::Ssd(report, _) => *report,
        other => panic!("{other:?}"),
    }
}

fn buffered_writes(outstanding: u32) -> Value {
    // 1 MiB of writes stays in the buffer of 64 MiB.
    json!({"name": "randwrite4k", "first_file": "1MiB",
           "arrivals": {"kind": "closed", "outstanding": outstanding}})
}

#[test]
fn buffered_writes_take_the_sum_of_the_stages_and_no_less() {
    let report = run(json!({}), buffered_writes(1), 2_000);
    // Command 1, link 1.28 + 1, buffer 0.3, completion 0.5 us.
    assert_eq!(report.write.response.mean, Some(4_080.0));
    let least = report.write.response.bins[0].0;
    let loaded = run(json!({}), buffered_writes(64), 20_000);
    assert!(loaded.write.response.bins[0].0 >= least);
}

#[test]
fn the_slowest_station_sets_the_rate_of_a_closed_loop() {
    let cases = [
        (json!({}), 1e9 / 750.0, 1e9 / 1_280.0),
        (json!({"controller.cores": 1}), 1e9 / 1_500.0, 1e9 / 1_280.0),
        (json!({"link.bytes_per_s": 1e9}), 1e9 / 750.0, 1e9 / 4_096.0),
    ];
    for (set, cores, link) in cases {
        for depth in [1u32, 2, 4, 8, 64] {
            let stages = run(set.clone(), buffered_writes(1), 500);
            let sum_ns = stages.write.response.mean.unwrap();
            let report = run(set.clone(), buffered_writes(depth), 40_000);
            let known = (f64::from(depth) * 1e9 / sum_ns).min(cores).min(link);
            let off = report.iops / known - 1.0;
            assert!(off < 0.01, "{set} {depth}: {} over {known}", report.iops);
            // Between the asymptotes stations wait for each other.
            let bends = (f64::from(depth) * 1e9 / sum_ns) / cores.min(link);
            if !(0.4..=2.5).contains(&bends) {
                assert!(off > -0.01, "{set} {depth}: {} under {known}", report.iops);
            }
        }
    }
}

#[test]
fn one_core_under_poisson_arrivals_is_m_d_1() {
    let set = json!({"controller.cores": 1, "controller.command": "10us",
                     "controller.completion": 0, "link.bytes_per_s": 0, "link.latency": 0,
                     "buffer.page_time": 0});
    let workload = json!({"name": "randwrite4k", "first_file": "1MiB",
                          "inter_arrival_ms": 0.01 / 0.7});
    let report = run(set, workload, 1_000_000);
    let known = 10_000.0 * (1.0 + 0.7 / (2.0 * 0.3));
    let mean = report.write.response.mean.unwrap();
    assert!((mean / known - 1.0).abs() < 0.02, "{mean} {known}");
}

#[test]
fn reads_pay_flash_and_link_once_each() {
    let workload = json!({"name": "randread4k",
                          "arrivals": {"kind": "closed", "outstanding": 1}});
    let report = run(json!({}), workload, 200);
    // Command 1, plane 60 and channel 5 beside the buffer's 0.3, link 2.28, completion 0.5 us.
    assert_eq!(report.read.response.mean, Some(68_780.0));
}
