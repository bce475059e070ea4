"""Of several knobs, failures, words, guards, workloads or guarantees each counts: rooms that look
at the host, run, and preview."""

from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import answers
import pytest
import reports

from schedlab.analyse.steady import common_ramp, steadiness
from schedlab.app.preview import Preview
from schedlab.errors import RestoreError, SpecError
from schedlab.host import doctor
from schedlab.host.safety import recover
from schedlab.host.safety.recover import Failure, KnobChange, Recovery
from schedlab.host.settings import setters
from schedlab.kinds import typed
from schedlab.nouns import Cell, Plan, Workload
from schedlab.nouns.answer import OfGuarantee
from schedlab.run.executor import Executor
from schedlab.run.live.live_pilot import usual_guards


def several():
    changes = [KnobChange(f"/sys/{name}", "1", "2") for name in "ab"]
    failures = [Failure(f"/sys/{name}", f"why {name}", f"echo {name}") for name in "cd"]
    return Recovery(changes, [replace(each, found="3") for each in changes], ["one", "two"],
                    failures, ["no e", "no f"], ["ran g", "ran h"],
                    ["note i", "note j"])  # fmt: skip


def test_a_recovery_tells_all_that_was_done_left_or_failed():
    lines = several().lines()
    assert lines == [
        "/sys/a: 1 -> 2 (restored)", "/sys/b: 1 -> 2 (restored)", "one (removed)", "two (removed)",
        "/sys/a: left at 3, which another program set (it was 2)",
        "/sys/b: left at 3, which another program set (it was 2)",
        "ran g", "ran h", "no e", "no f", "note i", "note j", "/sys/c: why c", "/sys/d: why d",
    ]  # fmt: skip
    both = several()
    both.add(several())
    assert sorted(both.lines()) == sorted(lines * 2)
    with pytest.raises(RestoreError, match="/sys/c: why c; /sys/d: why d") as error:
        both.raise_if_failed()
    assert error.value.hint.splitlines()[1:] == ["  echo c", "  echo d"] * 2


def test_every_knob_that_differs_is_restored_or_left_to_its_owner(tmp_path):
    paths = [tmp_path / name for name in ("ours1", "ours2", "theirs1", "theirs2", "same")]
    for path in paths:
        path.write_text("2" if path.name == "same" else "1")
    known = SimpleNamespace(originals={str(path): "2" for path in paths},
                            is_ours=lambda path, value: "ours" in path)  # fmt: skip
    would = Recovery(dry_run=True)
    recover._restore_knobs(list(map(str, paths)), known, would)
    assert [each.path for each in would.restored] == [str(path) for path in paths[:2]]
    assert [each.path for each in would.foreign] == [str(path) for path in paths[2:4]]


def test_every_word_of_the_kernels_command_line_is_looked_at(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet ro elevator=bfq splash\n")
    (found,) = setters._boot_parameter(tmp_path)
    assert found.value == "bfq"


def test_a_machine_is_examined_on_every_topic(tmp_path, state, monkeypatch):
    found: list[str] = []

    def noted(facts):
        for fact in facts:
            found.append(fact.topic)
            yield fact

    # What others do beside it comes and goes: each is asked once.
    once = {topic: lambda of=of: noted(of()) for topic, of in doctor.FACTS.items()}
    monkeypatch.setattr(doctor, "FACTS", once)
    topics = [fact.topic for fact in doctor.examine(tmp_path)]
    assert len(found) > len(once) / 2 and not Counter(found) - Counter(topics)


def test_the_usual_guards_are_of_all_operations():
    switched = SimpleNamespace(worst_p99_ns={"read": 1e6, "write": 2e6, "fsync": 4e6})
    guards = usual_guards(switched)
    assert [guard.split(" p99 > ")[0] for guard in guards] == ["read", "write", "fsync"]
    limits = [float(guard.split(" > ")[1].partition("ms")[0]) for guard in guards]
    assert limits == pytest.approx([limits[0], 2 * limits[0], 4 * limits[0]])


def test_time_that_is_left_is_that_of_the_workloads_that_are_left():
    cells = Counter({"a": 1, "b": 2, "new": 1})
    asked = SimpleNamespace(took_s={"a": 4.0, "b": 24.0}, runs_of=Counter({"a": 2, "b": 2}))
    assert Executor._estimate_s(asked, cells) == 2 + 12 + 12 + 28 / 4
    fresh = SimpleNamespace(took_s={}, runs_of=Counter())
    assert Executor._estimate_s(fresh, cells) == 0


def test_candidates_alone_with_what_they_guarantee_are_compared_with_none():
    groups = (OfGuarantee("", ("none", "kyber"), None), OfGuarantee("x", ("bfq",), None),
              OfGuarantee("y", ("mq-deadline",), None))  # fmt: skip
    view = reports.view_of(replace(answers.TRADE, guarantees=groups))
    assert view.alone == {"bfq", "mq-deadline"}


def test_no_parameter_that_would_change_nothing_is_taken():
    for name, value in (("seconds", 3.0), ("processes", "readers3")):
        with pytest.raises(SpecError, match=name):
            typed(Workload("w", "host-queue", "iops", {"trace": "t.trace", name: value})).check("w")


def test_a_preview_has_every_line():
    works = (Workload("w1", "random-reads", "iops"),
             Workload("w2", "random-reads", "read_latency_ns_p99"))  # fmt: skip
    record = reports.record_of(answers.KEEP)
    experiment = replace(record.experiment, title="T", workloads=works, notes=("n1", "n2"))
    cells = tuple(Cell(block, at, work.label, name, 1)
                  for block in range(2)
                  for at, (work, name) in enumerate(product(works, "ab")))  # fmt: skip
    admitted = SimpleNamespace(
        experiment=experiment, writes=("f1", "f2"), programs=("p1", "p2"), notes=("n3", "n4"),
        knows_its_time=lambda: True, kinds={},
    )  # fmt: skip
    settings = (("a", (("x", "1"), ("y", "2"))), ("b", (("x", "3"), ("y", "4"))))
    lines = Preview(admitted, Plan(cells), settings, 60.0).lines()
    assert lines[1].startswith("8 runs in 2 blocks")
    expected = [
        *(f"  {work.label}: {experiment.metric(work).title}" for work in works),
        "  a",
        "    x = 1",
        "    y = 2",
        "  b",
        "    x = 3",
        "    y = 4",
        "  f1",
        "  f2",
        "  p1",
        "  p2",
        "note: n1",
        "note: n2",
        "note: n3",
        "note: n4",
        "    1. w1 under a",
        "    2. w1 under b",
        "    3. w2 under a",
        "    4. w2 under b",
    ]
    assert [line for line in expected if line not in lines] == []
    assert len([line for line in lines if " under " in line]) == 4


def test_the_ramp_of_a_pilot_is_the_longest_of_its_runs():
    flat = [100.0, 101.0] * 30
    slow = [10.0, 20.0, 40.0, 60.0, 80.0, *flat]
    rising = [float(each) for each in range(1, 61)]
    assert common_ramp([flat, slow, flat]) == (steadiness(slow).cut, True)
    assert steadiness(slow).cut > steadiness(flat).cut
    assert not common_ramp([flat, rising])[1] and not common_ramp([rising, flat])[1]
