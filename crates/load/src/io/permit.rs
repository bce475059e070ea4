//! The write gate of the engine: a block device is opened for writing only through a descriptor
//! by which the caller proves that the device was given up.
//!
//! A path alone, such as `/dev/sdb`, is never enough. The caller has opened the device exclusively
//! (`O_EXCL`, which fails on a mounted one, on swap, and on a member of RAID or LVM), has locked
//! that descriptor (`flock`), and hands it over: as `fd`, or as `/proc/PID/fd/N`. The kernel is
//! asked for both: an exclusive opening of ours must fail, and the descriptor must have the lock.

use std::path::Path;

use rustix::fs::{open, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::IoError;

/// Refuses to write to the block device at `opened` unless it was handed over; `name` is what the
/// error calls it. Anything but a block device passes.
pub(crate) fn check(opened: &Path, name: &Path) -> Result<(), IoError> {
    let is_device = rustix::fs::stat(opened)
        .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::BlockDevice);
    if !is_device || (is_locked(opened) && is_held(opened)) {
        return Ok(());
    }
    Err(IoError::NotGivenUp(name.to_owned()))
}

/// Whether `/proc/PID/fd/N` is a descriptor that has an exclusive lock.
fn is_locked(opened: &Path) -> bool {
    let Some(("", rest)) = opened.to_str().and_then(|text| text.split_once("/proc/")) else {
        return false;
    };
    let Some((process, number)) = rest.split_once("/fd/") else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(number) || !(process == "self" || is_number(process)) {
        return false;
    }
    let facts = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"));
    facts.is_ok_and(|text| text.lines().any(is_exclusive_lock))
}

/// `lock: 1: FLOCK  ADVISORY  WRITE 4711 00:06:310 0 EOF`, as /proc/PID/fdinfo/N has it.
fn is_exclusive_lock(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], ["lock:", _, "FLOCK", _, "WRITE", ..])
}

/// Whether a process has the device open exclusively.
fn is_held(opened: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    open(opened, flags, Mode::empty()).is_err_and(|errno| errno == Errno::BUSY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exclusive_flock_counts() {
        assert!(is_exclusive_lock(
            "lock:\t1: FLOCK  ADVISORY  WRITE 4711 00:06:310 0 EOF"
        ));
        assert!(!is_exclusive_lock(
            "lock:\t1: FLOCK  ADVISORY  READ 4711 00:06:310 0 EOF"
        ));
        assert!(!is_exclusive_lock(
            "lock:\t1: POSIX  ADVISORY  WRITE 4711 00:06:310 0 EOF"
        ));
        assert!(!is_exclusive_lock("flags:\t0100000"));
    }

    #[test]
    fn a_path_is_a_descriptor_only_in_its_one_form() {
        for path in [
            "/dev/sda",
            "/proc/self/fd/",
            "/proc/self/fd/1x",
            "/proc/1/../self/fd/1",
            "",
        ] {
            assert!(!is_locked(Path::new(path)), "{path}");
        }
    }
}
