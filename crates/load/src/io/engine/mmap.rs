//! A memory mapping, one record at a time: copies from and to the page cache, page faults
//! included. `sync` makes every written record durable by `msync(MS_SYNC)`; `MS_ASYNC` is not
//! offered because it does nothing on Linux (mm/msync.c).

use std::ffi::c_void;
use std::ptr::null_mut;

use rustix::io::{pread, pwrite, Errno};
use rustix::mm::{mmap, msync, munmap, MapFlags, MsyncFlags, ProtFlags};
use schedlab_model::{Direction, Step};

use super::psync::one_at_a_time;
use super::sigbus::Guard;
use crate::clock;
use crate::io::buffer::Region;
use crate::io::error::IoError;
use crate::io::job::Sync;
use crate::io::tally::Stop;
use crate::io::worker::Worker;

const PAGE: u64 = 4096;

/// The mapped part of a file, and the buffer on the other side of the copies.
pub(crate) struct Mapping {
    start: *mut u8,
    length: usize,
    /// Offset in the file of the first mapped byte.
    origin: u64,
    writable: bool,
    region: Region,
    guard: Guard,
}

// SAFETY: the mapping is memory that only this worker touches through this value.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `prepare`, which nothing else unmaps.
        let _ = unsafe { munmap(self.start.cast::<c_void>(), self.length) };
    }
}

impl Mapping {
    pub(crate) fn prepare(worker: &Worker) -> Result<Mapping, IoError> {
        let workload = &worker.group.workload;
        let writable = workload.direction != Direction::Read;
        let region = Region::new(1, workload.record.0 as usize, workload.seed)
            .map_err(worker.target.failed("allocate buffers"))?;
        let origin = worker.target.offset & !(PAGE - 1);
        let end = worker.target.offset + worker.group.records_per_worker() * workload.record.0;
        let length = (end - origin) as usize;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap(
                null_mut(),
                length,
                protection(writable),
                MapFlags::SHARED,
                &worker.target.file,
                origin,
            )
        }
        .map_err(worker.target.failed("mmap"))?
        .cast::<u8>();
        let guard = Guard::new(start as usize, length).ok_or_else(|| {
            IoError::Thread("too many mappings at once, or SIGBUS cannot be caught".into())
        });
        match guard {
            Ok(guard) => Ok(Mapping {
                start,
                length,
                origin,
                writable,
                region,
                guard,
            }),
            Err(error) => {
                // SAFETY: the mapping above, which nothing points to.
                let _ = unsafe { munmap(start.cast::<c_void>(), length) };
                Err(error)
            }
        }
    }

    pub(crate) fn run(&mut self, worker: &mut Worker, gate_ns: u64) -> Stop {
        one_at_a_time(worker, gate_ns, |worker, step, offset, started| {
            worker.payload.prepare(step, self.region.slot(0));
            let result = self.transfer(worker, step, offset);
            let now = clock::now();
            let latency = now.saturating_sub(started);
            worker
                .tally
                .complete(step.is_write, offset, result, now, latency);
            now
        })
    }

    /// Copies one record; the bytes moved or a negative error number.
    #[inline]
    fn transfer(&mut self, worker: &Worker, step: Step, offset: u64) -> i32 {
        let buffer = self.region.slot(0);
        // SAFETY: the record is inside the mapping (`prepare` mapped up to the last one).
        let mapped = unsafe { self.start.add((offset - self.origin) as usize) };
        // SAFETY: both sides are one record long and do not overlap; pages that cannot be had
        // raise SIGBUS, which `Guard` turns into zero pages and a count.
        unsafe {
            if step.is_write {
                std::ptr::copy_nonoverlapping(buffer.as_ptr(), mapped, buffer.len());
            } else {
                std::ptr::copy_nonoverlapping(mapped, buffer.as_mut_ptr(), buffer.len());
            }
        }
        let length = buffer.len();
        if self.guard.hit() {
            return self.repair(worker, step, offset, length);
        }
        if step.is_write && worker.group.sync != Sync::None {
            if let Err(errno) = self.sync_range(mapped as usize, length) {
                return -errno.raw_os_error();
            }
        }
        length as i32
    }

    fn sync_range(&self, address: usize, length: usize) -> Result<(), Errno> {
        let first = address & !(PAGE as usize - 1);
        // SAFETY: whole pages of the mapping.
        unsafe {
            msync(
                first as *mut c_void,
                address + length - first,
                MsyncFlags::SYNC,
            )
        }
    }

    /// A page could not be had: maps the file again over the replacement and asks the kernel by
    /// a system call what the matter is.
    #[cold]
    fn repair(&self, worker: &Worker, step: Step, offset: u64, length: usize) -> i32 {
        let first = offset & !(PAGE - 1);
        let bytes = (offset + length as u64 - first) as usize;
        // SAFETY: replaces whole pages of our own mapping by the same pages of the file.
        let mapped = unsafe {
            mmap(
                self.start.add((first - self.origin) as usize).cast(),
                bytes,
                protection(self.writable),
                MapFlags::SHARED | MapFlags::FIXED,
                &worker.target.file,
                first,
            )
        };
        let mut byte = [0u8];
        let transfer = if step.is_write {
            (first..offset + length as u64)
                .step_by(PAGE as usize)
                .try_for_each(|at| pwrite(&worker.target.file, &byte, at.max(offset)).map(drop))
        } else {
            pread(&worker.target.file, &mut byte, offset).map(drop)
        };
        let errno = mapped.err().or(transfer.err()).unwrap_or(Errno::IO);
        -errno.raw_os_error()
    }
}

fn protection(writable: bool) -> ProtFlags {
    if writable {
        ProtFlags::READ | ProtFlags::WRITE
    } else {
        ProtFlags::READ
    }
}
