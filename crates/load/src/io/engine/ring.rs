//! Setting up a ring with the cheapest flags that the kernel takes.

use io_uring::IoUring;
use rustix::io::Errno;

use crate::io::error::IoError;

/// Flags in the order in which they are tried; older kernels refuse the first ones (`EINVAL`).
const LADDER: [&str; 4] = [
    "single_issuer+defer_taskrun+no_sqarray",
    "single_issuer+defer_taskrun",
    "coop_taskrun",
    "none",
];

/// A ring of so many entries, and the flags that it got. Must be called by the thread that uses it.
pub(crate) fn build(entries: u32) -> Result<(IoUring, String), IoError> {
    let mut refusal = Errno::INVAL;
    for flags in LADDER {
        let mut builder = IoUring::builder();
        if flags.contains("single_issuer") {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        if flags.contains("no_sqarray") {
            builder.setup_no_sqarray();
        }
        if flags.contains("coop") {
            builder.setup_coop_taskrun();
        }
        match builder.build(entries) {
            Ok(ring) => return Ok((ring, flags.to_owned())),
            Err(error) => refusal = errno_of(&error),
        }
        if refusal != Errno::INVAL {
            break;
        }
    }
    Err(match refusal {
        Errno::PERM | Errno::ACCESS | Errno::NOSYS => IoError::RingRefused { errno: refusal },
        errno => IoError::Ring {
            operation: "setup",
            errno,
        },
    })
}

/// The error number inside an error of the io-uring crate.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
