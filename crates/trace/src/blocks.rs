//! Where the requests of a block device spend their time: one device, without writing to it.
//!
//! ```json
//! {"device": "/dev/loop0",     // or a partition: its whole disk is captured
//!  "classes": [                // whose requests are counted apart; class 0 is "other", all else
//!    {"name": "reader", "cgroup": null}], // of the processes that are added, or of a directory
//!  "find_classes": false,      // every other process gets its own class, as long as there are
//!  "seconds_max": 120,         // of the counts over time
//!  "measure_cost": false}      // let the kernel count the time of the programs (which costs, too)
//! ```
//! At most 15 classes. A snapshot, and the result:
//! ```json
//! {"device": "loop0", "scheduler": "bfq", "elapsed_ns": 2000000000,
//!  "sees_limits": true,        // "tag" includes time in io.max, blkio.throttle; false where the
//!                              // kernel traces no functions: then depth.limits alone shows it
//!  "classes": [{"name": "other", "process": null, "processes": 0}, …], // a class that was found
//!                              // has its first process, and how many it has
//!  "groups": [{                // what completed; only groups with requests
//!    "class": 1, "operation": "read",   // "write", "other" (discard, flush)
//!    "size_max": 4096,         // 4096, 16384, 65536, 262144, 1048576, null: beyond
//!    "requests": 20, "bytes": 81920,
//!    "tag":       {"count": 20, "sum_ns": 0, "max_ns": 0, "bins": [[low, high, count], …]},
//!    "plug":      { … }, "scheduler": { … }, "device": { … },
//!    "total":     { … }}],     // from the arrival of the first bio to the completion
//!  "series": [{"class": 1, "rows": [[t_ms, reads, writes, other, bytes,
//!              tag_ns, plug_ns, scheduler_ns, device_ns, total_ns], …]}], // by issue, 100 ms
//!  "depth": {"scheduler": {"mean": 0.0, "max": 0, "series": [[t_ms, mean], …]}, // sampled
//!            "driver": { … },                                                   // every 10 ms
//!            "both": { … },   // its max is that of one moment
//!            "limits": { … }}, // bios that io.max or blkio.throttle hold back; max of the samples
//!  "tags": 32,                 // requests that the driver may take, of all hardware queues: fewer
//!                              // than it could, after a lower nr_requests; 0: unknown
//!  "totals": {"issued", "completed", "inserted", "bio_merges", "request_merges", "requeues",
//!             "out_of_order",  // issued after a request that had arrived later
//!             "seeks", "seek_sectors",  // issues that did not follow their predecessor, distance
//!             "begun_before",  // requests that were under way when the capture began
//!             "in_parts",      // completions of a part of a request
//!             "errors",        // reads and writes that failed
//!             "in_flight"},    // issued = completed + in_flight + lost.untraced
//!  "bfq": [{"class": 1, "rows": [[t_ms, requests, weight_raising, queue, weight], …]}], // or null
//!  "lost": {"arrivals_unseen", "arrivals_evicted", "intervals", "classes", "untraced",
//!           "completions", "events"},
//!  "waiting": [[1, "read", 4000000], …], // class, operation, age of its oldest request, ns
//!  "accounting": {"captured_sectors", "device_sectors": [least, most], "gap_sectors"}, // 0: it
//!                              // closes (accounting.rs)
//!  "cost": null}               // {"runs", "run_ns", "programs": [[name, runs, run_ns], …]}
//! ```
//! **Parts.** tag: from submission to having a request; plug: until it leaves the submitter's plug;
//! scheduler: from insertion to issue (0 where it was issued directly); device: from issue to
//! completion. Merged bios have no separate times: they share those of their request.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Deserialize;

use crate::accounting::DeviceCount;
pub use crate::block_result::*;
use crate::bpf::Blocks;

pub(crate) const CLASSES_MAX: usize = 16;
const INTERVAL_MS: u64 = 100;
const SAMPLE: Duration = Duration::from_millis(10);
const SAMPLES_PER_INTERVAL: usize = 10;
/// Requests that are counted apart.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Class {
    pub name: String,
    pub cgroup: Option<PathBuf>,
    #[serde(skip)]
    cgroup_id: u64,
}

/// What is captured; the JSON above.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)]
pub struct BlockOptions {
    pub device: String,
    pub classes: Vec<Class>,
    pub find_classes: bool,
    pub seconds_max: Option<f64>,
    pub measure_cost: bool,
    #[serde(skip)]
    pub(crate) is_bfq: bool,
}

