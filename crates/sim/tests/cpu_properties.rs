//! What must hold for every policy and every set of tasks: conservation, exclusion, work
//! conservation; and the fairness bounds of stride and EEVDF.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use schedlab_model::Nanos;
use schedlab_sim::cpu::{simulate, CpuResult, Occupant, Settings, Task, POLICIES};
use schedlab_sim::Stop;

const MS: u64 = 1_000_000;

fn task(name: usize, arrival_ms: u64, bursts_us: Vec<u64>, priority: i32, weight: u64) -> Task {
    Task {
        name: format!("T{name}"),
        arrival: Nanos(arrival_ms * MS),
        bursts: bursts_us.iter().map(|us| Nanos(us * 1000)).collect(),
        priority,
        nice: None,
        weight: Some(weight),
        slice: None,
    }
}

prop_compose! {
    fn any_task()(
        arrival_ms in 0u64..30,
        pairs in prop::collection::vec((1u64..12_000, 1u64..9_000), 0..4),
        last_us in 1u64..20_000,
        priority in -3i32..4,
        weight in 1u64..3000,
    ) -> (u64, Vec<u64>, i32, u64) {
        let mut bursts: Vec<u64> = pairs.into_iter().flat_map(|(cpu, io)| [cpu, io]).collect();
        bursts.push(last_us);
        (arrival_ms, bursts, priority, weight)
    }
}

prop_compose! {
    fn any_tasks()(parts in prop::collection::vec(any_task(), 1..8)) -> Vec<Task> {
        let numbered = parts.into_iter().enumerate();
        numbered.map(|(i, (arrival, bursts, p, w))| task(i, arrival, bursts, p, w)).collect()
    }
}

prop_compose! {
    fn any_settings()(
        policy in 0..POLICIES.len(),
        quantum_us in 200u64..9000,
        cpus in 1usize..4,
        cost_us in prop::sample::select(vec![0u64, 0, 3, 700]),
        hz in prop::sample::select(vec![None, Some(250u64), Some(1000)]),
        aging_ms in prop::option::of(1u64..20),
        boost_ms in prop::option::of(5u64..50),
        seed in 0u64..100,
    ) -> Settings {
        Settings {
            policy: POLICIES[policy].0.into(),
            quantum: Nanos(quantum_us * 1000),
            cpus,
            switch_cost: Nanos(cost_us * 1000),
            hz,
            aging: aging_ms.map(|ms| Nanos(ms * MS)),
            boost: boost_ms.map(|ms| Nanos(ms * MS)),
            seed,
            ..Settings::default()
        }
    }
}

fn run(tasks: &[Task], settings: &Settings) -> CpuResult {
    simulate(tasks, settings, &Stop::default()).unwrap()
}

