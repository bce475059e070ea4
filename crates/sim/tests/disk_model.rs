//! The disk against what is known without simulating: closed forms, and services by hand.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use schedlab_model::{Arrivals, Bytes, Direction, Nanos, Pattern, Request, Workload};
use schedlab_sim::disk::{
    simulate, CacheSpec, DiskResult, DiskSpec, Generated, Geometry, Mechanics, SignedNanos, Zone,
    POLICIES,
};
use schedlab_sim::workload::Incoming;
use schedlab_sim::{SimError, Stop};

const MS: u64 = 1_000_000;

fn disk() -> DiskSpec {
    DiskSpec::shipped("disk7200").unwrap()
}

fn uncached(spec: DiskSpec) -> DiskSpec {
    let cache = CacheSpec {
        segments: 0,
        ..spec.cache
    };
    DiskSpec { cache, ..spec }
}

/// All cylinders alike, so that uniform addresses are uniform cylinders.
fn one_zone() -> DiskSpec {
    let zones = vec![Zone {
        cylinders: 100_000,
        sectors_per_track: 1600,
        ..Zone::default()
    }];
    uncached(DiskSpec { zones, ..disk() })
}

/// One turn in 10 ms, 100 sectors of 100 us, 10 cylinders of 2 heads, no skew, no overhead.
fn small() -> DiskSpec {
    DiskSpec {
        rpm: 6000,
        heads: 2,
        zones: vec![
            Zone {
                cylinders: 6,
                sectors_per_track: 100,
                ..Zone::default()
            },
            Zone {
                cylinders: 4,
                sectors_per_track: 50,
                ..Zone::default()
            },
        ],
        seek_single: Nanos(MS),
        seek_average: Nanos(4 * MS),
        seek_full: Nanos(10 * MS),
        write_settle: SignedNanos(MS as i64),
        head_switch: Nanos(2 * MS),
        track_skew: Nanos(0),
        cylinder_skew: Nanos(0),
        overhead: Nanos(0),
        ..uncached(disk())
    }
}

fn workload(spec: &DiskSpec, pattern: Pattern, record: u64, depth: u32) -> Workload {
    Workload {
        pattern,
        direction: Direction::Read,
        record: Bytes(record),
        span: spec.capacity(),
        arrivals: Arrivals::Closed { depth },
        seed: 1,
    }
}

fn random(spec: &DiskSpec, depth: u32) -> Workload {
    workload(spec, Pattern::Random { replacement: true }, 4096, depth)
}

fn run(spec: &DiskSpec, policy: &str, requests: u64, workload: Workload) -> DiskResult {
    let mut source = Generated::new(workload, requests).unwrap();
    let stop = Stop::default();
    simulate(spec, policy, &mut source, false, &stop).unwrap().0
}

fn read(arrival_ms: u64, lba: u64, sectors: u64) -> Request {
    Request {
        arrival: Nanos(arrival_ms * MS),
        offset: Bytes(lba * 512),
        length: Bytes(sectors * 512),
        is_write: false,
    }
}

/// Figures of requests that come at their own times.
fn served(spec: &DiskSpec, policy: &str, requests: &[Request]) -> Result<DiskResult, SimError> {
    let mut source = requests.iter().map(|request| Ok(Incoming::from(*request)));
    simulate(spec, policy, &mut source, false, &Stop::default()).map(|(result, _)| result)
}

fn service_ns(spec: &DiskSpec, requests: &[Request]) -> DiskResult {
    served(spec, "fcfs", requests).unwrap()
}

#[track_caller]
fn close(actual: f64, expected: f64, relative: f64) {
    let error = actual / expected - 1.0;
    assert!(
        error.abs() <= relative,
        "{actual} is not {expected}: {error:+.4}"
    );
}

