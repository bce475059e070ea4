//! Memory that a parent and its forked tasks share: one header, then one part per task.

use std::marker::PhantomData;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use super::scheduling::Refusal;

/// States of a task; 0 is one that is not ready yet.
pub(super) const READY: u32 = 1;
pub(super) const FAILED: u32 = 2;
pub(super) const DONE: u32 = 3;

/// Types that can be in shared memory.
///
/// # Safety
/// All fields are atomics for which zero bytes are valid, and the type is aligned to 128 bytes at
/// most.
pub(super) unsafe trait Zeroed {}

// SAFETY: it has no fields.
unsafe impl Zeroed for () {}

/// The mapping; unmapped when dropped.
pub(super) struct Mapping<Header, Part> {
    base: NonNull<u8>,
    parts: usize,
    types: PhantomData<(Header, Part)>,
}

impl<Header: Zeroed, Part: Zeroed> Mapping<Header, Part> {
    /// Where the parts begin: behind the header, aligned for both.
    const FIRST: usize = std::mem::size_of::<Header>().next_multiple_of(128);

    fn length(parts: usize) -> usize {
        Self::FIRST + parts * std::mem::size_of::<Part>()
    }

    /// Zeroed memory for `parts` tasks, inherited by forked children. With `populated` its pages
    /// are there from the start, so that no task faults while it is measured.
    pub fn new(parts: usize, populated: bool) -> Result<Self, Refusal> {
        let extra = if populated {
            MapFlags::POPULATE
        } else {
            MapFlags::empty()
        };
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                Self::length(parts),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | extra,
            )
        }
        .map_err(|e| Refusal::new("memory", e.raw_os_error()))?;
        Ok(Mapping {
            base: NonNull::new(base.cast()).ok_or(Refusal::new("memory", libc::ENOMEM))?,
            parts,
            types: PhantomData,
        })
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a Header, for which zero bytes are valid (`Zeroed`);
        // pages are aligned to more than 128 bytes.
        unsafe { self.base.cast().as_ref() }
    }

    pub fn parts(&self) -> &[Part] {
        // SAFETY: `parts` parts follow at FIRST, a multiple of 128; zero bytes are valid.
        unsafe {
            let first = self.base.add(Self::FIRST).cast();
            std::slice::from_raw_parts(first.as_ptr(), self.parts)
        }
    }
}

impl<Header, Part> Drop for Mapping<Header, Part> {
    fn drop(&mut self) {
        let length = std::mem::size_of::<Header>().next_multiple_of(128)
            + self.parts * std::mem::size_of::<Part>();
        // SAFETY: unmaps exactly what `new` mapped; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), length) };
    }
}

// SAFETY: everything reached through the pointer is atomic (`Zeroed`).
unsafe impl<Header: Zeroed, Part: Zeroed> Send for Mapping<Header, Part> {}
// SAFETY: as above.
unsafe impl<Header: Zeroed, Part: Zeroed> Sync for Mapping<Header, Part> {}
