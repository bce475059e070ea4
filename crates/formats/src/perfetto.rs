//! Requests as a Perfetto trace (protos/perfetto/trace/trace_packet.proto and track_event/): a
//! process is a thread with its requests from arrival to completion; under each device, `tag`,
//! `scheduler` and `device` have the parts of them, and `request` those of unknown processes.
//! Requests that overlap are on several lanes.

use std::collections::HashMap;

use super::{TraceReader, TraceRecord};

const SEQUENCE: u64 = 1;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const MERGE_NONE: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Parent {
    Process(u32),
    Device(u32),
    Stage(u32, &'static str),
}

/// Writes a trace; nothing is kept but the tracks and names.
#[derive(Default)]
pub(super) struct Perfetto {
    tracks: HashMap<Parent, u64>,
    devices: HashMap<u32, String>,
    /// Of each parent: the lanes with the end of their last slice.
    lanes: HashMap<u64, Vec<(u64, u64)>>,
    last_uuid: u64,
}

impl Perfetto {
    /// Appends the packets of one request.
    pub(super) fn record(&mut self, record: &TraceRecord, names: &TraceReader, out: &mut Vec<u8>) {
        let start = record.request.arrival.0;
        // Thread 0 is the kernel's idle task: no place for a request whose process is unknown.
        let whose = match record.process {
            Some(process) => Parent::Process(process),
            None => Parent::Stage(record.device, "request"),
        };
        let Some(latency) = record.latency else {
            let track = self.track(whose, names, out);
            let device = self.device(record.device, names);
            event(
                out,
                start,
                INSTANT,
                track,
                Some((record, "request", device)),
            );
            return;
        };
        let end = start + latency.0;
        self.slice((start, end), whose, "request", record, names, out);
        let Some([tag, scheduler]) = record.waited else {
            return;
        };
        let (inserted, issued) = (start + tag.0, start + tag.0 + scheduler.0);
        let stages = [
            ("tag", start, inserted),
            ("scheduler", inserted, issued),
            ("device", issued, end),
        ];
        for (name, from, to) in stages {
            // Who did not wait has no slice there.
            if to > from || name == "device" {
                let parent = Parent::Stage(record.device, name);
                self.slice((from, to.max(from)), parent, name, record, names, out);
            }
        }
    }

    fn slice(
        &mut self,
        (start, end): (u64, u64),
        parent: Parent,
        category: &'static str,
        record: &TraceRecord,
        names: &TraceReader,
        out: &mut Vec<u8>,
    ) {
        let parent = self.track(parent, names, out);
        let next = self.last_uuid + 1;
        let lanes = self.lanes.entry(parent).or_default();
        let free = lanes.iter().position(|(_, last)| *last <= start);
        let lane = free.unwrap_or_else(|| {
            self.last_uuid = next;
            lanes.push((next, 0));
            let name = format!("{category} {}", lanes.len());
            descriptor(out, next, parent, &name, (4, &[]));
            lanes.len() - 1
        });
        lanes[lane].1 = end;
        let track = lanes[lane].0;
        let device = self.device(record.device, names);
        event(
            out,
            start,
            SLICE_BEGIN,
            track,
            Some((record, category, device)),
        );
        event(out, end, SLICE_END, track, None);
    }

    fn device(&mut self, id: u32, names: &TraceReader) -> &str {
        let named = || names.device_name(id);
        self.devices.entry(id).or_insert_with(named)
    }

    /// The track of a process, a device or a stage, described when it is first used.
    fn track(&mut self, of: Parent, names: &TraceReader, out: &mut Vec<u8>) -> u64 {
        if let Some(uuid) = self.tracks.get(&of) {
            return *uuid;
        }
        let (parent, name, thread) = match of {
            Parent::Process(id) => {
                let name = names
                    .process_name(id)
                    .unwrap_or_else(|| format!("process {id}"));
                let (mut process, mut thread) = (Vec::new(), Vec::new());
                number(&mut process, 1, u64::from(id));
                bytes(&mut process, 6, name.as_bytes());
                self.last_uuid += 1;
                descriptor(out, self.last_uuid, 0, &name, (3, &process));
                number(&mut thread, 1, u64::from(id));
                number(&mut thread, 2, u64::from(id));
                bytes(&mut thread, 5, name.as_bytes());
                (0, name, thread)
            }
            Parent::Device(id) => (0, format!("device {}", self.device(id, names)), Vec::new()),
            Parent::Stage(id, stage) => (
                self.track(Parent::Device(id), names, out),
                stage.to_owned(),
                Vec::new(),
            ),
        };
        self.last_uuid += 1;
        self.tracks.insert(of, self.last_uuid);
        descriptor(out, self.last_uuid, parent, &name, (4, &thread));
        self.last_uuid
    }
}

/// A track, with the field of its process or thread unless that is empty.
fn descriptor(out: &mut Vec<u8>, uuid: u64, parent: u64, name: &str, of: (u64, &[u8])) {
    let mut track = Vec::new();
    number(&mut track, 1, uuid);
    bytes(&mut track, 2, name.as_bytes());
    if parent > 0 {
        number(&mut track, 5, parent);
    }
    number(&mut track, 15, MERGE_NONE);
    if !of.1.is_empty() {
        bytes(&mut track, of.0, of.1);
    }
    let mut packet = Vec::new();
    number(&mut packet, 10, SEQUENCE);
    bytes(&mut packet, 60, &track);
    bytes(out, 1, &packet);
}

fn event(
    out: &mut Vec<u8>,
    ns: u64,
    kind: u64,
    track: u64,
    shown: Option<(&TraceRecord, &'static str, &str)>,
) {
    let mut body = Vec::new();
    number(&mut body, 9, kind);
    number(&mut body, 11, track);
    if let Some((record, category, device)) = shown {
        let request = &record.request;
        bytes(&mut body, 22, category.as_bytes());
        bytes(&mut body, 23, record.operation().as_bytes());
        for (name, value) in [("offset", request.offset.0), ("bytes", request.length.0)] {
            let mut annotation = Vec::new();
            bytes(&mut annotation, 10, name.as_bytes());
            number(&mut annotation, 3, value);
            bytes(&mut body, 4, &annotation);
        }
        let mut annotation = Vec::new();
        bytes(&mut annotation, 10, b"device");
        bytes(&mut annotation, 6, device.as_bytes());
        bytes(&mut body, 4, &annotation);
    }
    let mut packet = Vec::new();
    number(&mut packet, 8, ns);
    number(&mut packet, 10, SEQUENCE);
    bytes(&mut packet, 11, &body);
    bytes(out, 1, &packet);
}

/// A field with a number, as protobuf writes it.
fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A field with bytes, text or another message.
fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
