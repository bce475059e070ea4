//! What happens to a worker's region before the clock starts: discarded, written or read once,
//! its page cache dropped.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{fadvise, fallocate, fstat, fsync, Advice, FallocateFlags, FileType};
use rustix::io::{pread, pwrite, Errno};

use super::buffer::Region;
use super::error::{describe, IoError};
use super::job::{Group, Prime};
use super::result::Prepared;
use super::target::Target;

const BLKDISCARD: libc::Ioctl = 0x1277;
const BLKFLSBUF: libc::Ioctl = 0x1261;
/// Bytes that priming moves at once, at most; a multiple of what O_DIRECT asks for.
const PIECE: u64 = 1 << 20;

/// Prepares the region of a worker as its group asks.
pub(crate) fn region(group: &Group, target: &Target) -> Result<Prepared, IoError> {
    let mut prepared = Prepared::default();
    if group.discard {
        match discard(target, group) {
            Ok(()) => prepared.discarded = Some(true),
            Err(errno @ (Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::INVAL)) => {
                prepared.discarded = Some(false);
                prepared.refused = Some(describe(errno));
            }
            Err(errno) => return Err(target.failed("discard")(errno)),
        }
    }
    if group.prime != Prime::None {
        prepared.primed_bytes = prime(group, target)?;
    }
    if group.cold {
        drop_cache(target, group).map_err(target.failed("drop the cache"))?;
    }
    Ok(prepared)
}

fn discard(target: &Target, group: &Group) -> Result<(), Errno> {
    let (offset, length) = (target.offset, group.bytes_per_worker());
    if is_device(&target.file)? {
        let range = [offset, length];
        // SAFETY: the ioctl reads two numbers, which live through the call.
        return answer(unsafe { libc::ioctl(target.file.as_raw_fd(), BLKDISCARD, range.as_ptr()) });
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&target.file, flags, offset, length)
}

/// Reads or writes the region once, in order; gives the bytes.
fn prime(group: &Group, target: &Target) -> Result<u64, IoError> {
    let length = group.bytes_per_worker();
    let mut memory = Region::new(1, PIECE as usize, group.workload.seed)
        .map_err(target.failed("allocate buffers"))?;
    let advise = |advice| fadvise(&target.file, 0, None, advice).map_err(target.failed("fadvise"));
    if group.prime == Prime::Read {
        // Reading ahead would go on beyond the region, also while the load runs.
        advise(Advice::Random)?;
    }
    let mut primed_bytes = 0;
    while primed_bytes < length {
        let part = (length - primed_bytes).min(PIECE) as usize;
        let buffer = &mut memory.slot(0)[..part];
        let moved = match group.prime {
            Prime::Write => pwrite(&target.file, buffer, target.offset + primed_bytes),
            _ => pread(&target.file, &mut *buffer, target.offset + primed_bytes),
        };
        match moved {
            Ok(0) => break,
            Ok(moved) => primed_bytes += moved as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(target.failed("prime")(errno)),
        }
    }
    match group.prime {
        Prime::Write => fsync(&target.file).map_err(target.failed("fsync"))?,
        Prime::Read => advise(Advice::Normal)?,
        Prime::None => {}
    }
    Ok(primed_bytes)
}

/// Makes the next reads of the region come from the device.
pub(crate) fn drop_cache(target: &Target, group: &Group) -> Result<(), Errno> {
    let length = std::num::NonZeroU64::new(group.bytes_per_worker());
    drop_cache_of(&target.file, target.offset, length)
}

/// Writes back and drops the page cache: of a whole device, of a part of a file.
pub(crate) fn drop_cache_of(
    file: &impl AsFd,
    offset: u64,
    length: Option<std::num::NonZeroU64>,
) -> Result<(), Errno> {
    fsync(file)?;
    if is_device(file)? {
        // SAFETY: BLKFLSBUF takes no argument.
        return answer(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), BLKFLSBUF, 0) });
    }
    fadvise(file, offset, length, Advice::DontNeed)
}

fn is_device(file: &impl AsFd) -> Result<bool, Errno> {
    let mode = fstat(file)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::BlockDevice)
}

fn answer(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
