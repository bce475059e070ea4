//! The source of durability: loads `syncs.bpf.c` with the events that this kernel has, reads its
//! rows.

use std::collections::BTreeMap;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object};
use memchr::memmem;
use schedlab_model::histogram_bin_range;

use super::{failed, in_first_pid_namespace, load, map, open, programs_of, words, Aligned};
use crate::syncs::{
    Follow, SyncAccounting, SyncCalls, SyncOptions, SyncResult, SyncWriter, PLACES_MAX,
};

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/syncs.bpf.o")));

const BINS: usize = 2240;
/// Words of `struct sums`.
const WORDS: usize = 8 + BINS;
const COUNTERS: usize = 6;
/// Bytes of `struct name`, and of the name of a process in it.
const NAME: usize = 24;
const PROCESS: usize = 16;
const CALLS: [&str; 6] = [
    "fsync",
    "fdatasync",
    "sync_file_range",
    "msync",
    "syncfs",
    "synced write",
];
const COMMIT: usize = 6;
const WRITTEN_BY_CALLER: usize = 8;
const RING_FSYNC: u32 = 3;
/// Those of `struct settings`, in its order.
const NUMBERS: [i64; 10] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_syncfs,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
];
/// Events that a kernel may lack, and the programs that are not loaded then.
const FURTHER: [(&str, &[&str]); 3] = [
    (
        "jbd2_start_commit",
        &[
            "on_start_commit",
            "on_commit_flushing",
            "on_commit_logging",
            "on_end_commit",
        ],
    ),
    (
        "io_uring_submit_req",
        &["on_ring_submit", "on_ring_complete"],
    ),
    ("xfs_log_force", &["on_log_force"]),
];

/// The loaded and attached programs.
pub(crate) struct Syncs {
    object: Object,
    links: Vec<Link>,
}

impl Syncs {
    pub(crate) fn start(options: &SyncOptions) -> Result<Self, String> {
        in_first_pid_namespace()?;
        let mut open = open(PROGRAM)?;
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                let settings = settings(options);
                let place = map
                    .initial_value_mut()
                    .and_then(|p| p.get_mut(..settings.len()));
                place
                    .ok_or("the settings have another size")?
                    .copy_from_slice(&settings);
            }
        }
        let types = kernel_types();
        let missing: Vec<_> = FURTHER
            .iter()
            .filter(|(event, _)| !has_event(&types, event))
            .flat_map(|(_, programs)| programs.iter().copied())
            .collect();
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(!missing.contains(&name.as_str()));
        }
        let mut syncs = Syncs {
            object: load(open)?,
            links: Vec::new(),
        };
        for (process, how) in options.follows.iter().flatten() {
            syncs.follow(*process, *how)?;
        }
        // The ends of calls before their beginnings, which the program has the other way round.
        let programs: Vec<_> = syncs.object.progs_mut().collect();
        for program in programs.into_iter().rev() {
            let name = program.name().to_string_lossy().into_owned();
            if !missing.contains(&name.as_str()) {
                let link = program.attach().map_err(failed(&name))?;
                syncs.links.push(link);
            }
        }
        Ok(syncs)
    }

    /// Counts what a process does from now on, or what it forks.
    pub(crate) fn follow(&self, process: u32, how: Follow) -> Result<(), String> {
        let how: u32 = match how {
            Follow::Children => 1,
            Follow::Itself => 2,
        };
        map(&self.object, "followed")?
            .update(&process.to_ne_bytes(), &how.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("name the processes"))
    }

    /// Detaches, the beginnings of calls first: those that wait then are in flight.
    pub(crate) fn detach(&mut self) {
        while self.links.pop().is_some() {}
        // Programs that were running when they were detached end within moments.
        std::thread::sleep(Duration::from_millis(1));
    }

    /// The rows, and what waits at the moment `now_ns`.
    pub(crate) fn read(&self, now_ns: u64) -> Result<SyncResult, String> {
        let mut result = SyncResult::default();
        // The calls in flight first: one that returns meanwhile is counted twice, not lost.
        let open = self.open_calls()?;
        let mut names = BTreeMap::new();
        let (all, table) = (map(&self.object, "rows")?, map(&self.object, "names")?);
        for key in table.keys() {
            let Some(row) = look_up(&table, &key)? else {
                continue;
            };
            let row = u32::from_ne_bytes([row[0], row[1], row[2], row[3]]);
            let sums = words::<WORDS>(&look_up(&all, &row.to_ne_bytes())?.unwrap_or_default());
            let (process, device, of) = name_of(&key);
            names.insert(row, (process.clone(), device, of));
            match of {
                0..COMMIT => result.calls.push(calls(process, device, CALLS[of], &sums)),
                COMMIT => result.commits.push(calls(process, device, "commit", &sums)),
                _ => result.writers.push(SyncWriter {
                    process,
                    device,
                    calls: of == WRITTEN_BY_CALLER,
                    requests: sums[0],
                    bytes: sums[3],
                }),
            }
        }
        result
            .calls
            .sort_by(|a, b| (&a.process, a.call, a.device).cmp(&(&b.process, b.call, b.device)));
        result
            .writers
            .sort_by_key(|writer| std::cmp::Reverse(writer.bytes));
        let counters = look_up(&map(&self.object, "counters")?, &0u32.to_ne_bytes())?;
        let [lost, _, _, unnamed, ..] = words::<COUNTERS>(&counters.unwrap_or_default());
        let misses = programs_of(&self.object)
            .filter(|program| ["on_enter", "on_exit"].contains(&&*program.name.to_string_lossy()))
            .map(|program| program.recursion_misses);
        let rings = self.open_ring_calls()?;
        let of_rows = |of: fn(&SyncCalls) -> u64| result.calls.iter().map(of).sum::<u64>();
        result.accounting = SyncAccounting {
            entered: of_rows(|row| row.entered) + rings + unnamed,
            returned: of_rows(|row| row.returned),
            in_flight: open.len() as u64 + rings,
            lost: lost + unnamed + misses.sum::<u64>(),
        };
        for (row, entered_ns) in open {
            if let Some((process, device, of)) = names.get(&row) {
                let call = CALLS[(*of).min(CALLS.len() - 1)];
                let age_ns = now_ns.saturating_sub(entered_ns);
                result
                    .waiting
                    .push((process.clone(), *device, call, age_ns));
            }
        }
        Ok(result)
    }

    /// Row and beginning of the calls that have not returned.
    fn open_calls(&self) -> Result<Vec<(u32, u64)>, String> {
        let calls = map(&self.object, "calls")?;
        let mut open = Vec::new();
        for thread in calls.keys() {
            if let Some(call) = look_up(&calls, &thread)? {
                let [entered_ns, .., place] = words::<6>(&call);
                if entered_ns > 0 {
                    open.push((place as u32, entered_ns));
                }
            }
        }
        Ok(open)
    }

    /// How many rings wait for an fsync.
    fn open_ring_calls(&self) -> Result<u64, String> {
        let calls = map(&self.object, "ring_calls")?;
        let mut open = 0;
        for request in calls.keys() {
            let call = look_up(&calls, &request)?.unwrap_or_default();
            let opcode = call
                .get(24..28)
                .map_or([0; 4], |b| [b[0], b[1], b[2], b[3]]);
            open += u64::from(u32::from_ne_bytes(opcode) == RING_FSYNC);
        }
        Ok(open)
    }
}

