//! What newer SSDs add, by hand and against closed forms: suspension, host queues, a mapping
//! cached in part, page types, streams.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{device, known_amplification, requests, run, small, Case};
use proptest::prelude::*;
use schedlab_model::{Bytes, Nanos, Request, Rng};
use schedlab_sim::device::{DeviceSpec, MapSpec, Parallel, StreamBy, SuspendSpec};
use schedlab_sim::engine::Aging;
use schedlab_sim::ftl::Ftl;
use schedlab_sim::workload::{Incoming, Real};
use schedlab_sim::{Config, Report, Stop};
use serde_json::{json, Value};

/// One die without buffer and channel, that is never full.
fn one_die() -> Value {
    json!({
        "flash.channels": 1, "flash.dies_per_package": 1, "flash.planes_per_die": 1,
        "flash.blocks_per_plane": 16_384, "flash.page_read": "75us", "flash.page_write": "750us",
        "flash.page_transfer": 0, "buffer.size": 0, "ftl.in_flight": 65_536, "queue.depth": 65_536,
    })
}

fn merged(mut all: Value, more: Value) -> Value {
    let (Value::Object(all_keys), Value::Object(more)) = (&mut all, more) else {
        unreachable!("both are tables")
    };
    all_keys.extend(more);
    all
}

fn simulate(set: &Value, policy: &str, workload: Value, requests: u64) -> Report {
    let config: Config = serde_json::from_value(json!({
        "device": "ncq2014", "service": "parallel", "set": set, "seed": 7, "requests": requests,
        "policy": {"name": policy, "alpha": 1.0}, "workload": workload,
    }))
    .unwrap();
    config.run(None, &Stop::default()).unwrap()
}

fn text(report: &Report) -> String {
    serde_json::to_string(report).unwrap()
}

/// 4000 reads/s of 75 us and 400 writes/s of 750 us: 309 us in order, 177 us with reads first,
/// 16 us with suspension at no cost.
#[test]
fn the_wait_of_reads_follows_the_closed_forms() {
    let (reads, writes) = (4_000.0, 400.0);
    let workload = json!({
        "name": "random4k", "read_share": reads / (reads + writes),
        "inter_arrival_ms": 1e3 / (reads + writes),
    });
    let wait = |more, policy| {
        let report = simulate(
            &merged(one_die(), more),
            policy,
            workload.clone(),
            1_500_000,
        );
        let suspensions = report.device.suspensions.unwrap_or(0);
        let work = report.read.response.count * 75_000 + report.write.response.count * 750_000;
        assert_eq!(
            report.device.busy_ns[0], work,
            "nothing is lost or done twice"
        );
        (
            report.read.response.mean.unwrap() / 1e9 - 75e-6,
            suspensions,
        )
    };
    let of_reads = reads * 75e-6f64.powi(2);
    let of_all = of_reads + writes * 750e-6f64.powi(2);
    let (load_reads, load) = (reads * 75e-6, reads * 75e-6 + writes * 750e-6);
    let free = json!({
        "suspend.program": true, "suspend.cost": 0, "suspend.resume": 0, "suspend.least": 0,
        "suspend.limit": 4_000_000,
    });
    for (more, policy, known) in [
        (json!({}), "fcfs", of_all / (2.0 * (1.0 - load))),
        (
            json!({"ftl.in_flight": 1}),
            "ts",
            of_all / (2.0 * (1.0 - load_reads)),
        ),
        (free, "fcfs", of_reads / (2.0 * (1.0 - load_reads))),
    ] {
        let suspends = more.get("suspend.program").is_some();
        let (measured, suspensions) = wait(more, policy);
        let off = measured / known - 1.0;
        assert!(off.abs() < 0.02, "{policy} {suspends}: {measured} {known}");
        assert_eq!(suspensions > 0, suspends);
    }
}

#[test]
fn a_page_takes_the_time_of_its_type() {
    let types = json!({
        "flash.program": ["0.3ms", "0.8ms", "1.6ms"], "flash.read": ["40us", "60us", "95us"],
    });
    let fill = json!({
        "name": "sequential4k", "first_file": "1GiB", "read_share": 0.0,
        "arrivals": {"kind": "closed", "outstanding": 1},
    });
    // 64 pages: 22 of the first type, 21 of each other.
    let block_ns = 22 * 300_000 + 21 * 800_000 + 21 * 1_600_000;
    let typed = merged(one_die(), types);
    assert_eq!(
        simulate(&typed, "fcfs", fill.clone(), 64).elapsed_ns,
        block_ns
    );
    let one_shot = merged(typed.clone(), json!({"flash.one_shot": true}));
    let report = simulate(&one_shot, "fcfs", fill.clone(), 64);
    assert_eq!(report.elapsed_ns, block_ns);
    assert_eq!(
        report.write.response.max,
        Some(2_700_000),
        "three pages together"
    );
    let ordered = merged(typed, json!({"flash.order": [2, 0]}));
    let report = simulate(&ordered, "fcfs", fill, 64);
    assert_eq!(report.elapsed_ns, 32 * 1_600_000 + 32 * 300_000);
}

