//! Request files: CSV with the header `arrival_ms,is_write,first_page,pages`, pages of 4 KiB;
//! `is_write` is 0 for a read, 1 for a write, 2 for a trim. Read line by line.

use std::io::BufRead;

use schedlab_model::{Bytes, Nanos, Request};

use super::Incoming;
use crate::SimError;

const HEADER: &str = "arrival_ms,is_write,first_page,pages";
const PAGE_BYTES: u64 = 4096;
/// A millisecond count that still fits 64 bits of nanoseconds.
const LATEST_MS: f64 = 1.8e13;

/// The requests of a file; `path` only names it in errors.
pub fn read_requests(
    input: impl BufRead,
    path: &str,
) -> impl Iterator<Item = Result<Incoming, SimError>> {
    let path = path.to_owned();
    input.lines().enumerate().filter_map(move |(i, line)| {
        let wrong = |found: &str, expected| {
            Some(Err(SimError::Line {
                path: path.clone(),
                line: i as u64 + 1,
                found: found.to_owned(),
                expected,
            }))
        };
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(SimError::Source(Box::new(error)))),
        };
        match (i, line.trim()) {
            (0, HEADER) | (_, "") => None,
            (0, other) => wrong(other, HEADER),
            (_, line) => match parse(line) {
                Some(incoming) => Some(Ok(incoming)),
                None => wrong(line, "arrival_ms,0|1|2,first_page,pages"),
            },
        }
    })
}

fn parse(line: &str) -> Option<Incoming> {
    let mut fields = line.split(',').map(str::trim);
    let arrival_ms: f64 = fields.next()?.parse().ok()?;
    let operation: u8 = fields.next()?.parse().ok()?;
    let first_page: u32 = fields.next()?.parse().ok()?;
    let pages: u32 = fields.next()?.parse().ok()?;
    if fields.next().is_some() || operation > 2 || !(0.0..LATEST_MS).contains(&arrival_ms) {
        return None;
    }
    let request = Request {
        arrival: Nanos((arrival_ms * 1e6).round() as u64),
        offset: Bytes(u64::from(first_page) * PAGE_BYTES),
        length: Bytes(u64::from(pages) * PAGE_BYTES),
        is_write: operation == 1,
    };
    Some(Incoming {
        request,
        trim: operation == 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_requests_and_bad_ones_are_named() {
        let text = "arrival_ms,is_write,first_page,pages\n5.515615,1,752,16\n\n6,0,1\n";
        let read: Vec<_> = read_requests(text.as_bytes(), "x.csv").collect();
        let first = read[0].as_ref().unwrap();
        assert_eq!(first.arrival_ns(), 5_515_615);
        assert_eq!(first.request.offset.0, 752 * 4096);
        let error = read[1].as_ref().unwrap_err().to_string();
        assert!(error.starts_with("x.csv:4: \"6,0,1\""), "{error}");
        let error = read_requests("a,b\n".as_bytes(), "y")
            .next()
            .unwrap()
            .unwrap_err();
        assert!(error.to_string().contains(HEADER), "{error}");
    }
}
