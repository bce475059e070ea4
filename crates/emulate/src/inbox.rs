//! What readers and the control hand to the worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A queue of many writers and one reader, taken as a whole.
pub struct Inbox<T> {
    messages: Mutex<Vec<T>>,
    arrived: Condvar,
    is_filled: AtomicBool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox {
            messages: Mutex::default(),
            arrived: Condvar::new(),
            is_filled: AtomicBool::new(false),
        }
    }
}

impl<T> Inbox<T> {
    /// Adds a message and wakes the worker.
    pub fn put(&self, message: T) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(message);
        self.is_filled.store(true, Ordering::Release);
        drop(messages);
        self.arrived.notify_one();
    }

    /// Moves all messages to `into`.
    pub fn take(&self, into: &mut Vec<T>) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        into.append(&mut messages);
        self.is_filled.store(false, Ordering::Release);
    }

    /// Whether there is a message, without a lock.
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// Sleeps until there is a message, at most so long.
    pub fn wait(&self, at_most: Option<Duration>) {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if !messages.is_empty() {
            return;
        }
        match at_most {
            Some(at_most) => drop(self.arrived.wait_timeout(messages, at_most)),
            None => drop(self.arrived.wait(messages)),
        }
    }
}
