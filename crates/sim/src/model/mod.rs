//! From a device file to a model that can be advanced.

use std::collections::BTreeMap;

use crate::device::{Device, Parallel, Serial};
use crate::devices::{changed, shipped};
use crate::disk::{DiskSpec, SteppedDisk};
use crate::engine::{Simulation, SteppedDevice};
use crate::policy::{PolicySpec, POLICIES};
use crate::spec::{DeviceSpec, Service};
use crate::window::Window;
use crate::{SimError, Stepped};
use schedlab_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod dilated;
mod fixed;

pub use crate::devices::SHIPPED;
pub use dilated::Dilated;
use fixed::{Fixed, FixedSpec};

/// Keys of a device file that change something under `serial`; the others are the parts that only
/// `parallel` has.
const SERIAL_KEYS: &[&str] = &[
    "name",
    "source",
    "service",
    "flash.blocks_per_plane",
    "flash.pages_per_block",
    "flash.page",
    "flash.page_read",
    "flash.page_write",
    "buffer.size",
    "queue",
];

/// The service model of an SSD: the one asked for, or else that of its file, or else `parallel`.
/// Refuses changes that would do nothing under it.
fn service_of(
    spec: &DeviceSpec,
    asked: Option<Service>,
    set: &BTreeMap<String, Value>,
) -> Result<Service, SimError> {
    let service = asked.or(spec.service).unwrap_or_default();
    let has_effect = |key: &str| {
        let table = key.split('.').next().unwrap_or(key);
        SERIAL_KEYS.contains(&key) || SERIAL_KEYS.contains(&table)
    };
    match set.iter().find(|(key, _)| !has_effect(key)) {
        Some((key, value)) if service == Service::Serial => {
            let expected = "no change of it: it does nothing under the service serial";
            Err(SimError::range(key, value, expected))
        }
        _ => Ok(service),
    }
}

const SECTOR_BYTES: u64 = 4096;

/// A device as requested.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Text of the device file, or the name of a shipped one.
    pub device: String,
    /// Its name or path, for errors.
    #[serde(default)]
    pub place: String,
    /// Keys of the file that are changed, such as `buffer.size`.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Size in bytes; nothing is the model's own.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Commands that the device holds and orders; nothing is the model's own.
    #[serde(default)]
    pub queue_depth: Option<u32>,
    /// Order in which it serves them; nothing is the default of its kind.
    #[serde(default)]
    pub policy: Option<String>,
    /// Service model of an SSD; `None`: the one of its file.
    #[serde(default)]
    pub service: Option<Service>,
    /// Fixes the preconditioning of an SSD.
    #[serde(default)]
    pub seed: u64,
}

impl DeviceConfig {
    /// The device of a text, all else as it is there.
    pub fn of(text: &str) -> Self {
        DeviceConfig {
            device: text.into(),
            place: "device".into(),
            set: BTreeMap::new(),
            size_bytes: None,
            queue_depth: None,
            policy: None,
            service: None,
            seed: 0,
        }
    }

    /// The description, changed, scaled and checked.
    pub(crate) fn spec(&self) -> Result<Spec, SimError> {
        let text = shipped(&self.device).unwrap_or(&self.device);
        let wrong = |error: String| SimError::file(&self.place, error);
        let kind: ModelKey = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let spec = match kind.model.as_deref() {
            Some("disk") => Spec::Disk(Box::new(scaled_disk(text, self)?)),
            Some("fixed") => {
                let tree = changed(text, &self.set).map_err(wrong)?;
                let mut spec: FixedSpec =
                    serde_json::from_value(tree).map_err(|error| wrong(error.to_string()))?;
                spec.size = Bytes(self.size_bytes.unwrap_or(spec.size.0));
                Spec::Fixed(spec)
            }
            _ => {
                let spec = scaled_pages(text, self)?;
                let service = service_of(&spec, self.service, &self.set)?;
                return Ok(Spec::Pages(Box::new(spec), service));
            }
        };
        match self.service {
            None => Ok(spec),
            Some(service) => {
                let expected = "no service: only SSDs have several service models";
                Err(SimError::range("service", service.name(), expected))
            }
        }
    }
}

