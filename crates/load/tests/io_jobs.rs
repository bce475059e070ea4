//! Whole jobs on real files: what is counted, written, found, refused and interrupted.
#![allow(clippy::unwrap_used)] // the helpers of a test are tests

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_support::{carry_out, engines, group, laid_out, pass, refuse, scratch, with, SPAN};
use schedlab_load::io::{run, run_watched, Decision, IoError, Job};
use schedlab_model::{Action, Script, ScriptStep};
use serde_json::{json, Value};

mod io_support;

#[test]
fn one_pass_of_every_pattern_and_engine_moves_every_byte_once() {
    let (_directory, path) = scratch();
    for engine in engines() {
        for pattern in [
            json!({"kind": "sequential"}),
            json!({"kind": "reverse"}),
            json!({"kind": "random"}),
            json!({"kind": "stride", "records": 17}),
        ] {
            let write = json!({"workload.direction": {"kind": "write"}, "file": "fresh",
                               "workload.pattern": pattern, "fsync_at_end": true});
            let result = pass(&path, with(&engine, write));
            let writes = &result.groups[0].writes;
            assert_eq!((writes.operations, writes.bytes), (SPAN / 4096, SPAN));
            assert_eq!(writes.latency.count, SPAN / 4096);
            assert!(result.groups[0].workers[0].fsync_ns > 0);
            let data = fs::read(&path).unwrap();
            assert_eq!(data.len() as u64, SPAN);
            let mut pages: Vec<&[u8]> = data.chunks(4096).collect();
            pages.sort_unstable();
            pages.dedup();
            assert_eq!(pages.len() as u64, SPAN / 4096, "no two pages are equal");

            let result = pass(&path, with(&engine, json!({"workload.pattern": pattern})));
            let reads = &result.groups[0].reads;
            assert_eq!((reads.bytes, reads.errors, reads.short), (SPAN, 0, 0));
            assert_eq!(result.groups[0].workers[0].stopped_by, "pass");
        }
    }
}

#[test]
fn written_data_does_not_compress() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let mut counts = [0f64; 256];
    let data = fs::read(&path).unwrap();
    data.iter().for_each(|byte| counts[*byte as usize] += 1.0);
    let bits: f64 = counts
        .iter()
        .map(|count| count / data.len() as f64)
        .map(|share| -share * share.log2())
        .sum();
    assert!(bits > 7.9, "{bits} bits per byte");
}

#[test]
fn groups_run_at_once_and_workers_divide_a_file_or_have_their_own() {
    let (directory, path) = scratch();
    laid_out(&path);
    let own = directory.path().join("own.{worker}");
    let groups = vec![
        group(
            &path,
            json!({"name": "readers", "workers": 3, "layout": "divided"}),
        ),
        group(
            &own,
            json!({"name": "writers", "workers": 2, "file": "fresh",
                   "workload.direction": {"kind": "write"}}),
        ),
    ];
    let result = carry_out(None, groups).unwrap();
    let (readers, writers) = (&result.groups[0], &result.groups[1]);
    assert_eq!(readers.reads.operations, SPAN / 4096 / 3 * 3);
    assert_eq!(writers.writes.bytes, 2 * SPAN);
    let numbers: Vec<u32> = readers.workers.iter().map(|w| w.worker).collect();
    assert_eq!(numbers, [0, 1, 2]);
    for worker in &writers.workers {
        assert_eq!(fs::metadata(&worker.path).unwrap().len(), SPAN);
        assert_eq!(worker.bytes, SPAN);
    }
}

#[test]
fn the_window_is_kept_and_cpu_time_is_its_own() {
    let (_directory, path) = scratch();
    laid_out(&path);
    for engine in engines() {
        let result = carry_out(Some(0.3), vec![group(&path, engine)]).unwrap();
        let group = &result.groups[0];
        let seconds = group.elapsed_ns as f64 / 1e9;
        assert!((0.25..2.0).contains(&seconds), "{seconds}");
        assert_eq!(group.workers[0].stopped_by, "time");
        let cpu = group.cpu_user_ns + group.cpu_system_ns;
        assert!(cpu > 0 && cpu < group.elapsed_ns * 11 / 10, "{cpu}");
        assert!(group.device_bytes_read >= group.reads.bytes);
    }
}

