//! What a started program can reach: a mount namespace of its own, built between fork and exec.
//!
//! Every mount gets `nodev`, and `/dev` becomes a small one with the usual pseudo devices and, if
//! there is one, the held device: no other block device can be opened, wherever its node is. With
//! `files` every mount is read-only as well, except the `writable` places and a private tmpfs at
//! `/dev/shm`. The capabilities that could undo this (mount, ptrace of other processes, raw
//! commands to disks, kernel modules, device nodes) leave the bounding set. Without root a user
//! namespace gives the right to do all this. Only system calls on memory that was prepared before
//! the fork are made here.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use serde::Deserialize;

use crate::child::errno;

/// Read-only attributes of `mount_setattr` and of its relatives (include/uapi/linux/mount.h).
const RDONLY: u64 = 1;
const NODEV: u64 = 4;
const RECURSIVE: libc::c_uint = 0x8000;
const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_EMPTY_PATH: libc::c_uint = 4;

/// Devices that every program may have, as names below `/dev`.
const PSEUDO: [&CStr; 6] = [c"null", c"zero", c"full", c"random", c"urandom", c"tty"];
/// Directories of `/dev` that hold files; with `files` the first is a private tmpfs.
const SHARED: [&CStr; 3] = [c"shm", c"mqueue", c"hugepages"];
const LINKS: [(&CStr, &CStr); 6] = [
    (c"/proc/self/fd", c"fd"),
    (c"/proc/self/fd/0", c"stdin"),
    (c"/proc/self/fd/1", c"stdout"),
    (c"/proc/self/fd/2", c"stderr"),
    (c"pts/ptmx", c"ptmx"),
    (c"/run/systemd/journal/dev-log", c"log"),
];
/// CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_MKNOD.
const DROPPED: [libc::c_ulong; 5] = [16, 17, 19, 21, 27];
const PLACES: usize = 32;

/// What holds a program, as ordered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// Files are held, too: only `writable` and `/dev/shm` can be written to.
    #[serde(default)]
    pub files: bool,
    /// Files and directories that stay writable, with all mounts below them.
    #[serde(default)]
    pub writable: Vec<String>,
    /// The one block device that may be opened.
    #[serde(default)]
    pub device: Option<HeldDevice>,
    /// Mounts to leave out: a copy of a mount keeps its device busy while the program runs.
    #[serde(default)]
    pub detached: Vec<String>,
}

/// A block device by its number: its path is only where a node is found, and is checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldDevice {
    /// Where its node is: `/dev/NAME`.
    pub path: String,
    /// Its number.
    pub major: u32,
    /// Its number.
    pub minor: u32,
    /// Its name below the private `/dev`.
    pub name: String,
    /// Another name, `/dev/…`, that leads there; empty: none.
    #[serde(default)]
    pub link: String,
}

/// A confinement, ready for a child.
pub(crate) struct Wall {
    files: bool,
    writable: Vec<CString>,
    device: Option<Node>,
    detached: Vec<CString>,
    /// Maps of the user namespace, where one is needed: of users, of groups.
    maps: Option<(CString, CString)>,
}

struct Node {
    path: CString,
    number: libc::dev_t,
    /// Directories to make and, last, the node itself; all below `/dev`.
    name: Vec<CString>,
    /// The same of the link.
    link: Vec<CString>,
}

type Done = Result<(), i32>;

fn text(text: &str) -> Result<CString, i32> {
    CString::new(text).map_err(|_| libc::EINVAL)
}

fn texts(texts: &[String]) -> Result<Vec<CString>, i32> {
    texts.iter().map(|each| text(each)).collect()
}

/// `a/b/c` as `a`, `a/b` and `a/b/c`.
fn with_directories(path: &str) -> Result<Vec<CString>, i32> {
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let ends = slashes.chain((!path.is_empty()).then_some(path.len()));
    ends.map(|end| text(&path[..end])).collect()
}

