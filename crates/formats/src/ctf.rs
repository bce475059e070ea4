//! Requests as a CTF 1.8 trace (the Common Trace Format of LTTng): a folder with `metadata` and one
//! stream, whose events are called as those of the kernel.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{TraceReader, TraceRecord};

const PACKET_BYTES: usize = 1 << 20;
const MAGIC: u32 = 0xc1fc_1fc1;
const HEADER_BYTES: usize = 36;
const QUEUE: u32 = 0;
const ISSUE: u32 = 2;
const COMPLETE: u32 = 3;

/// The file `metadata` that stands beside a stream in the format `ctf`.
pub fn metadata() -> String {
    let mut text = String::from(
        "/* CTF 1.8 */\n\
         typealias integer { size = 32; align = 8; signed = false; } := u32;\n\
         typealias integer { size = 64; align = 8; signed = false; } := u64;\n\
         trace { major = 1; minor = 8; byte_order = le; \
         packet.header := struct { u32 magic; }; };\n\
         env { domain = \"kernel\"; tracer_name = \"schedlab\"; };\n\
         clock { name = trace; freq = 1000000000; };\n\
         typealias integer { size = 64; align = 8; signed = false; \
         map = clock.trace.value; } := ns;\n\
         stream {\n\
         \tpacket.context := struct { ns timestamp_begin; ns timestamp_end; \
         u64 content_size; u64 packet_size; };\n\
         \tevent.header := struct { u32 id; ns timestamp; };\n};\n",
    );
    let names = [
        "block_bio_queue",
        "block_rq_insert",
        "block_rq_issue",
        "block_rq_complete",
    ];
    for (id, name) in names.iter().enumerate() {
        text += &format!(
            "event {{ name = \"{name}\"; id = {id}; fields := struct {{ u32 dev; u64 sector; u64 \
             bytes; string rwbs; u32 tid; string comm; string device; }}; }};\n"
        );
    }
    text
}

/// Time, number, kind and fields of an event.
type Event = (u64, u64, u32, Vec<u8>);

/// Writes the stream; keeps the events that are later than the last arrival, and one packet.
#[derive(Default)]
pub(super) struct Ctf {
    waiting: BinaryHeap<Reverse<Event>>,
    count: u64,
    packet: Vec<u8>,
    range_ns: (u64, u64),
}

impl Ctf {
    /// Appends what comes before the arrival of this request.
    pub(super) fn record(&mut self, record: &TraceRecord, names: &TraceReader, out: &mut Vec<u8>) {
        let start = record.request.arrival.0;
        self.flush(start, out);
        let mut fields = record.device.to_le_bytes().to_vec();
        fields.extend((record.request.offset.0 / 512).to_le_bytes());
        fields.extend(record.request.length.0.to_le_bytes());
        fields.extend(match record.operation() {
            "read" => *b"R\0",
            "write" => *b"W\0",
            _ => *b"D\0",
        });
        let process = record.process.unwrap_or(0);
        fields.extend(process.to_le_bytes());
        let comm = names.process_name(process).unwrap_or_default();
        for text in [comm, names.device_name(record.device)] {
            fields.extend(text.replace('\0', "").as_bytes());
            fields.push(0);
        }
        let mut add = |ns: u64, id: u32| {
            self.count += 1;
            self.waiting
                .push(Reverse((ns, self.count, id, fields.clone())));
        };
        add(start, QUEUE);
        if let Some([tag, scheduler]) = record.waited {
            if scheduler.0 > 0 {
                add(start + tag.0, QUEUE + 1);
            }
            add(start + tag.0 + scheduler.0, ISSUE);
        }
        if let Some(latency) = record.latency {
            add(start + latency.0, COMPLETE);
        }
    }

    /// Appends all that is left.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.flush(u64::MAX, out);
        self.close(out);
    }

    fn flush(&mut self, before_ns: u64, out: &mut Vec<u8>) {
        while self
            .waiting
            .peek()
            .is_some_and(|Reverse(first)| first.0 < before_ns)
        {
            let Some(Reverse((ns, _, id, fields))) = self.waiting.pop() else {
                return;
            };
            if self.packet.is_empty() {
                self.range_ns.0 = ns;
            }
            self.range_ns.1 = ns;
            self.packet.extend(id.to_le_bytes());
            self.packet.extend(ns.to_le_bytes());
            self.packet.extend(fields);
            if self.packet.len() >= PACKET_BYTES {
                self.close(out);
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.packet.is_empty() {
            return;
        }
        let bits = 8 * (HEADER_BYTES + self.packet.len()) as u64;
        out.extend(MAGIC.to_le_bytes());
        for value in [self.range_ns.0, self.range_ns.1, bits, bits] {
            out.extend(value.to_le_bytes());
        }
        out.append(&mut self.packet);
    }
}
