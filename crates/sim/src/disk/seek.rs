//! How long the arm takes: a curve through three times of a data sheet, a measured table, or a
//! root that becomes a line.

use super::spec::{DiskSpec, SeekSpec};

/// The seek times of a checked description.
pub(super) enum Seek {
    /// single + root·√(d−1) + linear·(d−1).
    ThreeTimes {
        single_ns: f64,
        root_ns: f64,
        linear_ns: f64,
    },
    Given(SeekSpec),
}

impl Seek {
    /// The curve a·√(d−1) + b·(d−1) + c goes through the three times of a data sheet (Lee and
    /// Katz, "An analytic performance model of disk arrays", 1993).
    pub(super) fn new(spec: &DiskSpec) -> Self {
        if let Some(seek) = &spec.seek {
            return Seek::Given(seek.clone());
        }
        let cylinders = f64::from(spec.cylinders());
        let (single, average, full) = (
            spec.seek_single.0 as f64,
            spec.seek_average.0 as f64,
            spec.seek_full.0 as f64,
        );
        Seek::ThreeTimes {
            single_ns: single,
            root_ns: (15.0 * average - 10.0 * single - 5.0 * full) / (3.0 * cylinders.sqrt()),
            linear_ns: (7.0 * single - 15.0 * average + 8.0 * full) / (3.0 * cylinders),
        }
    }

    /// Whether a head switch overlaps with the arm, and a write settles only after a movement: so
    /// in diskmodel's mech_g1.c; the three times of a data sheet keep the simpler rule.
    pub(super) fn is_measured(&self) -> bool {
        matches!(self, Seek::Given(_))
    }

    /// Seek over this many cylinders, ns; 0 for none.
    pub(super) fn ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        match self {
            Seek::ThreeTimes {
                single_ns,
                root_ns,
                linear_ns,
            } => {
                let further = f64::from(distance - 1);
                (single_ns + root_ns * further.sqrt() + linear_ns * further).round() as u64
            }
            Seek::Given(SeekSpec::Table(rows)) => {
                let after = rows.partition_point(|row| row.0 <= distance);
                match (after.checked_sub(1).map(|i| rows[i]), rows.get(after)) {
                    (Some((from, low)), Some((to, high))) => {
                        let share = f64::from(distance - from) / f64::from(to - from);
                        let (low, high) = (low.0 as f64, high.0 as f64);
                        (low + share * (high - low)).round() as u64
                    }
                    (Some((_, time)), None) | (None, Some(&(_, time))) => time.0,
                    (None, None) => 0,
                }
            }
            Seek::Given(SeekSpec::Curve(curve)) => {
                if let Some(time) = curve.short.get(distance as usize - 1) {
                    return time.0;
                }
                let distance_f = f64::from(distance);
                let ns = if distance < curve.boundary {
                    curve.root_base.0 as f64 + curve.root_factor * distance_f.sqrt()
                } else {
                    curve.linear_base.0 as f64 + curve.linear_factor * distance_f
                };
                ns.round().max(0.0) as u64
            }
        }
    }
}
