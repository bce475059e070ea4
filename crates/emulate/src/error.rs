//! What can go wrong with an emulated device.

use schedlab_sim::SimError;

/// A device that cannot be described or served.
#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    /// The description, its keys or sizes.
    #[error(transparent)]
    Model(#[from] SimError),
    /// A system call.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel answered.
        source: std::io::Error,
    },
}

impl EmulateError {
    /// Wraps the error of a system call.
    pub fn system(what: &'static str) -> impl Fn(std::io::Error) -> EmulateError {
        move |source| EmulateError::System { what, source }
    }

    /// Whether the description is at fault, not the host.
    pub fn is_description(&self) -> bool {
        matches!(self, EmulateError::Model(_))
    }
}
