//! Rules of Landlock over the places that a program may write to. They hold for files, not for
//! mounts, so that they also stand where a mount is passed by, and for file systems that a program
//! makes and mounts nowhere (`fsmount`): what is not below a place is not allowed. Their system
//! calls alone, because they are made between fork and exec.

use std::os::fd::RawFd;

use crate::child::errno;

/// The version whose renames across directories can be allowed.
const ABI_LEAST: libc::c_long = 2;
// include/uapi/linux/landlock.h
const WRITE_FILE: u64 = 1 << 1;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
/// Removals, and all that can be made, of ABI 1.
const CHANGES: u64 = 0x1ff0;
const DEVICES: u64 = MAKE_CHAR | MAKE_BLOCK;
/// No abstract socket of others: ABI 6. (Signals stay in the process namespace by themselves; here
/// they would not even reach a server that was started beside the program.)
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const RULE_PATH_BENEATH: libc::c_int = 1;

/// A set of rules that is being made; nothing of it holds before [`Ruleset::restrict`].
pub(crate) struct Ruleset {
    fd: RawFd,
    handled: u64,
}

#[repr(C)]
struct Attributes {
    files: u64,
    network: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

impl Ruleset {
    /// Nothing can be changed until it is allowed, and no device node be made at all; with `scoped`
    /// no abstract socket of others be reached. Nothing where the kernel has no Landlock, or an old
    /// one.
    pub(crate) fn new(scoped: bool) -> Option<Self> {
        let version: libc::c_int = 1;
        let none = std::ptr::null::<Attributes>();
        // SAFETY: asks for the version, with the arguments that this takes.
        let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, version) };
        if abi < ABI_LEAST {
            return None;
        }
        let handled = WRITE_FILE | CHANGES | REFER | if abi >= 3 { TRUNCATE } else { 0 };
        let attributes = Attributes {
            files: handled,
            network: 0,
            scoped: if scoped && abi >= 6 {
                SCOPE_ABSTRACT_UNIX_SOCKET
            } else {
                0
            },
        };
        let size = std::mem::size_of::<Attributes>();
        // SAFETY: a structure of the size that is given; what the kernel does not know is zero.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attributes,
                size,
                0,
            )
        };
        (fd >= 0).then_some(Ruleset {
            fd: fd as RawFd,
            handled,
        })
    }

    /// Allows all changes but new device nodes, below a directory or of a file.
    pub(crate) fn allow(&self, place: RawFd, is_directory: bool) -> Result<(), i32> {
        let allowed = if is_directory {
            self.handled & !DEVICES
        } else {
            self.handled & (WRITE_FILE | TRUNCATE)
        };
        self.add(place, allowed)
    }

    /// Allows writing to what is in a directory.
    pub(crate) fn allow_writing(&self, directory: RawFd) -> Result<(), i32> {
        self.add(directory, self.handled & (WRITE_FILE | TRUNCATE))
    }

    fn add(&self, parent: RawFd, allowed: u64) -> Result<(), i32> {
        let rule = Beneath { allowed, parent };
        // SAFETY: the structure of this kind of rule.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd,
                RULE_PATH_BENEATH,
                &raw const rule,
                0,
            )
        };
        if added == 0 {
            Ok(())
        } else {
            Err(errno())
        }
    }

    /// Holds the calling process by these rules, and all that it starts. It can gain no privileges
    /// by then.
    pub(crate) fn restrict(&self) -> Result<(), i32> {
        // SAFETY: a descriptor and flags.
        match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd, 0) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }
}
