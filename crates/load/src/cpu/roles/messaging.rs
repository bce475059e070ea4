//! Messages through pipes or socket pairs: many senders and receivers, or one pair in turn.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::super::board::{Desk, Header};
use crate::child::Refusal;

const LARGEST: usize = 4096;

/// The two ends of a channel.
pub(crate) struct Channel {
    pub reading: OwnedFd,
    pub writing: OwnedFd,
}

impl Channel {
    /// A pipe, or a pair of stream sockets.
    pub fn new(by_socket: bool) -> Result<Self, Refusal> {
        let failed = |e: rustix::io::Errno| Refusal::new("memory", e.raw_os_error());
        if by_socket {
            let (mut ends, kind) = ([0i32; 2], libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
            // SAFETY: the kernel writes two descriptors into a valid array.
            if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
                return Err(Refusal::last("memory"));
            }
            // SAFETY: both were just made and have no other owner.
            let [reading, writing] =
                ends.map(|fd| unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) });
            return Ok(Channel { reading, writing });
        }
        let (reading, writing) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed)?;
        Ok(Channel { reading, writing })
    }
}

/// Writes `rounds` messages to each receiver in turn; whether all went.
pub(crate) fn sender(
    header: &Header,
    desk: &Desk,
    receivers: &[Channel],
    rounds: u64,
    bytes: usize,
) -> bool {
    let message = [0u8; LARGEST];
    for _ in 0..rounds {
        for receiver in receivers {
            if header.is_stopped() {
                return false;
            }
            if !write_all(receiver.writing.as_raw_fd(), &message[..bytes.min(LARGEST)]) {
                return false;
            }
        }
        desk.count();
    }
    true
}

/// Reads `messages` messages; whether all came.
pub(crate) fn receiver(
    header: &Header,
    desk: &Desk,
    channel: &Channel,
    messages: u64,
    bytes: usize,
) -> bool {
    let mut message = [0u8; LARGEST];
    for _ in 0..messages {
        if header.is_stopped()
            || !read_all(
                channel.reading.as_raw_fd(),
                &mut message[..bytes.min(LARGEST)],
            )
        {
            return false;
        }
        desk.count();
    }
    true
}

/// Passes one byte back and forth `rounds` times; the first of the two starts.
pub(crate) fn ping_pong(
    header: &Header,
    desk: &Desk,
    (to, from): (&Channel, &Channel),
    rounds: u64,
    is_first: bool,
) -> bool {
    let mut byte = [0u8; 1];
    for round in 0..rounds {
        let write = |byte: &[u8]| write_all(to.writing.as_raw_fd(), byte);
        if is_first && !write(&byte) {
            return false;
        }
        if !read_all(from.reading.as_raw_fd(), &mut byte) || !is_first && !write(&byte) {
            return false;
        }
        if !desk.lap(header, round, rounds) {
            return false;
        }
    }
    true
}

fn write_all(fd: RawFd, message: &[u8]) -> bool {
    let mut written = 0;
    while written < message.len() {
        let rest = &message[written..];
        // SAFETY: writes from a valid slice.
        match unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) } {
            n if n > 0 => written += n as usize,
            _ => return false,
        }
    }
    true
}

fn read_all(fd: RawFd, message: &mut [u8]) -> bool {
    let mut filled = 0;
    while filled < message.len() {
        let rest = &mut message[filled..];
        // SAFETY: reads into a valid slice.
        match unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) } {
            n if n > 0 => filled += n as usize,
            _ => return false,
        }
    }
    true
}
