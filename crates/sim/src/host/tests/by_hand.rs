//! Orders of dispatch worked out by hand from the rules.

use super::super::deadline::Deadline;
use super::super::kyber::Kyber;
use super::super::mq_deadline::MqDeadline;
use super::{context, Bench, MS};
use crate::host::{Class, IoContext, Op, Scheduler};

const BATCH_2: &str = "R100 R200 R300 R400 R500 R600 W1000 W2000 W3000";

fn order<S: Scheduler>(settings: &str, requests: &str) -> String {
    let mut bench = Bench::<S>::new(settings);
    bench.add(requests);
    bench.drain()
}

fn of_class(class: Class, owner: u32) -> IoContext {
    IoContext {
        class,
        ..context(owner)
    }
}

/// The legacy one starts with the oldest, the other with the lowest and with writes; after a change
/// of direction the legacy one goes on from the oldest, the other where it was.
#[test]
fn the_deadlines_serve_in_batches_by_sector() {
    let (four, five) = ("R500 R100 R300 R200", "R300 R100 R200 W50 W40");
    for (set, requests, legacy, multi_queue) in [
        ("", four, "R500 R100 R200 R300", "R100 R200 R300 R500"),
        (
            ":fifo_batch=2",
            BATCH_2,
            "R100 R200 R300 R400 W1000 W2000 R500 R600 W3000",
            "W1000 W2000 R100 R200 R300 R400 W3000 R500 R600",
        ),
        (
            ":fifo_batch=1,writes_starved=1",
            five,
            "R300 W50 R100 W40 R200",
            "W40 R100 W50 R200 R300",
        ),
    ] {
        let found = order::<Deadline>(&format!("deadline{set}"), requests);
        assert_eq!(found, legacy, "{set}");
        let found = order::<MqDeadline>(&format!("mq-deadline{set}"), requests);
        assert_eq!(found, multi_queue, "{set}");
    }
}

#[test]
fn deadline_serves_what_is_late_between_batches() {
    let mut bench = Bench::<Deadline>::new("deadline:fifo_batch=2");
    bench.add("R900");
    bench.ctx.now_ns = MS;
    bench.add("R100 R200 R300");
    bench.ctx.now_ns = 600 * MS;
    assert_eq!(bench.drain(), "R900 R100 R200 R300");
}

#[test]
fn the_deadlines_count_a_request_late_at_its_deadline() {
    let mut late = Bench::<MqDeadline>::new("mq-deadline:fifo_batch=1");
    late.add("R900");
    late.ctx.now_ns = 500 * MS;
    late.add("R100");
    assert_eq!(late.drain(), "R900 R100");

    // The legacy one has a position only behind a request that it dispatched.
    let mut old = Bench::<Deadline>::new("deadline:fifo_batch=1");
    old.add("R900 R100 R950");
    old.expect("R900");
    old.ctx.now_ns = 500 * MS;
    assert_eq!(old.drain(), "R100 R950");
}

#[test]
fn mq_deadline_serves_a_lower_class_only_when_the_higher_is_gone_or_late() {
    let idle = of_class(Class::Idle, 1);
    let mut bench = Bench::<MqDeadline>::new("mq-deadline");
    bench.add("R100");
    bench.add_as("R1", idle);
    let first = bench.expect("R100");
    assert_eq!(bench.take(), None, "the higher class is in the device");
    bench.complete(first);
    bench.expect("R1");

    let mut bench = Bench::<MqDeadline>::new("mq-deadline");
    bench.add_as("R1", idle);
    bench.ctx.now_ns = 9999 * MS;
    bench.add("R100");
    bench.expect("R100");
    bench.add("R300");
    bench.ctx.now_ns = 10_000 * MS;
    bench.expect("R1");
}

#[test]
fn mq_deadline_serves_what_has_aged_while_a_higher_class_is_in_the_device() {
    let idle = of_class(Class::Idle, 1);
    let mut bench = Bench::<MqDeadline>::new("mq-deadline");
    bench.add_as("R1", idle);
    bench.add("R100");
    bench.expect("R100");
    bench.ctx.now_ns = 9999 * MS;
    assert_eq!(bench.take(), None);
    bench.ctx.now_ns = 10_000 * MS;
    bench.expect("R1");
}

#[test]
fn mq_deadline_serves_what_has_aged_by_class() {
    let mut bench = Bench::<MqDeadline>::new("mq-deadline");
    bench.add_as("R1", of_class(Class::Idle, 1));
    bench.add("R100");
    bench.ctx.now_ns = 10_001 * MS;
    bench.add_as("R500", of_class(Class::Realtime, 2));
    assert_eq!(bench.drain(), "R100 R1 R500");
}

