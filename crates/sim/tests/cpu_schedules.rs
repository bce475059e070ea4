//! Schedules computed by hand, mostly textbook examples; times are milliseconds.

#![allow(clippy::unwrap_used)]

use schedlab_model::Nanos;
use schedlab_sim::cpu::{parse_tasks, simulate, CpuResult, Kernel, LagLimit, Occupant, Settings};
use schedlab_sim::Stop;

const MS: u64 = 1_000_000;

fn with_policy(policy: &str) -> Settings {
    Settings {
        policy: policy.into(),
        ..Settings::default()
    }
}

/// The same without features of the kernel that a textbook does not have.
fn textbook(policy: &str) -> Settings {
    let mut settings = with_policy(policy);
    settings.eevdf.initial_half = Some(false);
    settings.eevdf.run_to_parity = Some(false);
    settings.cfs.start_debit = Some(false);
    settings
}

fn rr(quantum_ms: u64) -> Settings {
    Settings {
        quantum: Nanos(quantum_ms * MS),
        ..with_policy("rr")
    }
}

fn run(tasks: &str, settings: &Settings) -> CpuResult {
    simulate(&parse_tasks(tasks).unwrap(), settings, &Stop::default()).unwrap()
}

/// "A0-2 B2-4 -4-6": what the CPU did, in ms.
fn schedule(result: &CpuResult, cpu: usize) -> String {
    let name = |occupant| match occupant {
        Occupant::Task(task) => result.tasks[task].name.clone(),
        Occupant::Switch(_) => "x".into(),
        Occupant::Idle => "-".into(),
    };
    let on_cpu = result.segments.iter().filter(|s| s.cpu == cpu);
    let texts: Vec<String> = on_cpu
        .map(|s| format!("{}{}-{}", name(s.occupant), s.start_ns / MS, s.end_ns / MS))
        .collect();
    texts.join(" ")
}

fn waits_ms(result: &CpuResult) -> Vec<u64> {
    result.tasks.iter().map(|t| t.waiting_ns / MS).collect()
}

#[test]
fn fcfs_convoy() {
    let convoy = run("P1:0:24,P2:0:3,P3:0:3", &with_policy("fcfs"));
    assert_eq!(waits_ms(&convoy), [0, 24, 27]);
    let short_first = run("P2:0:3,P3:0:3,P1:0:24", &with_policy("fcfs"));
    assert_eq!(waits_ms(&short_first), [0, 3, 6]);
}

#[test]
fn fcfs_convoy_behind_io_tasks() {
    // The I/O task uses the CPU for 1 of every 6 ms alone, but waits behind the long task.
    let result = run("L:0:10,I:0:1/2/1/2/1", &with_policy("fcfs"));
    assert_eq!(
        schedule(&result, 0),
        "L0-10 I10-11 -11-13 I13-14 -14-16 I16-17"
    );
    assert_eq!(result.tasks[1].io_ns, 4 * MS);
    assert_eq!(result.tasks[1].waiting_ns, 10 * MS);
}

#[test]
fn sjf_and_srtf() {
    let sjf = run("P1:0:6,P2:0:8,P3:0:7,P4:0:3", &with_policy("sjf"));
    assert_eq!(waits_ms(&sjf), [3, 16, 9, 0]);
    let tasks = "P1:0:8,P2:1:4,P3:2:9,P4:3:5";
    let srtf = run(tasks, &with_policy("srtf"));
    assert_eq!(schedule(&srtf, 0), "P10-1 P21-5 P45-10 P110-17 P317-26");
    assert_eq!(srtf.summary.waiting_ns_mean, 6.5e6);
    let sjf = run(tasks, &with_policy("sjf"));
    assert_eq!(sjf.summary.waiting_ns_mean, 7.75e6);
}

#[test]
fn srtf_does_not_preempt_on_a_tie() {
    let result = run("A:0:6,B:2:4", &with_policy("srtf"));
    assert_eq!(schedule(&result, 0), "A0-6 B6-10");
}

#[test]
fn priority_with_and_without_preemption() {
    let tasks = "P1:0:10:prio=3,P2:0:1:prio=1,P3:0:2:prio=4,P4:0:1:prio=5,P5:0:5:prio=2";
    assert_eq!(
        waits_ms(&run(tasks, &with_policy("priority"))),
        [6, 0, 16, 18, 1]
    );
    let tasks = "L:0:6:prio=5,H:2:3:prio=1";
    let calm = run(tasks, &with_policy("priority"));
    assert_eq!(schedule(&calm, 0), "L0-6 H6-9");
    let result = run(tasks, &with_policy("priority-preemptive"));
    assert_eq!(schedule(&result, 0), "L0-2 H2-5 L5-9");
    assert_eq!(result.tasks[0].involuntary_switches, 1);
}

