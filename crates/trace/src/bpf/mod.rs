//! The BPF source: loads `bursts.bpf.c`, fills its map of tasks, drains its ring by a timer.
//!
//! The ring is read from a separate thread that inherits the caller's CPUs, so measured
//! processes pinned elsewhere are not disturbed, and no task is woken at a switch.

mod blocks;
mod records;
mod runqueue;
mod scheduler;
mod syncs;

pub(crate) use blocks::Blocks;
pub(crate) use records::Records;
pub(crate) use runqueue::RunQueue;
pub(crate) use scheduler::Scheduler;
pub(crate) use syncs::Syncs;

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use libbpf_rs::query::{ProgInfoIter, ProgramInfo};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, RingBufferBuilder,
};

use crate::collector::{Burst, Collected, Collector, Scheduling, TaskBursts};
use crate::reader::{drain_until, Reader};
use crate::{drain_interval, Options};

/// The compiled program, aligned as an ELF file wants to be read.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);
static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bursts.bpf.o")));

/// Words of `struct task` of the program; the first is (pid, the next task of the table entry).
const TASK_WORDS: usize = 48;
const CHARGED: usize = 2;
const UNTRACED: usize = 4;
const TOTAL: usize = 5;
const BURSTS: usize = 6;
const PREEMPTED: usize = 7;
const FIRST_BUCKET: usize = 8;
/// Entries of the table from the low bits of a task's number to its totals.
const TABLE: u32 = 65_536;
/// Its counters.
const LOST_RECORDS: u32 = 0;
const LOST_TASKS: u32 = 1;
const TASKS_USED: u32 = 2;
/// Bytes of `struct burst`.
const BURST: usize = 40;
/// Inode of the first PID namespace (PROC_PID_INIT_INO); the program sees its numbers.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

pub(crate) struct BpfCapture {
    object: Object,
    links: Vec<Link>,
    reader: Reader<Collector>,
}

/// Why a step failed.
fn failed(step: &str) -> impl Fn(libbpf_rs::Error) -> String + '_ {
    move |error| format!("{step}: {error}")
}

/// The programs see the numbers of the first PID namespace; in another one nobody would be found.
fn in_first_pid_namespace() -> Result<(), String> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace.as_os_str() == FIRST_PID_NAMESPACE {
        return Ok(());
    }
    Err("processes have other numbers here (PID namespace of a container)".into())
}

/// Reads the programs; their maps can be sized then.
fn open(programs: &Aligned<[u8]>) -> Result<OpenObject, String> {
    if std::env::var_os("DEBUG_BPF").is_none() {
        libbpf_rs::set_print(None);
    }
    let opened = ObjectBuilder::default().open_memory(&programs.0);
    opened.map_err(failed("open the programs"))
}

fn load(opened: OpenObject) -> Result<Object, String> {
    opened.load().map_err(failed(
        "load the programs (root or CAP_BPF, and BTF, are needed)",
    ))
}

impl BpfCapture {
    /// Loads and attaches the program; its totals hold from the next switch of each task on.
    pub fn start(pids: &[i32], options: &Options) -> Result<Self, String> {
        in_first_pid_namespace()?;
        let mut open = open(PROGRAM)?;
        for mut map in open.maps_mut() {
            let entries = match map.name().to_str() {
                Some("tasks") => options.tasks_max.max(pids.len() as u32) + 1,
                Some("ring") => options.ring_bytes.max(4096).next_power_of_two() as u32,
                _ => continue,
            };
            map.set_max_entries(entries)
                .map_err(failed("size the maps"))?;
        }
        let object = load(open)?;
        follow(&object, pids)?;
        let collector = Collector::new(options.records_max);
        let reader = read_ring(&object, collector, add_bursts, drain_interval(options))?;
        let mut capture = BpfCapture {
            object,
            links: Vec::new(),
            reader,
        };
        for program in capture.object.progs_mut() {
            capture.links.push(
                program
                    .attach()
                    .map_err(failed("attach to the scheduler"))?,
            );
        }
        Ok(capture)
    }

    /// Detaches, empties the ring and reads the totals; and how many tasks were not followed.
    pub fn finish(mut self) -> Result<(Collected, u64), String> {
        self.links.clear();
        let mut collector = self.reader.finish()?;
        let batches = map(&self.object, "batches")?;
        let batches = batches.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        for batch in batches
            .map_err(failed("read the batches"))?
            .into_iter()
            .flatten()
        {
            let [filled] = words::<1>(&batch);
            add_bursts(&mut collector, &batch[8..][..filled as usize * BURST]);
        }
        let counters = map(&self.object, "counters")?;
        let lost = counter(&counters, LOST_RECORDS)?;
        let lost_tasks = counter(&counters, LOST_TASKS)?;
        let used = counter(&counters, TASKS_USED)? - lost_tasks;
        let mut collected = collector.finish(lost);
        let tasks = map(&self.object, "tasks")?;
        collected.tasks = totals(&tasks, used as u32, collected.tasks, lost)?;
        Ok((collected, lost_tasks))
    }
}

