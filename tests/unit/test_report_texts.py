"""Numbers, units, durations, nouns and names of metrics, in words of each language."""

from __future__ import annotations

import ast
import math
import re
import string
from pathlib import Path

import pytest

import schedlab
from schedlab.errors import SpecError
from schedlab.report import words
from schedlab.report.texts import (
    LANGUAGES,
    SCALES,
    Scale,
    Texts,
    catalogue,
    percent_decimals,
    plural_form,
)
from schedlab.report.view import flatten, percentiles, record_bytes, size_text
from schedlab.spec import METRICS, Metric

EN, KO, RU = (Texts(language) for language in LANGUAGES)
# Upper ends 1, 2, 4 and 8 µs; 12,000 requests, so that 99.9 % still have 12 beyond them.
HISTOGRAM = ((4000, 8000, 12), (0, 1000, 6000), (1000, 2000, 5400), (2000, 4000, 588))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_MESSAGES": "ru_RU@x"}, "ru"),
        ({"LC_ALL": "ru", "LANGUAGE": "ko:en", "LC_MESSAGES": "C"}, "ko"),
    ],
)
def test_the_language_is_that_of_messages(
    environment: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Texts(None).language == language


def test_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'de'") as error:
        Texts("de")
    assert "ru" in error.value.hint


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (61447.99 * 1024, "B/s", "62.9 MB/s"),
        (2_140_000, "ns", "2.14 ms"),
        (851, "ns", "851 ns"),
        (0.00123, "s", "1.23 ms"),
        (82.17, "s", "82.2 s"),
        (354_000, "1/s", "354 k/s"),
        (0.998, "", "0.998"),
        (61447.99, "KiB/s", "61,448 KiB/s"),
        (9999.6, "B/s", "10.0 kB/s"),
    ],
)
def test_quantities_are_scaled_for_people(value: float, unit: str, shown: str) -> None:
    assert Texts("en").quantity(value, unit).replace("\u00a0", " ") == shown


def test_one_scale_serves_a_column() -> None:
    scale = Scale.fitting([800e6, 1.2e9], "B/s")
    assert (scale.factor, scale.unit) == (1e6, "MB/s")


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


def test_percentiles_are_upper_ends_of_their_bins() -> None:
    found = percentiles(HISTOGRAM, [0.999, 0.0, 0.5, 0.501, 0.95, 0.9990001])
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
     (1.4, "2.4×"), (1000, "1,001×"), (0.00002, "less than 0.01 %"), (0.00006, "0.01 %")],
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


def keys_in_the_source() -> list[re.Pattern[str]]:
    """The keys of the catalogue that the source has, as patterns: `f"section.{name}"` is any."""
    patterns = []
    for file in Path(schedlab.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                patterns.append(re.escape(node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = [
                    re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+"
                    for v in node.values
                ]
                patterns.append("".join(parts))
    return [re.compile(pattern) for pattern in set(patterns) if re.match(r"[a-z_]+\\\.", pattern)]


def test_every_text_of_the_catalogue_is_used() -> None:
    known = keys_in_the_source()
    unused = [key for key in catalogue("en") if not any(k.fullmatch(key) for k in known)]
    assert unused == []


def test_catalogues_have_the_same_keys_and_placeholders() -> None:
    def fields(value: str | list[str]) -> set[str]:
        texts = [value] if isinstance(value, str) else value
        return {f for text in texts for _, f, _, _ in string.Formatter().parse(text) if f}

    names = {key: key for key in catalogue("ko") if key.startswith("named.")}
    english = catalogue("en") | names  # the labels are English
    for language in LANGUAGES[1:]:
        entries = catalogue(language)
        units = {key for key in entries if key.startswith("unit.")}
        assert units == {"unit." + u for s in SCALES.values() for _, u in s if language == "ru"}
        assert entries.keys() - units == english.keys()
        forms = {key for key, text in entries.items() if isinstance(text, list)}
        assert forms == {key for key, text in english.items() if isinstance(text, list)}
        # A language may leave out what it does not need, such as the noun for times.
        odd = [
            k for k in english if not fields(entries[k]) <= fields(english[k]) | {"times", "limit"}
        ]
        assert odd == []


def test_every_check_of_a_run_has_a_name_in_every_language() -> None:
    code = "\n".join(path.read_text() for path in Path(schedlab.__file__).parent.rglob("*.py"))
    found = re.findall(r'\bGate(?:Finding|Error)\(\s*"([a-z-]+)"|^GATE = "([a-z-]+)"', code, re.M)
    named = {key.removeprefix("gate.") for key in catalogue("en") if key.startswith("gate.")}
    assert len(found) > 30
    assert {one or other for one, other in found} == named
