//! Everything that can be wrong with a simulation; each error names the key and the range allowed.

/// A simulation that cannot be carried out, or was stopped.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A key has a value outside its range.
    #[error("{key} = {value}: expected {expected}")]
    OutOfRange {
        /// The key of the configuration.
        key: String,
        /// Its value.
        value: String,
        /// The range allowed.
        expected: String,
    },
    /// A name that no registry holds.
    #[error("{key} = {name:?} is not known: expected one of {known}")]
    Unknown {
        /// The key of the configuration.
        key: &'static str,
        /// The name given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A file of a device or of processes that cannot be read as one.
    #[error("{place}: {detail}")]
    DeviceFile {
        /// Name or path of the file.
        place: String,
        /// The message of the TOML reader.
        detail: String,
    },
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
        let known: Vec<&str> = known.into_iter().collect();
        SimError::Unknown {
            key,
            name: name.into(),
            known: known.join(", "),
        }
    }

    /// A file that is not what it should be.
    pub fn file(place: impl Into<String>, detail: impl ToString) -> Self {
        SimError::DeviceFile {
            place: place.into(),
            detail: detail.to_string(),
        }
    }

    /// A value outside its range.
    pub fn range(
        key: impl Into<String>,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        SimError::OutOfRange {
            key: key.into(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }
}

impl From<schedlab_model::WorkloadError> for SimError {
    fn from(error: schedlab_model::WorkloadError) -> Self {
        let schedlab_model::WorkloadError::OutOfRange {
            key,
            value,
            expected,
        } = error;
        SimError::range(key, value, expected)
    }
}

/// A [`SimError::OutOfRange`] unless `holds`.
pub(crate) fn require(
    holds: bool,
    key: impl Into<String>,
    value: impl ToString,
    expected: impl Into<String>,
) -> Result<(), SimError> {
    if holds {
        Ok(())
    } else {
        Err(SimError::range(key, value, expected))
    }
}

/// The same for a value outside `range`, which the error shows.
pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    key: impl Into<String>,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), SimError> {
    let expected = format!("{} to {}", range.start(), range.end());
    require(range.contains(&value), key, value, expected)
}
