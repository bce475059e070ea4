//! The tunables of the kernel's I/O schedulers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// One file of `/sys/block/*/queue/iosched`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tunable {
    /// The file.
    pub name: String,
    /// Unit of the number; empty for counts and switches.
    #[serde(default)]
    pub unit: String,
    /// Its default.
    pub default: u64,
    /// The least that is accepted.
    #[serde(default)]
    pub min: u64,
    /// The most that is accepted.
    #[serde(default = "most")]
    pub max: u64,
    /// Where it makes sense, lowest and highest.
    pub search: Option<(u64, u64)>,
    /// Its effect.
    pub about: String,
}

const fn most() -> u64 {
    i32::MAX as u64
}

/// Every tunable of the schedulers that have some, by the scheduler's name.
pub static TUNABLES: LazyLock<BTreeMap<String, Vec<Tunable>>> =
    LazyLock::new(|| toml::from_str(include_str!("tunables.toml")).unwrap_or_default());