/// Why nothing can be captured: the step and the operating system's words.
#[derive(Debug, thiserror::Error)]
#[error("block capture cannot be used: {0}")]
pub struct BlockError(String);

impl BlockError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        BlockError(reason.into())
    }
}

#[cfg_attr(not(all(feature = "bpf", bpf_program)), allow(dead_code))]
impl BlockOptions {
    pub(crate) fn class_count(&self) -> usize {
        match self.find_classes {
            true => CLASSES_MAX,
            false => 1 + self.classes.len(),
        }
    }

    pub(crate) fn interval_count(&self) -> usize {
        let seconds = self.seconds_max.unwrap_or(120.0).clamp(0.1, 36_000.0);
        (seconds * 1000.0 / INTERVAL_MS as f64).ceil() as usize + 1
    }

    /// Classes by cgroup: number and identity.
    pub(crate) fn cgroups(&self) -> Vec<(usize, u64)> {
        let classes = (1..).zip(&self.classes);
        classes
            .filter(|(_, class)| class.cgroup_id != 0)
            .map(|(number, class)| (number, class.cgroup_id))
            .collect()
    }
}

/// Time, requests in the scheduler, in the driver, bios that limits hold back.
type Sample = (u64, i64, i64, i64);

/// A capture in progress. Dropping it stops it.
pub struct BlockCapture {
    blocks: Arc<Mutex<Blocks>>,
    options: BlockOptions,
    device: String,
    start_ns: u64,
    end_ns: Option<u64>,
    samples: Arc<Mutex<Vec<Sample>>>,
    count: DeviceCount,
    ended: Option<(Option<u64>, Option<u64>)>,
    waiting: Vec<(usize, usize, u64)>,
    stop: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
}

impl BlockCapture {
    /// Begins to capture.
    pub fn start(mut options: BlockOptions) -> Result<Self, BlockError> {
        let (device, numbers) = whole_disk(&options.device)?;
        if options.classes.len() >= CLASSES_MAX {
            return Err(BlockError(format!("at most {} classes", CLASSES_MAX - 1)));
        }
        for class in &mut options.classes {
            if let Some(directory) = &class.cgroup {
                let stat = std::fs::metadata(directory);
                let stat = stat.map_err(|e| BlockError(format!("{}: {e}", directory.display())))?;
                class.cgroup_id = stat.ino();
            }
        }
        options.is_bfq = scheduler_of(&device) == "bfq";
        let start_ns = crate::now_ns();
        let mut count = DeviceCount::begin(&device);
        let blocks = Blocks::start(numbers, start_ns, &options).map_err(BlockError)?;
        count.begun();
        let mut capture = BlockCapture {
            blocks: Arc::new(Mutex::new(blocks)),
            options,
            device,
            start_ns,
            end_ns: None,
            samples: Arc::default(),
            count,
            ended: None,
            waiting: Vec::new(),
            stop: Arc::default(),
            sampler: None,
        };
        capture.sample()?;
        Ok(capture)
    }

