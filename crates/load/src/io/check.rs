//! What a job may ask for: refused before anything is started, naming group and key.

use schedlab_model::{Arrivals, Bytes, Direction};

use super::error::IoError;
use super::job::{EngineKind, FileState, Group, Job, Prime};

/// The kernel's limit of a submission ring; one entry stays for the wake-up.
const DEPTH_MAX: u32 = 32_767;
const WORKERS_MAX: u32 = 1024;
/// Requests per second and worker beyond which a schedule is no load but a mistake.
const RATE_MAX: f64 = 1e7;
/// The longest that a single system call of ours moves.
const RECORD_MAX: u64 = 1 << 30;
/// Response times that are kept one by one, per worker.
const REQUESTS_MAX: u64 = 1_000_000;

impl Job {
    /// Refuses what cannot be carried out, naming group and key.
    pub fn check(&self) -> Result<(), IoError> {
        let seconds = |value: f64| value.is_finite() && (0.0..1e7).contains(&value);
        if self.groups.is_empty() {
            return Err(IoError::Malformed("no groups".into()));
        }
        if !seconds(self.ramp_seconds) || !self.seconds.is_none_or(|s| seconds(s) && s > 0.0) {
            return Err(IoError::Malformed(
                "seconds must be positive, ramp_seconds not negative".into(),
            ));
        }
        if self.seconds.is_none() && self.ramp_seconds > 0.0 {
            return Err(IoError::Malformed(
                "ramp_seconds needs seconds: a single pass has no warm-up".into(),
            ));
        }
        self.groups.iter().try_for_each(Group::check)?;
        self.groups.iter().try_for_each(|group| {
            if group.cgroup.is_some() && !self.process {
                let reason = "threads share the cgroup of their process; set \"process\"";
                return Err(group.refuse("cgroup", reason.into()));
            }
            let end_s = self.seconds.map(|seconds| seconds + self.ramp_seconds);
            if end_s.is_some_and(|end| group.start_after_ms as f64 >= end * 1e3) {
                return Err(group.refuse("start_after_ms", "begins after the job's end".into()));
            }
            Ok(())
        })
    }
}

impl Group {
    /// What one group by itself may ask.
    fn check(&self) -> Result<(), IoError> {
        self.workload.check().map_err(|source| IoError::Workload {
            group: self.name.clone(),
            source,
        })?;
        if self.workload.record.0 > RECORD_MAX {
            return Err(self.refuse("record", format!("at most {}", Bytes(RECORD_MAX))));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(self.refuse("workers", format!("1 to {WORKERS_MAX}")));
        }
        if self.records_per_worker() == 0 {
            return Err(self.refuse("workers", "more workers than records to divide".into()));
        }
        self.check_engine()?;
        self.check_course()?;
        Ok(())
    }

    /// How the group starts, continues and ends.
    fn check_course(&self) -> Result<(), IoError> {
        let writes = self.workload.direction != Direction::Read;
        if self.path.as_os_str().is_empty() {
            return Err(self.refuse("path", "needs a path or an fd".into()));
        }
        if !self
            .requests
            .is_none_or(|n| (1..=REQUESTS_MAX).contains(&n))
        {
            return Err(self.refuse("requests", format!("1 to {REQUESTS_MAX}")));
        }
        if self.ioprio.is_some_and(|ioprio| ioprio.level > 7) {
            return Err(self.refuse("ioprio", "levels are 0 to 7".into()));
        }
        if self.discard && !writes {
            return Err(self.refuse("discard", "a group that only reads discards nothing".into()));
        }
        if self.prime == Prime::Write && !writes {
            let reason = "\"write\" is for groups that write";
            return Err(self.refuse("prime", reason.into()));
        }
        if self.prime == Prime::Read && self.workload.direction == Direction::Write {
            return Err(self.refuse("prime", "\"read\" is for groups that read".into()));
        }
        if self.replay.is_some() {
            self.check_replay()?;
        }
        let Some(log) = &self.log else {
            return Ok(());
        };
        let psync_reads = self.engine == EngineKind::Psync && !writes;
        if !psync_reads || self.has_own_files() {
            let reason = "a database client reads by psync, and has one file";
            return Err(self.refuse("log", reason.into()));
        }
        if log.path.as_os_str().is_empty() || !(1..=RECORD_MAX).contains(&log.record.0) {
            return Err(self.refuse("log", "needs a path or fd, and a record".into()));
        }
        if log.reads > 1_000_000 {
            return Err(self.refuse("log", "at most 1000000 reads in a transaction".into()));
        }
        Ok(())
    }

    fn check_replay(&self) -> Result<(), IoError> {
        let by_ring = self.engine == EngineKind::IoUring && self.direct && !self.allow_fallback;
        let alone = self.workers == 1 && self.log.is_none() && self.requests.is_none();
        if by_ring && alone {
            return Ok(());
        }
        let reason = "a replay is one worker by io_uring and direct I/O, without other options";
        Err(self.refuse("replay", reason.into()))
    }

    fn check_engine(&self) -> Result<(), IoError> {
        let ring = self.engine == EngineKind::IoUring;
        if !(1..=DEPTH_MAX).contains(&self.slots()) {
            return Err(self.refuse("depth", format!("1 to {DEPTH_MAX}")));
        }
        if !ring && matches!(self.workload.arrivals, Arrivals::Closed { depth: 2.. }) {
            let reason = format!(
                "{} has one request in flight; use io_uring, or more workers",
                self.engine.name()
            );
            return Err(self.refuse("depth", reason));
        }
        if self.batch == 0 || (ring && self.batch > self.slots()) {
            return Err(self.refuse("batch", format!("1 to the depth ({})", self.slots())));
        }
        if let Arrivals::Poisson { rate_per_s } | Arrivals::Constant { rate_per_s } =
            self.workload.arrivals
        {
            if rate_per_s > RATE_MAX {
                return Err(self.refuse("rate_per_s", format!("at most {RATE_MAX}")));
            }
        }
        if self.engine == EngineKind::Mmap && self.direct {
            return Err(self.refuse("direct", "a mapping cannot bypass the page cache".into()));
        }
        if self.file == FileState::Fresh && self.workload.direction != Direction::Write {
            return Err(self.refuse("file", "a fresh file has nothing to read".into()));
        }
        Ok(())
    }
}