/// Kind and size of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// `disk`, `ssd` or `fixed`.
    pub kind: &'static str,
    /// Whether it has a head that moves.
    pub rotational: bool,
    /// Bytes of the block device.
    pub size_bytes: u64,
    /// Commands that it holds and orders.
    pub queue_depth: u32,
    /// The order.
    pub policy: String,
    /// `serial` or `parallel`; empty for others than SSDs.
    pub service: &'static str,
    /// No request that goes to the medium takes less, ns.
    pub shortest_ns: u64,
}

/// A checked description.
pub(crate) enum Spec {
    Disk(Box<DiskSpec>),
    Pages(Box<DeviceSpec>, Service),
    Fixed(FixedSpec),
}

/// The key of a device file that says which model it describes.
#[derive(Deserialize)]
struct ModelKey {
    model: Option<String>,
}

/// A checked description, from which a device can be built again and again.
pub struct Model {
    spec: Spec,
    policy: PolicySpec,
    seed: u64,
    facts: Facts,
}

impl Model {
    /// Reads, scales and checks.
    pub fn new(config: &DeviceConfig) -> Result<Self, SimError> {
        let spec = config.spec()?;
        let default = match spec {
            Spec::Disk(_) => "sptf",
            _ => "fcfs",
        };
        let policy = PolicySpec {
            name: config.policy.clone().unwrap_or(default.into()),
            ..PolicySpec::default()
        };
        let mut model = Model {
            facts: facts(&spec, &policy.name),
            spec,
            policy,
            seed: config.seed,
        };
        let capacity_bytes = model.build()?.capacity_bytes() / SECTOR_BYTES * SECTOR_BYTES;
        let requested_bytes = config.size_bytes.unwrap_or(capacity_bytes);
        model.facts.size_bytes = requested_bytes.min(capacity_bytes);
        Ok(model)
    }

    /// Its kind and size.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The device in its first state, at time 0.
    pub fn build(&self) -> Result<Box<dyn Stepped>, SimError> {
        Ok(match &self.spec {
            Spec::Disk(spec) => Box::new(SteppedDisk::new(spec, &self.policy.name)?),
            Spec::Fixed(spec) => Box::new(Fixed::new(*spec)),
            Spec::Pages(spec, Service::Serial) => self.stepped(Serial::new(spec), spec)?,
            Spec::Pages(spec, Service::Parallel) => {
                self.stepped(Parallel::new(spec, self.seed)?, spec)?
            }
        })
    }

    fn stepped<D: Device + 'static>(
        &self,
        device: D,
        spec: &DeviceSpec,
    ) -> Result<Box<dyn Stepped>, SimError> {
        let policy = self.policy.make(POLICIES)?;
        let window = Window::new(self.policy.alpha.0, self.policy.aging);
        let simulation = Simulation::new(device, policy, window, spec.queue.depth, false);
        Ok(Box::new(SteppedDevice::new(simulation)))
    }
}

fn facts(spec: &Spec, policy: &str) -> Facts {
    let mut facts = Facts {
        kind: "fixed",
        rotational: false,
        size_bytes: 0,
        queue_depth: 0,
        policy: policy.to_owned(),
        service: "",
        shortest_ns: 0,
    };
    match spec {
        Spec::Disk(disk) => {
            facts.kind = "disk";
            facts.rotational = true;
            facts.queue_depth = disk.queue_depth as u32;
            facts.shortest_ns = disk.overhead.0;
        }
        Spec::Pages(pages, service) => {
            facts.kind = "ssd";
            facts.queue_depth = pages.queue.depth;
            facts.shortest_ns = pages.flash.page_read.0.min(pages.flash.page_write.0);
            facts.service = service.name();
        }
        Spec::Fixed(fixed) => {
            facts.queue_depth = fixed.servers;
            facts.shortest_ns = fixed.service.0;
            facts.policy = "fcfs".into();
        }
    }
    facts
}

