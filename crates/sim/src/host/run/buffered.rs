//! Processes that go through the page cache.

use super::super::request::Op;
use super::super::Scheduler;
use super::{flusher, Purpose, Running, PAGE_SECTORS};

impl<S: Scheduler> Running<'_, S> {
    /// Lets a buffered process continue if the pages that it waits for are there.
    pub(super) fn unblock(&mut self, index: u32) {
        let process = &mut self.processes[index as usize];
        let Some((since_ns, start, end, op)) = process.blocked else {
            return;
        };
        if process.is_held_up {
            return;
        }
        if op == Op::Read {
            let (limit, context) = (process.records.end(), process.context);
            while let Some((from, to)) =
                self.processes[index as usize].ahead.want(start, end, limit)
            {
                let range = (from, to - from);
                if !self.send(index, context, (Op::Read, true), range, Purpose::Ahead(to)) {
                    self.processes[index as usize].is_held_up = true;
                    break;
                }
            }
            self.queue.unplug(index);
            let process = &self.processes[index as usize];
            if process.is_held_up || process.ahead.there < end {
                return;
            }
        } else if process.is_syncing {
            if process.flushing > 0 || process.dirty.sectors > 0 {
                return;
            }
            process.is_syncing = false;
            process.unsynced = 0;
        } else if process.dirty.sectors * 512 > process.spec.dirty_limit.0 {
            return;
        }
        let process = &mut self.processes[index as usize];
        process.blocked = None;
        process.copy_ns = (end - start) / PAGE_SECTORS * self.job.settings.page_copy_ns;
        let began_ns = since_ns.saturating_sub(process.copy_ns);
        if self.queue.ctx.now_ns >= self.warm_ns && self.ended.is_none() {
            process.tally.moved((end - start) * 512);
        }
        self.finished(index, began_ns, Purpose::Own);
    }

    /// Sends dirty data while enough is dirty, or all of it for an fsync, until a piece has to wait
    /// for a tag. Each page of a piece is a segment (`block_write_full_folio`).
    pub(super) fn flush(&mut self, index: u32) {
        let most = self.most_sectors(index, Op::Write);
        loop {
            let process = &mut self.processes[index as usize];
            let much = process.dirty.sectors * 512 > process.spec.dirty_limit.0 / 2;
            if process.is_held_up || !(much || process.is_syncing) {
                break;
            }
            let Some(piece) = process.dirty.take(most) else {
                break;
            };
            process.flushing += 1;
            let (context, sync) = match process.is_syncing {
                true => (process.context, true),
                false => (flusher(), false),
            };
            let came = self.send(index, context, (Op::Write, sync), piece, Purpose::Flush);
            self.processes[index as usize].is_held_up = !came;
        }
        self.queue.unplug(index);
    }
}
