//! The rules of caches and bus by hand, on a disk of 2 heads, 4 cylinders and 8 sectors a track: a
//! turn takes 8 ms, a sector 1 ms, and only the arm takes time besides, 1 ms.

#![allow(clippy::unwrap_used)]

use schedlab_model::{Bytes, Nanos, Request};
use schedlab_sim::disk::{
    simulate, BusSpec, CacheSpec, DiskSpec, Geometry, Kind, LoggedResult, ReadOn, Readable,
    SeekSpec, Spare, SparePer, Times, WriteCacheSpec, Zone,
};
use schedlab_sim::workload::Incoming;
use schedlab_sim::Stop;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn disk() -> DiskSpec {
    DiskSpec {
        rpm: 7500,
        heads: 2,
        zones: vec![Zone {
            cylinders: 4,
            sectors_per_track: 8,
            ..Zone::default()
        }],
        seek: Some(SeekSpec::Table(vec![(1, Nanos(MS))])),
        head_switch: Nanos(0),
        track_skew: Nanos(0),
        cylinder_skew: Nanos(0),
        overhead: Nanos(0),
        bus: Some(bus(0, 0)),
        cache: CacheSpec {
            segments: 2,
            segment: Bytes(64 * 512),
            read_ahead: Bytes(20 * 512),
            read_on: ReadOn::Segment,
            hit_reads_on: true,
            from_landing: false,
            partial_hits: false,
        },
        ..DiskSpec::shipped("disk7200").unwrap()
    }
}

fn bus(read_us: u64, write_us: u64) -> BusSpec {
    BusSpec {
        sector: Times::Two(Nanos(read_us * US), Nanos(write_us * US)),
        high_water: 0.0,
        hold_read: false,
        hold_write: false,
    }
}

fn request(at_ms: u64, lba: u64, sectors: u64, is_write: bool) -> Request {
    Request {
        arrival: Nanos(at_ms * MS),
        offset: Bytes(lba * 512),
        length: Bytes(sectors * 512),
        is_write,
    }
}

fn read(at_ms: u64, lba: u64, sectors: u64) -> Request {
    request(at_ms, lba, sectors, false)
}

fn write(at_ms: u64, lba: u64, sectors: u64) -> Request {
    request(at_ms, lba, sectors, true)
}

fn served(spec: &DiskSpec, policy: &str, requests: &[Request]) -> LoggedResult {
    let mut source = requests.iter().map(|request| Ok(Incoming::from(*request)));
    simulate(spec, policy, &mut source, true, &Stop::default()).unwrap()
}

/// Response in us and kind of the last of these requests.
fn last(spec: &DiskSpec, requests: &[Request]) -> (u64, Kind) {
    let (_, log) = served(spec, "fcfs", requests);
    let last = log.last().unwrap();
    ((last.completed_ns - last.request.arrival.0) / US, last.kind)
}

#[test]
fn a_read_begins_on_the_bus_once_its_share_is_in_the_cache() {
    let mut spec = disk();
    let response = |spec: &DiskSpec| last(spec, &[read(0, 0, 4)]).0;
    for (bus_us, without, with) in [(500, 4_500, 5_000), (2_000, 9_000, 11_000)] {
        spec.bus = Some(bus(bus_us, 0));
        assert_eq!(response(&spec), without);
        spec.bus.as_mut().unwrap().high_water = 0.75;
        assert_eq!(response(&spec), with);
    }
    // One sector at least has passed, whatever the share.
    spec.bus.as_mut().unwrap().high_water = 0.1;
    assert_eq!(response(&spec), 9_000);
}

#[test]
fn data_that_come_too_late_for_their_place_cost_a_turn() {
    let mut spec = disk();
    spec.bus = Some(bus(0, 2_000));
    // Data of the first sector are there at 2 ms, of the second at 4 ms.
    assert_eq!(last(&spec, &[write(0, 2, 1)]).0, 3_000);
    assert_eq!(last(&spec, &[write(0, 1, 1)]).0, 10_000);
    assert_eq!(last(&spec, &[write(0, 2, 2)]).0, 12_000);
    // The eighth, at 16 ms, is 7 ms later than its place: one turn is enough.
    assert_eq!(last(&spec, &[write(0, 2, 8)]).0, 18_000);
    spec.bus = Some(bus(0, 900));
    assert_eq!(last(&spec, &[write(0, 1, 8)]).0, 9_000);
    // On a fast bus only the first sector can be late.
    spec.bus = Some(bus(0, 500));
    assert_eq!(last(&spec, &[write(0, 0, 8)]).0, 16_000);
    // A head that settles inside the request writes in the order in which places pass.
    assert_eq!(last(&spec, &[write(3, 0, 8)]).0, 13_000);
    spec.zero_latency.write = true;
    assert_eq!(last(&spec, &[write(3, 0, 8)]).0, 8_000);
    spec.bus = Some(bus(0, 2_000));
    assert_eq!(last(&spec, &[write(3, 0, 8)]).0, 16_000);
    spec.bus = Some(bus(0, 1_800));
    assert_eq!(last(&spec, &[write(3, 0, 8)]).0, 14_400);
}

