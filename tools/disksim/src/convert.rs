//! From the keys of DiskSim to ours.

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_model::{Bytes, Nanos};

use super::keys::{nanos, Keys};
use super::parse::{beside, Block, File, Value};
use super::Imported;
use schedlab_sim::disk::{
    BusSpec, CacheSpec, DiskSpec, Overheads, ReadOn, Readable, SeekCurve, SeekSpec, Serpentine,
    SignedNanos, Spare, SparePer, Times, WriteCacheSpec, ZeroLatency, Zone,
};
use schedlab_sim::SimError;

const SECTOR_BYTES: u64 = 512;
const QUEUE_DEPTH: usize = 32;

pub(super) fn convert(path: &Path, file: &File, name: Option<&str>) -> Result<Imported, SimError> {
    let disk = chosen(path, file, name)?;
    let mut ignored = Vec::new();
    let nothing = Block::default();
    let (mut keys, model) = if disk.kind == "dm_disk" {
        (Keys::new(path, &nothing), disk)
    } else {
        let mut keys = Keys::new(path, disk);
        let model = keys.block("Model")?;
        (keys, model)
    };
    keys.must_be_off()?;
    let mut spec = mechanics(path, model, &mut ignored)?;
    controller(&mut keys, &mut spec)?;
    bus(file, &mut keys, &mut spec)?;
    let policy = scheduler(&mut keys)?;
    keys.ignored(&mut ignored);
    spec.check()?;
    Ok(Imported {
        spec,
        sources: sources(),
        ignored,
        policy,
    })
}

/// The disk's block, or its model alone.
fn chosen<'a>(path: &Path, file: &'a File, name: Option<&str>) -> Result<&'a Block, SimError> {
    let wrong = |detail: String| SimError::file(path.display().to_string(), detail);
    for kind in ["disksim_simpledisk", "memsdevice", "ssdmodel_ssd"] {
        if file
            .blocks
            .iter()
            .any(|block| block.kind.eq_ignore_ascii_case(kind))
        {
            return Err(wrong(format!(
                "{kind}: expected disksim_disk; this is not modelled"
            )));
        }
    }
    let of_kind = |kind: &'static str| file.blocks.iter().filter(move |b| b.kind == kind);
    let mut disks: Vec<&Block> = of_kind("disksim_disk").collect();
    if disks.is_empty() {
        disks = of_kind("dm_disk").collect();
    }
    if let Some(name) = name {
        let instance = file.instances.iter().find(|(instance, _)| instance == name);
        let name = instance.map_or(name, |(_, block)| block);
        let known: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        return disks
            .iter()
            .find(|disk| disk.name == name)
            .copied()
            .ok_or_else(|| {
                wrong(format!(
                    "disk {name:?} is not known: expected one of {}",
                    known.join(", ")
                ))
            });
    }
    for organisation in of_kind("disksim_logorg") {
        let devices = Keys::new(path, organisation).get("devices").cloned();
        if matches!(&devices, Some(Value::List(list)) if list.len() > 1) {
            let detail = "a logical organisation over several devices: expected FILE:NAME";
            return Err(wrong(detail.into()));
        }
    }
    match disks[..] {
        [disk] => Ok(disk),
        [] => Err(wrong("expected a block disksim_disk or dm_disk".into())),
        _ => {
            let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
            let detail = format!(
                "{} disks: expected FILE:NAME, one of {}",
                names.len(),
                names.join(", ")
            );
            Err(wrong(detail))
        }
    }
}

