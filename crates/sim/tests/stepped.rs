//! A device in steps and a batch run are one model: any arrivals give the same completions.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use schedlab_model::{Bytes, Histogram, Nanos, Request};
use schedlab_sim::device::{DeviceSpec, Parallel, Serial};
use schedlab_sim::disk::{self, DiskSpec, SteppedDisk};
use schedlab_sim::engine::{Simulation, SteppedDevice, Window};
use schedlab_sim::policy::{PolicySpec, POLICIES};
use schedlab_sim::workload::Incoming;
use schedlab_sim::{Completion, Kind, Stepped, Stop, Submission};

/// (pause before it in µs, place in 1/1000 of the device, pages, write)
type Arrival = (u64, u64, u64, bool);

fn any_arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let pause = prop_oneof![Just(0u64), 1u64..200, 1u64..20_000];
    prop::collection::vec((pause, 0u64..1000, 1u64..40, any::<bool>()), 1..150)
}

fn requests(arrivals: &[Arrival], capacity_bytes: u64) -> Vec<Request> {
    let mut now_ns = 0;
    let request = |(pause_us, place, pages, is_write): &Arrival| {
        now_ns += pause_us * 1000;
        let length = pages * 4096;
        let offset = (capacity_bytes - length) / 1000 * place / 4096 * 4096;
        Request {
            arrival: Nanos(now_ns),
            offset: Bytes(offset),
            length: Bytes(length),
            is_write: *is_write,
        }
    };
    arrivals.iter().map(request).collect()
}

/// Latency of each request, by the rule that a real-time driver follows.
fn stepped(device: &mut dyn Stepped, requests: &[Request]) -> Vec<u64> {
    let mut completions = Vec::new();
    for (tag, request) in requests.iter().enumerate() {
        let at_ns = request.arrival.0;
        while device.next_time_ns().is_some_and(|next_ns| next_ns < at_ns) {
            device.advance(&mut completions);
        }
        let kind = if request.is_write {
            Kind::Write
        } else {
            Kind::Read
        };
        device
            .submit(Submission {
                at_ns,
                tag: tag as u64,
                kind,
                offset_bytes: request.offset.0,
                length_bytes: request.length.0,
            })
            .unwrap();
    }
    while device.next_time_ns().is_some() {
        device.advance(&mut completions);
    }
    assert!(completions
        .windows(2)
        .all(|pair| pair[0].at_ns <= pair[1].at_ns));
    let mut latencies = vec![u64::MAX; requests.len()];
    for Completion { tag, at_ns } in completions {
        let tag = tag as usize;
        assert_eq!(latencies[tag], u64::MAX, "completed twice");
        latencies[tag] = at_ns - requests[tag].arrival.0;
    }
    latencies
}

fn small_ssd() -> DeviceSpec {
    let set = [
        ("flash.blocks_per_plane", 16.into()),
        ("buffer.size", "256k".into()),
        ("queue.depth", 8.into()),
        ("ftl.in_flight", 4.into()),
        ("ftl.over_provisioning", 0.8.into()),
    ];
    let set = set.map(|(key, value)| (key.to_string(), value)).into();
    let spec = DeviceSpec::shipped("ncq2014", &set).unwrap();
    spec.check().unwrap();
    spec
}

