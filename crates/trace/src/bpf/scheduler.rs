//! A sched_ext scheduler from a compiled BPF object.

use std::path::Path;

use libbpf_rs::{Link, MapType, Object, ObjectBuilder};

use super::{failed, load};

/// The scheduler while it is loaded: the links, then the programs that they need.
pub(crate) struct Scheduler {
    _links: Vec<Link>,
    _object: Object,
}

impl Scheduler {
    pub(crate) fn load(file: &Path) -> Result<Self, String> {
        let opened = ObjectBuilder::default().open_file(file);
        let mut object = load(opened.map_err(failed("open the object"))?)?;
        let attach =
            |mut map: libbpf_rs::MapMut<'_>| map.attach_struct_ops().map_err(failed("attach"));
        let links = object
            .maps_mut()
            .filter(|map| libbpf_rs::MapCore::map_type(map) == MapType::StructOps)
            .map(attach)
            .collect::<Result<Vec<_>, _>>()?;
        if links.is_empty() {
            return Err(
                "it defines no scheduler (a struct sched_ext_ops in .struct_ops.link)".into(),
            );
        }
        Ok(Scheduler {
            _links: links,
            _object: object,
        })
    }
}