#[test]
fn addresses_go_over_sectors_then_heads_then_cylinders() {
    let geometry = Geometry::new(&small());
    assert_eq!(geometry.sectors(), 6 * 200 + 4 * 100);
    let place = |lba| {
        let p = geometry.place(lba);
        (p.cylinder, p.head, p.sector, p.sectors_per_track)
    };
    assert_eq!(place(0), (0, 0, 0, 100));
    assert_eq!(place(199), (0, 1, 99, 100));
    assert_eq!(place(200), (1, 0, 0, 100));
    assert_eq!(place(1200), (6, 0, 0, 50));
    assert_eq!(place(1599), (9, 1, 49, 50));
}

#[test]
fn services_by_hand() {
    let spec = small();
    let total = |requests: &[Request]| service_ns(&spec, requests).elapsed_ns;
    // Sector 30 passes at 3 ms; 10 sectors take 1 ms.
    assert_eq!(total(&[read(0, 30, 10)]), 4 * MS);
    // Head switch until 2 ms, then to sector 10 of head 1: a turn later, at 11 ms.
    assert_eq!(total(&[read(0, 110, 10)]), 12 * MS);
    // To the next cylinder in 1 ms, sector 10 passes at that very moment.
    assert_eq!(total(&[read(0, 210, 10)]), 2 * MS);
    // A write settles 1 ms longer and misses it.
    let write = Request {
        is_write: true,
        ..read(0, 210, 10)
    };
    assert_eq!(total(&[write]), 12 * MS);
    // Sectors 95-99, then head switch until 12 ms, sector 0 of the other track at 20 ms.
    assert_eq!(total(&[read(0, 95, 6)]), 20 * MS + MS / 10);
    // The inner zone: sector 25 of 50 is half a turn; seek over 6 cylinders comes before.
    let seek_ns = Mechanics::new(&spec).seek_ns(6);
    assert!((5 * MS..15 * MS).contains(&seek_ns), "{seek_ns}");
    assert_eq!(total(&[read(0, 1225, 1)]), 15 * MS + MS / 5);
}

#[test]
fn orders_of_service_by_hand() {
    // While cylinder 5 is served, 4, 8 and 1 arrive in this order.
    let requests = [
        read(0, 1000, 1),
        read(1, 800, 1),
        read(1, 1400, 1),
        read(1, 200, 1),
    ];
    let cylinders = |policy: &str| {
        let result = served(&small(), policy, &requests).unwrap();
        (result.seek_cylinders_mean * 4.0).round()
    };
    assert_eq!(cylinders("fcfs"), 17.0); // 5 4 8 1
    assert_eq!(cylinders("sstf"), 16.0); // 5 4 1 8
    assert_eq!(cylinders("scan"), 17.0); // 5 8, the edge 9, 4 1
    assert_eq!(cylinders("clook"), 18.0); // 5 8 1 4
    let back = [read(0, 1000, 1), read(1, 400, 1)];
    let scan = served(&small(), "scan", &back).unwrap();
    assert_eq!(scan.seek_cylinders_mean * 2.0, 16.0); // 5, the edge 9, 2
}

#[test]
fn the_seek_curve_goes_through_the_data_sheet() {
    let spec = one_zone();
    let mechanics = Mechanics::new(&spec);
    assert_eq!(mechanics.seek_ns(0), 0);
    assert_eq!(mechanics.seek_ns(1), spec.seek_single.0);
    close(
        mechanics.seek_ns(99_999) as f64,
        spec.seek_full.0 as f64,
        1e-4,
    );
    let times: Vec<u64> = (0..100_000).map(|d| mechanics.seek_ns(d)).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    // Two uniform cylinders are d apart with probability 2(N − d)/N².
    let n = 100_000.0f64;
    let weighted = times.iter().enumerate().skip(1);
    let mean: f64 = weighted
        .map(|(d, t)| 2.0 * (n - d as f64) / (n * n) * *t as f64)
        .sum();
    close(mean, spec.seek_average.0 as f64, 1e-3);
}

#[test]
fn random_seeks_cost_the_integral_of_the_curve_over_a_third_of_the_stroke() {
    let spec = one_zone();
    let result = run(&spec, "fcfs", 100_000, random(&spec, 1));
    close(result.seek_ns_mean, spec.seek_average.0 as f64, 0.005);
    close(result.seek_cylinders_mean, 100_000.0 / 3.0, 0.005);
}

