//! The tables of the translation layer, checked against each other.

use super::Ftl;

impl Ftl {
    /// Checks every invariant of the tables; for tests. Gives the number of valid pages.
    pub fn audit(&self) -> Result<u64, String> {
        let mut mapped = 0;
        for (slot, physical) in self.l2p.iter().enumerate() {
            if *physical != 0 {
                mapped += 1;
                let back = self.p2l[*physical as usize - 1];
                if back as usize != slot + 1 {
                    return Err(format!("slot {slot} is at {physical}, which says {back}"));
                }
            }
        }
        let held = self.p2l.iter().filter(|page| **page != 0).count() as u64;
        let by_block: u64 = self.valid.iter().map(|valid| u64::from(*valid)).sum();
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
