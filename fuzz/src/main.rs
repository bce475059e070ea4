//! Fuzzes the trace parsers: `cargo run -p schedlab-fuzz -- FORMAT|scripts|all SECONDS [SEED]`.
//!
//! cargo-fuzz needs a nightly compiler; this mutates valid inputs on a stable one. Each input is
//! read with and without skipping, with detection, and with a small reorder window; of `scripts`
//! with each timing and fit. Checked: no panic, arrivals in order, no request above 4 GiB, no
//! request of a script beyond its target, resident memory within 256 MiB. The input that broke
//! something is written to `crash-FORMAT-SEED-N` and its seed printed.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use schedlab_formats::{
    read_bytes, scripts, Event, Fit, ScriptOptions, TraceOptions, TraceStats, FORMATS,
};
use schedlab_model::{Action, Rng, Timing};

const INPUT_BYTES_MAX: usize = 1 << 16;
const RESIDENT_BYTES_MAX: u64 = 256 << 20;
/// The target that is no format: the scripts of a trace of any.
const SCRIPTS: &str = "scripts";

/// A valid input of every format, to mutate.
fn example(format: &str) -> Vec<u8> {
    let text: &str = match format {
        "requests" => "arrival_ms,is_write,first_page,pages\n5.515615,1,752,16\n6,2,0,1\n",
        "msr" => "128166372003061629,usr,0,Read,7014609920,24576,41286\n",
        "spc" => "0,20941264,8192,W,0.551706\n1,20939840,512,r,1.5\n",
        "iolog" => "fio version 3 iolog\n33 f1 add\n198 f1 read 61440 4096\n612 f1 trim 0 512\n",
        "blkparse" => {
            "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
               8,0    3        5     0.000010000   697  D   W 223490 + 8 [kjournald]\n\
               8,0    1        8     0.000510000     0  C   W 223490 + 8 [0]\nCPU0 (8,0):\n"
        }
        "alibaba" => "419,W,8792731648,16384,1577808144360767\n",
        "tencent" => "1538323201,12910952,128,0,1063\n1538323200,6265688,8,1,1576\n",
        "systor" => {
            "Timestamp,Response,IOType,LUN,Offset,Size\n1455592201.0241,0.0002,R,1,4096,512\n"
        }
        "mqsim" => "938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n",
        "disksim" => "0.500000 0 8 16 1\n1.25 1 64 8 20000\n",
        "disksim-validate" => "R Miss 8 16 1000.5 200\nW Hit 64 8 10 0\n",
        "fio-log" => "0, 246083, 0, 4096, 61440, 0\n10, 17823, 1, 4096, 774144, 0\n",
        "ftrace" => include_str!("../../tests/data/kernel-text/ftrace.txt"),
        "biosnoop" => {
            "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n\
             0.000000 Web Content 47 sda W 223490 4096 0.25 0.50\n0.1 sync 7 sdb R 8 512 0 0.55\n"
        }
        "sim-log" => {
            "policy,seed,index,arrival_ns,dispatched_ns,completed_ns,first_page,pages,operation\n\
             fcfs,1,0,5,7,9,2,1,read\nfcfs,1,1,6,9,12,4,2,write\n"
        }
        // Only written: every input is refused.
        "perfetto" | "ctf" => "",
        "schedlab" => return recorded_example(),
        _ => return binary_example(format),
    };
    text.as_bytes().to_vec()
}

