//! Everything that can be wrong with a simulation; each error names the key and the range allowed.

use schedlab_model::error::{self, DescriptionError};

/// A simulation that cannot be carried out, or was stopped.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A key, a name or a file of a description that is wrong.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A workload with a key that is unknown or of the wrong type.
    #[error("workload: {0}")]
    Workload(String),
    /// A request that does not fit the device or the order of time.
    #[error("request {index}: {key} = {value}: expected {expected}")]
    Request {
        /// Number of the request, from 0.
        index: u64,
        /// The field of the request.
        key: &'static str,
        /// Its value.
        value: String,
        /// The range allowed.
        expected: String,
    },
    /// Requests could not be read.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
    /// A policy that is not ours failed.
    #[error("policy {0}")]
    Policy(String),
    /// The caller asked to stop.
    #[error("the simulation was stopped")]
    Stopped,
}

impl SimError {
    /// A name that is none of `known`.
    pub(crate) fn unknown<'a>(
        key: &'static str,
        name: impl Into<String>,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        DescriptionError::unknown(key, name, known).into()
    }

    /// A file that is not what it should be.
    pub fn file(place: impl Into<String>, detail: impl ToString) -> Self {
        DescriptionError::file(place, detail).into()
    }

    /// A value outside its range.
    pub fn range(
        key: impl Into<String>,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        DescriptionError::range(key, value, expected).into()
    }
}

/// An error unless `holds`.
pub(crate) fn require(
    holds: bool,
    key: impl Into<String>,
    value: impl ToString,
    expected: impl Into<String>,
) -> Result<(), SimError> {
    Ok(error::require(holds, key, value, expected)?)
}

/// The same for a value outside `range`, which the error shows.
pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    key: impl Into<String>,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), SimError> {
    Ok(error::within(key, value, range)?)
}
