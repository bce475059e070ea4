//! Single reads with the time of each: what a fit of a device is made of.
//!
//! The file is opened for reading only and past the page cache; no request here writes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use io_uring::{opcode, squeue, types};
use rustix::fs::{open, Mode, OFlags};
use rustix::io::Errno;

use super::buffer::Region;
use super::engine::ring::{self, errno_of};
use super::error::IoError;
use crate::clock;

/// A read: its place, and when it was submitted and completed (monotonic time).
#[derive(Clone, Copy, Debug, Default)]
pub struct TimedRead {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// Submission, ns.
    pub sent_ns: u64,
    /// Completion as the program sees it, ns.
    pub done_ns: u64,
}

/// Carries the reads out in their order with `depth` of them in flight, and fills in their times.
///
/// Where `together`, the next `depth` are submitted at the same time when all before have
/// completed. Fails at the first read that fails.
pub fn read_timed(
    path: &Path,
    reads: &mut [TimedRead],
    depth: u32,
    together: bool,
) -> Result<(), IoError> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(IoError::system(path, "open"))?;
    let longest = reads.iter().map(|read| read.length).max().unwrap_or(512);
    let region = Region::new(depth, longest as usize, 0)
        .map_err(IoError::system(path, "allocate buffers"))?;
    let (mut ring, _) = ring::build(depth)?;
    let entered = |error: std::io::Error| IoError::Ring {
        operation: "enter",
        errno: errno_of(&error),
    };
    let mut free: Vec<usize> = (0..depth as usize).rev().collect();
    let mut holds = vec![0; depth as usize];
    let (mut next, mut in_flight) = (0, 0);
    let mut failed = None;
    while in_flight > 0 || (next < reads.len() && failed.is_none()) {
        let may_send = failed.is_none() && (!together || in_flight == 0);
        while may_send && next < reads.len() {
            let Some(slot) = free.pop() else { break };
            let entry = entry_of(&file, &reads[next], region.pointer(slot), slot);
            // SAFETY: the slot is free and as long as the longest read; region and file outlive
            // the request, as this function leaves only when nothing is in flight.
            let pushed = unsafe { ring.submission().push(&entry) };
            debug_assert!(pushed.is_ok(), "as many entries as slots");
            reads[next].sent_ns = clock::now();
            holds[slot] = next;
            next += 1;
            in_flight += 1;
        }
        if let Err(error) = ring.submit_and_wait(1) {
            if errno_of(&error) != Errno::INTR {
                // Requests may be in flight into the region: it must not be unmapped.
                std::mem::forget(region);
                return Err(entered(error));
            }
        }
        let now = clock::now();
        for completion in ring.completion() {
            let slot = completion.user_data() as usize;
            let read = &mut reads[holds[slot]];
            read.done_ns = now;
            free.push(slot);
            in_flight -= 1;
            if completion.result() != read.length as i32 {
                let code = completion.result();
                failed = Some(if code < 0 {
                    Errno::from_raw_os_error(-code)
                } else {
                    Errno::IO
                });
            }
        }
    }
    match failed {
        Some(errno) => Err(IoError::system(path, "read")(errno)),
        None => Ok(()),
    }
}

/// A read into a slot of the region.
fn entry_of(file: &OwnedFd, read: &TimedRead, memory: *mut u8, slot: usize) -> squeue::Entry {
    opcode::Read::new(types::Fd(file.as_raw_fd()), memory, read.length)
        .offset(read.offset)
        .build()
        .user_data(slot as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_has_its_times_and_a_failure_is_named() {
        let path = std::env::temp_dir().join(format!("schedlab-timed-{}", std::process::id()));
        std::fs::write(&path, vec![0u8; 1 << 16]).unwrap();
        let read = |index: u64| TimedRead {
            offset: index * 4096,
            length: 4096,
            ..TimedRead::default()
        };
        let mut reads: Vec<TimedRead> = (0..16).map(read).collect();
        for together in [false, true] {
            match read_timed(&path, &mut reads, 4, together) {
                // No io_uring, or a file system without O_DIRECT.
                Err(IoError::RingRefused { .. } | IoError::System { .. }) => break,
                result => result.unwrap(),
            }
            assert!(reads
                .iter()
                .all(|read| 0 < read.sent_ns && read.sent_ns < read.done_ns));
            let first_group = reads[..4].iter().map(|read| read.done_ns).max().unwrap();
            assert!(!together || first_group <= reads[4].sent_ns);
            let beyond = TimedRead {
                offset: 1 << 20,
                length: 4096,
                ..TimedRead::default()
            };
            assert!(read_timed(&path, &mut [beyond], 4, together).is_err());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
