"""The nouns survive JSON and refuse what cannot be; what people type is read as they mean it."""

import dataclasses
import json
import os
import re
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from calls import brief, refusals

from schedlab import nouns
from schedlab.errors import SpecError
from schedlab.kinds.traits import fills_page_cache, nothing_to_order
from schedlab.nouns import (
    Candidate,
    Experiment,
    Plan,
    Record,
    Run,
    Stopping,
    Target,
    Workload,
    from_json,
    metric_named,
    to_json,
)
from schedlab.nouns.capture import is_alike
from schedlab.nouns.checked_line import decode, encode, seal, unseal
from schedlab.nouns.convert import convert
from schedlab.nouns.names import check_name, safe_name, safe_names
from schedlab.nouns.quantities import (
    counted,
    duration_text,
    parse_duration,
    parse_quantity,
    parse_share,
    parse_size,
    size_text,
)
from schedlab.nouns.reading import SIZE_MAX, check_regular, open_regular, read_text, read_toml

EXPERIMENT = Experiment(
    title="t",
    kind="io",
    target=Target("scratch", size_bytes=1 << 20),
    candidates=(Candidate("bfq", {"scheduler": "bfq", "low_latency": 0}),),
    workloads=(Workload("w", "file-test", "iops", {"nested": [1, {"a": 2.5}]}, weight=2.0),),
    baseline="bfq",
    seed=7,
    stopping=Stopping("precision", 40, 0.01),
)


def test_an_experiment_survives_json():
    assert from_json(Experiment, to_json(EXPERIMENT)) == EXPERIMENT


def test_infinities_become_null():
    assert to_json({"a": float("nan"), "b": [float("inf"), 1.0]}) == {"a": None, "b": [None, 1.0]}


def test_an_unknown_metric_lists_the_known():
    with pytest.raises(SpecError, match="speed") as caught:
        metric_named("speed")
    assert "iops" in caught.value.hint


NOUNS = [noun for noun in vars(nouns).values() if dataclasses.is_dataclass(noun)]


def test_what_an_older_file_does_not_say_is_nothing_or_the_usual(golden):
    """Fields that are not empty, 0, false or unknown where nothing is said."""
    lines = sorted(
        f"{noun.__name__}.{field.name} = {field.default!r}"
        for noun in NOUNS
        for field in dataclasses.fields(noun)
        if field.default is not dataclasses.MISSING and field.default
    )
    golden("older-files.txt", "\n".join(lines))


@dataclasses.dataclass(frozen=True)
class Shapes:
    point: tuple[int, str] = (0, "")
    bounds: tuple[float, ...] = ()
    either: str | int | float = ""
    maybe: int | None = None
    share: float = 0.0
    named: dict[str, int] = dataclasses.field(default_factory=dict)
    flag: bool = False


PLAIN = (
    {"point": [1, "a"]}, {"bounds": [1, 2.5]}, {"either": 3}, {"either": 2.5}, {"either": "x"},
    {"maybe": None}, {"maybe": 4}, {"share": 2}, {"share": None}, {"named": {"a": 1}},
    {"flag": True},
)  # fmt: skip
WRONG = (
    {"point": [1]}, {"point": [1, "a", 2]}, {"point": ["a", 1]}, {"point": [1, 1]},
    {"bounds": "12"}, {"bounds": [1, "x"]}, {"either": [1]}, {"maybe": "x"}, {"maybe": True},
    {"share": True}, {"share": "1"}, {"flag": 1}, {"named": [1]}, {"named": {"a": "x"}},
)  # fmt: skip
WRONG_EXPERIMENTS = (
    {"kind": "magic"}, {"seed": "one"}, {"margin": "2%"}, {"surprise": 1}, {"candidates": "none"},
    {"stopping": {"mode": "never"}}, {"workloads": [{"label": "w"}]},
)  # fmt: skip


def test_plain_values_become_those_of_a_noun_or_are_named_with_their_place(golden):
    golden("nouns.txt", "\n".join(f"{data}: {brief(from_json(Shapes, data))}" for data in PLAIN))
    usual = to_json(EXPERIMENT)
    wrong = [
        refusals(partial(from_json, Shapes), [(data,) for data in WRONG]),
        refusals(partial(from_json, Shapes), [({"flag": 1}, "here")]),
        refusals(partial(from_json, Workload), [({"label": "w"},), (3,)]),
        refusals(lambda change: from_json(Experiment, usual | change, "file.toml"),
                 [(change,) for change in WRONG_EXPERIMENTS]),
    ]  # fmt: skip
    golden("refusals/nouns.txt", "\n".join(wrong))


