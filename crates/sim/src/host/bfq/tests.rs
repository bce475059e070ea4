//! The fair queue, budgets, waits and charges, worked out by hand.
#![allow(clippy::unwrap_used)]

use super::super::tests::{context, Bench, MS};
use super::super::{IoContext, Scheduler};
use super::queue::{Queue, Raised, Reason};
use super::Bfq;

fn weighing(owner: u32, weight: u16) -> IoContext {
    IoContext {
        weight,
        ..context(owner)
    }
}

#[test]
fn the_nearest_ahead_comes_first_and_a_little_back_is_near() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    bench.scheduler.last_position = 500;
    bench.add("R400 R560 R700 R100000");
    assert_eq!(bench.drain(), "R560 R700 R400 R100000");
}

#[test]
fn service_goes_by_weight_and_no_queue_runs_ahead() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,slice_idle=0,x_queue_merge=0");
    for request in 0..20_000 {
        bench.add_as(&format!("R{}", request * 8), weighing(0, 40));
        bench.add_as(&format!("R{}", 10_000_000 + request * 8), weighing(1, 80));
    }
    let mut slots: Vec<(u32, u64)> = Vec::new();
    while slots.len() < 9 {
        let id = bench.take().unwrap();
        let request = bench.ctx.requests[id];
        match slots.last_mut() {
            Some((queue, sectors)) if *queue == request.queue && *sectors < 16384 => {
                *sectors += 8;
            }
            _ => slots.push((request.queue, 8)),
        }
        bench.complete(id);
    }
    let order: String = slots[..8]
        .iter()
        .map(|(queue, _)| ["A", "B"][*queue as usize])
        .collect();
    assert_eq!(order, "BABABBAB");
    let sectors: Vec<u64> = slots[..8].iter().map(|(_, sectors)| *sectors).collect();
    assert_eq!(
        sectors,
        [10920, 10920, 16384, 16384, 16384, 16384, 16384, 16384]
    );
}

#[test]
fn budgets_follow_the_reason_of_the_expiry() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    bench.add("R100");
    for (reason, service, budget) in [
        (Reason::TooIdle, 0, 8874),
        (Reason::Exhausted, 0, 16384),
        (Reason::Timeout, 0, 16384),
        (Reason::NoMore, 100, 512),
        (Reason::Preempted, 100, 10922),
    ] {
        bench.scheduler.queues[0].max_budget = 10922;
        bench.scheduler.queues[0].service = service;
        bench.scheduler.recalculate_budget(&bench.ctx, 0, reason);
        assert_eq!(bench.scheduler.queues[0].max_budget, budget, "{reason:?}");
    }
}

#[test]
fn a_queue_is_waited_for_by_its_kind() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    bench.add("R8");
    assert_eq!(bench.scheduler.wait_ns(0), 8 * MS);
    let far = bench.ctx.requests[0];
    for step in 0..32 {
        let request = crate::host::HostRequest {
            sector: step * 1_000_000,
            ..far
        };
        bench.scheduler.queues[0].seeks.add(&request);
    }
    assert_eq!(bench.scheduler.wait_ns(0), 2 * MS);
    bench.scheduler.queues[0].raised = Raised::Interactive;
    assert_eq!(bench.scheduler.wait_ns(0), 20 * MS);
}

#[test]
fn an_async_sector_is_charged_three_times() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    bench.add("W8");
    let id = bench.take().unwrap();
    assert_eq!(bench.scheduler.queues[0].service, 24);
    bench.complete(id);
}

#[test]
fn virtual_time_never_goes_back() {
    let mut bench = Bench::<Bfq>::new("bfq");
    let mut last = 0;
    for round in 0..3000_u64 {
        bench.ctx.now_ns += 700_000 * (round % 9);
        bench.add_as(
            &format!("R{}", round * 7919 % 1_000_000),
            context((round % 7) as u32),
        );
        if round % 3 == 0 {
            if let Some(timer_ns) = bench.scheduler.next_timer() {
                if timer_ns <= bench.ctx.now_ns {
                    bench.scheduler.timer(&mut bench.ctx);
                }
            }
            while let Some(id) = bench.take() {
                bench.complete(id);
            }
        }
        let time = bench.scheduler.trees[1].time;
        assert!(time >= last);
        last = time;
    }
}

#[test]
fn a_new_process_is_raised_and_a_large_burst_is_not() {
    let mut bench = Bench::<Bfq>::new("bfq:x_stable_merge=0,x_queue_merge=0");
    bench.add("R8");
    assert_eq!(bench.scheduler.queues[0].raised, Raised::Interactive);
    for owner in 1..9 {
        bench.add_as(&format!("R{}", owner * 1_000_000), context(owner));
    }
    let raised = |queue: &Queue| queue.raised == Raised::Interactive && !queue.in_large_burst;
    assert!(!bench.scheduler.queues.iter().any(raised));
}
