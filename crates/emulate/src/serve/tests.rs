//! The worker under a clock that the test sets.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::DeviceConfig;

type Log = Rc<RefCell<Vec<(u32, bool)>>>;

struct Noted(u32, Log);

impl Reply for Noted {
    fn complete(self) {
        self.1.borrow_mut().push((self.0, true));
    }

    fn failed(self) {
        self.1.borrow_mut().push((self.0, false));
    }
}

fn model(text: &str) -> Model {
    Model::new(&DeviceConfig::of(text)).unwrap()
}

/// One server of 1 ms.
fn worker(dilate: f64, lead_ns: u64) -> Worker<Noted> {
    let model = model("model = 'fixed'\nservice = '1ms'\nservers = 1\nsize = '1m'");
    let mut worker = Worker::new(model, Scale::new(dilate), 0).unwrap();
    worker.lead(Lead {
        ns: lead_ns,
        ..Lead::default()
    });
    worker
}

fn read(number: u32, at_ns: u64, log: &Log) -> Arrival<Noted> {
    Arrival {
        at_ns,
        kind: Kind::Read,
        offset_bytes: 0,
        length_bytes: 4096,
        reply: Noted(number, log.clone()),
    }
}

fn numbers(log: &Log) -> Vec<u32> {
    log.borrow().iter().map(|(number, _)| *number).collect()
}

#[test]
fn replies_come_at_modelled_times_in_the_order_of_the_stamps() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let mut batch = vec![read(2, 200, &log), read(1, 100, &log)];
    let next_ns = worker.step(300, &mut batch, &|| 300);
    assert_eq!(next_ns, Some(1_000_100));
    worker.step(1_000_099, &mut batch, &|| 1_000_099);
    assert!(log.borrow().is_empty(), "replied before its time");
    let next_ns = worker.step(1_000_100, &mut batch, &|| 1_000_100);
    assert_eq!(numbers(&log), [1]);
    assert_eq!(next_ns, Some(2_000_100));
    assert_eq!(worker.step(2_000_100, &mut batch, &|| 2_000_100), None);
    assert_eq!(numbers(&log), [1, 2]);
}

#[test]
fn dilation_stretches_the_response() {
    let (mut worker, log) = (worker(10.0, 0), Log::default());
    let mut batch = vec![read(1, 1000, &log)];
    let next_ns = worker.step(1000, &mut batch, &|| 1000);
    assert_eq!(next_ns, Some(10_001_000));
}

#[test]
fn lateness_is_counted_and_does_not_reach_the_model() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    worker.mark(0);
    let mut batch = vec![read(1, 0, &log), read(2, 0, &log)];
    worker.step(0, &mut batch, &|| 0);
    // The worker slept 100 µs too long: more than 5 % of 1 ms.
    worker.step(1_100_000, &mut batch, &|| 1_100_000);
    assert_eq!(worker.step(2_000_000, &mut batch, &|| 2_000_000), None);
    let report = worker.report(2_000_000);
    assert_eq!(report.reads, 2);
    assert_eq!(report.late_share, 0.5);
    assert_eq!(report.lateness.max_ns, 100_000);
    assert_eq!(report.modelled.mean_ns, 1_500_000.0);
    assert_eq!(report.replied.mean_ns, 1_550_000.0);
    assert_eq!(report.depth_max, 2);
    // Two requests for the first millisecond, one for the second.
    assert!(
        (report.depth_mean - 1.5).abs() < 1e-9,
        "{}",
        report.depth_mean
    );
}

#[test]
fn a_stamp_before_an_event_that_happened_is_counted() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let mut batch = vec![read(1, 0, &log)];
    worker.step(0, &mut batch, &|| 0);
    worker.step(1_500_000, &mut batch, &|| 1_500_000);
    batch.push(read(2, 900_000, &log));
    let next_ns = worker.step(1_600_000, &mut batch, &|| 1_600_000);
    assert_eq!(next_ns, Some(2_000_000), "it begins at the event, 1 ms");
    assert!(worker.report(1_600_000).reordered_share > 0.0);
}

