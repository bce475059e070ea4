"""The estimates of `device fit` on probes of known devices, and its file."""

import dataclasses
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from schedlab.errors import SpecError
from schedlab_sim.device import devices
from schedlab_sim.fit import disk, flash
from schedlab_sim.fit.draws import Draws
from schedlab_sim.fit.fitted import UNKNOWN, Fitted, lines, number_of, of_one_curve
from schedlab_sim.predict.fit import fit_datasheet, held_out, twin_of
from schedlab_sim.simulation import Simulation


def rounded(text, draws):
    """A fitted file but for its date, and what changes in three draws; figures of three digits."""
    both = re.sub("date = .*\n", "", text) + "\n".join(str(draws.at(n)) for n in (1, 2, 3))
    return re.sub(r"\d+(\.\d+)?", lambda found: f"{float(found[0]):.3g}", both)


def steps_of(channels, dies, planes, transfer, read, count=300, noise=0.02, seed=1, link=0.0):
    """What a device of these parts and a link that they share adds to the second of two reads."""
    distances = np.arange(1, count + 1)
    steps = np.full(count, link)
    steps[distances % channels == 0] = max(transfer, link)
    steps[distances % (channels * dies) == 0] = max(read, transfer)
    steps[distances % (channels * dies * planes) == 0] = read + transfer
    late = np.random.default_rng(seed).exponential(noise * (read + transfer), count)
    return steps + late


@pytest.mark.parametrize(
    ("parts", "transfer", "read"),
    [
        ((4, 4, 1), 30, 60), ((8, 4, 2), 5, 60), ((8, 1, 1), 10, 50), ((1, 4, 1), 40, 90),
        ((6, 5, 1), 20, 70), ((1, 1, 1), 30, 60), ((2, 8, 2), 25, 60), ((16, 2, 1), 12, 40),
    ],
)  # fmt: skip
def test_parts_and_times_of_flash_are_found_again(parts, transfer, read):
    steps = steps_of(*parts, transfer, read)
    assert flash.split_steps(steps) == parts
    if parts[1] * parts[2] > 1:  # one plane of a channel shows only the sum of its times
        found = flash.times_of(flash.levels(steps, *parts))
        assert found == pytest.approx((transfer, read), abs=0.1 * read)


@pytest.mark.parametrize(
    ("parts", "transfer", "read"), [((16, 4, 1), 663, 2955), ((4, 4, 1), 322, 1527)]
)
def test_a_step_that_all_reads_have_is_a_link_not_one_channel_of_many_dies(parts, transfer, read):
    steps = steps_of(*parts, transfer, read, link=145)
    assert flash.split_steps(steps) == parts
    assert flash.times_of(flash.levels(steps, *parts)) == pytest.approx((transfer, read), abs=80)


