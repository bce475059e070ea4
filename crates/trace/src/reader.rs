//! The thread that empties a ring of the kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread and what it read. Dropping it ends the thread.
pub(crate) struct Reader<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Reader<T> {
    /// Starts a thread; `read` shall return soon after `stop` is set and the thread unparked.
    pub fn start(read: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let its_stop = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("schedlab-ring".to_owned());
        let thread = thread.spawn(move || read(&its_stop));
        let thread = thread.map_err(|error| format!("thread: {error}"))?;
        Ok(Reader {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends the thread: what it read.
    pub fn finish(mut self) -> Result<T, String> {
        let ended = self.end().and_then(Result::ok);
        ended.ok_or_else(|| "the reader of the ring failed".to_owned())
    }
}

impl<T> Reader<T> {
    fn end(&mut self) -> Option<std::thread::Result<T>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread.join())
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Empties a ring every `interval`, and once more when it is to stop.
pub(crate) fn drain_until(stop: &AtomicBool, interval: Duration, mut drain: impl FnMut()) {
    loop {
        let last = stop.load(Ordering::Acquire);
        drain();
        if last {
            return;
        }
        std::thread::park_timeout(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_dropped_has_ended() {
        let alive = Arc::new(());
        let its_own = Arc::clone(&alive);
        let reader = Reader::start(move |stop| {
            drain_until(stop, Duration::from_secs(3600), || {});
            drop(its_own);
        });
        drop(reader.unwrap());
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
