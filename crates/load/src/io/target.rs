//! The file or device of a worker: opening it in the asked mode, and refusing what could not work
//! before the clock starts.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    fstat, ioctl_blksszget, open, seek, statx, AtFlags, FileType, Mode, OFlags, SeekFrom,
    StatxFlags,
};
use schedlab_model::{Bytes, Direction};

use super::error::IoError;
use super::job::{descriptor_path, EngineKind, FileState, Group, Sync};
use super::permit;
use super::shared::Control;

/// An open file and where its records begin.
pub(crate) struct Target {
    pub file: OwnedFd,
    pub path: PathBuf,
    pub offset: u64,
}

impl Target {
    /// Opens the file of `worker` as its group asks.
    pub(crate) fn open(group: &Group, worker: u32) -> Result<Target, IoError> {
        let path = group.path_of(worker);
        check_kind(group, &path, &group.open_path_of(worker))?;
        let mut flags = OFlags::CLOEXEC | OFlags::NOATIME;
        // A mapping that is written needs to be readable, too.
        flags |= match (group.workload.direction, group.engine) {
            (Direction::Read, _) => OFlags::RDONLY,
            (Direction::Write, EngineKind::Psync | EngineKind::IoUring) => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        if group.direct {
            flags |= OFlags::DIRECT;
        }
        flags |= match group.sync {
            Sync::None => OFlags::empty(),
            // rustix's DSYNC is O_SYNC on Linux.
            Sync::Dsync => OFlags::from_bits_retain(libc::O_DSYNC as u32),
            Sync::Sync => OFlags::SYNC,
        };
        if group.file == FileState::Fresh {
            flags |= OFlags::CREATE | OFlags::TRUNC;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = group.open_path_of(worker);
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            permit::check(&opened, &path)?;
        }
        let file = open(&opened, flags, mode)
            // Only the owner of a file may leave its access time alone.
            .or_else(|_| open(&opened, flags - OFlags::NOATIME, mode))
            .map_err(IoError::system(&path, "open"))?;
        let target = Target {
            offset: group.offset_of(worker),
            file,
            path,
        };
        target.check(group)?;
        Ok(target)
    }

    fn check(&self, group: &Group) -> Result<(), IoError> {
        let stat = fstat(&self.file).map_err(IoError::system(&self.path, "stat"))?;
        if group.direct {
            let block = self.logical_block();
            for (what, value) in [
                ("record size", group.workload.record),
                ("offset", Bytes(self.offset)),
            ] {
                if value.0 % block != 0 {
                    return Err(IoError::Misaligned {
                        path: self.path.clone(),
                        what,
                        value,
                        block: Bytes(block),
                    });
                }
            }
        }
        let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        if !is_device && group.workload.direction == Direction::Write {
            return self.extend_for_mapping(group, stat.st_size as u64);
        }
        let size = seek(&self.file, SeekFrom::End(0)).map_err(self.failed("seek"))?;
        if size < self.end(group) {
            return Err(IoError::TooSmall {
                path: self.path.clone(),
                size: Bytes(size),
                needed: Bytes(self.end(group)),
            });
        }
        Ok(())
    }

    /// A mapping cannot grow its file.
    fn extend_for_mapping(&self, group: &Group, size: u64) -> Result<(), IoError> {
        if group.engine == EngineKind::Mmap && size < self.end(group) {
            rustix::fs::ftruncate(&self.file, self.end(group)).map_err(self.failed("truncate"))?;
        }
        Ok(())
    }

    /// End of the last record.
    fn end(&self, group: &Group) -> u64 {
        self.offset + group.records_per_worker() * group.workload.record.0
    }

    /// The error of a system call on this file.
    pub(crate) fn failed(&self, operation: &'static str) -> impl Fn(rustix::io::Errno) -> IoError {
        IoError::system(&self.path, operation)
    }

    /// What `O_DIRECT` offsets and lengths must be multiples of; 1 where it is unknown.
    fn logical_block(&self) -> u64 {
        if let Ok(size) = ioctl_blksszget(&self.file) {
            return u64::from(size);
        }
        let attributes = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        match attributes {
            Ok(stat) if stat.stx_dio_offset_align > 0 => u64::from(stat.stx_dio_offset_align),
            _ => fstat(&self.file)
                .ok()
                .and_then(|stat| queue_file(stat.st_dev, "logical_block_size"))
                .and_then(|text| text.parse().ok())
                .unwrap_or(1),
        }
    }
}

/// The open log of a database client.
pub(crate) struct LogTarget {
    file: OwnedFd,
    /// Offset and length of the part of a device that the log goes round in; a file grows.
    round: Option<(u64, u64)>,
    buffer: Vec<u8>,
}

impl LogTarget {
    /// Opens the log of a group that has one.
    pub(crate) fn open(group: &Group) -> Result<Option<LogTarget>, IoError> {
        let Some(log) = &group.log else {
            return Ok(None);
        };
        let opened = log.fd.map_or_else(|| log.path.clone(), descriptor_path);
        let failed = |operation| IoError::system(&log.path, operation);
        let flags = OFlags::CLOEXEC | OFlags::WRONLY;
        let is_device = rustix::fs::stat(&opened)
            .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::BlockDevice);
        if !is_device {
            let flags = flags | OFlags::CREATE | OFlags::APPEND;
            let file =
                open(&opened, flags, Mode::RUSR | Mode::WUSR).map_err(failed("open the log"))?;
            return Ok(Some(LogTarget::new(file, None, log.record)));
        }
        let span = log
            .span
            .map_or(0, |span| span.0 / log.record.0 * log.record.0);
        if span == 0 {
            let reason = "on a device it needs a span of at least one record";
            return Err(group.refuse("log", reason.into()));
        }
        permit::check(&opened, &log.path)?;
        let file = open(&opened, flags, Mode::empty()).map_err(failed("open the log"))?;
        let size = seek(&file, SeekFrom::End(0)).map_err(failed("seek"))?;
        let end = log.offset.0.saturating_add(span);
        if size < end {
            return Err(IoError::TooSmall {
                path: log.path.clone(),
                size: Bytes(size),
                needed: Bytes(end),
            });
        }
        let round = Some((log.offset.0, span));
        Ok(Some(LogTarget::new(file, round, log.record)))
    }