    /// Samples the depths every 10 ms.
    fn sample(&mut self) -> Result<(), BlockError> {
        let (blocks, samples) = (Arc::clone(&self.blocks), Arc::clone(&self.samples));
        let stop = Arc::clone(&self.stop);
        let count = DeviceCount::begin(&self.device);
        let builder = std::thread::Builder::new().name("schedlab-depths".to_owned());
        let spawned = builder.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let depths = true_depths(&lock(&blocks), &count);
                if let Ok(now) = depths {
                    lock(&samples).push((
                        crate::now_ns(),
                        now.scheduler,
                        now.driver,
                        now.limited as i64,
                    ));
                }
                std::thread::park_timeout(SAMPLE);
            }
        });
        self.sampler = Some(spawned.map_err(|error| BlockError(error.to_string()))?);
        Ok(())
    }

    /// Puts a process or thread into a class of the options (1 is the first), from now on.
    pub fn add(&self, class: usize, pid: u32) -> Result<(), BlockError> {
        if class > self.options.classes.len() {
            return Err(BlockError(format!("no class {class}")));
        }
        lock(&self.blocks).add(class, pid).map_err(BlockError)
    }

    /// What was captured so far; without `over_time`, which grows with time, no series but the
    /// depths of the last 100 ms.
    pub fn snapshot(&self, over_time: bool) -> Result<BlockResult, BlockError> {
        self.read(over_time).map_err(BlockError)
    }

    /// Ends the capture.
    pub fn finish(mut self) -> Result<BlockResult, BlockError> {
        self.halt();
        self.read(true).map_err(BlockError)
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            sampler.thread().unpark();
            let _ = sampler.join();
        }
        let mut blocks = lock(&self.blocks);
        if self.ended.is_none() {
            // Not later: the end of what is in flight is not seen from here on.
            self.waiting = blocks.waiting().unwrap_or_default();
        }
        let before = self.count.now();
        blocks.detach();
        self.ended.get_or_insert((before, self.count.now()));
        self.end_ns.get_or_insert_with(crate::now_ns);
    }

    fn read(&self, over_time: bool) -> Result<BlockResult, String> {
        let blocks = lock(&self.blocks);
        let elapsed_ns = self.end_ns.unwrap_or_else(crate::now_ns) - self.start_ns;
        let now_ns = self.start_ns + elapsed_ns;
        let waiting = match self.ended {
            Some(_) => self.waiting.clone(),
            None => blocks.waiting()?,
        };
        let depths = blocks.depths()?;
        let before = self.count.now();
        let (mut totals, lost, sectors) = blocks.totals()?;
        let accounting = self.count.compared(
            sectors,
            self.ended.unwrap_or_else(|| (before, self.count.now())),
        );
        let names = self.options.classes.iter().map(|class| class.name.clone());
        let named = std::iter::once("other".to_owned()).chain(names);
        let mut classes: Vec<ClassName> = named
            .map(|name| ClassName {
                name,
                ..ClassName::default()
            })
            .collect();
        classes.extend(blocks.processes(classes.len(), depths.classes_used)?);
        let mut groups = Vec::new();
        for class in 0..classes.len() {
            for operation in 0..OPERATIONS {
                for size in 0..SIZES {
                    groups.push(blocks.group(class, operation, size)?);
                }
            }
        }
        totals.completed = groups.iter().map(|group| group.parts[4].count).sum();
        totals.in_flight = depths.driver.max(0) as u64;
        let (series, bfq) = match over_time {
            true => self.over_time(&blocks, classes.len(), elapsed_ns)?,
            false => Default::default(),
        };
        let samples = lock(&self.samples);
        let recent = match over_time {
            true => 0,
            false => samples.len().saturating_sub(SAMPLES_PER_INTERVAL),
        };
        let samples = &samples[recent..];
        let most_limited = samples.iter().map(|s| s.3).max().unwrap_or(0);
        Ok(BlockResult {
            device: self.device.clone(),
            scheduler: scheduler_of(&self.device),
            elapsed_ns,
            sees_limits: blocks.sees_limits,
            classes,
            groups: groups.into_iter().filter_map(named_group).collect(),
            series,
            depth: DepthsOverTime {
                scheduler: depth(self.start_ns, samples, |s| s.1, depths.scheduler_max),
                driver: depth(self.start_ns, samples, |s| s.2, depths.driver_max),
                both: depth(self.start_ns, samples, |s| s.1 + s.2, depths.both_max),
                limits: depth(self.start_ns, samples, |s| s.3, most_limited as u64),
            },
            tags: depths.tags,
            totals,
            bfq: self.options.is_bfq.then_some(bfq),
            lost,
            waiting: waiting.into_iter().map(|one| aged(one, now_ns)).collect(),
            accounting,
            cost: blocks.cost(),
        })
    }

    fn over_time(
        &self,
        blocks: &Blocks,
        classes: usize,
        elapsed_ns: u64,
    ) -> Result<(Vec<Series>, Vec<BfqSeries>), String> {
        let over = (elapsed_ns / 1_000_000 / INTERVAL_MS) as usize + 1;
        let count = over.min(self.options.interval_count());
        let (mut series, mut bfq) = (Vec::new(), Vec::new());
        for class in 0..classes {
            let (mut rows, mut bfq_rows) = (Vec::new(), Vec::new());
            for number in 0..count {
                let interval = blocks.interval(number, class)?;
                let t_ms = number as u64 * INTERVAL_MS;
                let ([reads, writes, other], sums) = (interval.issued, interval.sum_ns);
                rows.push((
                    t_ms,
                    reads,
                    writes,
                    other,
                    interval.bytes,
                    sums[0],
                    sums[1],
                    sums[2],
                    sums[3],
                    sums[4],
                ));
                if let Some(b) = interval.bfq {
                    bfq_rows.push((t_ms, b.requests, b.weight_raising, b.queue, b.weight));
                }
            }
            series.push(Series { class, rows });
            bfq.push(BfqSeries {
                class,
                rows: bfq_rows,
            });
        }
        Ok((series, bfq))
    }
}