#[test]
fn aging_ends_starvation() {
    let tasks = "A:0:10:prio=1,L:0:5:prio=4,B:5:10:prio=1,C:15:10:prio=1";
    let mut settings = with_policy("priority");
    assert_eq!(
        schedule(&run(tasks, &settings), 0),
        "A0-10 B10-20 C20-30 L30-35"
    );
    // At 20 L has gained 4 levels and C one: both are at 0, and L came first.
    settings.aging = Some(Nanos(5 * MS));
    assert_eq!(
        schedule(&run(tasks, &settings), 0),
        "A0-10 B10-20 L20-25 C25-35"
    );
    // Level 0 is strictly better than 1 only after 15 ms.
    settings.policy = "priority-preemptive".into();
    let result = run("A:0:20:prio=1,L:0:5:prio=3", &settings);
    assert_eq!(schedule(&result, 0), "A0-15 L15-20 A20-25");
}

#[test]
fn what_aging_gave_ends_with_the_burst() {
    let mut settings = with_policy("priority");
    settings.aging = Some(Nanos(5 * MS));
    // L had gained 3 levels when it got the CPU at 15; back at 17 it is at level 4 again.
    let result = run(
        "A:0:15:prio=1,L:0:1/1/1:prio=4,C:16:3:prio=0,B:17:1:prio=2",
        &settings,
    );
    assert_eq!(schedule(&result, 0), "A0-15 L15-16 C16-19 B19-20 L20-21");
}

#[test]
fn round_robin_ties_and_idle_gaps() {
    assert_eq!(waits_ms(&run("P1:0:24,P2:0:3,P3:0:3", &rr(4))), [6, 4, 7]);
    // B comes exactly when A's quantum ends: it is queued before A.
    let result = run("A:0:5,B:2:2,C:10:1", &rr(2));
    assert_eq!(schedule(&result, 0), "A0-2 B2-4 A4-7 -7-10 C10-11");
    assert_eq!(result.summary.utilisation, 8.0 / 11.0);
    assert_eq!(result.tasks[0].bursts, 2);
}

#[test]
fn round_robin_waits_at_most_n_minus_1_quanta() {
    let result = run("A:0:50,B:0:50,C:0:50,D:0:50", &rr(5));
    assert!(result.tasks.iter().all(|t| t.longest_wait_ns == 15 * MS));
    let fcfs_limit = run("A:0:50,B:0:50", &rr(1000));
    assert_eq!(schedule(&fcfs_limit, 0), "A0-50 B50-100");
}

#[test]
fn a_switch_costs_time_and_is_nobodys_cpu_time() {
    let mut settings = rr(2);
    settings.switch_cost = Nanos(MS);
    let result = run("A:0:4,B:0:4", &settings);
    assert_eq!(schedule(&result, 0), "A0-2 x2-3 B3-5 x5-6 A6-8 x8-9 B9-11");
    assert_eq!(
        (result.summary.switches, result.tasks[0].cpu_ns),
        (3, 4 * MS)
    );
    assert_eq!(result.summary.switch_share, 3.0 / 11.0);
    assert_eq!(result.tasks[1].response_ns, Some(3 * MS));
}

#[test]
fn quanta_are_rounded_up_to_jiffies() {
    for (requested_ms, effective_ms) in [(1, 4), (4, 4), (5, 8), (10, 12), (100, 100)] {
        let mut settings = rr(requested_ms);
        settings.hz = Some(250);
        let result = run("A:0:300,B:0:300", &settings);
        assert_eq!(result.quantum_effective, Nanos(effective_ms * MS));
        assert_eq!(result.segments[0].end_ns, effective_ms * MS);
    }
}

