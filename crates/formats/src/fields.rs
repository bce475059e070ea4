//! Numbers and fields of text traces, straight from bytes: no UTF-8 check, no allocation.

use super::Mismatch;

/// Cuts a line at a separator byte.
pub struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    /// Fields of `line` between `separator`s.
    #[inline]
    pub fn new(line: &'a [u8], separator: u8) -> Self {
        Fields {
            rest: Some(line),
            separator,
        }
    }

    /// The next field without the white space around it.
    #[inline]
    pub fn take(&mut self, expected: &'static str) -> Result<&'a [u8], Mismatch> {
        self.cut().ok_or(Mismatch(expected))
    }

    /// Nothing more may come.
    #[inline]
    pub fn end(&mut self, expected: &'static str) -> Result<(), Mismatch> {
        match self.cut() {
            None => Ok(()),
            Some(_) => Err(Mismatch(expected)),
        }
    }

    #[inline]
    fn cut(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // Fields are a few bytes: a plain scan beats a vector search here.
        match rest.iter().position(|byte| *byte == self.separator) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                Some(rest[..at].trim_ascii())
            }
            None => {
                self.rest = None;
                Some(rest.trim_ascii())
            }
        }
    }
}

/// Fields between white space.
#[inline]
pub fn words(line: &[u8]) -> Words<'_> {
    Words(line)
}

/// See [`words`].
pub struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| *byte > b' ')?;
        let rest = &self.0[start..];
        // Control characters count as white space too; no format has them.
        let end = rest.iter().position(|byte| *byte <= b' ');
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        Some(word)
    }
}

/// A whole number of at most 64 bits.
#[inline]
pub fn whole(text: &[u8], expected: &'static str) -> Result<u64, Mismatch> {
    /// So many digits always fit.
    const SAFE_DIGITS: usize = 19;
    if text.is_empty() || text.len() > SAFE_DIGITS + 1 {
        return Err(Mismatch(expected));
    }
    let mut value = 0u64;
    for byte in &text[..text.len().min(SAFE_DIGITS)] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Mismatch(expected));
        }
        value = value * 10 + u64::from(digit);
    }
    if let Some(byte) = text.get(SAFE_DIGITS) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Mismatch(expected));
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit)))
            .ok_or(Mismatch(expected))?;
    }
    Ok(value)
}

/// A decimal number times 10^`digits`, exactly; further decimals are cut off.
#[inline]
pub fn decimal(text: &[u8], digits: u32, expected: &'static str) -> Result<u64, Mismatch> {
    let scale = 10u64.pow(digits);
    let (integer, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    if integer.is_empty() && fraction.is_empty() {
        return Err(Mismatch(expected));
    }
    let integer = if integer.is_empty() {
        0
    } else {
        whole(integer, expected)?
    };
    let mut parts = 0u64;
    let mut unit = scale;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Mismatch(expected));
        }
        unit /= 10;
        parts += u64::from(digit) * unit;
    }
    integer
        .checked_mul(scale)
        .and_then(|v| v.checked_add(parts))
        .ok_or(Mismatch(expected))
}

/// `value` times `factor` within 64 bits.
#[inline]
pub fn times(value: u64, factor: u64, expected: &'static str) -> Result<u64, Mismatch> {
    value.checked_mul(factor).ok_or(Mismatch(expected))
}

/// Refuses a range that no file or device has: their addresses are those of lseek(2).
#[inline]
pub fn within(offset: u64, length: u64) -> Result<(), Mismatch> {
    match offset.checked_add(length) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(Mismatch("an end of the request below 2^63 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal(b"0.551706", 9, ""), Ok(551_706_000));
        assert_eq!(decimal(b"5.515615", 6, ""), Ok(5_515_615));
        assert_eq!(decimal(b".5", 3, ""), Ok(500));
        assert_eq!(decimal(b"7.", 3, ""), Ok(7000));
        assert_eq!(decimal(b"1.23456789019", 9, ""), Ok(1_234_567_890));
        for nonsense in ["", ".", "-1", "1e3", "1..2", "99999999999999999999", "1 2"] {
            assert!(decimal(nonsense.as_bytes(), 9, "").is_err(), "{nonsense}");
        }
    }

    #[test]
    fn whole_numbers_end_at_64_bits() {
        assert_eq!(whole(b"18446744073709551615", ""), Ok(u64::MAX));
        assert!(whole(b"18446744073709551616", "").is_err());
        assert!(whole(b"", "").is_err());
        assert!(whole(b"+1", "").is_err());
    }
}
