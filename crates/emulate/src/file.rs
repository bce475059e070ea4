//! The FUSE file system: a directory with one file, `disk`. The only part that knows FUSE.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, WriteFlags,
};
use schedlab_sim::Kind;

use crate::clock::Clock;
use crate::data::Store;
use crate::inbox::Inbox;
use crate::serve::{Arrival, Reply};

/// Name of the file in the mounted directory.
const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Nothing of the file ever changes, so the kernel need not ask again.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// The most that FUSE carries in a request: 256 pages.
const REQUEST_BYTES: u32 = 1 << 20;
const BACKGROUND: u16 = 1024;
/// Buffers that exist from the start, and their size: small requests then allocate nothing.
const BUFFERS: usize = 128;
const BUFFER_BYTES: usize = 64 << 10;

/// What the readers and the rest of the server share.
pub struct Shared<M> {
    /// To the worker.
    pub inbox: Inbox<M>,
    /// The clock of all stamps.
    pub clock: Clock,
    /// Reads and writes that the store refused.
    pub errors: AtomicU64,
    /// Reads, writes and discards that have their stamp and no answer. The kernel does not count
    /// flushes among those in flight.
    pub seen: Seen,
}

/// Numbers of requests, of which each holds one `Counted`: those that wait for their time, and
/// those that are being answered.
#[derive(Clone, Default)]
pub struct Seen(Arc<[AtomicU64; 2]>);

impl Seen {
    /// How many of `in_flight` requests were not seen. One that is being answered may be over for
    /// the kernel: a sample that has to wait for the end of the answer finds it so.
    pub fn hidden_of(&self, in_flight: u64) -> i64 {
        let [waiting, answered] = [0, 1].map(|at| self.0[at].load(Ordering::Relaxed) as i64);
        let others = in_flight as i64 - waiting;
        others - others.clamp(0, answered.max(0))
    }

    fn one_more(&self) -> Counted {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        Counted {
            seen: self.clone(),
            place: 0,
        }
    }
}

/// One of those that were seen, until it is dropped.
struct Counted {
    seen: Seen,
    place: usize,
}

impl Counted {
    /// It waits no longer.
    fn begin_answer(&mut self) {
        self.seen.0[1].fetch_add(1, Ordering::Relaxed);
        self.seen.0[0].fetch_sub(1, Ordering::Relaxed);
        self.place = 1;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.seen.0[self.place].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A message to the worker that can carry a request.
pub trait FromArrival: Send + 'static {
    /// Wraps it.
    fn from_arrival(arrival: Arrival<FuseReply>) -> Self;
}

type Buffers = Arc<Mutex<Vec<Vec<u8>>>>;

/// The way back to the kernel.
pub struct FuseReply {
    way: Way,
    /// None for a flush.
    counted: Option<Counted>,
}

enum Way {
    /// A read: reply, data, their length, and where the buffer belongs.
    Data(ReplyData, Vec<u8>, usize, Buffers),
    /// A write of so many bytes.
    Written(ReplyWrite, u32),
    /// A flush or discard.
    Empty(ReplyEmpty),
}

impl Reply for FuseReply {
    fn complete(mut self) {
        if let Some(counted) = &mut self.counted {
            counted.begin_answer();
        }
        match self.way {
            Way::Data(reply, buffer, length, buffers) => {
                reply.data(&buffer[..length]);
                buffers
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(buffer);
            }
            Way::Written(reply, length) => reply.written(length),
            Way::Empty(reply) => reply.ok(),
        }
    }

