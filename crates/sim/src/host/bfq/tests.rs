//! The fair queue, budgets, waits and charges, worked out by hand.
#![allow(clippy::unwrap_used)]

use super::super::tests::{context, Bench, MS};
use super::super::{Class, Ctx, HostRequest, Id, IoContext, Scheduler};
use super::queue::{Queue, Raised, Reason, Standing};
use super::Bfq;

impl Bfq {
    /// Hands out a certain request, whose queue gets a slot for it.
    pub(in crate::host) fn serve_that(&mut self, ctx: &mut Ctx, request: Id) {
        let id = ctx.requests[request].queue;
        if self.in_service != Some(id) {
            if let Some(serving) = self.in_service {
                self.expire(ctx, serving, false, Reason::NoMore);
            }
            self.next = Some(id);
            self.start_slot(ctx);
        }
        self.queues[id as usize].requests.next = Some(request);
        self.serve(ctx, id);
    }
}

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
        bench.scheduler.queues[0].seeks.add(&request, true);
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

/// `bfqq_non_merged_or_stably_merged`
#[test]
fn a_queue_of_processes_that_read_close_to_each_other_is_not_raised() {
    for (is_shared, is_stable, raised) in [
        (false, false, Raised::Interactive),
        (true, true, Raised::Interactive),
        (true, false, Raised::No),
    ] {
        let mut bench = Bench::<Bfq>::new("bfq");
        bench.scheduler.queue_of(&bench.ctx, context(0), true);
        let queue = &mut bench.scheduler.queues[0];
        queue.is_shared = is_shared;
        bench.scheduler.process(0).is_stable = is_stable;
        bench.add("R8");
        let name = format!("shared {is_shared}, stable {is_stable}");
        assert_eq!(bench.scheduler.queues[0].raised, raised, "{name}");
    }
}

/// `bfq_bfqq_softrt_next_start`: slice_idle and 4 more jiffies.
#[test]
fn a_soft_real_time_process_pauses_for_slice_idle_and_4_ticks() {
    for (hz, slice_idle_ms, pause_ms) in [(250, 8, 24), (1000, 8, 12), (100, 8, 40), (250, 3, 16)] {
        let mut bench = Bench::<Bfq>::new(&format!("bfq:slice_idle={slice_idle_ms}"));
        bench.ctx.device.hz = hz;
        bench.add("R8");
        bench.scheduler.queues[0].backlogged_service = 0;
        let next_ns = bench.scheduler.soft_realtime_next(&bench.ctx, 0);
        assert_eq!(next_ns, pause_ms * MS, "{hz} Hz, {slice_idle_ms} ms");
    }
}

/// `bfq_completed_request`
#[test]
fn a_late_completion_makes_no_interactive_process_a_soft_real_time_one() {
    for (raised, is_set) in [(Raised::Interactive, false), (Raised::No, true)] {
        let mut bench = Bench::<Bfq>::new("bfq");
        bench.add("R8");
        let id = bench.take().unwrap();
        bench.scheduler.queues[0].soft_update = true;
        bench.scheduler.queues[0].soft_next_ns = None;
        if raised == Raised::No {
            bench.scheduler.end_raising(&bench.ctx, 0);
        }
        bench.scheduler.in_service = None;
        bench.complete(id);
        assert_eq!(
            bench.scheduler.queues[0].soft_next_ns.is_some(),
            is_set,
            "{raised:?}"
        );
    }
}

#[test]
fn a_request_is_late_after_125_ms_or_250_if_nobody_waits_for_it() {
    let mut bench = Bench::<Bfq>::new("bfq");
    for (text, late_ms) in [("R8", 125), ("W800", 250)] {
        let id = bench.add_as(text, context(0));
        assert_eq!(bench.ctx.requests[id].fifo_ns, late_ms * MS, "{text}");
    }
}

/// `bfq_serv_to_charge`: not where shares are kept by other means.
#[test]
fn an_async_sector_is_charged_once_beside_a_lower_weight() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    let id = bench.add_as("W8", context(0));
    let queue = bench.ctx.requests[id].queue;
    assert_eq!(bench.scheduler.charge(&bench.ctx, queue, id), 24);
    let lower = IoContext {
        level: 7,
        ..context(1)
    };
    bench.add_as("R900000", lower);
    assert_eq!(bench.scheduler.charge(&bench.ctx, queue, id), 8);
}