#[test]
fn each_direction_has_its_time_on_the_bus() {
    let mut spec = disk();
    spec.bus = Some(bus(300, 400));
    let again = [read(0, 0, 2), read(50, 0, 2)];
    assert_eq!(last(&spec, &again), (600, Kind::ReadHit));
    spec.write_cache = Some(writes(Readable::Dirty));
    assert_eq!(last(&spec, &[write(0, 0, 2)]), (800, Kind::WriteCached));
}

/// After a read of one sector and a pause, the first sector behind it that is not in the cache.
fn reads_on_to(spec: &DiskSpec, lba: u64) -> u64 {
    let is_hit =
        |then: &u64| last(spec, &[read(0, lba, 1), read(200, *then, 1)]).1 == Kind::ReadHit;
    (lba + 1..64)
        .take_while(is_hit)
        .last()
        .map_or(lba + 1, |hit| hit + 1)
}

#[test]
fn a_disk_reads_on_as_far_as_its_rule_lets_it() {
    let mut spec = disk();
    let mut to = |read_on, lba| {
        spec.cache.read_on = read_on;
        reads_on_to(&spec, lba)
    };
    assert_eq!(to(ReadOn::Segment, 1), 22);
    assert_eq!(to(ReadOn::Track, 1), 8);
    assert_eq!(to(ReadOn::Track, 7), 8);
    assert_eq!(to(ReadOn::Cylinder, 1), 16);
    assert_eq!(to(ReadOn::Cylinder, 15), 16);
    assert_eq!(to(ReadOn::NextTrack, 1), 8);
    // The sector after 7 is on the next track, and the segment began before that one.
    assert_eq!(to(ReadOn::NextTrack, 7), 24);
    assert_eq!(to(ReadOn::NextTrack, 62), 64);
    assert_eq!(to(ReadOn::NextTrack, 55), 64);
    spec.cache.read_ahead = Bytes(3 * 512);
    spec.cache.read_on = ReadOn::Track;
    assert_eq!(reads_on_to(&spec, 1), 5);
    spec.cache.read_on = ReadOn::Cylinder;
    assert_eq!(reads_on_to(&spec, 1), 5);
    spec.cache.read_on = ReadOn::NextTrack;
    assert_eq!(reads_on_to(&spec, 1), 8);
    spec.cache.read_ahead = Bytes(0);
    assert_eq!(reads_on_to(&spec, 1), 2);
}

#[test]
fn a_hit_lets_an_idle_disk_read_on_or_not() {
    let mut spec = disk();
    spec.cache.read_ahead = Bytes(4 * 512);
    let requests = [read(0, 0, 1), read(100, 3, 1), read(200, 6, 1)];
    assert_eq!(last(&spec, &requests).1, Kind::ReadHit);
    spec.cache.hit_reads_on = false;
    assert_eq!(last(&spec, &requests).1, Kind::ReadMiss);
    // One that comes while the disk still reads on moves the end all the same.
    let soon = [read(0, 0, 1), read(2, 2, 1), read(200, 6, 1)];
    assert_eq!(last(&spec, &soon).1, Kind::ReadHit);
}

#[test]
fn the_rest_of_a_read_comes_from_the_medium() {
    let mut spec = disk();
    spec.cache.read_on = ReadOn::Track;
    // At 103 ms sector 7 begins to pass: 7 ms to sector 6 and four sectors, or 1 ms to the next
    // track and two of them.
    let requests = [read(0, 0, 1), read(103, 6, 4), read(300, 0, 1)];
    assert_eq!(last(&spec, &requests[..2]), (11_000, Kind::ReadMiss));
    assert_eq!(last(&spec, &requests).1, Kind::ReadMiss);
    spec.cache.partial_hits = true;
    assert_eq!(last(&spec, &requests[..2]), (3_000, Kind::ReadMiss));
    assert_eq!(last(&spec, &requests).1, Kind::ReadHit);
    // All four go over the bus, the first two at once.
    spec.bus = Some(bus(2_000, 0));
    assert_eq!(last(&spec, &requests[..2]).0, 8_000);
    spec.bus = Some(bus(500, 0));
    assert_eq!(last(&spec, &requests[..2]).0, 3_500);
    // The wait for the rest brings nothing that is before the beginning.
    spec.cache.from_landing = true;
    let waiting = [read(6, 6, 2), read(101, 7, 3), read(300, 5, 1)];
    assert_eq!(last(&spec, &waiting).1, Kind::ReadMiss);
}

