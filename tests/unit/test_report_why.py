"""Why a comparison came out so: from a block-layer capture to sentences, each with its figures."""

from dataclasses import replace

import answers
import msgspec
import pytest
import reports
from captures import whole

from schedlab.nouns import Explanation
from schedlab.nouns.capture import explanations
from schedlab.nouns.load_result import GroupResult
from schedlab.report.shares import share_lines
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.report.view import View
from schedlab.report.why import explained, lines

READER = answers.READER


def sentences(lang="en", scored=None, engine="psync", **by_candidate):
    """What is said; the scored runs had the means `scored` (s), or those of the extra runs."""
    usual_s = {name: each.total_s for name, each in by_candidate.items()} | (scored or {})
    of = answers.TRADE
    least = min(usual_s.values())
    cells = {
        name: answers.behind(usual_s[name] * 1e9, ratio, max(1, ratio * 0.9), ratio * 1.1)
        for name in of.candidates
        if (key := name.replace("-", "_")) in usual_s and (ratio := usual_s[key] / least)
    }
    if all(cell.low == 0 for cell in cells.values()):  # Somebody else is ahead of them.
        cells = {
            name: replace(cell, loss=cell.loss + 0.1, low=0.05) for name, cell in cells.items()
        }
    of = replace(of, cells={**of.cells, READER: cells})
    by_cell = {(READER, name.replace("_", "-")): (each,) for name, each in by_candidate.items()}
    record = reports.record_of(of)
    runs = tuple(replace(run, properties={"engine": engine}) for run in record.runs)
    changed = replace(record, runs=runs, explanations=by_cell)
    (why,) = explained(View(changed, of, Texts(lang)))
    return [line.replace("\u00a0", " ") for line in why.sentences]


def waiting(tag, scheduler, device, depth=2, **more):
    return Explanation("readers", tag * 1e-6, scheduler * 1e-6, device * 1e-6, depth, **more)


CASES = {
    "behind others": {"none": waiting(0, 0, 4000, 88), "kyber": waiting(0, 100, 3900, 88)},
    "the fast one is not": {"none": waiting(2500, 0, 3700, 110), "bfq": waiting(5, 20, 281, 110)},
    "nothing to wait for": {"none": waiting(0, 0, 100, 1), "bfq": waiting(0, 5, 95, 1)},
    "a full queue": {"none": waiting(3000, 0, 3000), "bfq": waiting(1000, 1000, 3000)},
    "a limit": {"none": waiting(3000, 0, 3000, has_limits=True), "bfq": waiting(1, 1, 5000)},
    "outside": {"none": waiting(0, 0, 600, outside_s=400e-6), "bfq": waiting(0, 0, 990)},
    "outside, io_uring": {"engine": "io_uring", "none": waiting(0, 0, 600, outside_s=400e-6)},
    "several requests": {
        "none": waiting(0, 0, 100, requests_per_operation=4.0),
        "bfq": waiting(0, 0, 100, requests_per_operation=3.5),
    },
    "held back": {
        "none": waiting(0, 0, 400), "kyber": waiting(0, 900, 400), "bfq": waiting(0, 500, 400),
    },
    "the fast one does not wait": {"none": waiting(400, 0, 400), "bfq": waiting(0, 60, 90)},
    "what fell": {"none": waiting(440, 0, 3825, 88), "bfq": waiting(1, 14, 165, 68)},
    "a raised weight": {
        "none": waiting(440, 0, 3825, 88),
        "bfq": waiting(1, 14, 165, 68, raised=30.0, raised_s=0.7, raised_bytes=61e6),
    },
    "nothing stands out": {"none": waiting(20, 20, 60), "bfq": waiting(20, 20, 61)},
    "alike": {"none": waiting(20, 20, 60), "bfq": waiting(20, 20, 3000)},
    "unlike": {"none": waiting(20, 20, 60), "bfq": waiting(20, 20, 3000), "scored": {"bfq": 90e-6}},
    "20 of 2000 lost": {
        "none": waiting(20, 20, 60, requests=990, lost=20),
        "bfq": waiting(20, 20, 61, requests=990),
    },
    "9 of 2000 lost": {
        "none": waiting(20, 20, 60, requests=990, lost=9),
        "bfq": waiting(20, 20, 61, requests=990),
    },
}  # fmt: skip


