//! Requests in the driver of a device over time: `/sys/block/DEV/inflight`, read about every 10 ms
//! by a separate thread, so that a run can report how deep the queue below the scheduler was.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::result::Inflight;
use super::series::BIN_NS;
use crate::clock;

const INTERVAL_NS: u64 = 10_000_000;

/// When, and how many reads and writes were in the driver.
type Sample = (u64, u64, u64);

/// The sampling thread; ends when dropped.
pub(crate) struct Sampler {
    device: String,
    stop: Arc<AtomicBool>,
    thread: Result<JoinHandle<Vec<Sample>>, String>,
}

impl Sampler {
    /// Begins to sample the device of that name or path.
    pub(crate) fn start(device: &str) -> Sampler {
        let device = device.rsplit('/').next().unwrap_or(device).to_owned();
        let path = Path::new("/sys/class/block").join(&device).join("inflight");
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = Arc::clone(&stop);
        let opened = File::open(&path).map_err(|error| format!("{}: {error}", path.display()));
        let thread = opened.and_then(|file| {
            let builder = std::thread::Builder::new().name("schedlab-inflight".into());
            let spawned = builder.spawn(move || sample(&file, &thread_stop));
            spawned.map_err(|error| error.to_string())
        });
        Sampler {
            device,
            stop,
            thread,
        }
    }

    /// Ends the sampling; returns the samples between `from` and `to`, with times since `gate`.
    pub(crate) fn finish(self, gate: u64, from: u64, to: u64) -> Inflight {
        self.stop.store(true, Ordering::Relaxed);
        let mut result = Inflight {
            device: self.device,
            ..Inflight::default()
        };
        match self.thread.map(JoinHandle::join) {
            Ok(Ok(samples)) => sum_up(&mut result, &samples, gate, from, to),
            Ok(Err(_)) => result.error = Some("the sampling thread died".into()),
            Err(reason) => result.error = Some(reason),
        }
        result
    }
}

fn sample(file: &File, stop: &AtomicBool) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(1024);
    let mut next = clock::now();
    while !stop.load(Ordering::Relaxed) {
        let mut text = [0; 64];
        let Ok(length) = file.read_at(&mut text, 0) else {
            break;
        };
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        if let (Some(Ok(reads)), Some(Ok(writes))) = (numbers.next(), numbers.next()) {
            samples.push((clock::now(), reads, writes));
        }
        next = (next + INTERVAL_NS).max(clock::now());
        clock::sleep_until(next);
    }
    samples
}

fn sum_up(result: &mut Inflight, samples: &[Sample], gate: u64, from: u64, to: u64) {
    let inside: Vec<&Sample> = samples
        .iter()
        .filter(|s| (from..=to).contains(&s.0))
        .collect();
    let count = inside.len().max(1) as f64;
    let mean =
        |of: &dyn Fn(&Sample) -> u64| inside.iter().map(|s| of(s)).sum::<u64>() as f64 / count;
    result.samples = inside.len() as u64;
    result.mean = mean(&|s| s.1 + s.2);
    result.max = inside.iter().map(|s| s.1 + s.2).max().unwrap_or(0);
    result.reads_mean = mean(&|s| s.1);
    result.writes_mean = mean(&|s| s.2);
    let all = samples
        .iter()
        .filter(|s| s.0 >= gate && s.0 <= to)
        .collect::<Vec<_>>();
    for bin in all.chunk_by(|a, b| (a.0 - gate) / BIN_NS == (b.0 - gate) / BIN_NS) {
        let sum: u64 = bin.iter().map(|s| s.1 + s.2).sum();
        let t_ms = (bin[0].0 - gate) / BIN_NS * (BIN_NS / 1_000_000);
        result.series.push((t_ms, sum as f64 / bin.len() as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_means_of_the_window_and_a_series_since_the_gate() {
        let ms = |at: u64| 5_000_000_000 + at * 1_000_000;
        let samples = [
            (ms(20), 9, 9), // while it ramps up: in the series alone
            (ms(110), 1, 0),
            (ms(150), 3, 2),
            (ms(310), 2, 4),
            (ms(420), 50, 50),
        ];
        let mut result = Inflight::default();
        sum_up(&mut result, &samples, ms(0), ms(100), ms(400));
        assert_eq!((result.samples, result.max), (3, 6));
        assert_eq!((result.reads_mean, result.writes_mean), (2.0, 2.0));
        assert_eq!(result.mean, 4.0);
        assert_eq!(result.series, [(0, 18.0), (100, 3.0), (300, 6.0)]);
    }
}
