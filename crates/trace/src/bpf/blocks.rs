//! The block-layer source: loads `blocks.bpf.c` for one device, names its classes, reads its
//! counters.

use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::{failed, in_first_pid_namespace, load, map, open, programs_of, words, Aligned};
use crate::blocks::{
    Bfq, BlockOptions, ClassName, Cost, Depths, Group, Histogram, Interval, Lost, Totals,
    CLASSES_MAX, OPERATIONS, PARTS, SIZES,
};

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/blocks.bpf.o")));

/// Words of the program's structures.
const BINS: usize = 160;
const HISTOGRAM_WORDS: usize = 1 + 2 * PARTS + PARTS * BINS;
const INTERVAL_WORDS: usize = OPERATIONS + 1 + PARTS + 4;
/// Without the word that the program calculates in.
const TOTALS: usize = 18;
const DEPTH_WORDS: usize = 8;
/// Processes of one entry of the table of classes.
const PIDS_PER_ENTRY: u32 = 64;
/// Bytes of `struct found`.
const FOUND: usize = 24;

type Reason = String;

fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]))
}

/// The loaded and attached programs.
pub(crate) struct Blocks {
    object: Object,
    links: Vec<Link>,
    queues: usize,
    classes: usize,
    /// Whether the time before limits (io.max) is seen.
    pub sees_limits: bool,
    /// Runs and nanoseconds of the programs are counted while this is open.
    statistics: Option<std::os::fd::OwnedFd>,
}

impl Blocks {
    /// Loads and attaches the programs for the device of these numbers.
    pub(crate) fn start(
        device: (u32, u32),
        start_ns: u64,
        options: &BlockOptions,
    ) -> Result<Self, Reason> {
        in_first_pid_namespace()?;
        // Where functions cannot be traced, time in limits cannot be seen; the rest can.
        match Blocks::load(device, start_ns, options, true) {
            Ok(blocks) => Ok(blocks),
            Err(_) => Blocks::load(device, start_ns, options, false),
        }
    }

