"""What sentences and tables claim, from records that are analysed: no more than was measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import report_known as known
import report_verdicts as verdicts

from schedlab import report
from schedlab.app.difference import changes
from schedlab.report import cells, notes, screen
from schedlab.report.steps import next_steps
from schedlab.report.terminal import cells as columns
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.result import judge
from schedlab.spec import (
    Candidate,
    Experiment,
    Flag,
    Headline,
    Needed,
    Pair,
    Plan,
    Record,
    Run,
    Stopping,
    Target,
    Workload,
)

RATE, TAIL, WAIT = "throughput_bytes_per_s", "latency_ns_p99", "reader_latency_ns_mean"
WRITES, FAULTS = "write_bytes_per_s", "major_faults"
# (block, workload, candidate, metric) -> value, None where there is no run
Values = Callable[[int, str, str, str], float | None]


def scatter(*about: object) -> float:
    """A factor near 1 that differs from run to run, and is the same in every test."""
    seed = sum(ord(c) * (i + 1) for i, c in enumerate(repr(about)))
    return math.exp(0.01 * math.sin(seed))


def record(
    names: Sequence[str],
    works: Sequence[tuple[str, str, tuple[str, ...]]],
    values: Values,
    blocks: int = 8,
    kind: str = "io",
    settings: Sequence[dict[str, Any]] = (),
    session: Callable[[int], str] = lambda block: "s",
    **more: Any,
) -> Record:
    """Runs with these values; works are (label, metric, further metrics)."""
    runs: list[Run] = []
    for block in range(blocks):
        for label, *metrics, further in works:
            for name in names:
                found = {m: values(block, label, name, m) for m in (*metrics, *further)}
                shown = {m: value for m, value in found.items() if value is not None}
                if shown:
                    runs.append(Run(block, len(runs), label, name, 1, 1, "ok", "", 1.0, shown,
                                    session=session(block)))  # fmt: skip
    of_each = settings or [{"scheduler": name} for name in names]
    experiment = Experiment(
        "t", kind, Target("scratch" if kind == "io" else "none", size_bytes=1 << 30),  # type: ignore[arg-type]
        tuple(map(Candidate, names, of_each)),
        tuple(Workload(label, "random-reads", *metric, {}, further)
              for label, *metric, further in works),
        names[0], 1, Stopping("fixed", blocks), **more,
    )  # fmt: skip
    return Record(experiment, Plan(()), tuple(runs))


def ratios(table: dict[tuple[str, ...], float], level: float = 1e8) -> Values:
    """`level` for all but (workload, candidate) or (workload, candidate, metric) in the table."""
    return lambda b, w, c, m: (
        level * table.get((w, c, m), table.get((w, c), 1.0)) * scatter(b, w, c, m)
    )


def flat(text: str) -> str:
    return " ".join(text.split())


def screen_of(of: Record, **more: Any) -> str:
    return flat(report.text(of, judge(of), width=200, **more))


def headline(of: Record, goal: Any = None) -> str:
    return flat(report.headline(of, judge(of, goal)))


def view(of: Record, goal: Any = None) -> View:
    return View(of, judge(of, goal), Texts("en"))


def works(*labels: str, metric: str = RATE, further: tuple[str, ...] = ()) -> list[Any]:
    return [(label, metric, further) for label in labels]


BOTH = ("none", "bfq")


@pytest.mark.parametrize(
    ("sessions", "sentence"),
    [
        (4, "The clearest difference is on A. new is best: 30 % faster than old"),
        (1, "The clearest difference is on A. Here new is 30 % faster than old"),
    ],
)
def test_a_difference_of_one_workload_is_not_that_of_the_mix(sessions: int, sentence: str) -> None:
    def folder(prefix: str, table: dict[tuple[str, ...], float]) -> Record:
        return record(["none"], works("A", "B", "C"), ratios(table),
                      session=lambda block: f"{prefix}{block % sessions}")  # fmt: skip

    first, second = folder("a", {}), folder("b", {("A", "none"): 1.3, ("B", "none"): 0.9})
    (verdict,) = changes(first, second, ("old", "new")).values()
    lines = report.changes(first, verdict)
    assert lines[0].startswith(sentence) and "mix" not in lines[0]
    assert len(lines) == 4
    emulated = dataclasses.replace(first, host={"emulated": {}})
    assert report.changes(emulated, verdict)[0].startswith("Emulated device: The clearest")
    one = record(["none"], works("A"), ratios({}))
    (verdict,) = changes(one, one, ("old", "new")).values()
    assert "clearest" not in report.changes(one, verdict)[0]


def test_a_decided_difference_goes_before_a_larger_one_that_is_not() -> None:
    def folder(prefix: str, table: dict[tuple[str, ...], float], spread: float) -> Record:
        values = ratios(table)
        wild = lambda b, w, c, m: values(b, w, c, m) * spread ** (w == "A" and b % 4 - 1.5)  # noqa: E731
        return record(["none"], works("A", "B"), wild, session=lambda block: f"{prefix}{block % 4}")

    first, second = folder("a", {}, 1.0), folder("b", {("A", "none"): 2.0, ("B", "none"): 1.2}, 3.0)
    (verdict,) = changes(first, second, ("old", "new")).values()
    assert verdict.workloads["A"].pairs[0].verdict == "undecided"
    assert report.changes(first, verdict)[0].startswith("The clearest difference is on B. new is")


def test_the_figure_of_one_of_two_workloads_names_it() -> None:
    table = {("A", "bfq"): 1 / 46, ("B", "bfq"): 1 / 1.05, ("C", "bfq"): 1.4}
    text = headline(record(BOTH, works("A", "B", "C", metric=TAIL), ratios(table)))
    assert "is better than none on A and B (A: 46× shorter" in text
    assert "worse on C (40 % longer" in text


def test_the_price_names_its_workload_where_there_are_several() -> None:
    labels = [f"w{i}" for i in range(4)]
    table = {(label, "bfq", RATE): 1.2 for label in labels} | {("w2", "bfq", TAIL): 3.0}
    of = record(BOTH, works(*labels, further=(TAIL,)), ratios(table))
    assert "The price: on w2 3.0× longer p99 latency" in headline(of)
    alone = record(BOTH, works("w2", further=(TAIL,)), ratios(table))
    assert "The price: 3.0× longer p99 latency" in headline(alone)
    loss = verdicts.fact("none", "bfq", 2.0, metric=WRITES, workload="w1").values()
    price = {"kind": "actor", "actor": "writers", "more": 0, "fact": loss}
    verdict = judge(of)
    values = {**verdict.headline.values, "price": price}
    changed = dataclasses.replace(verdict, headline=Headline("winner-price", values))
    assert "The price: on w1 the writers are 2.0× slower." in report.headline(of, changed)


def test_what_the_baseline_loses_has_its_row() -> None:
    further = ("read_bytes_per_s", "cpu_s", "rss_bytes")
    table = {("A", "bfq", TAIL): 1.6, ("A", "none", "cpu_s"): 1.5, ("A", "none", further[0]): 0.8}
    text = screen_of(record(BOTH, works("A", metric=TAIL, further=further), ratios(table, 1e6)))
    assert "none is best" in text and "The price: 50 % more CPU time" in text
    assert "(+ 1 more in the table)" in text
    assert "CPU time" in text and "33 % less ▲" in text and "read throughput" in text
    assert "memory" not in text
    tied = {("A", "none", "cpu_s"): 1.5}
    text = screen_of(record(BOTH, works("A", further=("cpu_s",)), ratios(tied, 1e6)))
    assert "But on A none uses 50 % more CPU time" in text and "33 % less ▲" in text


def test_the_price_keeps_its_row_where_not_all_fit() -> None:
    labels = [f"w{i:02}" for i in range(9)]
    table = {(label, "bfq", RATE): 1.3 for label in labels}
    table |= {(label, "bfq", m): 1.5 for label in labels for m in (TAIL, "cpu_s")}
    table |= {("w07", "bfq", TAIL): 1.8}
    of = record(BOTH, works(*labels, further=(TAIL, "cpu_s")), ratios(table, 1e6))
    text = screen_of(of)
    assert "The price: on w07 80 % longer p99 latency" in text
    assert "(+ 17 more in the report)" in text
    rows = screen.screen(view(of)).rows
    assert [row.title for row in rows if row.indent] == ["p99 latency"]
    assert len(rows) == 10


def test_the_workload_of_the_price_is_on_the_screen() -> None:
    labels = [f"w{i:02}" for i in range(20)]
    table = {(label, "bfq", RATE): 1.3 for label in labels} | {("w19", "bfq", TAIL): 1.2}
    of = record(BOTH, works(*labels, further=(TAIL,)), ratios(table, 1e6))
    rows = screen.screen(view(of)).rows
    assert rows[-1].of.metric.name == TAIL and rows[-2].title == "w19"
    assert len(rows) == 16
    assert "… and 5 more workloads with smaller" in screen_of(of)


def test_a_goal_that_no_workload_reports_judges_nothing() -> None:
    table = {("A", "bfq", RATE): 1.3, ("B", "bfq", TAIL): 0.5}
    of = record(BOTH, works("A"), ratios(table))
    assert headline(of, "latency").startswith("bfq is best: ")
    both = record(BOTH, [("A", RATE, ()), ("B", RATE, (TAIL,))], ratios(table))
    judged = "Judged by latency. This is about B only. bfq is best: "
    assert headline(both, "latency").startswith(judged)
    control = dataclasses.replace(both.experiment.workloads[1], negative_control=True)
    works_ = (both.experiment.workloads[0], control)
    beside = dataclasses.replace(
        both, experiment=dataclasses.replace(both.experiment, workloads=works_)
    )
    assert headline(beside).startswith("This is about A only. bfq is best: 30 %")


def test_values_of_zero_are_values_without_a_ratio() -> None:
    def values(b: int, w: str, c: str, m: str) -> float:
        return 0.0 if c == "bfq" else 3.0

    of = record(BOTH, works("B", metric=FAULTS), values)
    text = screen_of(of)
    assert text.startswith("There is nothing to compare: values of 0 or less have no ratio (bfq).")
    assert "Measured: 1 workload on" in text and "B 3.00 0 " in text
    html = report.html(of, judge(of))
    assert "nan" not in html.lower().replace("finance", "")
    none = record(BOTH, works("B", metric=FAULTS), lambda b, w, c, m: 3.0 if c == "none" else None)
    assert headline(none) == "There is nothing to compare: only none has values."
    verdict = dataclasses.replace(
        judge(none), headline=Headline("nothing-to-compare", {"candidates": []})
    )
    assert report.headline(none, verdict).endswith("no run gave a value.")


def test_the_mean_of_values_with_zeros_counts_the_zeros() -> None:
    of = record(BOTH, works("A", metric=FAULTS),
                lambda b, w, c, m: 300.0 if c == "bfq" or b == 3 else 0.0)  # fmt: skip
    none, bfq = judge(of).workloads["A"].candidates
    assert (none.runs, none.mean, none.geometric_mean, none.low) == (8, 37.5, 37.5, None)
    assert (bfq.mean, bfq.ratio) == (300.0, None)
    assert "A 37.5 300" in screen_of(of)


def test_workloads_without_a_common_candidate_have_their_own_verdicts() -> None:
    apart = {("A", "none"), ("A", "bfq"), ("B", "none"), ("B", "kyber")}
    of = record(("none", "bfq", "kyber"), works("A", "B"),
                lambda b, w, c, m: 1e8 * scatter(b, w, c) if (w, c) in apart else None)  # fmt: skip
    text = screen_of(of)
    assert text.startswith("No workload has all candidates. The table shows each workload.")
    assert "same" in text


def test_one_workload_with_one_block_leaves_the_verdicts_of_the_others() -> None:
    def values(b: int, w: str, c: str, m: str) -> float | None:
        return None if w == "B" and b else 1e8 * (1.3 if c == "bfq" else 1) * scatter(b, w, c)

    text = screen_of(record(BOTH, works("A", "B"), values))
    assert text.startswith("Only one repetition has all workloads")
    assert "8 blocks" in text and "30 % faster ▲" in text
    assert screen_of(record(BOTH, works("A", "B"), values, 1)).startswith("One run each.")


@pytest.mark.parametrize(
    ("low", "high", "end", "shown"),
    [
        (0.83, None, "high", "up to 17 %"), (1.2, None, "high", "–"),
        (None, 0.5, "low", "at least 2.0×"), (None, 1.2, "low", "–"), (None, None, "low", "–"),
    ],
)  # fmt: skip
def test_an_open_interval_says_which_end_is_known(
    low: float | None, high: float | None, end: Any, shown: str
) -> None:
    """bfq has 6.7 % shorter latency; it starved, so that its true ratio may be higher."""
    of = known.view().verdict.workloads[known.READERS]
    pair = Pair("bfq", "none", 0.933, low, high, "undecided", open_end=end)
    (text,) = cells.pair_texts(known.view(), of, [pair])
    assert text.interval.replace("\u00a0", " ") == shown


def test_an_undecided_cell_has_no_mark() -> None:
    of = known.view().verdict.workloads[known.READERS]
    for verdict, mark in (("worse", "▼"), ("undecided", "")):
        row = dataclasses.replace(of.candidates[-1], starved=4, runs=4, verdict=verdict)
        cell = screen.candidate_cell(known.view(), of, "bfq", row)
        assert (cell.text, cell.mark) == ("did not finish", mark)


def test_notes_of_a_terminal_name_their_workloads() -> None:
    of = record(BOTH, works(*"ABCDE"), ratios({}))
    verdict = judge(of)

    def note(labels: str, text: str, only: str = "ABCDE") -> None:
        flags = tuple(Flag("starved", label, values={"counts": {"bfq": 8}, "runs": 8})
                      for label in labels)  # fmt: skip
        kept = {label: verdict.workloads[label] for label in only}
        changed = dataclasses.replace(verdict, flags=flags, workloads=kept)
        shown = flat(report.text(of, changed, width=200))
        assert f"unfinished runs: {text}runs in which" in shown
        assert shown.count("unfinished runs: ") == 1

    note("A", "A: ")
    note("AB", "A and B: ")
    note("ABCD", "4 workloads: ")
    note("A", "", only="A")


def test_a_table_fits_forty_columns() -> None:
    names = ("none", "mq-deadline", "bfq:slice_idle=0,low_latency=0,back_seek_max=32768")
    labels = ("newcomer beside writers", "start-up beside readers and writers")
    of = record(names, works(*labels, metric=WAIT), ratios({(labels[0], names[2]): 0.1}, 5e6))
    lines = report.text(of, judge(of), width=40).splitlines()
    assert max(columns(line) for line in lines if "schedlab apply" not in line) <= 40
    rows = [line.split() for line in lines if line.startswith("newcomer")]
    assert [row[-1] for row in rows[-2:]] == ["same", "▲"]
    lines = report.text(of, judge(of), width=40, lang="ru").splitlines()
    assert max(columns(line) for line in lines if "schedlab apply" not in line) <= 40
    rows = [line for line in lines if "в 10 раз" in line or "короче ▲" in line][-2:]
    assert rows[0].index("в 10 раз") == rows[1].index("короче ▲")


@pytest.mark.parametrize(
    ("lang", "one", "several", "left"),
    [
        ("en", "if A matters most", "if these 2 workloads matter most", "Take none."),
        ("ko", "A이(가) 가장 중요하다면", "이 작업 2개가 가장 중요하다면", "none을(를) 쓰십시오."),
        ("ru", "если важнее всего A", "если важнее всего эти нагрузки (2 нагрузки)",
         "Подойдёт none."),
    ],
)  # fmt: skip
def test_next_steps_agree_in_number(lang: str, one: str, several: str, left: str) -> None:
    def remark(code: Any, values: dict[str, Any]) -> str:
        of, verdict = verdicts.simple(Headline(code, values))
        return next_steps(View(of, verdict, Texts(lang)))[0].remark.replace("\u00a0", " ")

    assert remark("depends", {"name": "bfq", "won": ["A"]}) == one
    assert remark("depends", {"name": "bfq", "won": ["A", "B"]}) == several
    cost = {"fact": verdicts.fact("none", "bfq", 1.2).values(), "actor": "", "more": 0,
            "names": ["bfq"]}  # fmt: skip
    assert remark("tied", {"names": ["none", "bfq"], "cost": cost}) == left


@pytest.mark.parametrize(
    ("lang", "one", "several"),
    [
        ("en", "1 more session, then", "4 more sessions, then"),
        ("ko", "세션 1개 더", "세션 4개 더"),
        ("ru", "1 дополнительный сеанс", "4 дополнительных сеанса"),
    ],
)
def test_sessions_are_counted(lang: str, one: str, several: str) -> None:
    for count, text in ((1, one), (4, several)):
        needed = Needed(count, count, count, 60.0, 0.05)
        of, verdict = verdicts.simple(Headline("unsteady", {}), needed=needed)
        overall = dataclasses.replace(verdict.overall, unit="sessions")
        shown = View(of, dataclasses.replace(verdict, overall=overall), Texts(lang))
        assert next_steps(shown)[0].remark.replace("\u00a0", " ").startswith(text)


def test_notes_of_one_run_are_no_plurals() -> None:
    of = view(record(BOTH, works("A"), ratios({})))
    mean = {"published": 1.0, "mean": 2.0, "rows": 1, "difference": -0.5, "unit": "MB/s"}
    texts = [
        notes.flag_text(of, Flag(kind, "A", ("bfq",), values=values))
        for kind, values in (
            ("not-steady", {"runs": 1}), ("unsettled", {"runs": 1}), ("wrong-mean", mean),
            ("left-out", {"cells": 1, "of": 2}),
            ("rare-stalls", {"runs": 1, "of": 8, "factor": 9.0}),
            ("missing-cells", {"cells": 1, "filled": {"bfq": 1}}),
        )
    ]  # fmt: skip
    assert not [t for t in texts if "1 runs" in t or "1 rows" in t or "runs are" in t]


QUANTA = [{"policy": "other", "slice_ms": ms} for ms in (1, 10)]
TUNED = [{"scheduler": "bfq", "slice_idle": n} for n in (0, 1)]
MODES = [{"workload.mode": mode} for mode in ("o_sync", "mmap")]


@pytest.mark.parametrize(
    ("kind", "settings", "noun"),
    [
        ("io", (), "2 schedulers"), ("io", TUNED, "2 candidates"), ("io", MODES, "2 candidates"),
        ("cpu", QUANTA, "2 quanta"),
        ("cpu", [{"policy": "other"}, {"policy": "batch"}], "2 candidates"),
        ("import", (), "2 candidates"),
    ],
)  # fmt: skip
def test_candidates_are_called_what_differs_in_them(
    kind: str, settings: list[dict[str, Any]], noun: str
) -> None:
    of = view(record(BOTH, works("A"), ratios({}), kind=kind, settings=settings))
    assert f"1 workload × {noun} in" in notes.scope(of).replace("\u00a0", " ")


def test_an_import_claims_nothing_about_its_first_run() -> None:
    def lines(**more: Any) -> str:
        of = record(BOTH, works("A"), lambda b, w, c, m: 1e8 * (1.1 if c == "bfq" else 1), **more)
        return " ".join(notes.design(view(of))) + str(notes.grouped_flags(view(of)))

    imported, measured = lines(kind="import", blocked=False), lines()
    assert "count as equivalent." in imported and "first run" not in imported
    assert "fixed before the first run" in measured
    assert (
        "all runs of a candidate gave the same value" in imported and "block gave" not in imported
    )
    assert "every block gave the same ratios" in measured