def flash_probes(**changes):
    lengths = {n: 100e3 + 30e3 * max(0, math.ceil(n / 4) - 1) for n in flash.LENGTHS}
    base = flash.FlashProbes(
        4 << 30, 100e3, 0.01, 100e3 + steps_of(4, 4, 1, 30e3, 60e3), lengths,
        {1: 9.9e3, 32: 9e4}, 32, 4096, True,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def test_a_device_without_steps_is_said_to_be_unknown_and_one_in_order_has_one_tag():
    flat = flash.fit_flash(flash_probes(pairs=np.full(300, 100.5e3)))
    assert flat.errors["flash.page_read"] == UNKNOWN
    assert "never written" in flat.notes[0]
    serial = flash.fit_flash(flash_probes(iops={1: 1e4, 4: 1.05e4}, tags=4))
    assert serial.value("queue.depth") == 1
    assert serial.errors["flash.dies_per_package"] == UNKNOWN


@pytest.mark.parametrize(
    ("parts", "transfer", "link", "unsure"),
    [((16, 2, 2), 60e3, 0, {"channels", "dies_per_package"}),
     ((4, 4, 2), 88e3, 0, {"planes_per_die"}), ((4, 4, 1), 900e3, 0, set()),
     ((4, 4, 1), 300e3, 310e3, {"channels", "dies_per_package"})],
)  # fmt: skip
def test_parts_that_others_fit_as_well_are_unknown_and_kept_in_every_draw(
    parts, transfer, link, unsure, golden
):
    """Where moving a page takes too little time, sixteen channels of two dies were 32 channels."""
    pairs = 2e6 + steps_of(*parts, transfer, 1.9e6, link=link)
    lengths = {n: 2e6 + transfer * (math.ceil(n / parts[0]) - 1) for n in flash.LENGTHS}
    fitted = flash.fit_flash(
        flash_probes(single=2e6, pairs=pairs, lengths=lengths, iops={1: 500, 32: 8e3})
    )
    keys = {f"flash.{key}" for key in ("channels", "dies_per_package", "planes_per_die")}
    assert {key for key in keys if fitted.errors[key] == UNKNOWN} >= {f"flash.{k}" for k in unsure}
    assert bool(unsure) == any("other parts" in note for note in fitted.notes)
    assert fitted.value("flash.channels") * fitted.value("flash.dies_per_package") == math.prod(
        parts[:2]
    )
    draws = Draws(fitted.text({}), devices().values(), "x.toml")
    assert not keys & {key for seed in range(1, 9) for key in draws.at(seed)}
    title = "-".join(map(str, (*parts, f"{link / 1e3:g}")))
    golden(f"fits/flash-{title}.txt", rounded(fitted.text({}), draws))


def test_a_time_has_the_error_that_other_parts_give_it():
    """On a busy host two channels of eight dies fit as well as four of four, with other times."""
    pairs = 2e6 + steps_of(4, 4, 1, 322e3, 1527e3, noise=0.1, link=145e3)
    fitted = flash.fit_flash(flash_probes(single=2e6, pairs=pairs, iops={1: 500, 32: 8e3}))
    assert fitted.errors["flash.channels"] == UNKNOWN
    for key, true in (("flash.page_read", 1527e3), ("flash.page_transfer", 322e3)):
        off = abs(math.log(number_of(fitted.value(key)) / true))
        assert off <= 2 * fitted.errors[key] < 1


def test_a_transfer_that_a_slower_link_hides_is_unknown_and_the_link_stays_in_every_draw():
    pairs = 2e6 + steps_of(4, 4, 1, 92e3, 1075e3, link=133e3)
    fitted = flash.fit_flash(flash_probes(single=2e6, pairs=pairs, iops={1: 500, 32: 8e3}))
    assert fitted.errors["flash.page_transfer"] == UNKNOWN
    assert number_of(fitted.value("flash.page_transfer")) == pytest.approx(133e3, rel=0.2)
    off = math.log(number_of(fitted.value("flash.page_read")) / 1075e3)
    assert abs(off) <= 2 * fitted.errors["flash.page_read"] < 0.2
    draws = Draws(fitted.text({}), devices().values(), "x.toml")
    assert not {"flash.page_transfer", "flash.channels"} & {k for n in range(1, 9)
                                                            for k in draws.at(n)}  # fmt: skip


def test_single_reads_that_were_all_late_take_no_longer_than_two_at_once():
    """Then no step was left, and eight channels of four dies were one die, said to be counted."""
    late = flash.fit_flash(flash_probes(single=125e3))
    assert [late.value(key) for key in flash.PARTS] == [4, 4, 1]
    assert number_of(late.value("flash.page_read")) == pytest.approx(60e3, rel=0.1)


def test_planes_that_read_together_make_long_reads_of_a_card_as_fast_as_they_are(tmp_path):
    """Pages of 500 µs and 1.4 ms: one plane reads while the page of the other one is moved."""
    lengths = {n: 1.9e6 + 1.4e6 * (n - 1) for n in flash.LENGTHS}
    probes = flash_probes(
        size_bytes=4 << 30, single=1.9e6, lengths=lengths, iops={1: 520.0, 4: 525.0}, tags=4,
        page_bytes=16384,
    )  # fmt: skip
    path = tmp_path / "card.toml"
    path.write_text(flash.fit_flash(probes).text({}))
    long = {"name": "l", "record": 128 << 10}
    draws, reads = Draws(path.read_text(), devices().values(), "x.toml"), set()
    for seed in range(6):
        run = Simulation(device=str(path), scheduler="none", processes=long, seconds=2.0,
                         device_set=draws.at(seed)).run()  # fmt: skip
        assert run["total"]["latency_ns_mean"] == pytest.approx(lengths[8], rel=0.06)
        reads.add(number_of(draws.at(seed).get("flash.page_read", 0)))
    # Which of the two times is the longer one is not seen.
    assert {500_000, 1_400_000} <= reads


def test_a_longer_read_takes_no_less_and_is_not_measured_in_one_moment():
    """A host that was busy at the reads of one page made three channels of one."""

    class Device:
        asked = 0

        def places(self, count, step, room):
            return [0] * count

        def latencies_ns(self, places, size):
            self.asked += 1
            return [size * 3.0 + (1e5 if self.asked == 1 or size == 8 * 4096 else 0)] * len(places)

    lengths = flash._lengths(Device(), 4096)
    assert lengths[1] == 3 * 4096
    assert lengths[8] == lengths[12] == 3 * 12 * 4096


def test_a_page_ends_where_reads_stop_to_wait_not_where_one_was_less_late():
    """A host that was busy at the first pair made a page of 8 KiB one of 4 KiB."""
    assert flash.first_apart([2.5, 2.2, 1.3, 1.3, 1.31, 1.3]) == 8192
    assert flash.first_apart([2.5, 1.3, 1.3, 1.3, 1.31, 1.3]) == 4096
    assert flash.first_apart([2.5, 2.4, 2.6, 2.5, 2.5, 2.5]) is None


def test_the_sum_of_what_one_die_does_by_turns_stays_in_every_draw(tmp_path):
    """Reads of 442 µs and transfers of 778 µs look like 53 µs and 1230 µs."""
    lengths = {n: n * 1220e3 for n in flash.LENGTHS}
    serial = flash.fit_flash(flash_probes(single=1220e3, iops={1: 820, 4: 820.0}, lengths=lengths))
    times = ("flash.page_read", "flash.page_transfer")
    assert {serial.errors[key] for key in times} == {UNKNOWN}
    draws = Draws(serial.text({}), devices().values(), "x.toml")
    drawn = [[number_of(draws.at(seed)[key]) for key in times] for seed in range(1, 9)]
    assert [sum(each) for each in drawn] == pytest.approx([1220e3] * 8, rel=0.001)
    assert len({each[0] for each in drawn}) > 1


def test_the_longest_time_that_fits_is_a_revolution():
    draws = np.random.default_rng(2)
    turns = draws.integers(3, 40, (24, 12)).cumsum(1)
    rounds = turns * 60e3 / 6543 + draws.uniform(0, 9, (24, 1)) + draws.exponential(0.05, (24, 12))
    period, coherence = disk.rotation(rounds - rounds.min())
    assert 60e3 / period == pytest.approx(6543, rel=0.001)
    assert coherence > 0.9


def disk_angles(period, sectors, heads, track_ms, cylinder_ms, late_ms=0.03):
    draws = np.random.default_rng(3)
    places = draws.integers(0, 24 * sectors, 300) // 8 * 8
    track = places // sectors
    lost = (track - track // heads) * track_ms + track // heads * cylinder_ms
    done = draws.integers(2, 9, 300).cumsum() * period + places / sectors * period + lost
    return np.column_stack((places, done + draws.exponential(late_ms, 300)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("sectors", "heads"), [(2200, 4), (976, 2), (1500, 1), (1810, 6)])
def test_tracks_and_heads_are_found_by_the_angles_of_sectors(sectors, heads):
    period = 60e3 / 7200
    skews = (0.7, 1.0) if heads > 1 else (1.0, 1.0)
    found = disk.find_tracks(
        disk_angles(period, sectors, heads, *skews), period, sectors / (1 + 0.8 / period)
    )
    assert (found.sectors, found.heads) == (pytest.approx(sectors, rel=0.01), heads)
    assert found.cylinder_skew_ms == pytest.approx(skews[1], abs=0.15)
    assert found.is_known


def test_skews_are_told_from_the_sectors_that_make_up_for_them():
    """Seven sectors more and a skew of a quarter less fitted nearly as well."""
    period = 60e3 / 4200
    found = disk.find_tracks(disk_angles(period, 1100, 4, 0.36, 0.66), period, 1100 / 1.03)
    assert found.sectors == pytest.approx(1100, abs=2)
    assert found.track_skew_ms == pytest.approx(0.36, rel=0.1)
    assert found.cylinder_skew_ms == pytest.approx(0.66, rel=0.1)


def test_a_skew_is_not_most_of_a_turn():
    """Where the rate was too low, eight heads with skews of one and two turns were counted."""
    found = disk.find_tracks(disk_angles(6.0, 816, 5, 1.154, 1.378, 0.1), 6.0, 189)
    assert found.most_skew_ms < 0.6 * 6
    assert not found.is_known


def test_heads_are_unknown_where_a_busy_host_hides_the_skews():
    """Two heads looked like one, and their number was said to be counted."""
    angles = disk_angles(60e3 / 5400, 976, 2, 0.64, 0.88, late_ms=0.3)
    found = disk.find_tracks(angles, 60e3 / 5400, 976 / 1.07)
    assert (found.is_known, found.coherence > disk.COHERENT) == (False, True)


def test_a_seek_curve_is_found_again_from_the_fastest_of_many():
    draws = np.random.default_rng(4)
    zones = [{"cylinders": count, "sectors_per_track": 1000} for count in (4000, 16000)]
    cylinder = 4 * 1000 * disk.SECTOR
    rows = []
    for distance in np.geomspace(4, 19000, disk.DISTANCES):
        ends = distance * draws.uniform(0.97, 1.03, disk.PAIRS)
        seek = 0.8 + 0.09 * np.sqrt(ends - 1) + 2e-4 * (ends - 1)
        time = 0.1 + seek + draws.uniform(0, 8.33, disk.PAIRS)
        rows.append(np.column_stack((0 * ends, ends * cylinder, time)))
    probes = disk.DiskProbes(
        20000 * cylinder, np.zeros((1, 1)), {}, 0, 1, [], np.zeros((1, 2)), np.vstack(rows), {}, 32
    )
    (single, average, full), _ = disk.seek_times(probes, zones, 4, 8.33, 0.1)
    assert single == pytest.approx(0.8, abs=0.25)
    assert full == pytest.approx(0.8 + 0.09 * math.sqrt(20000) + 4, rel=0.05)
    assert average == pytest.approx(0.8 + 0.09 * math.sqrt(20000) * 8 / 15 + 4 / 3, rel=0.06)


def disk_probes(times_ms):
    """A disk of one zone whose seeks take these times after a whole turn at most."""
    draws, period, size = np.random.default_rng(6), 60e3 / 7200, 80_000_000 * disk.SECTOR
    ways = np.geomspace(64 << 20, 0.9 * size, 26 * disk.PAIRS)
    late = 0.2 + draws.uniform(0, period, len(ways))
    seeks = np.column_stack((0 * ways, ways, times_ms(ways / size) + late))
    rounds = draws.integers(3, 40, (24, 12)).cumsum(1) * period
    return disk.DiskProbes(
        size, rounds - rounds.min(), {4096: 0.1, 128 << 10: 0.9}, 128 << 10, 8,
        [(share, 1000 * disk.SECTOR * 120.0) for share in np.linspace(0, 1, 20)],
        disk_angles(period, 1000, 1, 1.0, 1.0), seeks, {1: 80.0, 32: 180.0}, 32,
    )  # fmt: skip


@pytest.mark.parametrize(("root", "line"), [(12, 0), (0, 14), (0, 0)])
def test_a_curve_that_is_only_a_root_a_line_or_nothing_makes_a_disk(tmp_path, root, line, golden):
    path = tmp_path / "disk.toml"
    fixed = 0.5 if root or line else 0
    probes = disk_probes(lambda way: fixed + root * np.sqrt(way) + line * way)
    path.write_text(text := disk.fit_disk(probes).text({}))
    assert Simulation(device=str(path), scheduler="none").facts()["rotational"]
    draws = Draws(text, devices().values(), "x.toml")
    golden(f"fits/disk-{root}-{line}.txt", rounded(text, draws))


def test_the_way_to_the_next_cylinder_is_shorter_than_the_skew_that_hides_it():
    """Extrapolated it is longer, and every stream lost a revolution at each cylinder."""
    probes = disk_probes(lambda way: 3 + 12 * np.sqrt(way))
    probes.iops[4] = 81.0  # the deepest says whether it reorders
    fitted = disk.fit_disk(probes)
    assert fitted.value("queue_depth") == 32
    assert number_of(fitted.value("seek_average")) > number_of(fitted.value("cylinder_skew"))
    single, skew = (number_of(fitted.value(key)) for key in ("seek_single", "cylinder_skew"))
    assert 0.7 * skew < single < 0.9 * skew


def test_a_disk_whose_tracks_are_not_seen_streams_as_fast_as_measured_in_every_draw(tmp_path):
    """Sectors were counted without skews, beside skews of chance: streams took twice as long."""
    probes = disk_probes(lambda way: 2 + 12 * np.sqrt(way))
    noise = np.random.default_rng(8).uniform(0, 1e3, len(probes.angles))
    probes = dataclasses.replace(
        probes, angles=np.column_stack((probes.angles[:, 0], noise)), read_ahead_bytes=1 << 20,
        hits={4096: 0.1, 128 << 10: 0.4},
    )  # fmt: skip
    fitted = disk.fit_disk(probes)
    assert (fitted.errors["heads"], fitted.errors["track_skew"]) == (UNKNOWN, UNKNOWN)
    path = tmp_path / "disk.toml"
    path.write_text(fitted.text({}))
    draws = Draws(path.read_text(), devices().values(), "x.toml")
    stream = {"name": "s", "pattern": "sequential", "record": 1 << 20, "depth": 4}
    for seed in range(6):
        one = Simulation(device=str(path), scheduler="none", device_set=draws.at(seed),
                         processes=stream, seconds=4.0)  # fmt: skip
        rate = one.run()["total"]["iops"] * (1 << 20)
        assert rate == pytest.approx(1000 * disk.SECTOR * 120, rel=0.06)


def test_a_place_that_a_busy_host_read_slowly_is_no_zone():
    rates = [(share, 6e7 if share < 0.5 else 4e7) for share in np.linspace(0, 1, 20)]
    probes = dataclasses.replace(disk_probes(lambda way: 2 + 12 * way), rates=rates)
    tracks = disk.Tracks(1000, 1, 1.0, 1.0, 1.0)
    clean = disk.find_zones(probes, 60e3 / 7200, tracks)
    rates[4], rates[15] = (rates[4][0], 2e7), (rates[15][0], 3e7)
    assert disk.find_zones(probes, 60e3 / 7200, tracks) == clean
    assert len(clean) == 2


def test_a_read_of_more_than_the_cache_keeps_is_no_hit(monkeypatch):
    class Device:
        is_small = True

        def places(self, count):
            return [0] * count

        def timed(self, places, size=4096):
            return None

        def latencies_ns(self, places, size):
            return [(0.1 + size / 2e5 + (9 if size > 1e5 and self.is_small else 0)) * 1e6]

    monkeypatch.setattr(disk, "PAUSE_S", 0.0)
    assert [*disk._hits(Device())[0]] == [4096, 32 << 10]
    Device.is_small = False
    assert [*disk._hits(Device())[0]] == [4096, 32 << 10, 128 << 10]


@pytest.mark.parametrize(("true", "step", "found"), [(128, 4, 128), (12, 1, 12), (1, 1, 1),
                                                     (1022, 4, 1016), (300, 1, 254)])  # fmt: skip
def test_what_a_busy_host_denies_once_is_asked_again(true, step, found):
    denied = set()

    def holds(count):
        is_first = not denied and count > step
        denied.add(count)
        return count <= true and not is_first

    assert disk._highest(holds, step, 200 if true == 300 else 8192, step) == found


def test_late_completions_hardly_change_the_pace_of_a_stream_and_jumps_of_rates_are_an_error():
    late = np.where(np.arange(16) % 5 == 2, 6.0, 0.0)
    assert disk.pace_ns(10.0 * np.arange(16) + late) == pytest.approx(10, rel=0.02)
    zones = [(share, 2.0 - (share > 0.5)) for share in np.linspace(0, 1, 20)]
    assert disk.unevenness(zones) == 0
    zones[5] = (zones[5][0], 1.0)
    assert disk.unevenness(zones) == pytest.approx(math.log(2) / 18)


@pytest.mark.parametrize("times_ns", [(1.4, 2.6, 9.5), (7, 9, 8), (5e5, 9e6, 9.2e6), (3, 3, 3)])
def test_seek_times_of_one_curve_ascend_and_are_whole(times_ns):
    single, average, full = of_one_curve(times_ns)
    assert -(-(2 * single + full) // 3) <= average <= (7 * single + 8 * full) // 15
    assert {type(single), type(average), type(full)} == {int}


def test_a_fitted_file_is_read_like_any_other(tmp_path):
    path = tmp_path / "flash.toml"
    path.write_text(flash.fit_flash(flash_probes()).text({"device": "/dev/x"}))
    fit = tomllib.loads(path.read_text())["fit"]
    assert fit["error"]["buffer.size"] == UNKNOWN
    run = Simulation(device=str(path), scheduler="none", seconds=0.2).run()
    # 32 reads at a time of 16 dies: between one die's rate and that of all channels.
    assert 1e4 < run["total"]["iops"] < 4 / 30e-6


@pytest.mark.parametrize("size", [64 << 20, 256 << 20, 1 << 30])
def test_a_small_device_is_read_like_any_other(tmp_path, size):
    path = tmp_path / "flash.toml"
    fitted = flash.fit_flash(flash_probes(size_bytes=size))
    path.write_text(fitted.text({}))
    draws = Draws(path.read_text(), devices().values(), str(path))
    for seed in range(4):
        drawn = Simulation(device=str(path), scheduler="none", device_set=draws.at(seed))
        assert drawn.facts()["size_bytes"] >= size


@pytest.mark.parametrize("kind", ["disk", "sata", "nvme", "card"])
def test_a_data_sheet_makes_a_device_with_its_rates(tmp_path, kind):
    first = {"disk": 80, "card": 900}.get(kind, 8000)
    many = {"disk": 180, "card": 900}.get(kind, 60000)
    text = f"interface={kind},iops-1={first},iops-32={many},read=200MB/s,write=90MB"
    made = fit_datasheet(text, tmp_path / "device.toml")
    assert "data sheet" in made.fitted.notes[0]
    reader = {"name": "reader", "record": "4k"}
    run = Simulation(device=str(made.path), scheduler="none", processes=reader, seconds=3.0).run()
    assert run["total"]["iops"] == pytest.approx(first, rel=0.25)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("interface=nvme", "iops-1, iops-32"), ("speed=3", "speed"),
        ("interface=tape,iops-1=1,iops-32=1,read=1,write=1", "tape"),
        ("interface=sata,iops-1=0,iops-32=1,read=1,write=1", "is not a size"),
    ],
)  # fmt: skip
def test_a_data_sheet_with_a_wrong_or_missing_key_is_refused(tmp_path, text, word):
    with pytest.raises(SpecError, match=word):
        fit_datasheet(text, tmp_path / "device.toml")


def test_every_key_is_printed_with_its_error():
    fitted = Fitted(1 << 30)
    fitted.put("flash.page_read", "60200ns", 0.012)
    fitted.put("flash.channels", 4, 0.0)
    fitted.put("buffer.size", "8MiB", UNKNOWN)
    text = "\n".join(lines(fitted))
    assert "60.2 us" in text
    assert "± 1.2%" in text
    assert "counted" in text
    assert "unknown" in text


def test_the_twin_of_sequential_reads_begins_where_the_device_did():
    """Half of the way in, a disk reads more slowly."""
    size = int(Simulation(device="disk7200", scheduler="none").facts()["size_bytes"])
    rates = [
        twin_of(Path("disk7200"), 4, held_out("x", 131072, 1, size, first)).run()["total"]["iops"]
        for first in (0, size // 2 // 4096 * 4096)
    ]
    assert rates[1] < 0.97 * rates[0]


def test_requests_of_one_process_get_their_tags_in_order():
    """Twice as many requests as tags: the kernel's p99 was 2.3 times the mean, not 13 times."""
    process = {"name": "x", "record": "16384", "depth": 8, "pattern": "random"}
    total = twin_of(Path("disk7200"), 4, process).run()["total"]
    assert total["latency_ns_p99"] < 4 * total["latency_ns_mean"]
