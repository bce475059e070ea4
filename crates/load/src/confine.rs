//! What a started program can reach: a mount namespace of its own, built between fork and exec.
//!
//! Every mount gets `nodev`, and `/dev` becomes a small one with the usual pseudo devices and, if
//! there is one, the held device: no other block device can be opened, wherever its node is.
//! `/proc` is that of its process namespace (`keeper`); it, `/sys` and the control groups cannot be
//! changed. With `files` every mount is read-only as well, except the `writable` places and a
//! private tmpfs at `/dev/shm`. Of root's capabilities a few are kept, which cannot undo this. A
//! program of another user, or of a caller without root, is in a user namespace and has none. Only
//! system calls on memory that was prepared before the fork are made here.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use serde::Deserialize;

use crate::child::{check, Done};
use crate::landlock::Ruleset;
use crate::places::{open_place, status};

/// Read-only attributes of `mount_setattr` and of its relatives (include/uapi/linux/mount.h).
const RDONLY: u64 = 1;
const NODEV: u64 = 4;
const RECURSIVE: libc::c_uint = 0x8000;
const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_FROM_EMPTY: libc::c_uint = 4;
const MOVE_TO_EMPTY: libc::c_uint = 0x40;

/// Devices that every program may have.
const PSEUDO: [&CStr; 6] = [
    c"/dev/null",
    c"/dev/zero",
    c"/dev/full",
    c"/dev/random",
    c"/dev/urandom",
    c"/dev/tty",
];
/// Directories of `/dev` that hold files; with `files` the first is a private tmpfs.
const SHARED: [&CStr; 3] = [c"/dev/shm", c"/dev/mqueue", c"/dev/hugepages"];
const LINKS: [(&CStr, &CStr); 6] = [
    (c"/proc/self/fd", c"/dev/fd"),
    (c"/proc/self/fd/0", c"/dev/stdin"),
    (c"/proc/self/fd/1", c"/dev/stdout"),
    (c"/proc/self/fd/2", c"/dev/stderr"),
    (c"pts/ptmx", c"/dev/ptmx"),
    (c"/run/systemd/journal/dev-log", c"/dev/log"),
];
/// The capabilities that a program of root keeps (include/uapi/linux/capability.h): CHOWN,
/// DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, IPC_LOCK, SYS_CHROOT,
/// SYS_NICE. (SYS_RESOURCE also lets ext4 grow.) docs/guides/host-safety.md lists them, too.
const KEPT: [u32; 11] = [0, 1, 3, 4, 5, 6, 7, 10, 14, 18, 23];
const PLACES: usize = 32;

/// The walls that a program may be in, by their bits.
pub const WALLS: [&str; 6] = [
    "process",
    "mount",
    "cgroup",
    "user",
    "capabilities",
    "landlock",
];
pub(crate) const IN_PROCESSES: u32 = 1;
const IN_MOUNTS: u32 = 2;
const IN_CGROUPS: u32 = 4;
pub(crate) const IN_USERS: u32 = 8;
const BY_CAPABILITIES: u32 = 16;
const BY_LANDLOCK: u32 = 32;

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
}

/// What is built, but for what the program may only lose last.
pub(crate) struct Built {
    /// The walls that stand.
    walls: u32,
    rules: Option<Ruleset>,
}

struct Node {
    path: CString,
    number: libc::dev_t,
    /// Directories to make below `/dev` and, last, the node itself.
    name: Vec<CString>,
    /// The same of the link.
    link: Vec<CString>,
}

fn text(text: &str) -> Result<CString, i32> {
    CString::new(text).map_err(|_| libc::EINVAL)
}

fn texts(texts: &[String]) -> Result<Vec<CString>, i32> {
    texts.iter().map(|each| text(each)).collect()
}

/// `/dev/a/b/c` as `/dev/a`, `/dev/a/b` and `/dev/a/b/c`; nothing for other paths.
fn with_directories(path: &str) -> Result<Vec<CString>, i32> {
    let path = if path.starts_with("/dev/") { path } else { "" };
    let slashes = path.match_indices('/').skip(2).map(|(at, _)| at);
    let ends = slashes.chain((!path.is_empty()).then_some(path.len()));
    ends.map(|end| text(&path[..end])).collect()
}

impl Wall {
    /// Prepares a confinement; the errno of what cannot be one.
    pub(crate) fn of(order: &Confinement) -> Result<Self, i32> {
        if order.writable.len() > PLACES {
            return Err(libc::E2BIG);
        }
        let places = order.writable.iter().chain(&order.detached);
        if places
            .chain(order.device.iter().map(|device| &device.path))
            .any(|p| !p.starts_with('/'))
        {
            return Err(libc::EINVAL);
        }
        Ok(Wall {
            files: order.files,
            writable: texts(&order.writable)?,
            detached: texts(&order.detached)?,
            device: order.device.as_ref().map(Node::of).transpose()?,
        })
    }