    fn load(
        device: (u32, u32),
        start_ns: u64,
        options: &BlockOptions,
        sees_limits: bool,
    ) -> Result<Self, Reason> {
        let classes = options.class_count();
        let intervals = options.interval_count();
        let (queues, tag_bits) = tag_space(&hardware_queues(device));
        let mut open = open(PROGRAM)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match name.as_str() {
                "histograms" => classes * OPERATIONS * SIZES,
                "intervals" => classes * intervals,
                "places" => queues << tag_bits,
                _ if name.ends_with(".rodata") => {
                    let settings = settings(device, start_ns, options, tag_bits);
                    let place = map
                        .initial_value_mut()
                        .ok_or("the program has no settings")?;
                    let place = place.get_mut(..settings.len());
                    place
                        .ok_or("the settings have another size")?
                        .copy_from_slice(&settings);
                    continue;
                }
                _ => continue,
            };
            map.set_max_entries(entries as u32)
                .map_err(failed("size the maps"))?;
        }
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(name != unwanted(sees_limits));
        }
        let object = load(open)?;
        let mut blocks = Blocks {
            object,
            links: Vec::new(),
            queues,
            classes,
            sees_limits,
            statistics: options.measure_cost.then(count_runs).flatten(),
        };
        blocks.attach(sees_limits, 1 + options.classes.len())?;
        Ok(blocks)
    }

    /// Attaches the last events first, so that every request whose beginning is seen is seen to
    /// its end.
    fn attach(&mut self, sees_limits: bool, named: usize) -> Result<(), Reason> {
        // Before a program counts in it: what they add meanwhile would be lost.
        self.fill("depths", &[0, 0, 0, 0, 0, named as u64, 0, 0])?;
        let unwanted = unwanted(sees_limits);
        // They stand in the order in which a request meets them.
        let programs: Vec<_> = self.object.progs_mut().collect();
        for program in programs.into_iter().rev() {
            let name = program.name().to_string_lossy().into_owned();
            if name.starts_with("look_at_") || name == unwanted {
                continue; // run by us, or not loaded
            }
            self.links.push(program.attach().map_err(failed(&name))?);
        }
        self.fill("attached", &[crate::now_ns()])
    }

    /// Sets all words of a map of one entry.
    fn fill(&self, name: &str, words: &[u64]) -> Result<(), Reason> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let map = map(&self.object, name)?;
        map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY)
            .map_err(failed("fill the maps"))
    }

    /// Puts a process (or thread) into a class.
    pub(crate) fn add(&self, class: usize, pid: u32) -> Result<(), Reason> {
        let map = map(&self.object, "class_of_pid")?;
        let entry = (pid / PIDS_PER_ENTRY).to_ne_bytes();
        let value = map
            .lookup(&entry, MapFlags::ANY)
            .map_err(failed("read the classes"))?;
        let mut value = value.ok_or("no such process number")?;
        value[(pid % PIDS_PER_ENTRY) as usize] = class as u8;
        map.update(&entry, &value, MapFlags::ANY)
            .map_err(failed("fill the classes"))
    }

    fn depth_words(&self) -> Result<[u64; DEPTH_WORDS], Reason> {
        let map = map(&self.object, "depths")?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value
            .map_err(failed("read the depths"))?
            .unwrap_or_default();
        Ok(words::<DEPTH_WORDS>(&value))
    }

    /// Runs one of the programs that look at the kernel's state. Where it is refused, what it
    /// writes stays as it was.
    fn look(&self, name: &str) {
        use std::os::fd::{AsFd, AsRawFd};
        let Some(program) = self.object.progs().find(|p| p.name() == name) else {
            return;
        };
        // SAFETY: the options are plain numbers and pointers, for which all zeros means "none".
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = std::mem::size_of_val(&options) as _;
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: `options` lives through the call.
        unsafe { libbpf_sys::bpf_prog_test_run_opts(fd, &mut options) };
    }

    /// Closes the requests that ended untraced, and finds out since when each class and operation
    /// waits: rows (class, operation, arrival of the oldest request in ns).
    pub(crate) fn waiting(&self) -> Result<Vec<(usize, usize, u64)>, Reason> {
        self.look("look_at_places");
        let map = map(&self.object, "waiting")?;
        let mut rows = Vec::new();
        for class in 0..self.classes {
            let value = map.lookup(&(class as u32).to_ne_bytes(), MapFlags::ANY);
            let value = value.map_err(failed("read the places"))?;
            let words = words::<OPERATIONS>(&value.unwrap_or_default());
            let waits = (0..OPERATIONS).filter(|operation| words[*operation] > 0);
            rows.extend(waits.map(|operation| (class, operation, words[operation])));
        }
        Ok(rows)
    }

    /// The depths now and the largest so far.
    pub(crate) fn depths(&self) -> Result<Depths, Reason> {
        self.look("look_at_limits");
        let words = self.depth_words()?;
        Ok(Depths {
            scheduler: words[0] as i64,
            driver: words[1] as i64,
            scheduler_max: words[2],
            driver_max: words[3],
            both_max: words[4],
            limited: words[6],
            tags: words[7] * self.queues as u64,
            classes_used: (words[5] as usize).min(CLASSES_MAX),
        })
    }

    /// The sum over all CPUs of one entry; `max` names the words of which the largest is taken.
    fn summed<const N: usize>(
        &self,
        name: &str,
        key: usize,
        max: std::ops::Range<usize>,
    ) -> Result<[u64; N], Reason> {
        let map = map(&self.object, name)?;
        let values = map.lookup_percpu(&(key as u32).to_ne_bytes(), MapFlags::ANY);
        let mut all = [0; N];
        for value in values
            .map_err(failed("read the counters"))?
            .unwrap_or_default()
        {
            let value = words::<N>(&value);
            for (at, (sum, word)) in all.iter_mut().zip(value).enumerate() {
                *sum = if max.contains(&at) {
                    (*sum).max(word)
                } else {
                    *sum + word
                };
            }
        }
        Ok(all)
    }

    /// Counts and histograms of a class, an operation and a size.
    pub(crate) fn group(
        &self,
        class: usize,
        operation: usize,
        size: usize,
    ) -> Result<Group, Reason> {
        let key = (class * OPERATIONS + operation) * SIZES + size;
        let maxima = 1 + PARTS..1 + 2 * PARTS;
        let all = self.summed::<HISTOGRAM_WORDS>("histograms", key, maxima)?;
        let part = |part: usize| {
            let counts = &all[1 + 2 * PARTS + part * BINS..][..BINS];
            Histogram::new(all[1 + part], all[1 + PARTS + part], counts)
        };
        Ok(Group {
            class,
            operation,
            size,
            bytes: all[0],
            parts: std::array::from_fn(part),
        })
    }

    /// What a class did in an interval.
    pub(crate) fn interval(&self, number: usize, class: usize) -> Result<Interval, Reason> {
        let key = number * self.classes + class;
        let queue = INTERVAL_WORDS - 2..INTERVAL_WORDS;
        let all = self.summed::<INTERVAL_WORDS>("intervals", key, queue)?;
        let bfq = &all[OPERATIONS + 1 + PARTS..];
        Ok(Interval {
            issued: std::array::from_fn(|i| all[i]),
            bytes: all[OPERATIONS],
            sum_ns: std::array::from_fn(|i| all[OPERATIONS + 1 + i]),
            bfq: (bfq[0] > 0).then(|| Bfq {
                requests: bfq[0],
                weight_raising: bfq[1] as f64 / bfq[0] as f64,
                queue: format!("{:x}", bfq[2]),
                weight: bfq[3],
            }),
        })
    }

    /// Counts of the whole device, what was lost, and the sectors of all requests that ended.
    pub(crate) fn totals(&self) -> Result<(Totals, Lost, u64), Reason> {
        let all = self.summed::<TOTALS>("totals", 0, 0..0)?;
        let totals = Totals {
            issued: all[0],
            inserted: all[1],
            bio_merges: all[2],
            request_merges: all[3],
            requeues: all[4],
            out_of_order: all[5],
            seeks: all[6],
            seek_sectors: all[7],
            begun_before: all[8],
            in_parts: all[14],
            errors: all[16],
            completed: 0,
            in_flight: 0,
        };
        let lost = Lost {
            arrivals_unseen: all[9],
            arrivals_evicted: all[10],
            intervals: all[11],
            classes: all[12],
            untraced: all[15],
            completions: all[13],
            events: programs_of(&self.object).map(|p| p.recursion_misses).sum(),
        };
        Ok((totals, lost, all[17]))
    }

    /// The processes with a separate class.
    pub(crate) fn processes(&self, first: usize, used: usize) -> Result<Vec<ClassName>, Reason> {
        let map = map(&self.object, "found")?;
        let mut names = Vec::new();
        for number in first..used {
            let value = map.lookup(&(number as u32).to_ne_bytes(), MapFlags::ANY);
            let value = value
                .map_err(failed("read the classes"))?
                .unwrap_or_default();
            if value.len() < FOUND {
                continue;
            }
            let text = value[..16]
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default();
            names.push(ClassName {
                name: String::from_utf8_lossy(text).into_owned(),
                process: Some(number_at(&value, 16)),
                processes: number_at(&value, 20),
            });
        }
        Ok(names)
    }

    /// Runs and time of the programs, where they are counted.
    pub(crate) fn cost(&self) -> Option<Cost> {
        self.statistics.as_ref()?;
        let mut cost = Cost::default();
        for info in programs_of(&self.object) {
            cost.runs += info.run_cnt;
            cost.run_ns += info.run_time_ns;
            let name = info.name.to_string_lossy().into_owned();
            cost.programs.push((name, info.run_cnt, info.run_time_ns));
        }
        Some(cost)
    }

    /// Detaches the programs, the first events of a request first; their counters stay readable.
    pub(crate) fn detach(&mut self) {
        // What begins from here on is seen by some programs only, so it counts as begun before
        // them. If the kernel refuses, it is taken for lost: nothing is hidden.
        let _ = self.fill("attached", &[0]);
        while self.links.pop().is_some() {}
        // Programs that were running when they were detached end within moments.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Only one of the two may set the arrival of a bio.
fn unwanted(sees_limits: bool) -> &'static str {
    match sees_limits {
        true => "on_queue",
        false => "on_submit",
    }
}

