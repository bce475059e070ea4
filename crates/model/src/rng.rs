//! Seeded randomness that gives the same numbers on every machine and in every release:
//! xoshiro256++ and a software logarithm, because the system's `ln` may differ in the last bit.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator. Two streams of one seed are independent.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator of `stream` under `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut first = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mixed = first.next_u64() ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Rng(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform over 0..n without bias (Lemire, "Fast random integer generation in an interval",
    /// 2019). Gives 0 for n = 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let mut wide = u128::from(self.next_u64()) * u128::from(n);
        if (wide as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (wide as u64) < threshold {
                wide = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }

    /// Uniform in [0, 1) with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Exponential with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// 0..n in random order (Fisher and Yates).
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_sequence_for_ever() {
        let mut rng = Rng::new(1, 0);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        let mut again = Rng::new(1, 0);
        assert_eq!(drawn, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
        assert_ne!(drawn[0], Rng::new(1, 1).next_u64());
        assert_ne!(drawn[0], Rng::new(2, 0).next_u64());
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut rng = Rng::new(3, 0);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        // Chi-square with 6 degrees of freedom: 22.46 is its 99.9 % quantile.
        let chi: f64 = counts
            .iter()
            .map(|c| (f64::from(*c) - 1e4).powi(2) / 1e4)
            .sum();
        assert!(chi < 22.46, "{chi} {counts:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut rng = Rng::new(5, 0);
        let mean = (0..100_000).map(|_| rng.exponential(2.0)).sum::<f64>() / 1e5;
        assert!((mean - 2.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn every_permutation_is_as_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            *counts.entry(Rng::new(seed, 0).permutation(3)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial count.
        assert!(
            counts.values().all(|n: &i32| (n - 1000).abs() < 145),
            "{counts:?}"
        );
    }

    #[test]
    fn a_permutation_holds_each_number_once() {
        let mut order = Rng::new(9, 2).permutation(1000);
        assert_ne!(order, (0..1000).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