impl Wall {
    /// Prepares a confinement; the errno of what cannot be one.
    pub(crate) fn of(order: &Confinement) -> Result<Self, i32> {
        if order.writable.len() > PLACES {
            return Err(libc::E2BIG);
        }
        // SAFETY: system calls without arguments that cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let maps = match uid {
            0 => None,
            _ => Some((
                text(&format!("{uid} {uid} 1"))?,
                text(&format!("{gid} {gid} 1"))?,
            )),
        };
        Ok(Wall {
            files: order.files,
            writable: texts(&order.writable)?,
            detached: texts(&order.detached)?,
            device: order.device.as_ref().map(Node::of).transpose()?,
            maps,
        })
    }

    /// Confines the calling process, which has one thread; the errno of the call that failed.
    pub(crate) fn build(&self) -> Done {
        self.new_namespaces()?;
        for path in &self.detached {
            // SAFETY: a null-terminated path; what is gone by now, or locked, is as well left.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
        let (pseudo, shared) = (cloned_below_dev(&PSEUDO), cloned_below_dev(&SHARED));
        let device = self.device.as_ref().map(Node::clone_tree).transpose()?;
        let mut writable = [-1; PLACES];
        for (fd, path) in writable.iter_mut().zip(&self.writable) {
            *fd = clone_tree(path)?;
            set_attributes(*fd, c"", NODEV)?;
        }
        let held = if self.files { RDONLY | NODEV } else { NODEV };
        set_attributes(libc::AT_FDCWD, c"/", held)?;
        mount(
            c"tmpfs",
            c"/dev",
            c"tmpfs",
            libc::MS_NOSUID,
            Some(c"mode=755,size=256k"),
        )?;
        // SAFETY: a constant path.
        check(unsafe { libc::chdir(c"/dev".as_ptr()) })?;
        for (name, fd) in PSEUDO.iter().zip(pseudo).filter(|(_, fd)| *fd >= 0) {
            make_file(name)?;
            move_tree(fd, name)?;
        }
        for (name, fd) in SHARED.iter().zip(shared) {
            make_directory(name)?;
            if self.files && *name == c"shm" {
                mount(
                    c"tmpfs",
                    name,
                    c"tmpfs",
                    libc::MS_NOSUID | libc::MS_NODEV,
                    None,
                )?;
            } else if !self.files && fd >= 0 {
                set_attributes(fd, c"", NODEV)?;
                move_tree(fd, name)?;
            }
        }
        make_directory(c"pts")?;
        let unsafe_here = libc::MS_NOSUID | libc::MS_NOEXEC;
        mount(
            c"devpts",
            c"pts",
            c"devpts",
            unsafe_here,
            Some(c"newinstance,ptmxmode=0666"),
        )?;
        for (target, name) in LINKS {
            make_link(target, name)?;
        }
        if let (Some(node), Some(fd)) = (&self.device, device) {
            node.place(fd)?;
        }
        set_flat_attributes(c"/dev", RDONLY | NODEV)?;
        for (fd, path) in writable.into_iter().zip(&self.writable) {
            move_tree(fd, path)?;
        }
        drop_capabilities()
    }

    fn new_namespaces(&self) -> Done {
        let user = if self.maps.is_some() {
            libc::CLONE_NEWUSER
        } else {
            0
        };
        // SAFETY: flags only.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS | user) })?;
        if let Some((users, groups)) = &self.maps {
            write_file(c"/proc/self/setgroups", c"deny")?;
            write_file(c"/proc/self/uid_map", users)?;
            write_file(c"/proc/self/gid_map", groups)?;
        }
        mount(
            c"none",
            c"/",
            c"none",
            libc::MS_REC | libc::MS_PRIVATE,
            None,
        )
    }
}

impl Node {
    fn of(device: &HeldDevice) -> Result<Self, i32> {
        Ok(Node {
            path: text(&device.path)?,
            number: libc::makedev(device.major, device.minor),
            name: with_directories(&device.name)?,
            link: with_directories(device.link.strip_prefix("/dev/").unwrap_or(""))?,
        })
    }

    /// The node as a detached mount; ENODEV when it is another device by now.
    fn clone_tree(&self) -> Result<RawFd, i32> {
        let fd = clone_tree(&self.path)?;
        // SAFETY: stat is plain numbers; the descriptor was opened just now.
        let status = unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            check(libc::fstat(fd, &raw mut status))?;
            status
        };
        let is_block = status.st_mode & libc::S_IFMT == libc::S_IFBLK;
        if is_block && status.st_rdev == self.number {
            Ok(fd)
        } else {
            Err(libc::ENODEV)
        }
    }

    /// Puts it into the private `/dev`, the working directory.
    fn place(&self, fd: RawFd) -> Done {
        let (name, directories) = self.name.split_last().ok_or(libc::EINVAL)?;
        directories
            .iter()
            .try_for_each(|each| make_directory(each))?;
        make_file(name)?;
        move_tree(fd, name)?;
        let Some((link, directories)) = self.link.split_last() else {
            return Ok(());
        };
        directories
            .iter()
            .try_for_each(|each| make_directory(each))?;
        make_link(&self.path, link)
    }
}

/// Detached copies of what is in `/dev`, -1 for what is not there.
fn cloned_below_dev<const N: usize>(names: &[&CStr; N]) -> [RawFd; N] {
    // SAFETY: a constant path; a failure leaves the copies out, and the program without them.
    unsafe { libc::chdir(c"/dev".as_ptr()) };
    names.map(|name| clone_tree(name).unwrap_or(-1))
}