/// A disk of the requested size: every zone loses the same share of its cylinders, and the three
/// seek times hold for what is left, so that a small device still has seeks over the whole stroke.
fn scaled_disk(text: &str, config: &DeviceConfig) -> Result<DiskSpec, SimError> {
    let mut spec = DiskSpec::from_toml(&config.place, text, &config.set)?;
    if let Some(depth) = config.queue_depth {
        spec.queue_depth = depth as usize;
    }
    spec.check()?;
    let Some(size_bytes) = config.size_bytes else {
        return Ok(spec);
    };
    let share = size_bytes as f64 / spec.capacity().0 as f64;
    if share > 1.0 {
        let expected = format!("at most the model's capacity, {}", spec.capacity());
        return Err(SimError::range("size", Bytes(size_bytes), expected));
    }
    let whole = spec.zones.clone();
    for (zone, whole) in spec.zones.iter_mut().zip(&whole) {
        zone.cylinders = ((f64::from(whole.cylinders) * share).ceil() as u32).max(1);
    }
    spec.check()?;
    Ok(spec)
}

/// An SSD of the requested size: fewer blocks in every plane.
fn scaled_pages(text: &str, config: &DeviceConfig) -> Result<DeviceSpec, SimError> {
    let mut spec = DeviceSpec::from_toml(&config.place, text, &config.set)?;
    if let Some(depth) = config.queue_depth {
        spec.queue.depth = depth;
        spec.ftl.in_flight = spec.ftl.in_flight.max(1);
    }
    spec.check()?;
    let Some(size_bytes) = config.size_bytes else {
        return Ok(spec);
    };
    let reserved = u64::from(spec.free_blocks().1) + 3;
    let flash = &mut spec.flash;
    let row_bytes = u64::from(flash.planes()) * u64::from(flash.pages_per_block) * flash.page.0;
    let rows = size_bytes.div_ceil(row_bytes).max(1);
    let spare = spec.ftl.over_provisioning.0;
    let blocks = ((rows as f64 * (1.0 + spare)).ceil() as u64).max(rows + reserved);
    if blocks > u64::from(flash.blocks_per_plane) {
        let most = u64::from(flash.blocks_per_plane) as f64 / (1.0 + spare) * row_bytes as f64;
        let expected = format!("at most the model's capacity, {}", Bytes(most as u64));
        return Err(SimError::range("size", Bytes(size_bytes), expected));
    }
    flash.blocks_per_plane = blocks as u32;
    // What is kept free for collection must not shrink the part that the host sees.
    spec.ftl.over_provisioning.0 = spare.max(blocks as f64 / rows as f64 - 1.0);
    let most = Bytes(flash.pages() * flash.page.0);
    spec.buffer.size = spec.buffer.size.min(most);
    spec.check()?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str, size_bytes: u64) -> DeviceConfig {
        DeviceConfig {
            size_bytes: Some(size_bytes),
            queue_depth: Some(4),
            ..DeviceConfig::of(text)
        }
    }

    #[test]
    fn every_shipped_model_can_have_any_size_and_serves_its_last_sector() {
        for (name, text) in SHIPPED {
            for size_bytes in [64 << 20, 256 << 20, 1 << 30, 4 << 30] {
                let model = Model::new(&config(text, size_bytes)).unwrap();
                assert_eq!(model.facts().size_bytes, size_bytes, "{name}");
                let mut device = model.build().unwrap();
                let submission = crate::Submission {
                    at_ns: 0,
                    tag: 9,
                    kind: crate::Kind::Read,
                    offset_bytes: size_bytes - 512,
                    length_bytes: 512,
                };
                device.submit(submission).unwrap();
                let mut completions = Vec::new();
                while device.next_time_ns().is_some() {
                    device.advance(&mut completions);
                }
                assert_eq!(completions.len(), 1, "{name}");
                assert!(completions[0].at_ns > 0, "{name}");
            }
        }
    }

    #[test]
    fn every_shipped_model_builds_at_its_own_size() {
        for (name, text) in SHIPPED {
            let whole = DeviceConfig {
                size_bytes: None,
                ..config(text, 0)
            };
            let model = Model::new(&whole).unwrap();
            assert!(model.facts().size_bytes > 1 << 30, "{name}");
            assert_eq!(model.facts().queue_depth, 4, "{name}");
        }
    }

    #[test]
    fn a_size_beyond_the_model_is_refused_with_the_largest() {
        for (name, text) in SHIPPED {
            let error = Model::new(&config(text, 1 << 50))
                .err()
                .unwrap()
                .to_string();
            let (_, largest) = error.split_once("capacity, ").unwrap();
            let largest: schedlab_model::Bytes = largest.parse().unwrap();
            assert!(largest.0 > 1 << 30, "{name}: {error}");
            let model = Model::new(&config(text, largest.0 / 100 * 99));
            assert!(model.is_ok(), "{name}: {error}");
            let beyond = Model::new(&config(text, largest.0 / 100 * 102));
            assert!(beyond.is_err(), "{name}: {error}");
        }
    }

    #[test]
    fn a_disk_orders_by_positioning_time_and_an_ssd_by_arrival_unless_told() {
        let disk = "disk7200";
        let ssd = "ncq2014";
        for (text, policy, expected) in [
            (disk, None, "sptf"),
            (disk, Some("fcfs"), "fcfs"),
            (ssd, None, "fcfs"),
            (ssd, Some("tsb"), "tsb"),
        ] {
            let mut config = config(text, 1 << 30);
            config.policy = policy.map(str::to_owned);
            assert_eq!(Model::new(&config).unwrap().facts().policy, expected);
        }
    }

    /// The tags of these 4 KiB requests (write?, offset) in the order of completion.
    fn order(config: &DeviceConfig, requests: &[(bool, u64)]) -> Vec<(u64, u64)> {
        let mut device = Model::new(config).unwrap().build().unwrap();
        for (tag, (is_write, offset_bytes)) in (0..).zip(requests) {
            let kind = match is_write {
                true => crate::Kind::Write,
                false => crate::Kind::Read,
            };
            let submission = crate::Submission {
                at_ns: 0,
                tag,
                kind,
                offset_bytes: *offset_bytes,
                length_bytes: 4096,
            };
            device.submit(submission).unwrap();
        }
        let mut completions = Vec::new();
        while device.next_time_ns().is_some() {
            device.advance(&mut completions);
        }
        completions.iter().map(|c| (c.tag, c.at_ns)).collect()
    }

    #[test]
    fn policy_and_service_reach_the_device() {
        // Its file says `parallel`.
        let ssd = "sata-ssd";
        let mut config = config(ssd, 1 << 30);
        assert_eq!(Model::new(&config).unwrap().facts().service, "parallel");
        config.set.insert("buffer.size".into(), Value::from("0"));
        config.service = Some(Service::Serial);
        assert_eq!(Model::new(&config).unwrap().facts().service, "serial");
        let requests = [
            (true, 0),
            (true, 1 << 20),
            (true, 2 << 20),
            (false, 3 << 20),
        ];
        let tags = |config: &DeviceConfig| -> Vec<u64> {
            let served = order(config, &requests);
            served.into_iter().map(|(tag, _)| tag).collect()
        };
        assert_eq!(tags(&config), [0, 1, 2, 3]);
        // The shorter time first.
        config.policy = Some("ts".into());
        assert_eq!(tags(&config), [3, 0, 1, 2]);
    }

    #[test]
    fn the_seed_fixes_the_preconditioning() {
        let mut config = config("sata-ssd", 64 << 20);
        config.set.insert("buffer.size".into(), Value::from("0"));
        config
            .set
            .insert("ftl.precondition".into(), Value::from("formula"));
        let place = |number: u64| (true, number * 7919 % (64 << 8) * 4096);
        let requests: Vec<(bool, u64)> = (0..20_000).map(place).collect();
        let first = order(&config, &requests);
        assert_eq!(first, order(&config, &requests));
        config.seed = 1;
        assert_ne!(first, order(&config, &requests));
    }

    #[test]
    fn a_small_disk_still_seeks_over_its_whole_stroke() {
        let text = shipped("disk7200").unwrap();
        let whole = DiskSpec::shipped("disk7200").unwrap();
        let small = scaled_disk(text, &config(text, 1 << 30)).unwrap();
        assert!(small.capacity().0 >= 1 << 30);
        assert_eq!(small.seek_full, whole.seek_full);
        let mechanics = crate::disk::Mechanics::new(&small);
        let stroke_ns = mechanics.seek_ns(mechanics.last_cylinder);
        let share = stroke_ns as f64 / small.seek_full.0 as f64;
        assert!((0.9..=1.01).contains(&share), "{share}");
    }
}
