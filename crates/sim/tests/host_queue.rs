//! The host's queue in front of the disk: with nothing to do it changes nothing.
#![allow(clippy::unwrap_used)]

use schedlab_formats::TraceRecord;
use schedlab_model::{Bytes, Nanos, Request, Rng};
use schedlab_sim::disk::{self, DiskSpec, SteppedDisk};
use schedlab_sim::host::{run, HostJob, HostSettings, Processes, Settings, PRESETS};
use schedlab_sim::workload::{Incoming, Real};
use schedlab_sim::Stop;

fn requests(seed: u64, mean_ns: f64) -> Vec<Request> {
    let mut rng = Rng::new(seed, 0);
    let mut at_ns = 0.0;
    let mut draw = |_| {
        at_ns += rng.exponential(mean_ns);
        Request {
            arrival: Nanos(at_ns as u64),
            offset: Bytes(rng.below(1 << 24) * 4096),
            length: Bytes(4096 * (1 + rng.below(16))),
            is_write: rng.below(3) == 0,
        }
    };
    (0..2000).map(&mut draw).collect()
}

#[test]
fn without_scheduler_merges_and_limits_the_disk_serves_as_alone() {
    let spec = DiskSpec::shipped("disk7200").unwrap();
    for (policy, mean_ns) in [("fcfs", 2e7), ("sptf", 7e6), ("clook", 5e6)] {
        let requests = requests(3, mean_ns);
        let mut alone = requests.iter().map(|request| Ok(Incoming::from(*request)));
        let (_, log) = disk::simulate(&spec, policy, &mut alone, true, &Stop::default()).unwrap();
        let mut alone: Vec<(u64, u64)> = log
            .iter()
            .map(|row| (row.request.offset.0 / 512, row.completed_ns))
            .collect();
        let trace = requests.iter().copied().map(Into::into);
        let job = HostJob {
            settings: HostSettings {
                tags: 65536,
                nomerges: 2,
                turnaround_ns: 0,
                seconds: Real(1e5),
                log: true,
                ..HostSettings::default()
            },
            processes: Processes {
                about: String::new(),
                processes: Vec::new(),
            },
            trace: trace.collect(),
        };
        let mut disk = SteppedDisk::new(&spec, policy).unwrap();
        let none = Settings::parse("none").unwrap();
        let result = run(&none, &job, &mut disk, &Stop::default()).unwrap();
        let mut behind: Vec<(u64, u64)> = result
            .log
            .iter()
            .map(|row| (row.sector, row.completed_ns))
            .collect();
        alone.sort_unstable();
        behind.sort_unstable();
        assert_eq!(alone, behind, "{policy}");
    }
}

/// Processes on a disk that takes four commands and serves them in order.
fn simulate(processes: &str, settings: HostSettings) -> schedlab_sim::host::HostResult {
    simulate_under("none", processes, settings)
}

fn simulate_under(
    scheduler: &str,
    processes: &str,
    settings: HostSettings,
) -> schedlab_sim::host::HostResult {
    let mut disk = SteppedDisk::new(&DiskSpec::shipped("disk7200").unwrap(), "fcfs").unwrap();
    let job = HostJob {
        settings: HostSettings {
            tags: 4,
            ..settings
        },
        processes: Processes::from_toml("test", processes).unwrap(),
        trace: Vec::new(),
    };
    let scheduler = Settings::parse(scheduler).unwrap();
    run(&scheduler, &job, &mut disk, &Stop::default()).unwrap()
}

const READERS: &str = r#"
[[process]]
name = "reader"
count = 3
pattern = "sequential"
record = "128KiB"
depth = 4
"#;

#[test]
fn a_process_that_takes_its_tag_again_comes_before_those_that_wait() {
    let total = |share| {
        let settings = HostSettings {
            woken_early: Real(share),
            ..HostSettings::default()
        };
        simulate(READERS, settings).total.throughput_bytes_per_s / 1e6
    };
    // Served in the order of arrival, the four records of a process stay together. Where each
    // completion brings the next record of its own process, the tags belong to processes, and
    // nearly every record costs a seek: Linux 6.18 gave 11.6 and 13.4 MB/s.
    let (in_order, retaken) = (total(0.0), total(0.9));
    assert!((25.0..32.0).contains(&in_order), "{in_order}");
    assert!((10.5..14.0).contains(&retaken), "{retaken}");
}

#[test]
fn records_that_complete_together_are_followed_by_one_request_where_nobody_wakes_early() {
    let merges = |share| {
        let settings = HostSettings {
            woken_early: Real(share),
            ..HostSettings::default()
        };
        simulate(READERS, settings).order.merges_per_request
    };
    // Linux 6.12 in virtual time, on one CPU: 28 MB/s, requests of 512 KiB.
    assert!(merges(0.0) > 2.9);
    assert!(merges(0.9) < 0.5);
}

