//! Mixes on the running kernel: counts that must add up under any load of the machine.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use schedlab_load::cpu::mix::{spin_ns_per_1000, Job, JobResult, Mix};

fn run(groups: serde_json::Value, window_ms: u64) -> JobResult {
    run_after(0, groups, window_ms)
}

fn run_after(ramp_ms: u64, groups: serde_json::Value, window_ms: u64) -> JobResult {
    let job = serde_json::json!({
        "groups": groups,
        "ramp_ns": ramp_ms * 1_000_000,
        "window_ns": window_ms * 1_000_000,
        "spin_ns_per_1000": spin_ns_per_1000(),
        "seed": 7,
    });
    let job: Job = serde_json::from_value(job).unwrap();
    let mut mix = Mix::launch(job).unwrap();
    mix.start();
    while !mix.wait(Duration::from_millis(50)) {}
    mix.finish()
}

fn count(rows: &[(u64, u64, u64)]) -> u64 {
    rows.iter().map(|(_, _, n)| n).sum()
}

#[test]
fn every_planned_request_is_finished_or_counted_as_unfinished() {
    let role = serde_json::json!({"kind": "wakeup", "workers": 3, "rate": 500.0, "work_ns": 20000});
    let groups = serde_json::json!([
        {"name": "work", "role": role, "tasks": 2},
        {"name": "load", "role": {"kind": "hog", "work_ns": 100000}, "tasks": 2},
    ]);
    let result = run(groups, 500);
    let work = &result.groups[0];
    assert_eq!(count(&work.response), work.units + work.unfinished);
    // 6 workers x 500 requests/s x 0.5 s, Poisson: 1500 with a deviation of 39.
    assert!((1300..1700).contains(&count(&work.response)), "{work:?}");
    assert!(count(&work.wakeup) <= work.units && count(&work.wakeup) > 0);
    assert!(result.groups[1].units > 0);
    assert_eq!(work.attributes.len(), 8);
}

#[test]
fn messages_and_children_are_all_counted() {
    let roles = [
        (
            serde_json::json!({"kind": "messaging", "rounds": 10, "bytes": 100}),
            3,
            3 * 10 + 3 * 30,
        ),
        (serde_json::json!({"kind": "pipe", "rounds": 50}), 1, 100),
        (
            serde_json::json!({"kind": "fork-storm", "children": 20, "work_ns": 1000}),
            2,
            40,
        ),
        (
            serde_json::json!({
                "kind": "fork-storm", "children": 3, "work_ns": 1000, "program": "/bin/true"
            }),
            2,
            6,
        ),
    ];
    for (role, tasks, units) in roles {
        let groups = serde_json::json!([{"name": "work", "role": role, "tasks": tasks}]);
        let result = run(groups, 20_000);
        assert_eq!(result.groups[0].units, units, "{role}");
        assert!(result.groups[0].elapsed_ns.is_some(), "{role}");
        assert!(result.window_ns < 19_000_000_000);
    }
}

#[test]
fn finite_work_that_is_cut_off_has_no_elapsed_time() {
    let role = serde_json::json!({"kind": "pipe", "rounds": 1_000_000_000_u64});
    let result = run(
        serde_json::json!([{"name": "work", "role": role, "tasks": 1}]),
        100,
    );
    assert_eq!(result.groups[0].elapsed_ns, None);
    assert!(result.groups[0].units > 0);
}

#[test]
fn periodic_tasks_keep_their_period() {
    let role = serde_json::json!({"kind": "periodic", "period_ns": 10_000_000, "work_ns": 100_000});
    let result = run(
        serde_json::json!([{"name": "work", "role": role, "tasks": 2}]),
        505,
    );
    assert!((90..=100).contains(&result.groups[0].units), "{result:?}");
}

#[test]
fn pieces_of_periodic_tasks_that_come_too_late_are_counted_with_their_waiting() {
    // Work of 25 ms in every period of 10 ms: of 5 pieces 2 at most, and the others wait.
    let role =
        serde_json::json!({"kind": "periodic", "period_ns": 10_000_000, "work_ns": 25_000_000});
    let result = run(
        serde_json::json!([{"name": "work", "role": role, "tasks": 2}]),
        502,
    );
    let work = &result.groups[0];
    // Planned at 10 ms … 500 ms, and of the other task at 15 ms … 495 ms.
    assert_eq!(count(&work.response), 99, "{work:?}");
    assert_eq!(work.units + work.unfinished, 99);
    assert!((1..60).contains(&work.units), "{work:?}");
}

#[test]
fn who_never_sleeps_is_not_woken_and_what_is_left_has_waited_to_the_end() {
    let role = serde_json::json!({
        "kind": "wakeup", "workers": 1, "rate": 5000.0, "work_ns": 10_000_000
    });
    let result = run(
        serde_json::json!([{"name": "work", "role": role, "tasks": 1}]),
        100,
    );
    let work = &result.groups[0];
    assert!(work.units >= 5, "{work:?}");
    assert!(count(&work.wakeup) <= work.units / 2, "{work:?}");
    // For a second more what was planned is served; the rest was planned in the 100 ms before.
    let long = work
        .response
        .iter()
        .filter(|(_, high, _)| *high > 990_000_000);
    assert!(work.unfinished > 0);
    assert!(
        long.map(|row| row.2).sum::<u64>() >= work.unfinished,
        "{work:?}"
    );
}

#[test]
fn scheduling_is_taken_and_read_back() {
    let groups = serde_json::json!([{
        "name": "work", "role": {"kind": "hog", "work_ns": 100000}, "tasks": 1,
        "scheduling": {"policy": "batch", "nice": 7},
    }]);
    let result = run(groups, 20);
    assert_eq!(&result.groups[0].attributes[0].0, &3);
    assert_eq!(&result.groups[0].attributes[0].1, &7);
}

#[test]
fn a_hog_works_as_long_as_it_should() {
    let role = serde_json::json!({"kind": "hog", "work_ns": 2_000_000});
    let result = run(
        serde_json::json!([{"name": "load", "role": role, "tasks": 1}]),
        400,
    );
    // 200 pieces of 2 ms, fewer beside others; twice as many where the CPU has become faster.
    assert!((1..=400).contains(&result.groups[0].units), "{result:?}");
}

#[test]
fn a_hog_does_not_count_what_it_does_in_the_ramp() {
    let role = serde_json::json!({"kind": "hog", "work_ns": 1_000_000});
    let result = run_after(
        400,
        serde_json::json!([{"name": "load", "role": role, "tasks": 1}]),
        50,
    );
    // 50 pieces, and with the ramp 450: even a CPU that has become faster does less than 150.
    assert!((1..=150).contains(&result.groups[0].units), "{result:?}");
}
