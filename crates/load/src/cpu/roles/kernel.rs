//! The fixed calculation that is counted: 10⁶ integer multiply-adds on 100 × 100 matrices.

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::child::own_memory;

/// Rows and columns of each matrix.
pub const SIDE: usize = 100;

/// Which product is calculated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// Element by element, repeated 100 times: the arithmetic of the published study.
    #[default]
    Elementwise,
    /// A true matrix product.
    Matmul,
}

type Matrix = [[i32; SIDE]; SIDE];

/// The working set of one process: 120 kB. All zero bytes are a valid value.
#[repr(C)]
pub struct Matrices {
    a: Matrix,
    b: Matrix,
    c: Matrix,
}

impl Matrices {
    /// Fresh ones of the calling process, calculated once; nothing when memory is short.
    pub(crate) fn own(kernel: Kernel) -> Option<&'static mut Matrices> {
        let memory = own_memory(std::mem::size_of::<Matrices>())?;
        // SAFETY: so many bytes of a page of their own; zero bytes are a valid value.
        let matrices = unsafe { &mut *memory.as_mut_ptr().cast::<Matrices>() };
        matrices.fill();
        matrices.calculate(kernel);
        Some(matrices)
    }

    /// Gives every element a value that depends on its place only.
    pub fn fill(&mut self) {
        for (i, (row_a, row_b)) in self.a.iter_mut().zip(&mut self.b).enumerate() {
            for (j, (a, b)) in row_a.iter_mut().zip(row_b).enumerate() {
                *a = (i * 7 + j * 3) as i32 % 101 - 50;
                *b = (i * 5 + j * 11) as i32 % 97 - 48;
            }
        }
    }

    /// One calculation. Nothing is allocated, so it may run between fork and exit.
    #[inline]
    pub fn calculate(&mut self, kernel: Kernel) {
        match kernel {
            Kernel::Elementwise => self.elementwise(),
            Kernel::Matmul => self.matmul(),
        }
    }

    fn elementwise(&mut self) {
        for _ in 0..SIDE {
            // The barrier keeps each of the 100 passes; without it they are one.
            let m = black_box(&mut *self);
            for ((row_c, row_a), row_b) in m.c.iter_mut().zip(&m.a).zip(&m.b) {
                for ((c, a), b) in row_c.iter_mut().zip(row_a).zip(row_b) {
                    *c = c.wrapping_add(a.wrapping_mul(*b));
                }
            }
        }
    }

    fn matmul(&mut self) {
        let m = black_box(&mut *self);
        for (row_c, row_a) in m.c.iter_mut().zip(&m.a) {
            row_c.fill(0);
            for (a, row_b) in row_a.iter().zip(&m.b) {
                for (c, b) in row_c.iter_mut().zip(row_b) {
                    *c = c.wrapping_add(a.wrapping_mul(*b));
                }
            }
        }
    }

    /// A number that every element of the result takes part in.
    pub fn checksum(&self) -> u32 {
        let elements = black_box(&self.c).iter().flatten();
        elements.fold(0, |sum: u32, c| sum.rotate_left(1) ^ *c as u32)
    }
}

/// Time of one calculation on an idle CPU, over `repetitions` of them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Calibration {
    /// 10 % of the calculations were faster.
    pub ns_p10: u64,
    /// The median.
    pub ns_p50: u64,
    /// 10 % of the calculations were slower.
    pub ns_p90: u64,
}

/// Times single calculations in the calling thread.
pub fn calibrate(kernel: Kernel, repetitions: usize) -> Calibration {
    let mut matrices = Box::new(Matrices {
        a: [[0; SIDE]; SIDE],
        b: [[0; SIDE]; SIDE],
        c: [[0; SIDE]; SIDE],
    });
    matrices.fill();
    matrices.calculate(kernel);
    let mut times: Vec<u64> = (0..repetitions.max(1))
        .map(|_| {
            let start = Instant::now();
            matrices.calculate(kernel);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    black_box(matrices.checksum());
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    Calibration {
        ns_p10: at(10),
        ns_p50: at(50),
        ns_p90: at(90),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> Box<Matrices> {
        let zero = [[0; SIDE]; SIDE];
        let mut matrices = Box::new(Matrices {
            a: zero,
            b: zero,
            c: zero,
        });
        matrices.fill();
        matrices
    }

    #[test]
    fn matmul_is_the_product_by_definition() {
        let mut m = zeroed();
        m.calculate(Kernel::Matmul);
        m.calculate(Kernel::Matmul);
        for (i, j) in [(0, 0), (3, 99), (57, 21), (99, 99)] {
            let expected: i32 = (0..SIDE).map(|k| m.a[i][k] * m.b[k][j]).sum();
            assert_eq!(m.c[i][j], expected);
        }
    }

    #[test]
    fn elementwise_adds_each_product_a_hundred_times() {
        let mut m = zeroed();
        m.calculate(Kernel::Elementwise);
        for (i, j) in [(0, 0), (3, 99), (57, 21), (99, 99)] {
            assert_eq!(m.c[i][j], 100 * m.a[i][j] * m.b[i][j]);
        }
    }

    #[test]
    fn the_optimiser_leaves_the_work_in_place() {
        // 10⁶ multiply-adds cannot take less than 20 µs at 50 of them per ns.
        for kernel in [Kernel::Elementwise, Kernel::Matmul] {
            assert!(calibrate(kernel, 9).ns_p50 > 20_000, "{kernel:?}");
        }
    }
}