/// BFQ_CL_IDLE_TIMEOUT, HZ/5.
#[test]
fn the_idle_class_is_served_after_200_ms() {
    let idle = IoContext {
        class: Class::Idle,
        ..context(0)
    };
    for (now_ms, next) in [(200, 2), (204, 0)] {
        let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,x_queue_merge=0");
        bench.add_as("R8", idle);
        bench.add_as("R900000", context(1));
        bench.add_as("R5000000", context(2));
        bench.ctx.now_ns = now_ms * MS;
        bench.take().unwrap();
        assert_eq!(bench.scheduler.next, Some(next), "{now_ms} ms");
    }
}

#[test]
fn a_queue_that_was_empty_keeps_its_lead() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,x_queue_merge=0,x_stable_merge=0");
    bench.add_as("R8", context(0));
    bench.add_as("R900000", context(1));
    let Bench { ctx, scheduler, .. } = &mut bench;
    assert_eq!(scheduler.take_next(ctx), Some(0));
    scheduler.served(ctx, 0, 100);
    scheduler.deactivate(ctx, 0, true);
    scheduler.activate(ctx, 0, false);
    // 100 sectors at weight 40, while the virtual time is that of 100 sectors at weight 80.
    assert_eq!(scheduler.queues[0].start, (100 << 22) / 40);
    assert_eq!(scheduler.trees[1].time, (100 << 22) / 80);
    assert_eq!(scheduler.take_next(ctx), Some(1));
}

#[test]
fn interactive_raising_ends_after_120_000_sectors() {
    let mut bench = Bench::<Bfq>::new("bfq");
    bench.add("R8");
    for (sectors, raised) in [(120_000, Raised::Interactive), (120_001, Raised::No)] {
        bench.scheduler.queues[0].raised_service = sectors;
        bench.scheduler.update_raising(&bench.ctx, 0);
        assert_eq!(bench.scheduler.queues[0].raised, raised);
    }
}

/// `bfq_wr_coeff` 30, and BFQ_SOFTRT_WEIGHT_FACTOR 100 times that.
#[test]
fn a_raised_weight_is_30_or_3000_times_its_own() {
    let mut queue = Queue::new(context(0), true, 0, 0, 100);
    for (raised, times) in [
        (Raised::No, 1),
        (Raised::Interactive, 30),
        (Raised::SoftRealtime, 3000),
    ] {
        queue.raised = raised;
        assert_eq!(queue.coefficient(), times);
    }
}

/// `bfq_remove_request`: it was never in service, so that nothing expires it.
#[test]
fn a_queue_whose_only_request_is_injected_is_idle_until_the_next() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    let served = bench.add_as("R8", context(0));
    assert_eq!(bench.take(), Some(served));
    let injected = bench.add_as("R900000", context(1));
    bench.complete(served);
    let scheduler = &mut bench.scheduler;
    assert!(scheduler.queues[0].waits);
    assert_eq!(scheduler.busy_queues(), 2);
    assert_eq!(scheduler.serve(&mut bench.ctx, 1), Some(injected));
    let positions = (scheduler.in_service_position, scheduler.last_position);
    assert_eq!(positions, (16, 900_008));
    assert!(!scheduler.queues[1].is_busy);
    assert_eq!(
        (scheduler.busy_queues(), &scheduler.active_list[..]),
        (1, &[][..])
    );
    assert!(!matches!(scheduler.queues[1].standing, Standing::Active));
    let (budget, service) = (scheduler.queues[1].budget, scheduler.queues[1].service);
    assert_eq!((budget, service), (0, 0));
    assert_eq!(scheduler.queues[1].backlogged_service, 8);
    bench.add_as("R5000000", context(1));
    let queue = &bench.scheduler.queues[1];
    assert!(queue.is_busy);
    assert_eq!(
        (queue.backlogged_service, queue.budget),
        (0, queue.max_budget)
    );
}

/// `bfq_choose_bfqq_for_injection`
#[test]
fn one_large_request_at_a_time_is_injected_on_flash() {
    for (rotational, sectors, in_flight, injected) in [
        (false, 64, 1, None),
        (false, 64, 0, Some(1)),
        (false, 63, 1, Some(1)),
        (true, 64, 1, Some(1)),
    ] {
        let settings = "bfq:low_latency=0,x_queue_merge=0,x_stable_merge=0";
        let mut bench = Bench::<Bfq>::on(settings, rotational);
        bench.add_as("R8", context(0));
        let large = bench.add_as("R900000", context(1));
        bench.ctx.requests[large].sectors = sectors;
        let scheduler = &mut bench.scheduler;
        scheduler.queues[0].inject_limit = 2;
        // It is not waited for because that makes the device faster.
        scheduler.queues[0].io_bound = false;
        scheduler.in_flight = in_flight;
        let name = format!("{rotational} {sectors} {in_flight}");
        assert_eq!(scheduler.inject(&bench.ctx, 0), injected, "{name}");
    }
}