#[test]
fn with_ticks_a_slice_ends_at_one_and_goes_on_after_a_sleep() {
    let mut settings = rr(8);
    settings.hz = Some(250);
    // A met the tick at 4 before it slept from 6 to 9, B those at 8 and 12; A has one left.
    let result = run("A:0:6/3/10,B:1:20", &settings);
    let turns = "A0-6 B6-12 A12-16 B16-24 A24-30 B30-36";
    assert_eq!(schedule(&result, 0), turns);
    // What a switch costs does not move the ticks.
    settings.switch_cost = Nanos(MS);
    let result = run("A:0:16,B:0:15", &settings);
    assert_eq!(
        schedule(&result, 0),
        "A0-8 x8-9 B9-16 x16-17 A17-24 x24-25 B25-32 x32-33 A33-34 x34-35 B35-36"
    );
    for policy in ["eevdf", "cfs"] {
        let settings = Settings {
            hz: Some(250),
            latency: Nanos(MS),
            quantum: Nanos(700_000),
            ..textbook(policy)
        };
        let result = run("A:0:12,B:0:12", &settings);
        assert_eq!(schedule(&result, 0), "A0-4 B4-8 A8-12 B12-16 A16-20 B20-24");
    }
}

#[test]
fn eevdf_lets_a_task_that_is_owed_continue_tick_by_tick_until_it_is_not() {
    let mut settings = textbook("eevdf");
    (settings.hz, settings.quantum) = (Some(250), Nanos(700_000));
    settings.eevdf.run_to_parity = Some(true);
    // A weighs three times as much. Each tick ends its slice; it is eligible at 4, 8 and 12 only
    // where B has had its share.
    let result = run("A:0:24:weight=3072,B:0:8", &settings);
    assert_eq!(schedule(&result, 0), "A0-4 B4-8 A8-20 B20-24 A24-32");
}

#[test]
fn mlfq_demotes_by_allotment_even_when_a_task_blocks_early() {
    let mut settings = with_policy("mlfq");
    (settings.levels, settings.quantum) = (2, Nanos(2 * MS));
    // G used its 2 ms at the top in two bursts; from 5 on it is no better than H.
    let result = run("G:0:1/1/1/1/1,H:0:10", &settings);
    assert_eq!(schedule(&result, 0), "G0-1 H1-3 G3-4 H4-8 G8-9 H9-13");
}

#[test]
fn mlfq_boost_ends_starvation() {
    let stream: Vec<String> = (1..=12).map(|i| format!("S{i}:{}:1", i + 1)).collect();
    let tasks = format!("A:0:6,{}", stream.join(","));
    let mut settings = with_policy("mlfq");
    (settings.levels, settings.quantum) = (2, Nanos(MS));
    let of_a = |result: &CpuResult| -> Vec<(u64, u64)> {
        let runs = result
            .segments
            .iter()
            .filter(|s| s.occupant == Occupant::Task(0));
        runs.map(|s| (s.start_ns / MS, s.end_ns / MS)).collect()
    };
    assert_eq!(of_a(&run(&tasks, &settings)), [(0, 2), (14, 18)]);
    settings.boost = Some(Nanos(5 * MS));
    assert_eq!(
        of_a(&run(&tasks, &settings))[..3],
        [(0, 2), (6, 7), (12, 13)]
    );
}

#[test]
fn a_task_whose_last_burst_ends_at_the_limit_has_ended() {
    let mut settings = with_policy("fcfs");
    for (until_ms, b_ms) in [(10, Some(10 * MS)), (9, None)] {
        settings.until = Some(Nanos(until_ms * MS));
        let result = run("A:0:6,B:0:4,C:0:2/1/1", &settings);
        let finishes: Vec<_> = result.tasks.iter().map(|task| task.finish_ns).collect();
        assert_eq!(finishes, [Some(6 * MS), b_ms, None]);
    }
    settings.until = Some(Nanos(12 * MS));
    let result = run("A:0:6,B:0:4,C:0:2/1/1", &settings);
    assert_eq!(result.tasks[2].finish_ns, None, "one burst is left");
}

#[test]
fn stride_textbook_order() {
    // 100, 50, 250 tickets (Arpaci-Dusseau, chapter 9): A B C C C A C C, then all are equal.
    let mut settings = with_policy("stride");
    settings.quantum = Nanos(10 * MS);
    let tasks = "A:0:999:tickets=100,B:0:999:tickets=50,C:0:999:tickets=250";
    settings.until = Some(Nanos(80 * MS));
    let result = run(tasks, &settings);
    assert_eq!(schedule(&result, 0), "A0-10 B10-20 C20-50 A50-60 C60-80");
}

