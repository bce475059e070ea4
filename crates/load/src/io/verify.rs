//! What is written, and the check that it comes back.
//!
//! Without verification a record is random data that was laid down before the clock started, with
//! a running number stored into each 4 KiB of it, so that no two records on the device are equal
//! (a device that compresses or deduplicates gains nothing). With verification a record is a
//! header (magic, seed, offset, generation) followed by a stream that depends on all three: a
//! single flipped byte, a record at the wrong place, of another job, or of an older pass is found.

use schedlab_model::Step;
use serde::{Deserialize, Serialize};

/// Smallest record that can be verified: header and some data.
pub const RECORD_MIN: u64 = 64;
const MAGIC: u64 = 0x6261_6c64_6568_6373;
const HEADER: usize = 32;
const PAGE: usize = 4096;

/// The data of one worker's records.
pub(crate) enum Payload {
    /// Random data, made different by a running number.
    Plain { number: u64 },
    /// Marked records.
    Marked(Marks),
}

/// The generations that the records of one worker hold; 0 where unknown.
pub(crate) struct Marks {
    seed: u64,
    generations: Vec<u32>,
    busy: Vec<bool>,
    findings: Findings,
}

/// What checking found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub checked: u64,
    pub mismatches: u64,
    /// Offset and reason.
    pub first: Option<(u64, String)>,
}

impl Payload {
    /// The payload of a worker; `known` is the generation that all records hold before the job.
    pub(crate) fn new(verify: bool, seed: u64, records: u64, known: u32) -> Payload {
        if !verify {
            return Payload::Plain { number: seed << 20 };
        }
        Payload::Marked(Marks {
            seed,
            generations: vec![known; records as usize],
            busy: vec![false; records as usize],
            findings: Findings::default(),
        })
    }

    /// Whether preparing and checking takes so long that the clock must be read again after it.
    #[inline]
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Payload::Marked(_))
    }

    /// Claims the step's record; false when it is in flight, so that a read would race a write.
    #[inline]
    pub(crate) fn claim(&mut self, step: Step) -> bool {
        match self {
            Payload::Plain { .. } => true,
            Payload::Marked(marks) => {
                !std::mem::replace(&mut marks.busy[step.record as usize], true)
            }
        }
    }

    /// Makes the buffer what the step writes at `offset`.
    #[inline]
    pub(crate) fn prepare(&mut self, step: Step, offset: u64, buffer: &mut [u8]) {
        if !step.is_write {
            return;
        }
        match self {
            Payload::Plain { number } => {
                for page in buffer.chunks_mut(PAGE) {
                    *number += 1;
                    let size = page.len().min(8);
                    page[..size].copy_from_slice(&number.to_le_bytes()[..size]);
                }
            }
            Payload::Marked(marks) => {
                let generation = &mut marks.generations[step.record as usize];
                *generation = generation.wrapping_add(1).max(1);
                mark(buffer, marks.seed, offset, *generation);
            }
        }
    }

    /// Handles a completed request: releases its record and checks the data read.
    #[inline]
    pub(crate) fn finish(&mut self, step: Step, offset: u64, buffer: &[u8], whole: bool) {
        let Payload::Marked(marks) = self else {
            return;
        };
        marks.busy[step.record as usize] = false;
        let known = &mut marks.generations[step.record as usize];
        if step.is_write {
            if !whole {
                *known = 0; // a failed write leaves unknown data
            }
            return;
        }
        if !whole {
            return;
        }
        let findings = &mut marks.findings;
        findings.checked += 1;
        if let Err(reason) = check(buffer, marks.seed, offset, *known) {
            findings.mismatches += 1;
            findings.first.get_or_insert((offset, reason));
        }
    }

    /// What was found so far; nothing is checked without verification.
    pub(crate) fn findings(self) -> Findings {
        match self {
            Payload::Plain { .. } => Findings::default(),
            Payload::Marked(marks) => marks.findings,
        }
    }
}

/// Writes header and stream.
fn mark(buffer: &mut [u8], seed: u64, offset: u64, generation: u32) {
    let header = [MAGIC, seed, offset, u64::from(generation)];
    for (place, word) in buffer.chunks_exact_mut(8).zip(header) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let mut stream = Stream::new(seed, offset, generation);
    for place in buffer[HEADER..].chunks_mut(8) {
        let word = stream.next().to_le_bytes();
        place.copy_from_slice(&word[..place.len()]);
    }
}

