//! The import of DiskSim parameter files: every key, places by hand, refusals, mutated files.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use schedlab_model::{Bytes, Nanos};

use super::*;
use schedlab_sim::disk::{
    CacheSpec, Geometry, ReadOn, Readable, SeekSpec, SignedNanos, SparePer, Times,
};

const MODEL: &str = "dm_disk MADE_UP {
   Block count = 2400,   # not read
   Number of data surfaces = 2,
   Number of cylinders = 20,
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Full seek curve = made.seek,
      Add. write settling delay = -0.25,
      Head switch time = 0.8,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   },
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = 3,
      Rangesize for sparing = 1,
      Skew units = revolutions,
      Zones = [ dm_layout_g1_zone {
         First cylinder number = 0, Last cylinder number = 9, Blocks per track = 64,
         Offset of first block = 0.5, Empty space at zone front = 0,
         Skew for track switch = 0.125, Skew for cylinder switch = 0.25,
         Number of spares = 2, slips = [ 5, 70 ], defects = [ ]
      }, # end of zone
      dm_layout_g1_zone {
         First cylinder number = 12, Last cylinder number = 19, Blocks per track = 48,
         Offset of first block = 0.0, Empty space at zone front = 3,
         Skew for track switch = 0.125, Skew for cylinder switch = 0.25,
         Number of spares = 1, slips = [ ], defects = [ 7, 47 ]
      } ]
   }
}
";

const SPECS: &str = "disksim_disk DRIVE {
   Model = source made.model,
   Scheduler = disksim_ioqueue { Scheduling policy = 4 },
   Max queue length = 5,
   Bulk sector transfer time = 0.0,
   Segment size (in blks) = 128,
   Number of buffer segments = 3,
   Per-request overhead time = 0.1,
   Time scale for overheads = 2.0,
   Allow almost read hits = 0,
   Preseeking level = 0,
   Maximum number of write segments = 2,
   Enable caching in buffer = 1,
   Buffer continuous read = 4,
   Read-ahead on idle hit = 0,
   Immed transfer partial hit = 1,
   Read any free blocks = 1,
   Allow read hits on write data = 0,
   Use separate write segment = 1,
   High (read) water mark = 0.75,
   Set watermark by reqsize = 1,
   Maximum read-ahead (blks) = 100,
   Read-ahead over requested = 0,
   Fast write level = 2,
   Read hit over. after read = 0.1,
   Read hit over. after write = 0.2,
   Read miss over. after read = 0.3,
   Read miss over. after write = 0.4,
   Write hit over. after read = 0.5,
   Write hit over. after write = 0.6,
   Write miss over. after read = 0.7,
   Write miss over. after write = 0.8,
   Read completion overhead = 0.05,
   Write completion overhead = 0.06
} # end
";

const PARV: &str = "disksim_bus BUS0 { type = 1, Read block transfer time = 0.05,
  Write block transfer time = 0.04 }
source made.diskspecs
instantiate [ disk0 ] as DRIVE
topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_disk disk0 [] ] ]
disksim_logorg ORG { devices = [ disk0 ] }
";

fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("schedlab-disksim-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let usual = [
        ("made.model", MODEL),
        ("made.diskspecs", SPECS),
        ("made.parv", PARV),
        (
            "made.seek",
            "Seek distances measured: 2\n1, 1.0, 0.1\n11, 3.0, 0.1\n",
        ),
    ];
    for (name, text) in usual.iter().chain(files) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn every_key_arrives() {
    let folder = folder("keys", &[]);
    let imported = import(&folder.join("made.parv"), None).unwrap();
    let spec = &imported.spec;
    assert_eq!((spec.heads, spec.rpm, spec.queue_depth), (2, 6000, 5));
    assert_eq!(imported.policy, Some("sstf"));
    let table = vec![(1, Nanos(1_000_000)), (11, Nanos(3_000_000))];
    assert_eq!(spec.seek, Some(SeekSpec::Table(table)));
    assert_eq!(spec.write_settle, SignedNanos(-250_000));
    assert_eq!(
        spec.bus.unwrap().sector,
        Times::Two(Nanos(50_000), Nanos(40_000))
    );
    assert_eq!(spec.bus.unwrap().high_water, 0.75);
    let cache = CacheSpec {
        segments: 1,
        segment: Bytes(128 * 512),
        read_ahead: Bytes(100 * 512),
        read_on: ReadOn::NextTrack,
        hit_reads_on: false,
        from_landing: true,
        partial_hits: true,
    };
    assert_eq!(spec.cache, cache);
    let writes = spec.write_cache.unwrap();
    assert_eq!((writes.segments, writes.readable), (2, Readable::Never));
    let two = |a, b| Some(Times::Two(Nanos(a), Nanos(b)));
    assert_eq!(spec.overheads.read_hit, two(300_000, 500_000));
    assert_eq!(spec.overheads.write_miss, two(1_500_000, 1_700_000));
    assert_eq!(spec.overheads.completion, two(100_000, 120_000));
    let zone = &spec.zones[0];
    assert_eq!(
        (zone.first_offset, zone.track_skew, zone.cylinder_skew),
        (32.0, Some(8.0), Some(16.0))
    );
    assert_eq!(zone.spare.unwrap().per, SparePer::Track);
    assert!(imported
        .ignored
        .iter()
        .any(|(key, _)| key == "Read-ahead over requested"));
    assert!(!imported
        .ignored
        .iter()
        .any(|(key, _)| key == "Segment size (in blks)"));
    let again =
        DiskSpec::from_toml("again", &imported.to_toml().unwrap(), &Default::default()).unwrap();
    assert_eq!(again, *spec);
    // 20 tracks of 64 − 2, 16 of 48 − 1 less 3.
    assert_eq!(spec.capacity().0 / 512, 20 * 62 + 16 * 47 - 3);
}

