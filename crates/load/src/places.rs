//! Files and directories by paths of which no part may be a link, opened between fork and exec.

use std::ffi::CStr;
use std::os::fd::RawFd;

use crate::child::check;

/// Of `openat2` (include/uapi/linux/openat2.h).
const RESOLVE_NO_SYMLINKS: u64 = 4;

/// A place by its path, no part of which may be a link: where it leads was resolved when it was
/// typed.
pub(crate) fn open_place(path: &CStr) -> Result<RawFd, i32> {
    open_without_links(path, libc::O_PATH)
}

/// A file to be read, in the same way; EINVAL for what is neither that nor a device of characters.
pub(crate) fn open_input(path: &CStr) -> Result<RawFd, i32> {
    let fd = open_without_links(path, libc::O_RDONLY | libc::O_NONBLOCK)?; // a pipe waits for none
    let kind = status(fd)?.st_mode & libc::S_IFMT;
    if kind != libc::S_IFREG && kind != libc::S_IFCHR {
        return Err(libc::EINVAL);
    }
    // SAFETY: a descriptor of this process.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, 0) })?;
    Ok(fd)
}

fn open_without_links(path: &CStr, flags: libc::c_int) -> Result<RawFd, i32> {
    // SAFETY: the structure is plain numbers.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.resolve = RESOLVE_NO_SYMLINKS;
    let size = std::mem::size_of_val(&how);
    // SAFETY: a null-terminated path, and a structure of the size that is given.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size,
        )
    };
    check(fd as libc::c_int)?;
    Ok(fd as RawFd)
}

pub(crate) fn status(fd: RawFd) -> Result<libc::stat, i32> {
    // SAFETY: stat is plain numbers, which the kernel fills.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        check(libc::fstat(fd, &raw mut status))?;
        Ok(status)
    }
}
