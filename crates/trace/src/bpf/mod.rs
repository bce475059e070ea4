//! The BPF source: loads `bursts.bpf.c`, fills its map of tasks, drains its ring by a timer.
//!
//! The ring is read from a thread of its own that inherits the caller's CPUs, so measured
//! processes pinned elsewhere are not disturbed, and nobody is woken at a switch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, RingBufferBuilder};

use crate::collector::{Burst, Collected, Collector, TaskBursts};
use crate::{drain_interval, Method, Options, TraceError};

/// The compiled program, aligned as an ELF file wants to be read.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);
static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bursts.bpf.o")));

/// Words of `struct task` of the program.
const TASK_WORDS: usize = 46;
const CHARGED: usize = 1;
const UNTRACED: usize = 2;
const TOTAL: usize = 3;
const BURSTS: usize = 4;
const PREEMPTED: usize = 5;
const FIRST_BUCKET: usize = 6;
/// Inode of the first PID namespace (PROC_PID_INIT_INO); the program sees its numbers.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

pub(crate) struct BpfCapture {
    object: Object,
    links: Vec<Link>,
    stop: Arc<AtomicBool>,
    reader: JoinHandle<Collector>,
}

fn failed(step: &str) -> impl Fn(libbpf_rs::Error) -> TraceError + '_ {
    move |error| TraceError::new(Method::Bpf, format!("{step}: {error}"))
}

impl BpfCapture {
    /// Loads and attaches the program; its totals hold from the next switch of each task on.
    pub fn start(pids: &[i32], options: &Options) -> Result<Self, TraceError> {
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace.as_os_str() != FIRST_PID_NAMESPACE {
            let reason = "processes have other numbers here (PID namespace of a container)";
            return Err(TraceError::new(Method::Bpf, reason));
        }
        let object = load(pids.len() as u32, options)?;
        let tasks = map(&object, "tasks")?;
        for pid in pids {
            let mut fresh = [0u8; TASK_WORDS * 8];
            fresh[CHARGED * 8..][..8].copy_from_slice(&charged_ns(*pid).to_ne_bytes());
            let key = (*pid as u32).to_ne_bytes();
            tasks
                .update(&key, &fresh, MapFlags::ANY)
                .map_err(failed("fill the map"))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let reader = read_ring(map(&object, "ring")?, options, &stop)?;
        let mut capture = BpfCapture {
            object,
            links: Vec::new(),
            stop,
            reader,
        };
        for program in capture.object.progs_mut() {
            capture
                .links
                .push(program.attach().map_err(failed("attach to sched_switch"))?);
        }
        Ok(capture)
    }

    /// Detaches, empties the ring and reads the totals; and how many tasks were not followed.
    pub fn finish(mut self) -> Result<(Collected, u64), TraceError> {
        self.links.clear();
        self.stop.store(true, Ordering::Release);
        self.reader.thread().unpark();
        let collector = self
            .reader
            .join()
            .map_err(|_| TraceError::new(Method::Bpf, "the reader of the ring failed"))?;
        let counters = map(&self.object, "counters")?;
        let counter = |which: u32| {
            let value = counters.lookup(&which.to_ne_bytes(), MapFlags::ANY);
            value.map(|v| words::<1>(&v.unwrap_or_default())[0])
        };
        let lost = counter(0).map_err(failed("read the counters"))?;
        let lost_tasks = counter(1).map_err(failed("read the counters"))?;
        let mut collected = collector.finish(lost);
        collected.tasks = totals(&map(&self.object, "tasks")?, collected.tasks, lost)?;
        Ok((collected, lost_tasks))
    }
}

fn load(pids: u32, options: &Options) -> Result<Object, TraceError> {
    libbpf_rs::set_print(None);
    let mut builder = ObjectBuilder::default();
    let mut open = builder
        .open_memory(&PROGRAM.0)
        .map_err(failed("open the program"))?;
    for mut map in open.maps_mut() {
        let entries = match map.name().to_str() {
            Some("tasks") => options.tasks_max.max(pids),
            Some("ring") => options.ring_bytes.max(4096).next_power_of_two() as u32,
            _ => continue,
        };
        map.set_max_entries(entries)
            .map_err(failed("size the maps"))?;
    }
    open.load().map_err(failed(
        "load the program (root or CAP_BPF, and BTF, are needed)",
    ))
}

fn map(object: &Object, name: &str) -> Result<MapHandle, TraceError> {
    let found = object.maps().find(|m| m.name() == name);
    let map = found.ok_or_else(|| TraceError::new(Method::Bpf, format!("no map {name}")))?;
    MapHandle::try_from(&map).map_err(failed("take hold of a map"))
}

/// Starts the thread that takes bursts out of the ring until `stop`.
fn read_ring(
    ring: MapHandle,
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<Collector>, TraceError> {
    let interval = drain_interval(options);
    let records_max = options.records_max;
    let stop = Arc::clone(stop);
    let (ready, is_ready) = sync_channel(1);
    let reader = std::thread::Builder::new().name("schedlab-ring".to_owned());
    let handle = reader.spawn(move || {
        let mut collector = Collector::new(records_max);
        drain(&ring, &mut collector, &ready, &stop, interval);
        collector
    });
    let handle = handle.map_err(|e| TraceError::new(Method::Bpf, format!("thread: {e}")))?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(handle),
        Ok(Err(reason)) => Err(TraceError::new(Method::Bpf, reason)),
        Err(_) => Err(TraceError::new(
            Method::Bpf,
            "the reader of the ring failed",
        )),
    }
}

/// Opens the ring, says whether that went well, then empties it every `interval`.
fn drain(
    ring: &MapHandle,
    collector: &mut Collector,
    ready: &SyncSender<Result<(), String>>,
    stop: &AtomicBool,
    interval: Duration,
) {
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(ring, |bytes| {
        // u64 end, u64 duration, u32 task, u32 preempted
        if let ([end_ns, duration_ns], Some(rest)) = (words::<2>(bytes), bytes.get(16..24)) {
            collector.add(Burst {
                end_ns,
                duration_ns,
                task: u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]),
                preempted: rest[4..8] != [0; 4],
            });
        }
        0
    });
    let built = added.map(|_| ()).and_then(|()| builder.build());
    let _ = ready.send(built.as_ref().map(|_| ()).map_err(ToString::to_string));
    let Ok(buffer) = built else { return };
    loop {
        let last = stop.load(Ordering::Acquire);
        let _ = buffer.consume();
        if last {
            return;
        }
        std::thread::park_timeout(interval);
    }
}

