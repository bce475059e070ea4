//! A trace as the streams of a replay on a real device: one for each task that sent requests, with
//! addresses that fit the target.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schedlab_model::{Action, Histogram, Script, ScriptStep, Timing};
use serde::Deserialize;
use serde_json::{json, Value};

use super::formats::schedlab::{read_whole, Full};
use super::{open, Event, Fit, TraceError, TraceOptions, UNIT_BYTES};

/// Streams with a process of their own; the requests of all other tasks are in one more.
const STREAMS_MAX: usize = 255;
/// Requests that are kept in memory, 64 bytes each.
const REQUESTS_MAX: usize = 4_000_000;
/// The most that one system call moves, read(2): whole pages below 2 GiB.
const BYTES_MAX: u32 = 0x7fff_f000;
/// The page cache works on units of it.
const PAGE_BYTES: u64 = 4096;
/// A record that lost a larger share is not the load.
const LOST_SHARE_MAX: f64 = 0.01;
/// A record is repeated no faster than this.
const PERIOD_NS_MIN: u64 = 1_000_000;

/// How a trace becomes scripts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ScriptOptions {
    pub timing: Timing,
    pub fit: Fit,
    pub reads_only: bool,
    pub think_limit_ns: u64,
    /// The figures are those of so much of its beginning; 0: of all.
    pub figures_ns: u64,
    /// Size of the target and the unit of its addresses; 0: any.
    pub size_bytes: u64,
    pub block_bytes: u64,
}

/// A trace that cannot be replayed, and what helps.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// Its requests cannot be used as asked.
    #[error("{message}")]
    Unfit {
        /// What is wrong.
        message: String,
        /// What helps.
        hint: &'static str,
    },
}

/// The requests of one task.
pub struct Stream {
    /// Name and number of the task.
    pub name: String,
    /// Name of the task.
    pub command: String,
    /// As ioprio_get(2) gives it.
    pub ioprio: u16,
    /// The control group, by the inode of its directory.
    pub cgroup: u64,
    /// What it does.
    pub script: Arc<Script>,
}

/// All streams of a trace, and what it is like.
pub struct Scripts {
    /// Those with the most requests first.
    pub streams: Vec<Stream>,
    /// `requests`, `period_ns`, `scheduler` (null where unknown), the figures of `groups`,
    /// `streams` and what was changed, as JSON.
    pub summary: Value,
}

/// Reads the scripts of a trace.
pub fn scripts(
    path: &Path,
    format: Option<&str>,
    options: &ScriptOptions,
) -> Result<Scripts, ScriptError> {
    let (mut records, facts) = read(path, format, options.timing)?;
    let discards = records.iter().filter(|one| one.is_discard).count();
    records.retain(|one| !one.is_discard && (one.bytes > 0 || one.is_flush));
    if options.reads_only {
        records.retain(|one| !one.is_write && !one.is_flush);
    }
    if !records.iter().any(|one| !one.is_flush) {
        let why = if options.reads_only {
            "it reads nothing"
        } else {
            "nothing was moved"
        };
        return Err(TraceError::Empty {
            path: path.to_owned(),
            why: why.into(),
        }
        .into());
    }
    records.sort_by_key(|one| one.arrival_ns);
    let begin_ns = records[0].arrival_ns;
    for one in &mut records {
        one.arrival_ns -= begin_ns;
        one.done_ns = one.done_ns.saturating_sub(begin_ns).max(one.arrival_ns);
        one.bytes = one.bytes.min(BYTES_MAX);
    }
    let last_ns = records.iter().map(|one| one.done_ns).max();
    let period_ns = last_ns.unwrap_or(0).max(PERIOD_NS_MIN);
    let mut groups = Figures::default();
    let figures_ns = match options.figures_ns {
        0 => period_ns,
        some => period_ns.min(some),
    };
    let begun = |one: &&Full| one.arrival_ns < figures_ns;
    let counted = records.iter().filter(begun);
    counted.for_each(|one| groups.record(one));
    let touched = Touched::by(&records);
    let touched_bytes = touched.units * UNIT_BYTES;
    let changed = fit(&mut records, &touched, options)?;
    let count = records.len();
    let streams = streams(records, period_ns, options.think_limit_ns);
    let ambiguous: u64 = streams.iter().map(|one| one.script.ambiguous).sum();
    let shown = streams.iter().map(|one| {
        let bytes = one.script.steps.iter().map(|step| step.bytes).max();
        json!({
            "name": one.name, "command": one.command, "ioprio": one.ioprio,
            "cgroup": one.cgroup, "requests": one.script.steps.len(),
            "depth": one.script.depth(), "record": bytes,
            "reads": one.script.steps.iter().any(|step| step.action == Action::Read),
            "writes": one.script.steps.iter().any(|step| step.action != Action::Read),
            "first_read_ns": first_ns(&one.script, |action| action == Action::Read),
            "first_write_ns": first_ns(&one.script, |action| action != Action::Read),
        })
    });
    let summary = json!({
        "requests": count, "period_ns": period_ns, "figures_ns": figures_ns,
        "scheduler": scheduler(&facts), "device": facts.get("device"),
        "touched_bytes": touched_bytes, "discards": discards, "moved": changed.0,
        "widened": changed.1, "ambiguous_share": ambiguous as f64 / count as f64,
        "groups": groups.summary(), "streams": shown.collect::<Vec<_>>(),
    });
    Ok(Scripts { streams, summary })
}