/// Asks the kernel to count runs and time of all BPF programs while the descriptor is open.
fn count_runs() -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a plain call; a descriptor that is not negative is ours.
    unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        (fd >= 0).then(|| std::os::fd::OwnedFd::from_raw_fd(fd))
    }
}

/// The hardware queues of the device: number, and tags. One without CPUs is not there.
fn hardware_queues(device: (u32, u32)) -> Vec<(usize, u32)> {
    let queues = std::fs::read_dir(format!("/sys/dev/block/{}:{}/mq", device.0, device.1));
    let queue = |queue: std::fs::DirEntry| {
        let tags = std::fs::read_to_string(queue.path().join("nr_tags")).ok()?;
        let number = queue.file_name().to_str()?.parse().ok()?;
        Some((number, tags.trim().parse().ok()?))
    };
    let queues = queues.into_iter().flatten().flatten();
    queues.filter_map(queue).collect()
}

/// How many queues have places, and the bits of a tag: of the driver, or of the scheduler, whose
/// tags can become 2048 meanwhile (`MAX_SCHED_RQ` of block/blk-mq-sched.h).
fn tag_space(queues: &[(usize, u32)]) -> (usize, u32) {
    let last = queues.iter().map(|(number, _)| *number).max();
    let most = queues.iter().map(|(_, tags)| *tags).max();
    let tag_bits = most.unwrap_or(0).next_power_of_two().ilog2();
    (1 + last.unwrap_or(0), tag_bits.max(12))
}

