//! A ring in use: requests go into slots of it, and completions come back.

use io_uring::{cqueue, opcode, squeue, types, CompletionQueue, SubmissionQueue, Submitter};
use rustix::io::Errno;
use schedlab_model::Step;

use super::ring::errno_of;
use crate::io::buffer::Region;
use crate::io::error::IoError;
use crate::io::worker::Worker;

/// Marks the completion of the wake-up poll; no slot has this number.
const WAKE: u64 = u64::MAX;

/// `started` of a slot that has no request in flight.
const FREE: u64 = u64::MAX;

/// A request in flight.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub started: u64,
    pub offset: u64,
    pub step: Step,
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        started: FREE,
        offset: 0,
        step: Step {
            record: 0,
            is_write: false,
        },
    };
}

/// Writes the offset into a prebuilt entry.
#[inline]
fn set_offset(entry: &mut squeue::Entry, offset: u64) {
    // SAFETY: `Entry` is `repr(C)` around the kernel's `struct io_uring_sqe`, 64 bytes aligned to
    // 8, whose second 8 bytes are the offset (linux/io_uring.h, a stable ABI).
    unsafe {
        (entry as *mut squeue::Entry)
            .cast::<u64>()
            .add(1)
            .write(offset)
    };
}

/// A ring in use: the parts of `Uring`, borrowed apart.
pub(crate) struct Queue<'a> {
    pub submitter: Submitter<'a>,
    pub submissions: SubmissionQueue<'a>,
    pub completions: CompletionQueue<'a>,
    pub region: &'a mut Region,
    pub slots: &'a mut [Slot],
    pub entries: &'a [[squeue::Entry; 2]],
    pub in_flight: &'a mut u32,
    pub enters: u64,
}

impl Queue<'_> {
    /// The buffers of a replay: for what is read, and twice a record for what is written.
    pub(crate) fn shared_buffers(&self) -> (*mut u8, *mut u8) {
        (self.region.pointer(0), self.region.pointer(1))
    }

    /// Asks to be woken when the main thread wants something.
    pub(super) fn watch(&mut self, wake: i32) {
        let poll = opcode::PollAdd::new(types::Fd(wake), libc::POLLIN as u32).build();
        // SAFETY: the entry points to no memory, and the ring has one entry more than slots.
        let _ = unsafe { self.submissions.push(&poll.user_data(WAKE)) };
    }

    /// Puts the next request of the worker into a slot; false after the pass.
    #[inline(always)] // the hot loop: one function, so that the worker's state stays in registers
    pub(crate) fn arm(&mut self, worker: &mut Worker, slot: usize, started: u64) -> bool {
        let Some((step, offset)) = worker.draw() else {
            return false;
        };
        worker.payload.prepare(step, self.region.slot(slot));
        // A copy in registers: patching the prebuilt entry in memory would stall its copying.
        let mut entry = self.entries[slot][usize::from(step.is_write)].clone();
        set_offset(&mut entry, offset);
        let request = Slot {
            started,
            offset,
            step,
        };
        self.push(slot, request, &entry);
        true
    }

    /// Puts a request into a free slot; its entry points into the region.
    #[inline(always)]
    pub(crate) fn push(&mut self, slot: usize, request: Slot, entry: &squeue::Entry) {
        self.slots[slot] = request;
        // SAFETY: the entry points into the region, which outlives the request (see `Drop`); the
        // slot is free, so nothing else uses its buffer, or all share buffers whose content nobody
        // reads; the ring has an entry for every slot.
        let pushed = unsafe { self.submissions.push(entry) };
        debug_assert!(pushed.is_ok());
        *self.in_flight += u32::from(pushed.is_ok());
    }

    /// The slot of a completion, which is free now, and its request; nothing for the wake-up.
    #[inline(always)]
    pub(crate) fn take(&mut self, completion: &cqueue::Entry) -> Option<(usize, Slot)> {
        let slot = completion.user_data() as usize;
        let request = *self.slots.get(slot)?;
        self.slots[slot].started = FREE;
        *self.in_flight -= 1;
        Some((slot, request))
    }

    /// Submits, and waits for `want` completions, or until `timeout`.
    #[inline]
    pub(crate) fn enter(&mut self, want: u32, timeout_ns: Option<u64>) -> Result<(), IoError> {
        self.submissions.sync();
        // Publishes what was reaped: else the kernel takes it for what is waited for.
        self.completions.sync();
        self.enters += 1;
        let entered = match timeout_ns {
            None if want < *self.in_flight => self.submitter.submit_and_wait(want as usize),
            None => self.submit_then_wait(want as usize),
            Some(ns) => {
                let time = types::Timespec::from(std::time::Duration::from_nanos(ns));
                let arguments = types::SubmitArgs::new().timespec(&time);
                self.submitter.submit_with_args(want as usize, &arguments)
            }
        };
        self.completions.sync();
        self.submissions.sync();
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match errno_of(&error) {
                Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY => Ok(()),
                errno => Err(IoError::Ring {
                    operation: "enter",
                    errno,
                }),
            },
        }
    }

    /// For the wait for all that is in flight, so above all for depth 1: a thread that comes back
    /// from handing over is preempted by the worker of a loop device on its CPU; one that waited
    /// inside the same call would be put to sleep and woken, mostly on another CPU.
    #[inline]
    fn submit_then_wait(&mut self, want: usize) -> std::io::Result<usize> {
        let submitted = self.submitter.submit()?;
        self.completions.sync();
        if self.completions.len() >= want {
            return Ok(submitted);
        }
        self.submissions.sync();
        self.enters += 1;
        self.submitter.submit_and_wait(want)
    }

    /// The next completion that was reaped, if any.
    #[inline]
    pub(crate) fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.completions.next()
    }

    /// Counts a completion; gives its slot, or nothing when it was the wake-up.
    #[inline(always)]
    pub(crate) fn complete(
        &mut self,
        worker: &mut Worker,
        completion: &cqueue::Entry,
        now: u64,
    ) -> Option<usize> {
        let (slot, request) = self.take(completion)?;
        let Slot {
            started,
            offset,
            step,
        } = request;
        let latency = now.saturating_sub(started);
        let result = completion.result();
        worker
            .tally
            .complete(step.is_write, offset, result, now, latency);
        Some(slot)
    }

    /// Ends the worker's window, and counts what has no answer by then.
    pub(crate) fn close_window(&self, worker: &mut Worker, now: u64) {
        worker.close_window(now);
        for slot in self.slots.iter().filter(|slot| slot.started != FREE) {
            worker.tally.leave_pending(now.saturating_sub(slot.started));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_where_the_kernel_looks_for_it() {
        let bytes = |entry: &squeue::Entry| {
            // SAFETY: an entry is 64 initialised bytes.
            unsafe { *(entry as *const squeue::Entry).cast::<[u8; 64]>() }
        };
        let build = |offset| {
            opcode::Read::new(types::Fd(3), std::ptr::null_mut(), 512)
                .offset(offset)
                .build()
        };
        let mut patched = build(0);
        set_offset(&mut patched, 0x1234_5678_9abc_def0);
        assert_eq!(bytes(&patched), bytes(&build(0x1234_5678_9abc_def0)));
    }
}
