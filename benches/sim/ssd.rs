//! Speed and memory of the SSD simulator: `cargo bench -p schedlab-sim --bench ssd`.
//!
//! Requests are generated, or parsed from text, and their histograms kept inside the measured
//! time. RESULTS.md holds what is wanted and what was measured.

use std::process::Command;
use std::thread;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{criterion_group, BatchSize, BenchmarkGroup, Criterion, Throughput};
use schedlab_formats::{read_bytes, TraceOptions};
use schedlab_model::Rng;
use schedlab_sim::{Job, Outcome, Stop};
use serde_json::{json, Value};

/// A case with its number of requests.
struct Case {
    name: &'static str,
    requests: u64,
    config: fn() -> Value,
}

static CASES: [Case; 9] = [
    Case {
        name: "4 KiB, serial, no translation layer",
        requests: 500_000,
        config: || json!({"workload": {"name": "random4k", "inter_arrival_ms": 0.2}}),
    },
    Case {
        name: "4 KiB reads, parallel, translation layer",
        requests: 500_000,
        config: || {
            json!({
                "service": "parallel",
                "set": {"buffer.size": 0},
                "workload": {"name": "randread4k", "inter_arrival_ms": 0.01},
            })
        },
    },
    // 8 GiB; write amplification 2.7.
    Case {
        name: "4 KiB writes, parallel, greedy collection",
        requests: 2_000_000,
        config: || {
            json!({
                "service": "parallel",
                "set": {
                    "buffer.size": 0,
                    "flash.blocks_per_plane": 256,
                    "ftl.over_provisioning": 0.28,
                    "ftl.precondition": "formula",
                },
                "workload": {
                    "name": "randwrite4k", "inter_arrival_ms": 0.1, "first_file": "6GiB",
                },
            })
        },
    },
    // 1 GiB; write amplification 6.2, and requests come faster than they can be served.
    Case {
        name: "4 KiB writes, parallel, greedy collection, overload",
        requests: 1_000_000,
        config: || {
            json!({
                "service": "parallel",
                "set": {
                    "buffer.size": 0,
                    "flash.blocks_per_plane": 40,
                    "ftl.over_provisioning": 0.24,
                    "ftl.precondition": "formula",
                },
                "workload": {"name": "randwrite4k", "inter_arrival_ms": 0.02},
            })
        },
    },
    Case {
        name: "32 pages, serial, TSB",
        requests: 200_000,
        config: || {
            json!({
                "policy": {"name": "tsb"},
                "workload": {"name": "A", "record_min": "128KiB", "record_max": "128KiB"},
            })
        },
    },
    // 59 GiB, all of the device, at write amplification 7; a rate that the flash can serve.
    Case {
        name: "4 KiB writes over 59 GiB, parallel, greedy collection",
        requests: 3_000_000,
        config: || {
            json!({
                "service": "parallel",
                "set": {"ftl.precondition": "formula"},
                "workload": {
                    "name": "randwrite4k", "inter_arrival_ms": 0.2, "first_file": "59GiB",
                },
            })
        },
    },
    Case {
        name: "4 KiB writes over 59 GiB, parallel, no collection",
        requests: 3_000_000,
        config: || {
            json!({
                "service": "parallel",
                "workload": {
                    "name": "randwrite4k", "inter_arrival_ms": 0.2, "first_file": "59GiB",
                },
            })
        },
    },
    // The shipped device as it is, with dies of two planes that move page by page.
    Case {
        name: "4 KiB writes on nvme, collection",
        requests: 1_000_000,
        config: || {
            json!({
                "device": "nvme",
                "service": "parallel",
                "set": {"ftl.precondition": "formula"},
                "workload": {
                    "name": "randwrite4k", "inter_arrival_ms": 0.2, "first_file": "29GiB",
                },
            })
        },
    },
    // All tables of 64 GiB, 16.8 million pages, are filled.
    Case {
        name: "64 GiB in use, parallel",
        requests: 1 << 18,
        config: || {
            json!({
                "service": "parallel",
                "set": {"ftl.precondition": "formula"},
                "workload": {"name": "randwrite4k", "first_file": "59GiB"},
            })
        },
    },
];

fn job(case: &Case, requests: u64, seed: u64) -> Job {
    let mut whole = (case.config)();
    let mut device = json!({"device": "ncq2014"});
    for key in ["device", "service", "set"] {
        if let Some(value) = whole.as_object_mut().and_then(|keys| keys.remove(key)) {
            device[key] = value;
        }
    }
    whole["device"] = device;
    whole["requests"] = requests.into();
    whole["seed"] = seed.into();
    serde_json::from_value(whole).expect("a case is a job")
}

fn run(job: &Job) -> Outcome {
    let outcome = job.run(None, None, &Stop::default());
    outcome.expect("a case can be simulated")
}

