//! Whether a capture adds up: the sectors of the requests whose end it knows, beside those that the
//! kernel counted for the device (`/sys/block/X/stat`, Documentation/block/stat.rst).

use serde::Serialize;

/// Fields of `stat`: sectors read, written, discarded.
const SECTORS: [usize; 3] = [2, 6, 13];

/// The two counts. The kernel's is read before and after the capture begins and ends, so it is
/// known between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accounting {
    /// Of requests that completed, or ended without an event.
    pub captured_sectors: u64,
    /// The least and the most that the device moved meanwhile; nothing where it does not count.
    pub device_sectors: Option<(u64, u64)>,
    /// Sectors beyond the bounds that the capture missed; below 0: that it has too many.
    pub gap_sectors: i64,
}

/// What a device counts, from the beginning of a capture on.
pub(crate) struct DeviceCount {
    device: String,
    /// Before and after the capture began.
    began: (Option<u64>, Option<u64>),
}

impl DeviceCount {
    /// Begins to count: the device and its count before the capture could see anything.
    pub fn begin(device: &str) -> Self {
        DeviceCount {
            device: device.to_owned(),
            began: (sectors(device), None),
        }
    }

    /// The capture has begun.
    pub fn begun(&mut self) {
        self.began.1 = self.now();
    }

    /// The count of this moment.
    pub fn now(&self) -> Option<u64> {
        sectors(&self.device)
    }

    /// Requests that are in the driver.
    pub fn in_flight(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/sys/block/{}/inflight", self.device)).ok()?;
        text.split_whitespace().map(|n| n.parse::<u64>().ok()).sum()
    }

    /// The sectors of a capture that ended, or was looked at, between two moments.
    pub fn compared(&self, captured: u64, ended: (Option<u64>, Option<u64>)) -> Accounting {
        let bounds = match (self.began, ended) {
            ((Some(before), Some(after)), (Some(first), Some(last))) => {
                Some((first.saturating_sub(after), last.saturating_sub(before)))
            }
            _ => None,
        };
        Accounting {
            captured_sectors: captured,
            device_sectors: bounds,
            gap_sectors: bounds.map_or(0, |(least, most)| gap(captured, least, most)),
        }
    }
}

fn gap(captured: u64, least: u64, most: u64) -> i64 {
    captured.clamp(least, most) as i64 - captured as i64
}

/// Nothing where the device does not count (`queue/iostats`).
fn sectors(device: &str) -> Option<u64> {
    let read = |name| std::fs::read_to_string(format!("/sys/block/{device}/{name}"));
    if read("queue/iostats").ok()?.trim() == "0" {
        return None;
    }
    let stat = read("stat").ok()?;
    let fields: Vec<u64> = stat.split_whitespace().flat_map(str::parse).collect();
    let each = SECTORS.iter().map(|field| fields.get(*field));
    // Discards are counted since Linux 4.18.
    Some(each.map(|sectors| sectors.copied().unwrap_or(0)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_closes_between_the_bounds_and_says_by_how_much_not() {
        let count = DeviceCount {
            device: "absent".to_owned(),
            began: (Some(100), Some(110)),
        };
        for (captured, gap) in [(90, 0), (100, 0), (120, 0), (80, 10), (129, -9)] {
            let seen = count.compared(captured, (Some(200), Some(220)));
            assert_eq!(seen.device_sectors, Some((90, 120)));
            assert_eq!(seen.gap_sectors, gap, "{captured}");
        }
        let unknown = count.compared(7, (None, Some(1)));
        assert_eq!((unknown.device_sectors, unknown.gap_sectors), (None, 0));
        assert_eq!((count.now(), count.in_flight()), (None, None));
    }
}