    /// Confines the calling process, which has one thread and mounts of its own ([`new_mounts`]);
    /// the errno of the call that failed.
    pub(crate) fn build(&self) -> Result<Built, i32> {
        let mut built = Built {
            walls: IN_MOUNTS,
            rules: Ruleset::new(self.files),
        };
        // SAFETY: flags only; a kernel without them has no control groups to hide.
        if unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } == 0 {
            built.walls |= IN_CGROUPS;
        }
        for path in &self.detached {
            // SAFETY: a null-terminated path; what is gone by now, or locked, is as well left.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
        let pseudo = PSEUDO.map(|path| clone_tree(path).unwrap_or(-1));
        let shared = SHARED.map(|path| clone_tree(path).unwrap_or(-1));
        let device = self.device.as_ref().map(Node::clone_tree).transpose()?;
        let mut places = [(-1, -1); PLACES];
        for (place, path) in places.iter_mut().zip(&self.writable) {
            let fd = open_place(path)?;
            *place = (fd, clone_tree_at(fd, c"")?);
            set_attributes(place.1, c"", NODEV)?;
        }
        let held = if self.files { RDONLY | NODEV } else { NODEV };
        set_attributes(libc::AT_FDCWD, c"/", held)?;
        self.new_devices(pseudo, shared, device)?;
        for (fd, tree) in places.into_iter().take(self.writable.len()) {
            move_tree_onto(tree, fd)?;
        }
        hide_the_kernel()?;
        if let Some(rules) = &built.rules {
            self.allow(rules, &places)?;
        }
        Ok(built)
    }

    fn new_devices(&self, pseudo: [RawFd; 6], shared: [RawFd; 3], device: Option<RawFd>) -> Done {
        let private = libc::MS_NOSUID | libc::MS_NODEV;
        mount(
            c"tmpfs",
            c"/dev",
            libc::MS_NOSUID,
            Some(c"mode=755,size=256k"),
        )?;
        for (path, fd) in PSEUDO.iter().zip(pseudo).filter(|(_, fd)| *fd >= 0) {
            place_node(fd, path)?;
        }
        for (path, fd) in SHARED.iter().zip(shared) {
            make_directory(path)?;
            if self.files && *path == SHARED[0] {
                mount(c"tmpfs", path, private, None)?;
            } else if !self.files && fd >= 0 {
                set_attributes(fd, c"", NODEV)?;
                move_tree(fd, path)?;
            }
        }
        make_directory(c"/dev/pts")?;
        let terminals = libc::MS_NOSUID | libc::MS_NOEXEC;
        mount(
            c"devpts",
            c"/dev/pts",
            terminals,
            Some(c"newinstance,ptmxmode=0666"),
        )?;
        for (target, path) in LINKS {
            make_link(target, path)?;
        }
        if let (Some(node), Some(fd)) = (&self.device, device) {
            node.place(fd)?;
        }
        setattr(libc::AT_FDCWD, c"/dev", RDONLY | NODEV, 0)
    }

    fn allow(&self, rules: &Ruleset, places: &[(RawFd, RawFd); PLACES]) -> Done {
        if !self.files {
            return rules.allow(open_place(c"/")?, true);
        }
        rules.allow_writing(open_place(c"/dev")?)?;
        rules.allow(open_place(SHARED[0])?, true)?;
        for (fd, _) in places.iter().take(self.writable.len()) {
            rules.allow(*fd, status(*fd)?.st_mode & libc::S_IFMT == libc::S_IFDIR)?;
        }
        Ok(())
    }
}

impl Built {
    /// The last steps, after which nothing more can be built: the capabilities that are kept, of
    /// which a user namespace leaves none, and the rules. All walls that stand, by their bits.
    pub(crate) fn finish(&self, in_users: bool) -> Result<u32, i32> {
        keep_capabilities(if in_users { &[] } else { &KEPT })?;
        // SAFETY: numbers only.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        let users = if in_users { IN_USERS } else { 0 };
        let mut walls = self.walls | users | BY_CAPABILITIES;
        if let Some(rules) = &self.rules {
            rules.restrict()?;
            walls |= BY_LANDLOCK;
        }
        Ok(walls)
    }
}

/// Gives the calling process mounts of its own, which nobody else sees change.
pub(crate) fn new_mounts() -> Done {
    // SAFETY: flags only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let all = libc::MS_REC | libc::MS_PRIVATE;
    mount(c"none", c"/", all, None)
}

/// Shows the processes of the own namespace alone, and lets nothing of the kernel be set. A
/// container may not allow a new `/proc` (in a user namespace only): there the old one stays.
fn hide_the_kernel() -> Done {
    let nothing = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    match mount(c"proc", c"/proc", nothing, None) {
        Err(libc::EPERM) => set_attributes(libc::AT_FDCWD, c"/proc", RDONLY)?,
        other => other?,
    }
    let groups = mount(
        c"tmpfs",
        c"/sys/fs/cgroup",
        nothing,
        Some(c"mode=555,size=4k"),
    );
    let settings = set_attributes(libc::AT_FDCWD, c"/sys", RDONLY);
    for done in [groups, settings] {
        if done != Err(libc::ENOENT) {
            done?;
        }
    }
    Ok(())
}