# What reads or writes a quantity, and what it is given.
QUANTITIES = {
    parse_size: [
        *((text,) for text in ("512", "64k", "1.5M", " 2 GiB", "1tb")),
        *((wrong,) for wrong in ("", "0", "-1k", "1x", "k", "1.k")),
    ],
    parse_duration: [
        *((text,) for text in ("7", "5us", "500ms", "1.5 s", "2m", "2min", "1h")),
        *((wrong,) for wrong in ("", "0", "0s", "-1s", "1d", "s")),
    ],
    parse_share: [
        *((text,) for text in ("2%", "0.5", "99.9 %")),
        *((wrong,) for wrong in ("", "0", "0%", "1", "100%", "2", "-1%", "x")),
    ],
    size_text: [
        (size,) for size in (0, 1023, 1024, 1536, 3 << 19, 5 << 20, 1 << 30, 1 << 29,
                             (1 << 30) + (1 << 20), 502_500_000 << 10, 1_000_000)
    ],
    counted: [(1, "process"), (2, "process"), (0, "seed"), (31, "CPU")],
    duration_text: [(s,) for s in (45.4, 99.4, 100, 119 * 60, 120 * 60, 7500, 100 * 3600)],
    parse_quantity: [
        ("size_bytes", "1k"), ("record_bytes", [7, "4k", "1m"]), ("slice_ms", "2s"),
        ("seconds", "1m"), ("ramp_seconds", "1m"), ("budget_s", "1m"), ("seconds", 3),
        ("names", ["1k"]),
        ("size", "1k"), ("bytes", "1k"),
    ],
}  # fmt: skip


def test_quantities_are_read_and_written_as_people_do(golden):
    def made(function, values):
        try:
            result = function(*values)
        except SpecError as error:
            return f"{error} ({error.hint})"
        return f"{result:.12g}" if isinstance(result, float) else repr(result)

    golden("quantities.txt", "\n".join(
        f"{function.__name__}{values}: {made(function, values)}"
        for function, cases in QUANTITIES.items() for values in cases
    ))  # fmt: skip


def test_a_file_up_to_the_limit_is_read_and_a_larger_one_refused(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"x" * SIZE_MAX)
    assert len(read_text(file, "h")) == SIZE_MAX == 1 << 20
    assert read_text(file, "h", SIZE_MAX + 1)
    with pytest.raises(SpecError, match="larger than 0 MiB"):
        read_text(file, "h", SIZE_MAX - 1)
    file.write_bytes(b"x" * (SIZE_MAX + 1))
    with pytest.raises(SpecError, match="larger than 1 MiB") as caught:
        read_text(file, "h")
    assert caught.value.hint == "h"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for each in (fifo, tmp_path, Path("/dev/null")):
        with pytest.raises(SpecError, match="not a regular file"):
            open_regular(each, "h")
        with pytest.raises(SpecError, match="not a regular file"):
            check_regular(each, "h")
    for each in (tmp_path / "nothing", Path("a\0b")):
        with pytest.raises(SpecError) as caught:
            open_regular(each, "h")
        assert caught.value.hint == "h"
    check_regular(tmp_path / "nothing", "h")


@pytest.mark.parametrize("content", [b"\xff", b"a = ", b"a = " + b"[" * 5000])
def test_what_is_no_toml_is_one_error(tmp_path, content):
    file = tmp_path / "f.toml"
    file.write_bytes(content)
    with pytest.raises(SpecError, match=r"is not (TOML|text)") as caught:
        read_toml(file, "h")
    assert caught.value.hint == "h"
    file.write_text("a = 1")
    assert read_toml(file, "h") == ({"a": 1}, "a = 1")


def test_names_up_to_200_printable_characters_are_taken():
    for good in ("w", "é" * 200):
        assert check_name(good, "w") == good
    for bad in ("", " ", "x" * 201, "a\nb", "a\x7fb", "a\ud800", "a\u2028", "a\u2029", "a\u202eb"):
        with pytest.raises(SpecError, match=r"^w: the name") as caught:
            check_name(bad, "w")
        assert caught.value.hint and str(caught.value).encode()  # printable anywhere


def test_names_of_files_are_short_and_no_two_alike():
    assert safe_name("a/ b") == "a_b"
    assert [safe_name(odd) for odd in ("/", ".-", "..", "-rf", "é")] == ["_", "_", "_", "rf", "_"]
    assert len(safe_name("x" * 200)) == 100
    names = safe_names(["a/b", "a b", "A_B", "a/b"])
    assert names == {"a/b": "a_b", "a b": "a_b-2", "A_B": "A_B-3"}


def test_a_checked_line_gives_back_its_record_or_says_why_not():
    line = encode({"a": 1, "b": "é"}).encode()
    assert decode(line) == {"a": 1, "b": "é"}
    assert json.loads(line)["crc"] == f"{zlib.crc32(json.dumps({'a': 1, 'b': 'é'}).encode()):08x}"
    for damaged, why in [
        (line[:-1], "no checksum"),
        *((line.replace(b"1", b"%d" % n, 1), "checksum is wrong") for n in range(2, 10)),
        (b'["x"]', "no checksum"),
    ]:
        with pytest.raises(ValueError, match=why):
            decode(damaged)
    with pytest.raises(ValueError, match="empty"):
        encode({})


