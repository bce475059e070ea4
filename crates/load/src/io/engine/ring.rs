//! Setting up a ring with the cheapest flags that the kernel takes.

use io_uring::IoUring;
use rustix::io::Errno;

use crate::io::error::IoError;

/// Milliseconds that a submitting kernel thread polls before it sleeps.
const SQPOLL_IDLE_MS: u32 = 50;

/// What a ring is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingOptions {
    pub entries: u32,
    pub iopoll: bool,
    pub sqpoll: bool,
}

/// Flags in the order in which they are tried; older kernels refuse the first ones (`EINVAL`).
const LADDER: [&str; 4] = [
    "single_issuer+defer_taskrun+no_sqarray",
    "single_issuer+defer_taskrun",
    "coop_taskrun",
    "none",
];

/// A ring and the flags that it got. Must be called by the thread that will use it.
pub(crate) fn build(options: RingOptions) -> Result<(IoUring, String), IoError> {
    let mut refusal = Errno::INVAL;
    for flags in LADDER {
        // A submitting thread runs the task work itself.
        if options.sqpoll && flags.contains("taskrun") {
            continue;
        }
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
        if options.iopoll {
            builder.setup_iopoll();
        }
        if options.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
        match builder.build(options.entries) {
            Ok(ring) => {
                let polls = [(options.iopoll, "+iopoll"), (options.sqpoll, "+sqpoll")];
                let more: String = polls.iter().filter(|p| p.0).map(|p| p.1).collect();
                return Ok((ring, format!("{flags}{more}")));
            }
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
