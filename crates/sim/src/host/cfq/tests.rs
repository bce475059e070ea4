//! Slices, waits and the order within a queue, worked out by hand.
#![allow(clippy::unwrap_used)]

use super::super::tests::{bio, context, Bench, MS};
use super::super::{Class, HostRequest, IoContext, MergeKind, Scheduler};
use super::Cfq;

fn at_level(owner: u32, level: u8) -> IoContext {
    IoContext {
        level,
        class: Class::BestEffort,
        ..context(owner)
    }
}

#[test]
fn the_nearest_ahead_comes_first_and_a_little_back_is_near() {
    let mut bench = Bench::<Cfq>::new("cfq");
    bench.scheduler.last_position = 500;
    bench.add("R400 R560 R700 R100000");
    assert_eq!(bench.drain(), "R560 R700 R400 R100000");
}

#[test]
fn slices_by_level_and_by_the_number_of_busy_queues() {
    let mut bench = Bench::<Cfq>::new("cfq");
    for (owner, level) in [(0, 0), (1, 4), (2, 7)] {
        bench.add_as("R100", at_level(owner, level));
    }
    let plain = [0, 4, 7].map(|level| bench.scheduler.plain_slice_ns(true, level) / MS);
    assert_eq!(plain, [180, 100, 40]);
    for (count, slice_ms) in [(6, 50), (30, 16)] {
        let mut bench = Bench::<Cfq>::new("cfq");
        for owner in 0..count {
            bench.add_as("R100", at_level(owner, 4));
        }
        // The average has settled.
        for _ in 0..20 {
            bench.scheduler.slice_ns(0);
        }
        assert_eq!(bench.scheduler.slice_ns(0) / MS, slice_ms);
    }
}

#[test]
fn a_process_that_reads_on_is_waited_for_and_another_after_8_ms() {
    let mut bench = Bench::<Cfq>::new("cfq");
    let a = bench.add_as("R8", context(0));
    bench.add_as("R900000", context(1));
    assert_eq!(bench.take(), Some(a));
    bench.ctx.now_ns = MS;
    bench.complete(a);
    assert_eq!(bench.take(), None, "it waits");
    bench.ctx.now_ns = 3 * MS;
    let next = bench.add_as("R16", context(0));
    assert_eq!(bench.take(), Some(next));
    bench.ctx.now_ns = 4 * MS;
    bench.complete(next);
    assert_eq!(bench.scheduler.next_timer(), Some(12 * MS));
    bench.ctx.now_ns = 12 * MS;
    bench.scheduler.timer(&mut bench.ctx);
    bench.expect("R900000");
}

#[test]
fn nobody_waits_for_a_process_whose_slice_is_used() {
    for (done_ms, waits) in [(99, true), (102, false)] {
        let mut bench = Bench::<Cfq>::new("cfq");
        let first = bench.add_as("R8", context(0));
        bench.add_as("R900000", context(1));
        assert_eq!(bench.take(), Some(first));
        bench.ctx.now_ns = MS; // the slice of 100 ms begins
        bench.complete(first);
        let next = bench.add_as("R16", context(0));
        assert_eq!(bench.take(), Some(next));
        bench.ctx.now_ns = done_ms * MS;
        bench.complete(next);
        assert_eq!(bench.scheduler.next_timer().is_some(), waits, "{done_ms}");
        assert_eq!(bench.take().is_none(), waits, "{done_ms}");
    }
}

#[test]
fn async_writes_go_one_at_a_time_after_a_late_read_and_16_to_a_slice() {
    let mut bench = Bench::<Cfq>::new("cfq");
    bench.scheduler.last_delayed_sync_ns = 1000 * MS;
    for sector in 0..20 {
        bench.add(&format!("W{}", sector * 100));
    }
    let first = bench.take().unwrap();
    assert_eq!(bench.take(), None, "one at a time");
    bench.complete(first);
    let other = IoContext {
        level: 5,
        ..context(1)
    };
    bench.add_as("W500000", other);
    let mut served = 1;
    while let Some(id) = bench.take() {
        if ctx_sector(&bench, id) == 500_000 {
            break;
        }
        served += 1;
        bench.ctx.now_ns += MS;
        bench.complete(id);
    }
    assert_eq!(served, 16);
}

