//! Small jobs on files, for the tests of whole jobs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schedlab_load::io::{run, Decision, IoError, Job, JobResult};
use serde_json::{json, Value};

pub const SPAN: u64 = 1 << 20;
/// Far more than any job here takes.
const LIMIT: Duration = Duration::from_secs(20);

pub fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    (directory, path)
}

/// A group on `path`; `changes` replaces or adds keys, those of the workload by "workload.key".
pub fn group(path: &Path, changes: Value) -> Value {
    let mut group = json!({
        "name": "g", "path": path, "engine": "psync",
        "workload": {"pattern": {"kind": "sequential"}, "direction": {"kind": "read"},
                     "record": 4096, "span": SPAN,
                     "arrivals": {"kind": "closed", "depth": 1}, "seed": 5}
    });
    for (key, value) in changes.as_object().unwrap() {
        match key.strip_prefix("workload.") {
            Some(key) => group["workload"][key] = value.clone(),
            None => group[key] = value.clone(),
        }
    }
    group
}

/// Runs a job; one that does not end by itself is stopped, and fails the test.
pub fn carry_out(seconds: Option<f64>, groups: Vec<Value>) -> Result<JobResult, IoError> {
    let job = Job::from_json(&json!({"seconds": seconds, "groups": groups}).to_string())?;
    let begun = Instant::now();
    let result = run(&job, &mut || match begun.elapsed() < LIMIT {
        true => Decision::Continue,
        false => Decision::Abort,
    });
    if let Ok(result) = &result {
        assert!(!result.interrupted, "the job did not end by itself");
    }
    result
}

pub fn pass(path: &Path, changes: Value) -> JobResult {
    carry_out(None, vec![group(path, changes)]).unwrap()
}

pub fn laid_out(path: &Path) {
    let result = pass(
        path,
        json!({"workload.direction": {"kind": "write"}, "file": "fresh"}),
    );
    assert_eq!(result.groups[0].device_bytes_written, SPAN);
}

/// Settings of every engine that this machine has, with a queue where there is one.
pub fn engines() -> Vec<Value> {
    let mut engines = vec![json!({"engine": "psync"}), json!({"engine": "mmap"})];
    match schedlab_load::io::nop::calibrate(1, 1) {
        Ok(_) => engines.push(json!({"engine": "io_uring",
                                     "workload.arrivals": {"kind": "closed", "depth": 16}})),
        Err(error) => println!("skipped for io_uring: {error}"),
    }
    engines
}

pub fn with(base: &Value, changes: Value) -> Value {
    let mut all = base.clone();
    for (key, value) in changes.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

/// Makes a system call fail with EPERM in this thread and those that it starts.
pub fn refuse(call: libc::c_long) {
    let filter = [
        // Load the system call's number; skip one when it is not that one; EPERM; allow.
        (0x20, 0, 0, 0),
        (0x15, 0, 1, call as u32),
        (0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        (0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program lives through the calls; only this thread is restricted.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &program), 0);
    }
}
