//! Replaces the BPF module where schedlab was built without clang or without the feature `bpf`.

use crate::accounting::{Accounting, DeviceCount};
use crate::blocks::{BlockOptions, ClassName, Cost, Depths, Group, Interval, Lost, Totals};
use crate::collector::Collected;
use crate::Options;

/// Never exists.
pub(crate) enum BpfCapture {}

impl BpfCapture {
    pub fn start(_: &[i32], _: &Options) -> Result<Self, String> {
        Err("schedlab was built without BPF (clang or libelf was missing)".to_owned())
    }

    pub fn finish(self) -> Result<(Collected, u64), String> {
        match self {}
    }
}

/// Never exists.
pub(crate) enum Never {}

/// Holds what never exists.
pub(crate) struct Blocks {
    never: Never,
    pub sees_limits: bool,
}

impl Blocks {
    pub fn start(_: (u32, u32), _: u64, _: &BlockOptions) -> Result<Self, String> {
        Err("schedlab was built without BPF (clang or libelf was missing)".to_owned())
    }

    pub fn add(&self, _: usize, _: u32) -> Result<(), String> {
        match self.never {}
    }

    pub fn waiting(&self) -> Result<Vec<(usize, usize, u64)>, String> {
        match self.never {}
    }

    pub fn depths(&self) -> Result<Depths, String> {
        match self.never {}
    }

    pub fn group(&self, _: usize, _: usize, _: usize) -> Result<Group, String> {
        match self.never {}
    }

    pub fn interval(&self, _: usize, _: usize) -> Result<Interval, String> {
        match self.never {}
    }

    pub fn totals(&self) -> Result<(Totals, Lost, u64), String> {
        match self.never {}
    }

    pub fn processes(&self, _: usize, _: usize) -> Result<Vec<ClassName>, String> {
        match self.never {}
    }

    pub fn cost(&self) -> Option<Cost> {
        match self.never {}
    }

    pub fn detach(&mut self) {
        match self.never {}
    }
}

/// Holds what never exists.
pub(crate) struct Records<S> {
    never: Never,
    sink: std::marker::PhantomData<S>,
}

impl<S: crate::records::Sink> Records<S> {
    pub fn start(_: (u32, u32), _: u32, _: S, _: DeviceCount) -> Result<Self, String> {
        Err("schedlab was built without BPF (clang or libelf was missing)".to_owned())
    }

    pub fn finish(self) -> Result<(S, crate::records::Counters, Accounting), String> {
        match self.never {}
    }
}

/// Never exists.
pub(crate) struct RunQueue {
    never: Never,
}

impl RunQueue {
    pub fn start(_: &[(u32, i32)]) -> Result<Self, String> {
        Err("schedlab was built without BPF (clang or libelf was missing)".to_owned())
    }

    pub fn finish(self, _: u32) -> Result<(Vec<[crate::runqueue::Waits; 2]>, u64), String> {
        match self.never {}
    }
}

/// Never exists.
pub(crate) struct Syncs {
    never: Never,
}

impl Syncs {
    pub fn start(_: &crate::syncs::SyncOptions) -> Result<Self, String> {
        Err("schedlab was built without BPF (clang or libelf was missing)".to_owned())
    }

    pub fn follow(&self, _: u32, _: crate::syncs::Follow) -> Result<(), String> {
        match self.never {}
    }

    pub fn read(&self, _: u64) -> Result<crate::syncs::SyncResult, String> {
        match self.never {}
    }

    pub fn detach(&mut self) {
        match self.never {}
    }
}

/// Never exists.
pub(crate) enum Scheduler {}

impl Scheduler {
    pub fn load(_: &std::path::Path) -> Result<Self, String> {
        Err("schedlab was built without BPF (clang or libelf was missing)".to_owned())
    }
}