#[test]
fn async_writes_wait_for_reads_of_the_device_and_not_for_each_other() {
    let mut bench = Bench::<Cfq>::new("cfq:slice_idle=0,group_idle=0");
    bench.ctx.now_ns = 10_000 * MS;
    bench.add("R8");
    let read = bench.expect("R8");
    bench.add("W100 W300");
    assert_eq!(bench.take(), None);
    bench.complete(read);
    bench.expect("W100");
    bench.expect("W300");
}

fn ctx_sector(bench: &Bench<Cfq>, id: u32) -> u64 {
    bench.ctx.requests[id].sector
}

#[test]
fn a_request_is_late_after_125_ms_or_250_if_nobody_waits_for_it() {
    let mut bench = Bench::<Cfq>::new("cfq");
    for (text, late_ms) in [("R8", 125), ("W800", 250)] {
        let id = bench.add_as(text, context(0));
        assert_eq!(bench.ctx.requests[id].fifo_ns, late_ms * MS, "{text}");
    }
}

/// `cfq_update_io_seektime`: by size where no head moves, else by distance.
#[test]
fn small_reads_in_sequence_are_seeks_on_flash_and_large_ones_at_random_on_a_disk() {
    for (rotational, sectors, step, seeks) in [
        (false, 8, 8, 32),
        (false, 64, 1_000_000, 0),
        (true, 8, 8, 0),
        // The first comes after none.
        (true, 64, 1_000_000, 31),
    ] {
        let mut bench = Bench::<Cfq>::on("cfq", rotational);
        let id = bench.add_as("R8", context(0));
        bench.scheduler.queues[0].seeks = Default::default();
        for read in 0..32 {
            let request = HostRequest {
                sector: 1_000_000 + read * step,
                sectors,
                ..bench.ctx.requests[id]
            };
            bench.scheduler.arrived(&bench.ctx, 0, &request);
        }
        let name = format!("{rotational} {sectors}");
        assert_eq!(bench.scheduler.queues[0].seeks.count(), seeks, "{name}");
        assert_eq!(bench.scheduler.queues[0].is_seeky(), seeks > 4, "{name}");
    }
}

/// `cfq_completed_request`: by the expiry of sync requests.
#[test]
fn a_read_of_125_ms_was_delayed() {
    for (done_ms, noted_ms) in [(124, 0), (125, 1125)] {
        let mut bench = Bench::<Cfq>::new("cfq");
        let id = bench.add_as("R8", context(0));
        assert_eq!(bench.take(), Some(id));
        bench.ctx.now_ns = done_ms * MS;
        bench.complete(id);
        assert_eq!(bench.scheduler.last_delayed_sync_ns, noted_ms * MS);
    }
}

#[test]
fn what_was_left_of_a_slice_lets_its_queue_go_earlier() {
    let mut bench = Bench::<Cfq>::new("cfq");
    bench.add("R8");
    bench.ctx.now_ns = 100 * MS;
    for (residual_ms, key_ms) in [(30, 70), (-30, 130), (0, 100)] {
        let ms = MS as i64;
        bench.scheduler.queues[0].residual_ns = residual_ms * ms;
        bench.scheduler.enlist(&bench.ctx, 0, false);
        assert_eq!(bench.scheduler.queues[0].key, key_ms * ms);
    }
}

#[test]
fn the_idle_class_goes_behind_all_others_and_the_front_is_before_all() {
    let mut bench = Bench::<Cfq>::new("cfq");
    for owner in 0..4 {
        bench.add_as("R8", context(owner));
    }
    for (queue, key) in [70, 50, 90, 60].into_iter().enumerate() {
        bench.scheduler.queues[queue].key = key;
    }
    bench.scheduler.queues[3].context.class = Class::Idle;
    for (front, key) in [(false, 90 + 200 * MS as i64), (true, 50 - 1000 * MS as i64)] {
        bench.scheduler.enlist(&bench.ctx, 3, front);
        assert_eq!(bench.scheduler.queues[3].key, key);
    }
}