/// When the first step of a kind is due, if there is one.
fn first_ns(script: &Script, is_one: fn(Action) -> bool) -> Option<u64> {
    let mine = script.steps.iter().filter(|step| is_one(step.action));
    mine.map(|step| step.at_ns).min()
}

/// The scheduler in brackets, of the queue's facts in a recorded load.
fn scheduler(facts: &Value) -> Option<&str> {
    let text = facts.get("queue")?.get("scheduler")?.as_str()?;
    let bracketed = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    Some(bracketed.map_or(text, |(name, _)| name))
}

/// Every request of a trace with the facts of its head.
fn read(
    path: &Path,
    format: Option<&str>,
    timing: Timing,
) -> Result<(Vec<Full>, Value), ScriptError> {
    let event = if timing == Timing::Open {
        Event::Queue
    } else {
        Event::Complete
    };
    let reading = TraceOptions {
        event,
        ..TraceOptions::default()
    };
    let mut reader = open(path, format, &reading)?;
    if reader.format().name == "schedlab" {
        let whole = read_whole(path, REQUESTS_MAX)?;
        let seen = whole.lost.saturating_add(whole.records.len() as u64);
        if whole.lost as f64 > LOST_SHARE_MAX * seen as f64 {
            return Err(ScriptError::Unfit {
                message: format!(
                    "{}: {} of {seen} requests were lost: it is not the load",
                    path.display(),
                    whole.lost
                ),
                hint: "record it again, while less else runs",
            });
        }
        return Ok((whole.records, whole.facts));
    }
    let mut records = Vec::new();
    for record in reader.by_ref() {
        let record = record?;
        if records.len() == REQUESTS_MAX {
            return Err(ScriptError::Unfit {
                message: format!("{}: more than {REQUESTS_MAX} requests", path.display()),
                hint: "replay a part of it: its first lines in a file of their own",
            });
        }
        let (at, request) = (record.request.arrival.0, record.request);
        let ends = record.latency.map(|latency| at.saturating_add(latency.0));
        if ends.is_none() && timing != Timing::Open {
            return Err(ScriptError::Unfit {
                message: format!(
                    "{}: it has no completions, so what a request waited for is unknown",
                    path.display()
                ),
                hint: "--timing open, or record with schedlab trace io DEVICE --out FILE",
            });
        }
        records.push(Full {
            arrival_ns: at,
            done_ns: ends.unwrap_or(at),
            has_end: ends.is_some(),
            offset: request.offset.0,
            bytes: u32::try_from(request.length.0).unwrap_or(u32::MAX),
            is_write: request.is_write,
            is_discard: record.trim,
            is_async: record.is_async,
            process: record.process.unwrap_or(0),
            thread: record.process.unwrap_or(0),
            command: "task".into(),
            ..Full::default()
        });
    }
    Ok((records, Value::Null))
}

/// The units that are touched.
#[derive(Default)]
struct Touched {
    /// First, end, and how many are touched before, of each range without a gap.
    ranges: Vec<(u64, u64, u64)>,
    units: u64,
}

