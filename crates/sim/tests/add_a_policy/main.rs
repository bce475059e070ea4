//! A policy is one file and one line: this adds one, runs it, and holds the guide to the code.
#![allow(clippy::unwrap_used)]

mod reads_by_wait;

use std::collections::BTreeMap;

use reads_by_wait::ReadsByWait;
use schedlab_sim::device::{DeviceSpec, Serial};
use schedlab_sim::engine::{Simulation, Window};
use schedlab_sim::policy::{Make, PolicySpec};
use schedlab_sim::workload::{Synthetic, SyntheticSpec};
use schedlab_sim::{Entry, Stop};

const REGISTRY: &[Entry<Make>] = &[(
    "reads-by-wait",
    "reads that waited longest, then writes",
    |_| Box::new(ReadsByWait),
)];

#[test]
fn one_file_and_one_line_add_a_policy() {
    let spec = DeviceSpec::shipped("ncq2014", &BTreeMap::new()).unwrap();
    let chosen = PolicySpec {
        name: "reads-by-wait".into(),
        ..PolicySpec::default()
    };
    let window = Window::new(chosen.alpha.0, chosen.aging);
    let policy = chosen.make(REGISTRY).unwrap();
    let simulation = Simulation::new(Serial::new(&spec), policy, window, 128, false);
    let workload = SyntheticSpec::named("A", BTreeMap::new()).unwrap();
    let mut source = Synthetic::new(workload, 3000, 1).unwrap();
    let (report, _, _) = simulation.run(&mut source, &Stop::default()).unwrap();
    assert_eq!(report.requests, 3000);
    let (reads, writes) = (
        report.read.response.mean.unwrap(),
        report.write.response.mean.unwrap(),
    );
    assert!(reads < writes / 2.0, "{reads} {writes}");
}

#[test]
fn the_guide_shows_this_very_code() {
    let guide = include_str!("../../../../docs/guides/add-a-policy.md");
    // In the crate the file names its neighbours by `crate`.
    let (_, body) = include_str!("reads_by_wait.rs")
        .split_once("pub struct")
        .unwrap();
    assert!(
        guide.contains(body.trim()),
        "docs/guides/add-a-policy.md shows other code"
    );
}
