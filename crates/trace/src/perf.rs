//! The perf source: context-switch records of chosen processes and of what they fork, without
//! privilege at `perf_event_paranoid` ≤ 2 (perf_event_open(2), include/uapi/linux/perf_event.h).
//!
//! Per CPU one ring, which the dummy events of all tasks write into. A burst begins and ends on
//! one CPU, so each ring is understood by itself. The last burst of a task is closed by its exit
//! record, because the event goes before the task's last switch.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{fence, Ordering};

use perf_event_open_sys::bindings::{
    perf_event_attr, perf_event_header, perf_event_mmap_page, PERF_COUNT_SW_DUMMY,
    PERF_FORMAT_LOST, PERF_RECORD_EXIT, PERF_RECORD_LOST, PERF_RECORD_MISC_SWITCH_OUT,
    PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, PERF_RECORD_SWITCH, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_SOFTWARE,
};
use perf_event_open_sys::{ioctls, perf_event_open};

use crate::collector::{Burst, Collected, Collector};
use crate::reader::{drain_until, Reader};
use crate::{drain_interval, Method, Options, TraceError};

const PAGE: usize = 4096;
const HEADER: usize = std::mem::size_of::<perf_event_header>();

pub(crate) struct PerfCapture {
    events: Vec<File>,
    has_lost_format: bool,
    reader: Reader<(Collector, u64)>,
}

fn failed(step: &str) -> TraceError {
    let error = std::io::Error::last_os_error();
    TraceError::new(Method::Perf, format!("{step}: {error}"))
}

impl PerfCapture {
    /// Opens an event per task and CPU; the caller's threads of `pids` should be off the CPU.
    pub fn start(pids: &[i32], options: &Options) -> Result<Self, TraceError> {
        let mut events = Vec::new();
        let mut rings = Vec::new();
        let mut has_lost_format = true;
        for cpu in online_cpus() {
            let mut first: Option<i32> = None;
            for pid in pids {
                let mut opened = open(*pid, cpu, has_lost_format);
                if opened.is_err() && has_lost_format {
                    has_lost_format = false; // before Linux 6.0
                    opened = open(*pid, cpu, false);
                }
                let event = opened?;
                match first {
                    None => {
                        rings.push(Ring::map(&event, options.ring_bytes)?);
                        first = Some(event.as_raw_fd());
                    }
                    Some(output) => {
                        // SAFETY: both are open perf events.
                        let result = unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), output) };
                        if result != 0 {
                            return Err(failed("share the ring"));
                        }
                    }
                }
                events.push(event);
            }
        }
        let reader = read(rings, options);
        Ok(PerfCapture {
            events,
            has_lost_format,
            reader: reader.map_err(|reason| TraceError::new(Method::Perf, reason))?,
        })
    }

    /// Empties the rings and adds up.
    pub fn finish(self) -> Result<Collected, TraceError> {
        let read = self.reader.finish();
        let (collector, ring_losses) =
            read.map_err(|reason| TraceError::new(Method::Perf, reason))?;
        // The kernel reports a loss with the next record that fits; its counters have all of them.
        let counted = if self.has_lost_format {
            self.events.iter().map(lost_of).sum()
        } else {
            0
        };
        Ok(collector.finish(ring_losses.max(counted)))
    }
}

/// `read(2)` of an event with PERF_FORMAT_LOST: value, lost.
fn lost_of(event: &File) -> u64 {
    let mut words = [0u8; 16];
    match std::io::Read::read(&mut &*event, &mut words) {
        Ok(16) => word(&words, 8),
        _ => 0,
    }
}

