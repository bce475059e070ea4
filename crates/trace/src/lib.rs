//! Kernel events: CPU bursts captured through BPF, perf or schedstat.
#![warn(missing_docs)]
