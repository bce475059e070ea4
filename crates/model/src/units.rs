//! Sizes and times as types, so that a number never loses its unit between two functions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// A size or an offset in bytes. Reads `4096`, `"4k"`, `"4KiB"`, `"1G"` (powers of 1024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A time in nanoseconds. Reads `20000`, `"20us"`, `"0.02ms"`, `"3s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a number followed by a known unit.
    #[error("{text:?} is not a {what}; expected a number and one of {units}")]
    Malformed {
        /// What was read.
        text: String,
        /// "size" or "time".
        what: &'static str,
        /// The units that are understood.
        units: &'static str,
    },
}

const SIZE_UNITS: [(&str, u64); 5] = [
    ("", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];
const TIME_UNITS: [(&str, u64); 6] = [
    ("", 1),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
];

/// Number and unit of `text`, or nothing when it is no finite non-negative number.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let number: f64 = text[..at].parse().ok()?;
    Some((number, text[at..].trim().to_ascii_lowercase()))
}

fn scale(number: f64, factor: u64) -> Option<u64> {
    let product = number * factor as f64;
    (product.is_finite() && product < 1.8e19).then_some(product.round() as u64)
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let malformed = || UnitError::Malformed {
            text: text.to_owned(),
            what: "size",
            units: "B, k, M, G, T (KiB, MiB, …; powers of 1024)",
        };
        let (number, unit) = split(text).ok_or_else(malformed)?;
        let unit = unit
            .strip_suffix("ib")
            .or(unit.strip_suffix('b'))
            .unwrap_or(&unit);
        let (_, factor) = SIZE_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(malformed)?;
        scale(number, *factor).map(Bytes).ok_or_else(malformed)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let malformed = || UnitError::Malformed {
            text: text.to_owned(),
            what: "time",
            units: "ns, us, ms, s, m",
        };
        let (number, unit) = split(text).ok_or_else(malformed)?;
        let (_, factor) = TIME_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(malformed)?;
        scale(number, *factor).map(Nanos).ok_or_else(malformed)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, name) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >> shift > 0 && self.0 % (1 << shift) == 0 {
                return write!(out, "{} {name}", self.0 >> shift);
            }
        }
        write!(out, "{} B", self.0)
    }
}

impl Nanos {
    /// Seconds as a float, for rates.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// A number, or text with a unit: what TOML and JSON files may hold.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

macro_rules! from_number_or_text {
    ($type:ident) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                match NumberOrText::deserialize(from)? {
                    NumberOrText::Number(number) => Ok($type(number)),
                    NumberOrText::Text(text) => text.parse().map_err(serde::de::Error::custom),
                }
            }
        }
    };
}
from_number_or_text!(Bytes);
from_number_or_text!(Nanos);

/// A number that JSON may also carry as text, because it knows no NaN: the range check of its key
/// is then what refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Real(pub f64);

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(f64),
            Text(String),
        }
        match NumberOrText::deserialize(from)? {
            NumberOrText::Number(number) => Ok(Real(number)),
            NumberOrText::Text(text) => text.parse().map(Real).map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_in_any_spelling() {
        for text in ["16k", "16K", "16KiB", "16 kib", "16384", "16384B", "16kb"] {
            assert_eq!(text.parse(), Ok(Bytes(16384)), "{text}");
        }
        assert_eq!("0.5G".parse(), Ok(Bytes(1 << 29)));
    }

    #[test]
    fn times_carry_their_unit() {
        assert_eq!("0.02ms".parse(), Ok(Nanos(20_000)));
        assert_eq!("3s".parse(), Ok(Nanos(3_000_000_000)));
    }

    #[test]
    fn nonsense_is_refused_with_the_text() {
        for text in ["", "k", "-4k", "4x", "1e400", "99999999T", "nan"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn sizes_print_in_the_largest_whole_unit() {
        assert_eq!(Bytes(4096).to_string(), "4 KiB");
        assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
        assert_eq!(Bytes(513).to_string(), "513 B");
        assert_eq!(Bytes(1536).to_string(), "1536 B");
        assert_eq!(Bytes(3 << 19).to_string(), "1536 KiB");
    }
}
