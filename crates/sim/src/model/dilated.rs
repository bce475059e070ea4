//! The simulated counterpart of an emulated device: it has the size that was asked for, though a
//! geometry has room for more, and with `dilate` it takes a multiple of its time, above which the
//! kernel's scheduler keeps its own clock.

use crate::{Completion, SimError, Stepped, Submission};

/// The first bytes of `device`, `factor` times slower.
pub struct Dilated {
    device: Box<dyn Stepped>,
    factor: u64,
    size_bytes: u64,
}

impl Dilated {
    /// A factor of 0 counts as 1.
    pub fn new(device: Box<dyn Stepped>, factor: u64, size_bytes: u64) -> Self {
        let factor = factor.max(1);
        Dilated {
            device,
            factor,
            size_bytes,
        }
    }
}

impl Stepped for Dilated {
    fn capacity_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn submit(&mut self, submission: Submission) -> Result<(), SimError> {
        let at_ns = submission.at_ns / self.factor;
        self.device.submit(Submission {
            at_ns,
            ..submission
        })
    }

    fn next_time_ns(&self) -> Option<u64> {
        Some(self.device.next_time_ns()?.saturating_mul(self.factor))
    }

    fn advance(&mut self, completions: &mut Vec<Completion>) {
        let first = completions.len();
        self.device.advance(completions);
        for completion in &mut completions[first..] {
            completion.at_ns = completion.at_ns.saturating_mul(self.factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceConfig, Model};
    use crate::Kind;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn requests_of_one_millisecond_take_ten() {
        let config = DeviceConfig::of("model = 'fixed'\nservice = '1ms'\nservers = 1\nsize = '1m'");
        let device = Model::new(&config).unwrap().build().unwrap();
        let mut slow = Dilated::new(device, 10, 1 << 20);
        for tag in 0..2 {
            let submission = Submission {
                at_ns: 5_000_000,
                tag,
                kind: Kind::Read,
                offset_bytes: 0,
                length_bytes: 4096,
            };
            slow.submit(submission).unwrap();
        }
        let mut completions = Vec::new();
        while slow.next_time_ns().is_some() {
            slow.advance(&mut completions);
        }
        let times: Vec<u64> = completions.iter().map(|each| each.at_ns).collect();
        assert_eq!(times, [15_000_000, 25_000_000]);
    }
}
