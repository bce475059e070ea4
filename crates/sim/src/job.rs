//! One simulation as it is asked for: a device, a scheduler of the kernel above it or none, a
//! source of requests, a policy of the device's queue. What Python hands over.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schedlab_model::{Nanos, Stop};
use serde::Deserialize;
use serde_json::Value;

use crate::device::{Device, Parallel, Serial};
use crate::disk::{self, DiskLogged, DiskResult, DiskSpec, DiskWorkload, Generated};
use crate::engine::{Logged, Report, Simulation, WarmUp};
use crate::host::{self, HostJob, HostResult, HostSettings, Processes, Settings};
use crate::model::{DeviceConfig, Dilated, Model, Spec};
use crate::policy::{PolicySpec, POLICIES};
use crate::spec::{DeviceSpec, Service};
use crate::window::{Policy, Window};
use crate::workload::{Real, Replay, ReplayOptions, Source, Synthetic, SyntheticSpec};
use crate::{SimError, Stepped};

/// Requests of a generated workload where no number is given.
const SSD_REQUESTS: u64 = 20_000;
const DISK_REQUESTS: u64 = 10_000;

/// A simulation to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    device: DeviceConfig,
    /// How many times slower the device is below a scheduler.
    #[serde(default)]
    dilate: u64,
    /// The kernel's scheduler with its tunables; nothing is the device alone.
    #[serde(default)]
    scheduler: Option<String>,
    /// Of the queue of the kernel.
    #[serde(default)]
    settings: HostSettings,
    /// Of the device alone; below a scheduler it is that of `device`.
    #[serde(default)]
    policy: PolicySpec,
    /// Of an SSD a `name` with any keys of [`SyntheticSpec`] changed, or all its keys; of a disk
    /// the keys of [`DiskWorkload`].
    #[serde(default)]
    workload: BTreeMap<String, Value>,
    /// Who issues above a scheduler.
    #[serde(default)]
    processes: Option<ProcessFile>,
    /// Instead of workload and processes.
    #[serde(default)]
    trace: Option<TraceFile>,
    #[serde(default)]
    requests: Option<u64>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    warm_up: WarmUpSpec,
}

/// The text of a TOML file from `place`, or the name of a preset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessFile {
    text: String,
    place: Option<String>,
}

impl ProcessFile {
    fn read(&self) -> Result<Processes, SimError> {
        Ok(Processes::read(&self.text, self.place.as_deref())?)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceFile {
    path: PathBuf,
    format: Option<String>,
    #[serde(default)]
    options: ReplayOptions,
}

impl TraceFile {
    /// Opens it for a device of that size and with such units, in bytes.
    fn open(&self, size: (u64, u64), requests: Option<u64>) -> Result<Replay, SimError> {
        let format = self.format.as_deref();
        Replay::open(&self.path, format, &self.options, size, requests)
    }
}

/// The part that is not reported: so many completions, or those before a time.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WarmUpSpec {
    requests: u64,
    time: Nanos,
}

/// The outcome of a simulation: its figures, and the log of requests in the order of completion,
/// if one was asked for.
#[derive(Debug)]
pub enum Outcome {
    /// Of an SSD.
    Ssd(Box<Report>, Vec<Logged>),
    /// Of a disk with heads.
    Disk(Box<DiskResult>, Vec<DiskLogged>),
    /// Of processes above a device.
    Host(Box<HostResult>),
}

impl Outcome {
    /// The figures.
    pub fn to_json(&self) -> serde_json::Result<String> {
        match self {
            Outcome::Ssd(report, _) => serde_json::to_string(report),
            Outcome::Disk(result, _) => serde_json::to_string(result),
            Outcome::Host(result) => serde_json::to_string(result),
        }
    }
}

impl Job {
    /// Runs it. Of an SSD, `source` replaces the workload and `policy` the named one, whose aging
    /// stays.
    pub fn run(
        &self,
        source: Option<&mut dyn Source>,
        policy: Option<Box<dyn Policy>>,
        stop: &Stop,
    ) -> Result<Outcome, SimError> {
        if self.trace.is_some() && !self.workload.is_empty() {
            let detail = "a trace fixes its own sizes and arrivals";
            return Err(SimError::Workload(detail.into()));
        }
        let spec = match &self.scheduler {
            Some(_) => None,
            None => Some(self.device.spec()?),
        };
        match (spec, &self.scheduler) {
            (Some(Spec::Pages(spec, service)), _) => self.ssd(&spec, service, source, policy, stop),
            _ if source.is_some() || policy.is_some() => {
                let detail = "requests and policies of a program need an SSD without a scheduler";
                Err(SimError::Workload(detail.into()))
            }
            (Some(Spec::Disk(spec)), _) => self.disk(&spec, stop),
            (None, Some(scheduler)) => self.host(scheduler, stop),
            _ => {
                let detail = "a device of fixed times has no queue to order: add a scheduler";
                Err(SimError::file(&self.device.place, detail))
            }
        }
    }

