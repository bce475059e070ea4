//! Timelines of requests: logs of simulations, and the stages of requests in other formats.

use super::tests::{options, rows};
use super::*;

const LOG: &str = "scheduler,processes,seed,sector,arrival_ns,inserted_ns,dispatched_ns,\
completed_ns,process,sectors,bios,operation
bfq,a,1,8,1000,1200,1500,3000,writer-1,16,2,write
bfq,a,1,64,1100,1100,1100,2000,reader,8,1,read
";

#[test]
fn a_simulated_log_is_a_trace_with_the_stages_of_its_requests() {
    let expected = [
        (0, 8 * 512, 8192, true, 0, Some(2000)),
        (100, 64 * 512, 4096, false, 0, Some(900)),
    ];
    assert_eq!(rows(LOG.as_bytes(), "sim-log"), expected);
    let reader = read_bytes("t", LOG.into(), None, &options()).unwrap();
    let waited: Vec<_> = reader
        .map(|record| record.unwrap().waited.unwrap())
        .collect();
    assert_eq!(waited, [[Nanos(200), Nanos(300)], [Nanos(0), Nanos(0)]]);
    let pages = "policy,seed,index,arrival_ns,dispatched_ns,completed_ns,first_page,pages,operation
fcfs, x,1,0,5,7,9,2,1,trim\n";
    assert_eq!(
        rows(pages.as_bytes(), "sim-log"),
        [(0, 8192, 4096, false, 0, Some(4))]
    );
    let two = format!("{LOG}none,a,1,64,1100,1100,1100,2000,reader,8,1,read\n");
    let error = read_bytes("t", two.into(), Some("sim-log"), &options());
    let message = error
        .unwrap()
        .find_map(|record| record.err())
        .unwrap()
        .to_string();
    assert!(message.contains("a second one begins"), "{message}");
}

#[test]
fn requests_that_overlap_are_on_lanes_of_their_own_and_events_in_the_order_of_time() {
    for (to, least) in [("perfetto", 300), ("ctf", 300)] {
        let mut reader = read_bytes("t", LOG.into(), None, &options()).unwrap();
        let mut out = Vec::new();
        let stop = schedlab_model::Stop::default();
        let path = std::path::Path::new("out");
        assert_eq!(
            convert(&mut reader, &mut out, path, to, &stop)
                .unwrap()
                .requests,
            2
        );
        assert!(out.len() > least, "{to}: {}", out.len());
        let has = |text: &[u8]| out.windows(text.len()).any(|part| part == text);
        assert!(has(b"writer-1") && has(b"reader"));
        assert_eq!(
            has(b"tag 1") && has(b"device 2") && !has(b"tag 2"),
            to == "perfetto"
        );
    }
}

#[test]
fn a_device_is_called_as_the_trace_calls_it() {
    let table = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n1.0 dd 7 nvme0n1 R 8 4096 0.5\n";
    let kernel = "  259,3    0        1     0.000000000     7  Q  R 8 + 8 [dd]\n";
    let volume = "0,R,8192,4096,1\n";
    for (text, format, name) in [
        (table, "biosnoop", "nvme0n1\0"),
        (kernel, "blkparse", "259:3\0"),
        (volume, "alibaba", "\x000\0"),
    ] {
        for to in ["perfetto", "ctf"] {
            let mut reader = read_bytes("t", text.into(), Some(format), &options()).unwrap();
            let (mut out, stop) = (Vec::new(), schedlab_model::Stop::default());
            convert(&mut reader, &mut out, "out".as_ref(), to, &stop).unwrap();
            let shown = name.trim_matches('\0').as_bytes();
            let part = if to == "ctf" { name.as_bytes() } else { shown };
            let has = out.windows(part.len()).any(|each| each == part);
            assert!(has, "{format} to {to}: {out:?}");
        }
    }
}

#[test]
fn a_recorded_request_waits_for_its_tag_and_then_in_the_scheduler() {
    let mut text = b"SCHEDLAB TRACE 2 {}\n".to_vec();
    // Arrival, issue, completion, tag: one that waited for it, and one that joined another.
    for (number, tag_ns) in [1200, 0].into_iter().enumerate() {
        let mut record = [0; 112];
        let words = [(0, 1000), (8, 1500), (16, 3000), (24, 8), (96, tag_ns)];
        for (at, value) in words {
            record[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
        }
        record[56..60].copy_from_slice(&4096u32.to_le_bytes());
        record[60] = number as u8;
        text.extend(record);
    }
    let mut end = [0; 112];
    end[72..74].copy_from_slice(&u16::MAX.to_le_bytes());
    text.extend(end);
    let reader = read_bytes("t", text, Some("schedlab"), &options()).unwrap();
    let waited: Vec<_> = reader
        .map(|record| record.unwrap().waited.unwrap().map(|ns| ns.0))
        .collect();
    assert_eq!(waited, [[200, 300], [0, 500]]);
}

#[test]
fn a_response_time_beyond_the_clock_is_refused() {
    let text = format!("128166372003061629,usr,0,Read,8,8,{}\n", u64::MAX / 100);
    let error = read_bytes("t", text.into(), Some("msr"), &options())
        .unwrap()
        .find_map(Result::err);
    let message = error.unwrap().to_string();
    assert!(message.contains("within 64 bits"), "{message}");
}