fn mechanics(
    path: &Path,
    model: &Block,
    ignored: &mut Vec<(String, String)>,
) -> Result<DiskSpec, SimError> {
    let mut model = Keys::new(path, model);
    let heads = model.whole("Number of data surfaces")?;
    let mechanical = model.block("Mechanical Model")?;
    let layout = model.block("Layout Model")?;
    for (block, expected) in [(mechanical, "dm_mech_g1"), (layout, "dm_layout_g1")] {
        if block.kind != expected {
            return Err(model.wrong(format!("{}: expected {expected}", block.kind)));
        }
    }
    model.ignored(ignored);
    let mut mech = Keys::new(path, mechanical);
    mech.must_be_off()?;
    let kind = mech
        .text("Access time type")
        .unwrap_or("trackSwitchPlusRotation");
    if kind != "trackSwitchPlusRotation" {
        return Err(mech.wrong(format!(
            "Access time type = {kind}: expected trackSwitchPlusRotation"
        )));
    }
    let settle_ms = mech.or_zero("Add. write settling delay")?;
    if settle_ms.abs() > 1000.0 {
        return Err(mech.wrong("Add. write settling delay: expected at most 1000 ms"));
    }
    let (zones, serpentine) = zones(path, layout)?;
    let mut spec = DiskSpec {
        model: "disk".into(),
        fit: Default::default(),
        sector: Bytes(SECTOR_BYTES),
        rpm: mech.whole("Rotation speed (in rpms)")?,
        heads,
        zones,
        serpentine,
        seek: None,
        seek_single: Nanos(0),
        seek_average: Nanos(0),
        seek_full: Nanos(0),
        write_settle: SignedNanos((settle_ms * 1e6).round() as i64),
        head_switch: mech.ms("Head switch time")?,
        track_skew: Nanos(0),
        cylinder_skew: Nanos(0),
        overhead: Nanos(0),
        overheads: Overheads::default(),
        interface_bytes_per_s: 0,
        bus: None,
        queue_depth: QUEUE_DEPTH,
        cache: CacheSpec {
            segments: 0,
            segment: Bytes(SECTOR_BYTES),
            read_ahead: Bytes(0),
            read_on: ReadOn::default(),
            hit_reads_on: true,
            from_landing: false,
            partial_hits: false,
        },
        write_cache: None,
        zero_latency: ZeroLatency::default(),
    };
    seek(path, &mut mech, &mut spec)?;
    mech.ignored(ignored);
    Ok(spec)
}

fn seek(path: &Path, mech: &mut Keys, spec: &mut DiskSpec) -> Result<(), SimError> {
    let kind = mech.text("Seek type").unwrap_or("").to_ascii_lowercase();
    let last = spec.cylinders().max(2) - 1;
    spec.seek = Some(match kind.as_str() {
        "extracted" => {
            let file = mech.text("Full seek curve").unwrap_or("");
            SeekSpec::Table(seek_table(mech, &beside(path, file)?)?)
        }
        "constant" => SeekSpec::Table(vec![(1, mech.ms("Constant seek time")?)]),
        "linear" => {
            let single = mech.ms("Single cylinder seek time")?;
            SeekSpec::Table(vec![
                (1, single),
                (last.max(2), mech.ms("Full strobe seek time")?),
            ])
        }
        "threepoint" | "threepointcurve" | "curve" => {
            spec.seek_single = mech.ms("Single cylinder seek time")?;
            spec.seek_average = mech.ms("Average seek time")?;
            spec.seek_full = mech.ms("Full strobe seek time")?;
            return Ok(());
        }
        "hpl" | "hplplus10" => SeekSpec::Curve(hpl(mech, kind == "hplplus10")?),
        other => {
            let expected = "extracted, hplplus10, hpl, threepoint, linear or constant";
            return Err(mech.wrong(format!("Seek type = {other}: expected {expected}")));
        }
    });
    Ok(())
}

/// v2 + v3·√d below v1 cylinders, v4 + v5·d from there on; v6 for one cylinder.
fn hpl(mech: &mut Keys, has_first_ten: bool) -> Result<SeekCurve, SimError> {
    let values = mech.numbers("HPL seek equation values")?;
    let [v1, v2, v3, v4, v5, v6] = values[..] else {
        return Err(mech.wrong("HPL seek equation values: expected six numbers"));
    };
    let first = if has_first_ten {
        mech.numbers("First ten seek times")?
    } else if v6 >= 0.0 {
        vec![v6]
    } else {
        Vec::new()
    };
    let short: Option<Vec<Nanos>> = first.into_iter().map(nanos).collect();
    let in_range = [v2, v3, v4, v5].iter().all(|v| (0.0..=1000.0).contains(v));
    match short {
        Some(short) if in_range && (0.0..=1e9).contains(&v1) => Ok(SeekCurve {
            boundary: v1 as u32,
            short,
            root_base: SignedNanos((v2 * 1e6).round() as i64),
            root_factor: v3 * 1e6,
            linear_base: SignedNanos((v4 * 1e6).round() as i64),
            linear_factor: v5 * 1e6,
        }),
        _ => Err(mech.wrong("HPL seek equation values: expected times of 0 to 1000 ms")),
    }
}

