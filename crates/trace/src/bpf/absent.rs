//! Stands in where schedlab was built without clang or without the feature `bpf`.

use crate::collector::Collected;
use crate::{Method, Options, TraceError};

/// Never exists.
pub(crate) enum BpfCapture {}

impl BpfCapture {
    pub fn start(_: &[i32], _: &Options) -> Result<Self, TraceError> {
        Err(TraceError::new(
            Method::Bpf,
            "schedlab was built without BPF (clang or libelf was missing)",
        ))
    }

    pub fn finish(self) -> Result<(Collected, u64), TraceError> {
        match self {}
    }
}
