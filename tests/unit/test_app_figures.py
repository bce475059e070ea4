"""Figures and sentences of commands on known input: loads, switches, traces, workers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from answers import DELTA, behind
from captures import whole
from msgspec import structs

from schedlab import _core
from schedlab.app import documents
from schedlab.app.compare.comparison import Place, target_of
from schedlab.app.compare.contradict import contradictions
from schedlab.app.measure import count
from schedlab.app.measure.switch_cost import (
    WORKING_SETS,
    Costs,
    beside_measured,
    costs_of,
    interval,
    loss,
)
from schedlab.app.trace import block_io as trace_io
from schedlab.app.trace import command as trace_command
from schedlab.errors import HostError, SpecError
from schedlab.host.settings import knobs
from schedlab.nouns import Candidate
from schedlab.nouns.load_result import Ending, TaskResult
from schedlab.result import Result
from schedlab.run.io import durability
from schedlab.store.bursts import from_csv
from schedlab_sim.emulated_devices import emulation_of, kept_lines, model_lines


def test_an_interval_is_students():
    # Standard deviation 1.632993, t of 3 degrees of freedom 3.18245, over the root of 4.
    mean, half = interval([3.0, 7.0, 3.0 + 4.0 / 2, 5.0])
    assert mean == 5.0 and half == pytest.approx(2.598465, rel=1e-4)


def test_the_loss_of_a_quantum():
    assert loss(250_000.0, 1.0) == 0.2
    assert loss(1e6, 4.0) == 0.2
    assert loss(0.0, 4.0) == 0.0


def test_what_is_predicted_beside_what_was_measured():
    candidates = tuple(Candidate(f"{ms:g} ms", {"effective_ms": ms}) for ms in (0.5, 1.0, 4.0))
    experiment = SimpleNamespace(candidates=candidates, baseline="1 ms")
    values = {"1 ms": 8.0, "4 ms": 10.0, "9 ms": 10.0, "0.5 ms": 6.0}
    rows = [SimpleNamespace(name=name, role=role) for name, role in
            (("w", "primary"), ("v", "part"), ("p99", "secondary"), ("mix", "mix"))]  # fmt: skip
    cells = {label: SimpleNamespace(value=value) for label, value in values.items()}
    without = {"1 ms": SimpleNamespace(value=8.0), "4 ms": SimpleNamespace(value=None)}
    answer = SimpleNamespace(rows=rows, cells={"w": cells, "v": without})
    known = SimpleNamespace(record=SimpleNamespace(experiment=experiment), answer=answer)
    # A switch of 1 ms leaves 1/2 of a quantum of 1 ms and 4/5 of one of 4 ms; 0.5 ms: 2/3 and 8/9;
    # 1.5 ms: 2/5 and 8/11. Of 0.5 ms they leave 1/3, 1/2 and 1/4.
    assert beside_measured(known, 1e6, 0.5e6) == [
        {
            "candidate": "4 ms", "baseline": "1 ms", "predicted": pytest.approx(0.6),
            "predicted_low": pytest.approx(1 / 3), "predicted_high": pytest.approx(9 / 11),
            "measured": 0.25,
        },
        {
            "candidate": "0.5 ms", "baseline": "1 ms", "predicted": pytest.approx(-1 / 3),
            "predicted_low": pytest.approx(-0.375), "predicted_high": pytest.approx(-0.25),
            "measured": -0.25,
        },
    ]  # fmt: skip


def costs(**changes):
    usual = {
        "cpu": 3, "batches": 7, "real_time": True,
        "direct": {"pipe": (2345.6, 78.9), "futex": (1500.0, 25.0)},
        "ladder": {0: (1000.0, 10.0), 120_000: (250_000.0, 50_000.0)},
        "losses": {1.0: 0.2, 4.0: 1 / 17}, "beside": (),
    }  # fmt: skip
    return Costs(**usual | changes)


def test_costs_in_words_and_as_plain_types(golden):
    """Of a switch of 250 ± 50 µs a quantum of 1 ms loses 0.2, and of 0.3 ms 0.3/1.3."""
    row = {"candidate": "4 ms", "baseline": "1 ms", "predicted": 0.0625, "predicted_low": -0.03125,
           "predicted_high": 0.25, "measured": 0.125}  # fmt: skip
    other = row | {"candidate": "9 ms", "measured": -0.5, "predicted_high": 0.75}
    every = (costs(), costs(real_time=False), costs(beside=(row, other)))
    texts = ["\n".join(each.lines()) for each in every]
    document = json.dumps(costs(beside=({"a": 1}, {"b": 2})).as_json(), indent=1)
    golden("commands/switch-cost.txt", "\n\n".join((*texts, document)))


class Pair:
    """Stands in for two tasks that take turns: a switch takes 250 µs, a touch 3 µs and 1 ns of each
    64 bytes; the first round, of 5 ms, and the exit of the first task are not part of it."""

    refused = ""
    asked: ClassVar[list[Any]] = []

    def __init__(self, text):
        job = json.loads(text)
        (self.group,) = job["groups"]
        self.asked.append((job["cpus"], self.group["scheduling"]["policy"]))
        if self.refused and self.group["scheduling"]["policy"] == "fifo":
            raise PermissionError(1, "not permitted", self.refused)

    start = kill = lambda self: None

    def wait(self, timeout_s):
        return timeout_s < 0.1

    def finish(self):
        role = self.group["role"]
        touched_ns = role.get("touches", 0) * (3_000 + role.get("bytes", 0) // 64)
        last_ns = 5_000_000 + (role["rounds"] - 1) * 2 * (250_000 + touched_ns)
        rows = [{"completed": role["rounds"] < 10**6, "began_ns": 5_000_000, "elapsed_ns": end}
                for end in (last_ns, last_ns + 100_000)]  # fmt: skip
        return json.dumps({"window_ns": 0, "groups": [{"name": "pair", "tasks": rows}]})


def test_costs_are_measured_with_priority_where_it_is_allowed(monkeypatch):
    monkeypatch.setattr(_core, "CpuCrew", Pair)
    found = costs_of(2, 9, 500, [1.0, 4.0], None)
    assert (found.cpu, found.batches, found.real_time, found.beside) == (2, 9, True, ())
    # Half of the 500 switches are those of one task.
    assert found.direct == {name: (pytest.approx(250_000), 0) for name in ("pipe", "futex")}
    assert list(found.ladder) == list(WORKING_SETS)
    assert all(mean == pytest.approx(250_000) for mean, _ in found.ladder.values())
    assert found.losses == {1.0: pytest.approx(0.2), 4.0: pytest.approx(1 / 17)}
    assert set(map(str, Pair.asked)) == {"([2], 'fifo')"}
    monkeypatch.setattr(Pair, "refused", "policy")
    assert costs_of(2, 9, 500, [1.0], None).real_time is False
    assert Pair.asked[-1] == ([2], "other")
    with pytest.raises(HostError, match="did not end"):
        costs_of(2, 9, 2 * 10**6, [1.0], None)
    monkeypatch.setattr(Pair, "refused", "affinity")
    with pytest.raises(HostError, match="pinning to CPU 2"):
        costs_of(2, 9, 500, [1.0], None)


def test_costs_beside_a_folder_that_is_no_sweep_are_not_measured(monkeypatch):
    candidates = (
        Candidate("1 ms", {"effective_ms": 1.0}),
        Candidate("none", {"scheduler": "none"}),
    )
    record = SimpleNamespace(experiment=SimpleNamespace(candidates=candidates))
    monkeypatch.setattr(Result, "load", lambda folder: SimpleNamespace(record=record))
    monkeypatch.setattr(_core, "CpuCrew", lambda job: pytest.fail("it was measured"))
    with pytest.raises(SpecError, match="x: is no result of `schedlab cpu sweep`") as raised:
        costs_of(2, 9, 500, [1.0], Path("x"))
    assert raised.value.hint == "schedlab cpu sweep --out DIR"


def waits(tag, plug, scheduler, device):
    parts = {"tag": tag, "plug": plug, "scheduler": scheduler, "device": device}
    return {name: {"sum_ns": value} for name, value in parts.items()}


def watched():
    """What a capture of 2.5 s saw of two processes."""
    return {
        "device": "/dev/sdb", "scheduler": "bfq", "elapsed_ns": 2_500_000_000,
        "depth": {"driver": {"mean": 3.25, "series": [[0, 1.0], [1, 7.0]]},
                  "scheduler": {"mean": 12.75, "series": []}},
        "classes": [{"name": "be 4", "process": 17, "processes": 1},
                    {"name": "idle", "process": None, "processes": 0},
                    {"name": "a long name of a process", "process": 18, "processes": 1}],
        "groups": [
            {"class": 0, "operation": "read", "requests": 900, "bytes": 3_000_000,
             **waits(0, 1_000_000, 4_000_000, 90_000_000)},
            {"class": 0, "operation": "read", "requests": 100, "bytes": 1_500_000,
             **waits(2_000_000, 0, 6_000_000, 10_000_000)},
            {"class": 0, "operation": "write", "requests": 0, "bytes": 0, **waits(0, 0, 0, 0)},
            {"class": 1, "operation": "write", "requests": 1200, "bytes": 9_600_000,
             **waits(0, 0, 0, 1_200_000)},
            {"class": 2, "operation": "other", "requests": 1, "bytes": 0, **waits(0, 0, 0, 1500)},
        ],
        "lost": {"ring": 1000, "table": 500, "untraced": 0},
        "accounting": {"captured_sectors": 27539, "device_sectors": [27539, 27600],
                       "gap_sectors": 0},
    }  # fmt: skip


def test_where_requests_waited(golden):
    counted = {"captured_sectors": 20, "device_sectors": [30, 40], "gap_sectors": 10}
    variants = [{}, {"lost": {"ring": 0, "untraced": 7}}, {"lost": {"ring": 1, "untraced": 0}},
                {"accounting": counted}]  # fmt: skip
    tables = ["\n".join(trace_io.lines({**watched(), **changes})) for changes in variants]
    groups = [{"operation": name, "requests": n} for name, n in (("read", 400), ("write", 1100))]
    before = {"elapsed_ns": 500_000_000, "groups": groups}
    at_once = {**watched(), "elapsed_ns": 0}  # a millisecond is the least
    seconds = [
        trace_io.second_line(now, last)
        for now, last in ((watched(), None), (watched(), before), (at_once, None))
    ]
    golden("commands/trace-io.txt", "\n\n".join((*tables, *seconds)))


class Capture:
    """Stands in for a capture of a device, over which half a second passes at each look."""

    def __init__(self, options):
        self.options, self.now_s = json.loads(options), 70.0
        trace_io.time = self

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        assert seconds == 0.05
        time.sleep(0.001)
        self.now_s += 0.4
        assert self.now_s < 4000, "it never ends"

    def snapshot(self):
        now = {"elapsed_ns": round((self.now_s - 70) * 1e9), "device": self.options["device"]}
        return json.dumps(whole(watched() | now))

    finish = snapshot


@pytest.fixture
def capture(monkeypatch):
    monkeypatch.setattr(trace_io, "time", None)
    monkeypatch.setattr(_core, "BlockCapture", Capture)
    monkeypatch.setattr(durability, "places_of", lambda queues: durability.Places())
    monkeypatch.setattr(durability, "watch", lambda places: (None, "not asked"))
    monkeypatch.setattr(knobs, "device_name", lambda device: f"etherd!{device}")


@pytest.mark.usefixtures("capture")
def test_a_device_is_watched_for_its_time():
    shown = []
    result = trace_io.watch_device("sdb", 3.3, (), shown.append)
    assert result["device"] == "/dev/etherd/sdb" and result["exit_status"] is None
    assert result["elapsed_ns"] == 3_600_000_000
    assert [line[:7] for line in shown] == ["  1.2 s", "  2.0 s", "  3.2 s"]
    assert "833 reads/s" in shown[0]
    assert "  0 reads/s" in shown[1]
    began = time.monotonic()
    ended = trace_io.watch_device("sdb", 0.5, ("sleep", "60"), shown.append)
    assert ended["exit_status"] == -15 and time.monotonic() - began < 30
    assert len(shown) == 3


@pytest.mark.usefixtures("capture")
def test_a_device_is_watched_until_a_command_ends():
    shown = []
    ended = trace_io.watch_device("sdb", None, ("false",), shown.append)
    assert ended["exit_status"] == 1
    with pytest.raises(SpecError, match="no-such-program: No such file") as raised:
        trace_io.watch_device("sdb", None, ("no-such-program",), shown.append)
    assert raised.value.hint == "name a program in PATH, or its path"


def test_a_capture_that_the_kernel_refuses(monkeypatch):
    def refuse(options):
        raise OSError("no BTF")

    monkeypatch.setattr(_core, "BlockCapture", refuse)
    monkeypatch.setattr(knobs, "device_name", lambda device: device)
    with pytest.raises(HostError, match="no BTF") as raised:
        trace_io.watch_device("sdb", 1.0, ())
    assert raised.value.hint.startswith("run it as root on a kernel with BTF")


def bursts_of(**changes):
    tasks = [
        {"task": 100 + n, "bursts": n, "preempted": 2 * n, "total_ns": n * 2_500_000,
         "histogram": [[0, 1_000_000, 1], [0, n * 1_500_000, 1]] if n else []}
        for n in range(25)
    ]  # fmt: skip
    usual = {
        "method": "bpf", "records": [(9, 4, 101, True, None), (12, 3, 102, False, None)],
        "tasks": tasks, "lost": 5, "passed_over": ("no BTF",), "has_bursts": True,
        "untraced_starts": 0, "lost_tasks": 0,
    }  # fmt: skip
    return SimpleNamespace(**usual | changes)


def traced(**changes):
    check = SimpleNamespace(name="cpu", found=1.0, expected=2.0, deviation=0.5,
                            sentence=lambda: "the sums agree")  # fmt: skip
    account = msgspec.convert(
        dict.fromkeys(Ending.__struct_fields__, 0)
        | {"cpu_ns": 12_345_678, "voluntary_switches": 30, "involuntary_switches": 12}, Ending
    )  # fmt: skip
    bursts = bursts_of(**changes)
    return trace_command.Traced(bursts, (check,), account)


def test_a_ring_without_room_is_refused():
    with pytest.raises(SpecError, match="a ring of -4 bytes") as raised:
        trace_command.trace_command(["true"], None, -4)
    assert raised.value.hint == "choose at least 4096"


def test_bursts_of_a_command_in_words(golden):
    few, many = bursts_of().tasks[:2], bursts_of().tasks[:20]
    variants = [
        {}, {"tasks": few}, {"tasks": many}, {"has_bursts": False},
        {"tasks": few, "untraced_starts": 1, "lost_tasks": 1},
        {"tasks": few, "untraced_starts": 3, "method": "perf"},
        {"tasks": few, "untraced_starts": 3, "method": "abc"},
    ]  # fmt: skip
    texts = ("\n".join(trace_command.lines(traced(**changes))) for changes in variants)
    golden("commands/trace-cpu.txt", "\n\n".join(texts))


def test_bursts_as_plain_types_and_as_csv(tmp_path):
    document = trace_command.as_json(traced())
    assert document["checks"] == [{"name": "cpu", "found": 1.0, "expected": 2.0, "deviation": 0.5}]
    assert (document["schema"], document["method"], document["lost"]) == (1, "bpf", 5)
    account = {"cpu_ns": 12_345_678, "voluntary_switches": 30, "involuntary_switches": 12}
    assert document["account"] == {"exit_status": 0, **account}
    out = tmp_path / "bursts.csv"
    trace_command.write_bursts(out, bursts_of())
    assert out.read_text() == "end_ns,duration_ns,task,preempted\n9,4,101,1\n12,3,102,0\n"
    seen = [(9, 4, 101, True, (1, 3, 0, -5, 700_000))]
    trace_command.write_bursts(out, bursts_of(records=seen))
    heading, row = out.read_text().splitlines()
    assert heading == "end_ns,duration_ns,task,preempted,cpu,woken_ns,policy,nice,slice_ns"
    assert row == "9,4,101,1,1,3,0,-5,700000"
    assert from_csv(out, out.read_text()) == seen
    with pytest.raises(HostError, match="No such file or directory"):
        trace_command.write_bursts(tmp_path / "none" / "x.csv", bursts_of())
    with pytest.raises(SpecError, match="no-such-program: no such command"):
        trace_command.trace_command(["no-such-program"], None, 1)


def test_what_each_worker_counted():
    printed = []
    row = TaskResult(cpu_ns=2_600_000_000, calculation_cpu_ns=2_500_000_000, count=50,
                     voluntary_switches=3, involuntary_switches=17)  # fmt: skip
    count._account([row, structs.replace(row, calculation_cpu_ns=0)], printed.append)
    switches = "3 voluntary and 17 involuntary switches"
    assert printed == [
        f"process {n}: 2600.0 ms CPU, {rate} calculations per CPU second, {switches}"
        for n, rate in enumerate(("20.00", "0.00"))
    ]


@pytest.mark.parametrize(
    ("time", "compat", "duration_ns", "said"),
    [
        ("1500", "spec", 1_500_000_000, ["TIME 1500 is read as milliseconds (--compat spec)"]),
        ("1.5", "sample", 1_500_000_000, ["TIME 1.5 is read as seconds (--compat sample)"]),
        ("2s", "spec", 2_000_000_000, []),
        (" 3 ", "sample", 3_000_000_000, ["TIME  3  is read as seconds (--compat sample)"]),
    ],
)
def test_how_a_bare_time_is_read(time, compat, duration_ns, said):
    notes = []
    typed = {"time": time, "compat": compat, "cpus": (), "cpuset": "", "processes": 2,
             "policy": "rr", "priority": 5, "slice_ms": None,
             "calculation": "elementwise"}  # fmt: skip
    settings = count.settings_of(typed, notes.append)
    assert (settings.duration_ns, notes) == (duration_ns, said)
    assert settings.epoch_grid is (compat == "sample")
    assert (settings.cpus, settings.processes, settings.policy.priority) == ((), 2, 5)
    assert count.settings_of({**typed, "cpus": (0,)}, notes.append).cpus == (0,)


def test_emulated_devices_that_are_up(monkeypatch, tmp_path):
    from schedlab_sim import emulated_devices

    monkeypatch.setattr(emulated_devices, "time", SimpleNamespace(time=lambda: 1300.0))
    account = {"reads": 5, "writes": 7, "late_share": 0.0625, "depth_max": 32}
    line = lambda: "disk7200"  # noqa: E731
    up = SimpleNamespace(name="a", line=line, account=account, since_s=1000.0)
    dead = SimpleNamespace(name="b", line=line, account=None, since_s=1000.0)
    devices = [up, dead]
    assert kept_lines(devices) == [
        "a: disk7200",
        "  up for 5 min: 5 reads, 7 writes, 6.2% late, depth up to 32",
        "b: disk7200",
        "  its server has died: take it down",
    ]
    assert kept_lines([]) == ["no emulated device is up"]
    models = {line.split()[0]: line for line in model_lines()}
    assert models["disk7200"].startswith("disk7200     disk ")
    assert all("GiB  queue depth" in line for line in models.values())
    options = {"model": "disk7200", "size": None, "settings": (), "queue_depth": 3,
               "policy": "fcfs", "service": None, "dilate": 2.0, "data": "none"}  # fmt: skip
    made = emulation_of(options)
    assert (made.model, made.size_bytes, made.queue_depth) == ("disk7200", 8 << 30, 3)
    file = tmp_path / "model.toml"
    file.write_text("model = 'fixed'\nservice = '1ms'\nservers = 1\nsize = '64m'\n")
    monkeypatch.chdir(tmp_path)
    named = emulation_of({**options, "model": "model.toml", "size": 4096})
    assert (named.model, named.size_bytes) == (str(file), 4096)
    assert emulation_of({**options, "model": "model.toml"}).size_bytes == 64 << 20
    stored = [emulation_of({**options, "data": data}).data for data in ("memory", "disk.img")]
    assert stored == ["memory", str(tmp_path / "disk.img")]
    changed = emulation_of({**options, "model": "model.toml", "settings": ("size=32m",)})
    assert changed.size_bytes == 32 << 20
    assert target_of(Place(model=str(file))).size_bytes == 64 << 20


def test_documents_are_found_by_name():
    pages = documents.pages()
    assert {"statistics", "experiment", "host-safety"} <= set(pages)
    assert documents.title(pages["experiment"]) == "Experiment files"
    assert documents.text("experiment").startswith("# Experiment files\n")
    with pytest.raises(SpecError, match="there is no page 'statistic'") as raised:
        documents.text("statistic")
    assert "statistics" in raised.value.hint


def answer_with(**rows):
    return SimpleNamespace(counted=tuple(rows), cells=rows, margin=DELTA)


def test_what_a_repetition_contradicts():
    best, behind_it, near = behind(1.0, 1, 1, 1), behind(1.2, 1.2, 1.1, 1.3), behind(1.0, 1, 1, 1.1)
    first = answer_with(
        w={"a": best, "b": behind_it, "c": near}, v={"a": best, "b": behind_it}, u={"a": best}
    )
    again = answer_with(
        w={"a": behind_it, "b": best, "c": behind_it}, v={"a": behind_it, "b": best}
    )
    assert contradictions(first, again) == [
        f"{row}: {text}" for row in "wv" for text in (
            "a was the best, and is now behind", "b was behind, and is now the best")]  # fmt: skip
    assert contradictions(first, first) == []
    within = answer_with(w={"a": behind(1.1, 1.03, 1.01, 1.05)})
    assert contradictions(first, within) == []