fn clone_tree(path: &CStr) -> Result<RawFd, i32> {
    let flags = OPEN_TREE_CLONE | RECURSIVE | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: a null-terminated path.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    check(fd as libc::c_int)?;
    Ok(fd as RawFd)
}

fn move_tree(fd: RawFd, path: &CStr) -> Done {
    // SAFETY: null-terminated paths and a descriptor of a detached mount.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            fd,
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_EMPTY_PATH,
        )
    };
    check(moved as libc::c_int)
}

/// Adds attributes to a mount and all below it.
fn set_attributes(at: RawFd, path: &CStr, attributes: u64) -> Done {
    setattr(
        at,
        path,
        attributes,
        RECURSIVE | libc::AT_EMPTY_PATH as libc::c_uint,
    )
}

fn set_flat_attributes(path: &CStr, attributes: u64) -> Done {
    setattr(libc::AT_FDCWD, path, attributes, 0)
}

fn setattr(at: RawFd, path: &CStr, attributes: u64, flags: libc::c_uint) -> Done {
    // struct mount_attr: attributes to set, to clear, propagation, user namespace
    let attr: [u64; 4] = [attributes, 0, 0, 0];
    let size = std::mem::size_of_val(&attr);
    // SAFETY: a null-terminated path, and a structure of the size that is given.
    let set = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            attr.as_ptr(),
            size,
        )
    };
    check(set as libc::c_int)
}

fn mount(
    source: &CStr,
    path: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    data: Option<&CStr>,
) -> Done {
    let data = data.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: null-terminated strings.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            path.as_ptr(),
            kind.as_ptr(),
            flags,
            data.cast(),
        )
    })
}

fn make_directory(path: &CStr) -> Done {
    // SAFETY: a null-terminated path.
    match check(unsafe { libc::mkdir(path.as_ptr(), 0o755) }) {
        Err(libc::EEXIST) => Ok(()),
        other => other,
    }
}

fn make_file(path: &CStr) -> Done {
    // SAFETY: a null-terminated path. No descriptor: one open for writing would keep `/dev` so.
    check(unsafe { libc::mknod(path.as_ptr(), libc::S_IFREG | 0o644, 0) })
}

fn make_link(target: &CStr, path: &CStr) -> Done {
    // SAFETY: null-terminated paths.
    check(unsafe { libc::symlink(target.as_ptr(), path.as_ptr()) })
}

fn write_file(path: &CStr, text: &CStr) -> Done {
    // SAFETY: null-terminated strings, and a descriptor that was opened just now.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(fd)?;
        let length = text.count_bytes();
        let written = libc::write(fd, text.as_ptr().cast(), length);
        check(if written == length as isize { 0 } else { -1 })?;
        check(libc::close(fd))
    }
}

/// What the program may get back from no exec, and no user that it becomes.
fn drop_capabilities() -> Done {
    for capability in DROPPED {
        // SAFETY: numbers only.
        check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) })?;
    }
    Ok(())
}

fn check(result: libc::c_int) -> Done {
    if result >= 0 {
        Ok(())
    } else {
        Err(errno())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a confinement can be built, in a child of its own.
    fn errno_of(order: &Confinement) -> i32 {
        let wall = Wall::of(order).unwrap();
        // SAFETY: the child makes system calls alone, and never returns.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(wall.build().err().unwrap_or(0)),
                pid => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                    libc::WEXITSTATUS(status)
                }
            }
        }
    }

    #[test]
    fn a_device_is_confined_by_its_number_and_not_by_its_path() {
        let mut order = Confinement {
            files: true,
            writable: vec!["/tmp".into()],
            device: None,
            detached: vec!["/nonexistent".into()],
        };
        if errno_of(&order) == libc::EPERM {
            return; // no namespaces here
        }
        assert_eq!(errno_of(&order), 0);
        order.device = Some(HeldDevice {
            path: "/dev/null".into(),
            major: 7,
            minor: 0,
            name: "loop0".into(),
            link: "/dev/disk/by-id/loop".into(),
        });
        assert_eq!(errno_of(&order), libc::ENODEV);
        let other = std::env::temp_dir().join(format!("schedlab-node-{}", std::process::id()));
        let node = CString::new(other.to_str().unwrap()).unwrap();
        // SAFETY: a null-terminated path.
        if unsafe { libc::mknod(node.as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(7, 1)) } == 0 {
            order.device.as_mut().unwrap().path = other.to_str().unwrap().into();
            assert_eq!(errno_of(&order), libc::ENODEV);
            std::fs::remove_file(other).unwrap();
        }
        order.device = None;
        order.writable = vec!["/nonexistent".into()];
        assert_eq!(errno_of(&order), libc::ENOENT);
    }
}
