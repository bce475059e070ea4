//! Where a worker runs in the eyes of an I/O scheduler: its cgroup and its I/O priority.

use super::error::IoError;
use super::job::Group;

const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;

/// Puts the calling worker into the cgroup and the priority of its group, before it opens files.
pub(crate) fn enter(group: &Group) -> Result<(), IoError> {
    if let Some(directory) = &group.cgroup {
        // "0" is the writing process, in both versions of cgroups.
        let members = directory.join("cgroup.procs");
        std::fs::write(&members, "0").map_err(|error| IoError::System {
            path: members.clone(),
            operation: "enter the cgroup",
            errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
        })?;
    }
    if let Some(ioprio) = group.ioprio {
        let value = (ioprio.class as u32) << IOPRIO_CLASS_SHIFT | u32::from(ioprio.level);
        // SAFETY: sets a property of the calling thread; no memory is involved.
        let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) };
        if set != 0 {
            let error = std::io::Error::last_os_error();
            return Err(group.refuse("ioprio", format!("refused by the kernel: {error}")));
        }
    }
    Ok(())
}
