//! The tables of the translation layer, checked against each other.

use super::Ftl;

impl Ftl {
    /// Checks every invariant of the tables; for tests. Gives the number of valid pages.
    pub fn audit(&self) -> Result<u64, String> {
        let mut mapped = 0;
        for (slot, physical) in self.l2p.iter().enumerate() {
            if *physical != 0 {
                mapped += 1;
                let physical = *physical - 1;
                let back = self.p2l[physical as usize];
                let block = self.block_of.quotient(physical);
                let page = physical - block * self.pages_per_block;
                if back as usize != slot || !self.blocks.is_valid(block, page) {
                    return Err(format!("slot {slot} is at {physical}, which has {back}"));
                }
            }
        }
        let blocks = 0..self.wear.len() as u32;
        let pages = |block| {
            let pages = 0..self.pages_per_block;
            pages.filter(move |page| self.blocks.is_valid(block, *page))
        };
        let held = blocks.clone().flat_map(pages).count() as u64;
        let by_block: u64 = blocks
            .map(|block| u64::from(self.blocks.valid(block)))
            .sum();
        let by_plane: u64 = self
            .planes
            .iter()
            .map(|plane| u64::from(plane.valid_pages))
            .sum();
        // Planes that were not written to yet hold their share without tables.
        let unfilled = self.planes.iter().filter(|plane| plane.is_unfilled);
        let pages_each = u64::from(self.logical_pages() / self.planes.len() as u32);
        let pending = unfilled.count() as u64 * pages_each;
        if held != mapped || by_block != mapped || by_plane != mapped + pending {
            return Err(format!(
                "{mapped} mapped, {held} held, {by_block} by block, {by_plane} by plane"
            ));
        }
        Ok(mapped + pending)
    }
}
