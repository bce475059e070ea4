//! hdparm's two timings, by its definitions, so that the numbers agree with `hdparm -tT`.
//!
//! * cached reads (`-T`): the first 2 MiB of the device are read again and again from the page
//!   cache for 2 s (hdparm subtracts the cost of seeking and of the clock; there is no seek here);
//! * buffered device reads (`-t`): consecutive 2 MiB reads from the start of the device for 3 s,
//!   its cache dropped before (`BLKFLSBUF`).
//!
//! As there, the program writes to every sector of its buffer after each read, and everything is
//! synced and idle for a while before each window: both change the figures by more than their
//! spread.
//!
//! With `direct` both open the device with `O_DIRECT` (`hdparm --direct`).

use std::path::Path;

use rustix::fs::{open, seek, Mode, OFlags, SeekFrom};
use rustix::io::pread;
use serde::Serialize;

use super::buffer::Region;
use super::error::IoError;
use super::prepare::drop_cache_of;
use super::run::Decision;
use crate::clock;

const BLOCK: usize = 2 << 20;
const CACHED_NS: u64 = 2_000_000_000;
const DEVICE_NS: u64 = 3_000_000_000;
/// Idle time before either window.
const REST_BEFORE_CACHED_NS: u64 = 1_000_000_000;
const REST_BEFORE_DEVICE_NS: u64 = 3_000_000_000;
const SECTOR: usize = 512;
/// How often the caller decides whether to continue.
const POLL_NS: u64 = 20_000_000;

/// What was read in how long.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Timing {
    /// Bytes read.
    pub bytes: u64,
    /// Nanoseconds from the first to the end of the last read.
    pub elapsed_ns: u64,
}

/// Both timings of one file or device.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Timings {
    /// From the page cache (with `direct`: from the device's cache).
    pub cached: Timing,
    /// From the device.
    pub device: Timing,
    /// Whether `O_DIRECT` was used.
    pub direct: bool,
    /// Whether the caller stopped the measurement.
    pub interrupted: bool,
}

/// Takes both timings; about 9 s.
pub fn measure(
    path: &Path,
    direct: bool,
    poll: &mut dyn FnMut() -> Decision,
) -> Result<Timings, IoError> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, direct);
    let file = open(path, flags, Mode::empty()).map_err(IoError::system(path, "open"))?;
    let size = seek(&file, SeekFrom::End(0)).map_err(IoError::system(path, "seek"))?;
    if size < BLOCK as u64 {
        return Err(IoError::TooSmall {
            path: path.to_owned(),
            size: schedlab_model::Bytes(size),
            needed: schedlab_model::Bytes(BLOCK as u64),
        });
    }
    // hdparm's buffer has small pages, which makes copying into it slower.
    let mut buffer = Region::with_pages(1, BLOCK, 0, rustix::mm::Advice::LinuxNoHugepage)
        .map_err(IoError::system(path, "allocate buffers"))?;
    let mut read = |offset: u64| {
        let buffer = buffer.slot(0);
        let moved = pread(&file, &mut *buffer, offset).map_err(IoError::system(path, "read"))?;
        for byte in buffer.iter_mut().step_by(SECTOR) {
            *byte &= 1;
        }
        std::hint::black_box(buffer);
        Ok(moved)
    };
    let mut timings = Timings {
        direct,
        ..Timings::default()
    };
    read(0)?; // fills the cache, as hdparm does
    timings.interrupted = rest(REST_BEFORE_CACHED_NS, poll)
        || window(CACHED_NS, poll, &mut timings.cached, &mut |_| read(0))?;
    if timings.interrupted {
        return Ok(timings);
    }
    drop_cache_of(&file, 0, None).map_err(IoError::system(path, "drop the cache"))?;
    timings.interrupted = rest(REST_BEFORE_DEVICE_NS, poll);
    if timings.interrupted {
        return Ok(timings);
    }
    timings.interrupted = window(DEVICE_NS, poll, &mut timings.device, &mut |at| {
        if at >= size {
            Ok(0)
        } else {
            read(at)
        }
    })?;
    Ok(timings)
}

/// Lets all devices finish what they were given; gives whether the caller stopped it.
fn rest(length_ns: u64, poll: &mut dyn FnMut() -> Decision) -> bool {
    rustix::fs::sync();
    let end = clock::now() + length_ns;
    loop {
        let now = clock::now();
        if poll() == Decision::Abort {
            return true;
        }
        if now >= end {
            return false;
        }
        clock::sleep_until(end.min(now + POLL_NS));
    }
}

/// Calls `read` with the bytes so far until the time is over or nothing is left; gives whether
/// the caller stopped it.
fn window(
    length_ns: u64,
    poll: &mut dyn FnMut() -> Decision,
    timing: &mut Timing,
    read: &mut dyn FnMut(u64) -> Result<usize, IoError>,
) -> Result<bool, IoError> {
    let start = clock::now();
    let mut last_poll_ns = start;
    loop {
        let moved = read(timing.bytes)?;
        let now = clock::now();
        timing.bytes += moved as u64;
        timing.elapsed_ns = now - start;
        if moved == 0 || timing.elapsed_ns >= length_ns {
            return Ok(false);
        }
        if now - last_poll_ns >= POLL_NS {
            last_poll_ns = now;
            if poll() == Decision::Abort {
                return Ok(true);
            }
        }
    }
}