/// `nonrot_with_queueing` is true until a device of flash turns out not to queue.
#[test]
fn processes_that_start_together_on_flash_share_a_queue_from_the_first_request() {
    for (rotational, shared) in [(false, true), (true, false)] {
        let mut bench = Bench::<Bfq>::on("bfq:low_latency=0", rotational);
        let first = bench.add_as("R8", context(0));
        let second = bench.add_as("R5000000", context(1));
        let queues = [first, second].map(|id| bench.ctx.requests[id].queue);
        assert_eq!(queues[0] == queues[1], shared, "{rotational}");
    }
}

/// Each dispatch is followed by a nearer request: without a limit R900000 would never be next.
#[test]
fn a_request_that_waited_eight_times_as_long_is_passed_by_no_nearer_one() {
    let mut bench = Bench::<Bfq>::on("bfq:low_latency=0", false);
    bench.add("R900000 R8");
    let mut dispatched_ms = None;
    for step in 2..400 {
        bench.ctx.now_ns += 10 * MS;
        let id = bench.take().unwrap();
        if bench.text(id) == "R900000" {
            dispatched_ms = Some(bench.ctx.now_ns / MS);
            break;
        }
        bench.complete(id);
        bench.add(&format!("R{}", 8 * step));
    }
    let dispatched_ms = dispatched_ms.unwrap();
    // 8 × 125 ms, and the end of a slot of 125 ms.
    assert!((1000..1300).contains(&dispatched_ms), "{dispatched_ms}");
}

/// `bfq_too_late_for_merging`: since the first service after it was idle, for both.
#[test]
fn queues_are_merged_for_being_close_until_100_ms_after_their_first_service() {
    for (since_ms, other_since_ms, merged) in [
        (None, None, true),
        (Some(100), Some(100), true),
        (Some(101), None, false),
        (None, Some(101), false),
    ] {
        let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,x_stable_merge=0");
        bench.ctx.now_ns = 1000 * MS;
        bench.add_as("R8", context(0));
        bench.add_as("R5000000", context(1));
        for (queue, since_ms) in [(0, since_ms), (1, other_since_ms)] {
            if let Some(since_ms) = since_ms {
                let queue = &mut bench.scheduler.queues[queue];
                queue.backlogged_service = 8;
                queue.first_service_ns = (1000 - since_ms) * MS;
            }
        }
        let id = bench.add_as("R5000800", context(0));
        let is_merged = bench.ctx.requests[id].queue == 1;
        assert_eq!(is_merged, merged, "{since_ms:?} {other_since_ms:?}");
    }
}

#[test]
fn a_queue_that_was_idle_may_be_merged_for_being_close_again() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,x_stable_merge=0");
    bench.ctx.now_ns = MS;
    let id = bench.add_as("R8", context(0));
    assert_eq!(bench.take(), Some(id));
    bench.complete(id);
    bench.ctx.now_ns = 9 * MS;
    bench.scheduler.timer(&mut bench.ctx);
    bench.ctx.now_ns = 1000 * MS;
    let id = bench.add_as("R900000", context(0));
    bench.add_as("R910000", context(0));
    assert_eq!(bench.take(), Some(id));
    bench.add_as("R5000000", context(1));
    let id = bench.add_as("R5000800", context(0));
    assert_eq!(bench.ctx.requests[id].queue, 1);
}

/// `bfq_setup_cooperator`
#[test]
fn the_only_busy_queue_takes_no_other_in() {
    for (others, merged) in [(0, false), (1, true)] {
        let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,x_stable_merge=0");
        bench.add_as("R8", context(0));
        bench.take().unwrap();
        for other in 0..others {
            bench.add_as("R9000000", context(2 + other));
        }
        let id = bench.add_as("R800", context(1));
        let is_merged = bench.ctx.requests[id].queue == 0;
        assert_eq!(is_merged, merged, "{others} others");
    }
}

