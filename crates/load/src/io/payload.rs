//! What is written: random data that was laid down before the clock started, with a running number
//! stored into each 4 KiB of it, so that no two records on the device are equal (a device that
//! compresses or deduplicates gains nothing).

use schedlab_model::Step;

const PAGE: usize = 4096;

/// The data of one worker's records, made different by a running number.
pub(crate) struct Payload {
    number: u64,
}

impl Payload {
    /// The payload of a worker.
    pub(crate) fn new(seed: u64) -> Payload {
        Payload { number: seed << 20 }
    }

    /// Makes the buffer what the step writes.
    #[inline]
    pub(crate) fn prepare(&mut self, step: Step, buffer: &mut [u8]) {
        if !step.is_write {
            return;
        }
        for page in buffer.chunks_mut(PAGE) {
            self.number += 1;
            let size = page.len().min(8);
            page[..size].copy_from_slice(&self.number.to_le_bytes()[..size]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_that_are_written_are_equal() {
        let mut payload = Payload::new(1);
        let step = Step {
            record: 0,
            is_write: true,
        };
        let mut pages = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let mut buffer = vec![0; 4 * PAGE];
            payload.prepare(step, &mut buffer);
            pages.extend(buffer.chunks(PAGE).map(<[u8]>::to_vec));
        }
        assert_eq!(pages.len(), 12);
    }
}
