//! From the reports of workers to the result of a job: sums, merged histograms, first failures.

use schedlab_model::{Arrivals, Direction, Histogram};

use super::error;
use super::job::{Group, Job};
use super::report::Report;
use super::result::{
    FirstError, GroupResult, JobResult, Latency, Prepared, SeriesResult, SideResult, Transactions,
    WorkerResult,
};
use super::series;

/// A worker that was running or ready to run for this share of the window was the limit itself.
const BUSY_SHARE: f64 = 0.95;

/// The result of a job whose workers reported `reports`.
/// The gate opened at `gate_ns`.
pub(crate) fn sum_up(
    job: &Job,
    reports: &[Report],
    fallbacks: &[Option<String>],
    gate_ns: u64,
) -> JobResult {
    let groups: Vec<GroupResult> = job
        .groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let mut mine: Vec<&Report> = reports.iter().filter(|r| r.group == index).collect();
            mine.sort_by_key(|report| report.number);
            GroupResult {
                fallback: fallbacks[index].clone(),
                series: series(group, &mine, gate_ns),
                ..sum_up_group(group, &mine)
            }
        })
        .collect();
    JobResult {
        elapsed_ns: groups.iter().map(|g| g.elapsed_ns).max().unwrap_or(0),
        groups,
        ..JobResult::default()
    }
}

fn sum_up_group(group: &Group, reports: &[&Report]) -> GroupResult {
    let sum = |of: &dyn Fn(&Report) -> u64| reports.iter().map(|r| of(r)).sum::<u64>();
    let mut result = GroupResult {
        name: group.name.clone(),
        engine: group.engine.name(),
        arrivals: arrivals_name(group),
        elapsed_ns: reports
            .iter()
            .map(|r| r.usage.elapsed_ns)
            .max()
            .unwrap_or(0),
        cpu_user_ns: sum(&|r| r.usage.cpu.user),
        cpu_system_ns: sum(&|r| r.usage.cpu.system),
        reads: side(reports, 0),
        writes: side(reports, 1),
        unissued: sum(&|r| r.tally.unissued),
        unanswered: sum(&|r| r.tally.unissued + r.tally.in_flight),
        oldest_pending_ns: reports
            .iter()
            .map(|r| r.tally.oldest_pending_ns)
            .max()
            .unwrap_or(0),
        responses: reports
            .iter()
            .flat_map(|r| r.tally.responses.clone())
            .collect(),
        prepared: prepared(reports),
        device_bytes_read: sum(&|r| r.tally.sides[0].bytes_ever(u64::from(r.tally.records[0]))),
        device_bytes_written: sum(&|r| r.tally.sides[1].bytes_ever(u64::from(r.tally.records[1]))),
        first_error: reports.iter().find_map(|r| first_error(r)),
        load_generator_bottleneck: bottleneck(reports),
        ring: reports.iter().find_map(|r| r.ring.clone()),
        workers: reports.iter().map(|r| worker(r)).collect(),
        ..GroupResult::default()
    };
    for report in reports {
        for (cause, count) in report.tally.causes() {
            *result.error_counts.entry(cause).or_default() += count;
        }
    }
    if !matches!(group.workload.arrivals, Arrivals::Closed { .. }) || group.replay.is_some() {
        let mut lag = Histogram::new();
        reports.iter().for_each(|r| lag.merge(&r.tally.start_lag));
        result.start_lag = Some(Latency::from(&lag));
    }
    if group.log.is_some() {
        result.transactions = Some(transactions(reports, result.elapsed_ns));
    }
    result
}