    fn failed(self) {
        match self.way {
            Way::Data(reply, ..) => reply.error(Errno::EIO),
            Way::Written(reply, _) => reply.error(Errno::EIO),
            Way::Empty(reply) => reply.error(Errno::EIO),
        }
    }
}

/// The directory and its file.
pub struct OneFile<M> {
    store: Store,
    size_bytes: u64,
    shared: Arc<Shared<M>>,
    buffers: Buffers,
    /// Inodes that exist.
    known: HashSet<INodeNo>,
}

impl<M: FromArrival> OneFile<M> {
    /// A file of this size.
    pub fn new(store: Store, size_bytes: u64, shared: Arc<Shared<M>>) -> Self {
        let buffers = (0..BUFFERS).map(|_| vec![0; BUFFER_BYTES]).collect();
        OneFile {
            store,
            size_bytes,
            shared,
            buffers: Arc::new(Mutex::new(buffers)),
            known: HashSet::from([INodeNo::ROOT, FILE]),
        }
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if is_file { self.size_bytes } else { 0 },
            blocks: if is_file { self.size_bytes / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: match is_file {
                true => FileType::RegularFile,
                false => FileType::Directory,
            },
            perm: if is_file { 0o600 } else { 0o500 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn buffer(&self, length: usize) -> Vec<u8> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = buffers.pop().unwrap_or_default();
        drop(buffers);
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        buffer
    }

    /// The time at which a request was seen first; it is counted from then on.
    fn stamp(&self) -> (u64, Counted) {
        (self.shared.clock.now_ns(), self.shared.seen.one_more())
    }

    fn hand_over(
        &self,
        (at_ns, counted): (u64, Option<Counted>),
        kind: Kind,
        (offset_bytes, length_bytes): (u64, u64),
        way: Way,
    ) {
        let arrival = Arrival {
            at_ns,
            kind,
            offset_bytes,
            length_bytes,
            reply: FuseReply { way, counted },
        };
        self.shared.inbox.put(M::from_arrival(arrival));
    }

    /// Whether the range is inside the file.
    fn holds(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size_bytes)
    }

    fn refused(&self, error: &io::Error) -> Errno {
        self.shared.errors.fetch_add(1, Ordering::Relaxed);
        Errno::from_i32(error.raw_os_error().unwrap_or(5))
    }
}

impl<M: FromArrival> Filesystem for OneFile<M> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let capabilities = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES;
        let is_set = config.set_max_write(REQUEST_BYTES).is_ok()
            && config.set_max_background(BACKGROUND).is_ok()
            && config.set_congestion_threshold(BACKGROUND).is_ok()
            && config.add_capabilities(capabilities).is_ok();
        is_set
            .then_some(())
            .ok_or_else(|| io::Error::other("the kernel's FUSE is too old"))
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&FOREVER, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.known.contains(&inode) {
            true => reply.attr(&FOREVER, &self.attributes(inode)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (at_ns, counted) = self.stamp();
        if !self.holds(offset, size.into()) {
            return reply.error(Errno::EINVAL);
        }
        let length = size as usize;
        let mut buffer = self.buffer(length);
        if let Err(error) = self.store.read(&mut buffer[..length], offset) {
            return reply.error(self.refused(&error));
        }
        let way = Way::Data(reply, buffer, length, self.buffers.clone());
        self.hand_over(
            (at_ns, Some(counted)),
            Kind::Read,
            (offset, size.into()),
            way,
        );
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (at_ns, counted) = self.stamp();
        let length = data.len() as u64;
        if !self.holds(offset, length) {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = self.store.write(data, offset) {
            return reply.error(self.refused(&error));
        }
        let way = Way::Written(reply, data.len() as u32);
        self.hand_over((at_ns, Some(counted)), Kind::Write, (offset, length), way);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let at_ns = self.shared.clock.now_ns();
        self.hand_over((at_ns, None), Kind::Flush, (0, 0), Way::Empty(reply));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (at_ns, counted) = self.stamp();
        // FALLOC_FL_PUNCH_HOLE and FALLOC_FL_ZERO_RANGE: discard and write zeroes.
        let is_clearing = mode & (0x02 | 0x10) != 0;
        if !is_clearing || length == 0 || !self.holds(offset, length) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if let Err(error) = self.store.discard(offset, length) {
            return reply.error(self.refused(&error));
        }
        let way = Way::Empty(reply);
        self.hand_over((at_ns, Some(counted)), Kind::Trim, (offset, length), way);
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.size_bytes / 4096, 0, 0, 2, 0, 4096, 255, 4096);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_seen_until_it_is_answered() {
        let seen = Seen::default();
        let (mut first, second) = (seen.one_more(), seen.one_more());
        assert_eq!([2, 5, 1].map(|n| seen.hidden_of(n)), [0, 3, -1]);
        first.begin_answer();
        // It is over for the kernel, or not; a third one was not seen.
        assert_eq!([1, 2, 3].map(|n| seen.hidden_of(n)), [0, 0, 1]);
        drop(first);
        assert_eq!([1, 2].map(|n| seen.hidden_of(n)), [0, 1]);
        drop(second);
        assert_eq!(seen.hidden_of(0), 0);
    }
}