#[test]
fn stride_does_not_let_a_sleeper_catch_up() {
    let mut settings = with_policy("stride");
    settings.quantum = Nanos(2 * MS);
    let result = run("A:0:40,S:0:2/20/8", &settings);
    let late = result.segments.iter().skip_while(|s| s.start_ns < 24 * MS);
    let longest = late
        .filter(|s| s.occupant == Occupant::Task(1))
        .map(|s| s.end_ns - s.start_ns)
        .max();
    assert_eq!(longest, Some(2 * MS), "one quantum, then the other again");
}

#[test]
fn lottery_shares_follow_the_tickets_and_the_seed() {
    let mut settings = with_policy("lottery");
    settings.quantum = Nanos(MS);
    settings.until = Some(Nanos(20_000 * MS));
    let tasks = "A:0:20000:tickets=75,B:0:20000:tickets=25";
    let first = run(tasks, &settings);
    // 20,000 draws at p = 0.25: 3 standard deviations are 184.
    let won = first.tasks[1].cpu_ns / MS;
    assert!((4816..=5184).contains(&won), "{won}");
    assert_eq!(first, run(tasks, &settings));
    settings.seed = 2;
    assert_ne!(first.segments, run(tasks, &settings).segments);
}

#[test]
fn cfs_shares_by_weight_and_favours_who_slept() {
    let result = run("A:0:24,B:0:24", &textbook("cfs"));
    assert_eq!(schedule(&result, 0), "A0-12 B12-24 A24-36 B36-48");
    // A's virtual time is 32 when B wakes, B's is set to 32 − 12 = 20.
    let result = run("A:0:60,B:0:2/20/2", &textbook("cfs"));
    assert_eq!(schedule(&result, 0), "A0-12 B12-14 A14-34 B34-36 A36-64");
    let mut settings = textbook("cfs");
    settings.until = Some(Nanos(10_000 * MS));
    let result = run("A:0:20000:nice=0,B:0:20000:nice=5", &settings);
    let ratio = result.tasks[0].cpu_ns as f64 / result.tasks[1].cpu_ns as f64;
    assert!((ratio / (1024.0 / 335.0) - 1.0).abs() < 0.01, "{ratio}");
}

#[test]
fn cfs_keeps_its_floor_while_nobody_is_runnable() {
    // B joins at the 20 ms that A had, not at 0; A is 5 ms behind it at 30.
    let result = run("A:0:20/10/20,B:25:30", &textbook("cfs"));
    let expected = "A0-20 -20-25 B25-30 A30-42 B42-54 A54-62 B62-75";
    assert_eq!(schedule(&result, 0), expected);
}

#[test]
fn eevdf_eligibility_holds_back_the_short_slice() {
    // B (slice 2) always has the earlier deadline, but at 2 and at 22 it is ahead of V.
    let result = run("A:0:20:slice=10,B:0:12:slice=2", &textbook("eevdf"));
    assert_eq!(schedule(&result, 0), "B0-2 A2-12 B12-22 A22-32");
}

#[test]
fn eevdf_lets_an_earlier_deadline_preempt_when_it_joins() {
    let result = run("A:0:30:slice=10,B:3:4:slice=2", &textbook("eevdf"));
    // At 5 B is ahead of V; A finishes the 7 ms left of its slice; then B is behind.
    assert_eq!(schedule(&result, 0), "A0-3 B3-5 A5-12 B12-14 A14-34");
}

#[test]
fn eevdf_keeps_the_lag_over_a_sleep() {
    // B runs 4 ms at once, is 2 ms ahead of V when it blocks, and has to wait those out after.
    let result = run("A:0:60:slice=4,B:0:4/1/4:slice=4", &textbook("eevdf"));
    let expected = run("A:0:60:slice=4,B:5:4:slice=4", &textbook("eevdf"));
    let second = |r: &CpuResult| {
        let of_b = r
            .segments
            .iter()
            .filter(|s| s.occupant == Occupant::Task(1));
        of_b.map(|s| s.start_ns).next_back()
    };
    assert!(
        second(&result) > second(&expected),
        "{}",
        schedule(&result, 0)
    );
}

#[test]
fn a_new_task_gets_half_a_slice_first() {
    let tasks = "A:0:10:slice=4,B:0:10:slice=4";
    let mut settings = textbook("eevdf");
    assert_eq!(
        schedule(&run(tasks, &settings), 0),
        "A0-4 B4-8 A8-12 B12-16 A16-18 B18-20"
    );
    settings.eevdf.initial_half = None;
    assert_eq!(
        schedule(&run(tasks, &settings), 0),
        "A0-2 B2-4 A4-8 B8-12 A12-16 B16-20"
    );
}