/// The maps of the user namespace that the calling process is in: its own user and group alone.
pub(crate) fn map_self(users: &CStr, groups: &CStr) -> Done {
    write_file(c"/proc/self/setgroups", c"deny")?;
    write_file(c"/proc/self/uid_map", users)?;
    write_file(c"/proc/self/gid_map", groups)
}

impl Node {
    fn of(device: &HeldDevice) -> Result<Self, i32> {
        Ok(Node {
            path: text(&device.path)?,
            number: libc::makedev(device.major, device.minor),
            name: with_directories(&format!("/dev/{}", device.name))?,
            link: with_directories(&device.link)?,
        })
    }

    /// The node as a detached mount; ENODEV when it is another device by now.
    fn clone_tree(&self) -> Result<RawFd, i32> {
        let fd = clone_tree(&self.path)?;
        let status = status(fd)?;
        let is_block = status.st_mode & libc::S_IFMT == libc::S_IFBLK;
        if is_block && status.st_rdev == self.number {
            Ok(fd)
        } else {
            Err(libc::ENODEV)
        }
    }

    /// Puts it into the private `/dev`.
    fn place(&self, fd: RawFd) -> Done {
        let (name, directories) = self.name.split_last().ok_or(libc::EINVAL)?;
        directories
            .iter()
            .try_for_each(|each| make_directory(each))?;
        place_node(fd, name)?;
        let Some((link, directories)) = self.link.split_last() else {
            return Ok(());
        };
        directories
            .iter()
            .try_for_each(|each| make_directory(each))?;
        make_link(&self.path, link)
    }
}

fn clone_tree(path: &CStr) -> Result<RawFd, i32> {
    clone_tree_at(libc::AT_FDCWD, path)
}

fn clone_tree_at(at: RawFd, path: &CStr) -> Result<RawFd, i32> {
    let here = if path.is_empty() {
        libc::AT_EMPTY_PATH
    } else {
        0
    };
    let flags = OPEN_TREE_CLONE | RECURSIVE | (libc::O_CLOEXEC | here) as libc::c_uint;
    // SAFETY: a null-terminated path.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, at, path.as_ptr(), flags) };
    check(fd as libc::c_int)?;
    Ok(fd as RawFd)
}

/// Puts the detached node of a device at a new path. Its mount is read-only: the device is written
/// to all the same, but owner, mode and times are those of the host's node.
fn place_node(fd: RawFd, path: &CStr) -> Done {
    set_attributes(fd, c"", RDONLY)?;
    make_file(path)?;
    move_tree(fd, path)
}

fn move_tree(fd: RawFd, path: &CStr) -> Done {
    move_mount(fd, libc::AT_FDCWD, path, MOVE_FROM_EMPTY)
}

fn move_tree_onto(fd: RawFd, place: RawFd) -> Done {
    move_mount(fd, place, c"", MOVE_FROM_EMPTY | MOVE_TO_EMPTY)
}

fn move_mount(fd: RawFd, at: RawFd, path: &CStr, flags: libc::c_uint) -> Done {
    // SAFETY: null-terminated paths and a descriptor of a detached mount.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            fd,
            c"".as_ptr(),
            at,
            path.as_ptr(),
            flags,
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

/// Mounts a file system of this kind.
fn mount(kind: &CStr, path: &CStr, flags: libc::c_ulong, data: Option<&CStr>) -> Done {
    let data = data.map_or(std::ptr::null(), CStr::as_ptr);
    let (name, path) = (kind.as_ptr(), path.as_ptr());
    // SAFETY: null-terminated strings.
    check(unsafe { libc::mount(name, path, name, flags, data.cast()) })
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

/// Keeps these of the capabilities that there are, which no exec and no other user gives back.
fn keep_capabilities(kept: &[u32]) -> Done {
    for capability in 0..64 {
        if kept.contains(&capability) {
            continue;
        }
        // SAFETY: numbers only.
        match check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }) {
            Err(libc::EINVAL) => break, // the kernel has no more
            other => other?,
        }
    }
    let mask = kept.iter().fold(0u64, |all, each| all | 1 << each);
    // include/uapi/linux/capability.h, version 3: effective, permitted, inheritable; low, high
    let header: [u32; 2] = [0x2008_0522, 0];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: structures of the version that is given.
    unsafe {
        check(libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) as libc::c_int)?;
        for (number, [effective, permitted, inheritable]) in sets.iter_mut().enumerate() {
            *permitted &= (mask >> (32 * number)) as u32;
            (*effective, *inheritable) = (*permitted, 0);
        }
        check(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) as libc::c_int)
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
                0 => libc::_exit(
                    new_mounts()
                        .and_then(|()| wall.build())
                        .and_then(|built| built.finish(false))
                        .err()
                        .unwrap_or(0),
                ),
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
