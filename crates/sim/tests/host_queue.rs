//! The host's queue in front of the disk: with nothing to do it changes nothing.
#![allow(clippy::unwrap_used)]

use schedlab_model::{Bytes, Nanos, Request, Rng};
use schedlab_sim::disk::{replay_logged, DiskSpec, Pace, SteppedDisk};
use schedlab_sim::host::{run, HostJob, HostSettings, Processes, Settings};
use schedlab_sim::workload::trace::TraceRecord;
use schedlab_sim::workload::Real;
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
        let alone = requests.iter().copied().map(Into::into);
        let (_, log) =
            replay_logged(&spec, policy, alone, Pace::AtTimes, true, &Stop::default()).unwrap();
        let mut alone: Vec<(u64, u64)> = log
            .iter()
            .map(|row| (row.request.offset.0 / 512, row.completed_ns))
            .collect();
        let trace = requests.iter().map(|request| TraceRecord {
            request: *request,
            trim: false,
            latency: None,
            device: 0,
        });
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