#[test]
fn a_woken_task_gets_a_whole_slice() {
    // B, owed 0.5 ms when it blocked at 3, joins 1 ms behind A and keeps the CPU for 4 ms.
    let mut settings = textbook("eevdf");
    settings.eevdf.initial_half = None;
    let result = run("A:0:10:slice=4,B:0:1/1/4:slice=4", &settings);
    assert_eq!(schedule(&result, 0), "A0-2 B2-3 A3-4 B4-8 A8-15");
}

#[test]
fn a_woken_task_waits_for_parity_unless_its_slice_is_shorter() {
    let tasks = "A:0:30:slice=10,B:3:4:slice=2";
    let mut settings = textbook("eevdf");
    settings.eevdf.run_to_parity = Some(true);
    assert_eq!(schedule(&run(tasks, &settings), 0), "A0-10 B10-14 A14-34");
    settings.eevdf.preempt_short = Some(true);
    let cut = "A0-3 B3-5 A5-12 B12-14 A14-34";
    assert_eq!(schedule(&run(tasks, &settings), 0), cut);
}

/// `check_preempt_wakeup_fair`: at 1 R is ahead of V, and the queue would pick X, not Y.
#[test]
fn only_a_woken_task_that_is_the_pick_of_all_preempts() {
    let mut settings = with_policy("eevdf");
    settings.kernel = Some(Kernel::V6_6);
    settings.eevdf.slice = Some(Nanos(4 * MS));
    let schedule = schedule(&run("R:0:12,X:0:12,Y:1:6", &settings), 0);
    assert!(schedule.starts_with("R0-2 X2-4 Y4-6 R6-10"), "{schedule}");
}

#[test]
fn a_task_that_ran_too_much_sleeps_it_off_in_the_queue() {
    // B blocks at 10, 1 ms ahead of V; at 13 it is behind, and A ahead.
    let mut settings = textbook("eevdf");
    let three = "A:0:40:slice=4,B:0:6/3/3:slice=8";
    let six = "A:0:40:slice=4,B:0:6/6/3:slice=8";
    let of = |settings: &Settings, tasks| schedule(&run(tasks, settings), 0);
    assert_eq!(of(&settings, three), "A0-4 B4-10 A10-18 B18-21 A21-49");
    settings.eevdf.delay_dequeue = Some(true);
    // Back before it left, it has the 2 ms left of its slice, and is not eligible then.
    let early = "A0-4 B4-10 A10-13 B13-15 A15-20 B20-21 A21-49";
    assert_eq!(of(&settings, three), early);
    // At 14 it leaves, owed 1 ms, or nothing.
    assert_eq!(of(&settings, six), "A0-4 B4-10 A10-16 B16-19 A19-49");
    settings.eevdf.delay_zero = Some(true);
    assert_eq!(of(&settings, six), "A0-4 B4-10 A10-18 B18-21 A21-49");
}

#[test]
fn the_lag_of_a_sleeper_is_limited() {
    // B is owed 9 ms when it blocks at 21.
    let tasks = "A:0:60:slice=20,B:1:1/1/14:slice=2";
    let mut settings = textbook("eevdf");
    settings.eevdf.run_to_parity = Some(true);
    let two_slices = "A0-20 B20-21 A21-22 B22-32 A32-51 B51-55 A55-75";
    assert_eq!(schedule(&run(tasks, &settings), 0), two_slices);
    settings.eevdf.lag_limit = LagLimit::LargestSlice;
    let largest = "A0-20 B20-21 A21-22 B22-36 A36-75";
    assert_eq!(schedule(&run(tasks, &settings), 0), largest);
}

#[test]
fn a_kernel_sets_its_features_together() {
    for (kernel, cpus, slice_us) in [
        (Kernel::V6_6, 1, 750),
        (Kernel::V6_12, 2, 1_400),
        (Kernel::V6_15, 16, 2_800),
    ] {
        let mut settings = with_policy("eevdf");
        (settings.kernel, settings.cpus) = (Some(kernel), cpus);
        let tasks: Vec<String> = (0..=cpus).map(|i| format!("T{i}:0:30")).collect();
        let result = run(&tasks.join(","), &settings);
        let first = result.segments.iter().filter(|s| s.start_ns == 0);
        let shortest_ns = first.map(|s| s.end_ns).min();
        // New tasks begin with half a slice.
        assert_eq!(shortest_ns, Some(slice_us * 500), "{kernel:?}");
    }
    let tasks = "A:0:40:slice=4,B:0:6/6/3:slice=8";
    let mut settings = textbook("eevdf");
    settings.kernel = Some(Kernel::V6_12);
    assert_eq!(
        schedule(&run(tasks, &settings), 0),
        "A0-4 B4-10 A10-18 B18-21 A21-49"
    );
    settings.kernel = Some(Kernel::V6_6);
    let until_25 = "A0-4 B4-10 A10-22 B22-25";
    assert!(schedule(&run(tasks, &settings), 0).starts_with(until_25));
}