/// The totals of the map, with the fine histograms of the records where none was lost.
fn totals(
    tasks: &MapHandle,
    recorded: Vec<TaskBursts>,
    lost: u64,
) -> Result<Vec<TaskBursts>, TraceError> {
    let mut fine: std::collections::BTreeMap<u32, TaskBursts> =
        recorded.into_iter().map(|t| (t.task, t)).collect();
    let mut result = Vec::new();
    for key in tasks.keys() {
        let value = tasks
            .lookup(&key, MapFlags::ANY)
            .map_err(failed("read the totals"))?;
        let (Some(value), Ok(number)) = (value, <[u8; 4]>::try_from(key)) else {
            continue;
        };
        let (task, value) = (u32::from_ne_bytes(number), words::<TASK_WORDS>(&value));
        let octaves = value[FIRST_BUCKET..]
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0);
        let coarse = octaves.map(|(k, n)| (1u64 << k, (2u64 << k) - 1, *n));
        let histogram = match fine.remove(&task) {
            Some(known) if lost == 0 => known.histogram,
            _ => coarse.collect(),
        };
        result.push(TaskBursts {
            task,
            total_ns: value[TOTAL],
            bursts: value[BURSTS],
            preempted: value[PREEMPTED],
            untraced_starts: value[UNTRACED],
            histogram,
        });
    }
    result.sort_by_key(|t| t.task);
    Ok(result)
}

/// CPU time charged to a process so far (the first number of its schedstat).
fn charged_ns(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

/// The first `N` words; 0 where bytes are missing.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = chunk
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    if cfg!(target_endian = "big") {
        words.iter_mut().for_each(|word| *word = word.swap_bytes());
    }
    words
}