/// The age of the oldest request of a class and operation, from its arrival.
fn aged(waits: (usize, usize, u64), now_ns: u64) -> (usize, &'static str, u64) {
    let (class, operation, arrival_ns) = waits;
    let age_ns = now_ns.saturating_sub(arrival_ns);
    (class, OPERATION_NAMES[operation], age_ns)
}

/// The depths, without requests that the kernel has no longer: their ends were not traced.
fn true_depths(blocks: &Blocks, count: &DeviceCount) -> Result<Depths, String> {
    let before = blocks.depths()?;
    let in_flight = count.in_flight().map_or(i64::MAX, |n| n as i64);
    if before.driver <= in_flight {
        return Ok(before);
    }
    // Or some completed meanwhile.
    let after = blocks.depths()?;
    if after.driver <= in_flight {
        return Ok(after);
    }
    blocks.waiting()?;
    blocks.depths()
}

/// The mean of what the samples show, over all and in every interval since `start_ns`.
fn depth(start_ns: u64, samples: &[Sample], of: fn(&Sample) -> i64, max: u64) -> Depth {
    let value = |sample: &Sample| of(sample).max(0) as f64;
    let bin = |sample: &Sample| (sample.0 - start_ns) / 1_000_000 / INTERVAL_MS;
    let mean =
        |samples: &[Sample]| samples.iter().map(value).sum::<f64>() / samples.len().max(1) as f64;
    Depth {
        mean: mean(samples),
        max,
        series: samples
            .chunk_by(|a, b| bin(a) == bin(b))
            .map(|part| (bin(&part[0]) * INTERVAL_MS, mean(part)))
            .collect(),
    }
}

impl Drop for BlockCapture {
    fn drop(&mut self) {
        self.halt();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Name and numbers of the disk that a device is, or is a part of.
pub(crate) fn whole_disk(path: &str) -> Result<(String, (u32, u32)), BlockError> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let place = Path::new("/sys/class/block").join(name);
    let wrong = |reason: String| BlockError(format!("{path}: {reason}"));
    let mut place = place
        .canonicalize()
        .map_err(|error| wrong(format!("not a block device ({error})")))?;
    if place.join("partition").exists() {
        place.pop();
    }
    if !place.join("mq").is_dir() {
        let reason = "the device takes bios, not requests; capture the disks below it";
        return Err(wrong(reason.to_owned()));
    }
    let numbers = std::fs::read_to_string(place.join("dev")).unwrap_or_default();
    let parsed = numbers
        .trim()
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let name = place
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    parsed
        .map(|numbers| (name, numbers))
        .ok_or_else(|| wrong("has no numbers".to_owned()))
}

fn scheduler_of(device: &str) -> String {
    let path = format!("/sys/block/{device}/queue/scheduler");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let active = text.split(['[', ']']).nth(1);
    active.unwrap_or("none").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_means_of_all_samples_and_of_every_100_ms() {
        let at = |ms: u64, in_driver: i64| (5 + ms * 1_000_000, 0, in_driver, 0);
        // Below 0: the completion was seen before the issue.
        let samples = [at(0, 4), at(10, -1), at(99, 2), at(310, 6)];
        let depth = depth(5, &samples, |sample| sample.2, 9);
        assert_eq!((depth.mean, depth.max), (3.0, 9));
        assert_eq!(depth.series, [(0, 2.0), (300, 6.0)]);
    }

    #[test]
    fn classes_have_the_number_of_their_place_and_those_of_processes_no_cgroup() {
        let classes = [7, 0, 9].map(|cgroup_id| Class {
            cgroup_id,
            ..Class::default()
        });
        let options = BlockOptions {
            classes: classes.to_vec(),
            ..BlockOptions::default()
        };
        assert_eq!(options.cgroups(), [(1, 7), (3, 9)]);
        assert_eq!(options.class_count(), 4);
    }

    #[test]
    fn what_has_no_requests_is_refused_by_name() {
        let options = BlockOptions {
            device: "/dev/absent".to_owned(),
            ..BlockOptions::default()
        };
        let error = BlockCapture::start(options).err().map(|e| e.to_string());
        assert!(error.is_some_and(|text| text.contains("/dev/absent")));
    }
}