#[test]
fn cfs_lets_a_new_task_start_behind() {
    let tasks = "A:0:36,B:0:36";
    let mut settings = textbook("cfs");
    let level = "A0-12 B12-24 A24-36 B36-48 A48-60 B60-72";
    assert_eq!(schedule(&run(tasks, &settings), 0), level);
    settings.cfs.start_debit = None;
    // A starts at 24, B at 24 + 12: equal after 12 ms, when A was first.
    let behind = "A0-24 B24-36 A36-48 B48-72";
    assert_eq!(schedule(&run(tasks, &settings), 0), behind);
}

/// C joins behind A, which is ahead of B at 40: that is no reason to let B preempt A.
#[test]
fn cfs_lets_only_the_task_that_joins_preempt() {
    let mut settings = with_policy("cfs");
    settings.latency = Nanos(24 * MS);
    let schedule = schedule(&run("A:0:90,B:0:90,C:40:40", &settings), 0);
    let until_52 = "A0-24 B24-36 A36-44 B44-52";
    assert!(schedule.starts_with(until_52), "{schedule}");
}

#[test]
fn a_task_returns_to_the_cpu_where_it_ran() {
    let mut settings = with_policy("fcfs");
    settings.cpus = 2;
    let result = run("A:0:2/2/2,B:0:1/2/4", &settings);
    assert_eq!(schedule(&result, 0), "A0-2 -2-4 A4-6 -6-7");
    assert_eq!(schedule(&result, 1), "B0-1 -1-3 B3-7");
}

#[test]
fn two_cpus_share_one_queue() {
    let mut settings = with_policy("fcfs");
    settings.cpus = 2;
    let result = run("A:0:4,B:0:6,C:0:4", &settings);
    assert_eq!(schedule(&result, 0), "A0-4 C4-8");
    assert_eq!(schedule(&result, 1), "B0-6 -6-8");
    assert_eq!(result.summary.utilisation, 14.0 / 16.0);
}

#[test]
fn impossible_input_names_its_key() {
    let refused = |tasks: &str, settings: &Settings| match parse_tasks(tasks) {
        Ok(tasks) => simulate(&tasks, settings, &Stop::default())
            .unwrap_err()
            .to_string(),
        Err(error) => error.to_string(),
    };
    let mut broken = with_policy("fair");
    assert!(refused("A:0:1", &broken)
        .starts_with("policy = \"fair\" is not known: expected one of fcfs, sjf"));
    broken = rr(0);
    assert!(refused("A:0:1", &broken).starts_with("quantum = 0 ns: expected"));
    broken = rr(1);
    broken.cpus = 0;
    assert!(refused("A:0:1", &broken).starts_with("cpus = 0: expected 1 to 1024"));
    let settings = rr(1);
    assert!(refused("", &settings).starts_with("tasks = none"));
    assert!(refused("A:0:0", &settings).starts_with("task \"A\": burst = 0 ns"));
    assert!(refused("A:0:1/2", &settings).contains("odd number"));
    assert!(refused("A:0:1,A:0:1", &settings).starts_with("name = A"));
    assert!(refused("A:0:1:nice=20", &settings).contains("-20 to 19"));
    assert!(refused("A:0:1:weight=0", &settings).contains("weight = 0"));
    assert!(refused("A:0", &settings).contains("a part is missing"));
    assert!(refused("A:0:1:x=1", &settings).contains("key \"x\" is not known"));
    let tasks = parse_tasks("A:0:999999,B:0:999999").unwrap();
    broken = rr(1);
    broken.quantum = Nanos(1);
    let stop = Stop::default();
    stop.set();
    let stopped = simulate(&tasks, &broken, &stop).unwrap_err();
    assert_eq!(stopped.to_string(), "the simulation was stopped");
}