#[test]
fn an_open_loop_shows_waiting_that_a_closed_loop_hides() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let durable = json!({"workload.direction": {"kind": "write"}, "sync": "dsync",
                         "workload.record": 65536});
    for engine in [
        json!({"engine": "psync"}),
        json!({"engine": "io_uring", "max_in_flight": 1}),
    ] {
        if !engines().iter().any(|e| e["engine"] == engine["engine"]) {
            continue;
        }
        let closed = with(&engine, durable.clone());
        let closed = &carry_out(Some(0.3), vec![group(&path, closed)]).unwrap();
        // Many more arrivals than the file takes, also when the machine happens to be faster now.
        let rate = 20.0 * closed.groups[0].writes.operations as f64 / 0.3;
        for kind in ["constant", "poisson"] {
            let open = with(
                &with(&engine, durable.clone()),
                json!({"workload.arrivals": {"kind": kind, "rate_per_s": rate}}),
            );
            let open = &carry_out(Some(0.3), vec![group(&path, open)])
                .unwrap()
                .groups[0];
            assert_eq!(open.arrivals, kind);
            assert!(open.unissued > 0);
            let counted = open.writes.operations + open.unissued;
            assert!(open.writes.latency.count >= counted);
            // Nearly all arrivals still wait at the end, the first of them almost 0.3 s.
            assert!(
                open.writes.latency.max > 50_000_000,
                "{}",
                open.writes.latency.max
            );
            assert!(open.start_lag.as_ref().unwrap().count >= open.writes.operations);
        }
    }
}

#[test]
fn a_rate_that_the_file_bears_is_kept() {
    let (_directory, path) = scratch();
    laid_out(&path);
    for engine in engines() {
        let open = with(
            &engine,
            json!({"workload.arrivals": {"kind": "constant", "rate_per_s": 500.0}}),
        );
        let open = &carry_out(Some(0.4), vec![group(&path, open)])
            .unwrap()
            .groups[0];
        let arrived = open.reads.operations + open.unissued;
        // On a busy machine the window ends late.
        let due = open.elapsed_ns as f64 * 500e-9;
        assert!((arrived as f64 - due).abs() <= 10.0, "{arrived} of {due}");
    }
}

#[test]
fn a_stopped_job_does_not_wait_for_its_end() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let rare = json!({"workload.arrivals": {"kind": "constant", "rate_per_s": 0.01}});
    let mut settings = engines();
    settings.extend(engines().iter().map(|engine| with(engine, rare.clone())));
    let many = json!({"workload.arrivals": {"kind": "constant", "rate_per_s": 1e6}});
    settings.extend(engines().iter().map(|engine| with(engine, many.clone())));
    settings.push(json!({"engine": "psync", "start_after_ms": 50_000}));
    for setting in settings {
        let job = json!({"seconds": 60.0, "groups": [group(&path, setting)]});
        let job = Job::from_json(&job.to_string()).unwrap();
        let begun = Instant::now();
        let (polls, is_ready) = (Cell::new(0), Cell::new(false));
        let result = run_watched(&job, &mut |_| is_ready.set(true), &mut || {
            polls.set(polls.get() + u32::from(is_ready.get()));
            if polls.get() < 3 {
                Decision::Continue
            } else {
                Decision::Abort
            }
        });
        let result = result.unwrap();
        assert!(result.interrupted);
        assert_eq!(result.abandoned_workers, 0);
        assert_eq!(result.groups[0].workers[0].stopped_by, "interrupt");
        assert_eq!(
            result.groups[0].unissued, 0,
            "only the end of the time gives up"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "not the 60 s of the job"
        );
    }
}

