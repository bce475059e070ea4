"""Numbers, units, durations, nouns and names of metrics, in words of each language."""

import ast
import io
import math
import re
import string
from functools import partial
from pathlib import Path

import openpyxl
import pytest
import xlsxwriter

import schedlab
from schedlab.errors import SpecError
from schedlab.nouns import METRICS, Metric
from schedlab.nouns.quantities import size_text
from schedlab.report import tables, words, workbook
from schedlab.report.texts import (
    LANGUAGES,
    SCALES,
    Texts,
    UnitScale,
    catalogue,
    percent_decimals,
    plural_form,
)
from schedlab.report.view import flatten, percentiles, record_bytes

EN, KO, RU = (Texts(language) for language in LANGUAGES)
# Upper ends 1, 2, 4 and 8 µs; 12,000 requests, so that 99.9 % still have 12 beyond them.
HISTOGRAM = ((4000, 8000, 12), (0, 1000, 6000), (1000, 2000, 5400), (2000, 4000, 588))


def plain(text):
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
def test_the_language_is_that_of_messages(environment, language, monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Texts(None).language == language


def test_unknown_language_names_the_known_ones():
    with pytest.raises(SpecError, match="'de'") as error:
        Texts("de")
    assert "ru" in error.value.hint


def scaled(values, unit):
    scale = UnitScale.fitting(values, unit)
    return f"{scale.factor:g} {scale.unit}"


def amount(ratio, end):
    return words.amount(EN, math.log(ratio), end)


def metric(name, title=""):
    return EN.metric(METRICS.get(name) or Metric(name, "", True, title))


# What writes a figure, and figures on both sides of every limit that it has.
FORMATS = {
    EN.quantity: [
        (61447.99 * 1024, "B/s"), (2_140_000, "ns"), (851, "ns"), (0.00123, "s"), (82.17, "s"),
        (354_000, "1/s"), (0.998, ""), (61447.99, "KiB/s"), (9999.6, "B/s"), (2.0, ""),
        (999.7e3, "ns", 3), (999.7e3, "ns", 2), (999.4e3, "ns", 3), (995e3, "ns", 2),
        (999.96e3, "ns", 4),
    ],
    scaled: [
        ([800e6, 1.2e9], "B/s"), ([999e3], "B/s"), ([1e6], "B/s"), ([0.99995e6], "B/s"),
        ([1e3, 1e9], "B"), ([0, -5e3, math.inf], "ns"), ([], "1/s"), ([1e-9], "s"), ([5], "B/s"),
        ([5], "B"), ([5], "ns"), ([5e9], "B"), ([5e9], "B/s"), ([5e9], "ns"), ([5e-3], "s"),
        ([5e6], "1/s"), ([2.0], "widgets"),
    ],
    size_text: [
        (0,), (1,), (1023,), (1024,), (1536,), (512 << 10,), ((1 << 20) - 1024,), (1 << 20,),
        (3 << 19,), (1023 << 20,), (1 << 30,), (5 << 29,), (2048 << 30,), (1234567,), (1234567, 3),
    ],
    EN.figure: [
        (1234.5,), (999.6,), (99.96,), (12.345,), (9.996,), (0.012345,), (1e-9,), (-4e-6,),
        (1.2e-5,), (0.0,), (-2.5,), (math.nan,), (123456, 2), (0.0666, 2),
    ],
    EN.number: [(-0.004, 2), (-0.006, 2)],
    RU.number: [(1234.5, 1)],
    EN.duration: [
        (0,), (0.5,), (9.94,), (9.96,), (99.4,), (0.04,), (0.05,), (100,), (149,), (151,), (7169,),
        (7200,), (7500,), (90000,),
    ],
    EN.percent: [
        *((v, signed) for v in (0.0361, -0.0361, 0.00094, 0.00095, 0.994, 1.0, 8.9, 9, 0, 0.00001)
          for signed in (True, False)),
    ],
    percent_decimals: [(v,) for v in (0, 0.09, 0.095, -99.9, 100)],
    EN.margin: [(v,) for v in (0.02, 0.025, 0.95, 0.005, 0.0025, 0.01, 0)],
    partial(words.share, EN): [
        (0,), (0.0005,), (0.00094,), (0.00096,), (0.034,), (0.03,), (0.0994,), (0.0996,), (0.123,),
        (1.0,), (1.4,), (1000,), (0.00002,), (0.00006,),
    ],
    amount: [
        (1.1234, "point"), (1.1234, "up"), (1.1234, "low"), (1.0723, "up"), (1.0723, "low"),
        (1.00042, "up"), (1.0996, "up"), (9.996, "up"), (1.995, "up"), (2.34, "point"),
        (2.34, "up"), (16.9, "low"), (2.0, "point"), (12345, "up"), (1.0, "up"), (1e300, "point"),
    ],
    metric: [
        ("latency_ns_p99",), ("latency_ns_p99_9",), ("reader_latency_ns_max",), ("wakeup_ns_p50",),
        ("response_ns_mean",), ("mean_read_ms",), ("max_write_ncq_ms",), ("iops",),
        ("odd_latency_ns_p50",), ("other_thing",), ("other", "a title"),
    ],
    record_bytes: [
        ({"record_bytes": v},) for v in (4096, "8192", 1.0, 0, -1, "x", None)
    ] + [({},)],
}  # fmt: skip


def test_figures_as_people_read_them(golden):
    lines = [
        f"{getattr(write, '__qualname__', 'share')}{values}: {write(*values)}"
        for write, cases in FORMATS.items()
        for values in cases
    ]
    golden("formats.txt", plain("\n".join(lines)).replace("\u202f", " "))
    assert EN.duration(0.5) == "0.5\u00a0s"


def test_tables_are_flattened():
    value = {"a": {"b": 1, "c": [1, 2]}, "d": [{"e": 3}, {"e": 4}], "f": [[5], [6]], "g": None}
    assert flatten(value) == [
        ("a.b", 1), ("a.c", "1, 2"), ("d.1.e", 3), ("d.2.e", 4), ("f.1", "5"), ("f.2", "6"),
        ("g", None),
    ]  # fmt: skip
    assert flatten(7, "x") == [("x", 7)]


def test_percentiles_are_upper_ends_of_their_bins():
    found = percentiles(HISTOGRAM, [0.999, 0.0, 0.5, 0.501, 0.95, 0.9990001])
    assert found == [(0.0, 1000), (0.5, 1000), (0.501, 2000), (0.95, 2000), (0.999, 4000),
                     (0.9990001, 8000)]  # fmt: skip
    assert percentiles([(0, 5, 19)], [0.5]) == []
    assert percentiles([(0, 5, 20)], [0.5]) == [(0.5, 5.0)]
    assert percentiles([], [0.5]) == []


def test_nouns_and_their_forms():
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


def modules():
    """The files of both packages."""
    home = Path(schedlab.__file__).parents[1]
    return [path for name in ("schedlab", "schedlab_sim") for path in (home / name).rglob("*.py")]


def keys_in_the_source():
    """The keys of the catalogue that the source has, as patterns: `f"section.{name}"` is any."""
    patterns = []
    for file in modules():
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


def test_every_text_of_the_catalogue_is_used():
    known = keys_in_the_source()
    keys = {key.removeprefix("virtual.") for key in catalogue("en")}
    unused = [key for key in keys if not any(k.fullmatch(key) for k in known)]
    assert unused == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_in_virtual_time_nothing_is_proven_and_no_machine_makes_noise(language):
    """Each text for one boot that says so has another for virtual time."""
    word = {"en": "proven", "ko": "입증", "ru": "доказан"}[language]
    usual, virtual = Texts(language), Texts(language).of_medium("virtual")
    of_others = ("keep_hosts", "replay", "fleet.", ".better", ".worse")
    said = [
        key
        for key, text in virtual.entries.items()
        if word in str(text) and virtual.entries is not usual.entries
        and not any(other in key for other in of_others)
    ]  # fmt: skip
    assert said == []
    noise = {
        "en": "something else affect|calmer|disturbs the machine|the machine (changed|stayed)",
        "ko": "다른 요인이|한가한 시스템|방해하는 것을|시스템이 .* 변했|시스템 상태가 변하지",
        "ru": "влия\\w+ что-то ещё|менее занятая|мешает машине|машина (изменилась|не мен)",
    }
    found = re.compile(noise[language])
    assert [key for key, text in virtual.entries.items()
            if found.search(str(text)) and not key.startswith("virtual.")] == []  # fmt: skip
    assert len([text for text in usual.entries.values() if found.search(str(text))]) >= 6
    own = [key for key in usual.entries if key.startswith("virtual.")]
    assert own and all(key.removeprefix("virtual.") in usual.entries for key in own)
    assert usual.of_medium("").entries is usual.of_medium("emulated").entries is usual.entries


def test_catalogues_have_the_same_keys_and_placeholders():
    def fields(value):
        texts = [value] if isinstance(value, str) else value
        return {f for text in texts for _, f, _, _ in string.Formatter().parse(text) if f}

    names = {
        key: key
        for key in catalogue("ko")
        if key.startswith(("named.", "play.rule.")) or key.removeprefix("metric.") in METRICS
    }
    english = catalogue("en") | names  # labels, and titles of metrics, are English
    for language in LANGUAGES[1:]:
        entries = catalogue(language)
        units = {key for key in entries if key.startswith("unit.")}
        assert units == {
            "unit." + u for s in SCALES.values() for _, u in s if u and language == "ru"
        }
        assert entries.keys() - units == english.keys()
        forms = {key for key, text in entries.items() if isinstance(text, list)}
        assert forms == {key for key, text in english.items() if isinstance(text, list)}
        # A language may leave out what it does not need, such as the noun for times.
        odd = [
            k for k in english if not fields(entries[k]) <= fields(english[k]) | {"times", "limit"}
        ]
        assert odd == []


def test_every_check_of_a_run_has_a_name_in_every_language():
    code = "\n".join(path.read_text() for path in modules())
    found = re.findall(r'\bGate(?:Finding|Error)\(\s*"([a-z-]+)"|^GATE = "([a-z-]+)"', code, re.M)
    named = {key.removeprefix("gate.") for key in catalogue("en") if key.startswith("gate.")}
    assert len(found) > 30
    assert {one or other for one, other in found} == named


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_count_has_no_unit(language):
    assert Texts(language).quantity(17, "1", 2) == Texts(language).quantity(17, "", 2) == "17"


def test_a_name_of_one_letter_is_written_and_nothing_is_an_empty_cell():
    columns = [tables.Column("a", text=True), tables.Column("b", text=True)]
    columns.append(tables.Column("c"))
    rows = [["x", "s", None], ["y", "tsb", 1.5]]
    table = tables.build(Texts("en"), "t", "t", columns, rows)
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, workbook.OPTIONS) as book:
        sheet = workbook.Sheet(book, Texts("en"), "tables", workbook._formats(book))
        sheet.table(table, titled=False)
    (_, *written) = openpyxl.load_workbook(file)["Tables"].iter_rows(max_row=3, values_only=True)
    assert written == [tuple(row) for row in rows]
