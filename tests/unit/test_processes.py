"""Processes as data: the same file is simulated and measured."""

import itertools
from pathlib import Path

import pytest

from schedlab.design.io_families import FAMILIES, Load, family_named
from schedlab.errors import SpecError
from schedlab.kinds import typed
from schedlab.kinds.processes import Processes, engine_groups
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.store.process_files import (
    meet,
    presets,
    processes_of,
    tables_of,
    unique_names,
    waiters_of,
)

GIB = 1 << 30
TARGET = ResolvedTarget(
    Path("/x"), GIB, None, 4096, True, Path("/x"), GIB, groups={"heavy": "/sys/fs/cgroup/h"}
)
FILE = """
[[process]]
name = "reader"
arrivals = "poisson"
rate_per_s = 50
ioprio = "idle"
[[process]]
count = 2
pattern = "sequential"
read_share = 0
record = "64KiB"
depth = 8
start = "1500ms"
[[process]]
name = "heavy"
read_share = 0.7
weight = 200
[[process]]
name = "reader"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    return path


def test_each_process_has_all_keys_and_its_own_part_of_the_device(file):
    rows = processes_of(file, GIB, seed=3)
    assert [row["name"] for row in rows] == [
        "reader", "process-2-1", "process-2-2", "heavy", "reader",
    ]  # fmt: skip
    assert [row["table"] for row in rows][1:3] == ["process-2"] * 2
    assert waiters_of(rows) == 1 + 8 + 8 + 1 + 1
    ends = [(row["offset"], row["offset"] + row["span"]) for row in rows]
    assert ends == sorted(ends)
    assert all(end <= later for (_, end), (later, _) in itertools.pairwise(ends))
    assert len({row["workload"]["seed"] for row in rows}) == 5
    assert rows == processes_of(str(file), GIB, seed=3)
    assert processes_of(file)[0]["offset"] is None
    assert unique_names([{"name": name} for name in "abaa"]) == ["a", "b", "a#2", "a#3"]
    assert [each.get("count", 1) for each in tables_of(file)] == [1, 2, 1, 1]


def test_what_a_process_is_reaches_the_engine(file):
    reader, first, second, heavy, other = engine_groups(processes_of(file, GIB, 3), TARGET)
    assert reader["workload"]["arrivals"] == {"kind": "poisson", "rate_per_s": 50.0}
    assert reader["ioprio"] == {"class": "idle", "level": 0}
    assert (first["start_after_ms"], second["start_after_ms"]) == (1500, 1500)
    assert first["workload"]["direction"] == {"kind": "write"}
    assert first["workload"]["arrivals"] == {"kind": "closed", "depth": 8}
    assert first["offset"] + first["workload"]["span"] <= second["offset"]
    assert heavy["cgroup"] == "/sys/fs/cgroup/h"
    assert heavy["workload"]["direction"] == {"kind": "mixed", "read_percent": 70}
    assert (reader["name"], other["name"], other["offset"]) == ("reader", "reader#2", 858980352)


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ('think = "1ms"', "think of process-1 is only simulated"),
        ("read_share = 0\nbackground = true", "background of process-1 is only simulated"),
        ("direct = false\nfsync_every = 4", "fsync_every of process-1 is only simulated"),
        ("direct = false", "direct of process-1 is only simulated"),
        ("depth = 0", "depth"), ("speed = 3", "speed"), ("read_share = 0.123", "whole percentage"),
        ('span = "40TiB"', "4294967295 records"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_by_name(key, word, tmp_path):
    (tmp_path / "p.toml").write_text(f"[[process]]\n{key}\n")
    with pytest.raises(SpecError, match=word) as caught:
        tables = tables_of(tmp_path / "p.toml")
        Processes(processes=tables).check("p")
        processes_of({"process": tables}, 1 << 46)
    assert caught.value.hint


def test_a_file_and_a_shipped_load_are_words_of_workloads(file):
    (shipped,) = family_named("reader-writers")(Load(seconds=3.0), "throughput")
    assert (shipped.label, shipped.metric) == ("reader-writers", "throughput_bytes_per_s")
    assert "writer.latency_ns_p99" in shipped.secondary
    kind = typed(shipped)
    assert (kind.seconds, kind.writes(), kind.estimate_s()) == (3.0, True, 3.5)
    (own,) = family_named(str(file))(Load(), "latency")
    assert (own.label, own.metric) == ("mine", "reader.latency_ns_mean")
    assert [group.name for group in typed(own).groups()] == ["heavy"]
    assert not typed(family_named("readers3")(Load(), "latency")[0]).writes()
    with pytest.raises(SpecError, match="'reader-writer' are not known") as caught:
        family_named("reader-writer")
    assert "reader-writers" in caught.value.hint


def test_a_shipped_load_has_no_name_of_other_work():
    assert not presets().keys() & FAMILIES.keys()


def test_sequential_processes_of_one_region_meet():
    def two(offset, pattern="sequential"):
        shared = {"pattern": pattern, "span": "1MiB"}
        return processes_of({"process": [{**shared, "offset": 0}, {**shared, "offset": offset}]})

    assert meet(two("512KiB"))
    assert not meet(two("1MiB"))
    assert not meet(two("512KiB", "random"))


def test_one_that_writes_now_and_then_makes_them_writers():
    reads, mixed = {"name": "a"}, {"name": "b", "read_share": 0.5}
    assert [Processes(processes=of).writes() for of in ((reads,), (reads, mixed))] == [False, True]
