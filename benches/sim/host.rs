//! Speed of the host's queue: `cargo bench -p schedlab-sim --bench host`.
//!
//! One core, a serial device that costs next to nothing, 64 requests outstanding. RESULTS.md holds
//! what is wanted and what was measured.

#![allow(missing_docs)]

use std::collections::VecDeque;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use schedlab_sim::host::{run, HostJob, HostSettings, Processes, Settings};
use schedlab_sim::workload::Real;
use schedlab_sim::{Completion, SimError, Stepped, Stop, Submission};

/// Requests of one run.
const REQUESTS: u64 = 200_000;
/// Each takes so long.
const SERVICE_NS: u64 = 1000;

/// Serves in order, each request in the same time.
#[derive(Default)]
struct Serial {
    waiting: VecDeque<u64>,
    serving: Option<(u64, u64)>,
    last_ns: u64,
}

impl Stepped for Serial {
    fn capacity_bytes(&self) -> u64 {
        1 << 40
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        self.last_ns = submission.at_ns;
        self.waiting.push_back(submission.tag);
        Ok(())
    }

    fn next_time_ns(&self) -> Option<u64> {
        let start = (!self.waiting.is_empty()).then_some(self.last_ns);
        self.serving.map(|(at_ns, _)| at_ns).or(start)
    }

    fn advance(&mut self, completions: &mut Vec<Completion>) {
        let mut now_ns = self.last_ns;
        if let Some((at_ns, tag)) = self.serving.take() {
            completions.push(Completion { tag, at_ns });
            now_ns = at_ns;
        }
        let next = self.waiting.pop_front();
        self.serving = next.map(|tag| (now_ns + SERVICE_NS, tag));
    }
}

fn job(processes: u32) -> HostJob {
    let depth = 64 / processes;
    let text = format!("[[process]]\nname = \"p\"\ncount = {processes}\ndepth = {depth}\n");
    HostJob {
        settings: HostSettings {
            tags: 4,
            nr_requests: Some(256),
            seconds: Real(REQUESTS as f64 * SERVICE_NS as f64 / 1e9 + 0.01),
            turnaround_ns: 100,
            ..HostSettings::default()
        },
        processes: Processes::from_toml("bench", &text).expect("valid"),
        trace: Vec::new(),
    }
}

fn host(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("host");
    group.sample_size(10);
    group.throughput(Throughput::Elements(REQUESTS));
    for processes in [1, 64] {
        for scheduler in [
            "none",
            "noop",
            "deadline",
            "mq-deadline",
            "kyber",
            "cfq:slice_idle=0,group_idle=0",
            "bfq:slice_idle=0",
        ] {
            let settings = Settings::parse(scheduler).expect("known");
            let job = job(processes);
            group.bench_function(format!("{scheduler}, {processes} processes"), |bench| {
                bench.iter(|| {
                    let mut device = Serial::default();
                    let result = run(&settings, &job, &mut device, &Stop::default());
                    result.map(|result| result.total.requests).unwrap_or(0)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, host);
criterion_main!(benches);
