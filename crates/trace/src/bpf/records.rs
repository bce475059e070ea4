//! The source of request records: loads `records.bpf.c` for one device and empties its ring.

use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::{failed, load, map, open, read_ring, words, Aligned};
use crate::reader::Reader;
use crate::records::{Counters, Sink};

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/records.bpf.o")));

const DRAIN: Duration = Duration::from_millis(50);
/// Counters of the program: lost, missed.
const COUNTERS: usize = 2;

/// The loaded and attached programs, and the thread that takes records out of their ring.
pub(crate) struct Records<S: Sink> {
    object: Object,
    links: Vec<Link>,
    reader: Reader<S>,
}

impl<S: Sink> Records<S> {
    /// Loads and attaches the programs for the device of these numbers; records go to `sink`.
    pub(crate) fn start(device: (u32, u32), ring_bytes: u32, sink: S) -> Result<Self, String> {
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
        };
        // The end of a request before its beginning: what is seen to begin is seen to its end.
        let programs: Vec<_> = running.object.progs_mut().collect();
        for program in programs.into_iter().rev() {
            let name = program.name().to_string_lossy().into_owned();
            running.links.push(program.attach().map_err(failed(&name))?);
        }
        Ok(running)
    }

    /// Detaches and empties the ring: the sink, and what is not in it.
    pub(crate) fn finish(mut self) -> Result<(S, Counters), String> {
        self.links.clear();
        let sink = self.reader.finish()?;
        let counters = map(&self.object, "counters")?;
        let values = counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut all = Counters::default();
        for value in values
            .map_err(failed("read the counters"))?
            .into_iter()
            .flatten()
        {
            let [lost, missed] = words::<COUNTERS>(&value);
            all.lost += lost;
            all.missed += missed;
        }
        let pending = map(&self.object, "pending")?;
        all.unfinished = pending.keys().count() as u64;
        Ok((sink, all))
    }
}
