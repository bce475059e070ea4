//! Tails of the normal, F and Student's t distributions. F is that of variances: the regularised
//! incomplete beta function (Abramowitz and Stegun, 26.6.2), of which t and the binomial are cases.

use statrs::function::beta::{beta_reg, ln_beta};
use statrs::function::erf::erfc;
use statrs::function::gamma::gamma_ur;

/// The probability that a standard normal variable exceeds `x`.
pub fn normal_tail(x: f64) -> f64 {
    erfc(x / std::f64::consts::SQRT_2) / 2.0
}

/// The probability that F with `between` and `within` degrees of freedom exceeds `ratio`; NaN
/// without degrees of freedom or where `ratio` is none. `within` may be infinite: the variance is
/// known.
pub fn f_tail(between: f64, within: f64, ratio: f64) -> f64 {
    if !(between > 0.0 && between.is_finite() && within > 0.0) || ratio.is_nan() {
        return f64::NAN;
    }
    if ratio <= 0.0 || ratio.is_infinite() {
        return if ratio > 0.0 { 0.0 } else { 1.0 };
    }
    if within.is_infinite() {
        return gamma_ur(between / 2.0, between * ratio / 2.0);
    }
    let share = within / (within + between * ratio);
    beta_reg(within / 2.0, between / 2.0, share)
}

/// What Student's t with `freedom` degrees exceeds with probability `level`; NaN where `level` is
/// not within 0 and 1 or `freedom` is not positive.
pub fn t_quantile(level: f64, freedom: f64) -> f64 {
    if level > 0.5 {
        return -t_quantile(1.0 - level, freedom);
    }
    if !(level > 0.0 && freedom > 0.0) {
        return f64::NAN;
    }
    if level == 0.5 {
        return 0.0;
    }
    // ln(tail) is a concave falling function of ln(t): Newton's steps come from above after the
    // first, and none is too far from a start that is not too near to 0.
    let is_normal = freedom.is_infinite();
    let of_density = if is_normal {
        std::f64::consts::TAU.ln() / 2.0
    } else {
        freedom.ln() / 2.0 + ln_beta(freedom / 2.0, 0.5)
    };
    let mut t = 0.5_f64;
    for _ in 0..100 {
        let tail = f_tail(1.0, freedom, t * t) / 2.0;
        let fall = if is_normal {
            t * t / 2.0
        } else {
            (freedom + 1.0) / 2.0 * (t * t / freedom).ln_1p()
        };
        let density = (-of_density - fall).exp();
        let step = (tail / level).ln() * tail / (t * density);
        t *= step.clamp(-2.0, 2.0).exp();
        if step.abs() < 1e-13 {
            break;
        }
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 1e-10, "{value} {wanted}");
    }

    #[test]
    fn tails_are_those_of_closed_forms() {
        near(normal_tail(0.0), 0.5);
        near(normal_tail(-30.0), 1.0);
        near(normal_tail(1.959963984540054), 0.025);
        // With two degrees between.
        near(
            f_tail(2.0, 10.0, 3.0),
            (1.0 + 2.0 * 3.0 / 10.0_f64).powi(-5),
        );
        near(f_tail(2.0, 4.0, 1e6), (1.0 + 2e6 / 4.0_f64).powi(-2));
        near(f_tail(3.0, 5.0, 0.0), 1.0);
        near(f_tail(1.0, f64::INFINITY, 4.0), 2.0 * normal_tail(2.0));
        near(f_tail(2.0, f64::INFINITY, 3.0), (-3.0_f64).exp());
        assert_eq!(f_tail(3.0, 5.0, f64::INFINITY), 0.0);
        assert_eq!(f_tail(3.0, f64::INFINITY, 0.0), 1.0);
        assert!(f_tail(0.0, 5.0, 1.0).is_nan() && f_tail(1.0, 5.0, f64::NAN).is_nan());
    }

    #[test]
    fn quantiles_are_those_of_closed_forms() {
        for level in [1e-12_f64, 1e-4, 0.025, 0.2, 0.49] {
            // Of Cauchy's, and with two degrees of freedom.
            near(
                t_quantile(level, 1.0),
                1.0 / (std::f64::consts::PI * level).tan(),
            );
            let both = 2.0 * level * (1.0 - level);
            near(t_quantile(level, 2.0), (1.0 - 2.0 * level) / both.sqrt());
            for freedom in [0.3, 1.7, 9.0, 400.0, 1e5] {
                let t = t_quantile(level, freedom);
                near(f_tail(1.0, freedom, t * t) / 2.0, level);
            }
        }
        assert_eq!(t_quantile(0.75, 3.0), -t_quantile(0.25, 3.0));
        near(t_quantile(0.025, f64::INFINITY), 1.959963984540054);
        assert_eq!(t_quantile(0.5, 3.0), 0.0);
        assert!(t_quantile(0.0, 3.0).is_nan() && t_quantile(0.1, 0.0).is_nan());
    }
}