fn open(pid: i32, cpu: i32, has_lost_format: bool) -> Result<File, TraceError> {
    let mut attributes = perf_event_attr {
        size: std::mem::size_of::<perf_event_attr>() as u32,
        type_: PERF_TYPE_SOFTWARE,
        sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME),
        read_format: if has_lost_format {
            u64::from(PERF_FORMAT_LOST)
        } else {
            0
        },
        config: u64::from(PERF_COUNT_SW_DUMMY),
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attributes.set_context_switch(1);
    attributes.set_task(1);
    attributes.set_inherit(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    // SAFETY: the attributes are valid and carry their size; the result is a new descriptor.
    let fd = unsafe { perf_event_open(&mut attributes, pid, cpu, -1, 8) };
    if fd < 0 {
        return Err(failed(
            "perf_event_open (perf_event_paranoid must be 2 or less)",
        ));
    }
    // SAFETY: a descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// The CPUs of `/sys/devices/system/cpu/online`, as `0-3,5`.
fn online_cpus() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    ranges.flatten().collect()
}

/// A mapped ring of one CPU; unmapped when dropped.
struct Ring {
    base: NonNull<u8>,
    data_bytes: usize,
}

// SAFETY: the mapping is used by the one thread that owns the ring.
unsafe impl Send for Ring {}

impl Ring {
    fn map(event: &File, ring_bytes: usize) -> Result<Self, TraceError> {
        let mut data_bytes = ring_bytes.max(PAGE).next_power_of_two();
        loop {
            // SAFETY: a fresh mapping of an open event at an address of the kernel's choice.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    PAGE + data_bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    event.as_raw_fd(),
                    0,
                )
            };
            match NonNull::new(base.cast::<u8>()) {
                Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                    return Ok(Ring { base, data_bytes })
                }
                // Without privilege the size is limited (perf_event_mlock_kb).
                _ if data_bytes > 16 * PAGE => data_bytes /= 2,
                _ => return Err(failed("map the ring")),
            }
        }
    }

    /// Hands every record to `take` (type, misc, bytes with header) and frees their room.
    fn drain(&mut self, record: &mut Vec<u8>, mut take: impl FnMut(u32, u32, &[u8])) {
        let page = self.base.as_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the first page is the control page; the kernel moves data_head.
        let (head, mut tail) = unsafe {
            let head = std::ptr::read_volatile(&raw const (*page).data_head);
            fence(Ordering::Acquire);
            (head, (*page).data_tail)
        };
        while tail < head {
            self.copy(tail, HEADER, record);
            let size = usize::from(u16::from_ne_bytes([record[6], record[7]])).max(HEADER);
            let kind = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
            let misc = u32::from(u16::from_ne_bytes([record[4], record[5]]));
            self.copy(tail, size, record);
            take(kind, misc, record);
            tail += size as u64;
        }
        fence(Ordering::Release);
        // SAFETY: data_tail is ours to write.
        unsafe { std::ptr::write_volatile(&raw mut (*page).data_tail, tail) };
    }

    /// Copies `size` bytes from ring position `at`, which may run over the end.
    fn copy(&self, at: u64, size: usize, into: &mut Vec<u8>) {
        into.clear();
        let start = at as usize & (self.data_bytes - 1);
        let first = size.min(self.data_bytes - start);
        // SAFETY: both parts lie inside the data area behind the control page.
        unsafe {
            let data = self.base.as_ptr().add(PAGE);
            into.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            into.extend_from_slice(std::slice::from_raw_parts(data, size - first));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), PAGE + self.data_bytes) };
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The contents of the records of one ring.
#[derive(Default)]
struct Reading {
    /// Start of the burst in progress, by task.
    running: HashMap<u32, u64>,
    lost: u64,
}

/// A burst that a record ends.
enum Ended {
    Whole(Burst),
    /// The kernel did not trace its beginning, or the task ran when the capture began.
    Untraced {
        task: u32,
        preempted: bool,
    },
}

impl Reading {
    /// The burst that a record ends, if any.
    fn take(&mut self, kind: u32, misc: u32, record: &[u8]) -> Option<Ended> {
        // sample_id at the end: u32 pid, u32 tid, u64 time.
        let id = record.len().checked_sub(16).filter(|at| *at >= HEADER)?;
        let (task, time_ns) = (half_word(record, id + 4), word(record, id + 8));
        let (task, end_ns, preempted) = match kind {
            PERF_RECORD_LOST => {
                // What was running then may have left the CPU unseen.
                self.running.clear();
                self.lost += word(record, HEADER + 8);
                return None;
            }
            PERF_RECORD_SWITCH if misc & PERF_RECORD_MISC_SWITCH_OUT == 0 => {
                self.running.insert(task, time_ns);
                return None;
            }
            PERF_RECORD_SWITCH => (
                task,
                time_ns,
                misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
            ),
            // pid, ppid, tid, ptid, time.
            PERF_RECORD_EXIT => (
                half_word(record, HEADER + 8),
                word(record, HEADER + 16),
                false,
            ),
            _ => return None,
        };
        match self.running.remove(&task) {
            Some(start_ns) => Some(Ended::Whole(Burst {
                end_ns,
                duration_ns: end_ns.saturating_sub(start_ns),
                task,
                preempted,
                scheduling: None,
            })),
            // Unknown after a loss.
            None if kind == PERF_RECORD_SWITCH && self.lost == 0 => {
                Some(Ended::Untraced { task, preempted })
            }
            None => None,
        }
    }
}

