//! The memory that requests move: one page-aligned region per worker, one slot per request in
//! flight, filled with incompressible data before the clock starts.

use std::ffi::c_void;
use std::ptr::{null_mut, NonNull};

use rustix::io::Errno;
use rustix::mm::{madvise, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};
use schedlab_model::Rng;

/// Slots begin on pages, which satisfies every device's memory alignment for `O_DIRECT`.
const PAGE: usize = 4096;

/// `slots` buffers of one record each.
pub(crate) struct Region {
    start: NonNull<u8>,
    length: usize,
    stride: usize,
    record: usize,
}

// SAFETY: the region is plain memory that only its owner points to.
unsafe impl Send for Region {}

impl Region {
    /// Maps and fills the region: every page is present afterwards, huge ones where there are any.
    pub(crate) fn new(slots: u32, record: usize, seed: u64) -> Result<Region, Errno> {
        Region::with_pages(slots, record, seed, Advice::LinuxHugepage)
    }

    /// The same with a word on the size of pages.
    pub(crate) fn with_pages(
        slots: u32,
        record: usize,
        seed: u64,
        pages: Advice,
    ) -> Result<Region, Errno> {
        let stride = record.next_multiple_of(PAGE);
        let length = stride.checked_mul(slots as usize).ok_or(Errno::NOMEM)?;
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: the mapping above; advice changes no content. Small pages do as well.
        let _ = unsafe { madvise(start, length, pages) };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let mut region = Region {
            start,
            length,
            stride,
            record,
        };
        region.fill(seed);
        Ok(region)
    }

    fn fill(&mut self, seed: u64) {
        let mut rng = Rng::new(seed, 3);
        // SAFETY: the whole mapping, borrowed mutably through `self`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
    }

    /// First byte of a slot.
    #[inline]
    pub(crate) fn pointer(&self, slot: usize) -> *mut u8 {
        debug_assert!((slot + 1) * self.stride <= self.length);
        // SAFETY: a slot that exists is inside the mapping.
        unsafe { self.start.as_ptr().add(slot * self.stride) }
    }

    /// A slot's record. The kernel must not own the slot.
    #[inline]
    pub(crate) fn slot(&mut self, slot: usize) -> &mut [u8] {
        // SAFETY: inside the mapping, borrowed mutably through `self`; the caller has seen the
        // completion of the slot's last request, so the kernel no longer writes to it.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(slot), self.record) }
    }

    /// The whole region as the kernel wants it for registration.
    pub(crate) fn iovec(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.start.as_ptr().cast(),
            iov_len: self.length,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing else unmaps. An engine that may still have
        // requests in flight never drops its region (see `engine::uring`).
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_differ() {
        let mut region = Region::new(3, 512, 1).unwrap();
        assert_eq!(region.pointer(1) as usize % PAGE, 0);
        let first = region.slot(0).to_vec();
        assert_eq!(first.len(), 512);
        assert_ne!(first, region.slot(1));
        assert!(first.iter().any(|byte| *byte != first[0]));
    }
}
