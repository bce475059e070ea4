//! Division by a number fixed at run time, as one multiplication (Lemire, Kaser and Kurz, "Faster
//! remainder by direct computation", 2019).

/// A divisor above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    number: u32,
    /// 2^64 / number, rounded up; 0 for 1.
    inverse: u64,
}

impl Divisor {
    pub(crate) fn new(number: u32) -> Self {
        Divisor {
            number,
            inverse: (u64::MAX / u64::from(number)).wrapping_add(1),
        }
    }

    pub(crate) fn number(self) -> u32 {
        self.number
    }

    /// `dividend` / number, rounded down.
    #[inline]
    pub(crate) fn quotient(self, dividend: u32) -> u32 {
        if self.number == 1 {
            return dividend;
        }
        ((u128::from(self.inverse) * u128::from(dividend)) >> 64) as u32
    }

    /// The remainder of `dividend`.
    #[inline]
    pub(crate) fn remainder(self, dividend: u32) -> u32 {
        dividend - self.quotient(dividend) * self.number
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_divides(dividend: u32, number in 1u32.., small in 1u32..300) {
            for number in [number, small, u32::MAX, 1 << 31] {
                for dividend in [dividend, u32::MAX, number, number - 1] {
                    let divisor = Divisor::new(number);
                    prop_assert_eq!(divisor.quotient(dividend), dividend / number);
                    prop_assert_eq!(divisor.remainder(dividend), dividend % number);
                }
            }
        }
    }
}
