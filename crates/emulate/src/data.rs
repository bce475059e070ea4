//! The bytes of the device: in memory, in a file, or nowhere.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{fallocate, memfd_create, FallocateFlags, MemfdFlags};

use crate::EmulateError;

/// Where data are kept.
pub struct Store {
    /// Nothing: reads give zeros and writes are dropped.
    file: Option<File>,
}

impl Store {
    /// `memory` (goes with the process), `none`, or the path of a file that stays.
    pub fn open(kind: &str, size_bytes: u64, preallocate: bool) -> Result<Self, EmulateError> {
        let file = match kind {
            "none" => return Ok(Store { file: None }),
            "memory" => memfd_create("schedlab-emulated", MemfdFlags::CLOEXEC)
                .map(File::from)
                .map_err(io::Error::from)
                .map_err(EmulateError::system("memory for the data"))?,
            path => OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(EmulateError::system("the file for the data"))?,
        };
        file.set_len(size_bytes)
            .map_err(EmulateError::system("room for the data"))?;
        if preallocate {
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size_bytes)
                .map_err(io::Error::from)
                .map_err(EmulateError::system("room for the data"))?;
        }
        Ok(Store { file: Some(file) })
    }

    /// Fills `buffer` from `offset` on.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(buffer, offset),
            None => {
                buffer.fill(0);
                Ok(())
            }
        }
    }

    /// Stores `data` at `offset`.
    pub fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        match &self.file {
            Some(file) => file.write_all_at(data, offset),
            None => Ok(()),
        }
    }

    /// Makes the range read as zeros.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, mode, offset, length)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_come_back_until_they_are_discarded() {
        let store = Store::open("memory", 1 << 20, true).unwrap();
        let facts = store.file.as_ref().unwrap().metadata().unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&facts) * 512 >= 1 << 20);
        store.write(b"scheduler", 4093).unwrap();
        let mut buffer = [0; 9];
        store.read(&mut buffer, 4093).unwrap();
        assert_eq!(&buffer, b"scheduler");
        store.discard(4096, 4096).unwrap();
        store.read(&mut buffer, 4093).unwrap();
        assert_eq!(&buffer, b"sch\0\0\0\0\0\0");
    }

    #[test]
    fn no_store_reads_as_zeros() {
        let store = Store::open("none", 1 << 20, false).unwrap();
        store.write(b"lost", 0).unwrap();
        let mut buffer = [7; 4];
        store.read(&mut buffer, 0).unwrap();
        assert_eq!(buffer, [0; 4]);
    }
}
