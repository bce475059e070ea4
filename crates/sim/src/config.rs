//! A whole simulation as configured: device, policy, workload, seed. What Python hands over.

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_model::{Nanos, Stop};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::device::{Device, DeviceSpec, Parallel, Serial};
use crate::engine::{Logged, Report, Simulation, WarmUp, Window};
use crate::model::service_of;
use crate::policy::{Policy, PolicySpec, POLICIES};
use crate::workload::{Replay, Source, Synthetic, SyntheticSpec};
use crate::SimError;

/// The service model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// One command at a time.
    Serial,
    /// Channels, dies and planes behind a translation layer.
    #[default]
    Parallel,
}

impl Service {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Service::Serial => "serial",
            Service::Parallel => "parallel",
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A simulation to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A shipped device by name, or the text of a device file.
    device: String,
    /// Where the text comes from, for errors.
    #[serde(default)]
    path: Option<String>,
    /// Keys of the device file that are changed, such as `buffer.size`.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Instead of the one of the device file.
    #[serde(default)]
    service: Option<Service>,
    #[serde(default)]
    policy: PolicySpec,
    /// `{"name": "A", …}` with any keys of [`SyntheticSpec`] changed, or all its keys, or
    /// `{"trace": path, "format": name}` with keys of
    /// [`ReplayOptions`](crate::workload::ReplayOptions).
    #[serde(default)]
    workload: BTreeMap<String, Value>,
    #[serde(default)]
    requests: Option<u64>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    warm_up: WarmUpSpec,
}

/// What is not reported: so many completions, or those before a time.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WarmUpSpec {
    requests: u64,
    time: Nanos,
}

impl Config {
    /// Runs it and gives what was measured. `custom_source` replaces the workload.
    pub fn run(
        &self,
        custom_source: Option<&mut dyn Source>,
        stop: &Stop,
    ) -> Result<Report, SimError> {
        Ok(self.run_logged(custom_source, stop)?.0)
    }

    /// The same with every completed request, in the order of completion, if `log` is set.
    pub fn run_logged(
        &self,
        custom_source: Option<&mut dyn Source>,
        stop: &Stop,
    ) -> Result<(Report, Vec<Logged>), SimError> {
        self.run_with(custom_source, None, stop)
    }

    /// The same under a policy of the caller instead of the named one; its aging stays.
    pub fn run_with(
        &self,
        custom_source: Option<&mut dyn Source>,
        policy: Option<Box<dyn Policy>>,
        stop: &Stop,
    ) -> Result<(Report, Vec<Logged>), SimError> {
        let spec = self.device_spec()?;
        let service = service_of(&spec, self.service, &self.set)?;
        self.policy.check()?;
        let policy = match policy {
            Some(policy) => policy,
            None => self.policy.make(POLICIES)?,
        };
        let mut own = match custom_source {
            Some(_) => None,
            None => Some(self.source(&spec, service)?),
        };
        let source = match (custom_source, &mut own) {
            (Some(source), _) => source,
            (None, Some(source)) => &mut **source,
            (None, None) => unreachable!("either passed or own"),
        };
        match service {
            Service::Serial => self.simulate(Serial::new(&spec), &spec, policy, source, stop),
            Service::Parallel => {
                let device = Parallel::new(&spec, self.seed)?;
                self.simulate(device, &spec, policy, source, stop)
            }
        }
    }

    fn simulate<D: Device>(
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

    /// The service model in force.
    pub fn service(&self) -> Result<Service, SimError> {
        service_of(&self.device_spec()?, self.service, &self.set)
    }

    /// The device with its changes, checked.
    pub fn device_spec(&self) -> Result<DeviceSpec, SimError> {
        let spec = DeviceSpec::read(&self.device, &self.set).map_err(|error| {
            match (error, &self.path) {
                (SimError::DeviceFile { detail, .. }, Some(path)) => SimError::file(path, detail),
                (other, _) => other,
            }
        })?;
        spec.check()?;
        Ok(spec)
    }

    fn source(&self, spec: &DeviceSpec, service: Service) -> Result<Box<dyn Source>, SimError> {
        if let Some(Value::String(path)) = self.workload.get("trace") {
            return self.trace(path, spec, service);
        }
        let mut keys = self.workload.clone();
        let name = match keys.remove("name") {
            Some(Value::String(name)) => name,
            _ => "A".into(),
        };
        let spec = SyntheticSpec::named(&name, keys)?;
        let requests = self.requests.unwrap_or(20_000);
        Ok(Box::new(Synthetic::new(spec, requests, self.seed)?))
    }

    fn trace(
        &self,
        path: &str,
        spec: &DeviceSpec,
        service: Service,
    ) -> Result<Box<dyn Source>, SimError> {
        let mut keys: serde_json::Map<String, Value> = self.workload.clone().into_iter().collect();
        keys.remove("trace");
        let format = keys.remove("format");
        let options = serde_json::from_value(Value::Object(keys))
            .map_err(|error| SimError::Workload(error.to_string()))?;
        let named = format.as_ref().and_then(Value::as_str);
        let page_bytes = spec.flash.page.0;
        let pages = match service {
            Service::Serial => spec.flash.pages(),
            Service::Parallel => u64::from(crate::ftl::logical_pages(spec)?),
        };
        let size = (pages * page_bytes, page_bytes);
        let replay = Replay::open(Path::new(path), named, &options, size, self.requests)?;
        if replay.options().think {
            let detail = "think times need a device that serves one request after another";
            return Err(SimError::Workload(detail.into()));
        }
        Ok(Box::new(replay))
    }
}

/// Changes keys of a tree, `a.b` being key b of table a.
pub(crate) fn change(tree: &mut Value, changes: &BTreeMap<String, Value>) -> Result<(), String> {
    for (key, value) in changes {
        let mut at = &mut *tree;
        for part in key.split('.') {
            let table = at.as_object_mut();
            let table = table.ok_or_else(|| format!("{key} is not a known key"))?;
            at = table.entry(part).or_insert(Value::Null);
            if at.is_null() {
                // A table that is not there yet, or the key itself.
                *at = Value::Object(serde_json::Map::new());
            }
        }
        *at = value.clone();
    }
    Ok(())
}
