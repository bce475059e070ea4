//! The file of every device by name, and a file with some of its keys changed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{registry, SimError};

/// Reads a device file of which some keys are changed, `a.b` being key b of table a.
pub(crate) fn changed(text: &str, changes: &BTreeMap<String, Value>) -> Result<Value, String> {
    let mut tree: Value = toml::from_str(text).map_err(|error| error.to_string())?;
    for (key, value) in changes {
        let mut at = &mut tree;
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
    Ok(tree)
}

/// Name and file of every device that comes with schedlab: disks, then SSDs.
pub const SHIPPED: &[(&str, &str)] = &[
    ("disk7200", include_str!("../devices/disk7200.toml")),
    ("disk5400", include_str!("../devices/disk5400.toml")),
    ("disk2005", include_str!("../devices/disk2005.toml")),
    ("ncq2014", include_str!("../devices/ncq2014.toml")),
    ("sata-ssd", include_str!("../devices/sata-ssd.toml")),
    ("nvme-slow", include_str!("../devices/nvme-slow.toml")),
    ("sd-card", include_str!("../devices/sd-card.toml")),
    ("nvme", include_str!("../devices/nvme.toml")),
];

/// The file of a shipped device.
pub(crate) fn shipped(name: &str) -> Result<&'static str, SimError> {
    registry::find("device", name, SHIPPED, |entry| entry.0).map(|(_, text)| *text)
}
