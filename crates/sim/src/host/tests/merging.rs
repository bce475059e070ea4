//! The merges of each scheduler.

use super::super::deadline::Deadline;
use super::super::kyber::Kyber;
use super::super::mq_deadline::MqDeadline;
use super::super::noop::None as Direct;
use super::super::queue::{Limits, Queue};
use super::{bio, context, queue, Bench, MS};
use crate::host::{Bio, Class, IoContext, Scheduler};

fn send<S: Scheduler>(queue: &mut Queue<S>, text: &str, process: u32) {
    queue.submit(bio(text, context(process)));
    queue.unplug(process);
}

#[test]
fn adjoining_reads_become_one_from_behind_and_from_the_front() {
    let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
    send(&mut queue, "R8", 0);
    send(&mut queue, "R16", 0);
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (1, 1));
    send(&mut queue, "R0", 0);
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (1, 2));
    let id = queue.scheduler.dispatch(&mut queue.ctx).unwrap();
    let request = &queue.ctx.requests[id];
    assert_eq!((request.sector, request.sectors, request.bios), (0, 24, 3));
}

#[test]
fn what_a_process_gathers_is_merged_before_it_goes_out() {
    let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
    for text in ["R8", "R16", "R0"] {
        queue.submit(bio(text, context(0)));
    }
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (0, 2));
    queue.unplug(0);
    assert_eq!(queue.scheduler.queued(), 1);
}

#[test]
fn front_merges_can_be_switched_off() {
    let mut queue = queue::<Deadline>("deadline:front_merges=0", Limits::default(), 1);
    send(&mut queue, "R8", 0);
    // Found by the join after insertion: the rule is about looking for a bio's place only.
    queue.submit(bio("R100", context(0)));
    queue.unplug(0);
    let front = bio("R0", context(0));
    assert_eq!(queue.scheduler.find_merge(&queue.ctx, &front), None);
}

#[test]
fn a_write_beside_a_read_stays_apart() {
    let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
    send(&mut queue, "R0", 0);
    send(&mut queue, "W8", 0);
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (2, 0));
}

#[test]
fn a_gap_that_is_filled_joins_three() {
    let mut queue = queue::<MqDeadline>("mq-deadline", Limits::default(), 1);
    for text in ["R0", "R16", "R8"] {
        send(&mut queue, text, 0);
    }
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (1, 2));
}

#[test]
fn deadline_merges_over_processes() {
    let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
    send(&mut queue, "R0", 0);
    send(&mut queue, "R8", 1);
    assert_eq!(queue.scheduler.queued(), 1);
}

/// Whether a read is merged into one that adjoins it and has so many newer ones of a process.
fn merges_behind<S: Scheduler>(settings: &str, process: u32, newer: u64) -> bool {
    let mut queue = queue::<S>(settings, Limits::default(), 100);
    send(&mut queue, "R0", 0);
    for sector in 1..=newer {
        send(&mut queue, &format!("R{}", sector * 1000), process);
    }
    send(&mut queue, "R8", 0);
    queue.counts.merges == 1
}

/// `blk_bio_list_merge`: of the list of one CPU.
#[test]
fn the_8_newest_of_the_process_are_looked_at_without_a_sorted_set() {
    for (process, newer, merges) in [(0, 7, true), (0, 8, false), (1, 50, true)] {
        let name = format!("{newer} of process {process}");
        assert_eq!(
            merges_behind::<Direct>("none", process, newer),
            merges,
            "{name}"
        );
        assert_eq!(
            merges_behind::<Kyber>("kyber", process, newer),
            merges,
            "{name}"
        );
    }
}

#[test]
fn a_request_ends_at_max_sectors_kb() {
    let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
    let piece = |sector: u64| Bio {
        sectors: 1280,
        sector,
        ..bio("R0", context(0))
    };
    for sector in [0, 1280, 2560] {
        queue.submit(piece(sector));
        queue.unplug(0);
    }
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (2, 1));
}