#[test]
fn mean_rotational_latency_is_half_a_revolution() {
    for rpm in [5400, 7200, 15000] {
        let spec = DiskSpec { rpm, ..one_zone() };
        let result = run(&spec, "fcfs", 50_000, random(&spec, 1));
        close(result.rotation_ns_mean, 30e9 / f64::from(rpm), 0.01);
    }
}

/// Bytes per second under the head in the outermost zone, switches hidden by the skews.
fn media_rate(spec: &DiskSpec) -> f64 {
    let heads = f64::from(spec.heads);
    let turn = spec.revolution_ns() as f64;
    let skew = (heads - 1.0) * spec.track_skew.0 as f64 + spec.cylinder_skew.0 as f64;
    let bytes = heads * f64::from(spec.zones[0].sectors_per_track) * spec.sector.0 as f64;
    bytes / (heads * turn + skew) * 1e9
}

#[test]
fn sequential_reads_run_at_media_rate() {
    let spec = disk();
    for record in [65536, 262_144] {
        let result = run(
            &spec,
            "fcfs",
            20_000,
            workload(&spec, Pattern::Sequential, record, 1),
        );
        close(result.throughput_bytes_per_s, media_rate(&spec), 0.01);
        assert!(result.hit_ratio > 0.99);
    }
    // Small ones are bound by the handling of commands.
    let result = run(
        &spec,
        "fcfs",
        20_000,
        workload(&spec, Pattern::Sequential, 4096, 1),
    );
    let transfer_ns = 4096e9 / spec.interface_bytes_per_s as f64;
    close(
        result.latency_ns_mean,
        spec.overhead.0 as f64 + transfer_ns,
        0.01,
    );
    // Without a cache each command comes too late for the next sector and waits a turn for it.
    let spec = uncached(spec);
    let result = run(
        &spec,
        "fcfs",
        2000,
        workload(&spec, Pattern::Sequential, 65536, 1),
    );
    close(result.latency_ns_mean, spec.revolution_ns() as f64, 0.1);
}

#[test]
fn without_skew_a_sequential_read_loses_a_turn_per_track() {
    let skewless = DiskSpec {
        track_skew: Nanos(0),
        cylinder_skew: Nanos(0),
        ..disk()
    };
    let sequential = workload(&skewless, Pattern::Sequential, 65536, 1);
    let result = run(&skewless, "fcfs", 20_000, sequential);
    let track = f64::from(skewless.zones[0].sectors_per_track) * 512.0;
    let two_turns = 2e-9 * skewless.revolution_ns() as f64;
    close(result.throughput_bytes_per_s, track / two_turns, 0.01);
}

#[test]
fn sptf_is_fastest_at_depth_and_all_are_equal_at_depth_1() {
    let spec = disk();
    let iops = |policy: &str, depth| run(&spec, policy, 20_000, random(&spec, depth)).iops;
    let [fcfs, sstf, scan, clook, sptf] =
        ["fcfs", "sstf", "scan", "clook", "sptf"].map(|policy| iops(policy, 32));
    assert!(
        sptf > 1.15 * sstf && sstf > 1.15 * fcfs,
        "{sptf} {sstf} {fcfs}"
    );
    assert!(
        clook > 1.1 * fcfs && scan > 1.1 * fcfs,
        "{clook} {scan} {fcfs}"
    );
    // One command at a time leaves no choice; only SCAN goes by the edges.
    for policy in ["sstf", "clook", "sptf"] {
        assert_eq!(iops(policy, 1), iops("fcfs", 1), "{policy}");
    }
}

#[test]
fn deeper_queues_help_sptf_and_not_fcfs() {
    let spec = disk();
    let iops = |policy: &str, depth| run(&spec, policy, 10_000, random(&spec, depth)).iops;
    let depths = [1, 4, 16, 32].map(|depth| iops("sptf", depth));
    assert!(
        depths.windows(2).all(|pair| pair[1] > 1.1 * pair[0]),
        "{depths:?}"
    );
    close(iops("fcfs", 32), iops("fcfs", 1), 0.02);
}

