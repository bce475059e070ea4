//! What processes submit: records that go together, and the bios of each.

use std::cmp::Reverse;

use super::super::queue::Limits;
use super::super::request::{Bio, IoContext, Op, NONE};
use super::super::Scheduler;
use super::{Event, Io, Purpose, Running, PAGE_SECTORS};
use crate::SimError;

/// Records that are submitted together go through a plug if they are more
/// (`io_submit_state_start` of `io_uring/io_uring.c`).
const PLUGGED_ABOVE: u32 = 2;
/// Sectors of a piece of memory that is larger than a page (`BLK_MAX_SEGMENT_SIZE`).
const PIECE_SECTORS: u64 = 128;

impl<S: Scheduler> Running<'_, S> {
    /// Submits `count` records and those that the process sends with them: it was woken once for
    /// all that completed together (`io_submit_sqes` of `io_uring/io_uring.c`).
    pub(super) fn submit_batch(&mut self, index: u32, mut count: u32) -> Result<(), SimError> {
        // With its first records a process submits what it waits for besides.
        let others = u32::from(count > 1);
        while self.goes_on(index) {
            self.events.pop();
            count += 1;
        }
        let is_plugged = count + others > PLUGGED_ABOVE;
        for _ in 0..count {
            self.issue(index);
            if !is_plugged {
                self.queue.unplug(index);
                self.pass()?;
            }
        }
        self.queue.unplug(index);
        Ok(())
    }

    /// Whether the process submits one more at this moment.
    fn goes_on(&mut self, index: u32) -> bool {
        let has_more = self
            .events
            .peek()
            .is_some_and(|Reverse((at_ns, .., next))| {
                *at_ns == self.queue.ctx.now_ns && *next == Event::Issue(index, 1)
            });
        has_more && self.races.unit() >= self.job.settings.woken_early.0
    }

    /// Submits a range as bios of at most `max_sectors_kb` and so many segments; false if one of
    /// them waits for a tag.
    pub(super) fn send(
        &mut self,
        process: u32,
        context: IoContext,
        (op, sync): (Op, bool),
        (sector, sectors): (u64, u64),
        purpose: Purpose,
    ) -> bool {
        let arrival_ns = self.queue.ctx.now_ns;
        let io = self.ios.add(Io {
            left: sectors.div_ceil(self.most_sectors(process, op)) as u32,
            end: sector + sectors,
            arrival_ns,
            purpose,
        });
        let first = Bio {
            process,
            io,
            context,
            op,
            sync,
            sector,
            sectors: 0,
            segments: 0,
            arrival_ns,
            next: NONE,
        };
        self.submit(first, sector, sector + sectors)
    }

    /// Submits bios like `bio` for a range. One that has to wait for a tag holds up the rest of its
    /// record: it is false then.
    pub(super) fn submit(&mut self, bio: Bio, mut start: u64, end: u64) -> bool {
        let piece = self.piece_sectors(bio.process, bio.op);
        while start < end {
            let sectors = self.most_sectors(bio.process, bio.op).min(end - start);
            let came = self.queue.submit(Bio {
                sector: start,
                sectors: sectors as u32,
                segments: sectors.div_ceil(piece) as u32,
                ..bio
            });
            if !came {
                return false;
            }
            start += sectors;
        }
        true
    }

    pub(super) fn most_sectors(&self, process: u32, op: Op) -> u64 {
        let most = u64::from(Limits::default().max_segments) * self.piece_sectors(process, op);
        most.min(u64::from(self.job.settings.max_sectors_kb) * 2)
    }

    /// Sectors of each piece of memory. The page cache reads ahead into large folios, and writes
    /// back page by page.
    fn piece_sectors(&self, process: u32, op: Op) -> u64 {
        let process = &self.processes[process as usize];
        let is_large = match process.spec.direct {
            true => process.is_huge,
            false => op != Op::Write,
        };
        if is_large {
            PIECE_SECTORS
        } else {
            PAGE_SECTORS
        }
    }
}
