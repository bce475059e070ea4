//! DiskSim parameter files (`.parv`, `.diskspecs`, `.model` of DiskSim 3 and 4) as descriptions of
//! disks (Bucy, Schindler, Schlosser and Ganger, "The DiskSim simulation environment version 4.0
//! reference manual", 2008). Nothing is fitted: what has no counterpart is listed as ignored, what
//! would change the result without one is refused by name.

mod convert;
mod keys;
mod parse;

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_sim::disk::DiskSpec;
use schedlab_sim::SimError;

/// A description with where it comes from.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The checked description.
    pub spec: DiskSpec,
    /// Key here, and the key of the parameter file that it comes from.
    pub sources: BTreeMap<&'static str, &'static str>,
    /// Keys with their values that have no counterpart.
    pub ignored: Vec<(String, String)>,
    /// The policy that the disk's scheduler has, if it is one of ours.
    pub policy: Option<&'static str>,
}

/// The disk of a parameter file: the only one in it, or that with this name.
pub fn import(path: &Path, name: Option<&str>) -> Result<Imported, SimError> {
    let file = parse::read(path)?;
    convert::convert(path, &file, name)
}

impl Imported {
    /// The description as TOML, each line with the key that it comes from.
    pub fn to_toml(&self) -> Result<String, SimError> {
        let text = toml::to_string(&self.spec).map_err(|error| SimError::file("import", error))?;
        let mut out = String::from("# Imported from a DiskSim parameter file; times in ns.\n");
        if let Some(policy) = self.policy {
            out.push_str(&format!("# its scheduler: --policy {policy}\n"));
        }
        for (key, value) in &self.ignored {
            out.push_str(&format!("# ignored: {key} = {value}\n"));
        }
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[') {
                table = name.trim_matches(['[', ']']).to_owned();
            }
            let key = line.split('=').next().unwrap_or("").trim();
            let whole = match table.is_empty() {
                true => key.to_owned(),
                false => format!("{table}.{key}"),
            };
            out.push_str(line);
            if let Some(source) = self
                .sources
                .get(whole.as_str())
                .filter(|_| line.contains('='))
            {
                out.push_str(&format!("  # {source}"));
            }
            out.push('\n');
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