#[test]
fn a_policy_that_knows_pages_takes_the_faster_one() {
    let order = |knows_pages: bool| {
        let mut set = merged(one_die(), json!({"flash.read": ["10us", "90us"]}));
        set["ftl.in_flight"] = json!(1);
        let config: Config = serde_json::from_value(json!({
            "device": "ncq2014", "service": "parallel", "set": set, "log": true,
            "policy": {"name": "ts", "alpha": 1.0, "knows_pages": knows_pages},
        }))
        .unwrap();
        // Pages 0 and 1 are written; while page 0 is read, reads of the slow and the fast wait.
        let lines = [
            (0, 0, 1),
            (0, 1, 1),
            (9_000_000, 0, 0),
            (9_000_001, 1, 0),
            (9_000_002, 0, 0),
        ];
        let column = |f: fn(&(u64, u64, u8)) -> u64| lines.iter().map(f).collect::<Vec<_>>();
        let mut source = schedlab_sim::workload::Arrays::new(
            column(|line| line.0),
            column(|line| line.1 * 4096),
            vec![4096; lines.len()],
            lines.iter().map(|line| line.2).collect(),
        )
        .unwrap();
        let (_, log) = config
            .run_logged(Some(&mut source), &Stop::default())
            .unwrap();
        log.iter()
            .map(|entry| entry.command.index)
            .collect::<Vec<_>>()
    };
    assert_eq!(order(false), [0, 1, 2, 3, 4]);
    assert_eq!(order(true), [0, 1, 2, 4, 3]);
}

/// One plane of 512 blocks; `pages` of the mapping in memory.
fn mapped(cache_entries: u64) -> Value {
    merged(
        one_die(),
        json!({
            "flash.blocks_per_plane": 512, "flash.pages_per_block": 64,
            "ftl.over_provisioning": 0.25, "ftl.precondition": "formula",
            "map.cache": cache_entries * 8, "map.per_page": 512,
        }),
    )
}