/// A key of the disk's own block that is changed, and what comes of it.
#[test]
fn keys_of_the_caches_by_value() {
    let spec = |name: &str, from: &str, to: &str| {
        assert!(SPECS.contains(from), "{from}");
        let folder = folder(name, &[("made.diskspecs", &SPECS.replace(from, to))]);
        import(&folder.join("made.parv"), None).map(|imported| imported.spec)
    };
    let key = "Buffer continuous read = 4";
    for (value, ahead, read_on) in [
        (0, 0, ReadOn::Segment),
        (1, 100, ReadOn::Track),
        (2, 100, ReadOn::Cylinder),
        (3, 100, ReadOn::Segment),
    ] {
        let to = format!("Buffer continuous read = {value}");
        let cache = spec(&format!("read-on-{value}"), key, &to).unwrap().cache;
        assert_eq!(
            (cache.read_ahead, cache.read_on),
            (Bytes(ahead * 512), read_on)
        );
    }
    let error = spec("read-on", key, "Buffer continuous read = 5").unwrap_err();
    assert!(error.to_string().contains("expected 0 to 4"), "{error}");
    let with = |key: &str, from: f64, to: f64| {
        spec("key", &format!("{key} = {from}"), &format!("{key} = {to}"))
    };
    let all = with("Use separate write segment", 1.0, 0.0).unwrap();
    assert_eq!(all.cache.segments, 3);
    let readable = with("Allow read hits on write data", 0.0, 1.0).unwrap();
    let readable = readable.write_cache.unwrap().readable;
    assert_eq!(readable, Readable::Always);
    for (key, from, to) in [
        ("Set watermark by reqsize", 1.0, 0.0),
        ("High (read) water mark", 0.75, 1.5),
    ] {
        let error = with(key, from, to).unwrap_err().to_string();
        assert!(error.contains("High (read) water mark"), "{error}");
    }
}

/// A published file counts one cylinder less than its zones have: the zones hold.
#[test]
fn zones_say_how_many_cylinders_there_are() {
    let model = MODEL.replace("Number of cylinders = 20", "Number of cylinders = 19");
    let folder = folder("cylinders", &[("made.model", &model)]);
    let imported = import(&folder.join("made.model"), None).unwrap();
    assert_eq!(imported.spec.cylinders(), 20);
    assert!(imported
        .ignored
        .iter()
        .any(|(key, _)| key == "Number of cylinders"));
}

/// What published files have around the disk: blocks of other parts with words of every kind,
/// comments after braces, lists in blocks, and a bus whose time is 0 before the one that counts.
const AROUND: &str = "disksim_global Global {
Init Seed = 7,
# Statistic warm-up period = 0.0 seconds,
Stat definition file = statdefs

}
disksim_stats Stats {
bus stats = disksim_bus_stats {
Print bus idle stats = 1,
Print per-device stats = 1 },
flow stats = disksim_pf_stats { Print per-CPU stats =  1
}
} # end of stats
disksim_iodriver DRIVER0 {
   Scheduler = disksim_ioqueue {
Scheduling policy = 1,
Timeout time/weight = 6
   }, # end of scheduler
Use queueing in subsystem = 1
}
disksim_bus BUS0 { Read block transfer time = 0.0, Write block transfer time = 0.0 }
disksim_bus BUS1 { Read block transfer time = 0.14, Write block transfer time = 0.14 }
disksim_ctlr CTLR0 { type = 1, Scale for delays = 0.0, Bulk sector transfer time = 0.0 }

source made.diskspecs

instantiate [ statfoo ] as Stats
instantiate [ bus0 ] as  BUS0
instantiate [ bus1 ] as  BUS1
instantiate [ disk0 ] as  DRIVE

topology disksim_iodriver driver0 [
   disksim_bus bus0 [ 
      disksim_ctlr ctlr0 [
         disksim_bus bus1 [
            disksim_disk disk0 []
         ] # end of bus1
      ]
   ]
] # end of topology 

# no syncsets

disksim_logorg org0 {
   devices = [ disk0 ],
   RMW vs. reconstruct =  0.5
}
disksim_pf Proc { Process-Flow Time Scale =  1.0 }
disksim_synthio Synthio {
   System call/return with each request =  0,
Generators = [
disksim_synthgen { # generator 0 
   devices = [ disk0 ],
   Time-limited think times  = [ normal, 30.0, 100.0  ]
} # end of generator 0
] # end of list
}
";

