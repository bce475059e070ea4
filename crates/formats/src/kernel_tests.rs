//! Events of the kernel as text: requests and bursts from every program that prints them.

use super::tests::{options, read, rows};
use super::*;

/// Real lines of ftrace (Linux 6.18), trace-cmd 3.1.6 (also `-l`, `-R`, `--ts-diff`), perf 6.1, and
/// the layout of Linux 6.1, which has no priority.
const KERNEL_TEXTS: [&str; 7] = [
    include_str!("../../../tests/data/kernel-text/ftrace.txt"),
    include_str!("../../../tests/data/kernel-text/trace-cmd.txt"),
    include_str!("../../../tests/data/kernel-text/trace-cmd-l.txt"),
    include_str!("../../../tests/data/kernel-text/trace-cmd-R.txt"),
    include_str!("../../../tests/data/kernel-text/trace-cmd-ts-diff.txt"),
    include_str!("../../../tests/data/kernel-text/perf-script.txt"),
    include_str!("../../../tests/data/kernel-text/bpftrace.txt"),
];

#[test]
fn block_events_of_the_kernel_are_read_from_every_program_that_prints_them() {
    let row = (0, 31_616 * 512, 4096, true, 7 << 20, None);
    let at = |text: &str, event| {
        let options = TraceOptions { event, ..options() };
        let reader = read_bytes("t", text.into(), None, &options).unwrap();
        reader.collect::<Result<Vec<_>, _>>().unwrap()
    };
    for text in KERNEL_TEXTS {
        assert_eq!(rows(text.as_bytes(), "ftrace"), [row], "{text}");
        assert_eq!(at(text, Event::Queue)[0].process, Some(19_182), "{text}");
        let measured = at(text, Event::Complete);
        assert_eq!(measured[0].latency, Some(Nanos(742_000)), "{text}");
        assert!(!measured[0].is_async);
    }
    let issued = KERNEL_TEXTS[1].replace("block_bio_queue", "block_rq_insert");
    let error = read_bytes("t", issued.into(), None, &options())
        .unwrap()
        .next();
    let message = error.unwrap().unwrap_err().to_string();
    assert!(
        message.ends_with("no Q event; it has 1 D, 1 C: use --event dispatch"),
        "{message}"
    );
}

#[test]
fn events_that_the_kernel_lost_are_counted_and_lines_of_other_programs_refused() {
    let text = format!(
        "{}CPU:1 [LOST 5 EVENTS]\nCPU:0 [7 EVENTS DROPPED]\n",
        KERNEL_TEXTS[0]
    );
    let mut reader = read_bytes("t", text.into(), Some("ftrace"), &options()).unwrap();
    while reader.next().is_some() {}
    assert_eq!(reader.skipped().lost, 12);
    let text = format!("{}Samples: 3\n", KERNEL_TEXTS[0]);
    let mut reader = read_bytes("t", text.into(), Some("ftrace"), &options()).unwrap();
    assert!(reader.any(|record| record.is_err()));
    let switches = "x-1 [000] d..2. 1.5: sched_switch: prev_comm=x prev_pid=1 prev_prio=120 \
                    prev_state=S ==> next_comm=y next_pid=2 next_prio=120\n";
    let mut reader = read_bytes("t", switches.into(), None, &options()).unwrap();
    let message = reader.next().unwrap().unwrap_err().to_string();
    assert!(
        message.contains("1 switches of tasks: use sim cpu --tasks"),
        "{message}"
    );
}

