//! From the reports of workers to the result of a job: sums, merged histograms, first failures.

use schedlab_model::{Arrivals, Histogram};

use super::error;
use super::job::{Group, Job};
use super::result::{
    FirstError, GroupResult, JobResult, Latency, Mismatch, SideResult, WorkerResult,
};
use super::run::Report;

/// A worker that was running or ready to run for this share of the window was the limit itself.
const BUSY_SHARE: f64 = 0.95;

/// The result of a job whose workers reported `reports`.
pub(crate) fn sum_up(job: &Job, reports: &[Report], fallbacks: &[Option<String>]) -> JobResult {
    let groups: Vec<GroupResult> = job
        .groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let mut mine: Vec<&Report> = reports.iter().filter(|r| r.group == index).collect();
            mine.sort_by_key(|report| report.number);
            GroupResult {
                fallback: fallbacks[index].clone(),
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
    let record = group.workload.record.0;
    let sum = |of: &dyn Fn(&Report) -> u64| reports.iter().map(|r| of(r)).sum::<u64>();
    let mut result = GroupResult {
        name: group.name.clone(),
        engine: group.engine.name(),
        arrivals: arrivals_name(group.workload.arrivals),
        elapsed_ns: reports
            .iter()
            .map(|r| r.usage.elapsed_ns)
            .max()
            .unwrap_or(0),
        cpu_user_ns: sum(&|r| r.usage.cpu.user),
        cpu_system_ns: sum(&|r| r.usage.cpu.system),
        reads: side(reports, 0, record),
        writes: side(reports, 1, record),
        unissued: sum(&|r| r.tally.unissued),
        device_bytes_read: sum(&|r| r.tally.sides[0].bytes_ever(record)),
        device_bytes_written: sum(&|r| r.tally.sides[1].bytes_ever(record)),
        verified: sum(&|r| r.findings.checked),
        mismatches: sum(&|r| r.findings.mismatches),
        first_error: reports.iter().find_map(|r| first_error(r)),
        first_mismatch: reports.iter().find_map(|r| first_mismatch(r)),
        load_generator_bottleneck: bottleneck(group, reports),
        ring: reports.iter().find_map(|r| r.ring.clone()),
        workers: reports.iter().map(|r| worker(r, record)).collect(),
        ..GroupResult::default()
    };
    for report in reports {
        for (cause, count) in report.tally.causes() {
            *result.error_counts.entry(cause).or_default() += count;
        }
    }
    if !matches!(group.workload.arrivals, Arrivals::Closed { .. }) {
        let mut lag = Histogram::new();
        reports.iter().for_each(|r| lag.merge(&r.tally.start_lag));
        result.start_lag = Some(Latency::from(&lag));
    }
    result
}

fn side(reports: &[&Report], which: usize, record: u64) -> SideResult {
    let mut latency = Histogram::new();
    let mut result = SideResult::default();
    for side in reports.iter().map(|report| &report.tally.sides[which]) {
        result.operations += side.operations;
        result.bytes += side.bytes(record);
        result.errors += side.errors;
        result.short += side.short;
        latency.merge(&side.latency);
    }
    result.latency = Latency::from(&latency);
    result
}

fn worker(report: &Report, record: u64) -> WorkerResult {
    let sides = &report.tally.sides;
    WorkerResult {
        worker: report.number,
        path: report.path.display().to_string(),
        elapsed_ns: report.usage.elapsed_ns,
        operations: sides.iter().map(|side| side.operations).sum(),
        bytes: sides.iter().map(|side| side.bytes(record)).sum(),
        errors: sides.iter().map(|side| side.errors).sum(),
        short: sides.iter().map(|side| side.short).sum(),
        fsync_ns: report.fsync_ns,
        cpu_user_ns: report.usage.cpu.user,
        cpu_system_ns: report.usage.cpu.system,
        cpu_share: report.usage.cpu_share,
        runnable_share: report.usage.runnable_share,
        stopped_by: report.stop.name(),
    }
}

fn first_error(report: &Report) -> Option<FirstError> {
    let (operation, offset, errno) = report.tally.first_error?;
    Some(FirstError {
        operation,
        path: report.path.display().to_string(),
        offset,
        error: error::name(errno),
    })
}

fn first_mismatch(report: &Report) -> Option<Mismatch> {
    let (offset, reason) = report.findings.first.clone()?;
    Some(Mismatch {
        path: report.path.display().to_string(),
        offset,
        reason,
    })
}

/// Whether some worker never had to wait for the device: then the figure is about the worker.
/// Time spent ready but not running counts as busy, so that a neighbour on the same CPU does not
/// hide it. A polling worker is always busy, which says nothing.
fn bottleneck(group: &Group, reports: &[&Report]) -> Option<bool> {
    if group.iopoll || reports.is_empty() {
        return None;
    }
    Some(reports.iter().any(|report| {
        let usage = &report.usage;
        usage.runnable_share.unwrap_or(usage.cpu_share) >= BUSY_SHARE
    }))
}

fn arrivals_name(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Closed { .. } => "closed",
        Arrivals::Poisson { .. } => "poisson",
        Arrivals::Constant { .. } => "constant",
    }
}
