//! What can stop a job before or while it runs. Failures of single requests are not errors of the
//! job: they are counted in its result.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use schedlab_model::error::DescriptionError;
use schedlab_model::Bytes;

/// A job that cannot run as requested.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The JSON is not a job.
    #[error("job: {0}")]
    Malformed(String),
    /// A key of a group has a value that cannot be.
    #[error("group {group:?}: {key}: {reason}")]
    Setting {
        /// Name of the group.
        group: String,
        /// The key of the description.
        key: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The workload of a group cannot be carried out.
    #[error("group {group:?}: workload: {source}")]
    Workload {
        /// Name of the group.
        group: String,
        /// The key and its range.
        source: DescriptionError,
    },
    /// A system call on a file failed before or after the measured window.
    #[error("{}: {operation}: {}", path.display(), describe(*errno))]
    System {
        /// The file or device.
        path: PathBuf,
        /// What was tried, such as `open` or `fsync`.
        operation: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Under `O_DIRECT` a size or offset is no multiple of the device's block.
    #[error(
        "{}: {what} of {value} is not a multiple of the logical block size of {block}, \
         which O_DIRECT requires",
        path.display()
    )]
    Misaligned {
        /// The file or device.
        path: PathBuf,
        /// "record size" or "offset".
        what: &'static str,
        /// Its value.
        value: Bytes,
        /// The logical block size.
        block: Bytes,
    },
    /// The file or device is smaller than what is to be touched.
    #[error("{}: holds {size}, but the workload touches {needed}", path.display())]
    TooSmall {
        /// The file or device.
        path: PathBuf,
        /// What it holds.
        size: Bytes,
        /// End of the last record.
        needed: Bytes,
    },
    /// The path is neither a file nor a block device, or a device where a fresh file was asked.
    #[error("{}: is {actual}, expected {expected}", path.display())]
    WrongKind {
        /// What was given.
        path: PathBuf,
        /// What it is.
        actual: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The job writes to a block device, and the caller passed no consent for it.
    #[error(
        "{}: refusing to write: there is no consent for this block device (an open descriptor \
         that holds and locks it)",
        .0.display()
    )]
    NotGivenUp(PathBuf),
    /// Buffers and orders of all workers would take more than half of the memory.
    #[error("buffers and orders of all workers need {needed}, the limit is {limit}")]
    TooMuchMemory {
        /// Their size.
        needed: Bytes,
        /// Half of the memory.
        limit: Bytes,
    },
    /// The kernel refuses io_uring (seccomp, sysctl, or too old).
    #[error("io_uring refused by the kernel: {}", describe(*errno))]
    RingRefused {
        /// `EPERM` (seccomp or `kernel.io_uring_disabled`), `ENOSYS` (too old), …
        errno: Errno,
    },
    /// A ring could not be set up as requested.
    #[error("io_uring: {operation}: {}", describe(*errno))]
    Ring {
        /// Which step.
        operation: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// What a worker process could not do; in its own words.
    #[error("{text}")]
    Worker {
        /// The message.
        text: String,
        /// A change or a command that helps.
        hint: String,
        /// Whether the description is at fault.
        description: bool,
    },
    /// A worker thread could not be started or died.
    #[error("worker thread: {0}")]
    Thread(String),
}

impl IoError {
    /// Whether the description is at fault, rather than the machine.
    pub fn is_description(&self) -> bool {
        !matches!(
            self,
            IoError::System { .. }
                | IoError::RingRefused { .. }
                | IoError::Ring { .. }
                | IoError::NotGivenUp(_)
                | IoError::Thread(_)
                | IoError::Worker {
                    description: false,
                    ..
                }
        )
    }

    /// A change or a command that helps; empty when none is known.
    pub fn hint(&self) -> String {
        match self {
            IoError::Misaligned { block, .. } => {
                format!("use a multiple of {}, or buffered I/O", block.0)
            }
            IoError::TooMuchMemory { .. } => "use a smaller record, depth or span, or fewer \
                 workers"
                .into(),
            IoError::TooSmall { size, .. } => format!("use a span of at most {} bytes", size.0),
            IoError::RingRefused { .. } => "sysctl kernel.io_uring_disabled=0, or allow the \
                 fallback to psync (allow_fallback)"
                .into(),
            IoError::Worker { hint, .. } => hint.clone(),
            IoError::NotGivenUp(_) => "add --destroy-data DEVICE; in Python, \
                 schedlab.host.safety.consent.consent_to(DEVICE).target is the path to write to"
                .into(),
            IoError::System { errno, .. } if *errno == Errno::ACCESS || *errno == Errno::PERM => {
                match rustix::process::geteuid().is_root() {
                    // By the devices of its control group, a label, or an attribute of the file.
                    true => {
                        "not even root may here: outside of a container, or as one that was \
                         given the device (docker run --device)"
                    }
                    false => "run as root, or choose a file that you own",
                }
                .into()
            }
            IoError::System {
                errno: Errno::INVAL,
                operation: "open",
                ..
            } => "the file system may not support O_DIRECT; use buffered I/O".into(),
            _ => String::new(),
        }
    }

    pub(crate) fn system(path: &Path, operation: &'static str) -> impl Fn(Errno) -> IoError {
        let path = path.to_owned();
        move |errno| IoError::System {
            path: path.clone(),
            operation,
            errno,
        }
    }
}

/// The kernel's words for an error and its symbolic name.
pub(crate) fn describe(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    format!("{words} ({})", name(errno.raw_os_error()))
}

/// Symbolic name of an error number, such as `EIO`; the number itself when it is a rare one.
pub(crate) fn name(errno: i32) -> String {
    let known = [
        (libc::EIO, "EIO"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EINTR, "EINTR"),
        (libc::EINVAL, "EINVAL"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENXIO, "ENXIO"),
        (libc::EFBIG, "EFBIG"),
        (libc::EDQUOT, "EDQUOT"),
        (libc::EROFS, "EROFS"),
        (libc::EBADF, "EBADF"),
        (libc::EFAULT, "EFAULT"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::ECANCELED, "ECANCELED"),
        (libc::EREMOTEIO, "EREMOTEIO"),
        (libc::EPERM, "EPERM"),
        (libc::EACCES, "EACCES"),
        (libc::ENOENT, "ENOENT"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EISDIR, "EISDIR"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EBUSY, "EBUSY"),
        (libc::EMFILE, "EMFILE"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}