/// Starts the thread that empties the rings: bursts, and the reported losses.
fn read(rings: Vec<Ring>, options: &Options) -> Result<Reader<(Collector, u64)>, String> {
    let interval = drain_interval(options);
    let mut collector = Collector::new(options.records_max);
    let mut rings: Vec<(Ring, Reading)> = rings
        .into_iter()
        .map(|ring| (ring, Reading::default()))
        .collect();
    Reader::start(move |stop| {
        let mut record = Vec::new();
        drain_until(stop, interval, || {
            for (ring, reading) in &mut rings {
                ring.drain(&mut record, |kind, misc, bytes| {
                    match reading.take(kind, misc, bytes) {
                        Some(Ended::Whole(burst)) => collector.add(burst),
                        Some(Ended::Untraced { task, preempted }) => {
                            collector.add_untraced(task, preempted);
                        }
                        None => {}
                    }
                });
            }
        });
        let lost = rings.iter().map(|(_, reading)| reading.lost).sum();
        (collector, lost)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the kernel writes it: header, body, and at the end pid, tid and time.
    fn record(body: &[u64], task: u32, time_ns: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        body.iter()
            .for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.extend([1, task].iter().flat_map(|half| half.to_ne_bytes()));
        bytes.extend(time_ns.to_ne_bytes());
        bytes
    }

    /// What a switch of task 7 ends: its length, nothing where that is unknown, and how it ended.
    fn switch(reading: &mut Reading, misc: u32, time_ns: u64) -> Option<(Option<u64>, bool)> {
        let ended = reading.take(PERF_RECORD_SWITCH, misc, &record(&[], 7, time_ns))?;
        Some(match ended {
            Ended::Whole(burst) => (Some(burst.duration_ns), burst.preempted),
            Ended::Untraced { preempted, .. } => (None, preempted),
        })
    }

    const IN: u32 = 0;
    const BLOCKS: u32 = PERF_RECORD_MISC_SWITCH_OUT;
    const PREEMPTED: u32 = PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;

    #[test]
    fn a_burst_is_from_the_switch_in_to_the_switch_out() {
        let mut reading = Reading::default();
        assert_eq!(switch(&mut reading, BLOCKS, 50), Some((None, false)));
        for (out, preempted) in [(PREEMPTED, true), (BLOCKS, false)] {
            assert_eq!(switch(&mut reading, IN, 100), None);
            assert_eq!(switch(&mut reading, out, 130), Some((Some(30), preempted)));
        }
    }

    #[test]
    fn no_burst_reaches_over_a_loss() {
        let mut reading = Reading::default();
        switch(&mut reading, IN, 100);
        reading.take(PERF_RECORD_SWITCH, IN, &record(&[], 8, 100));
        // Identity of the event, and how many records are lost.
        let lost = record(&[1, 5], 7, 110);
        assert!(reading.take(PERF_RECORD_LOST, 0, &lost).is_none());
        assert_eq!((reading.lost, switch(&mut reading, BLOCKS, 200)), (5, None));
        let other = reading.take(PERF_RECORD_SWITCH, BLOCKS, &record(&[], 8, 200));
        assert!(other.is_none(), "nor that of another task");
        switch(&mut reading, IN, 300);
        assert_eq!(switch(&mut reading, BLOCKS, 340), Some((Some(40), false)));
    }

    #[test]
    fn the_exit_ends_the_last_burst() {
        let mut reading = Reading::default();
        switch(&mut reading, IN, 100);
        // pid and ppid, tid and ptid, time.
        let exit = record(&[0, 7, 180], 7, 190);
        let ended = reading.take(PERF_RECORD_EXIT, 0, &exit);
        let Some(Ended::Whole(burst)) = ended else {
            unreachable!("the task ran")
        };
        assert_eq!((burst.task, burst.duration_ns, burst.end_ns), (7, 80, 180));
    }
}
