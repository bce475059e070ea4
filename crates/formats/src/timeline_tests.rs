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
