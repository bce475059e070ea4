//! A recorded load: every request of a block device in a file, while others use the device.
//!
//! The file is one zstd stream: the line `SCHEDLAB TRACE 2 {JSON}`, then records of 112 bytes,
//! little endian, in the order of their completion:
//!
//! | bytes | |
//! |---|---|
//! | 0–23 | u64 arrival, issue, completion: nanoseconds of the monotonic clock |
//! | 24–31 | u64 first sector (of 512 bytes) on the disk |
//! | 32–39 | u64 cgroup, as its inode |
//! | 40–55 | u64 CPU time, and time waiting for a CPU, of the submitting thread until then, ns |
//! | 56–71 | u32 bytes, process, thread, error (0: none) |
//! | 72–79 | u16 operation (REQ_OP of include/linux/blk_types.h), flags, ioprio, 0 |
//! | 80–95 | name of the thread |
//! | 96–111 | u64 when it had a tag (0: it joined another request), and entered the scheduler |
//!
//! Flags: 1 sync, 2 meta, 4 prio, 8 FUA, 16 preflush, 32 read-ahead, 64 idle, 128 background,
//! 256 no completion: the kernel did not trace it, and the time is the latest possible.
//! A file of version 1 has records of 96 bytes, without the last two times; a time that is 0 was
//! not seen: the request was merged into another one, or went past the scheduler.
//! The last record has the operation 65535: its first three numbers are the records, those that
//! were lost in the ring, and the completions whose arrival was not seen; its sector is the
//! requests that had not completed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::accounting::{Accounting, DeviceCount};
use crate::blocks::{whole_disk, BlockError};
use crate::bpf::Records;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 112;
const RING_BYTES: u32 = 16 << 20;
const END: u16 = u16::MAX;
const NO_COMPLETION: u16 = 256;
const COMMAND: std::ops::Range<usize> = 80..96;
const COMPRESSION: i32 = 3;

/// Takes records as they come.
pub(crate) trait Sink: Send + 'static {
    fn take(&mut self, record: &[u8]);
}

/// Requests that arrived, those that are not in the file, and those in it whose completion was not
/// traced: arrived = records + lost + unfinished.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Counters {
    pub arrived: u64,
    pub lost: u64,
    pub missed: u64,
    pub unfinished: u64,
    pub untraced: u64,
}

/// What is recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RecordOptions {
    pub device: String,
    /// Where the file goes; it must not be there.
    pub path: PathBuf,
    /// The JSON of its first line: facts of the host and the device.
    pub facts: serde_json::Value,
    /// Numbers in place of the names of threads.
    #[serde(default)]
    pub anonymise: bool,
    /// Only the first that complete are written; all are counted.
    #[serde(default)]
    pub records_max: Option<u64>,
    #[serde(default)]
    pub ring_bytes: Option<u32>,
}

/// What was recorded.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct RecordResult {
    pub records: u64,
    #[serde(flatten)]
    pub counters: Counters,
    pub accounting: Accounting,
}

/// A recording in progress.
pub struct RecordCapture(Records<TraceWriter>);

impl RecordCapture {
    /// Creates the file and begins to record.
    pub fn start(options: &RecordOptions) -> Result<Self, BlockError> {
        let (name, numbers) = whole_disk(&options.device)?;
        let mut writer = TraceWriter::create(&options.path, &options.facts, options.anonymise)?;
        writer.most = options.records_max.unwrap_or(u64::MAX);
        let ring_bytes = options.ring_bytes.unwrap_or(RING_BYTES);
        let count = DeviceCount::begin(&name);
        let records = Records::start(numbers, ring_bytes, writer, count).map_err(BlockError::new);
        records.map(RecordCapture).inspect_err(|_| {
            let _ = std::fs::remove_file(&options.path);
        })
    }

    /// Ends the recording and completes the file.
    pub fn finish(self) -> Result<RecordResult, BlockError> {
        let (writer, counters, accounting) = self.0.finish().map_err(BlockError::new)?;
        let records = writer.finish(counters)?;
        Ok(RecordResult {
            records,
            counters,
            accounting,
        })
    }
}

/// Of the records that are left when a capture ends: those that ended untraced, with the last
/// moment as their end, and how many are unfinished. The last issued are `in_flight`.
#[cfg_attr(not(all(feature = "bpf", bpf_program)), allow(dead_code))]
pub(crate) fn close(left: Vec<Vec<u8>>, in_flight: u64, now_ns: u64) -> (Vec<Vec<u8>>, u64) {
    let issued_ns = |one: &Vec<u8>| u64::from_ne_bytes(std::array::from_fn(|at| one[8 + at]));
    let all = left.len();
    let issued = left.into_iter().filter(|one| issued_ns(one) > 0);
    let mut issued: Vec<Vec<u8>> = issued.collect();
    issued.sort_by_key(|one| std::cmp::Reverse(issued_ns(one)));
    // The bios of one request were issued at once.
    let mut requests: Vec<u64> = issued.iter().map(issued_ns).collect();
    requests.dedup();
    let newest = requests.len().min(in_flight as usize);
    let mut ended: Vec<Vec<u8>> = issued
        .into_iter()
        .filter(|one| !requests[..newest].contains(&issued_ns(one)))
        .collect();
    for one in &mut ended {
        let flags = u16::from_ne_bytes([one[74], one[75]]) | NO_COMPLETION;
        one[16..24].copy_from_slice(&now_ns.to_ne_bytes());
        one[74..76].copy_from_slice(&flags.to_ne_bytes());
    }
    let unfinished = (all - ended.len()) as u64;
    (ended, unfinished)
}