/// Runs, switches and I/O of a task as (start, end), by start.
fn busy(result: &CpuResult, task: usize) -> Vec<(u64, u64)> {
    let is_its = |o| o == Occupant::Task(task) || o == Occupant::Switch(task);
    let on_cpu = result.segments.iter().filter(|s| is_its(s.occupant));
    let mut all: Vec<(u64, u64)> = on_cpu.map(|s| (s.start_ns, s.end_ns)).collect();
    all.extend(&result.tasks[task].io);
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cpu_time_in_is_cpu_time_out(tasks in any_tasks(), settings in any_settings()) {
        let result = run(&tasks, &settings);
        for (i, (task, got)) in tasks.iter().zip(&result.tasks).enumerate() {
            let sum = |skip: usize| -> u64 {
                task.bursts.iter().skip(skip).step_by(2).map(|b| b.0).sum()
            };
            prop_assert_eq!(got.cpu_ns, sum(0));
            prop_assert_eq!(got.io_ns, sum(1));
            let of_task = result.segments.iter().filter(|s| s.occupant == Occupant::Task(i));
            prop_assert_eq!(of_task.map(|s| s.end_ns - s.start_ns).sum::<u64>(), got.cpu_ns);
            prop_assert!(got.longest_wait_ns <= got.waiting_ns);
            prop_assert!(got.finish_ns.is_some() && got.response_ns <= got.turnaround_ns);
        }
        let last = result.tasks.iter().filter_map(|t| t.finish_ns).max();
        prop_assert_eq!(last, Some(result.summary.makespan_ns));
    }

    #[test]
    fn a_cpu_does_one_thing_at_a_time_without_gaps(
        tasks in any_tasks(), settings in any_settings(),
    ) {
        let result = run(&tasks, &settings);
        for cpu in 0..settings.cpus {
            let mut reached_ns = 0;
            for segment in result.segments.iter().filter(|s| s.cpu == cpu) {
                prop_assert_eq!(segment.start_ns, reached_ns);
                prop_assert!(segment.end_ns > segment.start_ns);
                reached_ns = segment.end_ns;
            }
            prop_assert_eq!(reached_ns, result.summary.makespan_ns);
        }
    }

    #[test]
    fn a_task_is_in_one_place_at_a_time(tasks in any_tasks(), settings in any_settings()) {
        let result = run(&tasks, &settings);
        for (i, task) in tasks.iter().enumerate() {
            let busy = busy(&result, i);
            prop_assert!(busy[0].0 >= task.arrival.0);
            prop_assert!(busy.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{busy:?}");
            prop_assert_eq!(busy.last().map(|last| last.1), result.tasks[i].finish_ns);
        }
    }

    #[test]
    fn no_cpu_idles_while_a_task_waits(tasks in any_tasks(), settings in any_settings()) {
        let result = run(&tasks, &settings);
        for (i, task) in tasks.iter().enumerate() {
            let mut from_ns = task.arrival.0;
            for (start, end) in busy(&result, i) {
                let idle = result.segments.iter().filter(|s| s.occupant == Occupant::Idle);
                for gap in idle {
                    let overlap = gap.start_ns.max(from_ns) < gap.end_ns.min(start);
                    prop_assert!(!overlap, "T{i} waits {from_ns} to {start}, {gap:?}");
                }
                from_ns = end;
            }
        }
    }

    #[test]
    fn the_same_input_gives_the_same_schedule(tasks in any_tasks(), settings in any_settings()) {
        prop_assert_eq!(run(&tasks, &settings), run(&tasks, &settings));
    }

    #[test]
    fn srtf_has_the_smallest_mean_turnaround(tasks in any_tasks(), settings in any_settings()) {
        let single = |task: &Task| Task { bursts: task.bursts[..1].to_vec(), ..task.clone() };
        let tasks: Vec<Task> = tasks.iter().map(single).collect();
        let settings = Settings { cpus: 1, switch_cost: Nanos(0), ..settings };
        let best = run(&tasks, &Settings { policy: "srtf".into(), ..settings.clone() });
        let other = run(&tasks, &settings);
        prop_assert!(best.summary.turnaround_ns_mean <= other.summary.turnaround_ns_mean);
    }

    #[test]
    fn fcfs_keeps_the_order(tasks in any_tasks()) {
        let single = |task: &Task| Task { bursts: task.bursts[..1].to_vec(), ..task.clone() };
        let tasks: Vec<Task> = tasks.iter().map(single).collect();
        let result = run(&tasks, &Settings { policy: "fcfs".into(), ..Settings::default() });
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|i| (tasks[*i].arrival, *i));
        let finishes: Vec<_> = order.iter().map(|i| result.tasks[*i].finish_ns).collect();
        prop_assert!(finishes.windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// Waldspurger and Weihl: of the quanta of any two clients neither has one more than its due.
    #[test]
    fn stride_is_within_one_quantum_pairwise(weights in prop::collection::vec(1u64..500, 2..7)) {
        let (result, tasks) = hogs("stride", &weights, &[], 400);
        let mut quanta = vec![0i128; tasks];
        for segment in result.segments {
            if let Occupant::Task(i) = segment.occupant {
                quanta[i] += i128::from((segment.end_ns - segment.start_ns) / (2 * MS));
            }
            for (a, wa) in weights.iter().enumerate() {
                for (b, wb) in weights.iter().enumerate() {
                    let error = quanta[a] * i128::from(*wb) - quanta[b] * i128::from(*wa);
                    prop_assert!(error.abs() <= i128::from(wa + wb), "{quanta:?} {weights:?}");
                }
            }
        }
    }

    /// Stoica and Abdel-Wahab, theorem 1: the lag stays within the longest slice.
    #[test]
    fn eevdf_lag_is_within_the_longest_slice(
        weights in prop::collection::vec(1u64..3000, 2..7),
        slices in prop::collection::vec(1u64..12, 7),
    ) {
        let (result, tasks) = hogs("eevdf", &weights, &slices, 600);
        let load: u64 = weights.iter().sum();
        let longest_ns = (slices[..tasks].iter().max().unwrap() * MS) as f64;
        let mut got = vec![0u64; tasks];
        for segment in result.segments {
            if let Occupant::Task(i) = segment.occupant {
                got[i] += segment.end_ns - segment.start_ns;
            }
            for (i, weight) in weights.iter().enumerate() {
                let due = segment.end_ns as f64 * *weight as f64 / load as f64;
                let lag = due - got[i] as f64;
                prop_assert!(lag.abs() <= longest_ns + 1000.0, "lag of T{i}: {lag} {weights:?}");
            }
        }
    }
}

/// Tasks that never block, for `until_ms`, quantum 2 ms.
fn hogs(policy: &str, weights: &[u64], slices: &[u64], until_ms: u64) -> (CpuResult, usize) {
    let hog = |(i, weight): (usize, &u64)| Task {
        slice: slices.get(i).map(|ms| Nanos(ms * MS)),
        ..task(i, 0, vec![until_ms * 1000], 0, *weight)
    };
    let tasks: Vec<Task> = weights.iter().enumerate().map(hog).collect();
    let settings = Settings {
        policy: policy.into(),
        quantum: Nanos(2 * MS),
        until: Some(Nanos(until_ms * MS)),
        ..Settings::default()
    };
    (run(&tasks, &settings), tasks.len())
}
