//! VMware vSCSI traces, version 1: 32-byte little-endian records `u32 serial, u32 length, u32
//! scatter-gather entries, u16 command, u16 version, u64 block, u64 µs`.

use std::path::Path;

use super::super::fields::times;
use super::super::input::Input;
use super::super::{record, Mismatch, TraceError, TraceOptions};
use super::words::{u16_at, u32_at, u64_at};
use super::{Binary, Parsed, SECTOR_BYTES};

const RECORD_BYTES: usize = 32;
const EXPECTED: &str = "a record of 32 bytes";

struct Vscsi {
    input: Input,
}

pub(super) fn open(
    mut inputs: Vec<Input>,
    _: &TraceOptions,
) -> Result<Box<dyn Binary>, TraceError> {
    let input = inputs.swap_remove(0);
    Ok(Box::new(Vscsi { input }))
}

/// Whether the first records all carry SCSI reads or writes of plausible length.
pub(super) fn looks_like(start: &[u8]) -> bool {
    const RECORDS: usize = 8;
    let mut records = start.chunks_exact(RECORD_BYTES).take(RECORDS).peekable();
    records.peek().is_some()
        && records
            .all(|bytes| direction(u16_at(bytes, 12)).is_some() && u32_at(bytes, 4) <= 64 << 20)
}

/// Whether a SCSI command writes; nothing for other commands.
fn direction(command: u16) -> Option<bool> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(false),
        0x0a | 0x2a | 0xaa | 0x8a => Some(true),
        _ => None,
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let Some(is_write) = direction(u16_at(bytes, 12)) else {
        return Ok(None);
    };
    let offset = times(u64_at(bytes, 16), SECTOR_BYTES, "a block below 2^55")?;
    let arrival_ns = times(u64_at(bytes, 24), 1_000, "a time below 2^54 µs")?;
    Ok(Some(record(
        arrival_ns,
        offset,
        u64::from(u32_at(bytes, 4)),
        is_write,
    )))
}

impl Binary for Vscsi {
    fn next(&mut self) -> Result<Option<(Parsed, String)>, TraceError> {
        let bytes = self.input.take(RECORD_BYTES)?;
        Ok(match bytes.len() {
            0 => None,
            RECORD_BYTES => {
                let parsed = parse(bytes);
                let actual = parsed.as_ref().err().map(|_| format!("{bytes:02x?}"));
                Some((parsed, actual.unwrap_or_default()))
            }
            short => Some((Err(Mismatch(EXPECTED)), format!("the last {short} bytes"))),
        })
    }

    fn path(&self) -> &Path {
        self.input.path()
    }
}
