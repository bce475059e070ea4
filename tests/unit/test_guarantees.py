"""Open modes that guarantee different things about what was written are never compared."""

import random

import pytest
from experiments import run_of

from schedlab.analyse import check
from schedlab.design.plan import make_plan
from schedlab.kinds.calls import MODES, Calls
from schedlab.nouns import Candidate, Experiment, Record, Stopping, Target, Workload
from schedlab.report.screen import first_table
from schedlab.report.sentences import headline
from schedlab.report.steps import next_step
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.result import answer_of

MEAN_S = {"sync": 0.1, "dsync": 0.05, "direct": 0.01, "mmap": 0.001, "buffered": 0.002}


def record(*modes, direction="write"):
    experiment = Experiment(
        title="t", kind="io", target=Target("scratch", size_bytes=1 << 20), seed=1,
        candidates=tuple(
            Candidate(mode, {"scheduler": "as-is", "workload.mode": mode}) for mode in modes
        ),
        workloads=(Workload("w", "calls", "elapsed_s",
                            {"block_bytes": 4096, "calls": 9, "direction": direction}),),
        baseline=modes[0], stopping=Stopping(blocks=8),
    )  # fmt: skip
    plan, rng = make_plan(experiment), random.Random(1)
    runs = tuple(
        run_of(c, {"elapsed_s": MEAN_S[c.candidate.split(" ")[0]] * rng.lognormvariate(0, 0.02)})
        for c in plan.cells
    )
    return Record(experiment, plan, runs)


def view_of(*modes, language="en", **kinds):
    made = record(*modes, **kinds)
    return View(made, answer_of(made), Texts(language))


def test_a_mode_that_a_crash_loses_is_not_best():
    view = view_of("sync", "direct", "mmap")
    assert (view.answer.code, view.answer.take) == ("nothing", "")
    assert headline(view) == [
        "None of them is better than another: they guarantee different things about what was "
        "written.",
        "sync: on the device when a call returns.",
        "direct: handed to the device when a call returns; its cache may lose it when the power "
        "fails.",
        "mmap: in memory when a call returns; a crash may lose it.",
    ]
    (row,) = first_table(view).rows
    assert [cell.note for cell in row.cells[1:]] == ["", "", ""]
    assert all(cell.text for cell in row.cells[1:])  # the figures stay
    # Nothing failed that could be measured again.
    assert next_step(view).remark == (
        "Choose the mode by what it guarantees; the tables show what that costs."
    )


def test_inside_a_guarantee_there_is_an_answer():
    view = view_of("sync", "mmap", "dsync", "buffered")
    told = headline(view)
    assert view.answer.take == "dsync" and view.answer.code == "best"
    assert told[0].startswith("Among sync and dsync: Take dsync: w is ")
    assert "mmap and buffered: in memory when a call returns; a crash may lose it." in told
    assert "Among mmap and buffered: Take mmap: proven the best on w." in told
    assert not any("mmap" in line and "sync is" in line for line in told)
    assert check(view.answer) == []
    assert view.answer.cells["w"]["mmap"].best and view.answer.cells["w"]["dsync"].best


def test_reads_guarantee_nothing_and_are_compared():
    view = view_of("sync", "direct", "mmap", direction="read")
    assert view.answer.take == "mmap" and view.answer.guarantees == ()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_every_mode_that_synchronises_says_when(mode):
    options = MODES[mode]
    kind = Calls(block_bytes=4096, calls=1, mode=mode)
    expected = "call" if "sync" in options else "end" if options.get("fsync_at_end") else (
        "device" if options.get("direct") else "memory"
    )  # fmt: skip
    assert kind.guarantee() == expected


@pytest.mark.parametrize("language", ["en", "ko", "ru"])
def test_it_is_told_in_every_language(language):
    assert len(headline(view_of("sync", "direct", "mmap", language=language))) == 4