/// Without a lower class the batch of writes, which is there from the beginning, comes first. The
/// look at that class turns it into one of reads, although its read has not aged.
#[test]
fn mq_deadline_changes_its_direction_when_it_looks_for_what_has_aged() {
    let realtime = of_class(Class::Realtime, 2);
    for (lower, expected) in [("", "W1000 R100 R200"), ("R500", "R100 R200 W1000 R500")] {
        let mut bench = Bench::<MqDeadline>::new("mq-deadline");
        for text in ["R100", "R200", "W1000"] {
            bench.add_as(text, realtime);
        }
        bench.add(lower);
        assert_eq!(bench.drain(), expected);
    }
}

/// `dd_limit_depth`: only reads that a process waits for may have all tags.
#[test]
fn mq_deadline_limits_all_but_sync_reads() {
    let bench = Bench::<MqDeadline>::new("mq-deadline:async_depth=32");
    let limit = |op, sync| bench.scheduler.limit_depth(&bench.ctx, op, sync);
    assert_eq!(limit(Op::Read, true), usize::MAX);
    for (op, sync) in [(Op::Read, false), (Op::Write, true), (Op::Write, false)] {
        assert_eq!(limit(op, sync), 32, "{op:?} {sync}");
    }
}

#[test]
fn kyber_serves_its_domains_in_batches() {
    let mut bench = Bench::<Kyber>::new("kyber");
    for sector in 0..20 {
        bench.add(&format!("R{sector}"));
    }
    for sector in 0..10 {
        bench.add(&format!("W{sector}"));
    }
    let mut runs: Vec<(char, usize)> = Vec::new();
    for text in bench.drain().split(' ') {
        let kind = text.chars().next().unwrap();
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    assert_eq!(runs, [('R', 16), ('W', 8), ('R', 4), ('W', 2)]);
}

#[test]
fn kyber_hands_out_no_more_than_its_tokens() {
    let mut bench = Bench::<Kyber>::new("kyber");
    bench.scheduler.set_depth(1, 1);
    bench.add("R1 R2 W10 W11");
    let order: Vec<_> = std::iter::from_fn(|| bench.take()).collect();
    let texts: Vec<_> = order.iter().map(|id| bench.text(*id)).collect();
    assert_eq!(texts, ["R1", "R2", "W10"]);
    bench.complete(order[2]);
    bench.expect("W11");
}

/// So many completions of one kind, each so long after its arrival.
fn complete_many(bench: &mut Bench<Kyber>, text: &str, count: u64, latency_ns: u64) {
    complete_from(bench, text, count, (latency_ns, latency_ns));
}

/// So many completions of one kind, each so long after its arrival and after its dispatch.
fn complete_from(bench: &mut Bench<Kyber>, text: &str, count: u64, (total, device): (u64, u64)) {
    let until_ns = bench.ctx.now_ns;
    for _ in 0..count {
        bench.ctx.now_ns = until_ns - total;
        bench.add(text);
        bench.ctx.now_ns = until_ns - device;
        let id = bench.take().unwrap();
        bench.ctx.now_ns = until_ns;
        bench.complete(id);
    }
}

#[test]
fn kyber_takes_tokens_from_those_that_have_time_when_others_are_late() {
    let bench = reads_gave_tokens_to_late_writes();
    // Bin 2 of 8: (2 + 1)/4 of the tokens stay.
    assert_eq!(bench.scheduler.depths()[0], 192);
}

#[test]
fn kyber_blames_the_device_for_its_own_time_only() {
    let mut bench = Bench::<Kyber>::new("kyber");
    bench.ctx.now_ns = 200 * MS;
    // The writes wait for 14 of their 15 ms in the scheduler.
    complete_from(&mut bench, "W1", 500, (15 * MS, MS));
    complete_many(&mut bench, "R1", 500, 1_400_000);
    bench.ctx.now_ns = 300 * MS;
    bench.scheduler.timer(&mut bench.ctx);
    assert_eq!(bench.scheduler.depths()[0], 256);
}

/// Kyber at 300 ms, after its first look at the latencies.
fn reads_gave_tokens_to_late_writes() -> Bench<Kyber> {
    let mut bench = Bench::<Kyber>::new("kyber");
    bench.ctx.now_ns = 200 * MS;
    complete_many(&mut bench, "W1", 500, 15 * MS);
    complete_many(&mut bench, "R1", 500, 1_400_000);
    bench.ctx.now_ns = 300 * MS;
    bench.scheduler.timer(&mut bench.ctx);
    bench
}

#[test]
fn kyber_waits_for_500_samples_or_a_second() {
    let mut bench = reads_gave_tokens_to_late_writes();
    bench.ctx.now_ns = 400 * MS;
    complete_many(&mut bench, "R1", 499, 2_400_000);
    // The second that counts begins with the first look at few samples, and again for the total
    // latencies after those of the device: bin 4, so 5/4 of the tokens.
    for (now_ms, depth) in [(500, 192), (1400, 192), (1600, 192), (2700, 240)] {
        bench.ctx.now_ns = now_ms * MS;
        bench.scheduler.timer(&mut bench.ctx);
        assert_eq!(bench.scheduler.depths()[0], depth, "{now_ms} ms");
    }
}