def test_a_sealed_text_gives_back_its_text_or_says_why_not():
    for text in ("a\nb", "a\nb\n"):
        assert unseal(seal(text).encode()) == b"a\nb\n"
    sealed = seal("a = 1\n").encode()
    for damaged, why in [
        (sealed[:-1], "cut short"),
        (sealed[:-3] + b"\n", "cut short"),
        (b"a = 1\n", "cut short"),
        *((sealed.replace(b"1", b"%d" % n, 1), "changed or damaged") for n in range(2, 10)),
    ]:
        with pytest.raises(ValueError, match=why):
            unseal(damaged)


@pytest.mark.parametrize(
    ("kind", "parameters", "cached", "alone"),
    [
        ("file-test", {}, False, True),
        ("file-test", {"direct": False}, True, False),
        ("device-timings", {"direct": True}, False, True),
        ("calls", {"mode": "direct-sync"}, False, False),
        ("calls", {"mode": "buffered", "direct": True}, True, False),
        ("random-reads", {}, False, False),
        ("startup", {}, True, False),
        ("file-test", {"depth": 1, "workers": 1}, False, True),
        *(
            ("file-test", {name: 2}, False, False)
            for name in ("depth", "workers", "processes", "jobs", "readers", "writers", "clients")
        ),
        ("file-test", {"depth": "2"}, False, False),
        ("file-test", {"depth": None}, False, True),
        ("file-test", {"arrivals": {"kind": "closed"}}, False, True),
        ("file-test", {"arrivals": {"kind": "poisson"}}, False, False),
        ("file-test", {"arrivals": "poisson"}, False, True),
    ],
)
def test_one_direct_request_at_a_time_leaves_nothing_to_order(kind, parameters, cached, alone):
    work = Workload("w", kind, "iops", parameters)
    assert (fills_page_cache(work), nothing_to_order(work)) == (cached, alone)


@pytest.mark.parametrize(
    ("value", "usual", "alike"),
    [(1.9, 1, True), (2, 1, False), (1, 2, False), (1, 1.9, True), (0, 9, True), (9, 0, True)],
)
def test_an_extra_run_explains_within_a_factor_of_two(value, usual, alike):
    assert is_alike(value, usual) == alike


def test_every_text_of_a_stranger_is_one_that_can_be_printed():
    for at in range(3):
        texts = ["a", "b", "c"]
        texts[at] = "\x07"
        for data in (texts, dict(zip("xyz", texts, strict=True)), {"x": {"y": texts}}):
            with pytest.raises(SpecError) as error:
                convert(Any, data, "x")
            assert "control characters" in error.value.hint


def test_a_cell_without_a_value_failed_three_times_and_never_passed():
    def run(block, candidate, status):
        return Run(block, 0, "w", candidate, 1, 1, status, "", 1.0, {})

    runs = (
        *(run(3, "failed", "discarded") for _ in range(3)),
        *(run(2, "tried", "discarded") for _ in range(2)),
        *(run(2, "late", "discarded") for _ in range(3)),
        run(2, "late", "ok"),
    )
    record = Record(EXPERIMENT, Plan(()), runs)
    assert record.missing_cells == ((3, "w", "failed"),)
    assert record.analysed_runs == runs[-1:]
    assert [record.number_of(block) for block in (2, 3)] == [1, 2]
    assert Record(EXPERIMENT, Plan(()), ()).number_of(0) == 1
    beside = [run(0, "a", "ok"), run(0, "b", "discarded"), run(0, "c", "ok"),
              replace(run(0, "d", "ok"), session="x"), replace(run(0, "e", "ok"), session="x"),
              replace(run(0, "f", "ok"), session="x", workload="v")]  # fmt: skip
    before = Record(replace(EXPERIMENT, kind="io"), Plan(()), tuple(beside)).before
    assert {key[2]: name for key, name in before.items()} == {
        "a": "", "c": "b", "d": "", "e": "d", "f": ""
    }  # fmt: skip


def test_metrics_of_an_import_come_before_the_known_ones():
    own = nouns.Metric("iops", "ops", False)
    work = EXPERIMENT.workloads[0]
    assert EXPERIMENT.metric(work) == metric_named("iops")
    assert dataclasses.replace(EXPERIMENT, metrics={"iops": own}).metric(work) == own


def test_the_direction_of_a_metric_goes_with_what_it_measures():
    for name, metric in nouns.METRICS.items():
        assert metric.name == name and metric.title
        if metric.unit in ("B/s", "1/s"):
            assert metric.higher_is_better, name
        elif metric.unit in ("s", "ns", "ms", "B"):
            assert not metric.higher_is_better, name
            endings = {"s": "_s_|seconds", "B": "_bytes_"}.get(metric.unit, f"_{metric.unit}_")
            assert re.search(endings, f"{name}_"), name
    others = {n: m.higher_is_better for n, m in nouns.METRICS.items() if not m.unit}
    assert others == {
        "share_fulfilment": True, "fairness_jain": True, "calculations": True,
        "weighted_jain": True, "major_faults": False, "context_switches": False,
        "share_error": False,
    }  # fmt: skip