/// `cfq_slice_offset`: the longest slice is that of a sync queue.
#[test]
fn an_async_queue_waits_for_the_longest_slices_of_others() {
    let mut bench = Bench::<Cfq>::new("cfq");
    for owner in 0..3 {
        bench.add_as("R8", context(owner));
    }
    bench.ctx.now_ns = 100 * MS;
    let id = bench.add_as("W8", context(3));
    let queue = &bench.scheduler.queues[bench.ctx.requests[id].queue as usize];
    // 180 ms of each, less its own 40.
    assert_eq!(queue.key, (100 + 3 * (180 - 40)) * MS as i64);
}

/// `cfq_select_queue` expires it as one that did not time out.
#[test]
fn a_queue_whose_slice_ended_while_it_had_requests_pays_nothing_back() {
    let mut bench = Bench::<Cfq>::new("cfq");
    let first = bench.add_as("R8", context(0));
    bench.add_as("R900000", context(1));
    assert_eq!(bench.take(), Some(first));
    bench.add_as("R16", context(0));
    bench.ctx.now_ns = MS;
    bench.complete(first);
    bench.ctx.now_ns = 150 * MS;
    bench.expect("R900000");
    // Behind one other: 180 ms less its own 100.
    assert_eq!(bench.scheduler.queues[0].key, (150 + 80) * MS as i64);
}

#[test]
fn a_read_is_merged_into_the_queue_that_took_its_process_over() {
    let mut bench = Bench::<Cfq>::new("cfq");
    bench.add_as("R8", context(0));
    let other = bench.add_as("R100", context(1));
    let behind = bio("R108", context(0));
    assert_eq!(bench.scheduler.find_merge(&bench.ctx, &behind), None);
    bench.scheduler.queues[0].merged_into = Some(1);
    let merge = bench.scheduler.find_merge(&bench.ctx, &behind);
    assert_eq!(merge, Some((other, MergeKind::Back)));
}

/// `choose_wl_class_and_type`: the target latency of 300 ms, times 40 over 100.
#[test]
fn async_queues_have_two_fifths_of_their_share_of_the_time() {
    for (text, share_ms) in [("W8", 120), ("R8", 300)] {
        let mut bench = Bench::<Cfq>::new("cfq");
        bench.ctx.now_ns = MS;
        bench.add(text);
        bench.take().unwrap();
        let until_ns = bench.scheduler.serving_until_ns;
        assert_eq!(until_ns, (1 + share_ms) * MS, "{text}");
    }
}

fn weighing(owner: u32, weight: u16) -> IoContext {
    IoContext {
        weight,
        ..context(owner)
    }
}

#[test]
fn shares_of_the_largest_tunables_do_not_overflow() {
    let most = i32::MAX as u64;
    let settings = format!("cfq:slice_sync={most},slice_async={most},target_latency={most}");
    let mut bench = Bench::<Cfq>::new(&settings);
    for owner in 0..6 {
        bench.add_as("R100", context(owner));
    }
    // The average has settled.
    let slices = [(); 20].map(|()| bench.scheduler.slice_ns(0));
    assert_eq!(slices[19] / MS, most / 6);

    let mut bench = Bench::<Cfq>::new(&settings);
    bench.add("W8");
    bench.take().unwrap();
    assert_eq!(bench.scheduler.serving_until_ns, most * MS);

    let mut bench = Bench::<Cfq>::new(&settings);
    for owner in 0..2 {
        bench.add_as("R8", weighing(owner, 10_000));
    }
    assert_eq!(bench.scheduler.group_share_ns(1), most * MS / 2);
}

#[test]
fn a_group_does_not_catch_up_on_what_it_missed() {
    let mut bench = Bench::<Cfq>::new("cfq");
    bench.add_as("R8", weighing(0, 100));
    bench.scheduler.groups[1].time = 7 * MS;
    bench.add_as("R900000", weighing(1, 200));
    assert_eq!(bench.scheduler.groups[2].time, 7 * MS);
}