/// Lines `distance, ms[, deviation]`, after a heading.
fn seek_table(mech: &Keys, text: &str) -> Result<Vec<(u32, Nanos)>, SimError> {
    let mut rows = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with("Seek distances measured") {
            continue;
        }
        let mut fields = line
            .split([',', ' ', '\t'])
            .filter(|field| !field.is_empty());
        let distance = fields.next().and_then(|field| field.parse::<u32>().ok());
        let time = fields
            .next()
            .and_then(|field| field.parse().ok())
            .and_then(nanos);
        let (Some(distance), Some(time)) = (distance, time) else {
            let detail = format!("seek curve, line {}: expected distance, ms", number + 1);
            return Err(mech.wrong(detail));
        };
        if distance > 0 {
            rows.insert(distance, time);
        }
    }
    if rows.is_empty() {
        return Err(mech.wrong("seek curve: expected lines distance, ms"));
    }
    Ok(rows.into_iter().collect())
}

fn zones(path: &Path, layout: &Block) -> Result<(Vec<Zone>, Serpentine), SimError> {
    let mut layout = Keys::new(path, layout);
    let serpentine = match layout.or_zero("LBN-to-PBN mapping scheme")? as i64 {
        0 => Serpentine::None,
        1 => Serpentine::Heads,
        2 => Serpentine::Surface,
        other => {
            let detail = format!("LBN-to-PBN mapping scheme = {other}: expected 0 to 2");
            return Err(layout.wrong(detail));
        }
    };
    let scheme = layout.or_zero("Sparing scheme used")? as i64;
    let range = layout
        .optional("Rangesize for sparing")?
        .unwrap_or(1.0)
        .clamp(1.0, 1e6) as u32;
    let units = layout.text("Skew units").map(str::to_owned);
    let Some(Value::List(list)) = layout.get("Zones") else {
        return Err(layout.wrong("expected Zones = [dm_layout_g1_zone {…}]"));
    };
    let mut zones = Vec::with_capacity(list.len());
    for value in list {
        let Value::Block(block) = value else {
            return Err(layout.wrong("expected Zones = [dm_layout_g1_zone {…}]"));
        };
        let mut zone = Keys::new(path, block);
        let count = zone.whole("Number of spares")?;
        let units = zone.text("Skew units").map(str::to_owned).or(units.clone());
        let per_track = zone.whole("Blocks per track")?;
        let scale = match units.as_deref() {
            None | Some("sectors") => 1.0,
            Some("revolutions") => f64::from(per_track),
            Some(other) => {
                let detail = format!("Skew units = {other}: expected sectors or revolutions");
                return Err(zone.wrong(detail));
            }
        };
        let defects = zone.places("defects")?;
        let mut slips = zone.places("slips")?;
        slips.sort_unstable();
        slips.dedup();
        zones.push(Zone {
            cylinders: 0,
            sectors_per_track: per_track,
            first: Some(zone.whole("First cylinder number")?),
            last: Some(zone.whole("Last cylinder number")?),
            first_offset: zone.or_zero("Offset of first block")? * scale,
            track_skew: Some(zone.or_zero("Skew for track switch")? * scale),
            cylinder_skew: Some(zone.or_zero("Skew for cylinder switch")? * scale),
            empty: zone.whole("Empty space at zone front")?,
            spare: spare(&zone, scheme, count, range)?,
            slips,
            defects: defects
                .chunks_exact(2)
                .map(|two| (two[0], two[1]))
                .collect(),
        });
    }
    Ok((zones, serpentine))
}

fn spare(zone: &Keys, scheme: i64, count: u32, range: u32) -> Result<Option<Spare>, SimError> {
    let (per, at_front, slip_to_end) = match scheme {
        0 => return Ok(None),
        1 => (SparePer::Tracks, false, false),
        2 => (SparePer::Cylinder, false, false),
        3 => (SparePer::Track, false, false),
        4 => (SparePer::Cylinder, false, true),
        5 => (SparePer::Cylinder, true, false),
        6 => (SparePer::Cylinder, true, true),
        7 => (SparePer::End, false, false),
        8 => (SparePer::Range, false, false),
        9 => (SparePer::Zone, false, false),
        10 => (SparePer::End, false, false),
        other => {
            return Err(zone.wrong(format!("Sparing scheme used = {other}: expected 0 to 10")));
        }
    };
    Ok(Some(Spare {
        per,
        count,
        range,
        at_front,
        slip_to_end,
    }))
}