#[test]
fn one_that_cannot_begin_sends_the_others_home() {
    let (directory, path) = scratch();
    laid_out(&path);
    let missing = directory.path().join("missing");
    let groups = [&path, &missing].map(|path| group(path, json!({})));
    let begun = Instant::now();
    let error = carry_out(None, groups.to_vec()).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_worker_process_that_does_not_come_back_is_killed() {
    let (directory, path) = scratch();
    laid_out(&path);
    let fifo = directory.path().join("log");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    // Opening it for writing waits for a reader.
    let log = json!({"path": fifo, "record": 512, "reads": 1});
    let job = json!({"groups": [group(&path, json!({"log": log}))], "process": true});
    let job = Job::from_json(&job.to_string()).unwrap();
    let result = run(&job, &mut || Decision::Abort).unwrap();
    assert_eq!(result.abandoned_workers, 1);
    let children = || -> String {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let files = threads.map(|thread| thread.unwrap().path().join("children"));
        files
            .map(|f| std::fs::read_to_string(f).unwrap_or_default())
            .collect()
    };
    let begun = Instant::now();
    while !children().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", children());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_job_that_was_long_enough_ends_as_if_its_time_were_over() {
    let (_directory, path) = scratch();
    laid_out(&path);
    for engine in engines() {
        let job = json!({"seconds": 60.0, "groups": [group(&path, engine)]});
        let job = Job::from_json(&job.to_string()).unwrap();
        let mut begun = None;
        let result = run(&job, &mut || {
            if begun.get_or_insert_with(Instant::now).elapsed() < Duration::from_millis(100) {
                Decision::Continue
            } else {
                Decision::Stop
            }
        });
        let result = result.unwrap();
        let group = &result.groups[0];
        assert!(!result.interrupted);
        assert_eq!(group.workers[0].stopped_by, "time");
        assert!((50_000_000..10_000_000_000).contains(&group.elapsed_ns));
        assert!(group.reads.operations > 0);
    }
}

#[test]
fn a_file_that_shrinks_under_the_load_is_counted_and_ends_it() {
    for engine in engines() {
        let (_directory, path) = scratch();
        laid_out(&path);
        let job = json!({"seconds": 30.0, "groups": [group(&path, engine.clone())]});
        let job = Job::from_json(&job.to_string()).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let result = run(&job, &mut || {
            file.set_len(0).unwrap();
            Decision::Continue
        });
        let group = &result.unwrap().groups[0];
        assert_eq!(group.workers[0].stopped_by, "errors", "{engine}");
        assert!(group.reads.errors + group.reads.short >= 100);
        assert!(group.elapsed_ns < 20_000_000_000);
    }
}

#[test]
fn impossible_jobs_are_refused_with_their_reason() {
    let (directory, path) = scratch();
    laid_out(&path);
    let refused = |changes: Value, seconds: Option<f64>| {
        carry_out(seconds, vec![group(&path, changes)])
            .unwrap_err()
            .to_string()
    };
    for (changes, words) in [
        (json!({"workload.record": 0}), "record"),
        (
            json!({"workload.span": 1 << 30}),
            "1 MiB, but the workload touches 1 GiB",
        ),
        (
            json!({"workload.arrivals": {"kind": "closed", "depth": 4}}),
            "psync has one request",
        ),
        (json!({"engine": "mmap", "direct": true}), "page cache"),
        (json!({"engine": "io_uring", "batch": 9}), "batch"),
        (json!({"workers": 0}), "workers"),
        (json!({"file": "fresh"}), "nothing to read"),
        (
            json!({"path": directory.path().join("missing")}),
            "missing: open: No such file",
        ),
        (json!({"path": directory.path()}), "is a directory"),
        (
            json!({"path": "/dev/full", "file": "fresh", "workload.direction": {"kind": "write"}}),
            "is a character device, expected a file",
        ),
        (json!({"depht": 3}), "depht"),
    ] {
        let message = refused(changes, None);
        assert!(message.contains(words), "{message}");
    }
    assert!(refused(json!({}), Some(0.0)).contains("seconds"));
}

#[test]
fn buffers_that_would_fill_the_memory_are_refused() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let huge = json!({"engine": "io_uring", "workload.record": 1 << 30, "workload.span": 1i64 << 40,
                      "workload.arrivals": {"kind": "closed", "depth": 32767}});
    let error = carry_out(None, vec![group(&path, huge)]).unwrap_err();
    assert!(matches!(error, IoError::TooMuchMemory { .. }), "{error}");
}

#[test]
fn direct_io_names_record_size_and_logical_block() {
    let (_directory, path) = scratch();
    laid_out(&path);
    match carry_out(
        None,
        vec![group(
            &path,
            json!({"direct": true, "workload.record": 700}),
        )],
    ) {
        Err(error @ IoError::Misaligned { .. }) => {
            let message = error.to_string();
            assert!(message.contains("record size of 700 B"), "{message}");
            assert!(message.contains("logical block size of "), "{message}");
            assert!(error.hint().contains("a multiple of"));
        }
        Err(IoError::System {
            operation: "open", ..
        }) => {
            println!("skipped: the temporary directory's file system has no O_DIRECT");
        }
        other => panic!("{other:?}"),
    }
}

/// A file system of 1 MiB, unmounted when dropped.
struct TinyDisk(tempfile::TempDir);

