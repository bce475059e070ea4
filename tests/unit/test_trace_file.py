"""`schedlab trace stats` and `convert` on the real traces, and their complaints."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.cli import cli
from schedlab.errors import SpecError

DATA = Path(__file__).parents[1] / "data"
TPCC = DATA / "traces" / "tpcc-small.trace"


def trace(*arguments):
    result = CliRunner().invoke(cli, ["trace", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def stats(*arguments):
    return json.loads(trace("stats", *arguments, "--json").stdout)


@pytest.mark.parametrize(
    ("name", "requests", "bytes_", "span_s"),
    [
        ("tpcc-small.trace", 6999, 59_718_656, 0.136489),
        ("wsrch-small.trace", 24783, 382_117_888, 60.055212),
    ],
)
def test_the_real_traces_have_the_stated_counts_bytes_and_span(name, requests, bytes_, span_s):
    file = DATA / "traces" / name
    report = stats(file)
    assert report["format"] == "mqsim"
    summary = report["summary"]
    lines = [line.split() for line in file.read_text().splitlines()]
    assert summary["requests"] == requests == len(lines)
    assert summary["bytes"] == bytes_ == sum(int(line[3]) * 512 for line in lines)
    assert summary["reads"] == sum(line[4] == "1" for line in lines)
    assert summary["span_ns"] / 1e9 == pytest.approx(span_s, abs=1e-9)


@pytest.mark.parametrize(
    ("compress", "suffix"), [(gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz")]
)
def test_a_compressed_trace_is_the_same_trace(tmp_path, compress, suffix):
    file = tmp_path / f"t.{suffix}"
    file.write_bytes(compress(TPCC.read_bytes()))
    assert stats(file)["summary"] == stats(TPCC)["summary"]


@pytest.mark.parametrize("to", ["requests", "msr", "spc", "iolog", "alibaba", "systor", "disksim"])
def test_converting_keeps_counts_and_bytes(tmp_path, to):
    out = tmp_path / "out"
    trace("convert", TPCC, out, "--to", to)
    before, after = stats(TPCC)["summary"], stats(f"{out}:{to}")["summary"]
    assert (before["requests"], before["reads"]) == (after["requests"], after["reads"])
    if to != "requests":  # which has one device and whole pages
        assert before["bytes"] == after["bytes"]
        assert before["footprint_bytes"] == after["footprint_bytes"]
    assert after["span_ns"] == pytest.approx(before["span_ns"], abs=1000)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("text", "arguments", "message", "hint"),
    [
        ("1 0 0 8 1\nx\n", ["--reorder", "5"], r"line 2: expected arrival_ns", "--skip-bad-lines"),
        ("9 0 0 8 1\n1 0 0 8 1\n", ["--reorder", "0"], "line 2: is 8 ns earlier", "--reorder"),
    ],
)
def test_complaints_name_line_and_a_way_out(tmp_path, text, arguments, message, hint):
    file = tmp_path / "t"
    file.write_text(text)
    with pytest.raises(SpecError, match=message) as caught:
        trace("stats", f"{file}:mqsim", *arguments)
    assert hint in caught.value.hint


def test_bad_lines_are_counted_when_asked(tmp_path):
    file = tmp_path / "t"
    file.write_text("1 0 0 8 1\nx\n2 0 0 8 1\n")
    report = stats(f"{file}:mqsim", "--skip-bad-lines")
    assert (report["summary"]["requests"], report["skipped"]["bad"]) == (2, 1)


def test_a_clock_that_falls_back_far_is_a_warning(tmp_path):
    """Two captures of 0.4 s in one file, and one whose lines are a little late."""
    several, one = tmp_path / "several", tmp_path / "one"
    several.write_text("".join(f"0,{n},512,R,0.{n}\n" for n in (0, 2, 4)) * 2)
    one.write_text("".join(f"0,{n},512,R,0.{n}\n" for n in (0, 2, 1, 4, 8)))
    text = "the clock falls back by 0.400 s: if the file holds several captures, split it"
    assert text in trace("stats", several).output
    assert text in trace("convert", several, tmp_path / "out", "--to", "spc").output
    assert "falls back" not in trace("stats", one).output


def test_ambiguous_or_unwritable_formats_are_errors(tmp_path):
    file = tmp_path / "t"
    file.write_bytes(b"\x00\x01binary")
    with pytest.raises(SpecError, match="cannot recognise") as caught:
        trace("stats", file)
    assert caught.value.hint == "write FILE:FORMAT"
    with pytest.raises(SpecError, match='"tape" is not known'):
        trace("stats", f"{file}:tape")
    with pytest.raises(SpecError, match="cannot write trace format 'blktrace'"):
        trace("convert", TPCC, tmp_path / "out", "--to", "blktrace")
    with pytest.raises(SpecError, match="no such file"):
        trace("stats", tmp_path / "missing")
    file.write_text("1 0 0 8 1\nx\n")
    with pytest.raises(SpecError, match="line 2"):
        trace("convert", f"{file}:mqsim", tmp_path / "out", "--to", "msr")
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_a_line_that_does_not_fit_is_named_with_the_format_of_those_before_it(tmp_path):
    capture = "".join(f"  8,0 1 {n} 0.{n:09} 41 Q R {8 * n} + 8 [dd]\n" for n in range(1, 20))
    (tmp_path / "t").write_text(capture * 2)
    with pytest.raises(SpecError, match="it is blkparse up to line 20") as caught:
        stats(tmp_path / "t")
    assert caught.value.hint.endswith(f"{tmp_path / 't'}:blkparse")
