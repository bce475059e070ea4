//! What a trace as a whole must be: it has requests, of one capture, from a clock that begins at 0.

use super::tests::{event, named_rows, options, read, BLKPARSE, READ, WRITE};
use super::*;

/// The error that reading all of a trace ends with.
fn failure(text: &[u8], format: &str, event: Event) -> String {
    let options = TraceOptions { event, ..options() };
    let mut reader = read_bytes("t", text.to_vec(), Some(format), &options).unwrap();
    let failure = reader.find_map(Result::err).map(|error| error.to_string());
    failure.unwrap_or_default()
}

#[test]
fn clocks_since_boot_begin_with_the_first_request() {
    let boot_ns = 864_000_000_000_000;
    let file = [
        event(boot_ns, 8, 4096, READ | 1, b""),
        event(boot_ns + 500, 16, 4096, READ | 1, b""),
    ];
    let times = read(&file.concat(), None, &options());
    let times: Vec<u64> = times.iter().map(|r| r.request.arrival.0).collect();
    assert_eq!(times, [0, 500]);
}

#[test]
fn a_capture_without_the_wanted_events_names_those_it_has() {
    let text = b"8,16 0 1 0.000000000 700 D W 8000 + 8 [k]\n8,16 0 2 0.001 0 C W 8000 + 8 [0]\n";
    let detected = read_bytes("t", text.to_vec(), None, &options()).unwrap();
    assert_eq!(detected.format().name, "blkparse");
    let error = failure(text, "blkparse", Event::Queue);
    assert!(
        error.ends_with("no Q event; it has 1 D, 1 C: use --event dispatch"),
        "{error}"
    );
    assert_eq!(failure(text, "blkparse", Event::Dispatch), "");
    assert_eq!(failure(text, "blkparse", Event::Complete), "");
    let queued = b"8,16 0 1 0.0 700 Q W 8000 + 8 [k]\n";
    let error = failure(queued, "blkparse", Event::Complete);
    assert!(
        error.contains("no D event with its C; it has 1 Q: use --event queue"),
        "{error}"
    );
    let flush = b"8,16 0 1 0.0 700 Q FWS 0 + 0 [k]\n8,16 0 2 0.1 0 C WS 0 + 0 [0]\n";
    let error = failure(flush, "blkparse", Event::Queue);
    assert!(!error.contains("use --event"), "{error}");
    let completed = event(5, 8, 4096, WRITE | 8, b"");
    let error = failure(&completed, "blktrace", Event::Queue);
    assert!(
        error.contains("no Q event; it has 1 C: capture the queue"),
        "{error}"
    );
}

#[test]
fn a_trace_without_requests_is_an_error() {
    let error = failure(
        b"fio version 2 iolog\nf add\nf close\n",
        "iolog",
        Event::Queue,
    );
    assert!(
        error.contains("3 lines, 0 of them malformed, and no I/O"),
        "{error}"
    );
    assert!(failure(b"", "spc", Event::Queue).contains("it is empty"));
}

#[test]
fn logs_that_have_no_requests_are_refused() {
    let averaged = b"1000, 345188, 1, 0, 0\n2000, 339778, 1, 0, 0\n";
    let error = failure(averaged, "fio-log", Event::Queue);
    assert!(
        error.contains("an averaged log (log_avg_msec) has no requests"),
        "{error}"
    );
    // Without log_offset the fifth column is the priority.
    let placeless = b"1, 345188, 1, 4096, 0\n2, 339778, 1, 4096, 0\n";
    let error = failure(placeless, "fio-log", Event::Queue);
    assert!(
        error.contains("all offsets are 0: write the log with log_offset=1"),
        "{error}"
    );
}

#[test]
fn a_second_capture_in_a_file_is_not_mixed_into_the_first() {
    let blkparse = b"8,0 1 1 0.000000000 7 Q W 8 + 8 [a]\n8,0 1 2 0.000001000 7 Q W 16 + 8 [a]\n";
    let iolog = b"fio version 2 iolog\nf add\nf read 0 4096\n";
    let spc = b"0,0,512,r,0.0\n0,1,512,r,1.0\n";
    let mut blktrace = [
        event(100, 8, 4096, READ | 1, b""),
        event(200, 8, 4096, READ | 1, b""),
    ];
    blktrace[1][4] = 2; // its sequence number
    let summary = [BLKPARSE, BLKPARSE].concat();
    for (text, format, words) in [
        (
            &blkparse.repeat(2)[..],
            "blkparse",
            "line 3: expected the next line of one capture",
        ),
        (
            &summary,
            "blkparse",
            "here a second one begins (split the file)",
        ),
        (
            &iolog.repeat(2),
            "iolog",
            "line 4: expected the next line of one capture",
        ),
        (
            &spc.repeat(2),
            "spc",
            "line 3: expected a later time; the clock starts again",
        ),
        (
            &[blktrace.concat(), blktrace.concat()].concat(),
            "blktrace",
            "record 3: expected the next line of one capture",
        ),
    ] {
        let error = failure(text, format, Event::Queue);
        assert!(error.contains(words), "{format}: {error}");
    }
    let options = TraceOptions {
        reorder: Some(10),
        ..options()
    };
    assert_eq!(read(&spc.repeat(2), Some("spc"), &options).len(), 4);
}

#[test]
fn requests_of_a_whole_second_are_spread_over_it() {
    let text = b"100,0,8,0,1\n100,8,8,0,1\n101,0,8,0,1\n100,16,8,0,1\n100,24,8,0,1\n";
    let times = named_rows(text, "tencent");
    let times: Vec<u64> = times.iter().map(|row| row.0 / 1_000_000).collect();
    assert_eq!(times, [0, 250, 500, 750, 1000]);
}

#[test]
fn five_whole_numbers_may_be_two_formats() {
    let text = b"938513000 1 1073741824 16 0\n941784000 1 1879048192 0 2\n";
    assert_eq!(named_rows(text, "mqsim").len(), 1);
    assert_eq!(named_rows(text, "disksim").len(), 1);
    let error = read_bytes("z", text.to_vec(), None, &options())
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("it may be mqsim or disksim"),
        "{error}"
    );
    let text = b"1 0 8 16 0\n7 0 8 16 1\n";
    assert!(read_bytes("z", text.to_vec(), None, &options()).is_err());
    let text = b"1 0 8 16 0\n70000 0 8 16 1\n";
    let detected = read_bytes("z", text.to_vec(), None, &options()).unwrap();
    assert_eq!(detected.format().name, "mqsim");
}

#[test]
fn two_captures_in_one_file_are_noticed_and_late_lines_are_not() {
    let fell_back = |text: &[u8]| {
        let reordering = TraceOptions {
            reorder: Some(100),
            ..options()
        };
        let mut reader = read_bytes("trace", text.to_vec(), None, &reordering).unwrap();
        assert!(reader.by_ref().all(|record| record.is_ok()));
        reader.skipped().fell_back_ns
    };
    assert_eq!(
        fell_back(b"0,0,512,R,0.0\n0,0,512,R,0.4\n0,8,512,R,0.1\n0,8,512,R,0.5\n"),
        300_000_000
    );
    assert_eq!(
        fell_back(b"0,0,512,R,0.0\n0,0,512,R,9.0\n0,0,512,R,8.0\n"),
        0
    );
    assert_eq!(fell_back(b"0,0,512,R,0.0005\n0,0,512,R,0.0\n"), 0);
    assert_eq!(
        fell_back(b"0,0,512,R,0.0\n0,0,512,R,9.0\n0,0,512,R,9.5\n"),
        0
    );
}