fn sequential(record: &str, depth: u32) -> String {
    format!("[[process]]\nname = 'r'\npattern = 'sequential'\nrecord = '{record}'\ndepth = {depth}")
}

#[test]
fn two_records_at_a_time_stay_apart_and_three_become_one_request() {
    let merges = |depth| {
        let settings = HostSettings {
            woken_early: Real(0.0),
            ..HostSettings::default()
        };
        simulate(&sequential("64KiB", depth), settings)
            .order
            .merges_per_request
    };
    // Linux 6.12: the first two are one, and then each of them is a request.
    let (two, three) = (merges(2), merges(3));
    assert!(two < 0.01, "{two}");
    assert!(three > 1.99, "{three}");
}

#[test]
fn a_request_has_128_pages_or_as_many_pieces_of_huge_ones() {
    // Sixteen buffers of 64 KiB leave no room for a huge page, and 32 fill one.
    for (record, depth, most) in [
        ("64KiB", 16, 1024),
        ("64KiB", 32, 2048),
        ("1MiB", 1, 1024),
        ("1MiB", 2, 2048),
    ] {
        let settings = HostSettings {
            woken_early: Real(0.0),
            max_sectors_kb: 1024,
            seconds: Real(2.0),
            log: true,
            ..HostSettings::default()
        };
        let result = simulate(&sequential(record, depth), settings);
        let found = result.log.iter().map(|row| row.sectors).max();
        assert_eq!(found, Some(most), "{record} at {depth}");
    }
}

#[test]
fn the_next_request_of_a_woken_process_is_there_when_a_queue_is_run() {
    let processes = r#"
[[process]]
name = "reader"
[[process]]
name = "writer"
read_share = 0
depth = 32
"#;
    let settings = HostSettings {
        nr_requests: Some(64),
        ..HostSettings::default()
    };
    let result = simulate_under("mq-deadline:fifo_batch=1", processes, settings);
    let [reader, writer] = &result.processes[..] else {
        panic!("two processes");
    };
    // Four are in the disk, and one has been taken out of the scheduler for the next tag. The read
    // that follows a read is there when another one is taken out, and four writes are before it.
    let ratio = reader.iops / writer.iops;
    assert!((0.23..0.27).contains(&ratio), "{ratio}");
}

#[test]
fn what_is_under_way_at_the_end_is_answered_and_counts_only_as_a_latency() {
    let settings = |seconds| HostSettings {
        seconds: Real(seconds),
        ..HostSettings::default()
    };
    // One record of 1 GiB: it takes longer than the run.
    let one = "[[process]]\nname = \"reader\"\nrecord = \"1GiB\"\n";
    let result = simulate(one, settings(1.0)).total;
    assert_eq!(result.requests, 0);
    assert!(result.latency_ns_max > 1_000_000_000);
    assert!(result.throughput_bytes_per_s < 2e8);
    // By Little's law the mean latency of a closed loop is its depth over its rate.
    let result = simulate(READERS, settings(10.0)).total;
    let law = result.iops * result.latency_ns_mean / 1e9;
    assert!((11.0..13.0).contains(&law), "{law}");
}

/// A record of a trace that reads the 4 KiB at `place`.
fn read(at_ms: u64, place: u64, process: u32) -> TraceRecord {
    TraceRecord {
        device: 1,
        process: Some(process),
        ..Request {
            arrival: Nanos(at_ms * 1_000_000),
            offset: Bytes(place * 4096),
            length: Bytes(4096),
            is_write: false,
        }
        .into()
    }
}

#[test]
fn the_processes_of_a_trace_are_told_apart() {
    let rows = (0..20).flat_map(|n| [read(n, n, 5), read(n, 1 << 20 | n << 10, 7)]);
    let names = |trace: Vec<TraceRecord>| {
        let job = HostJob {
            settings: HostSettings::default(),
            processes: Processes::from_toml("test", READERS).unwrap(),
            trace,
        };
        let mut disk = SteppedDisk::new(&DiskSpec::shipped("disk7200").unwrap(), "fcfs").unwrap();
        let bfq = Settings::parse("bfq").unwrap();
        let result = run(&bfq, &job, &mut disk, &Stop::default())?;
        let rows = result.processes.iter();
        Ok::<_, schedlab_sim::SimError>(
            rows.map(|row| (row.name.clone(), row.requests))
                .collect::<Vec<_>>(),
        )
    };
    let both = [("5".to_owned(), 20), ("7".to_owned(), 20)];
    assert_eq!(names(rows.collect()).unwrap(), both);
    let error = names((0..5000).map(|n| read(n, n, n as u32)).collect()).unwrap_err();
    assert!(error.to_string().contains("at most 4096"), "{error}");
}

