//! What can be wrong with a description; each error names the key and what is allowed.

/// A description that cannot be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DescriptionError {
    /// A key has a value outside its range.
    #[error("{key} = {value}: expected {expected}")]
    OutOfRange {
        /// The key of the description.
        key: String,
        /// Its value.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// A name that no registry holds.
    #[error("{key} = {name:?} is not known: expected one of {known}")]
    Unknown {
        /// The key of the description.
        key: &'static str,
        /// The name given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A file that cannot be read as one.
    #[error("{place}: {detail}")]
    File {
        /// Name or path of the file.
        place: String,
        /// The message of its reader.
        detail: String,
    },
}

impl DescriptionError {
    /// A name that is none of `known`.
    pub fn unknown<'a>(
        key: &'static str,
        name: impl Into<String>,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        DescriptionError::Unknown {
            key,
            name: name.into(),
            known: known.join(", "),
        }
    }

    /// A file that is not what it should be.
    pub fn file(place: impl Into<String>, detail: impl ToString) -> Self {
        DescriptionError::File {
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
        DescriptionError::OutOfRange {
            key: key.into(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }
}

/// An [`DescriptionError::OutOfRange`] unless `holds`.
pub fn require(
    holds: bool,
    key: impl Into<String>,
    value: impl ToString,
    expected: impl Into<String>,
) -> Result<(), DescriptionError> {
    if holds {
        Ok(())
    } else {
        Err(DescriptionError::range(key, value, expected))
    }
}

/// The same for a value outside `range`, which the error shows.
pub fn within<T: PartialOrd + std::fmt::Display>(
    key: impl Into<String>,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), DescriptionError> {
    let expected = format!("{} to {}", range.start(), range.end());
    require(range.contains(&value), key, value, expected)
}