impl Touched {
    fn by(records: &[Full]) -> Self {
        let moving = records.iter().filter(|one| one.bytes > 0);
        let range = |one: &Full| (one.offset / UNIT_BYTES, end_of(one).div_ceil(UNIT_BYTES));
        let mut each: Vec<(u64, u64)> = moving.map(range).collect();
        each.sort_unstable();
        let mut touched = Touched::default();
        for (first, end) in each {
            match touched.ranges.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => touched.ranges.push((first, end, touched.units)),
            }
            let last = touched.ranges[touched.ranges.len() - 1];
            touched.units = last.2 + last.1 - last.0;
        }
        touched
    }

    /// How many are touched before this one, which is.
    fn place(&self, unit: u64) -> u64 {
        let range = self.ranges.partition_point(|range| range.0 <= unit) - 1;
        let (first, _, before) = self.ranges[range];
        before + unit - first
    }
}

fn end_of(record: &Full) -> u64 {
    record.offset + u64::from(record.bytes)
}

/// Makes every address one of the target; how many were moved, and how many were widened.
fn fit(
    records: &mut [Full],
    touched: &Touched,
    options: &ScriptOptions,
) -> Result<(u64, u64), ScriptError> {
    let size = options.size_bytes / UNIT_BYTES * UNIT_BYTES;
    let (mut moved, mut widened) = (0, 0);
    let end = records.iter().map(end_of).max().unwrap_or(0);
    if size > 0 && end > size {
        let longest = records.iter().map(|one| u64::from(one.bytes)).max();
        let needed = match options.fit {
            Fit::Compact => touched.units * UNIT_BYTES,
            Fit::Wrap => longest.unwrap_or(0),
            Fit::Refuse | Fit::Scale => end,
        };
        if needed > size {
            return Err(ScriptError::Unfit {
                message: format!(
                    "the trace needs {} MiB of its target, which has {}",
                    needed.div_ceil(UNIT_BYTES),
                    size / UNIT_BYTES
                ),
                hint: "a larger target (--scratch SIZE), or addresses modulo its size: --fit wrap",
            });
        }
        for one in records.iter_mut().filter(|one| one.bytes > 0) {
            let from = one.offset;
            one.offset = match options.fit {
                Fit::Compact => touched.place(from / UNIT_BYTES) * UNIT_BYTES + from % UNIT_BYTES,
                _ => (from % size).min(size - u64::from(one.bytes)),
            };
            moved += u64::from(one.offset != from);
        }
    }
    let block = options.block_bytes.max(1);
    for one in records.iter_mut().filter(|one| one.bytes > 0) {
        // What is written through the page cache is whole pages, so that nothing is read for it.
        let unit = if one.is_async {
            block.max(PAGE_BYTES)
        } else {
            block
        };
        let (from, to) = (one.offset / unit * unit, end_of(one).div_ceil(unit) * unit);
        widened += u64::from(to - from != u64::from(one.bytes));
        (one.offset, one.bytes) = (from, (to - from) as u32);
    }
    Ok((moved, widened))
}

/// The streams of the tasks, those with the most requests first.
fn streams(records: Vec<Full>, period_ns: u64, think_limit_ns: u64) -> Vec<Stream> {
    let mut tasks: BTreeMap<u32, Vec<Full>> = BTreeMap::new();
    for record in records {
        tasks.entry(record.thread).or_default().push(record);
    }
    let mut tasks: Vec<(u32, Vec<Full>)> = tasks.into_iter().collect();
    tasks.sort_by_key(|(_, mine)| std::cmp::Reverse(mine.len()));
    let rest = tasks.split_off(tasks.len().min(STREAMS_MAX));
    let stream = |name: String, mine: Vec<Full>| {
        let first = &mine[0];
        let (command, ioprio, cgroup) = (first.command.clone(), first.ioprio, first.cgroup);
        let steps = mine.iter().map(step).collect();
        let script = Arc::new(Script::new(steps, period_ns, think_limit_ns));
        Stream {
            name,
            command,
            ioprio,
            cgroup,
            script,
        }
    };
    let mut streams: Vec<Stream> = tasks
        .into_iter()
        .map(|(thread, mine)| stream(format!("{} {thread}", mine[0].command), mine))
        .collect();
    let mut others: Vec<Full> = rest.into_iter().flat_map(|(_, mine)| mine).collect();
    if !others.is_empty() {
        others.sort_by_key(|one| one.arrival_ns);
        streams.push(stream("others".into(), others));
    }
    streams
}