/// `struct settings` of the program.
fn settings(device: (u32, u32), start_ns: u64, options: &BlockOptions, tag_bits: u32) -> Vec<u8> {
    let by_cgroup: Vec<(usize, u64)> = options.cgroups();
    let mut bytes = Vec::new();
    let mut put = |value: u32| bytes.extend_from_slice(&value.to_ne_bytes());
    put(device.0);
    put(device.1);
    let mut start = start_ns.to_ne_bytes().to_vec();
    bytes.append(&mut start);
    for value in [
        options.class_count() as u32,
        options.interval_count() as u32,
        u32::from(options.find_classes),
        u32::from(options.is_bfq),
        by_cgroup.len() as u32,
        tag_bits,
    ] {
        bytes.extend_from_slice(&value.to_ne_bytes());
    }
    for i in 0..CLASSES_MAX {
        let id = by_cgroup.get(i).map_or(0, |(_, id)| *id);
        bytes.extend_from_slice(&id.to_ne_bytes());
    }
    for i in 0..CLASSES_MAX {
        let class = by_cgroup.get(i).map_or(0, |(class, _)| *class as u32);
        bytes.extend_from_slice(&class.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::tag_space;

    #[test]
    fn every_tag_of_every_queue_has_its_own_place() {
        for (queues, expected) in [
            (&[][..], (1, 12)),
            (&[(31, 1023), (0, 1023)], (32, 12)),
            (&[(0, 64), (1, 4097)], (2, 13)),
        ] {
            assert_eq!(tag_space(queues), expected);
        }
    }
}