#[test]
fn a_lead_lets_replies_go_early() {
    let (mut worker, log) = (worker(1.0, 30_000), Log::default());
    let mut batch = vec![read(1, 0, &log)];
    assert_eq!(worker.step(0, &mut batch, &|| 0), Some(970_000));
    worker.step(970_000, &mut batch, &|| 970_000);
    assert_eq!(numbers(&log), [1]);
    // It came before an event that is only told early.
    batch.push(read(2, 980_000, &log));
    worker.step(980_000, &mut batch, &|| 980_000);
    assert_eq!(worker.report(980_000).reordered_share, 0.0);
}

#[test]
fn the_copy_of_a_long_request_begins_early_and_a_short_one_beside_it_waits_for_its_time() {
    let (mut worker, log) = (worker(1.0, 30_000), Log::default());
    worker.lead(Lead {
        ns: 30_000,
        read_per_mib_ns: 1 << 20,
        write_per_mib_ns: 0,
    });
    worker.mark(0);
    let long = Arrival {
        length_bytes: 104_096,
        ..read(2, 10, &log)
    };
    // One at a time, in the order of their stamps: due at 1 ms and at 2 ms.
    let mut batch = vec![read(1, 0, &log), long];
    assert_eq!(worker.step(10, &mut batch, &|| 10), Some(870_000));
    assert_eq!(worker.step(870_000, &mut batch, &|| 870_000), Some(970_000));
    assert!(log.borrow().is_empty(), "its way is that of a short one");
    let next_ns = worker.step(970_000, &mut batch, &|| 970_000);
    assert_eq!((numbers(&log), next_ns), (vec![1], Some(1_870_000)));
    // The reply is over when the data are copied: that is its time, so nothing is late.
    worker.step(1_870_000, &mut batch, &|| 1_970_000);
    assert_eq!(numbers(&log), [1, 2]);
    let report = worker.report(1_970_000);
    assert_eq!((report.lateness.max_ns, report.depth_max), (0, 2));
    assert_eq!(report.modelled.max_ns, 2_000_000 - 10);
}

/// Beside writers of long requests nearly every short one was counted as out of order.
#[test]
fn what_happened_early_for_a_long_request_is_early_when_its_data_are_there_too() {
    let (mut worker, log) = (worker(1.0, 30_000), Log::default());
    worker.lead(Lead {
        ns: 30_000,
        read_per_mib_ns: 1 << 20,
        write_per_mib_ns: 0,
    });
    let long = Arrival {
        length_bytes: (1 << 20) + 4096,
        ..read(1, 0, &log)
    };
    // Its data take longer than it does, so the reply begins at once.
    worker.step(0, &mut vec![long], &|| 0);
    assert_eq!(numbers(&log), [1]);
    worker.step(50_000, &mut Vec::new(), &|| 50_000);
    worker.step(100_000, &mut vec![read(2, 100_000, &log)], &|| 100_000);
    assert_eq!(worker.report(100_000).reordered_share, 0.0);
    // One that was stamped before that came too late all the same.
    worker.step(2_000_000, &mut Vec::new(), &|| 2_000_000);
    worker.step(2_000_000, &mut vec![read(3, 1_000_000, &log)], &|| {
        2_000_000
    });
    assert!(worker.report(2_000_000).reordered_share > 0.0);
}

#[test]
fn a_stamp_before_that_of_the_last_request_is_moved_to_it() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let two = model("model = 'fixed'\nservice = '1ms'\nservers = 2\nsize = '1m'");
    worker.reset(0, Some(two)).unwrap();
    for (number, at_ns) in [(1, 500), (2, 200)] {
        let next_ns = worker.step(600, &mut vec![read(number, at_ns, &log)], &|| 600);
        assert_eq!(next_ns, Some(1_000_500));
    }
}