fn step(record: &Full) -> ScriptStep {
    let action = match (record.is_flush, record.is_write, record.is_async) {
        (true, ..) => Action::Flush,
        (_, false, _) => Action::Read,
        (_, true, true) => Action::WriteBack,
        (_, true, false) => Action::Write,
    };
    ScriptStep {
        action,
        durable: record.is_durable,
        offset: record.offset,
        bytes: record.bytes,
        at_ns: record.arrival_ns,
        end_ns: record.done_ns,
    }
}

/// What is known of a command and direction.
#[derive(Default)]
struct Figure {
    requests: u64,
    bytes: u64,
    /// Of all but write-back, for which nobody waits.
    latency: Histogram,
}

/// By command and direction; "" are all.
#[derive(Default)]
struct Figures(BTreeMap<(String, bool), Figure>);

impl Figures {
    fn record(&mut self, one: &Full) {
        if one.is_flush {
            return;
        }
        for name in ["", &one.command] {
            let of = self.0.entry((name.to_owned(), one.is_write)).or_default();
            of.requests += 1;
            of.bytes += u64::from(one.bytes);
            if !one.is_async && one.has_end {
                of.latency.record(one.done_ns - one.arrival_ns);
            }
        }
    }

    fn summary(&self) -> Vec<Value> {
        let shown = self.0.iter().map(|((name, is_write), of)| {
            let bins: Vec<_> = of
                .latency
                .bins()
                .map(|b| (b.low, b.high, b.count))
                .collect();
            json!({
                "name": name, "direction": if *is_write { "writes" } else { "reads" },
                "requests": of.requests, "bytes": of.bytes, "mean_ns": of.latency.mean(),
                "bins": bins,
            })
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset and length in MiB of each request as scripts have them; nothing where it is refused.
    fn placed(
        name: &str,
        requests: &[(f64, f64)],
        fit: Fit,
        size_mib: u64,
    ) -> Option<Vec<(f64, f64)>> {
        let mib = |bytes: f64| (bytes * UNIT_BYTES as f64) as u64;
        let line = |(at, (offset, length)): (usize, &(f64, f64))| {
            format!("1,R,{},{},{at}\n", mib(*offset), mib(*length))
        };
        let text: String = requests.iter().enumerate().map(line).collect();
        let path =
            std::env::temp_dir().join(format!("schedlab-script-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let options = ScriptOptions {
            timing: Timing::Open,
            fit,
            reads_only: false,
            think_limit_ns: 0,
            figures_ns: 0,
            size_bytes: size_mib * UNIT_BYTES,
            block_bytes: 512,
        };
        let made = scripts(&path, Some("alibaba"), &options);
        std::fs::remove_file(&path).unwrap();
        let steps = made.ok()?.streams[0].script.steps.clone();
        let part = |bytes: u64| bytes as f64 / UNIT_BYTES as f64;
        Some(
            steps
                .iter()
                .map(|step| (part(step.offset), part(step.bytes.into())))
                .collect(),
        )
    }

    #[test]
    fn compacting_leaves_out_the_units_that_nobody_touches() {
        let requests = [
            (900.5, 0.25),
            (3.0, 1.0),
            (4.5, 1.0),
            (5.0, 0.5),
            (77.0, 0.5),
        ];
        let expected = [(4.5, 0.25), (0.0, 1.0), (1.5, 1.0), (2.0, 0.5), (3.0, 0.5)];
        assert_eq!(
            placed("compact", &requests, Fit::Compact, 5).unwrap(),
            expected
        );
        assert_eq!(placed("compact-4", &requests, Fit::Compact, 4), None);
    }

    #[test]
    fn wrapping_moves_down_what_would_reach_over_the_end() {
        let requests = [(9.75, 0.5), (13.0, 1.0)];
        let placed = placed("wrap", &requests, Fit::Wrap, 10);
        assert_eq!(placed.unwrap(), [(9.5, 0.5), (3.0, 1.0)]);
    }
}