/// Few samples: one takes up to a second.
fn short(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sample_size(10);
    group.warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(3));
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("requests");
    short(&mut group);
    for case in &CASES[..8] {
        group.throughput(Throughput::Elements(case.requests));
        let one = job(case, case.requests, 1);
        group.bench_function(case.name, |bencher| bencher.iter(|| run(&one)));
        let other = job(case, case.requests, 2);
        group.throughput(Throughput::Elements(2 * case.requests));
        group.bench_function(format!("{}, two threads", case.name), |bencher| {
            bencher.iter(|| {
                thread::scope(|scope| {
                    scope.spawn(|| run(&other));
                    run(&one)
                })
            });
        });
    }
    group.finish();
}

/// A new, preconditioned device of 64 GiB and one request. Wanted: less than 0.1 s.
fn start_up(criterion: &mut Criterion) {
    let one = job(&CASES[8], 1, 0);
    let mut group = criterion.benchmark_group("start-up");
    short(&mut group);
    group.bench_function("64 GiB, parallel", |bencher| bencher.iter(|| run(&one)));
    group.finish();
}

/// Wanted: 5 M lines/s.
fn lines(criterion: &mut Criterion) {
    const LINES: u64 = 200_000;
    let mut group = criterion.benchmark_group("lines");
    short(&mut group);
    group.throughput(Throughput::Elements(LINES));
    for format in ["mqsim", "msr", "spc", "alibaba", "blkparse"] {
        let text = trace(format, LINES).into_bytes();
        group.bench_function(format, |bencher| {
            bencher.iter_batched(
                || text.clone(),
                |text| {
                    let reader = read_bytes("bench", text, Some(format), &TraceOptions::default());
                    let records = reader.expect("the lines are of this format");
                    let lengths = records.map(|record| record.expect("a line").request.length.0);
                    lengths.sum::<u64>()
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Made-up requests as text.
fn trace(format: &str, lines: u64) -> String {
    let mut rng = Rng::new(1, 0);
    let mut ns = 0;
    let line = |_| {
        ns += 1_000 + rng.below(90_000);
        let (sector, sectors, is_write) = (rng.below(1 << 29), 8 << rng.below(4), rng.below(2));
        let (bytes, length) = (sector * 512, sectors * 512);
        let (letter, word) = [('R', "Read"), ('W', "Write")][is_write as usize];
        let (s, rest_ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
        match format {
            "mqsim" => format!("{ns} 0 {sector} {sectors} {}\n", 1 - is_write),
            "msr" => {
                let ticks = 128_166_372_003_061_629 + ns / 100;
                format!("{ticks},usr,0,{word},{bytes},{length},41286\n")
            }
            "spc" => format!("0,{sector},{length},{letter},{s}.{:06}\n", rest_ns / 1_000),
            "alibaba" => format!("419,{letter},{bytes},{length},{}\n", ns / 1_000),
            _ => format!(
                "  8,0    1  {:>7} {s:>5}.{rest_ns:09} 697  Q  {letter}S {sector} + {sectors} \
                 [fio]\n",
                7
            ),
        }
    };
    (0..lines).map(line).collect()
}

/// Peak resident memory of each case, in a process of its own.
fn memory() {
    let myself = std::env::current_exe().expect("the path of this program");
    for case in &CASES {
        let child = Command::new(&myself).env("CASE", case.name).output();
        let peak = String::from_utf8(child.expect("this program runs").stdout);
        let peak = peak.expect("text of this program");
        println!("resident: {}: {}", case.name, peak.trim());
    }
}

/// CPU time of this program so far, in s.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("the time that this thread ran") / 1e9
}

/// Prints M requests/s of CPU time of one case, without the time to set up the device and its
/// planes: from the difference of a long and a short run. `alternate.py` compares two programs so.
fn rate_of(name: &str) {
    let case = case_of(name);
    let (short, long) = (case.requests / 2, case.requests * 3 / 2);
    let seconds = |requests| {
        let one = job(case, requests, 1);
        let start = cpu_seconds();
        run(&one);
        cpu_seconds() - start
    };
    // Memory that its host must provide first costs a virtual machine time.
    seconds(short);
    let rate = (long - short) as f64 / (seconds(long) - seconds(short)) / 1e6;
    println!("{rate:.3}");
}

fn case_of(name: &str) -> &'static Case {
    let case = CASES.iter().find(|case| case.name == name);
    case.expect("a name of a case")
}

/// Simulates one case and prints the peak of its resident memory.
fn peak_of(name: &str) {
    let case = case_of(name);
    run(&job(case, case.requests, 1));
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", peak.expect("the peak of the memory").trim());
}

// The macro makes a public function.
#[allow(missing_docs)]
mod group {
    use super::*;
    criterion_group!(benches, requests, start_up, lines);
}

fn main() {
    if let Ok(name) = std::env::var("CASE") {
        return peak_of(&name);
    }
    if let Ok(name) = std::env::var("RATE") {
        return rate_of(&name);
    }
    group::benches();
    memory();
    Criterion::default().configure_from_args().final_summary();
}