#[test]
fn sstf_starves_a_far_command_and_the_sweeps_do_not() {
    let spec = uncached(disk());
    let far = spec.capacity().0 / 512 - 8;
    // Near the outer edge a command comes every 4 ms, faster than it is served; one is far away.
    let mut requests: Vec<Request> = (0..4000)
        .map(|i| read(4 * i, (i * 7_919_993) % 20_000_000, 8))
        .collect();
    requests.insert(26, read(100, far, 8));
    let longest_s = |policy: &str| {
        let result = served(&spec, policy, &requests).unwrap();
        assert_eq!(result.requests, 4001);
        result.latency_ns_max as f64 / 1e9
    };
    let all = ["fcfs", "scan", "clook", "sstf"].map(longest_s);
    // It waits until little else is left, 17 s; the others' maxima are the backlog at the end.
    let [fcfs, scan, clook, sstf] = all;
    assert!(
        sstf > 15.0 && sstf > 2.0 * fcfs.max(scan).max(clook),
        "{all:?}"
    );
}

#[test]
fn random_maxima_are_worse_under_sstf_than_under_clook() {
    let spec = disk();
    let max = |policy: &str| run(&spec, policy, 50_000, random(&spec, 32)).latency_ns_max;
    let maxima = ["sstf", "scan", "clook", "fcfs"].map(max);
    assert!(maxima[0] > 2 * maxima[2], "{maxima:?}");
}

#[test]
fn waiting_follows_pollaczek_and_khinchine() {
    let spec = one_zone();
    let service = run(&spec, "fcfs", 50_000, random(&spec, 1));
    let mean_s = service.service_ns_mean / 1e9;
    for load in [0.3, 0.6] {
        let arrivals = Arrivals::Poisson {
            rate_per_s: load / mean_s,
        };
        let open = Workload {
            arrivals,
            ..random(&spec, 1)
        };
        let result = run(&spec, "fcfs", 200_000, open);
        close(result.utilisation, load, 0.02);
        let (mean, deviation) = (result.service_ns_mean, result.service_ns_deviation);
        let square = mean * mean + deviation * deviation;
        let wait = load / mean * square / (2.0 * (1.0 - load));
        close(result.latency_ns_mean, mean + wait, 0.03);
    }
}

#[test]
fn light_load_waits_for_nothing_and_utilisation_is_rate_times_service() {
    let spec = uncached(disk());
    let constant = Workload {
        arrivals: Arrivals::Constant { rate_per_s: 10.0 },
        ..random(&spec, 1)
    };
    let result = run(&spec, "sptf", 5000, constant);
    assert_eq!(result.latency_ns_mean, result.service_ns_mean);
    close(
        result.utilisation,
        10.0 * result.service_ns_mean / 1e9,
        0.001,
    );
}

#[test]
fn the_cache_knows_what_it_read_and_forgets_what_is_written() {
    let spec = disk();
    let write = |at, lba| Request {
        is_write: true,
        ..read(at, lba, 8)
    };
    let hits = |requests: &[Request]| (service_ns(&spec, requests).hit_ratio * 10.0).round();
    assert_eq!(hits(&[read(0, 800, 8), read(100, 800, 8)]), 5.0);
    // Read-ahead of 512 KiB: the 1024 sectors behind.
    assert_eq!(hits(&[read(0, 800, 8), read(100, 1820, 8)]), 5.0);
    assert_eq!(hits(&[read(0, 800, 8), read(100, 1840, 8)]), 0.0);
    assert_eq!(
        hits(&[read(0, 800, 8), read(100, 1_000_000, 8), read(200, 800, 8)]),
        3.0
    );
    assert_eq!(
        hits(&[read(0, 800, 8), write(100, 804), read(200, 800, 8)]),
        0.0
    );
}