/// `bfq_bfqq_charge_time` charges by `bfq_bfqq_served`.
#[test]
fn what_is_charged_for_time_counts_as_service_since_the_queue_was_idle() {
    let mut bench = Bench::<Bfq>::new("bfq:low_latency=0");
    bench.add_as("R8", context(0));
    bench.take().unwrap();
    bench.scheduler.charge_time(&bench.ctx, 0, 31);
    let queue = &bench.scheduler.queues[0];
    // A quarter of 124 ms, and of the budget.
    assert_eq!((queue.service, queue.backlogged_service), (4096, 4096));
}

/// `__bfq_bfqq_expire`
#[test]
fn a_queue_that_is_preempted_while_waited_for_stays_busy_if_that_keeps_its_share() {
    for (class, stays) in [(Class::Realtime, true), (Class::BestEffort, false)] {
        let mut bench = Bench::<Bfq>::new("bfq:low_latency=0,x_stable_merge=0");
        let id = bench.add_as("R8", context(0));
        assert_eq!(bench.take(), Some(id));
        bench.complete(id);
        assert!(bench.scheduler.queues[0].waits);
        bench.scheduler.queues[0].io_bound = false;
        let other = IoContext {
            class,
            ..context(1)
        };
        bench.add_as("R9000000", other);
        assert_eq!(bench.scheduler.in_service, None);
        let queue = &bench.scheduler.queues[0];
        let standing = (queue.is_busy, queue.standing == Standing::Active);
        assert_eq!(standing, (stays, stays), "{class:?}");
        bench.take().unwrap();
        // Without requests it gets no slot of its own.
        assert_eq!(bench.take(), None);
        assert!(!bench.scheduler.queues[0].waits);
    }
}

/// `BFQ_RQ_SEEKY`: where no head moves, only a small request is a seek.
#[test]
fn large_reads_at_random_are_seeks_on_a_disk_only() {
    for (rotational, sectors, seeks) in [(true, 64, 31), (false, 64, 0), (false, 63, 31)] {
        let mut bench = Bench::<Bfq>::on("bfq:low_latency=0", rotational);
        let id = bench.add_as("R8", context(0));
        bench.scheduler.queues[0].seeks = Default::default();
        for read in 0..32 {
            let request = HostRequest {
                sector: (read * 7 % 32 + 1) * 1_000_000,
                sectors,
                ..bench.ctx.requests[id]
            };
            bench.scheduler.arrived(&bench.ctx, 0, &request);
        }
        let name = format!("{rotational} {sectors}");
        assert_eq!(bench.scheduler.queues[0].seeks.count(), seeks, "{name}");
    }
}

/// The same in `bfq_update_peak_rate`.
#[test]
fn large_reads_at_random_tell_the_speed_of_flash() {
    for (rotational, learns) in [(true, false), (false, true)] {
        let mut bench = Bench::<Bfq>::on("bfq:low_latency=0", rotational);
        let raising_ns = bench.scheduler.rate.raising_ns();
        // Slowly: only a sequential window may lower the rate.
        for read in 0..400 {
            let id = bench.add_as(
                &format!("R{}", (read * 7919 % 400 + 1) * 1_000_000),
                context(0),
            );
            bench.ctx.requests[id].sectors = 64;
            bench.take().unwrap();
            bench.ctx.now_ns += 4 * MS;
            bench.complete(id);
        }
        assert_eq!(
            bench.scheduler.rate.raising_ns() != raising_ns,
            learns,
            "{rotational}"
        );
    }
}

/// `bfq_update_inject_limit`: half as long again as alone is too long.
#[test]
fn injection_grows_while_a_request_takes_less_than_one_and_a_half_times_as_long() {
    for (time_ns, limit) in [(149, 2), (150, 0)] {
        let mut bench = Bench::<Bfq>::new("bfq");
        let id = bench.add_as("R8", context(0));
        bench.scheduler.queues[0].inject_base_ns = 100;
        bench.scheduler.queues[0].inject_limit = 1;
        bench.scheduler.in_flight = 2;
        bench.scheduler.update_hardware_queue();
        bench.scheduler.injection.measured = Some(id);
        bench.scheduler.injection.injected = true;
        bench.scheduler.injection.occupied_ns = 0;
        bench.ctx.now_ns = time_ns;
        bench.scheduler.completed_for_injection(&bench.ctx, 0, id);
        assert_eq!(bench.scheduler.queues[0].inject_limit, limit, "{time_ns}");
    }
}