/// Compares a record with what `mark` would have written; `known` 0 accepts every generation.
fn check(buffer: &[u8], seed: u64, offset: u64, known: u32) -> Result<(), String> {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&buffer[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    for (at, what, expected) in [
        (0, "mark", MAGIC),
        (8, "seed", seed),
        (16, "offset", offset),
    ] {
        if word(at) != expected {
            return Err(format!("{what} {:#x}, expected {expected:#x}", word(at)));
        }
    }
    let generation = word(24);
    if generation > u64::from(u32::MAX) || (known != 0 && generation != u64::from(known)) {
        return Err(format!("generation {generation}, expected {known}"));
    }
    let mut stream = Stream::new(seed, offset, generation as u32);
    for (i, place) in buffer[HEADER..].chunks(8).enumerate() {
        let expected = stream.next().to_le_bytes();
        if *place != expected[..place.len()] {
            let byte = place.iter().zip(expected).position(|(a, b)| *a != b);
            let at = HEADER + i * 8 + byte.unwrap_or(0);
            return Err(format!("byte {at} of the record differs"));
        }
    }
    Ok(())
}

/// splitmix64 (Steele, Lea, Flood 2014), keyed by what the record is.
struct Stream(u64);

impl Stream {
    fn new(seed: u64, offset: u64, generation: u32) -> Stream {
        let mut key = Stream(seed);
        let mixed = key.next() ^ offset;
        key = Stream(mixed);
        Stream(key.next() ^ u64::from(generation))
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_flipped_byte_is_found() {
        let mut record = vec![0; 515];
        mark(&mut record, 7, 8192, 3);
        assert_eq!(check(&record, 7, 8192, 3), Ok(()));
        assert_eq!(check(&record, 7, 8192, 0), Ok(()));
        for known in [0, 3] {
            for at in 0..record.len() {
                record[at] ^= 0x10;
                assert!(check(&record, 7, 8192, known).is_err(), "byte {at}");
                record[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn a_record_of_another_place_job_or_pass_is_found() {
        let mut record = vec![0; 512];
        mark(&mut record, 7, 8192, 3);
        assert!(check(&record, 7, 4096, 3)
            .unwrap_err()
            .starts_with("offset"));
        assert!(check(&record, 8, 8192, 3).unwrap_err().starts_with("seed"));
        let old = check(&record, 7, 8192, 4).unwrap_err();
        assert_eq!(old, "generation 3, expected 4");
    }

    #[test]
    fn no_two_pages_that_are_written_are_equal() {
        let mut payload = Payload::new(false, 1, 4, 0);
        let step = Step {
            record: 0,
            is_write: true,
        };
        let mut pages = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let mut buffer = vec![0; 4 * PAGE];
            payload.prepare(step, 0, &mut buffer);
            pages.extend(buffer.chunks(PAGE).map(<[u8]>::to_vec));
        }
        assert_eq!(pages.len(), 12);
    }

    #[test]
    fn after_a_failed_write_either_content_is_right() {
        let mut payload = Payload::new(true, 1, 4, 0);
        let [write, read] = [true, false].map(|is_write| Step {
            record: 2,
            is_write,
        });
        let mut old = vec![0; 64];
        payload.prepare(write, 128, &mut old);
        payload.finish(write, 128, &old, true);
        payload.prepare(write, 128, &mut [0; 64]);
        payload.finish(write, 128, &[], false);
        payload.finish(read, 128, &old, true);
        let findings = payload.findings();
        assert_eq!((findings.checked, findings.mismatches), (1, 0));
    }

    #[test]
    fn a_record_in_flight_is_not_claimed_twice() {
        let mut payload = Payload::new(true, 1, 4, 0);
        let step = Step {
            record: 2,
            is_write: true,
        };
        let mut buffer = vec![0; 64];
        assert!(payload.claim(step));
        assert!(!payload.claim(step));
        payload.prepare(step, 128, &mut buffer);
        payload.finish(step, 128, &buffer, true);
        assert!(payload.claim(Step {
            is_write: false,
            ..step
        }));
        payload.finish(step, 128, &buffer, true);
    }
}
