//! Which plane a logical page is written to: an order of channel, way, die and plane fixed by the
//! page number, or the plane that is free first.

use crate::divisor::Divisor;
use crate::error::require;
use crate::spec::DeviceSpec;
use crate::SimError;

pub(super) struct Allocation {
    /// Plane by logical page modulo the number of planes.
    table: Vec<u32>,
    planes: Divisor,
    /// Logical pages of each plane.
    pages_each: u32,
    dynamic: bool,
    next: usize,
}

impl Allocation {
    pub(super) fn new(spec: &DeviceSpec, logical: u32) -> Result<Self, SimError> {
        let flash = &spec.flash;
        let dynamic = spec.ftl.allocation == "dynamic";
        let order = if dynamic {
            "cwdp"
        } else {
            &spec.ftl.allocation
        };
        let mut letters: Vec<char> = order.chars().collect();
        letters.sort_unstable();
        let fits = letters == ['c', 'd', 'p', 'w'];
        let expected = "dynamic, or each of c, w, d, p once in any order";
        require(fits, "ftl.allocation", &spec.ftl.allocation, expected)?;
        let sizes = |letter| match letter {
            'c' => flash.channels,
            'w' => flash.packages_per_channel,
            'd' => flash.dies_per_package,
            _ => flash.planes_per_die,
        };
        let plane = |page: u32| {
            let mut rest = page;
            let mut at = [0; 4];
            for letter in order.chars() {
                let size = sizes(letter);
                at["cwdp".find(letter).unwrap_or(0)] = rest % size;
                rest /= size;
            }
            let way = at[0] * flash.packages_per_channel + at[1];
            (way * flash.dies_per_package + at[2]) * flash.planes_per_die + at[3]
        };
        let table: Vec<u32> = (0..flash.planes()).map(plane).collect();
        Ok(Allocation {
            table,
            planes: Divisor::new(flash.planes()),
            pages_each: logical / flash.planes(),
            dynamic,
            next: 0,
        })
    }

    pub(super) fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// The plane of a page by its number.
    #[inline]
    pub(super) fn fixed(&self, page: u32) -> u32 {
        self.table[self.planes.remainder(page) as usize]
    }

    /// Place of a page among those of all planes, plane by plane.
    #[inline]
    pub(super) fn slot(&self, page: u32) -> u32 {
        let number = self.planes.quotient(page);
        let plane = self.table[(page - number * self.table.len() as u32) as usize];
        plane * self.pages_each + number
    }

    /// Slot of the first page of a plane.
    pub(super) fn first_slot(&self, plane: u32) -> u32 {
        plane * self.pages_each
    }

    /// The plane that is free first among those with room; equals in turn.
    pub(super) fn least_busy(&mut self, until_ns: &[u64], has_room: impl Fn(usize) -> bool) -> u32 {
        let planes = self.table.len();
        let mut best = (u64::MAX, self.next % planes);
        for i in 0..planes {
            let plane = self.table[(self.next + i) % planes] as usize;
            if until_ns[plane] < best.0 && has_room(plane) {
                best = (until_ns[plane], plane);
            }
        }
        self.next = (self.next + 1) % planes;
        best.1 as u32
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn planes_that_are_free_at_the_same_time_take_turns() {
        let mut spec = DeviceSpec::shipped("ncq2014", &Default::default()).unwrap();
        spec.ftl.allocation = "dynamic".into();
        let planes = spec.flash.planes();
        let mut allocation = Allocation::new(&spec, planes * 8).unwrap();
        let mut free_ns = vec![5; planes as usize];
        let mut taken: Vec<u32> = (0..planes)
            .map(|_| allocation.least_busy(&free_ns, |_| true))
            .collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..planes).collect::<Vec<_>>());
        free_ns[1] = 4;
        assert_eq!(allocation.least_busy(&free_ns, |_| true), 1);
        assert_ne!(allocation.least_busy(&free_ns, |plane| plane != 1), 1);
    }
}