    fn ssd(
        &self,
        spec: &DeviceSpec,
        service: Service,
        source: Option<&mut dyn Source>,
        policy: Option<Box<dyn Policy>>,
        stop: &Stop,
    ) -> Result<Outcome, SimError> {
        self.policy.check()?;
        let policy = match policy {
            Some(policy) => policy,
            None => self.policy.make(POLICIES)?,
        };
        let mut own: Box<dyn Source>;
        let source = match (source, &self.trace) {
            (Some(source), _) => source,
            (None, Some(trace)) => {
                own = Box::new(self.ssd_trace(trace, spec, service)?);
                &mut *own
            }
            (None, None) => {
                let mut keys = self.workload.clone();
                let name = match keys.remove("name") {
                    Some(Value::String(name)) => name,
                    _ => "A".into(),
                };
                let workload = SyntheticSpec::named(&name, keys)?;
                let requests = self.requests.unwrap_or(SSD_REQUESTS);
                own = Box::new(Synthetic::new(workload, requests, self.seed)?);
                &mut *own
            }
        };
        let (mut report, log) = match service {
            Service::Serial => self.pages(Serial::new(spec), spec, policy, source, stop)?,
            Service::Parallel => {
                let device = Parallel::new(spec, self.seed)?;
                self.pages(device, spec, policy, source, stop)?
            }
        };
        report.service = service.name();
        Ok(Outcome::Ssd(Box::new(report), log))
    }

    fn pages<D: Device>(
        &self,
        device: D,
        spec: &DeviceSpec,
        policy: Box<dyn Policy>,
        source: &mut dyn Source,
        stop: &Stop,
    ) -> Result<(Report, Vec<Logged>), SimError> {
        let window = Window::new(self.policy.alpha.0, self.policy.aging);
        let warm_up = WarmUp {
            requests: self.warm_up.requests,
            until_ns: self.warm_up.time.0,
        };
        let simulation =
            Simulation::new(device, policy, window, spec.queue.depth, self.log).after(warm_up);
        let (report, log, _) = simulation.run(source, stop)?;
        Ok((report, log))
    }

    fn ssd_trace(
        &self,
        trace: &TraceFile,
        spec: &DeviceSpec,
        service: Service,
    ) -> Result<Replay, SimError> {
        let page_bytes = spec.flash.page.0;
        let pages = match service {
            Service::Serial => spec.flash.pages(),
            Service::Parallel => u64::from(crate::ftl::logical_pages(spec)?),
        };
        let replay = trace.open((pages * page_bytes, page_bytes), self.requests)?;
        if replay.thinks() {
            let detail = "think times need a device that serves one request after another";
            return Err(SimError::Workload(detail.into()));
        }
        Ok(replay)
    }

    fn disk(&self, spec: &DiskSpec, stop: &Stop) -> Result<Outcome, SimError> {
        let mut source: Box<dyn Source> = match &self.trace {
            Some(trace) => {
                let size = (spec.capacity().0, spec.sector.0);
                Box::new(trace.open(size, self.requests)?)
            }
            None => {
                let keys = serde_json::Map::from_iter(self.workload.clone());
                let asked: DiskWorkload = serde_json::from_value(Value::Object(keys))
                    .map_err(|error| SimError::Workload(error.to_string()))?;
                let workload = asked.workload(spec.capacity(), self.seed)?;
                Box::new(Generated::new(
                    workload,
                    self.requests.unwrap_or(DISK_REQUESTS),
                )?)
            }
        };
        let policy = &self.policy.name;
        let (mut result, log) = disk::simulate(spec, policy, &mut *source, self.log, stop)?;
        result.seed = if self.trace.is_some() { 0 } else { self.seed };
        Ok(Outcome::Disk(Box::new(result), log))
    }

    fn host(&self, scheduler: &str, stop: &Stop) -> Result<Outcome, SimError> {
        let model = Model::new(&self.device)?;
        let mut device = Dilated::new(model.build()?, self.dilate, model.facts().size_bytes);
        let mut job = HostJob {
            settings: HostSettings {
                rotational: model.facts().rotational,
                seed: self.seed,
                log: self.log,
                ..self.settings.clone()
            },
            processes: Processes::default(),
            trace: Vec::new(),
        };
        let mut summary = None;
        if let Some(trace) = &self.trace {
            // It ends with its last request.
            job.settings.seconds = Real(1e6);
            let mut replay = trace.open((device.capacity_bytes(), 512), self.requests)?;
            while let Some(record) = replay.next_piece()? {
                job.trace.push(record);
            }
            summary = Some(replay.summary());
        } else {
            job.processes = match &self.processes {
                Some(file) => file.read()?,
                None => Processes::read("random32", None)?,
            };
        }
        let mut result = host::run(&Settings::parse(scheduler)?, &job, &mut device, stop)?;
        result.trace = summary;
        Ok(Outcome::Host(Box::new(result)))
    }
}