#[test]
fn sptf_knows_where_the_rest_of_a_read_is() {
    let mut spec = disk();
    spec.cache.read_on = ReadOn::Track;
    spec.cache.partial_hits = true;
    // At 103 ms: 1 ms to the rest of the first, 4 ms to the second, 7 ms to the first's beginning.
    let requests = [read(0, 0, 1), read(103, 6, 4), read(103, 11, 1)];
    let (_, log) = served(&spec, "sptf", &requests);
    let order: Vec<u64> = log.iter().map(|logged| logged.index).collect();
    assert_eq!(order, [0, 1, 2]);
}

/// A write to the next sector is there in time for ever, and the far one never.
#[test]
fn sptf_serves_a_far_command_once_it_has_waited_too_long() {
    let far = 48;
    let near = (0..400).map(|n| write(0, n % 8, 1));
    let requests: Vec<Request> = std::iter::once(write(0, far, 1)).chain(near).collect();
    let (_, log) = served(&disk(), "sptf", &requests);
    let far = log.iter().find(|row| row.request.offset.0 == far * 512);
    let begins_ms = far.unwrap().start_ns / MS;
    assert!((200..=201).contains(&begins_ms), "{begins_ms}");
}

#[test]
fn what_passes_before_a_read_is_kept_from_the_landing_on() {
    let mut spec = disk();
    spec.cache.read_ahead = Bytes(0);
    let kind = |spec: &DiskSpec, then| last(spec, &[read(0, 13, 1), read(100, then, 1)]).1;
    assert_eq!(kind(&spec, 12), Kind::ReadMiss);
    spec.cache.from_landing = true;
    // The head is over sector 8 at 0 ms, and 13 comes 5 ms later.
    assert_eq!(kind(&spec, 8), Kind::ReadHit);
    assert_eq!(kind(&spec, 7), Kind::ReadMiss);
    assert_eq!(kind(&spec, 14), Kind::ReadMiss);
    // To cylinder 1 in 1 ms: its first sector has begun to pass.
    let seek = |then| last(&spec, &[read(0, 19, 1), read(100, then, 1)]).1;
    assert_eq!(seek(17), Kind::ReadHit);
    assert_eq!(seek(16), Kind::ReadMiss);
}

fn writes(readable: Readable) -> WriteCacheSpec {
    WriteCacheSpec {
        segments: 1,
        segment: Bytes(16 * 512),
        destage: Default::default(),
        high_water: 1.0,
        low_water: 0.0,
        readable,
    }
}

#[test]
fn written_data_are_readable_by_rule() {
    let mut spec = disk();
    // The arm reads ahead behind sector 40 and leaves only when it is idle: 3 is dirty at 5 ms.
    spec.overheads.write_miss = Some(Times::One(Nanos(20 * MS)));
    let (dirty, clean) = (
        [write(0, 3, 1), read(5, 3, 1)],
        [write(0, 3, 1), read(90, 3, 1)],
    );
    for (readable, while_dirty, after) in [
        (Readable::Never, Kind::ReadMiss, Kind::ReadMiss),
        (Readable::Dirty, Kind::ReadHit, Kind::ReadMiss),
        (Readable::Always, Kind::ReadHit, Kind::ReadHit),
    ] {
        spec.write_cache = Some(writes(readable));
        assert_eq!(last(&spec, &dirty).1, while_dirty, "{readable:?}");
        assert_eq!(last(&spec, &clean).1, after, "{readable:?}");
    }
    // Two reads elsewhere need both segments.
    let replaced = [clean[0], read(90, 20, 1), read(190, 48, 1), read(290, 3, 1)];
    spec.cache.read_ahead = Bytes(0);
    assert_eq!(last(&spec, &replaced).1, Kind::ReadMiss);
    assert_eq!(
        last(&spec, &[replaced[0], replaced[1], replaced[3]]).1,
        Kind::ReadHit
    );
}

