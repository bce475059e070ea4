//! Processes that go through the page cache.

use super::super::request::Op;
use super::super::Scheduler;
use super::{flusher, Purpose, Running, FLUSHING};

impl<S: Scheduler> Running<'_, S> {
    /// Lets a buffered process continue if the pages that it waits for are there.
    pub(super) fn unblock(&mut self, index: u32) {
        let process = &mut self.processes[index as usize];
        let Some((since_ns, start, end, op)) = process.blocked else {
            return;
        };
        if op == Op::Read {
            let (limit, context) = (process.records.end(), process.context);
            while let Some((from, to)) =
                self.processes[index as usize].ahead.want(start, end, limit)
            {
                let range = (from, to - from);
                self.send(index, context, (Op::Read, true), range, Purpose::Ahead(to));
            }
            self.queue.unplug(index);
            if self.processes[index as usize].ahead.there < end {
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
        if self.queue.ctx.now_ns >= self.warm_ns && self.ended.is_none() {
            process.tally.moved((end - start) * 512);
        }
        self.finished(index, since_ns, Purpose::Own);
    }

    /// Sends dirty data while enough is dirty, or all of it for an fsync.
    pub(super) fn flush(&mut self, index: u32) {
        let most = u64::from(self.job.settings.max_sectors_kb) * 2;
        loop {
            let process = &mut self.processes[index as usize];
            let much = process.dirty.sectors * 512 > process.spec.dirty_limit.0 / 2;
            if process.flushing >= FLUSHING || !(much || process.is_syncing) {
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
            self.send(index, context, (Op::Write, sync), piece, Purpose::Flush);
        }
        self.queue.unplug(index);
    }
}