fn compare_ssd<D: schedlab_sim::device::Device>(
    make: impl Fn() -> D,
    policy: &str,
    arrivals: &[Arrival],
) {
    let spec = PolicySpec {
        name: policy.into(),
        ..PolicySpec::default()
    };
    let simulation = || {
        let window = Window::new(spec.alpha.0, spec.aging);
        Simulation::new(make(), spec.make(POLICIES).unwrap(), window, 8, true)
    };
    let capacity_bytes = u64::from(make().pages()) * make().page_bytes();
    let requests = requests(arrivals, capacity_bytes);
    let mut source = requests.iter().map(|request| Ok(Incoming::from(*request)));
    let (_, log, _) = simulation().run(&mut source, &Stop::default()).unwrap();
    let mut batch = vec![0; requests.len()];
    for logged in log {
        batch[logged.command.index as usize] = logged.completed_ns - logged.command.arrival_ns;
    }
    assert_eq!(
        stepped(&mut SteppedDevice::new(simulation()), &requests),
        batch
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn disk_in_steps_is_the_disk_of_a_batch_run(
        arrivals in any_arrivals(),
        policy in 0..disk::POLICIES.len(),
    ) {
        let policy = disk::POLICIES[policy].0;
        let spec = DiskSpec::shipped("disk7200").unwrap();
        let requests = requests(&arrivals, spec.capacity().0);
        let mut source = requests.iter().map(|request| Ok(Incoming::from(*request)));
        let batch = disk::simulate(&spec, policy, &mut source, false, &Stop::default());
        let (batch, _) = batch.unwrap();
        let mut histogram = Histogram::new();
        let latencies = stepped(&mut SteppedDisk::new(&spec, policy).unwrap(), &requests);
        latencies.iter().for_each(|latency_ns| histogram.record(*latency_ns));
        prop_assert_eq!(histogram.max(), Some(batch.latency_ns_max));
        prop_assert_eq!(histogram.mean(), Some(batch.latency_ns_mean));
        prop_assert_eq!(histogram.bins().collect::<Vec<_>>(), batch.latency_bins);
    }

    #[test]
    fn ssd_in_steps_is_the_ssd_of_a_batch_run(
        arrivals in any_arrivals(),
        policy in 0..POLICIES.len(),
    ) {
        let policy = POLICIES[policy].0;
        compare_ssd(|| Serial::new(&small_ssd()), policy, &arrivals);
        compare_ssd(|| Parallel::new(&small_ssd(), 1).unwrap(), policy, &arrivals);
        let mut spec = small_ssd();
        // What a controller delays changes the buffer between dispatches, here that of commands
        // that wait for the same few pages.
        spec.controller.command = Nanos(20_000);
        let same = arrivals.iter().map(|(pause, place, pages, is_write)| {
            (pause % 200, place % 8, *pages, *is_write)
        });
        compare_ssd(|| Parallel::new(&spec, 1).unwrap(), policy, &same.collect::<Vec<_>>());
    }
}

#[test]
fn flush_and_discard_of_a_disk_without_write_cache_take_no_time() {
    let spec = DiskSpec::shipped("disk7200").unwrap();
    let mut disk = SteppedDisk::new(&spec, "fcfs").unwrap();
    let submission = |tag, kind, length_bytes| Submission {
        at_ns: 1000,
        tag,
        kind,
        offset_bytes: 0,
        length_bytes,
    };
    disk.submit(submission(1, Kind::Write, 4096)).unwrap();
    disk.submit(submission(2, Kind::Flush, 0)).unwrap();
    disk.submit(submission(3, Kind::Trim, 4096)).unwrap();
    let mut completions = Vec::new();
    disk.advance(&mut completions);
    let tags: Vec<u64> = completions
        .iter()
        .map(|completion| completion.tag)
        .collect();
    assert_eq!(tags, [2, 3]);
    assert_eq!(completions[0].at_ns, 1000);
    disk.advance(&mut completions);
    // Overhead 0.1 ms, then the platter: at most one revolution to sector 0, and its 8 sectors.
    assert_eq!(completions[2].tag, 1);
    assert!((101_000..9_000_000).contains(&completions[2].at_ns));
    assert_eq!(disk.next_time_ns(), None);
}

/// A reader that always has four commands in the disk does not keep a flush from being served.
#[test]
fn a_flush_comes_after_the_command_in_service() {
    let spec = DiskSpec::shipped("disk2005").unwrap();
    let mut disk = SteppedDisk::new(&spec, "sptf").unwrap();
    let (written, flush) = (1000, 1001);
    let submission = |at_ns, tag, kind| Submission {
        at_ns,
        tag,
        kind,
        offset_bytes: tag * 7_919 * 4096,
        length_bytes: if kind == Kind::Flush { 0 } else { 4096 },
    };
    disk.submit(submission(0, written, Kind::Write)).unwrap();
    for tag in 0..4 {
        disk.submit(submission(0, tag, Kind::Read)).unwrap();
    }
    let (mut order, mut next_tag) = (Vec::new(), 4);
    while order.len() < 20 {
        let mut completions = Vec::new();
        disk.advance(&mut completions);
        for Completion { tag, at_ns } in completions {
            order.push(tag);
            // The write is complete; another read is in service.
            if order.len() == 4 {
                disk.submit(submission(at_ns, flush, Kind::Flush)).unwrap();
            }
            if tag != flush {
                disk.submit(submission(at_ns, next_tag, Kind::Read))
                    .unwrap();
                next_tag += 1;
            }
        }
    }
    assert!(order[..4].contains(&written), "{order:?}");
    assert_eq!(order[5], flush, "{order:?}");
}

#[test]
fn a_request_beyond_the_end_is_refused() {
    let spec = DiskSpec::shipped("disk7200").unwrap();
    let mut disk = SteppedDisk::new(&spec, "fcfs").unwrap();
    let beyond = Submission {
        at_ns: 0,
        tag: 0,
        kind: Kind::Read,
        offset_bytes: disk.capacity_bytes(),
        length_bytes: 512,
    };
    assert!(disk.submit(beyond).is_err());
}