#[test]
fn written_data_do_not_take_the_segment_that_is_being_filled() {
    let mut spec = disk();
    spec.cache.segments = 1;
    spec.overheads.write_miss = Some(Times::One(Nanos(20 * MS)));
    spec.write_cache = Some(writes(Readable::Always));
    // The write is on its way to the medium when the read comes, and there when it has begun.
    let requests = [write(0, 3, 1), read(21, 40, 1), read(200, 20, 1)];
    assert_eq!(last(&spec, &requests).1, Kind::ReadMiss);
    assert_eq!(
        last(&spec, &[requests[0], requests[1], read(200, 41, 1)]).1,
        Kind::ReadHit
    );
}

#[test]
fn a_cached_write_empties_the_segments_that_it_overlaps() {
    let mut spec = disk();
    spec.write_cache = Some(writes(Readable::Dirty));
    let requests = [read(0, 0, 8), write(100, 4, 1), read(200, 0, 1)];
    assert_eq!(last(&spec, &requests).1, Kind::ReadMiss);
    let beside = [requests[0], write(100, 40, 1), requests[2]];
    assert_eq!(last(&spec, &beside).1, Kind::ReadHit);
}

#[test]
fn a_read_that_hits_saves_its_segment() {
    let mut spec = disk();
    spec.cache.read_ahead = Bytes(0);
    let requests = [
        read(0, 3, 1),
        read(100, 20, 1),
        read(200, 3, 1),
        read(300, 40, 1),
    ];
    let then = |lba| {
        let all: Vec<Request> = requests.into_iter().chain([read(400, lba, 1)]).collect();
        last(&spec, &all).1
    };
    assert_eq!(then(3), Kind::ReadHit);
    assert_eq!(then(20), Kind::ReadMiss);
}

#[test]
fn a_read_after_a_write_has_its_own_overhead() {
    let mut spec = disk();
    spec.cache.segments = 0;
    spec.overheads.read_miss = Some(Times::Two(Nanos(MS), Nanos(8 * MS)));
    // Sector 3 begins to pass at 107 ms and again at 115 ms.
    assert_eq!(last(&spec, &[read(0, 5, 1), read(100, 3, 1)]).0, 8_000);
    assert_eq!(last(&spec, &[write(0, 5, 1), read(100, 3, 1)]).0, 16_000);
}

#[test]
fn a_run_ends_when_the_last_write_is_on_the_medium() {
    let mut spec = disk();
    spec.write_cache = Some(writes(Readable::Dirty));
    // The arm writes sector 3 from 3 to 4 ms; the read finds it in the cache at 1 ms.
    let (result, _) = served(&spec, "fcfs", &[write(0, 3, 1), read(1, 3, 1)]);
    assert_eq!(result.elapsed_ns, 4 * MS);
}

fn with_spare(per: SparePer, slip_to_end: bool, slips: Vec<u32>) -> DiskSpec {
    let mut spec = disk();
    spec.zones[0].spare = Some(Spare {
        per,
        count: 2,
        range: 1,
        at_front: false,
        slip_to_end,
    });
    spec.zones[0].slips = slips;
    spec
}

#[test]
fn slips_up_to_the_end_of_a_zone_take_addresses() {
    let sectors = |per, to_end, slips| Geometry::new(&with_spare(per, to_end, slips)).sectors();
    assert_eq!(sectors(SparePer::End, false, vec![]), 62);
    assert_eq!(sectors(SparePer::End, false, vec![5, 9]), 60);
    assert_eq!(sectors(SparePer::Zone, false, vec![5, 9]), 62);
    assert_eq!(sectors(SparePer::Cylinder, false, vec![5, 20]), 56);
    assert_eq!(sectors(SparePer::Cylinder, true, vec![5, 20]), 54);
}

#[test]
fn a_slip_turns_the_cylinders_or_tracks_behind_it() {
    // The first address of the second cylinder, and of the second track.
    let phases = |per| {
        let geometry = Geometry::new(&with_spare(per, false, vec![5, 6]));
        let phase = |lba| geometry.phase_ns(geometry.place(lba)) / MS;
        let first = |is_match: &dyn Fn(u64) -> bool| (0..).find(|lba| is_match(*lba)).unwrap();
        let track = first(&|lba| geometry.place(lba).head == 1);
        let cylinder = first(&|lba| geometry.place(lba).cylinder == 1);
        (phase(track), phase(cylinder))
    };
    assert_eq!(phases(SparePer::Zone), (0, 0));
    assert_eq!(phases(SparePer::Cylinder), (0, 2));
    assert_eq!(phases(SparePer::Track), (2, 2));
}
