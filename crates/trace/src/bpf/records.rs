//! The source of request records: loads `records.bpf.c` for one device and empties its ring.

use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::{failed, load, map, open, read_ring, words, Aligned};
use crate::accounting::{Accounting, DeviceCount};
use crate::reader::Reader;
use crate::records::{close, Counters, Sink};

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/records.bpf.o")));

const DRAIN: Duration = Duration::from_millis(50);
/// Counters of the program: lost, missed, arrived, untraced, sectors.
const COUNTERS: usize = 5;

/// The loaded and attached programs, and the thread that takes records out of their ring.
pub(crate) struct Records<S: Sink> {
    object: Object,
    links: Vec<Link>,
    reader: Reader<S>,
    count: DeviceCount,
}

impl<S: Sink> Records<S> {
    /// Loads and attaches the programs for the device of these numbers; records go to `sink`.
    pub(crate) fn start(
        device: (u32, u32),
        ring_bytes: u32,
        sink: S,
        count: DeviceCount,
    ) -> Result<Self, String> {
        let mut open = open(PROGRAM)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == "ring" {
                map.set_max_entries(ring_bytes.max(4096).next_power_of_two())
                    .map_err(failed("size the ring"))?;
            }
            if name.ends_with(".rodata") {
                let place = map.initial_value_mut();
                let place = place.ok_or("the program has no settings")?;
                place[..4].copy_from_slice(&device.0.to_ne_bytes());
                place[4..8].copy_from_slice(&device.1.to_ne_bytes());
            }
        }
        let object = load(open)?;
        let reader = read_ring(&object, sink, S::take, DRAIN)?;
        let mut running = Records {
            object,
            links: Vec::new(),
            reader,
            count,
        };
        // The end of a request before its beginning: what is seen to begin is seen to its end.
        let programs: Vec<_> = running.object.progs_mut().collect();
        for program in programs.into_iter().rev() {
            let name = program.name().to_string_lossy().into_owned();
            running.links.push(program.attach().map_err(failed(&name))?);
            if running.links.len() == 1 {
                running.count.begun(); // every end of a request is seen from here on
            }
        }
        Ok(running)
    }

    /// Detaches, closes what ended untraced, and empties the ring: the sink, what is not in it, and
    /// whether it adds up.
    pub(crate) fn finish(mut self) -> Result<(S, Counters, Accounting), String> {
        // The beginnings first.
        while self.links.len() > 1 {
            self.links.pop();
        }
        let in_flight = |count: &DeviceCount| count.in_flight().unwrap_or(0);
        let (before, then) = (self.count.now(), in_flight(&self.count));
        self.links.clear();
        let ended = (before, self.count.now());
        // Some may have been issued, or have completed, in between: rather called unfinished.
        let in_flight = then + in_flight(&self.count);
        let pending = map(&self.object, "pending")?;
        let left = pending.keys().filter_map(|key| {
            let found = pending.lookup(&key, MapFlags::ANY);
            found.ok().flatten()
        });
        let (closed, unfinished) = close(left.collect(), in_flight, crate::now_ns());
        let mut sink = self.reader.finish()?;
        let counters = map(&self.object, "counters")?;
        let values = counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(failed("read the counters"))?;
        let mut sums = [0u64; COUNTERS];
        for value in values.into_iter().flatten() {
            for (sum, word) in sums.iter_mut().zip(words::<COUNTERS>(&value)) {
                *sum = sum.wrapping_add(word);
            }
        }
        let [lost, missed, arrived, untraced, mut sectors] = sums;
        for record in &closed {
            sectors += u64::from(u32::from_ne_bytes([56, 57, 58, 59].map(|at| record[at]))) / 512;
            sink.take(record);
        }
        let counters = Counters {
            arrived,
            lost,
            missed,
            unfinished,
            untraced: untraced + closed.len() as u64,
        };
        Ok((sink, counters, self.count.compared(sectors, ended)))
    }
}
