//! Text trace parsing in lines per second: `cargo bench -p schedlab-sim --bench trace_parsing`.
//!
//! A million made-up lines per format from memory, parsed, put in order and summed; the best of
//! five passes, so that other work on the machine weighs least. Wanted: 5 M lines/s.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use schedlab_model::Rng;
use schedlab_sim::workload::trace::{read_bytes, TraceOptions};

const LINES: usize = 1_000_000;
const PASSES: usize = 5;

fn lines(format: &str) -> String {
    let mut rng = Rng::new(1, 0);
    let mut text = String::new();
    let mut ns = 0;
    for _ in 0..LINES {
        ns += 1_000 + rng.below(90_000);
        let (sector, sectors, write) = (rng.below(1 << 29), 8 << rng.below(4), rng.below(2) == 1);
        let (bytes, length) = (sector * 512, sectors * 512);
        let letter = if write { 'W' } else { 'R' };
        let _ = match format {
            "mqsim" => writeln!(text, "{ns} 0 {sector} {sectors} {}", u8::from(!write)),
            "msr" => {
                let (ticks, kind) = (ns / 100, if write { "Write" } else { "Read" });
                let first = 128_166_372_003_061_629u64;
                writeln!(
                    text,
                    "{},usr,0,{kind},{bytes},{length},41286",
                    first + ticks
                )
            }
            "spc" => {
                let (s, us) = (ns / 1_000_000_000, ns / 1_000 % 1_000_000);
                writeln!(text, "0,{sector},{length},{letter},{s}.{us:06}")
            }
            "alibaba" => writeln!(text, "419,{letter},{bytes},{length},{}", ns / 1_000),
            _ => {
                let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
                let at = format!("{s:>5}.{ns:09}");
                writeln!(
                    text,
                    "  8,0    1  {:>7} {at} 697  Q  {letter}S {sector} + {sectors} [fio]",
                    7
                )
            }
        };
    }
    text
}

fn main() {
    for format in ["mqsim", "msr", "spc", "alibaba", "blkparse"] {
        let text = lines(format);
        let mut best = f64::INFINITY;
        for _ in 0..PASSES {
            let bytes = text.clone().into_bytes();
            let start = Instant::now();
            let reader = read_bytes("bench", bytes, Some(format), &TraceOptions::default());
            let sum: u64 = match reader {
                Ok(reader) => reader
                    .filter_map(Result::ok)
                    .map(|r| r.request.length.0)
                    .sum(),
                Err(error) => panic!("{error}"),
            };
            assert!(black_box(sum) > 0);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let speed = LINES as f64 / best / 1e6;
        println!(
            "{format}: {speed:.1} M lines/s, {:.0} MB/s",
            text.len() as f64 / best / 1e6
        );
    }
}