/// Completions over time; the window is that of all workers together.
fn series(group: &Group, reports: &[&Report], gate_ns: u64) -> SeriesResult {
    let direction = group.workload.direction;
    let does = [
        direction != Direction::Write,
        direction != Direction::Read || group.log.is_some(),
    ];
    let side = |which: usize| match does[which] {
        true => series::merged(reports.iter().map(|r| &r.tally.series), which),
        false => Vec::new(),
    };
    let ms = |time: Option<u64>| time.unwrap_or(0).saturating_sub(gate_ns) as f64 / 1e6;
    let windows = || reports.iter().map(|r| r.usage.window);
    SeriesResult {
        bin_ms: series::BIN_NS / 1_000_000,
        window_ms: (
            ms(windows().map(|w| w.0).min()),
            ms(windows().map(|w| w.1).max()),
        ),
        reads: side(0),
        writes: side(1),
        latencies: series::merged_latencies(reports.iter().map(|r| &r.tally.series)),
    }
}

fn prepared(reports: &[&Report]) -> Prepared {
    let all = || reports.iter().map(|r| &r.prepared);
    Prepared {
        discarded: all().filter_map(|p| p.discarded).reduce(|a, b| a && b),
        refused: all().find_map(|p| p.refused.clone()),
        primed_bytes: all().map(|p| p.primed_bytes).sum(),
    }
}

fn transactions(reports: &[&Report], elapsed_ns: u64) -> Transactions {
    let mut latency = Histogram::new();
    for report in reports {
        latency.merge(&report.tally.transactions);
    }
    Transactions {
        count: latency.count(),
        per_s: latency.count() as f64 / (elapsed_ns.max(1) as f64 / 1e9),
        latency: Latency::from(&latency),
    }
}

fn side(reports: &[&Report], which: usize) -> SideResult {
    let mut latency = Histogram::new();
    let mut result = SideResult::default();
    for report in reports {
        let side = &report.tally.sides[which];
        result.operations += side.operations;
        result.bytes += side.bytes(u64::from(report.tally.records[which]));
        result.errors += side.errors;
        result.short += side.short;
        latency.merge(&side.latency);
    }
    result.latency = Latency::from(&latency);
    result
}

fn worker(report: &Report) -> WorkerResult {
    let sides = &report.tally.sides;
    let records = report.tally.records.map(u64::from);
    WorkerResult {
        worker: report.number,
        path: report.path.display().to_string(),
        elapsed_ns: report.usage.elapsed_ns,
        operations: sides.iter().map(|side| side.operations).sum(),
        bytes: sides[0].bytes(records[0]) + sides[1].bytes(records[1]),
        errors: sides.iter().map(|side| side.errors).sum(),
        short: sides.iter().map(|side| side.short).sum(),
        fsync_ns: report.fsync_ns,
        cpu_user_ns: report.usage.cpu.user,
        cpu_system_ns: report.usage.cpu.system,
        cpu_share: report.usage.cpu_share,
        runnable_share: report.usage.runnable_share,
        stopped_by: report.stop.name(),
        id: report.id,
    }
}

fn first_error(report: &Report) -> Option<FirstError> {
    let (operation, offset, errno) = report.tally.first_error.clone()?;
    Some(FirstError {
        operation: operation.into_owned(),
        path: report.path.display().to_string(),
        offset,
        error: error::name(errno),
    })
}

/// Whether some worker never had to wait for the device: then the figure is about the worker.
/// Time spent ready but not running counts as busy, so that a neighbour on the same CPU does not
/// hide it.
fn bottleneck(reports: &[&Report]) -> Option<bool> {
    if reports.is_empty() {
        return None;
    }
    Some(reports.iter().any(|report| {
        let usage = &report.usage;
        usage.runnable_share.unwrap_or(usage.cpu_share) >= BUSY_SHARE
    }))
}