/// Puts the tasks into the table. A burst begun unseen lasts from what was charged before.
fn follow(object: &Object, pids: &[i32]) -> Result<(), String> {
    let (tasks, first_task) = (map(object, "tasks")?, map(object, "first_task")?);
    let write = |map: &MapHandle, key: u32, value: &[u8]| {
        let written = map.update(&key.to_ne_bytes(), value, MapFlags::ANY);
        written.map_err(failed("fill the maps"))
    };
    for (number, pid) in (1u32..).zip(pids) {
        let entry = *pid as u32 % TABLE;
        let chained = first_task.lookup(&entry.to_ne_bytes(), MapFlags::ANY);
        let chained = chained
            .map_err(failed("read the table"))?
            .unwrap_or_default();
        let mut fresh = [0u8; TASK_WORDS * 8];
        fresh[..4].copy_from_slice(&pid.to_ne_bytes());
        fresh[4..8].copy_from_slice(&chained);
        fresh[CHARGED * 8..][..8].copy_from_slice(&charged_ns(*pid).to_ne_bytes());
        write(&tasks, number, &fresh)?;
        write(&first_task, entry, &number.to_ne_bytes())?;
    }
    let used = (pids.len() as u64).to_ne_bytes();
    write(&map(object, "counters")?, TASKS_USED, &used)
}

fn counter(counters: &MapHandle, which: u32) -> Result<u64, String> {
    let value = counters.lookup(&which.to_ne_bytes(), MapFlags::ANY);
    let value = value.map_err(failed("read the counters"))?;
    Ok(words::<1>(&value.unwrap_or_default())[0])
}

fn map(object: &Object, name: &str) -> Result<MapHandle, String> {
    let map = object.maps().find(|m| m.name() == name);
    let map = map.ok_or_else(|| format!("no map {name}"))?;
    MapHandle::try_from(&map).map_err(failed("open a map"))
}

/// What the kernel knows of the programs of an object.
fn programs_of(object: &Object) -> impl Iterator<Item = ProgramInfo> {
    let own: Vec<u32> = object.progs().filter_map(|p| program_id(&p)).collect();
    ProgInfoIter::default().filter(move |info| own.contains(&info.id))
}

fn program_id(program: &libbpf_rs::Program<'_>) -> Option<u32> {
    use std::os::fd::{AsFd, AsRawFd};
    // SAFETY: the structure is plain numbers, for which all zeros is a value.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut length = std::mem::size_of_val(&info) as u32;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: `info` lives through the call and has the passed length.
    let status = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) };
    (status == 0).then_some(info.id)
}

/// Starts the thread that lets `take` put what comes through the program's ring into `state`.
fn read_ring<T: Send + 'static>(
    object: &Object,
    mut state: T,
    take: fn(&mut T, &[u8]),
    interval: Duration,
) -> Result<Reader<T>, String> {
    let ring = map(object, "ring")?;
    let (ready, is_ready) = sync_channel(1);
    let reader = Reader::start(move |stop| {
        {
            let mut builder = RingBufferBuilder::new();
            let added = builder.add(&ring, |bytes| {
                take(&mut state, bytes);
                0
            });
            let built = added.map(|_| ()).and_then(|()| builder.build());
            let _ = ready.send(built.as_ref().map(|_| ()).map_err(ToString::to_string));
            if let Ok(buffer) = &built {
                drain_until(stop, interval, || {
                    let _ = buffer.consume();
                });
            }
        }
        state
    })?;
    let failed = |_| "the reader of the ring failed".to_owned();
    is_ready.recv().map_err(failed)??;
    Ok(reader)
}

/// Takes bursts as they lie in memory: `struct burst` of the program.
fn add_bursts(collector: &mut Collector, bytes: &[u8]) {
    for burst in bytes.chunks_exact(BURST) {
        let [end_ns, duration_ns, woken_ns] = words::<3>(burst);
        let half = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|k| burst[at + k]));
        collector.add(Burst {
            end_ns,
            duration_ns,
            task: half(24),
            preempted: half(36) != 0,
            scheduling: Some(Scheduling {
                cpu: u16::from_ne_bytes([burst[32], burst[33]]),
                woken_ns,
                policy: burst[34],
                nice: burst[35] as i8 - 20,
                slice_ns: half(28),
            }),
        });
    }
}

/// The totals of the map, with the fine histograms of the records where none was lost.
fn totals(
    tasks: &MapHandle,
    used: u32,
    recorded: Vec<TaskBursts>,
    lost: u64,
) -> Result<Vec<TaskBursts>, String> {
    let mut fine: std::collections::BTreeMap<u32, TaskBursts> =
        recorded.into_iter().map(|t| (t.task, t)).collect();
    let mut result = Vec::new();
    for number in 1..=used {
        let value = tasks
            .lookup(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("read the totals"))?;
        let Some(value) = value else { continue };
        let task = u32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
        let value = words::<TASK_WORDS>(&value);
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