@pytest.mark.parametrize("lang", LANGUAGES)
def test_reasons(lang, golden):
    """Nothing is claimed of the fast ones, of a limit, nor where nothing stands out."""
    shown = ("\n".join([f"== {title}", *sentences(lang, **case)]) for title, case in CASES.items())
    golden(f"why.{lang}.txt", "\n\n".join(shown))


def part(count, sum_ns):
    return {"count": count, "sum_ns": sum_ns, "max_ns": sum_ns, "bins": []}


def group(number, requests, tag_ns, device_ns):
    zero = part(requests, 0)
    return {
        "class": number, "operation": "read", "size_max": 4096, "requests": requests,
        "bytes": 4096 * requests, "tag": part(requests, tag_ns), "plug": zero, "scheduler": zero,
        "device": part(requests, device_ns), "total": part(requests, tag_ns + device_ns),
    }  # fmt: skip


def test_a_capture_becomes_explanations():
    capture = {
        "device": "loop0", "scheduler": "bfq", "elapsed_ns": 2_000_000_000, "sees_limits": False,
        "classes": [{"name": "other"}, {"name": "readers"}, {"name": "writers"}],
        "groups": [group(0, 5, 1, 1), group(1, 10, 10_000, 1_000_000), group(1, 30, 0, 600_000)],
        "series": [{"class": 1, "rows": [[100, 9, 0, 0, 40_000_000, 0, 0, 0, 0, 0],
                                         [200, 9, 0, 0, 21_000_000, 0, 0, 0, 0, 0],
                                         [300, 1, 0, 0, 1_000, 0, 0, 0, 0, 0]]}],
        "depth": {"scheduler": {"mean": 2.0, "max": 9, "series": []},
                  "driver": {"mean": 60.0, "max": 88, "series": [[0, 50.0], [100, 70.0]]}},
        "totals": {},
        "bfq": [{"class": 1, "rows": [[100, 9, 30, 1, 100], [200, 9, 30, 1, 100],
                                      [300, 1, 1, 1, 100]]}],
        "lost": {"arrivals_unseen": 1, "events": 2, "classes": 0},
        "cost": None,
    }  # fmt: skip
    (reader,) = explanations(
        whole(capture)
    )  # the writers had no request, "other" belongs to no group
    assert reader.group == "readers" and reader.requests == 40
    assert reader.tag_s == pytest.approx(0.25e-6)
    assert reader.device_s == pytest.approx(40e-6)
    assert reader.total_s == pytest.approx(40.25e-6)
    assert (reader.device_depth, reader.depth_series, reader.bin_s) == (60.0, (50.0, 70.0), 0.1)
    assert (reader.raised, reader.raised_s, reader.raised_bytes) == (30.0, 0.2, 61_000_000)
    assert reader.lost == 3


def from_engine(capture, group, **more):
    return explanations(whole(capture), [msgspec.convert(group, GroupResult)], **more)


def test_the_engine_says_what_was_outside_the_block_layer():
    """10 reads of 150 µs in the ramp and the window, of which the block layer had 101 µs each."""
    capture = {
        "classes": [{"name": "other"}, {"name": "readers"}],
        "groups": [group(1, 10, 10_000, 1_000_000)],
        "series": [], "depth": {"scheduler": {"mean": 0, "series": []},
                                "driver": {"mean": 1, "series": []}},
        "lost": {},
    }  # fmt: skip
    rows = [[0, 4, 16384, 600_000], [100, 6, 24576, 900_000]]
    engine = {"name": "readers", "series": {"reads": rows, "writes": []}}
    (reader,) = from_engine(capture, engine)
    assert reader.outside_s == pytest.approx(49e-6)
    assert reader.total_s == pytest.approx(150e-6)
    assert reader.requests_per_operation == 1
    halved = engine | {"series": {"reads": [[0, 5, 40960, 500_000]], "writes": []}}
    (split,) = from_engine(capture, halved)
    assert (split.outside_s, split.requests_per_operation) == (0, 2)
    assert explanations(whole(capture))[0].outside_s == 0