fn arrivals_name(group: &Group) -> &'static str {
    if let Some(replay) = &group.replay {
        return replay.timing.name();
    }
    match group.workload.arrivals {
        Arrivals::Closed { .. } => "closed",
        Arrivals::Poisson { .. } => "poisson",
        Arrivals::Constant { .. } => "constant",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::{Stop, Tally};
    use super::super::worker::Usage;
    use super::*;

    const MS: u64 = 1_000_000;

    fn job() -> Job {
        let text = r#"{"groups": [{"name": "g", "path": "/", "engine": "psync", "workload": {
            "pattern": {"kind": "sequential"}, "direction": {"kind": "read"}, "record": 4096,
            "span": 8192, "arrivals": {"kind": "closed", "depth": 1}, "seed": 5}}]}"#;
        Job::from_json(text).unwrap()
    }

    fn group() -> Group {
        job().groups.remove(0)
    }

    /// A worker with this window in ms, runnable for this share of it.
    fn report(from: u64, to: u64, runnable_share: f64) -> Report {
        Report {
            group: 0,
            number: 0,
            id: 0,
            path: "/".into(),
            tally: Tally::new([4096; 2]),
            usage: Usage {
                window: (from * MS, to * MS),
                runnable_share: Some(runnable_share),
                ..Usage::default()
            },
            stop: Stop::Time,
            fsync_ns: 0,
            prepared: Prepared::default(),
            ring: None,
        }
    }

    #[test]
    fn one_worker_that_never_waits_is_the_limit() {
        let (busy, waits) = (report(0, 1, 0.96), report(0, 1, 0.5));
        assert_eq!(bottleneck(&[&waits, &busy]), Some(true));
        assert_eq!(bottleneck(&[&waits, &waits]), Some(false));
        assert_eq!(bottleneck(&[]), None);
    }

    #[test]
    fn the_window_is_that_of_all_workers_together() {
        let (early, late) = (report(105, 200, 0.0), report(110, 230, 0.0));
        for reports in [[&early, &late], [&late, &early]] {
            let series = series(&group(), &reports, 100 * MS);
            assert_eq!(series.window_ms, (5.0, 130.0));
        }
    }

    #[test]
    fn workers_are_added_up_in_their_order() {
        let [late, early] = [1, 0].map(|number| {
            let mut report = report(0, 1, 0.0);
            report.number = number;
            let tally = &mut report.tally;
            tally.complete(true, 0, 4096, 1, 10);
            tally.begin_window();
            tally.complete(true, 0, -libc::EIO, 1, 10);
            tally.complete(true, 0, -libc::ENOSPC, 1, 10);
            tally.leave_pending(10);
            report
        });
        let result = &sum_up(&job(), &[late, early], &[None], 0).groups[0];
        assert_eq!([0, 1].map(|at| result.workers[at].worker), [0, 1]);
        assert_eq!(
            ["EIO", "ENOSPC"].map(|cause| result.error_counts[cause]),
            [2, 2]
        );
        assert_eq!((result.unissued, result.unanswered), (0, 2));
        assert_eq!(result.device_bytes_written, 2 * 4096);
    }

    #[test]
    fn the_first_error_is_that_of_any_worker() {
        let [fine, mut failed] = [0, 1].map(|number| Report {
            number,
            ..report(0, 1, 0.0)
        });
        failed.tally.first_error = Some(("write".into(), 512, libc::EIO));
        let result = &sum_up(&job(), &[fine, failed], &[None], 0).groups[0];
        assert!(result.first_error.is_some());
    }

    #[test]
    fn a_group_is_discarded_if_each_of_its_files_is() {
        let with = |discarded| Report {
            prepared: Prepared {
                discarded,
                primed_bytes: 5,
                ..Prepared::default()
            },
            ..report(0, 1, 0.0)
        };
        for (first, second, all) in [
            (Some(true), Some(false), Some(false)),
            (Some(false), Some(true), Some(false)),
            (Some(true), Some(true), Some(true)),
            (None, Some(true), Some(true)),
            (None, None, None),
        ] {
            let prepared = prepared(&[&with(first), &with(second)]);
            assert_eq!((prepared.discarded, prepared.primed_bytes), (all, 10));
        }
    }
}
