"""Of several groups, cleanups, workloads, metrics, claims, lines or disks each counts: rooms that
run commands and look at what a session has."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.errors import HostError
from schedlab.host import devices, journal, knobs, queues
from schedlab.run import phases
from schedlab.run.command_runs import CommandRuns
from schedlab.run.launch import Ended, WorkGroup
from schedlab.spec.output_metrics import parse_output_metric


def test_what_is_started_joins_every_group():
    group = WorkGroup(None, "command")
    for name in ("a", "b"):
        group.join(Path(f"/sys/fs/cgroup/{name}/work"))
    assert group.files == tuple(f"/sys/fs/cgroup/{name}/work/cgroup.procs" for name in ("a", "b"))


def test_every_cleanup_is_run_and_each_that_fails_is_told(monkeypatch):
    def run_phase(label, kind, name, tokens, standing):
        raise HostError(f"{label}: {name} failed")

    monkeypatch.setattr(phases, "run_phase", run_phase)
    cleaned = []
    control = SimpleNamespace(cleaned=cleaned.append)
    kind, group = SimpleNamespace(phases=lambda: ["cleanup"]), SimpleNamespace(end=lambda: [])
    commands = [(label, kind, {}) for label in ("a", "b")]
    with pytest.raises(HostError, match="a: cleanup failed\nb: cleanup failed"):
        phases.clean_up(control, commands, group, group)
    assert cleaned == ["a", "b"]


def test_each_workload_is_read_by_its_metrics_and_each_metric_has_a_unit_of_its_own(tmp_path):
    runs = CommandRuns.__new__(CommandRuns)
    runs._readers = {}
    ended = Ended(1.0, 0, None, False, False, b"rate 5 MB\ncount 7 calls\n", b"")
    for label, names in (("one", ["rate"]), ("both", ["count", "rate"])):
        metrics = [parse_output_metric(f"{name}:1/s=stdout~{name} ([0-9]+)") for name in names]
        kind = SimpleNamespace(output_metrics=lambda of=metrics: of, output_limit_bytes=1 << 20)
        values, _, findings = runs._values(label, kind, ended, tmp_path, 0.0)
        assert (sorted(values), findings) == (names, [])


def test_every_device_and_knob_that_a_session_claims_is_its_own():
    claims = [["/dev/sda", "/dev/sdb"], ["/proc/sys/vm/dirty_bytes"]]
    entries = tuple({"kind": "claim", "resources": each} for each in claims)
    assert journal.Content(entries, False, ()).claims == {*claims[0], *claims[1]}


def test_a_limit_is_the_line_of_its_device(tmp_path):
    (tmp_path / "io.max").write_text("8:0 rbps=1 wbps=max\n8:16 rbps=2 wbps=max\n")
    read = [knobs.read_value(tmp_path / f"io.max@{number}") for number in ("8:0", "8:16", "8:32")]
    assert read == ["rbps=1 wbps=max", "rbps=2 wbps=max", knobs._WITHOUT_LINE["io.max"]]


def test_all_disks_of_a_file_system_are_below_it(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "CLASS_BLOCK", tmp_path)
    monkeypatch.setattr(devices, "btrfs_members", lambda name: ("sda", "sdb"))
    for name in ("sda", "sdb"):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue/scheduler").write_text("[none]\n")
    mount = SimpleNamespace(kind="btrfs", number="0:999", source="none")
    assert queues.queues_of(mount) == {"sda", "sdb"}
