//! The source of request records: loads `records.bpf.c` for one device and empties its ring.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};

use super::{map, words, Aligned};
use crate::records::{Counters, Sink};

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/records.bpf.o")));

const DRAIN: Duration = Duration::from_millis(50);
/// Counters of the program: lost, missed.
const COUNTERS: usize = 2;

fn failed(step: &str) -> impl Fn(libbpf_rs::Error) -> String + '_ {
    move |error| format!("{step}: {error}")
}

/// The loaded and attached programs, and the thread that takes records out of their ring.
pub(crate) struct Records<S: Sink> {
    object: Object,
    links: Vec<Link>,
    stop: Arc<AtomicBool>,
    reader: JoinHandle<S>,
}

impl<S: Sink> Records<S> {
    /// Loads and attaches the programs for the device of these numbers; records go to `sink`.
    pub(crate) fn start(device: (u32, u32), ring_bytes: u32, sink: S) -> Result<Self, String> {
        if std::env::var_os("DEBUG_BPF").is_none() {
            libbpf_rs::set_print(None);
        }
        let mut builder = ObjectBuilder::default();
        let mut open = builder
            .open_memory(&PROGRAM.0)
            .map_err(failed("open the programs"))?;
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
        let object = open.load().map_err(failed(
            "load the programs (root or CAP_BPF, and BTF, are needed)",
        ))?;
        let stop = Arc::new(AtomicBool::new(false));
        let reader = read_ring(&object, sink, &stop)?;
        let mut running = Records {
            object,
            links: Vec::new(),
            stop,
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
        self.stop.store(true, Ordering::Release);
        self.reader.thread().unpark();
        let sink = self.reader.join();
        let sink = sink.map_err(|_| "the reader of the ring failed".to_owned())?;
        let counters = map(&self.object, "counters").map_err(|e| e.to_string())?;
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
        let pending = map(&self.object, "pending").map_err(|e| e.to_string())?;
        all.unfinished = pending.keys().count() as u64;
        Ok((sink, all))
    }
}

/// Starts the thread that hands the records to the sink until `stop`.
fn read_ring<S: Sink>(
    object: &Object,
    mut sink: S,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<S>, String> {
    let ring = map(object, "ring").map_err(|e| e.to_string())?;
    let stop = Arc::clone(stop);
    let (ready, is_ready) = sync_channel(1);
    let named = std::thread::Builder::new().name("schedlab-records".to_owned());
    let reader = named.spawn(move || {
        {
            let mut builder = RingBufferBuilder::new();
            let added = builder.add(&ring, |bytes| {
                sink.take(bytes);
                0
            });
            let built = added.map(|_| ()).and_then(|()| builder.build());
            let _ = ready.send(built.as_ref().map(|_| ()).map_err(ToString::to_string));
            while let Ok(buffer) = &built {
                let last = stop.load(Ordering::Acquire);
                let _ = buffer.consume();
                if last {
                    break;
                }
                std::thread::park_timeout(DRAIN);
            }
        }
        sink
    });
    let reader = reader.map_err(|error| format!("thread: {error}"))?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(reader),
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err("the reader of the ring failed".to_owned()),
    }
}