fn look_up(map: &libbpf_rs::MapHandle, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
    map.lookup(key, MapFlags::ANY)
        .map_err(failed("read the rows"))
}

/// Process, device and kind of a row.
fn name_of(key: &[u8]) -> (String, (u32, u32), usize) {
    let half = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|k| key[at + k]));
    debug_assert_eq!(key.len(), NAME);
    let process = key[..PROCESS].split(|byte| *byte == 0).next();
    let device = half(PROCESS);
    (
        String::from_utf8_lossy(process.unwrap_or_default()).into_owned(),
        (device >> 20, device & 0xf_ffff),
        half(PROCESS + 4) as usize,
    )
}

fn calls(
    process: String,
    device: (u32, u32),
    call: &'static str,
    sums: &[u64; WORDS],
) -> SyncCalls {
    let occupied = sums[8..].iter().enumerate().filter(|(_, n)| **n > 0);
    SyncCalls {
        process,
        device,
        call,
        entered: sums[0],
        returned: sums[1],
        failed: sums[2],
        sum_ns: sums[3],
        max_ns: sums[4],
        parts_ns: [sums[5], sums[6], sums[7]],
        bins: occupied
            .map(|(bin, n)| {
                let (low, high) = histogram_bin_range(bin);
                (low, high, *n)
            })
            .collect(),
    }
}

/// The types of this kernel (some megabytes), and of those modules that have events of `FURTHER`.
fn kernel_types() -> Vec<Vec<u8>> {
    let read = |module: &str| std::fs::read(format!("/sys/kernel/btf/{module}")).ok();
    ["vmlinux", "jbd2", "xfs"]
        .into_iter()
        .filter_map(read)
        .collect()
}

/// Whether there is an event, as the types say.
fn has_event(types: &[Vec<u8>], event: &str) -> bool {
    let name = format!("btf_trace_{event}\0");
    let finder = memmem::Finder::new(&name);
    types.iter().any(|module| finder.find(module).is_some())
}

/// `struct settings` of the program.
fn settings(options: &SyncOptions) -> Vec<u8> {
    let mut all: Vec<u32> = NUMBERS.iter().map(|number| *number as u32).collect();
    all.push(u32::from(options.follows.is_some()));
    all.push(options.devices.len() as u32);
    all.push(options.disks.len() as u32);
    for places in [&options.devices, &options.disks] {
        let number = |at: usize| {
            places
                .get(at)
                .map_or(0, |(major, minor)| major << 20 | minor)
        };
        all.extend((0..PLACES_MAX).map(number));
    }
    all.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_process_device_and_kind() {
        let mut key = b"postgres\0\0\0\0\0\0\0\0".to_vec();
        key.extend((7u32 << 20 | 3).to_ne_bytes());
        key.extend(1u32.to_ne_bytes());
        assert_eq!(name_of(&key), ("postgres".to_owned(), (7, 3), 1));
    }

    #[test]
    fn an_event_is_there_where_the_kernel_says_so() {
        let types = kernel_types();
        assert!(!has_event(&types, "made_up_event"));
        assert_eq!(has_event(&types, "sys_enter"), !types.is_empty());
    }
}