    fn new(file: OwnedFd, round: Option<(u64, u64)>, record: Bytes) -> LogTarget {
        LogTarget {
            file,
            round,
            buffer: vec![0x5a; record.0 as usize],
        }
    }

    /// Appends a record and makes it durable; the bytes moved or a negative error number.
    pub(crate) fn append(&mut self, number: u64, control: &Control, group: usize) -> i32 {
        let size = self.buffer.len().min(8);
        self.buffer[..size].copy_from_slice(&number.to_le_bytes()[..size]);
        let written = match self.round {
            None => rustix::io::write(&self.file, &self.buffer),
            Some((offset, span)) => {
                let at = control.append(group, self.buffer.len() as u64) % span;
                rustix::io::pwrite(&self.file, &self.buffer, offset + at)
            }
        };
        let moved = written.and_then(|moved| rustix::fs::fdatasync(&self.file).map(|()| moved));
        moved.map_or_else(|errno| -errno.raw_os_error(), |moved| moved as i32)
    }
}

/// Refuses what cannot be read and written at offsets (a FIFO would even block its opening).
fn check_kind(group: &Group, path: &Path, opened: &Path) -> Result<(), IoError> {
    let Ok(stat) = rustix::fs::stat(opened) else {
        return Ok(()); // opening it reports the error, or creates it
    };
    let actual = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::BlockDevice => "a block device",
        FileType::CharacterDevice => "a character device",
        FileType::Directory => "a directory",
        _ => "a FIFO or socket",
    };
    let fresh = group.file == FileState::Fresh;
    // Character devices are for NOPs, which touch nothing.
    if !fresh && (actual == "a block device" || path == Path::new("/dev/null")) {
        return Ok(());
    }
    Err(IoError::WrongKind {
        path: path.to_owned(),
        actual,
        expected: if fresh {
            "a file"
        } else {
            "a file or block device"
        },
    })
}

/// A file under `queue/` of a block device, or of the disk that it is a partition of.
fn queue_file(device: u64, name: &str) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let base = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    read(&base.join("queue").join(name))
        .or_else(|| read(&base.join("../queue").join(name)))
        .map(|text| text.trim().to_owned())
}