/// Reads and writes of two threads, a flush and a discard, and the counts at the end.
fn recorded_example() -> Vec<u8> {
    let mut out = br#"SCHEDLAB TRACE 1 {"queue": {"scheduler": "[none] bfq"}}"#.to_vec();
    out.push(b'\n');
    for (i, operation) in (0u64..).zip([0, 1, 0, 2, 3, 1, u16::MAX]) {
        let at_ns = 1_000_000 * i;
        let last = operation == u16::MAX;
        let times = [at_ns, if last { 0 } else { at_ns }, at_ns + 200_000];
        for word in [times[0], times[1], times[2], 2048 * i, 7, 0, 0] {
            out.extend(word.to_le_bytes());
        }
        for word in [4096, 5, 5 + i as u32 % 2, 0] {
            out.extend(u32::to_le_bytes(word));
        }
        for word in [operation, i as u16 % 2, 0, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(b"reader\0\0\0\0\0\0\0\0\0\0");
    }
    out
}

fn binary_example(format: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..4u64 {
        if format == "vscsi" {
            for word in [i as u32, 4096, 1] {
                out.extend(word.to_le_bytes());
            }
            out.extend([0x28, 0, 1, 0]);
            out.extend((8 * i).to_le_bytes());
            out.extend((1000 * i).to_le_bytes());
            continue;
        }
        out.extend(0x6561_7407u32.to_le_bytes());
        out.extend((i as u32).to_le_bytes());
        out.extend((100 * i).to_le_bytes());
        out.extend((8 * i).to_le_bytes());
        for word in [
            4096,
            (1 << 16) | [1, 7, 8, 1][i as usize],
            77,
            8 << 20,
            0,
            0,
        ] {
            out.extend(u32::to_le_bytes(word));
        }
    }
    out
}

/// What parsers stumble over.
const TOKENS: [&[u8]; 14] = [
    b"18446744073709551615",
    b"-1",
    b"0",
    b".",
    b",",
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b"1e308",
    b"9999999999999999999999",
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd",
    b"BZh9",
];

fn mutate(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let pick = |rng: &mut Rng| corpus[rng.below(corpus.len() as u64) as usize].clone();
    let mut data = pick(rng);
    for _ in 0..=rng.below(6) {
        let at = rng.below(data.len() as u64 + 1) as usize;
        match rng.below(8) {
            0 if at < data.len() => data[at] = rng.next_u64() as u8,
            1 if at < data.len() => data[at] ^= 1 << rng.below(8),
            2 => data.truncate(at),
            3 => {
                let token = TOKENS[rng.below(TOKENS.len() as u64) as usize];
                data.splice(at..at, token.iter().copied());
            }
            4 => {
                let other = pick(rng);
                data.splice(at..at, other);
            }
            5 => {
                let end = (at + rng.below(32) as usize).min(data.len());
                data.drain(at..end);
            }
            6 => {
                let end = (at + rng.below(64) as usize).min(data.len());
                let piece = data[at..end].to_vec();
                let times = 1 + rng.below(64) as usize;
                data.splice(at..at, piece.repeat(times));
            }
            _ => {
                let bytes: Vec<u8> = (0..rng.below(64)).map(|_| rng.next_u64() as u8).collect();
                data.splice(at..at, bytes);
            }
        }
    }
    data.truncate(INPUT_BYTES_MAX);
    data
}

/// Reads an input in one way; whether anything was understood.
fn read_once(format: Option<&str>, data: &[u8], options: &TraceOptions) -> bool {
    let Ok(reader) = read_bytes("fuzz", data.to_vec(), format, options) else {
        return false;
    };
    let mut stats = TraceStats::default();
    let (mut last, mut understood) = (0, false);
    for record in reader {
        let Ok(record) = record else { break };
        let request = record.request;
        assert!(request.arrival.0 >= last, "arrivals out of order");
        assert!(record.trim || request.length.0 <= 4 << 30, "absurd length");
        assert!(
            request.offset.0.checked_add(request.length.0).is_some(),
            "absurd end"
        );
        last = request.arrival.0;
        stats.record(&record);
        understood = true;
    }
    let _ = stats.summary();
    understood
}

fn script_file() -> PathBuf {
    std::env::temp_dir().join(format!("schedlab-fuzz-{}", std::process::id()))
}

/// Makes the scripts of an input for targets of several sizes; whether one could be made.
fn try_scripts(data: &[u8]) -> bool {
    const TIMINGS: [Timing; 3] = [Timing::Dependent, Timing::Open, Timing::Closed];
    const FITS: [Fit; 4] = [Fit::Refuse, Fit::Wrap, Fit::Compact, Fit::Scale];
    let path = script_file();
    // A new file: what replaces another's content is flushed to the disk.
    let _ = std::fs::remove_file(&path);
    if std::fs::write(&path, data).is_err() {
        return false;
    }
    let mut understood = false;
    for (i, timing) in TIMINGS.into_iter().enumerate() {
        for (fit, size_bytes) in FITS.into_iter().zip([0, 1 << 20, 3 << 20, 1 << 40]) {
            let options = ScriptOptions {
                timing,
                fit,
                reads_only: i == 1,
                think_limit_ns: 1_000_000,
                figures_ns: 0,
                size_bytes,
                block_bytes: 512 << (3 * (i % 2)),
            };
            understood |= hold(&path, &options);
        }
    }
    understood
}

/// Makes the scripts of a file, and checks what a replay relies on.
fn hold(path: &std::path::Path, options: &ScriptOptions) -> bool {
    let Ok(made) = scripts(path, None, options) else {
        return false;
    };
    for script in made.streams.iter().map(|stream| &stream.script) {
        let steps = &script.steps;
        assert!(steps.windows(2).all(|two| two[0].at_ns <= two[1].at_ns));
        assert_eq!(
            (steps.len(), steps.len()),
            (script.after.len(), script.depths.len())
        );
        for step in steps {
            let end = step.offset + u64::from(step.bytes);
            let is_flush = step.action == Action::Flush;
            assert!(step.at_ns <= step.end_ns, "an end before its start");
            assert!(is_flush || step.bytes > 0, "nothing to move");
            assert!(
                is_flush || (step.offset | end) % options.block_bytes == 0,
                "not aligned"
            );
            assert!(
                is_flush || options.size_bytes == 0 || end <= options.size_bytes,
                "beyond"
            );
            assert!(
                !options.reads_only || step.action == Action::Read,
                "not only reads"
            );
        }
    }
    true
}

fn try_input(format: &str, data: &[u8]) -> bool {
    if format == SCRIPTS {
        return try_scripts(data);
    }
    let events = [Event::Queue, Event::Dispatch, Event::Complete];
    let mut understood = false;
    for (i, event) in events.into_iter().enumerate() {
        let options = TraceOptions {
            skip_bad_lines: i != 0,
            reorder: (i == 2).then_some(2),
            event,
        };
        understood |= read_once(Some(format), data, &options);
    }
    read_once(None, data, &TraceOptions::default());
    understood
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split_whitespace()
        .nth(1)
        .and_then(|w| w.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Fuzzes one format; how many inputs were tried, and how many were understood in part.
fn fuzz(format: &'static str, time: Duration, seed: u64) -> Result<(u64, u64), String> {
    let mut rng = Rng::new(seed, 0);
    let mut corpus: Vec<Vec<u8>> = match format {
        SCRIPTS => FORMATS.iter().map(|format| example(format.name)).collect(),
        _ => vec![example(format)],
    };
    if !corpus.iter().any(|data| try_input(format, data)) {
        return Err(format!("{format}: the example itself is not understood"));
    }
    let (mut tried, mut understood) = (0, 0);
    let start = Instant::now();
    while start.elapsed() < time {
        let data = mutate(&mut rng, &corpus);
        let outcome = catch_unwind(AssertUnwindSafe(|| try_input(format, &data)));
        tried += 1;
        let resident = resident_bytes();
        let Ok(parsed) = outcome else {
            return Err(keep(format, seed, tried, &data, "panic"));
        };
        if resident > RESIDENT_BYTES_MAX {
            return Err(keep(format, seed, tried, &data, "memory"));
        }
        understood += u64::from(parsed);
        if parsed && rng.below(16) == 0 {
            if corpus.len() < 256 {
                corpus.push(data);
            } else {
                let at = 1 + rng.below(255) as usize;
                corpus[at] = data;
            }
        }
    }
    Ok((tried, understood))
}

fn keep(format: &str, seed: u64, number: u64, data: &[u8], why: &str) -> String {
    let name = format!("crash-{format}-{seed}-{number}");
    let written = std::fs::write(&name, data);
    format!("{format}: {why} at input {number} of seed {seed}: {name} ({written:?})")
}

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let selection = arguments.first().map_or("all", String::as_str);
    let seconds = arguments.get(1).and_then(|s| s.parse().ok()).unwrap_or(10);
    let seed = arguments.get(2).and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut failed = false;
    let targets = FORMATS.iter().map(|format| format.name).chain([SCRIPTS]);
    for target in targets.filter(|target| selection == "all" || *target == selection) {
        match fuzz(target, Duration::from_secs(seconds), seed) {
            Ok((tried, understood)) => println!(
                "{target}: {tried} inputs in {seconds} s, {understood} understood in part, \
                 no crash, resident {} MiB",
                resident_bytes() >> 20
            ),
            Err(why) => {
                failed = true;
                eprintln!("{why}");
            }
        }
    }
    let _ = std::fs::remove_file(script_file());
    std::process::ExitCode::from(u8::from(failed))
}