#[test]
fn biosnoop_prints_completions_and_its_requests_begin_before() {
    let text =
        b"TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
        0.000000    Web Content    4711    sda       W 223490     4096      0.25    0.50\n\
        0.000100    sync           7       sdb       R 8          512       0.00    0.55\n\
        0.000200    ?              0              R -1         4096      0.00    0.10\n\
        0.000300    kworker/u4:1 x 23             R 18446744073709551615 0 0.00    0.10\n\
        ^C\n";
    let device = |r: &TraceRecord| (r.device, r.process);
    let queued = [
        (0, 223_490 * 512, 4096, true, 0, Some(750_000)),
        (300_000, 4096, 512, false, 1, Some(550_000)),
    ];
    // It has no disk where its beginning was not seen.
    assert_eq!(rows(text, "biosnoop"), queued);
    let text = String::from_utf8(text.to_vec())
        .unwrap()
        .replace("   R -1", " x R -1");
    assert_eq!(rows(text.as_bytes(), "biosnoop"), queued);
    for broken in [
        "0.1 sync 7 sda W 8",
        "0.1 sync 7",
        "7 sda W 8 512 0.00 0.55",
    ] {
        let text = format!("{text}{broken}\n");
        let last = read_bytes("t", text.as_bytes().into(), Some("biosnoop"), &options()).unwrap();
        assert!(last.into_iter().any(|row| row.is_err()), "{broken}");
    }
    let event = Event::Dispatch;
    let issued = read(text.as_bytes(), None, &TraceOptions { event, ..options() });
    assert_eq!(issued[0].latency, Some(Nanos(500_000)));
    assert_eq!(issued[1].latency, Some(Nanos(550_000)));
    assert_eq!(
        issued.iter().map(device).collect::<Vec<_>>(),
        [(0, Some(4711)), (1, Some(7))]
    );
    let error = read_bytes("t", text[90..].into(), Some("biosnoop"), &options());
    assert!(error
        .unwrap()
        .next()
        .unwrap()
        .unwrap_err()
        .to_string()
        .contains("the header TIME(s)"));
}

#[test]
fn bursts_are_between_the_switches_of_a_cpu() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/kernel-text");
    for name in ["switches.txt", "switches-plugin.txt"] {
        let read = sched_bursts(&std::path::Path::new(folder).join(name)).unwrap();
        let rows: Vec<_> = read
            .bursts
            .iter()
            .map(|b| {
                (
                    b.thread,
                    b.end_ns - b.duration_ns,
                    b.duration_ns,
                    b.is_preempted,
                    b.cpu,
                    b.woken_ns,
                    b.nice,
                )
            })
            .collect();
        let expected = [
            (7, 1_000_000_000, 250_000, true, 0, 0, Some(0)),
            (8, 1_000_250_000, 150_000, false, 0, 1_000_100_000, None),
            (7, 1_000_300_000, 200_000, false, 1, 0, Some(5)),
        ];
        assert_eq!(rows, expected);
        assert_eq!(read.names[&7], "a b");
        assert!(read.has_wakeups);
    }
}

#[test]
fn a_deadline_task_has_no_nice_value_and_a_stay_without_a_start_ends_a_wake_up() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/kernel-text");
    let read = sched_bursts(&std::path::Path::new(folder).join("switches-deadline.txt")).unwrap();
    let row = |b: &Burst| (b.thread, b.duration_ns, b.woken_ns, b.nice);
    let rows: Vec<_> = read.bursts.iter().map(row).collect();
    let expected = [(9, 100_000, 0, None), (8, 200_000, 1_000_200_000, Some(0))];
    assert_eq!(rows, expected);
}

#[test]
fn call_chains_are_passed_over_whatever_their_functions_are_called() {
    let chain = "\tffffffff813cce01 __x64_sys_sched_setaffinity+0x61 ([kernel.kallsyms])\n\
                 \t           ee137 sched_setaffinity@@GLIBC_2.3.4+0x7 (/usr/lib/libc.so.6)\n\
                 \t      1234567890 _start+0x1 (/usr/bin/x)\n\t  146f2c [unknown] (/usr/bin/x)\n\n";
    let lines = KERNEL_TEXTS[5].lines();
    let text: String = lines.map(|line| format!("{line}\n{chain}")).collect();
    assert_eq!(
        rows(text.as_bytes(), "ftrace"),
        rows(KERNEL_TEXTS[5].as_bytes(), "ftrace")
    );
}