#[test]
fn the_same_seed_gives_the_same_run_under_every_policy() {
    let spec = disk();
    let mixed = Workload {
        direction: Direction::Mixed { read_percent: 60 },
        arrivals: Arrivals::Poisson { rate_per_s: 90.0 },
        ..random(&spec, 1)
    };
    for (policy, ..) in POLICIES {
        let first = run(&spec, policy, 3000, mixed);
        assert_eq!(first, run(&spec, policy, 3000, mixed));
        assert_eq!((first.requests, first.bytes), (3000, 3000 * 4096));
        assert_eq!(
            first.latency_bins.iter().map(|bin| bin.count).sum::<u64>(),
            3000
        );
        assert!(first.latency_ns_mean >= first.service_ns_mean);
        let other = Workload { seed: 2, ..mixed };
        assert_ne!(first.elapsed_ns, run(&spec, policy, 3000, other).elapsed_ns);
    }
}

#[test]
fn fcfs_completes_in_order_of_arrival() {
    // In order means: the sum of services is the makespan of a backlog, for any addresses.
    let spec = uncached(disk());
    let backlog: Vec<Request> = (0..500u64)
        .map(|i| read(0, (i * 104_729_000) % 900_000_000, 8))
        .collect();
    let result = service_ns(&spec, &backlog);
    let one_by_one = (0..500).map(|i| service_ns(&spec, &backlog[..=i]).elapsed_ns);
    let finishes: Vec<u64> = one_by_one.collect();
    assert!(finishes.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(finishes[499], result.elapsed_ns);
    let mean = finishes.iter().sum::<u64>() as f64 / 500.0;
    assert_eq!(result.latency_ns_mean, mean);
}

#[test]
fn impossible_disks_and_runs_name_their_key() {
    let refused = |change: &dyn Fn(&mut DiskSpec)| {
        let mut spec = disk();
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    };
    assert_eq!(refused(&|s| s.rpm = 0), "rpm = 0: expected 60 to 100000");
    assert!(refused(&|s| s.heads = 0).starts_with("heads = 0: expected 1"));
    assert!(refused(&|s| s.zones.clear()).starts_with("zones = 0: expected 1"));
    assert!(refused(&|s| s.zones[1].sectors_per_track = 0).starts_with("sectors_per_track = 0"));
    let error = refused(&|s| s.seek_average = Nanos(20 * MS));
    assert!(error.starts_with("seek_average = 20000000 ns: expected 6533334 to 9973333 ns"));
    assert!(refused(&|s| s.seek_single = Nanos(0)).starts_with("seek_single = 0 ns"));
    assert!(refused(&|s| s.queue_depth = 0).starts_with("queue_depth = 0: expected 1"));
    let error = refused(&|s| s.cache.read_ahead = Bytes(2 << 20));
    assert!(error.starts_with("cache.read_ahead = 2 MiB: expected 0 to cache.segment"));
    let error = DiskSpec::from_toml(
        "x.toml",
        "model = \"disk\"\nrpm = \"fast\"",
        &BTreeMap::new(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("rpm"), "{error}");
    let error = DiskSpec::shipped("disk1").unwrap_err().to_string();
    assert!(error.starts_with("device = \"disk1\" is not known: expected one of disk7200"));

    let spec = disk();
    let far = [read(0, spec.capacity().0 / 512 - 4, 8)];
    let error = served(&spec, "fcfs", &far).unwrap_err();
    assert!(
        error.to_string().contains("ending within the disk's"),
        "{error}"
    );
    let run = |policy: &str, requests, workload| {
        let stop = Stop::default();
        let source = Generated::new(workload, requests);
        let result = source.and_then(|mut all| simulate(&spec, policy, &mut all, false, &stop));
        result.unwrap_err().to_string()
    };
    assert!(run("cscan", 1, random(&spec, 1)).contains("one of fcfs, sstf, scan, clook, sptf"));
    assert!(run("fcfs", 0, random(&spec, 1)).starts_with("requests = 0"));
    assert!(run("fcfs", 1, random(&spec, 0)).starts_with("depth = 0"));
}
