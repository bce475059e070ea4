//! Times of the pages of a block, which differ where a cell holds several bits: `flash.read` and
//! `flash.program` hold a time for each type of page.

use schedlab_model::Nanos;

use super::FlashSpec;

/// Times by page of a block; all equal without types.
#[derive(Clone)]
pub(crate) struct PageTimes {
    /// Read and program by page; empty where all pages are alike.
    pages: Vec<(u64, u64)>,
    read_ns: f64,
    program_ns: f64,
    /// The means in whole ns.
    rounded_ns: (u64, u64),
}

impl PageTimes {
    /// The times of a checked device.
    pub(crate) fn new(flash: &FlashSpec) -> Self {
        let mut times = PageTimes {
            pages: Vec::new(),
            read_ns: flash.page_read.0 as f64,
            program_ns: flash.page_write.0 as f64,
            rounded_ns: (flash.page_read.0, flash.page_write.0),
        };
        let types = flash.read.len().max(flash.program.len());
        if types == 0 {
            return times;
        }
        let of = |list: &[Nanos], page: usize, otherwise: Nanos| match list.len() {
            0 => otherwise.0,
            _ => list[flash.page_type(page, types)].0,
        };
        let pages = 0..flash.pages_per_block as usize;
        let read = pages.clone().map(|i| of(&flash.read, i, flash.page_read));
        let program = pages.map(|i| of(&flash.program, i, flash.page_write));
        let mut program: Vec<u64> = program.collect();
        if flash.one_shot {
            for group in program.chunks_mut(types) {
                let together_ns = group.iter().sum();
                group.fill(0);
                group[group.len() - 1] = together_ns;
            }
        }
        times.pages = read.zip(program).collect();
        let count = times.pages.len() as f64;
        times.read_ns = times.pages.iter().map(|page| page.0).sum::<u64>() as f64 / count;
        times.program_ns = times.pages.iter().map(|page| page.1).sum::<u64>() as f64 / count;
        times.rounded_ns = (
            times.read_ns.round() as u64,
            times.program_ns.round() as u64,
        );
        times
    }

    /// Whether pages differ.
    #[inline]
    pub(crate) fn has_types(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Time of page `page` of a block in the plane; of no known page, the mean.
    #[inline]
    pub(crate) fn page_ns(&self, page: Option<u32>, is_write: bool) -> u64 {
        match page {
            Some(page) if self.has_types() => {
                let (read_ns, program_ns) = self.pages[page as usize];
                if is_write {
                    program_ns
                } else {
                    read_ns
                }
            }
            _ if is_write => self.rounded_ns.1,
            _ => self.rounded_ns.0,
        }
    }

    /// Mean over a block.
    #[inline]
    pub(crate) fn mean_ns(&self, is_write: bool) -> f64 {
        if is_write {
            self.program_ns
        } else {
            self.read_ns
        }
    }
}
