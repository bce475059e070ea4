//! The host's queues hold bios as processes submit them, and requests that bios merge into.

pub use schedlab_model::process::Class;
use serde::{Deserialize, Serialize};

/// A request by its place in the pool.
pub type Id = u32;

/// No request, no bio.
pub const NONE: u32 = u32::MAX;

/// The owner of writes that the kernel's flusher sends for others.
pub const FLUSHER: u32 = u32::MAX - 1;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Discards a range.
    Discard,
}

/// On whose behalf a request goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct IoContext {
    /// Number of the process, or [`FLUSHER`].
    pub owner: u32,
    /// Class of I/O priority.
    pub class: Class,
    /// Level within the class, 0 the highest of 8.
    pub level: u8,
    /// Weight of its cgroup; 0 outside one.
    pub weight: u16,
}

/// One transfer as a process submits it.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// Number of the process that waits for it.
    pub process: u32,
    /// The I/O of the process that it is part of.
    pub io: u32,
    /// On whose behalf.
    pub context: IoContext,
    /// Its operation.
    pub op: Op,
    /// A process waits for it.
    pub sync: bool,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
    /// Pieces of memory that it is scattered over.
    pub segments: u32,
    /// When it was submitted.
    pub arrival_ns: u64,
    /// The next bio of the same request.
    pub next: u32,
}

impl Bio {
    /// The sector behind its last.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

/// A request: one or more bios that adjoin.
#[derive(Clone, Copy, Debug)]
pub struct HostRequest {
    /// Number of the process whose bio was the first.
    pub process: u32,
    /// On whose behalf.
    pub context: IoContext,
    /// Its operation.
    pub op: Op,
    /// A process waits for it.
    pub sync: bool,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
    /// Allocation.
    pub arrival_ns: u64,
    /// Hand-over to the scheduler.
    pub inserted_ns: u64,
    /// Hand-over to the device.
    pub dispatched_ns: u64,
    /// When it is late, for schedulers with a FIFO.
    pub fifo_ns: u64,
    /// Order of insertion, for requests at the same sector.
    pub seq: u64,
    /// First and last bio, and how many.
    pub first_bio: u32,
    /// The last of them.
    pub last_bio: u32,
    /// How many.
    pub bios: u32,
    /// Pieces of memory that they are scattered over.
    pub segments: u32,
    /// The scheduler's queue that holds it, for those with many.
    pub queue: u32,
    pub(super) previous: Id,
    pub(super) next: Id,
}

impl HostRequest {
    /// The sector behind its last.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    /// Its place in the order of sectors.
    pub fn key(&self) -> (u64, u64) {
        (self.sector, self.seq)
    }

    /// Whether it is a write or like one.
    pub fn is_write(&self) -> bool {
        self.op != Op::Read
    }

    /// A request of one bio.
    pub fn of(bio: &Bio, place: u32, now_ns: u64) -> Self {
        HostRequest {
            process: bio.process,
            context: bio.context,
            op: bio.op,
            sync: bio.sync,
            sector: bio.sector,
            sectors: bio.sectors,
            arrival_ns: now_ns,
            inserted_ns: now_ns,
            dispatched_ns: 0,
            fifo_ns: u64::MAX,
            seq: 0,
            first_bio: place,
            last_bio: place,
            bios: 1,
            segments: bio.segments,
            queue: NONE,
            previous: NONE,
            next: NONE,
        }
    }
}

/// Things by number, whose places are used again.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Pool<T> {
    /// Keeps a thing and gives its number.
    pub fn add(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = item;
                place
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u32
            }
        }
    }

    /// Lets the place be used again.
    pub fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    /// How many things are held.
    pub fn held(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.items[place as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize]
    }
}