def test_only_the_measured_window_is_explained():
    """200 ms of ramp in which everything took 9 ms, then 10 reads of 100 + 50 µs."""
    capture = {
        "classes": [{"name": "other"}, {"name": "readers"}],
        "groups": [group(1, 30, 10_000, 180_000_000)],
        "series": [{"class": 1, "rows": [
            [0, 20, 0, 0, 81920, 0, 0, 0, 180e6, 180e6],
            [200, 10, 0, 0, 40960, 200_000, 0, 0, 800_000, 1_000_000],
        ]}],
        "depth": {"scheduler": {"mean": 5, "series": [[0, 9], [200, 1]]},
                  "driver": {"mean": 50, "series": [[0, 98], [200, 2]]}},
        "lost": {},
    }  # fmt: skip
    reads = [[0, 20, 81920, 180_000_000], [200, 10, 40960, 1_500_000]]
    engine = {"name": "readers", "series": {"window_ms": [200.0, 300.0], "reads": reads}}
    (reader,) = from_engine(capture, engine)
    assert reader.requests == 10
    assert reader.tag_s == pytest.approx(20e-6)
    assert reader.device_s == pytest.approx(80e-6)
    assert reader.outside_s == pytest.approx(50e-6)
    assert (reader.device_depth, reader.scheduler_depth) == (2, 1)
    assert reader.depth_series == (98.0, 2.0)
    late = {**capture, "series": [{"class": 1, "rows": [
        [t_ms + 100, *row] for t_ms, *row in capture["series"][0]["rows"]
    ]}]}  # fmt: skip
    assert from_engine(late, engine, lead_s=0.1)[0].tag_s == reader.tag_s


def one_class(**changes):
    return {
        "classes": [{"name": "other"}, {"name": "readers"}], "groups": [group(1, 100, 0, 100)],
        "series": [], "lost": {},
        "depth": {"scheduler": {"mean": 5, "series": []}, "driver": {"mean": 50, "series": []}},
        **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bins", "requests"),
    [
        ([[0, 5, 0, 1], [100, 10, 0, 1]], 0),  # a ramp: only the window counts
        ([[1, 5, 0, 1], [100, 10, 0, 1]], 100),  # its bin ends in the window
        ([[0, 0, 0, 1], [100, 10, 0, 1]], 100),  # a newcomer: it did nothing before
    ],
)
def test_only_what_was_served_before_the_window_is_a_ramp(bins, requests):
    engine = {"name": "readers", "series": {"window_ms": [100.0, 200.0], "reads": bins}}
    assert from_engine(one_class(), engine)[0].requests == requests


@pytest.mark.parametrize(
    ("operations", "outside_s"), [(98, 1e-6), (103, 1e-6), (97, 0.0), (104, 0.0)]
)
def test_operations_are_single_requests_up_to_two_percent_and_one(operations, outside_s):
    bins = [[0, operations, 0, operations * 1001]]
    engine = {"name": "readers", "series": {"reads": bins}}
    (reader,) = from_engine(one_class(), engine)
    assert reader.outside_s == pytest.approx(outside_s)
    assert reader.requests_per_operation == pytest.approx(100 / operations)
    quick = {"name": "readers", "series": {"reads": [[0, 100, 0, 50]]}}
    assert from_engine(one_class(), quick)[0].outside_s == 0.0


