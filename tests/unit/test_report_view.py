"""What every form of the report is made of: figures, intervals and sentences worked out by hand."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest
import report_known as known

from schedlab.report import cells, quanta_tables, screen, words
from schedlab.report.texts import Scale, Texts, percent_decimals, plural_form
from schedlab.report.view import (
    View,
    flatten,
    log_interval,
    percentiles,
    record_bytes,
    seen_from,
    size_text,
    turned,
)
from schedlab.spec import (
    METRICS,
    CandidateSummary,
    Headline,
    Metric,
    Pair,
    StoppingState,
    Target,
)

EN, KO, RU = Texts("en"), Texts("ko"), Texts("ru")


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.fixture(scope="module")
def view() -> View:
    return known.view()


@pytest.mark.parametrize(
    ("logs", "level", "mean", "factor"),
    [
        # Student's t of 1 degree is 12.7062; the deviation of (0, x) is x/√2, over √2 values.
        ([0.0, 2 * math.log(2)], 0.95, 2.0, 2**12.7062),
        # of 2 degrees 4.30265, or 2.91999 at 90 %; the deviation of (0, x, 2x) is x.
        ([0.0, math.log(2), 2 * math.log(2)], 0.95, 2.0, 2 ** (4.30265 / math.sqrt(3))),
        ([0.0, math.log(2), 2 * math.log(2)], 0.9, 2.0, 2 ** (2.91999 / math.sqrt(3))),
        ([1.0, 1.0, 1.0, 1.0], 0.95, math.e, 1.0),
    ],
)
def test_intervals_are_students(
    logs: list[float], level: float, mean: float, factor: float
) -> None:
    middle, low, high = log_interval(logs, level)
    assert (middle, low, high) == pytest.approx((mean, mean / factor, mean * factor), rel=1e-4)
    assert log_interval(logs[:1], level) == (math.exp(logs[0]), None, None)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"),
        (512 << 10, "512 KiB"), ((1 << 20) - 1024, "1023 KiB"), (1 << 20, "1 MiB"),
        (3 << 19, "1.5 MiB"), (1023 << 20, "1023 MiB"), (1 << 30, "1 GiB"), (5 << 29, "2.5 GiB"),
        (2048 << 30, "2048 GiB"),
    ],
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_sizes_have_six_digits_unless_fewer_are_asked() -> None:
    assert (size_text(1234567), size_text(1234567, 3)) == ("1.17737 MiB", "1.18 MiB")


@pytest.mark.parametrize(
    ("value", "size"),
    [(4096, 4096), ("8192", 8192), (1.0, 1), (0, None), (-1, None), ("x", None), (None, None)],
)
def test_record_sizes(value: object, size: int | None) -> None:
    assert record_bytes({"record_bytes": value}) == size
    assert record_bytes({}) is None


def test_tables_are_flattened() -> None:
    value = {"a": {"b": 1, "c": [1, 2]}, "d": [{"e": 3}, {"e": 4}], "f": [[5], [6]], "g": None}
    assert flatten(value) == [
        ("a.b", 1), ("a.c", "1, 2"), ("d.1.e", 3), ("d.2.e", 4), ("f.1", "5"), ("f.2", "6"),
        ("g", None),
    ]  # fmt: skip
    assert flatten(7, "x") == [("x", 7)]


def test_a_pair_from_the_other_side() -> None:
    pair = Pair("a", "b", 0.8, 0.5, None, "worse", 0.1, ("fragile",), "high", 0.4,
                by_session=(0.5, 2.0))  # fmt: skip
    back = turned(pair)
    assert (back.a, back.b, back.ratio, back.low, back.high) == ("b", "a", 1.25, None, 2.0)
    assert (back.verdict, back.open_end, back.hodges_lehmann) == ("better", "low", 2.5)
    assert (back.by_session, back.codes, back.p) == ((2.0, 0.5), ("fragile",), 0.1)
    assert turned(dataclasses.replace(pair, open_end="low")).open_end == "high"
    plain_pair = turned(Pair("a", "b", 2.0, None, 4.0, "undecided"))
    assert (plain_pair.low, plain_pair.high, plain_pair.verdict) == (0.25, None, "undecided")
    assert (plain_pair.open_end, plain_pair.hodges_lehmann) == ("", None)
    assert seen_from([pair], "a", "b") is pair
    assert seen_from([pair], "a", "c") is None


def test_families_and_their_means(view: View) -> None:
    (family,) = view.families
    assert (family.title, family.metric.name) == ("read", known.RATE)
    assert [(m.record_bytes, m.verdict.workload) for m in family.members] == [
        (4096, known.SMALL), (1 << 20, known.LARGE),
    ]  # fmt: skip
    assert [mean.title for mean in view.test_means] == ["read", known.READERS, known.CACHED]
    assert view.test_means[1].rows[1] == ("kyber", 2e6, 0.97 * 2e6, 1.03 * 2e6)
    assert view.names == known.NAMES
    assert view.arms == ("none (A/A)",)
    works = view.experiment.workloads
    other = dataclasses.replace(works[0], metric="iops")
    double = dataclasses.replace(works[0], label=known.CACHED)
    kind = [dataclasses.replace(w, parameters={"record_bytes": w.parameters["record_bytes"]})
            for w in works[:2]]  # fmt: skip
    for changes, titles in (
        ((other, *works[1:]), []), ((works[0], double, works[1]), ["read"]), (kind, ["file-test"]),
        ((dataclasses.replace(works[0], label="gone"), *works[1:]), []),
    ):  # fmt: skip
        of = known.changed(experiment={"workloads": tuple(changes)})
        assert [each.title for each in of.families] == titles
        assert [len(each.members) for each in of.families] == [2] * len(titles)


def test_values_that_are_none_or_zero_are_in_no_mean() -> None:
    of = known.record()
    runs = tuple(
        dataclasses.replace(r, metrics={known.RATE: {2: 0.0, 3: math.nan, 4: 1e6, 5: 4e6}[r.block]})
        if r.candidate == "kyber" and known.RATE in r.metrics else r for r in of.runs
    )  # fmt: skip
    view = known.changed(record={"runs": runs})
    rows = {name: rest for name, *rest in view.test_means[0].rows}
    assert rows["kyber"] == pytest.approx([2e6, 2e6 / 2**12.7062, 2e6 * 2**12.7062], rel=1e-4)


def test_when_and_where() -> None:
    assert known.changed().measured == "Measured 2026-03-12 09:26 on lab1, 6.18.0, Example 3000"
    nothing = known.changed(
        record={"runs": (), "host": {"kernel": "5.1", "device": {"model": "D"}}}
    )
    assert nothing.measured == "Measured – on 5.1, D"
    assert known.changed(record={"host": {}}).machine == "a machine that was not recorded"
    assert known.changed(experiment={"kind": "import"}).measured == "Imported measurements"
    assert (known.changed().medium, known.changed(experiment={"kind": "sim"}).medium) == (
        "",
        "simulated",
    )
    for parts in ({"experiment": {"target": Target("emulated")}},
                  {"record": {"host": {"emulated": {}}}}):  # fmt: skip
        assert known.changed(**parts).medium == "emulated"


def test_the_account_of_an_emulated_device_is_a_median() -> None:
    of = known.record()
    facts = [{"emulated": {"lateness": {"p50_ns": p50, "p99_ns": 90}, "late_share": share}}
             for p50, share in ((30, 0.1), (10, 0.00004), (21.4, 0.002))]  # fmt: skip
    facts[1]["emulated_device"] = {"model": "disk"}
    runs = [dataclasses.replace(r, properties=p) for r, p in zip(of.runs, facts, strict=False)]
    assert known.changed(record={"runs": tuple(runs)}).emulated_device == {
        "model": "disk", "lateness_p50_ns, median of the runs": 21,
        "lateness_p99_ns, median of the runs": 90, "late_share, median of the runs": 0.002,
    }  # fmt: skip
    del facts[1]["emulated_device"]
    assert known.changed(record={"runs": tuple(runs)}).emulated_device == {}


def test_what_the_headline_states_is_not_repeated() -> None:
    for code in ("too-early", "no-difference-seen", "too-noisy", "single"):
        assert known.changed(verdict={"headline": Headline(code, {})}).says_mdd
        rest = Headline("did-not-finish", {"rest": code})
        assert known.changed(verdict={"headline": rest}).says_mdd
    assert not known.changed().says_mdd


def test_percentiles_are_upper_ends_of_their_bins() -> None:
    found = percentiles(known.HISTOGRAM, [0.999, 0.0, 0.5, 0.501, 0.95, 0.9990001])
    assert found == [(0.0, 1000), (0.5, 1000), (0.501, 2000), (0.95, 2000), (0.999, 4000),
                     (0.9990001, 8000)]  # fmt: skip
    assert percentiles([(0, 5, 19)], [0.5]) == []
    assert percentiles([(0, 5, 20)], [0.5]) == [(0.5, 5.0)]
    assert percentiles([], [0.5]) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234.5, "1,234"), (999.6, "1,000"), (99.96, "100"), (12.345, "12.3"), (9.996, "10.0"),
        (0.012345, "0.0123"), (1e-9, "1.00e−9"), (-4e-6, "−4.00e−6"), (1.2e-5, "0.000012"),
        (0.0, "0"), (-2.5, "−2.50"), (math.nan, "–"),
    ],
)  # fmt: skip
def test_figures_have_three_digits(value: float, shown: str) -> None:
    assert EN.figure(value) == shown
    assert EN.figure(123456, 2) == "123,456" and EN.figure(0.0666, 2) == "0.067"
    assert EN.number(-0.004, 2) == "0.00" and EN.number(-0.006, 2) == "−0.01"
    assert plain(RU.number(1234.5, 1)).replace("\u202f", " ") == "1 234,5"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"), (0.5, "0.5 s"), (9.94, "9.9 s"), (9.96, "10 s"), (99.4, "99 s"),
        (0.04, "less than 0.1 s"), (0.05, "0.1 s"), (100, "2 min"), (149, "2 min"),
        (151, "3 min"), (7169, "119 min"), (7200, "2 h 0 min"), (7500, "2 h 5 min"),
        (90000, "25 h 0 min"),
    ],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert plain(EN.duration(seconds)) == shown
    assert plain(EN.about(seconds)) == (f"about {shown}" if seconds != 0.04 else shown)


@pytest.mark.parametrize(
    ("fraction", "signed", "unsigned"),
    [
        (0.0361, "+3.6 %", "3.6 %"), (-0.0361, "−3.6 %", "−3.6 %"), (0.00094, "+0.09 %", "0.09 %"),
        (0.00095, "+0.1 %", "0.1 %"), (0.994, "+99.4 %", "99.4 %"), (1.0, "+100 %", "100 %"),
        (8.9, "+890 %", "890 %"), (9, "× 10.0", "900 %"), (0, "0 %", "0 %"),
        (0.00001, "0.00 %", "0.00 %"),
    ],
)  # fmt: skip
def test_percentages(fraction: float, signed: str, unsigned: str) -> None:
    assert plain(EN.percent(fraction)) == signed
    assert plain(EN.percent(fraction, signed=False)) == unsigned
    assert [percent_decimals(v) for v in (0, 0.09, 0.095, -99.9, 100)] == [1, 2, 1, 1, 0]
    margins = [plain(EN.margin(v)) for v in (0.02, 0.025, 0.95, 0.005, 0.0025, 0.01, 0)]
    assert margins == ["2 %", "2.5 %", "95 %", "0.5 %", "0.25 %", "1 %", "0 %"]


@pytest.mark.parametrize(
    ("value", "share"),
    [(0, "0 %"), (0.0005, "0.05 %"), (0.00094, "0.09 %"), (0.00096, "0.1 %"), (0.034, "3.4 %"),
     (0.03, "3 %"), (0.0994, "9.9 %"), (0.0996, "10 %"), (0.123, "12 %"), (1.0, "100 %"),
     (1.4, "2.4×"), (1000, "over 1,000×"), (0.00002, "less than 0.01 %"), (0.00006, "0.01 %")],
)  # fmt: skip
def test_shares(value: float, share: str) -> None:
    assert plain(words.share(EN, value)) == share


def test_scales() -> None:
    for values, unit, scale in (
        ([999e3], "B/s", (1e3, "kB/s")), ([1e6], "B/s", (1e6, "MB/s")),
        ([0.99995e6], "B/s", (1e6, "MB/s")), ([1e3, 1e9], "B", (1e6, "MB")),
        ([0, -5e3, math.inf], "ns", (1e3, "µs")), ([], "1/s", (1, "/s")),
        ([1e-9], "s", (1e-6, "µs")), ([5], "B/s", (1, "B/s")), ([5], "B", (1, "B")),
        ([5], "ns", (1, "ns")), ([5e9], "B", (1e9, "GB")), ([5e9], "B/s", (1e9, "GB/s")),
        ([5e9], "ns", (1e9, "s")), ([5e-3], "s", (1e-3, "ms")), ([5e6], "1/s", (1e6, "M/s")),
        ([2.0], "widgets", (1, "widgets")),
    ):  # fmt: skip
        of = Scale.fitting(values, unit)
        assert (of.factor, of.unit) == scale
    assert plain(EN.quantity(2.0, "")) == "2.00"
    turns = [plain(EN.quantity(value, "ns", digits)) for value, digits in (
        (999.7e3, 3), (999.7e3, 2), (999.4e3, 3), (995e3, 2), (999.96e3, 4))]  # fmt: skip
    assert turns == ["1.00 ms", "1.0 ms", "999 µs", "995 µs", "1.000 ms"]


def test_nouns_and_their_forms() -> None:
    assert (EN.nouns("io"), EN.nouns("cpu")) == ("schedulers", "quanta")
    assert [plain(EN.counted("scope.blocks", n)) for n in (0, 1, 2)] == [
        "0 blocks", "1 block", "2 blocks",
    ]  # fmt: skip
    forms = {n: plural_form("ru", n) for n in (1, 2, 4, 5, 11, 12, 14, 15, 21, 22, 111, 112, 122)}
    assert forms == {1: 0, 2: 1, 4: 1, 5: 2, 11: 2, 12: 2, 14: 2, 15: 2, 21: 0, 22: 1, 111: 2,
                     112: 2, 122: 1}  # fmt: skip
    assert [plural_form("ko", n) for n in (1, 2)] == [0, 0]
    assert [texts.fraction_form("scope.runs") for texts in (EN, KO, RU)] == [
        texts.entries["scope.runs"][i] for texts, i in ((EN, 1), (KO, 0), (RU, 1))
    ]
    assert (EN.form("scope.runs", 1), EN.form("scope.runs", 2)) == ("run", "runs")
    assert [EN.listed(n) for n in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert (EN.maybe("scope.none", "x"), EN.maybe("column.mean", "x")) == ("x", "Mean")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("latency_ns_p99", "p99 latency"), ("latency_ns_p99_9", "p99.9 latency"),
        ("reader_latency_ns_max", "maximum reader latency"),
        ("wakeup_ns_p50", "p50 wake-up latency"),
        ("response_ns_mean", "mean response time"), ("mean_read_ms", "mean read response"),
        ("max_write_ncq_ms", "maximum write response from NCQ entry"), ("iops", "I/O operations"),
        ("odd_latency_ns_p50", "odd latency ns p50"), ("other_thing", "other thing"),
    ],
)  # fmt: skip
def test_names_of_metrics(name: str, shown: str) -> None:
    assert EN.metric(METRICS.get(name) or Metric(name, "", True)) == shown
    assert EN.metric(Metric("other", "", True, "a title")) == "a title"


def test_intervals_in_cells(view: View) -> None:
    scale = Scale(1e6, "MB/s")
    shown = [cells.interval(view, low, high, scale) for low, high in (
        (810e6, 834e6), (None, 1.0), (1.0, None), (1e3, 1e6), (1e3, 1.001e6), (-2e6, 2e6),
    )]  # fmt: skip
    assert shown == ["810 to 834", "–", "–", "0.00100 to 1.00", "–", "−2.00 to 2.00"]
    needed = [cells.blocks_needed(view, Pair("a", "b", 1, None, None, "undecided", blocks_needed=n))
              for n in (None, (4, 12), (6, 6))]  # fmt: skip
    assert needed == ["–", "4 to 12", "6"]


RATE = known.RATE


@pytest.mark.parametrize(
    ("pair", "title", "amount", "interval"),
    [
        ((0.5, 0.4, 0.625, "worse"), "b against a", "2.0× faster", "1.6 to 2.5×"),
        ((0.5, 0.4, 0.625, "better"), "a against b", "2.0× faster", "1.6 to 2.5×"),
        ((0.9, 0.8, 1.1, "undecided"), "b against a", "11 % faster", "−9 to 25 %"),
        ((1.1, 0.9, 1.2, "undecided"), "a against b", "10 % faster", "−10 to 20 %"),
        ((1.0, 0.99, 1.02, "equivalent"), "a against b", "same", "−1.0 to 2.0 %"),
        ((4.0, 2.0, None, "better"), "a against b", "4.0× faster", "at least 2.0×"),
        ((4.0, None, None, "better"), "a against b", "4.0× faster", "–"),
    ],
)
def test_a_pair_has_its_better_one_first(
    view: View, pair: tuple, title: str, amount: str, interval: str
) -> None:
    ratio, low, high, verdict = pair
    of = view.verdict.workloads[known.SMALL]
    if verdict == "better" and ratio < 1:
        of = dataclasses.replace(of, metric=METRICS["cpu_s"])
        amount, title = "2.0× less", "a against b"
    one = Pair("a", "b", ratio, low, high, verdict, open_end="high" if high is None else "")
    (text,) = cells.pair_texts(view, of, [one])
    assert (text.title, plain(text.amount), plain(text.interval)) == (title, amount, interval)
    assert text.drawn.ratio == pytest.approx(max(ratio, 1 / ratio))
    assert cells.drawn(Pair("a", "b", 2, 0.0, None, "better"), False).high is None


def summary(**values: Any) -> CandidateSummary:
    return dataclasses.replace(
        CandidateSummary("bfq", 8, 0.0, 4e6, 3.97e6, 4.03e6, 0.5, 0.4, 0.6, "worse"), **values
    )


@pytest.mark.parametrize(
    ("values", "whole"),
    [
        ({"ratio": 1.05, "ratio_low": 1.0, "ratio_high": 1.1}, True),
        ({"ratio": 1.05, "ratio_low": 1.04, "ratio_high": 1.0599}, False),
        ({"ratio": 1.0625, "ratio_low": 1.0, "ratio_high": 1.02}, True),
        ({"ratio": 1.009, "ratio_low": 0.9, "ratio_high": 1.1}, False),
        ({"ratio": 0.95, "ratio_low": 0.9, "ratio_high": 1.1}, True),
        ({"ratio": None, "ratio_low": 0.9, "ratio_high": 1.1}, False),
        ({"ratio": 1.5, "ratio_low": None, "ratio_high": 1.1}, False),
        ({"ratio": 1.5, "ratio_low": 1.1, "ratio_high": None}, False),
    ],
)
def test_wide_intervals_have_no_decimal_of_a_percentage(values: dict, whole: bool) -> None:
    assert screen._whole(summary(**values)) is whole


def test_cells_against_the_baseline(view: View) -> None:
    of = view.verdict.workloads[known.SMALL]

    def shown(name: str = "bfq", **values: Any) -> tuple[str, str]:
        cell = screen.candidate_cell(view, of, name, summary(**values))
        return plain(cell.text), cell.verdict + cell.mark

    assert shown() == ("2.0× slower", "worse▼")
    assert shown(ratio=1.05, ratio_low=1.0, ratio_high=1.1, verdict="better") == (
        "5 % faster", "better▲",
    )  # fmt: skip
    assert shown(ratio=1.05, ratio_low=1.045, ratio_high=1.055, verdict="better")[0] == (
        "5.0 % faster"
    )
    assert shown(verdict=None) == ("2.0× slower", "worse▼")  # as the pair says
    assert shown(ratio=None) == ("20 % slower", "worse▼")
    assert shown("nobody", verdict=None) == ("?", "undecided")
    assert shown("nobody", ratio=None) == ("4.00 MB/s", "")  # it has values and no ratio
    assert shown(starved=8) == ("did not finish", "worse▼")
    assert shown(starved=3) == ("2.0× slower, 3 of 8 runs unfinished", "worse▼")
    assert screen.candidate_cell(view, of, "bfq", None).text == "–"
    values = [
        plain(screen.measured(view, of, each, digits))
        for each, digits in (
            (summary(), 0), (summary(high=4.06e6), 0), (summary(high=4.06e6), 3),
            (summary(low=None), 0), (summary(low=0.0), 0), (summary(starved=8), 0),
            (summary(starved=7), 0), (None, 0),
        )
    ]  # fmt: skip
    assert values == ["4.00 MB/s", "4.0 MB/s", "4.00 MB/s", "4.00 MB/s", "4.00 MB/s",
                      "at most 4.00 MB/s", "4.00 MB/s", "–"]  # fmt: skip
    wait = view.verdict.workloads[known.READERS]
    assert plain(screen.measured(view, wait, summary(starved=8))) == "at least 4.00 ms"


def test_open_ends_are_at_least(view: View) -> None:
    of = view.verdict.workloads[known.SMALL]
    for verdict, end, low, high, text in (
        ("better", "high", 3.0, None, "at least 3.0× faster"),
        ("worse", "low", None, 0.25, "at least 4.0× slower"),
    ):
        pair = Pair("bfq", "none", 5.0, low, high, verdict, open_end=end)
        one = dataclasses.replace(of, pairs=(pair,))
        cell = screen.candidate_cell(view, one, "bfq", summary(ratio=5.0, verdict=verdict))
        assert plain(cell.text) == text


def test_the_largest_differences_are_on_the_screen(view: View) -> None:
    rows = screen.all_rows(view)
    assert [row.title for row in rows] == [
        known.LARGE, known.SMALL, known.READERS, "its writers", "p99 reader latency", known.CACHED,
    ]  # fmt: skip
    for most, titles, more in (
        (6, [row.title for row in rows], 0),
        (5, [known.LARGE, known.SMALL, known.READERS, "its writers", known.CACHED], 0),
        (4, [known.LARGE, known.SMALL, known.READERS, "its writers"], 1),
        # Both are twofold, and the first stays.
        (3, [known.LARGE, known.READERS, "its writers"], 2),
        (1, [known.LARGE], 3),
    ):
        shown, rest = screen.shown_rows(rows, most)
        assert ([row.title for row in shown], rest) == (titles, more)
    sizes = [screen._size(row) for row in rows]
    twofold = math.log(2)
    assert sizes == pytest.approx([twofold, math.log(1.25), twofold, math.log(1.25),
                                   math.log(2.5), 0])  # fmt: skip


MEASURED = "Measured: 4 workloads on a temporary loop device (rotational 0, 128 tags), "


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ({}, [MEASURED + "2 sessions, 4 blocks, 3 file layouts, 3 min.",
              "This holds for these sessions."]),
        ({"population": {"sessions": 1, "layouts": 0, "seconds": 0, "steady_assumed": True}},
         [MEASURED + "this session, 4 blocks.",
          "Another file layout may shift it (--sessions 4 shows it), and so may another boot.",
          "With fewer than 8 blocks the differences are assumed to be steady.",
          "Differences of 15 % or more would have shown."]),
        ({"population": {"claims_sessions": True}},
         [MEASURED + "2 sessions, 4 blocks, 3 file layouts, 3 min.",
          "The sessions are the units: this result holds for other file layouts too.",
          "Another boot may shift it."]),
        ({"population": {"claims_sessions": True, "claims_boots": True, "blocks": 1,
                         "steady_assumed": True}},
         [MEASURED + "2 sessions, 1 block, 3 file layouts, 3 min.",
          "The sessions are the units: this result holds for other boots and file layouts too."]),
        ({"population": {"steady_assumed": True, "blocks": 2}, "overall": {"mdd": 1.0}},
         [MEASURED + "2 sessions, 2 blocks, 3 file layouts, 3 min.",
          "This holds for these sessions.",
          "With fewer than 8 blocks the differences are assumed to be steady.",
          "Differences of 100 % or more would have shown."]),
        ({"population": {"steady_assumed": True}, "overall": {"mdd": 0.0}},
         [MEASURED + "2 sessions, 4 blocks, 3 file layouts, 3 min.",
          "This holds for these sessions.",
          "With fewer than 8 blocks the differences are assumed to be steady."]),
        ({"population": {"steady_assumed": True}, "overall": {"mdd": 1.1}},
         [MEASURED + "2 sessions, 4 blocks, 3 file layouts, 3 min.",
          "This holds for these sessions.",
          "With fewer than 8 blocks the differences are assumed to be steady."]),
        ({"verdict": {"stopping": StoppingState(error=0.0512)}},
         [MEASURED + "2 sessions, 4 blocks, 3 file layouts, 3 min.",
          "This holds for these sessions.",
          "A second analysis that was not announced: the error is up to 0.0512."]),
        ({"experiment": {"kind": "sim", "blocked": False}, "population": {"blocks": 0}},
         ["Simulated: 4 workloads, 8 repetitions."]),
        ({"experiment": {"kind": "cpu"}, "population": {"sessions": 1, "device": "a CPU"}},
         ["Measured: 4 workloads on a CPU, this session, 4 blocks, 3 min.",
          "Another boot may shift it."]),
        ({"experiment": {"target": Target("device", "/dev/x")}, "record": {"host": {}}},
         ["Measured: 4 workloads on /dev/x, 2 sessions, 4 blocks, 3 file layouts, 3 min.",
          "This holds for these sessions."]),
    ],
)  # fmt: skip
def test_the_population(parts: dict, lines: list[str]) -> None:
    assert [plain(line) for line in screen.population(known.changed(**parts))] == lines


def test_quanta_have_their_published_tables() -> None:
    def runs(label: str, *counts: int) -> list[Any]:
        return [SimpleNamespace(
            status="ok", candidate=label, metrics={"calculations_per_cpu_s": count / 2},
            properties={"workers": [{"calculations": count, "cpu_burst_s": 2.0},
                                    {"calculations": count + 10, "cpu_burst_s": 1.0}]},
        ) for count in counts]  # fmt: skip

    labels = ("1 ms", "10 ms", "100 ms", "gone")
    every = [*runs("1 ms", 100, 300), *runs("10 ms", 220), *runs("100 ms", 250)]
    every.append(SimpleNamespace(status="discarded", candidate="gone"))
    pairs = (Pair("10 ms", "1 ms", 1.125, 1.0625, 1.25, "better"),
             Pair("1 ms", "100 ms", 0.5, None, None, "undecided"))  # fmt: skip
    record: Any = SimpleNamespace(
        runs=every,
        experiment=SimpleNamespace(candidates=[SimpleNamespace(label=name) for name in labels]),
    )
    verdict: Any = SimpleNamespace(workloads={"w": SimpleNamespace(pairs=pairs)})
    lines = [" ".join(x.split()) for x in quanta_tables.published_tables(record, verdict)]
    title = "calculations per CPU second, block by block, baseline"
    assert lines == [
        "", "Published tables (means over the repetitions)",
        "quantum process calculations CPU burst s",
        "1 ms 0 200.0 2.000000", "1 ms 1 210.0 1.000000",
        "10 ms 0 220.0 2.000000", "10 ms 1 230.0 1.000000",
        "100 ms 0 250.0 2.000000", "100 ms 1 260.0 1.000000", "",
        "quantum sum of counts CPU burst s calculations per CPU second index",
        "1 ms 410.0 3.000000 100.00 100.00", "10 ms 450.0 3.000000 110.00 110.00",
        "100 ms 510.0 3.000000 125.00 125.00",
        "", f"{title} 1 ms", "1 ms +0.000 % baseline",
        "10 ms +12.500 % 95 % interval +6.250 % … +25.000 %",
        "100 ms +100.000 % no interval (too few repetitions)",
        "", f"{title} 10 ms", "1 ms -11.111 % 95 % interval -20.000 % … -5.882 %",
        "10 ms +0.000 % baseline", "100 ms +0.000 % not compared",
    ]  # fmt: skip
    record.runs = []
    assert quanta_tables.published_tables(record, verdict) == []