#[test]
fn uniform_reads_miss_what_is_not_in_memory_and_pay_a_read_for_it() {
    let pages = 512 * 64 * 4 / 5;
    let workload = json!({
        "name": "randread4k", "first_file": "64MiB",
        "arrivals": {"kind": "closed", "outstanding": 1},
    });
    let known = 16_384;
    for entries in [1_024, 4_096, 12_288] {
        let report = simulate(&mapped(entries), "fcfs", workload.clone(), 60_000);
        let map = report.device.ftl.unwrap().map.unwrap();
        assert_eq!(map.map_lookups, 60_000);
        let share = map.map_misses as f64 / map.map_lookups as f64;
        let expected = 1.0 - entries as f64 / f64::from(known);
        assert!((share - expected).abs() < 0.01, "{share} {expected}");
        assert_eq!(report.elapsed_ns, (60_000 + map.map_misses) * 75_000);
    }
    // All entries in memory: as without the key, byte for byte.
    let all = simulate(&mapped(pages), "fcfs", workload.clone(), 5_000);
    let mut without = mapped(1);
    for key in ["map.cache", "map.per_page"] {
        without.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(
        text(&all),
        text(&simulate(&without, "fcfs", workload, 5_000))
    );
}

#[test]
fn translation_pages_are_written_and_collected_apart() {
    let workload = json!({
        "name": "randwrite4k", "first_file": "64MiB",
        "arrivals": {"kind": "closed", "outstanding": 4},
    });
    let report = simulate(&mapped(1_024), "fcfs", workload.clone(), 100_000);
    let usage = report.device.ftl.unwrap();
    let map = usage.map.unwrap();
    assert_eq!(usage.host_programs, 100_000);
    assert!(
        map.map_writes > 1_000 && map.map_writes <= map.map_misses,
        "{map:?}"
    );
    assert!(usage.gc_moved_pages > 0);
    // Each look-up reads once, each translation page is programmed once.
    let flash_ns = (map.map_misses * 75 + (map.map_writes + 100_000) * 750) * 1_000
        + (usage.gc_moved_pages + map.map_moved_pages) * 825_000
        + usage.gc_collections * 1_500_000;
    assert_eq!(report.device.busy_ns[0], flash_ns);
    let more = simulate(&mapped(12_288), "fcfs", workload, 100_000);
    assert!(more.device.ftl.unwrap().map.unwrap().map_writes < map.map_writes);
}

/// A tenth of the pages gets nine tenths of the writes.
#[test]
fn hot_pages_apart_cost_less_and_no_less_than_the_best_split() {
    let amplification = |number: u32| {
        let mut spec = DeviceSpec::read("ncq2014", &BTreeMap::new()).unwrap();
        spec.flash.channels = 1;
        spec.flash.dies_per_package = 1;
        spec.flash.planes_per_die = 1;
        spec.flash.blocks_per_plane = 1024;
        spec.ftl.over_provisioning = Real(0.2);
        spec.ftl.free_blocks_low = 2;
        spec.ftl.free_blocks_high = 3;
        spec.streams.number = number;
        let mut ftl = Ftl::new(&spec, 5).unwrap();
        let pages = ftl.logical_pages();
        let hot = pages / 10;
        let write = |ftl: &mut Ftl, page: u32| {
            let stream = u32::from(page < hot && number > 1);
            ftl.write_stream(page, 0, stream);
        };
        (0..pages).for_each(|page| write(&mut ftl, page));
        let mut rng = Rng::new(5, 0);
        let mut before = (0, 0);
        for part in 0..2 {
            for _ in 0..6 * pages {
                let is_hot = rng.unit() < 0.9;
                let page = if is_hot {
                    rng.below(u64::from(hot))
                } else {
                    u64::from(hot) + rng.below(u64::from(pages - hot))
                };
                write(&mut ftl, page as u32);
            }
            let usage = ftl.usage();
            let now = (usage.host_programs, usage.gc_moved_pages);
            if part == 1 {
                let moved = (now.1 - before.1) as f64;
                assert_eq!(
                    ftl.audit().unwrap(),
                    u64::from(pages),
                    "valid pages are constant"
                );
                return (1.0 + moved / (now.0 - before.0) as f64, f64::from(pages));
            }
            before = now;
        }
        unreachable!("the second part returns")
    };
    let (mixed, pages) = amplification(1);
    let (apart, _) = amplification(2);
    // Best split of the blocks, of which three or four are free or being filled.
    let best = (1..1000)
        .filter_map(|split| {
            let blocks = (1024.0 - 4.0) * 64.0;
            let hot_blocks = blocks * f64::from(split) / 1000.0;
            let shares = [
                pages * 0.1 / hot_blocks,
                pages * 0.9 / (blocks - hot_blocks),
            ];
            let fits = shares.iter().all(|share| *share < 0.999);
            fits.then(|| {
                0.9 * known_amplification(shares[0], 64.0)
                    + 0.1 * known_amplification(shares[1], 64.0)
            })
        })
        .fold(f64::INFINITY, f64::min);
    assert!(apart < mixed, "{apart} {mixed}");
    assert!(apart > 0.98 * best, "{apart} below {best}");
}

#[test]
fn each_host_queue_counts_what_it_passed_on() {
    let queues = json!([
        {"name": "first", "from": "thread", "weight": 4, "class": "high"},
        {"name": "second", "from": "thread", "depth": 2},
    ]);
    for arbitration in ["rr", "wrr"] {
        let set = json!({
            "buffer.size": 0, "ftl.in_flight": 1, "queue.depth": 4,
            "queue.arbitration": arbitration, "host_queue": queues,
            "streams.number": 2, "streams.by": "queue",
        });
        let workload = json!({"name": "A", "inter_arrival_ms": 0.05});
        let report = simulate(&set, "fcfs", workload, 3_000);
        let uses = &report.host_queues;
        assert_eq!(uses.iter().map(|used| used.arrived).sum::<u64>(), 3_000);
        assert!(uses
            .iter()
            .all(|used| used.arrived == used.fetched && used.arrived > 1_000));
        assert!(uses[1].found_full > 0 && uses[1].waiting_max > 2);
        let means = [0, 1].map(|queue: usize| uses[queue].mean_response_ns.unwrap());
        if arbitration == "wrr" {
            assert!(means[0] < means[1], "{means:?}");
        }
    }
}

fn everything(seed: u64, parts: u32) -> DeviceSpec {
    let case = case(seed);
    let mut spec = device(&case);
    spec.ftl.over_provisioning = Real(2.4);
    spec.ftl.collect = small::COLLECT[seed as usize % 3];
    spec.ftl.precondition = small::PRECONDITION[seed as usize / 3 % 3];
    if parts & 1 != 0 {
        spec.suspend = SuspendSpec {
            program: seed % 2 == 0,
            erase: true,
            cost: Nanos(seed % 9_000),
            least: Nanos(seed % 70_000),
            limit: 1 + (seed % 5) as u32,
            ..SuspendSpec::default()
        };
    }
    if parts & 2 != 0 {
        spec.map = Some(MapSpec {
            cache: Bytes(8 * (1 + seed % 60)),
            entry: 8,
            per_page: 16,
        });
    }
    if parts & 4 != 0 {
        spec.flash.program = vec![Nanos(100_000), Nanos(300_000)];
        spec.flash.read = vec![Nanos(20_000), Nanos(30_000)];
        spec.flash.one_shot = seed % 3 == 0;
    }
    if parts & 8 != 0 {
        spec.streams.number = 2;
        let by = [StreamBy::Size, StreamBy::Recency, StreamBy::Volume];
        spec.streams.by = by[seed as usize % 3];
    }
    spec
}

fn case(seed: u64) -> Case {
    Case {
        seed,
        policy: ["fcfs", "tsb", "sitf"][seed as usize % 3],
        aging: Aging::DispatchOvertake,
        alpha: 0.9,
        buffer: (seed % 20) as u32,
        depth: 1 + (seed % 12) as u32,
        hosts: 1,
        in_flight: 1 + (seed % 7) as u32,
        count: 300,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_combination_serves_every_request_and_loses_no_page(
        seed in any::<u64>(), parts in 0u32..16,
    ) {
        let case = case(seed);
        let spec = everything(seed, parts);
        spec.check().unwrap();
        let mut requests = requests(&case, true);
        for incoming in &mut requests {
            // The device is smaller than that of the other tests.
            incoming.request.offset.0 %= 80 * 4096;
        }
        let device = Parallel::new(&spec, seed).unwrap();
        prop_assert!(device.ftl().logical_pages() >= 92);
        device.ftl().audit().unwrap();
        let (report, log, device) = run(&case, device, &requests);
        prop_assert_eq!(report.requests, requests.len() as u64);
        prop_assert!(log.iter().all(|entry| entry.completed_ns >= entry.command.dispatched_ns));
        let after = device.ftl().audit().unwrap();
        prop_assert!(after <= u64::from(device.ftl().logical_pages()));
        let twice = run(&case, Parallel::new(&spec, seed).unwrap(), &requests).0;
        prop_assert_eq!(text(&report), text(&twice));
    }

    #[test]
    fn suspensions_add_their_own_time_and_no_other(
        seed in any::<u64>(), cost in 0u64..9_000, resume in 0u64..9_000, limit in 1u32..9,
    ) {
        let set = merged(one_die(), json!({
            "suspend.program": true, "suspend.cost": cost, "suspend.resume": resume,
            "suspend.limit": limit, "suspend.least": seed % 300_000,
        }));
        let workload = json!({"name": "random4k", "read_share": 0.7});
        let report = simulate(&set, "fcfs", workload, 2_000);
        let suspensions = report.device.suspensions.unwrap();
        let work = report.read.response.count * 75_000 + report.write.response.count * 750_000;
        prop_assert_eq!(report.device.busy_ns[0], work + suspensions * (cost + resume));
        prop_assert!(suspensions > 0);
        prop_assert!(suspensions <= report.write.response.count * u64::from(limit));
    }

    #[test]
    fn equal_times_and_one_stream_are_as_without_the_keys(seed in any::<u64>()) {
        let case = case(seed);
        let mut spec = device(&case);
        spec.ftl.precondition = small::PRECONDITION[seed as usize % 3];
        let report = |spec: &DeviceSpec| {
            text(&run(&case, Parallel::new(spec, seed).unwrap(), &requests(&case, true)).0)
        };
        let before = report(&spec);
        spec.flash.read = vec![spec.flash.page_read; 3];
        spec.flash.program = vec![spec.flash.page_write; 3];
        spec.streams.by = StreamBy::Recency;
        prop_assert_eq!(before, report(&spec));
    }
}

/// What shares a page with the range stays.
#[test]
fn a_trim_discards_only_the_pages_that_it_covers() {
    let page: u64 = 4096;
    let trimmed = |offset, length| {
        let request = |at_ms: u64, offset, length, is_write| Request {
            arrival: Nanos(at_ms * 1_000_000),
            offset: Bytes(offset),
            length: Bytes(length),
            is_write,
        };
        let write = Incoming::from(request(0, 0, 4 * page, true));
        let trim = Incoming {
            trim: true,
            ..Incoming::from(request(100, offset, length, false))
        };
        let case = Case {
            seed: 1,
            policy: "fcfs",
            aging: Aging::default(),
            alpha: 1.0,
            buffer: 0,
            depth: 4,
            hosts: 1,
            in_flight: 4,
            count: 0,
        };
        let device = Parallel::new(&device(&case), 1).unwrap();
        let (report, ..) = run(&case, device, &[write, trim]);
        report.device.ftl.unwrap().trimmed_pages
    };
    assert_eq!(trimmed(0, 4 * page), 4);
    assert_eq!(trimmed(page, page), 1);
    assert_eq!(trimmed(512, 3 * page), 2);
    assert_eq!(trimmed(512, page), 0);
    assert_eq!(trimmed(512, 512), 0);
}
