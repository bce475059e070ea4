//! What the figures of a job mean: from when to when something is timed, and what it waited for.
#![allow(clippy::unwrap_used)] // the helpers of a test are tests

use std::collections::BTreeSet;

use io_support::{carry_out, engines, group, laid_out, pass, refuse, scratch, with};
use schedlab_load::io::result::Latency;
use serde_json::json;

mod io_support;

#[test]
fn a_transaction_lasts_from_its_first_read_to_the_end_of_its_commit() {
    let (directory, path) = scratch();
    laid_out(&path);
    let log = json!({"path": directory.path().join("log"), "record": 512, "reads": 4});
    let client = json!({"log": log, "requests": 8, "workload.record": 65536});
    let client = &carry_out(None, vec![group(&path, client)]).unwrap().groups[0];
    let transactions = client.transactions.as_ref().unwrap();
    assert_eq!((transactions.count, client.reads.operations), (8, 32));

    // Reads, commit and next transaction follow each other without a gap.
    let total = |latency: &Latency| (latency.mean * latency.count as f64).round() as u64;
    let parts_ns = total(&client.reads.latency) + total(&client.writes.latency);
    assert_eq!(total(&transactions.latency), parts_ns);
    let responses = &client.responses;
    assert_eq!(
        responses.iter().map(|response| response.1).sum::<u64>(),
        parts_ns
    );
    for pair in responses.windows(2) {
        assert_eq!(pair[0].0 + pair[0].1, pair[1].0);
    }
}

#[test]
fn every_record_that_is_written_to_a_mapping_is_synced_if_it_should_be() {
    let (_directory, path) = scratch();
    laid_out(&path);
    std::thread::spawn(move || {
        refuse(libc::SYS_msync);
        for (sync, refused) in [("none", 0), ("dsync", 16), ("sync", 16)] {
            let write = json!({"engine": "mmap", "sync": sync, "workload.span": 16 * 4096,
                               "workload.direction": {"kind": "write"}});
            let writes = &pass(&path, write).groups[0].writes;
            assert_eq!(
                (writes.operations, writes.errors),
                (16 - refused, refused),
                "{sync}"
            );
        }
    })
    .join()
    .unwrap();
}

#[test]
fn what_makes_data_durable_is_timed_where_asked_and_its_failure_ends_the_worker() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let write = json!({"workload.direction": {"kind": "write"}, "requests": 8});
    for (changes, is_longer) in [
        (json!({}), false),
        (json!({"fsync_at_end": true}), true),
        (json!({"close_counted": true}), true),
    ] {
        let result = &pass(&path, with(&write, changes)).groups[0];
        let (start_ns, response_ns) = result.responses[7];
        assert_eq!(result.elapsed_ns > start_ns + response_ns, is_longer);
    }
    let synced = json!({"workload.direction": {"kind": "write"}, "fsync_at_end": true});
    let timed = carry_out(Some(0.02), vec![group(&path, synced.clone())]).unwrap();
    assert!(timed.groups[0].workers[0].fsync_ns > 0);
    std::thread::spawn(move || {
        refuse(libc::SYS_fsync);
        let dropped = json!({"at_end": "drop"});
        for (changes, operation, stopped_by) in [
            (synced.clone(), "fsync", "errors"),
            (dropped, "drop the cache", "pass"),
        ] {
            let refused = &carry_out(Some(0.05), vec![group(&path, changes)])
                .unwrap()
                .groups[0];
            let first = refused.first_error.as_ref().unwrap();
            let ended = (first.operation.as_str(), refused.workers[0].stopped_by);
            assert_eq!(ended, (operation, stopped_by));
        }
        let primed = with(&synced, json!({"prime": "write"}));
        for (changes, operation) in [(primed, "fsync"), (json!({"cold": true}), "drop the cache")] {
            let error = carry_out(None, vec![group(&path, changes)]).unwrap_err();
            assert!(error.to_string().contains(operation), "{error}");
        }
    })
    .join()
    .unwrap();
}

#[test]
fn a_completion_has_the_time_of_its_batch_or_its_own() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let Some(queue) = engines().into_iter().find(|e| e["engine"] == "io_uring") else {
        return;
    };
    // All 16 requests in flight are awaited, so a batch is all of them.
    let queue = with(&queue, json!({"batch": 16, "requests": 64}));
    let times = |clock: &str| {
        let job = with(&queue, json!({"clock": clock}));
        let result = &pass(&path, job).groups[0];
        assert_eq!(result.responses.len(), 64);
        let ends = result
            .responses
            .iter()
            .map(|(start, response)| start + response);
        let starts = result.responses.iter().map(|response| response.0);
        let different = |times: BTreeSet<u64>| times.len();
        (different(starts.collect()), different(ends.collect()))
    };
    assert_eq!(times("batch"), (4, 4));
    // The first 16 begin at once; a clock may tick only after two of the others.
    let (starts, ends) = times("completion");
    assert!(starts > 24 && ends > 32, "{starts} starts, {ends} ends");
}