fn controller(keys: &mut Keys, spec: &mut DiskSpec) -> Result<(), SimError> {
    let segment = keys.or_zero("Segment size (in blks)")?.clamp(1.0, 2e6) as u64;
    let segments = keys
        .or_zero("Number of buffer segments")?
        .clamp(0.0, 4096.0) as usize;
    let ahead = keys.or_zero("Maximum read-ahead (blks)")?.clamp(0.0, 2e6) as u64;
    let caches = keys.optional("Enable caching in buffer")?.unwrap_or(1.0) != 0.0;
    let (reads_on, read_on) = read_on(keys)?;
    let bytes = |sectors: u64| Bytes(sectors * SECTOR_BYTES);
    let write_segments = keys
        .or_zero("Maximum number of write segments")?
        .clamp(1.0, 4096.0);
    let own = match keys.or_zero("Use separate write segment")? != 0.0 {
        true => (write_segments as usize).min(segments.saturating_sub(1)),
        false => 0,
    };
    spec.cache = CacheSpec {
        segments: if caches { segments - own } else { 0 },
        segment: bytes(segment),
        read_ahead: bytes(if reads_on { ahead.min(segment) } else { 0 }),
        read_on,
        hit_reads_on: keys.optional("Read-ahead on idle hit")?.unwrap_or(1.0) != 0.0,
        from_landing: keys.or_zero("Read any free blocks")? != 0.0,
        partial_hits: keys.or_zero("Immed transfer partial hit")? != 0.0,
    };
    let reads_writes = keys
        .optional("Allow read hits on write data")?
        .unwrap_or(1.0)
        != 0.0;
    if keys.or_zero("Fast write level")? != 0.0 {
        spec.write_cache = Some(WriteCacheSpec {
            segments: write_segments as usize,
            segment: bytes(segment),
            destage: Default::default(),
            high_water: 1.0,
            low_water: 0.0,
            readable: match reads_writes {
                true => Readable::Always,
                false => Readable::Never,
            },
        });
    }
    spec.zero_latency = ZeroLatency {
        read: keys.or_zero("Immediate buffer read")? != 0.0,
        write: keys.or_zero("Immediate buffer write")? != 0.0,
    };
    let depth = keys.or_zero("Max queue length")?;
    if (1.0..=65536.0).contains(&depth) {
        spec.queue_depth = depth as usize;
    }
    spec.overheads = overheads(keys)?;
    Ok(())
}

/// Whether the disk reads on behind a read at all, and where it stops (disk.modspec,
/// `disk_cont_read_t`).
fn read_on(keys: &mut Keys) -> Result<(bool, ReadOn), SimError> {
    let value = keys.optional("Buffer continuous read")?.unwrap_or(3.0);
    Ok(match value as i64 {
        0 => (false, ReadOn::Segment),
        1 => (true, ReadOn::Track),
        2 => (true, ReadOn::Cylinder),
        3 => (true, ReadOn::Segment),
        4 => (true, ReadOn::NextTrack),
        _ => {
            let detail = format!("Buffer continuous read = {value}: expected 0 to 4");
            return Err(keys.wrong(detail));
        }
    })
}

fn overheads(keys: &mut Keys) -> Result<Overheads, SimError> {
    let scale = keys.optional("Time scale for overheads")?.unwrap_or(1.0);
    let added = keys.or_zero("Per-request overhead time")?
        + keys.or_zero("Data preparation overhead")? * scale;
    let mut both = |kind: &str| -> Result<Option<Times>, SimError> {
        let [after_read, after_write] = ["read", "write"]
            .map(|before| scaled(keys, &format!("{kind} over. after {before}"), scale, added));
        Ok(Some(Times::Two(after_read?, after_write?)))
    };
    Ok(Overheads {
        read_hit: both("Read hit")?,
        read_miss: both("Read miss")?,
        write_hit: both("Write hit")?,
        write_miss: both("Write miss")?,
        completion: Some(Times::Two(
            scaled(keys, "Read completion overhead", scale, 0.0)?,
            scaled(keys, "Write completion overhead", scale, 0.0)?,
        )),
    })
}

fn scaled(keys: &mut Keys, key: &str, scale: f64, added: f64) -> Result<Nanos, SimError> {
    let ms = keys.or_zero(key)? * scale + added;
    nanos(ms).ok_or_else(|| keys.wrong(format!("{key}: expected 0 to 1000 ms")))
}