impl TinyDisk {
    fn mount() -> Option<TinyDisk> {
        let directory = tempfile::tempdir().unwrap();
        let target = std::ffi::CString::new(directory.path().to_str().unwrap()).unwrap();
        // SAFETY: all pointers are null-terminated strings that live through the call.
        let mounted = unsafe {
            libc::mount(
                c"tmpfs".as_ptr(),
                target.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"size=1m".as_ptr().cast(),
            )
        };
        (mounted == 0).then_some(TinyDisk(directory))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let target = std::ffi::CString::new(self.0.path().to_str().unwrap()).unwrap();
        // SAFETY: a null-terminated string that lives through the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_disk_is_counted_and_leaves_no_file() {
    let Some(disk) = TinyDisk::mount() else {
        println!("skipped: may not mount a tmpfs (not root)");
        return;
    };
    let path = disk.0.path().join("data");
    for engine in engines() {
        let write = json!({"workload.direction": {"kind": "write"}, "file": "fresh",
                           "workload.span": 8 << 20});
        let result = pass(&path, with(&engine, write));
        let group = &result.groups[0];
        assert_eq!(group.workers[0].stopped_by, "no_space", "{engine}");
        assert!(group.error_counts["ENOSPC"] >= 1);
        let first = group.first_error.as_ref().unwrap();
        assert_eq!(
            (first.operation.as_str(), first.error.as_str()),
            ("write", "ENOSPC")
        );
        assert!(group.writes.bytes <= 1 << 20);
        assert!(!path.exists(), "the half-written file is removed");
    }
    File::create(&path).unwrap();
    let write = json!({"workload.direction": {"kind": "write"}, "workload.span": 8 << 20});
    let result = pass(&path, write);
    assert_eq!(result.groups[0].workers[0].stopped_by, "no_space");
    assert!(path.exists(), "it was there before");
}

#[test]
fn a_refused_io_uring_is_an_error_unless_the_fallback_is_allowed() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let setting = json!({"engine": "io_uring",
                         "workload.arrivals": {"kind": "closed", "depth": 8}});
    std::thread::spawn(move || {
        refuse(libc::SYS_io_uring_setup);
        let error = carry_out(None, vec![group(&path, setting.clone())]).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("(EPERM)"), "{message}");
        assert!(error.hint().contains("io_uring_disabled"));
        let allowed = with(&setting, json!({"allow_fallback": true}));
        let result = &pass(&path, allowed).groups[0];
        assert_eq!(result.engine, "psync");
        assert!(result.fallback.as_ref().unwrap().contains("not permitted"));
        assert_eq!(result.reads.bytes, SPAN);
    })
    .join()
    .unwrap();
}

#[test]
fn a_replay_has_no_request_that_is_longer_than_its_buffers() {
    let replay = json!({"engine": "io_uring", "direct": true,
                        "replay": {"stream": 0, "timing": "closed"}});
    let groups = [group(Path::new("/dev/null"), replay)];
    let text = json!({"seconds": 1.0, "groups": groups}).to_string();
    for (bytes, fits) in [(4096, true), (4608, false)] {
        let step = ScriptStep {
            action: Action::Read,
            durable: false,
            offset: 0,
            bytes,
            at_ns: 0,
            end_ns: 0,
        };
        let mut job = Job::from_json(&text).unwrap();
        let attached = job.attach(&[Arc::new(Script::new(vec![step], 1, 0))]);
        assert_eq!(attached.is_ok(), fits, "{bytes}");
    }
}

#[test]
fn writes_of_every_sync_mode_arrive() {
    let (_directory, path) = scratch();
    File::create(&path).unwrap().set_len(2 * SPAN).unwrap();
    laid_out(&path);
    for engine in engines() {
        for sync in ["none", "dsync", "sync"] {
            let write = json!({"workload.direction": {"kind": "write"}, "sync": sync,
                               "workload.span": 1 << 16, "close_counted": true});
            let result = &pass(&path, with(&engine, write)).groups[0];
            assert_eq!(result.writes.operations, 16);
            assert!(result.first_error.is_none());
        }
    }
    assert_eq!(File::open(&path).unwrap().metadata().unwrap().len(), SPAN);
}

#[test]
fn a_pass_that_drops_the_cache_at_its_end_begins_anew_until_time_is_up() {
    let (_directory, path) = scratch();
    laid_out(&path);
    let records = |seconds: Option<f64>, changes: Value| {
        let changes = with(&changes, json!({"workload.record": 65536}));
        let result = carry_out(seconds, vec![group(&path, changes)]).unwrap();
        assert!(result.groups[0].first_error.is_none());
        result.groups[0].reads.operations
    };
    let once = SPAN / 65536;
    assert_eq!(records(Some(0.3), json!({"at_end": "stop"})), once);
    assert!(records(Some(0.3), json!({"at_end": "drop"})) > 2 * once);
    assert_eq!(records(None, json!({"at_end": "drop"})), once);
    let few = json!({"at_end": "drop", "requests": 3});
    assert_eq!(records(Some(0.3), few), 3);
}
