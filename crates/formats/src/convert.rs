//! A trace in another format.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use schedlab_model::Stop;
use serde::Serialize;

use super::ctf::Ctf;
use super::formats::{format_named, FORMATS};
use super::perfetto::Perfetto;
use super::{Skipped, TraceError, TraceReader};

const FLUSH_BYTES: usize = 128 << 10;
const ASK_EVERY: u64 = 1 << 14;

/// What a conversion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// Requests written.
    pub requests: u64,
    /// Trims omitted because the format has none.
    pub trims_left_out: u64,
    /// What the reader passed over.
    pub skipped: Skipped,
}

/// Writes every request of `reader` to `out` in the format named `to`; `path` names the output in
/// errors, `stop` is checked now and then. Values that `to` cannot hold are rounded (see its file).
pub fn convert(
    reader: &mut TraceReader,
    out: &mut dyn Write,
    path: &Path,
    to: &str,
    stop: &Stop,
) -> Result<Converted, TraceError> {
    let writable = || FORMATS.iter().filter(|format| format.is_writable());
    let Some(format) = writable().find(|format| format.name == to) else {
        let is_read = format_named(to).is_ok();
        let names: Vec<&str> = writable().map(|format| format.name).collect();
        return Err(TraceError::Unknown {
            name: format!("{to}{}", if is_read { " (it is read only)" } else { "" }),
            known: names.join(", "),
        });
    };
    let (header, write) = format.write.unzip();
    let header = header.unwrap_or_default();
    let (mut perfetto, mut ctf) = (Perfetto::default(), Ctf::default());
    let holds_trims = matches!(to, "requests" | "iolog") || format.is_timeline;
    let mut counts = Converted::default();
    let mut text = Vec::with_capacity(FLUSH_BYTES + 256);
    if !header.is_empty() {
        text.extend_from_slice(header.as_bytes());
        text.push(b'\n');
    }
    let (mut devices, mut last_ns) = (BTreeSet::new(), 0);
    while let Some(record) = reader.next() {
        let record = record?;
        if record.trim && !holds_trims {
            counts.trims_left_out += 1;
            continue;
        }
        last_ns = record.request.arrival.0;
        if let Some((first, _)) = format.devices {
            if devices.insert(record.device) {
                first(record.device, last_ns, &mut text);
            }
        }
        match (write, to) {
            (Some(write), _) => write(&record, &mut text),
            (None, "ctf") => ctf.record(&record, reader, &mut text),
            (None, _) => perfetto.record(&record, reader, &mut text),
        }
        counts.requests += 1;
        if text.len() >= FLUSH_BYTES {
            out.write_all(&text)
                .map_err(TraceError::io(path, "write"))?;
            text.clear();
        }
        if counts.requests % ASK_EVERY == 0 && stop.is_set() {
            return Err(TraceError::Stopped);
        }
    }
    if let Some((_, last)) = format.devices {
        devices
            .iter()
            .for_each(|device| last(*device, last_ns, &mut text));
    }
    ctf.end(&mut text);
    out.write_all(&text)
        .map_err(TraceError::io(path, "write"))?;
    out.flush().map_err(TraceError::io(path, "write"))?;
    counts.skipped = reader.skipped();
    Ok(counts)
}
