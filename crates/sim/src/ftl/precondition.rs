//! The state of used flash before the first request.

use schedlab_model::Rng;

use super::Ftl;

/// The stream of preconditioning under the seed of a run; requests use stream 0.
const STREAM: u64 = 1;

impl Ftl {
    /// Every logical page once, then as many overwrites at random.
    pub(super) fn fill_by_writing(&mut self, seed: u64) {
        let pages = self.logical_pages();
        let mut rng = Rng::new(seed, STREAM);
        for page in 0..pages {
            self.write(page, self.allocation.fixed(page));
        }
        for _ in 0..pages {
            let page = rng.below(u64::from(pages)) as u32;
            self.write(page, self.allocation.fixed(page));
        }
    }

    /// Valid pages as uniform random writes leave them: a block of age x (0 new, 1 next to be
    /// collected) holds the share u^x, where (u−1)/ln u is the share of valid pages in the used
    /// blocks (Desnoyers, "Analytic modeling of SSD write performance", 2012).
    ///
    /// A plane is filled on its first write: all tables of a large device take longer than many
    /// a simulation. Each has its own stream of randomness, so that the order does not matter.
    pub(super) fn fill_by_formula(&mut self, seed: u64) {
        // Every plane holds equally many.
        let pages = self.logical_pages() / self.planes.len() as u32;
        let blocks = self.data_blocks_per_plane();
        for plane in &mut self.planes {
            plane.is_unfilled = true;
            plane.valid_pages = pages;
        }
        self.pending = Some(Formula {
            seed,
            pages,
            counts: valid_by_age(blocks, self.pages_per_block, pages),
        });
    }

    /// Fills a plane, the oldest block first.
    #[cold]
    pub(super) fn fill_plane(&mut self, plane: u32) {
        self.planes[plane as usize].is_unfilled = false;
        let Some(formula) = self.pending.take() else {
            return;
        };
        let stream = STREAM + (u64::from(plane + 1) << 8);
        let order = Rng::new(formula.seed, stream).permutation(formula.pages);
        let first_slot = self.allocation.first_slot(plane);
        let first_block = plane * self.blocks_per_plane;
        let mut pages = order.into_iter();
        for valid in formula.counts.iter().rev() {
            let block = self.planes[plane as usize].take_free(first_block);
            let first = block * self.pages_per_block;
            let held = pages.by_ref().take(*valid as usize);
            for (physical, number) in (first..).zip(held) {
                let slot = first_slot + number;
                self.l2p[slot as usize] = physical + 1;
                self.p2l[physical as usize] = slot;
            }
            // The rest of its pages was overwritten long ago.
            self.blocks.put(block, 0, *valid);
            self.buckets.add(&mut self.blocks, block, plane);
        }
        self.pending = Some(formula);
    }
}

/// The state that planes have before their first write.
pub(super) struct Formula {
    seed: u64,
    pages: u32,
    counts: Vec<u32>,
}

/// Valid pages of blocks from the newest to the oldest, `total` together.
fn valid_by_age(blocks: u32, pages_per_block: u32, total: u32) -> Vec<u32> {
    let share = f64::from(total) / (f64::from(blocks) * f64::from(pages_per_block));
    let (mut low, mut high) = (1e-12, 1.0 - 1e-12);
    for _ in 0..100 {
        let middle: f64 = (low + high) / 2.0;
        if (middle - 1.0) / libm::log(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Rounding the running total keeps the sum exact.
    let mut held = 0.0;
    let mut assigned_pages = 0;
    let mut counts = Vec::with_capacity(blocks as usize);
    for block in 0..blocks {
        let age = (f64::from(block) + 0.5) / f64::from(blocks);
        held += libm::pow(low, age) * f64::from(pages_per_block);
        let up_to = if block + 1 == blocks {
            f64::from(total)
        } else {
            held.min(f64::from(total))
        };
        let count = (up_to.round() as u32)
            .saturating_sub(assigned_pages)
            .min(pages_per_block);
        assigned_pages += count;
        counts.push(count);
    }
    // What the last block could not hold goes where there is room.
    for count in counts.iter_mut().rev() {
        let more = (pages_per_block - *count).min(total - assigned_pages);
        *count += more;
        assigned_pages += more;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::valid_by_age;

    #[test]
    fn counts_fall_with_age_and_add_up() {
        for total in [0, 1, 500, 6000, 6399, 6400] {
            let counts = valid_by_age(100, 64, total);
            assert_eq!(counts.iter().sum::<u32>(), total);
            assert!(counts.iter().all(|count| *count <= 64));
        }
        let counts = valid_by_age(100, 64, 5000);
        assert!(counts[0] >= 63 && counts[99] < 45, "{counts:?}");
    }
}