/// cfq has one queue for all that nobody waits for, and serves it after the others.
#[test]
fn writes_of_a_trace_that_nobody_waits_for_come_after_the_others() {
    let latency_ns = |others_are_async| {
        let write = |at_ms, place, process| {
            let mut record = read(at_ms, place, process);
            record.request.is_write = true;
            record.is_async = others_are_async && process == 7;
            record
        };
        let others = (0..100).map(|n| write(0, (n * 7919) % 100_000, 7));
        let own = (0..10).map(|n| write(1, 200_000 + (n * 104_729) % 100_000, 8));
        let job = HostJob {
            settings: HostSettings::default(),
            processes: Processes::from_toml("test", READERS).unwrap(),
            trace: others.chain(own).collect(),
        };
        let mut disk = SteppedDisk::new(&DiskSpec::shipped("disk7200").unwrap(), "fcfs").unwrap();
        let cfq = Settings::parse("cfq").unwrap();
        let result = run(&cfq, &job, &mut disk, &Stop::default()).unwrap();
        assert_eq!(result.total.requests, 110);
        result.processes[1].latency_ns_mean
    };
    let (waited_for, alone_waited_for) = (latency_ns(false), latency_ns(true));
    assert!(
        alone_waited_for < waited_for / 2.0,
        "{alone_waited_for} {waited_for}"
    );
}

const COPY: &str = r#"
[[process]]
name = "reader"
pattern = "sequential"
record = "128KiB"
direct = false
[[process]]
name = "writer"
pattern = "sequential"
read_share = 0
record = "128KiB"
direct = false
fsync_every = 256
"#;

#[test]
fn a_closed_loop_of_one_has_at_most_one_request_in_the_device() {
    let settings = HostSettings {
        seconds: Real(2.0),
        warm_up_seconds: Real(1.0),
        ..HostSettings::default()
    };
    let depth = simulate("[[process]]\nname = \"one\"", settings)
        .order
        .depth_mean;
    assert!((0.9..=1.0).contains(&depth), "{depth}");
}

#[test]
fn buffered_processes_end_with_their_run() {
    let settings = HostSettings {
        seconds: Real(5.0),
        ..HostSettings::default()
    };
    let result = simulate(COPY, settings);
    // Nearly all the time is the disk's, and an fsync of 32 MiB may last beyond the end.
    assert!(result.processes.iter().all(|process| process.requests > 10));
    assert!((2e7..1.6e8).contains(&result.total.throughput_bytes_per_s));
    assert!(result.total.latency_ns_max < 3_000_000_000);
}

#[test]
fn a_buffered_process_that_waits_for_a_tag_submits_nothing_more() {
    let settings = HostSettings {
        seconds: Real(40.0),
        max_sectors_kb: 1024,
        read_ahead_kb: 2560,
        log: true,
        ..HostSettings::default()
    };
    let result = simulate(COPY, settings);
    let sizes = |process: u32| -> Vec<u32> {
        let rows = result.log.iter().filter(|row| row.process == process);
        rows.map(|row| row.sectors).collect()
    };
    // 128 pages a request; a window of 2,560 KiB is two requests of 1 MiB and one of 512 KiB.
    assert!(sizes(1).iter().all(|sectors| *sectors == 1024));
    assert_eq!(sizes(0).into_iter().max(), Some(2048));
    // They take turns, so the sizes of the requests decide: 2,560 KiB against 1,536 KiB. Linux 6.18
    // gave 22.4 and 12.6 MB/s. If all of a window waited at once the reader would have 40 MB/s.
    let [reader, writer] = &result.processes[..] else {
        unreachable!("two processes")
    };
    let ratio = reader.throughput_bytes_per_s / writer.throughput_bytes_per_s;
    assert!((1.5..1.8).contains(&ratio), "{ratio}");
}

#[test]
fn copying_to_the_page_cache_takes_its_time() {
    let settings = HostSettings {
        seconds: Real(0.05),
        page_copy_ns: 10_000,
        ..HostSettings::default()
    };
    let writer = COPY.split_once("[[process]]\nname = \"writer\"").unwrap().1;
    let alone = format!("[[process]]\nname = \"writer\"{writer}");
    let result = simulate(&alone, settings).total;
    // 32 pages a record, and 5 us from one to the next.
    assert!((310_000..330_000).contains(&result.latency_ns_p50.unwrap()));
    assert!((150..155).contains(&result.requests));
}

#[test]
fn the_order_of_the_disk_starves_no_process_of_a_preset() {
    for (name, text) in PRESETS {
        let job = HostJob {
            settings: HostSettings {
                tags: 31,
                seconds: Real(20.0),
                ..HostSettings::default()
            },
            processes: Processes::from_toml(name, text).unwrap(),
            trace: Vec::new(),
        };
        let mut disk = SteppedDisk::new(&DiskSpec::shipped("disk7200").unwrap(), "sptf").unwrap();
        let scheduler = Settings::parse("mq-deadline").unwrap();
        let result = run(&scheduler, &job, &mut disk, &Stop::default()).unwrap();
        for process in &result.processes {
            assert!(process.requests > 0, "{} of {name}", process.name);
        }
    }
}
