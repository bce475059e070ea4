//! What a model gives without a kernel above it: the prediction that a live run is compared with.

use schedlab_model::{Histogram, Rng};
use schedlab_sim::{Kind, SimError, Stepped, Submission};
use serde::Serialize;

use crate::Model;

/// Figures of a closed loop of random requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Completed requests per second.
    pub iops: f64,
    /// Mean response, ns.
    pub mean_ns: f64,
    /// Its 99th percentile, ns.
    pub p99_ns: u64,
}

/// `requests` random requests of `length_bytes`, `depth` outstanding; a new one arrives
/// `host_delay_ns` after each completion. A depth or a length of 0 is refused.
pub fn predict(
    model: &Model,
    requests: u64,
    depth: u32,
    length_bytes: u64,
    is_write: bool,
    host_delay_ns: u64,
) -> Result<Prediction, SimError> {
    for (key, value) in [("depth", u64::from(depth)), ("record_bytes", length_bytes)] {
        if value == 0 {
            return Err(SimError::range(key, value, "at least 1"));
        }
    }
    let mut device: Box<dyn Stepped> = model.build()?;
    let mut rng = Rng::new(1, 0);
    let records = (model.facts().size_bytes / length_bytes).max(1);
    let kind = if is_write { Kind::Write } else { Kind::Read };
    let mut arrivals = std::collections::VecDeque::from(vec![0; depth as usize]);
    let (mut issued, mut response, mut end_ns) = (Vec::new(), Histogram::new(), 0);
    let mut completions = Vec::new();
    while response.count() < requests {
        let next_ns = device.next_time_ns();
        match arrivals.front() {
            Some(at_ns) if next_ns.is_none_or(|next_ns| *at_ns <= next_ns) => {
                let submission = Submission {
                    at_ns: *at_ns,
                    tag: issued.len() as u64,
                    kind,
                    offset_bytes: rng.below(records) * length_bytes,
                    length_bytes,
                };
                issued.push(*at_ns);
                device.submit(submission)?;
                arrivals.pop_front();
            }
            _ => device.advance(&mut completions),
        }
        for completion in completions.drain(..) {
            response.record(completion.at_ns - issued[completion.tag as usize]);
            arrivals.push_back(completion.at_ns + host_delay_ns);
            end_ns = completion.at_ns;
        }
    }
    Ok(Prediction {
        iops: response.count() as f64 * 1e9 / (end_ns.max(1) as f64),
        mean_ns: response.mean().unwrap_or(0.0),
        p99_ns: response.quantile(0.99).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceConfig;

    /// Two servers of 1 ms: three requests at a time are one and a half times as many as they.
    #[test]
    fn a_closed_loop_of_a_device_that_is_known() {
        let config = DeviceConfig::of("model = 'fixed'\nservice = '1ms'\nservers = 2\nsize = '1m'");
        let model = Model::new(&config).unwrap();
        for (depth, host_delay_ns, per_s, mean_ns) in [
            (1, 0, 1000.0, 1e6),
            (2, 0, 2000.0, 1e6),
            (3, 0, 2000.0, 1.5e6),
            (1, 3_000_000, 250.0, 1e6),
        ] {
            let found = predict(&model, 4000, depth, 4096, false, host_delay_ns).unwrap();
            assert!(
                (found.iops / per_s - 1.0).abs() < 0.01,
                "{depth}: {found:?}"
            );
            assert!(
                (found.mean_ns / mean_ns - 1.0).abs() < 0.01,
                "{depth}: {found:?}"
            );
        }
    }

    #[test]
    fn requests_go_to_many_places() {
        let text = include_str!("../../sim/devices/disk7200.toml");
        let disk = Model::new(&DeviceConfig::of(text)).unwrap();
        let found = predict(&disk, 1000, 1, 4096, false, 0).unwrap();
        // A head that stays on its track waits for the same part of a turn each time.
        assert!(found.p99_ns as f64 > 1.3 * found.mean_ns, "{found:?}");
    }

    #[test]
    fn a_load_of_nothing_is_refused() {
        let config = DeviceConfig::of("model = 'fixed'\nservice = '1ms'\nservers = 1\nsize = '1m'");
        let model = Model::new(&config).unwrap();
        for (depth, length_bytes, named) in [(0, 4096, "depth"), (1, 0, "record_bytes")] {
            let error = predict(&model, 10, depth, length_bytes, false, 0).unwrap_err();
            assert!(error.to_string().starts_with(named), "{error}");
        }
    }
}
