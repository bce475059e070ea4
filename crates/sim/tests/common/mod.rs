//! A small device and random requests for it; shared by the tests of this folder.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;

use schedlab_model::{Bytes, Nanos, Request, Rng};
use schedlab_sim::device::{Device, DeviceSpec};
use schedlab_sim::engine::{Aging, Logged, Report, Simulation, Window};
use schedlab_sim::policy::{PolicySpec, POLICIES};
use schedlab_sim::workload::{Incoming, Real};
use schedlab_sim::Stop;

/// What a random run is made of.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub policy: &'static str,
    pub aging: Aging,
    pub alpha: f64,
    pub buffer: u32,
    pub depth: u32,
    pub in_flight: u32,
    pub count: u32,
}

/// The choices of the translation layer, to draw from.
pub mod small {
    use schedlab_sim::device::{Collect, Precondition};

    pub const COLLECT: [Collect; 3] = [Collect::Greedy, Collect::Fifo, Collect::CostBenefit];
    pub const PRECONDITION: [Precondition; 3] = [
        Precondition::None,
        Precondition::Formula,
        Precondition::Write,
    ];
}

/// A device of 2 channels, 4 planes and 4 × 12 blocks of 8 pages.
pub fn device(case: &Case) -> DeviceSpec {
    let mut spec = DeviceSpec::shipped("ncq2014", &BTreeMap::new()).unwrap();
    spec.flash.channels = 2;
    spec.flash.packages_per_channel = 1;
    spec.flash.dies_per_package = 1;
    spec.flash.planes_per_die = 2;
    spec.flash.blocks_per_plane = 12;
    spec.flash.pages_per_block = 8;
    spec.ftl.free_blocks_low = Some(2);
    spec.ftl.free_blocks_high = Some(3);
    spec.ftl.over_provisioning = Real(0.9);
    spec.ftl.in_flight = case.in_flight;
    spec.ftl.allocation = ["cwdp", "pdwc", "dynamic"][case.seed as usize % 3].into();
    spec.buffer.size = Bytes(u64::from(case.buffer) * 4096);
    spec.queue.depth = case.depth;
    spec
}

/// Random requests of 1 to 12 pages, about as fast as the device is; `trims` mixes some in.
pub fn requests(case: &Case, trims: bool) -> Vec<Incoming> {
    let pages = 192;
    let mut rng = Rng::new(case.seed, 7);
    let mut now = 0.0;
    (0..case.count)
        .map(|_| {
            now += rng.exponential(700_000.0);
            let length = 1 + rng.below(12);
            let first = rng.below(pages - length + 1);
            let kind = rng.below(10);
            let request = Request {
                arrival: Nanos(now as u64),
                offset: Bytes(first * 4096),
                length: Bytes(length * 4096),
                is_write: kind < 5,
            };
            Incoming {
                trim: trims && kind == 9,
                ..Incoming::from(request)
            }
        })
        .collect()
}

/// Runs the case on a device.
pub fn run<D: Device>(case: &Case, device: D, requests: &[Incoming]) -> (Report, Vec<Logged>, D) {
    let spec = PolicySpec {
        name: case.policy.into(),
        alpha: Real(case.alpha),
        aging: case.aging,
        ..PolicySpec::default()
    };
    let policy = spec.make(POLICIES).unwrap();
    let window = Window::new(case.alpha, case.aging);
    let simulation = Simulation::new(device, policy, window, case.depth, true);
    let mut source = requests.iter().map(|incoming| Ok(*incoming));
    simulation.run(&mut source, &Stop::default()).unwrap()
}

/// Uniform random writes, greedy choice, b pages a block (Desnoyers, "Analytic modeling of SSD
/// write performance", 2012): a block loses pages at a rate proportional to those it has, so the
/// share of blocks with n valid pages is proportional to 1/n down to the victim's x, and
/// share·b = (b − x) / (H(b) − H(x)); the amplification is b / (b − x).
pub fn known_amplification(share: f64, b: f64) -> f64 {
    let harmonic = |x: f64| x.ln() + 1.0 / (2.0 * x) - 1.0 / (12.0 * x * x);
    let (mut low, mut high) = (0.5, b - 1e-6);
    for _ in 0..100 {
        let x: f64 = (low + high) / 2.0;
        if (b - x) / (harmonic(b) - harmonic(x)) < share * b {
            low = x;
        } else {
            high = x;
        }
    }
    b / (b - low)
}
