//! Which stream a write belongs to.

use super::{StreamBy, StreamsSpec};
use crate::engine::Command;

/// Parts of the hot window in which the time of the last write is kept.
const PARTS: u64 = 16;

/// The rule of a device.
pub(super) struct Streams {
    spec: StreamsSpec,
    /// When each page was written last, in parts of the hot window from 1 on; 0: never. Only for
    /// `recency`.
    written: Vec<u32>,
}

impl Streams {
    pub(super) fn new(spec: StreamsSpec, pages: u32) -> Self {
        let keeps_times = spec.number > 1 && spec.by == StreamBy::Recency;
        Streams {
            spec,
            written: vec![0; if keeps_times { pages as usize } else { 0 }],
        }
    }

    /// The stream of a page that a command writes.
    #[inline]
    pub(super) fn of(&mut self, command: &Command, page: u32, now_ns: u64) -> u8 {
        let number = self.spec.number as u8;
        if number == 1 {
            return 0;
        }
        match self.spec.by {
            StreamBy::Volume => command.volume % number,
            StreamBy::Queue => (command.queue % u16::from(number)) as u8,
            StreamBy::Size => (command.pages.max(1).ilog2() as u8).min(number - 1),
            StreamBy::Recency => self.by_recency(page, now_ns),
        }
    }

    fn by_recency(&mut self, page: u32, now_ns: u64) -> u8 {
        let last = self.spec.number as u8 - 1;
        let part_ns = (self.spec.hot_window.0 / PARTS).max(1);
        let now = u32::try_from(now_ns / part_ns + 1).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut self.written[page as usize], now);
        if before == 0 {
            return last;
        }
        let mut reach = PARTS;
        (0..last)
            .find(|_| {
                let is_within = u64::from(now - before) <= reach;
                reach *= 4;
                is_within
            })
            .unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Nanos;

    fn streams(number: u32, by: StreamBy) -> Streams {
        let hot_window = Nanos(1_600);
        Streams::new(
            StreamsSpec {
                number,
                by,
                hot_window,
            },
            10,
        )
    }

    #[test]
    fn each_rule_by_hand() {
        let command = Command {
            volume: 5,
            queue: 2,
            pages: 3,
            ..Command::default()
        };
        assert_eq!(streams(1, StreamBy::Volume).of(&command, 0, 0), 0);
        assert_eq!(streams(3, StreamBy::Volume).of(&command, 0, 0), 2);
        assert_eq!(streams(2, StreamBy::Queue).of(&command, 0, 0), 0);
        for (pages, stream) in [(1, 0), (3, 1), (4, 2), (7, 2), (8, 2), (400, 2)] {
            let command = Command { pages, ..command };
            assert_eq!(streams(3, StreamBy::Size).of(&command, 0, 0), stream);
        }
        let mut recency = streams(3, StreamBy::Recency);
        // First, after 1600 ns, after 6400 ns, after more.
        for (now_ns, stream) in [(0, 2), (1_600, 0), (8_000, 1), (16_000, 2)] {
            assert_eq!(recency.of(&command, 4, now_ns), stream, "{now_ns}");
        }
        assert_eq!(recency.of(&command, 5, 16_000), 2);
    }
}