#[test]
fn a_file_of_a_whole_system_gives_its_disk() {
    let folder = folder("around", &[("around.parv", AROUND)]);
    let spec = import(&folder.join("around.parv"), None).unwrap().spec;
    assert_eq!(spec.bus.unwrap().sector, Times::One(Nanos(140_000)));
    let alone = import(&folder.join("made.diskspecs"), None).unwrap().spec;
    assert_eq!((spec.zones, spec.seek), (alone.zones, alone.seek));
}

/// Scheme 1 keeps whole tracks at the end of a zone; an early address is behind the empty front.
#[test]
fn spare_tracks_are_whole_tracks() {
    let model = MODEL
        .replace("Sparing scheme used = 3", "Sparing scheme used = 1")
        .replace("slips = [ 5, 70 ]", "slips = []")
        .replace("defects = [ 7, 47 ]", "defects = []");
    let folder = folder("tracks", &[("made.model", &model)]);
    let spec = import(&folder.join("made.model"), None).unwrap().spec;
    assert_eq!(spec.capacity().0 / 512, (20 - 2) * 64 + (16 - 1) * 48 - 3);
}

#[test]
fn places_by_hand() {
    let folder = folder("places", &[]);
    let spec = import(&folder.join("made.model"), None).unwrap().spec;
    let geometry = Geometry::new(&spec);
    let place = |lba| {
        let p = geometry.place(lba);
        (p.cylinder, p.head, p.sector)
    };
    assert_eq!((place(4), place(5)), ((0, 0, 4), (0, 0, 6)));
    assert_eq!(geometry.place(0).run, 5);
    // 62 addresses a track; sector 70 is the seventh of the second track.
    assert_eq!(
        (place(62), place(67), place(68)),
        ((0, 1, 0), (0, 1, 5), (0, 1, 7))
    );
    // Heads run back on the second cylinder.
    assert_eq!((place(124), place(186)), ((1, 1, 0), (1, 0, 0)));
    // The second zone begins behind a gap, with three sectors empty; sector 7 is replaced by 47.
    let first = 20 * 62;
    assert_eq!(place(first), (12, 0, 3));
    assert_eq!(place(first + 4), (12, 0, 47));
    assert_eq!(place(first + 5), (12, 0, 8));
    // Half a turn, then an eighth for the other track: sector 6 of 64.
    let turn = 10_000_000;
    assert_eq!(
        geometry.phase_ns(geometry.place(5)),
        turn / 2 + turn * 6 / 64
    );
    // One slip, two slips before the track turn it by as many sectors.
    assert_eq!(
        geometry.phase_ns(geometry.place(62)),
        turn * 5 / 8 + turn / 64
    );
    assert_eq!(
        geometry.phase_ns(geometry.place(124)),
        turn * 7 / 8 + turn * 2 / 64
    );
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let refused = |file: &str, text: &str, expected: &str| {
        let folder = folder("refused", &[(file, text)]);
        let error = import(&folder.join(file), None).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    let almost = "Allow almost read hits = 1";
    let specs = SPECS.replace("Allow almost read hits = 0", almost);
    refused("made.diskspecs", &specs, almost);
    let model = MODEL.replace("dm_layout_g1 {", "dm_layout_g4 {");
    refused("made.model", &model, "dm_layout_g4: expected dm_layout_g1");
    let model = MODEL.replace("Sparing scheme used = 3", "Sparing scheme used = 11");
    refused("made.model", &model, "expected 0 to 10");
    let two = PARV.replace("[ disk0 ] }", "[ disk0, disk1 ] }");
    refused("made.parv", &two, "expected FILE:NAME");
    refused("a.parv", "source a.parv\n", "at most 8 deep");
    refused("a.parv", "source ../a.model\n", "below the folder");
    refused("a.model", &MODEL[..400], "the end of the file");
    let old = "Byte count: 3\nNumber of disks: 1\nSeek time: 4\n";
    refused("a.parv", old, "DiskSim 2");
    refused("a.parv", "", "expected a block disksim_disk");
}

#[test]
fn mutated_files_never_panic() {
    let folder = folder("fuzz", &[]);
    let mut rng = schedlab_model::Rng::new(1, 0);
    let path = folder.join("fuzzed.diskspecs");
    for _ in 0..400 {
        let mut bytes = format!("{}{}", MODEL, SPECS).into_bytes();
        for _ in 0..1 + rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = b"{}[],=#9-.e\n"[rng.below(12) as usize],
                1 => drop(bytes.drain(at..(at + 1 + rng.below(40) as usize).min(bytes.len()))),
                _ => bytes.insert(at, b"0123456789{}[],= "[rng.below(17) as usize]),
            }
            if bytes.is_empty() {
                break;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(imported) = import(&path, None) {
            imported.spec.check().unwrap();
        }
    }
}