/// The largest of the times per sector, of each direction: some files have 0 in the disk, some in
/// the bus.
fn bus(file: &File, keys: &mut Keys, spec: &mut DiskSpec) -> Result<(), SimError> {
    let bulk = keys.ms("Bulk sector transfer time")?;
    let (mut read, mut write) = (bulk, bulk);
    for block in file
        .blocks
        .iter()
        .filter(|block| block.kind == "disksim_bus")
    {
        let mut bus = Keys::new(Path::new(&keys.place), block);
        read = read.max(bus.ms("Read block transfer time")?);
        write = write.max(bus.ms("Write block transfer time")?);
    }
    let share = keys.or_zero("High (read) water mark")?;
    if !(0.0..=1.0).contains(&share) {
        let detail = format!("High (read) water mark = {share}: expected 0 to 1");
        return Err(keys.wrong(detail));
    }
    // Without this the mark is a share of the segment.
    let of_request = keys.optional("Set watermark by reqsize")?.unwrap_or(1.0) != 0.0;
    if share > 0.0 && !of_request {
        let detail = "Set watermark by reqsize = 0: expected 1, or a High (read) water mark of 0";
        return Err(keys.wrong(detail));
    }
    spec.bus = Some(BusSpec {
        sector: match read == write {
            true => Times::One(read),
            false => Times::Two(read, write),
        },
        high_water: share,
        hold_read: false,
        hold_write: false,
    });
    Ok(())
}

fn scheduler(keys: &mut Keys) -> Result<Option<&'static str>, SimError> {
    let Some(Value::Block(block)) = keys.get("Scheduler") else {
        return Ok(None);
    };
    let mut scheduler = Keys::new(Path::new(&keys.place), block);
    Ok(match scheduler.or_zero("Scheduling policy")? as i64 {
        1 => Some("fcfs"),
        2 | 5 => Some("scan"),
        3 | 6 => Some("clook"),
        4 | 7 => Some("sstf"),
        8..=10 => Some("sptf"),
        _ => None,
    })
}

fn sources() -> BTreeMap<&'static str, &'static str> {
    [
        ("heads", "Number of data surfaces"),
        ("rpm", "Rotation speed (in rpms)"),
        ("serpentine", "LBN-to-PBN mapping scheme"),
        ("seek", "Seek type, Full seek curve"),
        ("write_settle", "Add. write settling delay"),
        ("head_switch", "Head switch time"),
        ("queue_depth", "Max queue length"),
        (
            "bus.sector",
            "the largest of Bulk sector transfer time and the block times of the buses",
        ),
        (
            "cache.segments",
            "Number of buffer segments, Use separate write segment",
        ),
        ("cache.segment", "Segment size (in blks)"),
        ("cache.read_ahead", "Maximum read-ahead (blks)"),
        ("cache.read_on", "Buffer continuous read"),
        ("cache.hit_reads_on", "Read-ahead on idle hit"),
        ("cache.from_landing", "Read any free blocks"),
        ("cache.partial_hits", "Immed transfer partial hit"),
        ("write_cache.readable", "Allow read hits on write data"),
        ("bus.high_water", "High (read) water mark"),
        (
            "write_cache.segments",
            "Maximum number of write segments, Fast write level",
        ),
        ("write_cache.segment", "Segment size (in blks)"),
        (
            "overheads.read_hit",
            "Read hit over. after read, after write",
        ),
        (
            "overheads.read_miss",
            "Read miss over. after read, after write",
        ),
        (
            "overheads.write_hit",
            "Write hit over. after read, after write",
        ),
        (
            "overheads.write_miss",
            "Write miss over. after read, after write",
        ),
        (
            "overheads.completion",
            "Read completion overhead, Write completion overhead",
        ),
        ("zero_latency.read", "Immediate buffer read"),
        ("zero_latency.write", "Immediate buffer write"),
        ("zones.first", "First cylinder number"),
        ("zones.last", "Last cylinder number"),
        ("zones.sectors_per_track", "Blocks per track"),
        ("zones.first_offset", "Offset of first block, in sectors"),
        ("zones.track_skew", "Skew for track switch, in sectors"),
        (
            "zones.cylinder_skew",
            "Skew for cylinder switch, in sectors",
        ),
        ("zones.empty", "Empty space at zone front"),
        ("zones.spare", "Sparing scheme used, Number of spares"),
        ("zones.slips", "slips"),
        ("zones.defects", "defects"),
    ]
    .into()
}