@pytest.mark.parametrize(
    ("raising", "expected"),
    [
        ([1, 1, 1], (0, 0, 0)), ([3, 3, 3], (0, 0, 0)), ([1, 3, 1], (3, 0.1, 1010)),
        ([2, 1.5, 1], (2, 0.2, 1010)), ([1.5, 1, 9], (1.5, 0.1, 10)),
    ],
)  # fmt: skip
def test_a_weight_counts_as_raised_until_it_first_falls_back(raising, expected):
    """By class: 10, 1000 and 5 bytes were moved in its bins at 100, 200 and 300 ms."""
    rows = [[t_ms, 9, factor, 1, 1] for t_ms, factor in zip((100, 200, 300), raising, strict=True)]
    moved = [[100, 0, 0, 0, 10], [200, 0, 0, 0, 1000], [300, 0, 0, 0, 5]]
    other = {"class": 0, "rows": [[100, 9, 99, 1, 7]]}
    capture = one_class(
        bfq=[other, {"class": 1, "rows": rows}], series=[other, {"class": 1, "rows": moved}]
    )
    (reader,) = explanations(whole(capture))
    assert (reader.raised, reader.raised_s, reader.raised_bytes) == pytest.approx(expected)


def test_weights_without_effect_are_reported():
    record = reports.record_of(answers.TRADE)
    runs = tuple(
        replace(run, properties={"share_asked": 8 / 9, "share_reached": reached})
        for run in record.runs
        if run.workload == READER
        for reached in [0.51 if run.candidate == "none" else 0.86]
    )
    view = View(replace(record, runs=runs), answers.TRADE, Texts("en"))
    text = " ".join(share_lines(view, READER)).replace("\u00a0", " ")
    assert (
        "With none the weights had no effect: the favoured group got 51 % of the throughput; "
        "it requested 89 %."
    ) in text
    assert "With bfq the favoured group got 86 % of the throughput" in text
    assert not list(share_lines(View(record, answers.TRADE, Texts("en")), READER))


def test_reasons_of_several_workloads_have_their_names():
    each = (waiting(20, 20, 60),)
    record = replace(
        reports.record_of(answers.TRADE),
        explanations={(work, "bfq"): each for work in (READER, answers.SEQ)},
    )
    said = lines(View(record, answers.TRADE, Texts("en")))
    assert [*dict.fromkeys(line.partition(":")[0] for line in said)] == [READER, answers.SEQ]


def test_the_opposite_of_the_table_is_not_explained_nor_what_is_not_proven():
    """The extra run of one candidate came out the other way round, of a throughput as well."""
    fast, slow = (waiting(20, 20, 60),), (waiting(3000, 0, 3000),)
    record = reports.record_of(answers.TRADE)

    def said(work, none, bfq, of=answers.TRADE):
        known = {(work, "none"): none, (work, "bfq"): bfq}
        return lines(View(replace(record, explanations=known), of, Texts("en")))

    assert any("full" in line for line in said(answers.SEQ, fast, slow))
    assert said(answers.SEQ, slow, fast) == ["These runs do not show why."]
    cells = {
        name: replace(cell, low=0.0) for name, cell in answers.TRADE.cells[answers.SEQ].items()
    }
    unproven = replace(answers.TRADE, cells={**answers.TRADE.cells, answers.SEQ: cells})
    assert said(answers.SEQ, fast, slow, unproven) == []


def test_every_workload_on_which_somebody_is_behind_has_its_reasons():
    of, rows = answers.TRADE, (answers.NEWCOMER, READER)
    behind = {name: answers.behind(4e6, 1.1, 1.05, 1.2) for name in ("none", "kyber")}
    of = replace(of, cells={**of.cells, **dict.fromkeys(rows, behind)})
    waits = {(row, name): (each,) for row in rows for name, each in CASES["behind others"].items()}
    record = replace(reports.record_of(of), explanations=waits)
    found = explained(View(record, of, Texts("en")))
    assert [why.workload for why in found] == list(rows)
