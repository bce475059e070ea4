//! Crews on the running kernel: counts that must add up under any load of the machine.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use schedlab_load::cpu::{allowed_cpus, Crew, CrewJob, CrewResult};

fn launch(job: serde_json::Value) -> Crew {
    let job: CrewJob = serde_json::from_value(job).unwrap();
    Crew::launch(job).unwrap()
}

fn run(groups: serde_json::Value, window_ms: u64) -> CrewResult {
    let mut crew = launch(serde_json::json!({
        "groups": groups,
        "window_ns": window_ms * 1_000_000,
        "seed": 7,
    }));
    crew.start();
    while !crew.wait(Duration::from_millis(50)) {}
    crew.finish()
}

fn counting(tasks: u32, window_ns: Option<u64>) -> Crew {
    let role = serde_json::json!({
        "kind": "calculation", "kernel": "matmul", "epoch_ns": 100_000_000, "epoch_grid": true,
        "slices": true,
    });
    launch(serde_json::json!({
        "groups": [{"name": "work", "role": role, "tasks": tasks}],
        "window_ns": window_ns,
        "cpus": [allowed_cpus()[0]],
    }))
}

#[test]
fn two_calculations_share_a_cpu_and_are_accounted() {
    // Long enough for both to be seen to share; on a busy machine a worker may get little of
    // it, so that what is asserted relates the accounts to each other, not to the clock.
    let mut crew = counting(2, Some(600_000_000));
    crew.start();
    while !crew.wait(Duration::from_secs(1)) {}
    let (epochs, preemptions) = (crew.take_epochs(), crew.take_preemptions());
    let tasks = crew.finish().groups.remove(0).tasks;
    assert_eq!(tasks[0].checksum, tasks[1].checksum);
    let mut cpu_ns = 0;
    for (number, task) in tasks.iter().enumerate() {
        assert!(task.completed && task.count > 0, "{tasks:?}");
        assert!(task.elapsed_ns >= 600_000_000, "{tasks:?}");
        // The exit and the last switch come after the last calculation; to the microsecond.
        assert!(task.calculation_cpu_ns <= task.cpu_ns + 2000, "{tasks:?}");
        assert!(task.voluntary_switches >= 1, "{tasks:?}");
        let own = epochs.iter().filter(|(task, _)| *task == number);
        let own: Vec<[u64; 3]> = own.map(|(_, event)| *event).collect();
        let grid = own.iter().map(|[.., ended]| ended).sum::<u64>() * 100_000_000;
        assert!(grid + 100_000_000 > task.elapsed_ns, "{epochs:?} {tasks:?}");
        assert!(own.last().is_some_and(|[_, count, _]| *count <= task.count));
        let own = preemptions.iter().filter(|(task, _)| *task == number);
        let own: Vec<[u64; 5]> = own.map(|(_, event)| *event).collect();
        assert!(own.len() as u64 <= task.involuntary_switches);
        assert!(own.is_sorted_by_key(|[at, count, cpu, ..]| (*at, *count, *cpu)));
        cpu_ns += task.cpu_ns;
    }
    // One CPU for both: together they cannot have had more of it than there was, to a tick.
    let longest_ns = tasks.iter().map(|task| task.elapsed_ns).max().unwrap();
    assert!(cpu_ns < longest_ns + 50_000_000, "{tasks:?}");
}

#[test]
fn a_dropped_crew_leaves_no_process_and_its_starter_as_it_was() {
    let cpus = allowed_cpus();
    let crew = counting(2, None);
    let pids = crew.pids();
    for (_, pid) in &pids {
        let mut files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        assert!(
            files.next().is_none(),
            "an open pipe would hide its owner's end"
        );
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let (_, ignored) = status.split_once("SigIgn:\t").unwrap();
        let ignored = u64::from_str_radix(&ignored[..16], 16).unwrap();
        assert_eq!(ignored & 0x7fff_ffff, 1 << (libc::SIGINT - 1)); // C has signals of its own
    }
    let free: Vec<usize> = cpus.iter().copied().filter(|cpu| *cpu != cpus[0]).collect();
    assert!(free.is_empty() || allowed_cpus() == free);
    crew.start();
    drop(crew);
    for (_, pid) in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    assert_eq!(allowed_cpus(), cpus);
}

#[test]
fn children_end_with_the_slot_that_forked_them_and_badly_if_their_program_does() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("sleeps");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 100.25\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, executable).unwrap();
    let storm = |program: &std::path::Path| {
        let role = serde_json::json!({
            "kind": "fork-storm", "children": 1, "work_ns": 0, "program": program,
        });
        let groups = serde_json::json!([{"name": "work", "role": role, "tasks": 1}]);
        let crew = launch(serde_json::json!({"groups": groups}));
        crew.start();
        crew
    };
    let sleepers = || {
        let all = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|one| one.ok());
        let lines = all.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        lines.filter(|line| line == b"sleep\x00100.25\0").count()
    };
    let wait_for = |count| {
        let begun = std::time::Instant::now();
        while sleepers() != count {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let crew = storm(&program);
    wait_for(1);
    drop(crew);
    wait_for(0);

    let mut fails = storm("/bin/false".as_ref());
    assert!(fails.wait(Duration::from_secs(20)));
    assert!(!fails.finish().groups[0].tasks[0].completed);
}

#[test]
fn a_crew_whose_calculation_was_killed_is_over() {
    let mut crew = counting(1, None);
    crew.start();
    assert!(!crew.wait(Duration::from_millis(50)));
    let pid = rustix::process::Pid::from_raw(crew.pids()[0].1).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(crew.wait(Duration::from_secs(20)));
    let task = crew.finish().groups[0].tasks[0];
    assert!(!task.completed && task.count > 0, "{task:?}");
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
        (serde_json::json!({"kind": "futex", "rounds": 50}), 2, 100),
        (
            serde_json::json!({"kind": "yields", "rounds": 50, "touches": 8, "bytes": 4096}),
            2,
            100,
        ),
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
    assert_eq!(
        schedlab_load::cpu::attributes_of(0).map(|own| own.0),
        Some(0)
    );
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
fn what_is_done_in_the_ramp_and_after_the_end_is_not_counted() {
    let mut crew = launch(serde_json::json!({
        "groups": [
            {"name": "load", "role": {"kind": "hog", "work_ns": 1_000_000}, "tasks": 1},
            {"name": "pieces", "tasks": 1,
             "role": {"kind": "periodic", "period_ns": 5_000_000, "work_ns": 1000}},
            {"name": "work", "tasks": 1,
             "role": {"kind": "wakeup", "workers": 1, "rate": 500.0, "work_ns": 1000}},
        ],
        "ramp_ns": 400_000_000, "window_ns": 50_000_000, "seed": 7,
    }));
    crew.start();
    while !crew.wait(Duration::from_millis(50)) {}
    std::thread::sleep(Duration::from_millis(900));
    let result = crew.finish();
    let [load, pieces, work] = &result.groups[..] else {
        panic!("{result:?}");
    };
    // 50 pieces, and with ramp and end 1350: even a CPU that has become faster does less than 150.
    assert!((1..=150).contains(&load.units), "{result:?}");
    assert!((9..=11).contains(&count(&pieces.response)), "{pieces:?}");
    assert!(count(&work.wakeup) <= work.units, "{work:?}");
    // What a task uses before the start is in the whole alone.
    assert!(load.cpu_ns > load.tasks[0].cpu_ns, "{load:?}");
}