#[test]
fn a_request_that_the_model_refuses_leaves_no_trace_of_itself() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let disk = model(include_str!("../../../sim/devices/disk7200.toml"));
    worker.reset(0, Some(disk)).unwrap();
    let mut refused = read(1, 0, &log);
    refused.offset_bytes = 1 << 60;
    worker.step(0, &mut vec![refused], &|| 0);
    assert_eq!(*log.borrow(), [(1, false)]);
    worker.reset(10, None).unwrap();
}

#[test]
fn a_window_begins_with_those_that_are_in_the_model() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    // One that comes when another one ends is there before that.
    let mut batch = vec![read(1, 0, &log), read(2, 1_000_000, &log)];
    worker.step(1_000_000, &mut batch, &|| 1_000_000);
    assert_eq!(worker.report(1_000_000).depth_max, 2);
    worker.mark(1_000_000);
    assert_eq!(worker.report(1_500_000).depth_mean, 1.0);
    batch.push(read(3, 1_500_000, &log));
    worker.step(1_500_000, &mut batch, &|| 1_500_000);
    assert_eq!(worker.report(1_500_000).depth_max, 2);
}

#[test]
fn a_bypass_answers_everything_at_once_until_it_ends() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let mut batch = vec![read(1, 0, &log), read(2, 0, &log)];
    worker.step(0, &mut batch, &|| 0);
    worker.bypass(true);
    assert_eq!(numbers(&log), [1, 2]);
    batch.push(read(3, 10, &log));
    worker.step(10, &mut batch, &|| 10);
    assert_eq!(numbers(&log), [1, 2, 3]);
    // What was answered early is still in the model, and must not answer for what comes now.
    worker.bypass(false);
    batch.push(read(4, 500_000, &log));
    worker.step(500_000, &mut batch, &|| 500_000);
    worker.step(2_000_000, &mut batch, &|| 2_000_000);
    assert_eq!(numbers(&log), [1, 2, 3]);
    worker.step(3_000_000, &mut batch, &|| 3_000_000);
    assert_eq!(numbers(&log), [1, 2, 3, 4]);
}

#[test]
fn a_reset_waits_for_an_idle_device_and_starts_from_the_beginning() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let mut batch = vec![read(1, 0, &log)];
    worker.step(0, &mut batch, &|| 0);
    assert!(worker.reset(10, None).is_err());
    worker.step(1_000_000, &mut batch, &|| 1_000_000);
    worker.reset(5_000_000, None).unwrap();
    batch.push(read(2, 5_000_000, &log));
    let next_ns = worker.step(5_000_000, &mut batch, &|| 5_000_000);
    assert_eq!(next_ns, Some(6_000_000));
}

#[test]
fn a_reset_device_begins_at_time_0_again() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    let mut batch = vec![read(1, 5_000_000, &log)];
    worker.step(5_000_000, &mut batch, &|| 5_000_000);
    worker.step(6_000_000, &mut batch, &|| 6_000_000);
    worker.reset(7_000_000, None).unwrap();
    batch.push(read(2, 7_000_100, &log));
    let next_ns = worker.step(7_000_200, &mut batch, &|| 7_000_200);
    assert_eq!(next_ns, Some(8_000_100));
    worker.step(8_000_100, &mut batch, &|| 8_000_100);

    let other = model("model = 'fixed'\nservice = '5ms'\nservers = 1\nsize = '1m'");
    worker.reset(9_000_000, Some(other)).unwrap();
    batch.push(read(3, 9_000_000, &log));
    let next_ns = worker.step(9_000_000, &mut batch, &|| 9_000_000);
    assert_eq!(next_ns, Some(14_000_000));
}

#[test]
fn what_the_model_completed_before_an_arrival_is_no_longer_in_it() {
    let (mut worker, log) = (worker(1.0, 0), Log::default());
    worker.mark(0);
    // The worker slept over both, and over the time between them.
    let mut batch = vec![read(1, 0, &log), read(2, 3_000_000, &log)];
    worker.step(4_000_000, &mut batch, &|| 4_000_000);
    let report = worker.report(4_000_000);
    assert_eq!((report.depth_max, report.depth_mean), (1, 0.5));
}
