"""Of several devices, processes, guards, events, records or boots each counts: rooms that switch,
capture, watch, apply, and print what to apply."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import answers
import pytest
import reports
from captures import whole
from test_app_apply import RECORD, state  # noqa: F401
from test_live import rated

from schedlab.app.apply import applied, apply, machine
from schedlab.app.apply.apply import Request
from schedlab.host.settings import knobs, writers
from schedlab.nouns import Candidate, Target
from schedlab.report import steps
from schedlab.report.view import View
from schedlab.run import gates
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.run.live import live_pilot
from schedlab.run.live.guard_rails import Rails, parse_guard
from schedlab.run.live.live import Captured
from schedlab.run.live.live_figures import Look


def test_every_queue_gets_back_what_was_found_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    for name, depth in (("sda", "64"), ("sdb", "32")):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue/scheduler").write_text("[bfq] none\n")
        (tmp_path / name / "queue/nr_requests").write_text(depth)
    found = {}

    def set_scheduler(queue, scheduler, tunables, before):
        found[queue] = (scheduler, before.get("nr_requests"))
        return SimpleNamespace(scheduler=scheduler, tunables={})

    control = SimpleNamespace(set_scheduler=set_scheduler)
    both = [Candidate("as-is", {"scheduler": "as-is"}), Candidate("none", {"scheduler": "none"})]
    (tmp_path / "dm-0/queue").mkdir(parents=True)  # has no scheduler
    (tmp_path / "dm-0/queue/nr_requests").write_text("128")
    CandidateSettings(control, ("sda", "sdb", "dm-0"), both).apply(both[0])
    assert found == {"sda": ("bfq", "64"), "sdb": ("bfq", "32")}


def test_a_series_is_the_sum_of_all_devices_and_operations():
    rows = [[100, 1, 2, 0, 512, 10, 30], [200, 1, 0, 0, 512, 10, 20]]
    series = [{"class": 0, "rows": rows}, {"class": 1, "rows": rows[:1]}]
    document = json.dumps(whole({"classes": [], "groups": [], "series": series}))
    captures = [SimpleNamespace(snapshot=lambda: document)] * 2
    assert Captured(captures, None).series() == [(100, 12, 2048, 120), (200, 2, 1024, 40)]


def test_the_second_guard_is_looked_at_where_the_first_has_no_value():
    rails = Rails([parse_guard("cp.read p99 > 1ms"), parse_guard("read p99 > 1ms")])
    assert rails.see(rated(100, 9_000_000), "bfq").startswith("read p99 > 1ms: it is")


def test_the_usual_guards_are_those_of_the_baseline_for_every_candidate():
    seen = [live_pilot.Switched(name, 0.0, 0.0, 5.0, Look(), {"read": worst})
            for name, worst in (("none", 1e6), ("bfq", 9e6))]  # fmt: skip
    (guard,) = live_pilot._rails((), 5.0, seen).guards
    assert guard.text == "read p99 > 10.000ms for 5s"


def test_a_machine_is_quiet_five_times_in_a_row(monkeypatch):
    looks = iter(["", "", "", "", "busy", "", "", "", "", "", "busy"])
    monkeypatch.setattr(gates, "_unquiet", lambda names: next(looks))
    monkeypatch.setattr(gates, "SETTLE_STEP_S", 0.0)
    assert gates.settle(()) is None
    assert list(looks) == ["busy"]


def test_of_events_that_are_read_at_once_each_names_its_writer(tmp_path):
    seen, (out, events) = writers.Writers(), os.pipe2(os.O_NONBLOCK)
    seen.close()
    paths = [tmp_path / name for name in "abc"]
    for path, by in zip(paths, (1, 1, os.getpid()), strict=True):
        path.touch()
        opened = os.open(path, os.O_RDONLY)
        size = writers._EVENT.size
        os.write(events, writers._EVENT.pack(size, 3, 0, size, writers._MODIFY, opened, by))
    seen._descriptor = out
    assert seen._read()
    assert sorted(seen.take()) == sorted(map(str, paths[:2]))
    os.close(events)
    seen.close()


def test_a_rule_file_has_every_record_once_and_knows_the_directories_of_all(tmp_path, monkeypatch):
    file, control = tmp_path / apply.RULES, SimpleNamespace(keep_with=lambda *of: None)
    request = Request((), persist=True, root=tmp_path)
    both = [RECORD, replace(RECORD, device="sdy", identity="wwid:eui.2")]
    other = replace(RECORD, device="sda", identity="wwid:eui.0")
    applied.store(other)  # set, but kept by no file
    apply._keep_after_reboot(both, request, print, control)
    made = applied.find("sdx").made
    assert str(file.parent) in made == applied.find("sdy").made
    third = replace(RECORD, device="sdz", identity="wwid:eui.3")
    assert applied.with_file(third, file).made == made
    apply._keep_after_reboot([replace(each, setting="kyber") for each in both], request, print,
                             control)  # fmt: skip
    lines = file.read_text().splitlines()[1:]
    assert len(lines) == 2 and all('"kyber"' in line for line in lines)


@pytest.mark.parametrize("switch", [("sda",), ("sda", "sdb")])
def test_the_printed_apply_names_every_device_that_was_switched(switch):
    view = reports.view_of(answers.BEST)
    target = Target("directory", "/srv", 1 << 30, switch=switch)
    record = replace(view.record, experiment=replace(view.experiment, target=target))
    step = steps.next_step(View(record, view.answer, view.texts, view.folder))
    assert step.command == f"schedlab apply b {' '.join(switch)}"


def test_what_is_planned_names_every_device(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(knobs, "CLASS_BLOCK", tmp_path)
    for name in ("sda", "sdb"):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue/scheduler").write_text("[none] bfq\n")
    choice = apply.ToApply(Candidate("bfq", {"scheduler": "bfq"}))
    lines = apply.planned(("sda", "sdb"), choice, Request(("sda", "sdb"), root=tmp_path))
    assert lines == [f"{tmp_path}/{name}/queue/scheduler = bfq" for name in ("sda", "sdb")]


def test_a_file_keeps_every_setting_of_the_machine(tmp_path):
    values = {"/proc/sys/kernel/a": "1", "/proc/sys/vm/b": "2", "/sys/c": "3", "/sys/d": "4"}
    texts = machine._file_texts(values, tmp_path)
    assert list(texts.values()) == [
        "kernel.a = 1\nvm.b = 2\n", "w /sys/c - - - - 3\nw /sys/d - - - - 4\n"
    ]  # fmt: skip