/// Writes the file; the first error is kept and reported at the end.
struct TraceWriter {
    path: PathBuf,
    stream: zstd::Encoder<'static, BufWriter<File>>,
    records: u64,
    most: u64,
    error: Option<std::io::Error>,
    /// Numbers of the names that were seen, where these are not written.
    names: Option<HashMap<[u8; 16], usize>>,
}

impl TraceWriter {
    fn create(path: &Path, facts: &serde_json::Value, anonymise: bool) -> Result<Self, BlockError> {
        let wrong = |error| BlockError::new(format!("{}: {error}", path.display()));
        let file = File::create_new(path).map_err(wrong)?;
        let mut stream = zstd::Encoder::new(BufWriter::new(file), COMPRESSION).map_err(wrong)?;
        writeln!(stream, "SCHEDLAB TRACE 2 {facts}").map_err(wrong)?;
        Ok(TraceWriter {
            path: path.to_owned(),
            stream,
            records: 0,
            most: u64::MAX,
            error: None,
            names: anonymise.then(HashMap::new),
        })
    }

    fn write(&mut self, record: &[u8]) {
        if self.error.is_none() {
            self.error = self.stream.write_all(record).err();
        }
    }

    fn finish(mut self, counters: Counters) -> Result<u64, BlockError> {
        let mut end = [0; RECORD_BYTES];
        let numbers = [
            self.records,
            counters.lost,
            counters.missed,
            counters.unfinished,
        ];
        for (place, number) in end.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        end[72..74].copy_from_slice(&END.to_le_bytes());
        self.write(&end);
        let wrong = |error| BlockError::new(format!("{}: {error}", self.path.display()));
        if let Some(error) = self.error {
            return Err(wrong(error));
        }
        let ended = self.stream.finish().and_then(|mut file| file.flush());
        ended.map_err(wrong)?;
        Ok(self.records)
    }
}

impl Sink for TraceWriter {
    fn take(&mut self, record: &[u8]) {
        let Ok(mut record) = <[u8; RECORD_BYTES]>::try_from(record) else {
            return;
        };
        if self.records >= self.most {
            return;
        }
        if let Some(names) = &mut self.names {
            let mut name = [0; 16];
            name.copy_from_slice(&record[COMMAND]);
            let next = names.len() + 1;
            let number = names.entry(name).or_insert(next);
            let mut shown = format!("task {number}").into_bytes();
            shown.resize(16, 0);
            record[COMMAND].copy_from_slice(&shown);
        }
        self.records += 1;
        self.write(&record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_with_its_facts_and_ends_with_what_is_not_in_it() {
        let path = std::env::temp_dir().join(format!("schedlab-trace-{}", std::process::id()));
        let facts = serde_json::json!({"device": "loop0"});
        let mut writer = TraceWriter::create(&path, &facts, true).unwrap();
        let mut record = [7; RECORD_BYTES];
        writer.take(&record);
        record[80] = 8;
        writer.take(&record);
        record[80] = 7;
        writer.take(&record);
        let counters = Counters {
            lost: 4,
            missed: 5,
            unfinished: 6,
            ..Counters::default()
        };
        assert_eq!(writer.finish(counters).unwrap(), 3);
        assert!(
            TraceWriter::create(&path, &facts, true).is_err(),
            "it is there"
        );
        let text = zstd::decode_all(File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let head = b"SCHEDLAB TRACE 2 {\"device\":\"loop0\"}\n";
        assert!(text.starts_with(head));
        let records: Vec<_> = text[head.len()..].chunks(RECORD_BYTES).collect();
        assert_eq!(records.len(), 4);
        let names: Vec<_> = records.iter().map(|one| &one[80..86]).collect();
        assert_eq!(&names[..3], [b"task 1", b"task 2", b"task 1"]);
        assert_eq!(records[0][..80], [7; 80]);
        let words: Vec<u8> = records[3][..32].iter().step_by(8).copied().collect();
        assert_eq!(words, [3, 4, 5, 6]);
        assert_eq!(records[3][72..74], [255, 255]);
    }

    #[test]
    fn only_the_last_issued_are_in_flight_when_a_capture_ends() {
        let record = |issue_ns: u64| {
            let mut one = vec![0; RECORD_BYTES];
            one[8..16].copy_from_slice(&issue_ns.to_ne_bytes());
            one
        };
        // 5 and 5 are one request; 0 was never issued.
        let left: Vec<_> = [5, 3, 0, 5, 4].map(record).into();
        for (in_flight, ended, unfinished) in [
            (0, &[5, 5, 4, 3][..], 1),
            (1, &[4, 3][..], 3),
            (9, &[][..], 5),
        ] {
            let (closed, open) = close(left.clone(), in_flight, 77);
            let issues: Vec<u64> = closed.iter().map(|one| u64::from(one[8])).collect();
            assert_eq!((&issues[..], open), (ended, unfinished));
            assert!(closed.iter().all(|one| (one[16], one[75]) == (77, 1)));
        }
    }

    #[test]
    fn a_file_that_did_not_fit_is_an_error() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let writer = TraceWriter {
            path: "/dev/full".into(),
            stream: zstd::Encoder::new(BufWriter::new(full), COMPRESSION).unwrap(),
            records: 0,
            most: u64::MAX,
            error: None,
            names: None,
        };
        let error = writer.finish(Counters::default()).unwrap_err().to_string();
        assert!(error.contains("/dev/full: No space"), "{error}");
    }
}
