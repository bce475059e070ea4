//! Memory of large tables. The simulators have no unsafe code, and this crate has the one call
//! that they need.
#![warn(missing_docs)]

use rustix::mm::{madvise, Advice};
use rustix::param::page_size;

/// Smaller tables gain nothing: the size of a huge page of most processors.
const LEAST_BYTES: usize = 2 << 20;

/// Asks the kernel to back a table with huge pages (`MADV_HUGEPAGE`): random lookups in a large
/// one then wait less for address translation. The table is best asked for before its first use;
/// its content does not change, and a kernel without huge pages ignores it.
pub fn prefer_huge_pages<T>(table: &[T]) {
    let bytes = size_of_val(table);
    if bytes < LEAST_BYTES {
        return;
    }
    let range = table.as_ptr_range();
    let first = (range.start as usize).next_multiple_of(page_size());
    let end = range.end as usize / page_size() * page_size();
    // SAFETY: the pages are within a live allocation, and this advice changes neither what they
    // hold nor how they can be used.
    let _ = unsafe { madvise(first as *mut _, end - first, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_its_content() {
        for entries in [0, 1, 5 << 18] {
            let mut table: Vec<u32> = vec![0; entries];
            prefer_huge_pages(&table);
            assert!(table.iter().all(|entry| *entry == 0));
            table.fill(7);
            prefer_huge_pages(&table);
            assert!(table.iter().all(|entry| *entry == 7));
        }
    }
}