#[test]
fn nomerges_2_keeps_everything_apart() {
    let limits = Limits {
        nomerges: 2,
        ..Limits::default()
    };
    let mut queue = queue::<Deadline>("deadline", limits, 1);
    send(&mut queue, "R0", 0);
    send(&mut queue, "R8", 0);
    assert_eq!((queue.scheduler.queued(), queue.counts.merges), (2, 0));
}

#[test]
fn what_is_late_first_stays_late_first_when_requests_are_joined() {
    let mut bench = Bench::<MqDeadline>::new("mq-deadline");
    let old = bench.add_as("R108", context(0));
    bench.ctx.now_ns = 1000;
    let young = bench.add_as("R100", context(0));
    let (into, gone) = bench.scheduler.joinable(&bench.ctx, young).unwrap();
    assert_eq!((into, gone), (young, old));
    let expire_ns = bench.ctx.requests[old].fifo_ns;
    bench.scheduler.joined(&mut bench.ctx, into, gone);
    bench.ctx.requests[into].fifo_ns = expire_ns;
    assert_eq!(bench.scheduler.queued(), 1);
    assert_eq!(bench.drain(), "R100");
}

#[test]
fn what_is_joined_is_as_old_as_the_oldest() {
    let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
    for (at_ms, text) in [(0, "R16"), (5, "R1000"), (10, "R0"), (20, "R8")] {
        queue.ctx.now_ns = at_ms * MS;
        send(&mut queue, text, 0);
    }
    queue.ctx.now_ns = 600 * MS;
    let id = queue.scheduler.dispatch(&mut queue.ctx).unwrap();
    let request = &queue.ctx.requests[id];
    assert_eq!((request.sector, request.sectors), (0, 24));
    assert_eq!(request.fifo_ns, 500 * MS);
}

/// `started_after`: a class in the device does not hold back what the older part waited for.
#[test]
fn what_is_joined_has_aged_with_its_older_part() {
    let mut queue = queue::<MqDeadline>("mq-deadline", Limits::default(), 1);
    for (at_ms, text) in [(0, "R16"), (10, "R0"), (20, "R8")] {
        queue.ctx.now_ns = at_ms * MS;
        send(&mut queue, text, 0);
    }
    let realtime = IoContext {
        class: Class::Realtime,
        ..context(1)
    };
    queue.submit(bio("R1000", realtime));
    queue.unplug(1);
    for (at_ms, sector) in [(20, Some(1000)), (9_999, None), (10_000, Some(0))] {
        queue.ctx.now_ns = at_ms * MS;
        let id = queue.scheduler.dispatch(&mut queue.ctx);
        assert_eq!(id.map(|id| queue.ctx.requests[id].sector), sector);
    }
}

#[test]
fn a_last_request_of_128_kib_grows_until_another_one_is_gathered() {
    for (sectors, gone_out) in [(120, 0), (128, 2)] {
        let mut queue = queue::<Deadline>("deadline", Limits::default(), 1);
        let long = |sector: u64| Bio {
            sectors,
            ..bio(&format!("R{sector}"), context(0))
        };
        queue.submit(bio("R9000", context(0)));
        queue.submit(long(8));
        queue.submit(long(8 + u64::from(sectors)));
        assert_eq!((queue.scheduler.queued(), queue.counts.merges), (0, 1));
        queue.submit(bio("R70000", context(0)));
        assert_eq!(queue.scheduler.queued(), gone_out);
    }
}

#[test]
fn few_requests_of_a_process_wait_for_a_tag_and_the_others_for_one_of_these() {
    // Two workers for each process, and one tag, which is taken.
    let mut queue = queue::<Direct>("none", Limits::default(), 1);
    send(&mut queue, "R0", 0);
    for text in ["R100", "R200", "R300"] {
        assert!(!queue.submit(bio(text, context(0))));
    }
    assert!(!queue.submit(bio("R400", context(1))));
    let mut order = Vec::new();
    while let Some(id) = queue.scheduler.dispatch(&mut queue.ctx) {
        order.push(queue.ctx.requests[id].sector);
        queue.in_driver += 1;
        queue.complete(id, &mut Vec::new());
        for _ in 0..queue.take_freed() {
            queue.wake();
        }
    }
    assert_eq!(order, [0, 100, 200, 400, 300]);
}
