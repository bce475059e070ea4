//! Dies by hand.
#![allow(clippy::unwrap_used)]

use schedlab_model::Nanos;

use super::*;

/// One die of two planes: read 10, program 100, erase 50, transfer 1.
fn die(change: impl FnOnce(&mut DeviceSpec)) -> Dies {
    let mut spec = DeviceSpec::shipped("ncq2014", &Default::default()).unwrap();
    (spec.flash.channels, spec.flash.dies_per_package) = (1, 1);
    spec.flash.page_read = Nanos(10);
    spec.flash.page_write = Nanos(100);
    spec.flash.block_erase = Nanos(50);
    spec.flash.page_transfer = Nanos(1);
    change(&mut spec);
    Dies::new(&spec)
}

/// Gives `(arrival, plane, is_write)` to the die, numbered from 0; when each was done, and when
/// the last event was.
fn run(dies: &mut Dies, operations: &[(u64, u32, bool)]) -> (Vec<u64>, u64) {
    let mut done = vec![0; operations.len()];
    let mut last = 0;
    let mut advance = |dies: &mut Dies, until: u64, done: &mut Vec<u64>| {
        while dies.next_time_ns().is_some_and(|next| next <= until) {
            let (now_ns, waiter) = dies.advance().unwrap();
            last = now_ns;
            if waiter != NONE {
                done[waiter as usize] = now_ns;
            }
        }
        last
    };
    for (number, (at_ns, plane, is_write)) in (0..).zip(operations) {
        advance(dies, *at_ns, &mut done);
        dies.page(*at_ns, *plane, *is_write, number);
    }
    let last = advance(dies, u64::MAX, &mut done);
    (done, last)
}

const VICTIM: Victim = Victim {
    moves: 2,
    opens: false,
};

/// The first move takes 0-10 in the cells, to 11 and 12 on the channel, and is programmed until
/// 112. The read runs then, to 123, and the program that was paced to 112 follows it: 124-224.
/// The second move (224-336) and the erasure end at 386.
#[test]
fn collection_moves_page_by_page_and_reads_pass_it() {
    let mut dies = die(|_| ());
    dies.set_free_blocks(0, 10);
    dies.collect(0, &[VICTIM]);
    let (done, last) = run(&mut dies, &[(0, 0, true), (50, 0, false)]);
    assert_eq!((done, last), (vec![224, 123], 386));
    assert_eq!(dies.die_busy_ns(), [10 + 100 + 2 * 110 + 50]);
    assert_eq!(dies.channel_busy_ns(), [1 + 1 + 2 * 2]);
    assert_eq!((dies.planes[0].owed_blocks, dies.planes[0].steps), (0, 0));
}

/// Without a free block both moves (to 224) and the erasure (274) come first, then the read
/// that came at 5, and the program.
#[test]
fn collection_goes_first_where_blocks_run_out() {
    let mut dies = die(|_| ());
    dies.set_free_blocks(0, 1);
    dies.collect(0, &[VICTIM]);
    let (done, last) = run(&mut dies, &[(0, 0, true), (5, 0, false)]);
    assert_eq!((done, last), (vec![386, 285], 386));
}

/// Reads of both planes: the cells one after the other, the first page on the channel while
/// the cells read the second. Of one plane: the second waits until the register is free.
#[test]
fn a_page_crosses_the_channel_while_the_other_plane_works() {
    let (done, _) = run(&mut die(|_| ()), &[(0, 0, false), (0, 1, false)]);
    assert_eq!(done, [11, 21]);
    let (done, _) = run(&mut die(|_| ()), &[(0, 0, false), (0, 0, false)]);
    assert_eq!(done, [11, 22]);
    // The second program is loaded at 1-2 beside the first one.
    let (done, _) = run(&mut die(|_| ()), &[(0, 0, true), (0, 1, true)]);
    assert_eq!(done, [101, 201]);
    let (done, _) = run(&mut die(|_| ()), &[(0, 0, true), (0, 0, true)]);
    assert_eq!(done, [101, 202]);
}

/// A program from 0 on, cost 5, resume 7, reads of 10 at 30 and 40: they run at 35-45 and 45-55,
/// the rest of 70 resumes at 55 and ends at 132. It was suspended once, and the read at 60 waits.
#[test]
fn a_suspended_program_by_hand() {
    let mut dies = die(|spec| {
        spec.flash.page_transfer = Nanos(0);
        spec.suspend = SuspendSpec {
            program: true,
            cost: Nanos(5),
            resume: Nanos(7),
            least: Nanos(10),
            limit: 1,
            ..SuspendSpec::default()
        };
    });
    let operations = [(0, 0, true), (30, 0, false), (40, 0, false), (60, 0, false)];
    let (done, last) = run(&mut dies, &operations);
    assert_eq!((done, last), (vec![132, 45, 55, 142], 142));
    assert_eq!(dies.suspensions(), Some(1));
    assert_eq!(dies.die_busy_ns(), [100 + 3 * 10 + 5 + 7]);
}

/// Reads of 10, one after the other, and a program that came at 1: twenty of them start before it,
/// which is as long as two of it take, so that it runs from 210 to 310.
#[test]
fn reads_in_a_row_pass_a_program_for_as_long_as_two_take() {
    let mut dies = die(|spec| spec.flash.page_transfer = Nanos(0));
    let reads = (0..30).map(|n| (5 + 10 * n, 0, false));
    let operations: Vec<_> = [(0, 0, false), (1, 0, true)]
        .into_iter()
        .chain(reads)
        .collect();
    let (done, last) = run(&mut dies, &operations);
    assert_eq!((done[1], done[21], done[22], last), (310, 210, 320, 410));
}
