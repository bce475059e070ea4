"""IOzone: text, -R and BIFF2 (-b).

The text is of throughput mode or the table. Record sizes are whole kB, and IOzone's kB are 1024
bytes. The table leaves the columns of tests that were not run blank (`-i 0 -i 2`), so a figure
belongs to the column above it, not to the next one. Layouts of 3.3 to 3.5 differ in their widths;
the header states them.
"""

from __future__ import annotations

import getopt
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.nouns.quantities import size_text
from schedlab.nouns.reading import open_regular, read_bytes
from schedlab.store.importers import biff2
from schedlab.store.importers.imported import Imported, Options, Reading, assemble
from schedlab.store.importers.text import WHOLE_HINT, bad, number_at, unquoted_lines

_KIB = 1024
# Throughput mode's name -> ours.
_THROUGHPUT_TESTS = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "re-read",
    "reverse readers": "reverse read",
    "stride readers": "stride read",
    "random readers": "random read",
    "mixed workload": "mixed",
    "random writers": "random write",
    "pwrite writers": "pwrite",
    "pread readers": "pread",
    "fwriters": "fwrite",
    "freaders": "fread",
}
# The columns of the table, and of `-R` the titles, in IOzone's order.
_TABLE_TESTS = (
    "write", "rewrite", "read", "re-read", "random read", "random write", "reverse read",
    "record rewrite", "stride read", "fwrite", "re-fwrite", "fread", "re-fread",
)  # fmt: skip
_TITLES = (
    "writer", "re-writer", "reader", "re-reader", "random read", "random write",
    "backward read", "record rewrite", "stride read", "fwrite", "re-fwrite", "fread", "re-fread",
)  # fmt: skip
_HEADER = "kb reclen write rewrite read reread read write read rewrite read"
# A figure ends at most so far from the end of its header: a wide one moves those after it.
_OFF_MAX = 3
_DIGITS_MAX = 9
_CHILDREN_START = "Children see throughput for"
_CHILDREN = re.compile(
    r"\s*Children see throughput for\s+(\d+)\s+(\S.*?)\s*=\s*([\d.]+)\s*(\S+)\s*"
)
_RECORD = re.compile(r'\s*"?Record [Ss]ize\s*=?\s*(\d+)\s*[kK][Bb](?:ytes)?\s*"?\s*')
_FILE = re.compile(r"\s*(?:File size set to|Each process writes a) (\d+) [kK][Bb]")
_SIZE = re.compile(r"(\d{1,12})([kmg]?)", re.IGNORECASE)
_NO_TEST = re.compile("CPU utili[sz]ation", re.IGNORECASE)
_COMPLETE = "iozone test complete."
# iozone -a -f /mnt/x: the last absolute path of a command.
_COMMAND = re.compile(r".*\biozone\s+-.*\s(/[^\s`]+)")
_BELOW = "Excel output is below"
# The options of 3.489, those with a value before a colon, for the command line in the file of `-b`.
_OPTIONS = "ZQNIBDGCTOMREWovAxamwphcezKJ:j:k:V:r:t:s:f:F:d:l:u:U:S:L:H:+:P:i:b:X:Y:g:n:y:q:"
# unit -> (metric, factor)
_UNITS = {
    "kB/sec": ("throughput_bytes_per_s", 1024.0),
    "KB/sec": ("throughput_bytes_per_s", 1024.0),
    "ops/sec": ("iops", 1.0),
    "microsec/op": ("latency_ns_mean", 1e3),
}


@dataclass(frozen=True)
class _Figure:
    place: str
    test: str
    record_bytes: int
    value: float
    unit: str = "kB/sec"
    file_bytes: int = 0
    workers: int = 1
    subject: str = ""


def read(files: Sequence[tuple[str, Path]], options: Options) -> Imported:
    """The import of (candidate, file) pairs; SpecError naming file and line."""
    notes: list[str] = []
    figures = [(candidate, f) for candidate, file in files for f in _figures(file, notes)]
    sizes = {f.file_bytes for _, f in figures}
    crowds = {f.workers for _, f in figures}
    readings = []
    for candidate, f in figures:
        metric, factor = _UNITS[f.unit]
        parameters = {"test": f.test.replace(" ", "-"), "record_bytes": f.record_bytes}
        label = f"{f.test} {size_text(f.record_bytes)}"
        if f.file_bytes:
            parameters["file_bytes"] = f.file_bytes
            label += f" of {size_text(f.file_bytes)}" if len(sizes) > 1 else ""
        parameters["workers"] = f.workers
        label += f" x{f.workers}" if len(crowds) > 1 else ""
        readings.append(
            Reading(
                f.place,
                candidate,
                label,
                {metric: f.value * factor},
                settings={"scheduler": candidate},
                parameters=parameters,
                subject=f.subject,
            )
        )
    options = options.noted(notes)
    return assemble(readings, options, {"format": "iozone", "file": str(files[0][1])})


def _figures(file: Path, notes: list[str]) -> list[_Figure]:
    """All figures of one file, in any of the layouts; what was assumed of it goes to `notes`."""
    if file.is_file() and read_bytes_start(file) == b"\x09\x00\x04\x00":
        return list(_sheet(file))
    lines = list(_text(file))
    subjects = _subjects(lines)
    return [replace(f, subject=subjects[f.place]) for f in _of_lines(file, lines, notes)]


def _subjects(lines: list[tuple[str, str]]) -> dict[str, str]:
    """By place the file or disk of the command that was shown last."""
    subject, subjects = "", {}
    for place, line in lines:
        if match := _COMMAND.match(line[:4096]):
            subject = match[1]
        subjects[place] = subject
    return subjects


def _of_lines(file: Path, lines: list[tuple[str, str]], notes: list[str]) -> list[_Figure]:
    if any(_CHILDREN_START in line for _, line in lines):
        figures = list(_throughput_mode(file, lines))
        return _ended(file, lines, figures, notes)
    if any(_BELOW in line or _title(line.strip()) for _, line in lines):
        return list(_from_reports(_rates(_report_rows(lines)), _unit_of(lines)))
    return _ended(file, lines, list(_table_mode(file, lines)), notes)


def _ended(
    file: Path, lines: list[tuple[str, str]], figures: list[_Figure], notes: list[str]
) -> list[_Figure]:
    """The figures of an output that ends with IOzone's last line, or after a whole line.

    Tables are often kept without what is below them. SpecError where the last line was cut.
    """
    last = figures[-1].place if figures else ""
    behind = itertools.dropwhile(lambda each: last and each[0] != last, lines)
    if not any(_is_end(line) for _, line in behind):
        if not read_bytes(file, WHOLE_HINT, 16 << 20).endswith((b"\n", b"\r")):
            hint = "complete its last line and end it with a newline, or delete it"
            raise bad(str(file), f"the last line `{_COMPLETE}`", "an output that was cut off", hint)
        notes.append(f"{file}: without its last line `{_COMPLETE}`: the test may have been stopped")
    return figures


def read_bytes_start(file: Path) -> bytes:
    """The first four bytes of a file."""
    with open_regular(file, "name a readable file") as opened:
        return opened.read(4)


def _text(file: Path) -> Iterator[tuple[str, str]]:
    """The lines of an output, of at most 16 MiB."""
    read_bytes(file, WHOLE_HINT, 16 << 20)
    return unquoted_lines(file)


def _above_zero(place: str, what: str, text: str) -> float:
    value = number_at(place, what, text)
    if not value > 0:
        raise bad(place, f"a {what} above 0", text)
    return value


def _kib(place: str, what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 13 and int(text)):
        raise bad(place, f"whole kB as {what}", text)
    return int(text) * _KIB


def _throughput_mode(file: Path, lines: list[tuple[str, str]]) -> Iterator[_Figure]:
    files = _file_sizes(lines)
    for place, line, size in _with_record_sizes(file, lines):
        match = _CHILDREN.fullmatch(line)
        if match is None:
            raise bad(place, f"{_CHILDREN_START} N TESTERS = RATE UNIT", line)
        test, unit = _THROUGHPUT_TESTS.get(match[2]), match[4]
        if test is None:
            raise bad(place, f"one of {', '.join(_THROUGHPUT_TESTS)}", match[2])
        if unit not in _UNITS:
            raise bad(place, f"a rate in {', '.join(_UNITS)}", unit)
        value = _above_zero(place, "rate", match[3])
        yield _Figure(place, test, size, value, unit, files[place], int(match[1][:6]))


def _file_sizes(lines: list[tuple[str, str]]) -> dict[str, int]:
    """By place the file size that was stated last, in bytes; 0 where there is none."""
    size, sizes = 0, {}
    for place, line in lines:
        if match := _FILE.match(line):
            size = _kib(place, "file size", match[1])
        sizes[place] = size
    return sizes


def _with_record_sizes(file: Path, lines: list[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
    """(place, line, record size) of the lines with a rate. The summary below them has their size;
    without one, the size above them, if there is only one.
    """
    sizes = [m[1] for _, line in lines if (m := _RECORD.fullmatch(line))]
    if not sizes:
        raise bad(str(file), "a line `Record size = N kBytes`", "none")
    below = ""
    found = []
    for place, line in reversed(lines):
        if match := _RECORD.fullmatch(line):
            below = match[1] if "=" in line else ""
        elif _CHILDREN_START in line:
            if not below and len(set(sizes)) > 1:
                hint = "split the file, one record size each"
                raise bad(place, "one record size", ", ".join(f"{s} kB" for s in sizes), hint)
            found.append((place, line, _kib(place, "record size", below or sizes[0])))
    return reversed(found)


def _unit_of(lines: list[tuple[str, str]]) -> str:
    for _, line in lines:
        if "Output is in operations per second" in line:
            return "ops/sec"
        if "Output is in microseconds per operation" in line:
            return "microsec/op"
    return "kB/sec"


def _table_mode(file: Path, lines: list[tuple[str, str]]) -> Iterator[_Figure]:
    unit = _unit_of(lines)
    ends: list[int] = []
    rows = 0
    for place, raw in lines:
        line = raw.expandtabs()
        words = line.split()
        if " ".join(words).lower().startswith(_HEADER):
            ends = _ends(line)
        elif _is_end(line):
            ends = []
        elif ends and words and words[0].isdigit():
            rows += 1
            size = _kib(place, "file size", words[0])
            record = _kib(place, "reclen", words[1] if len(words) > 1 else "nothing")
            for test, text in _by_column(place, line, ends):
                value = number_at(place, test, text)
                if value > 0:
                    yield _Figure(place, test, record, value, unit, size)
        elif ends and words:
            raise bad(place, "a row of the table, or `iozone test complete.`", line)
    if not rows:
        raise bad(str(file), "output of IOzone (throughput mode, table, -R or -b)", "none of them")


def _is_end(line: str) -> bool:
    """Whether a line is the last one of an output, or of a block of code that shows it."""
    return _COMPLETE in line or line.strip() == "```"


def _ends(line: str) -> list[int]:
    """Where the words of a line end."""
    return [match.end() for match in re.finditer(r"\S+", line)]


def _by_column(place: str, line: str, header: list[int]) -> Iterator[tuple[str, str]]:
    """(test, figure) of a row; SpecError when its figures are not below the header's words."""
    words, ends = line.split()[2:], _ends(line)
    tests = _TABLE_TESTS[: len(header) - 2]
    if len(words) == len(tests):
        yield from zip(tests, words, strict=True)
        return
    # Indentation that was lost moves all columns of a row alike.
    moved = ends[0] - header[0]
    columns = [end + moved for end in header[2 : 2 + len(tests)]]
    aligned = len(ends) > 2 and abs(ends[1] - header[1] - moved) <= 1
    before = -1
    for text, end in zip(words, ends[2:], strict=True):
        nearest = min(range(len(columns)), key=lambda i: abs(columns[i] - end))
        off = abs(columns[nearest] - end)
        if not aligned or off > _OFF_MAX or nearest <= before or len(text) > _DIGITS_MAX:
            hint = "keep IOzone's own spaces, or use -R or -b"
            raise bad(place, "figures below the header's columns", line.strip(), hint)
        before = nearest
        yield tests[nearest], text


def _report_rows(lines: list[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """(place, cells) of the reports: from the first title, or from `Excel output is below:`, on."""
    below = False
    for place, line in lines:
        text = line.strip()
        if _BELOW in text or _is_end(text):
            below = _BELOW in text
            continue
        below = below or bool(_title(text))
        if below and text:
            is_one = _title(text) or (text.count('"') == 2 and text[0] == text[-1] == '"')
            yield place, [text.strip('"')] if is_one else [w.strip('"') for w in text.split()]


def _title(text: str) -> str:
    """The test of a report's title; empty for any other text."""
    name = text.strip('"').lower().removesuffix(" report")
    return name if name in _TITLES and name != text.strip('"').lower() else ""


def _sheet(file: Path) -> Iterator[_Figure]:
    """Figures of a BIFF2 file, below the command line in its first row."""
    cells = biff2.cells(file)
    command = " ".join(str(cell) for cell in cells.pop(0, {}).values())
    try:
        typed, _ = getopt.gnu_getopt(command.split()[1:], _OPTIONS)
    except getopt.GetoptError as error:
        raise bad(f"{file}, row 1", "a command line of IOzone", command) from error
    texts = (
        (f"{file}, row {number + 1}", [_text_of(row[column]) for column in sorted(row)])
        for number, row in sorted(cells.items())
    )
    rows = [(place, words) for place, row in texts if (words := [word for word in row if word])]
    if any(words[0].startswith("Throughput report") for _, words in rows):
        yield from _from_summary(rows, _crowds(typed), _file_bytes(typed))
        return
    flags = {flag for flag, _ in typed}
    unit = "ops/sec" if "-O" in flags else "microsec/op" if "-N" in flags else "kB/sec"
    yield from _from_reports(_rates(rows), unit)


def _text_of(cell: float | str) -> str:
    return cell.strip() if isinstance(cell, str) else f"{cell:.17g}"


def _rates(rows: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """The rows of tests; the line above all, and what is about CPU time, are left out."""
    wanted = True
    for place, words in rows:
        if len(words) == 1 and not words[0].isdigit():
            wanted = not _NO_TEST.search(words[0])
        if wanted and not words[0].startswith("The top row is"):
            yield place, words


def _crowds(typed: list[tuple[str, str]]) -> list[int]:
    """The numbers of processes of `-t`, or from `-l` to `-u`; empty where none is said."""
    values = [(flag, int(text)) for flag, text in typed if flag in "-t-l-u" and text.isdigit()]
    said = dict(values)
    return [n for flag, n in values if flag == "-t"] or list(
        range(said.get("-l", 1), said.get("-u", 0) + 1)
    )


def _file_bytes(typed: list[tuple[str, str]]) -> int:
    """The size of `-s` (plain numbers are kB), or IOzone's own; 0 for another text."""
    match = _SIZE.fullmatch(dict(typed).get("-s", "512"))
    return int(match[1]) << {"m": 20, "g": 30}.get(match[2].lower(), 10) if match else 0


def _from_summary(
    rows: list[tuple[str, list[str]]], crowds: list[int], file_bytes: int
) -> Iterator[_Figure]:
    """Figures of a throughput report: a row per test, a column per number of processes."""
    size, unit, is_rate = 0, "", False
    for place, (name, *texts) in rows:
        if "report Y-axis" in name:
            is_rate = name.startswith("Throughput")
        elif match := _RECORD.fullmatch(name):
            size = _kib(place, "record size", match[1])
        elif name.startswith("Output is in "):
            unit = name.removeprefix("Output is in ").replace("kBytes", "kB")
        elif is_rate:
            test = {"initial write": "write", "mixed workload": "mixed"}.get(
                name.lower(), name.lower()
            )
            if test not in _THROUGHPUT_TESTS.values() or unit not in _UNITS or not size:
                raise bad(place, "a test of throughput mode, below its size and unit", name)
            if len(texts) != len(crowds):
                found = f"{len(texts)} figures and {len(crowds)} numbers of processes"
                raise bad(place, "a figure per number of processes (-t, -l, -u)", found)
            for workers, text in zip(crowds, texts, strict=True):
                value = number_at(place, "rate", text)
                if value > 0:
                    yield _Figure(place, test, size, value, unit, file_bytes, workers)


def _from_reports(rows: Iterator[tuple[str, list[str]]], unit: str) -> Iterator[_Figure]:
    """Figures of titled reports: a row of record sizes, then rows by file size; 0: not run."""
    test, records, any_report = "", list[int](), False
    for place, cells in rows:
        title = cells[0].lower() if len(cells) == 1 else ""
        if title.endswith(" report"):
            name = title.removesuffix(" report")
            if name not in _TITLES:
                raise bad(place, f"a report of {', '.join(_TITLES)}", cells[0])
            test, records = _TABLE_TESTS[_TITLES.index(name)], []
        elif not test:
            raise bad(place, 'a title such as "Writer report"', " ".join(cells))
        elif not records:
            records = [_kib(place, "record size", text) for text in cells]
        else:
            size = _kib(place, "file size", cells[0])
            if len(cells) - 1 > len(records):
                raise bad(place, f"at most {len(records)} figures", f"{len(cells) - 1} figures")
            for record, text in zip(records, cells[1:], strict=False):
                value = number_at(place, test, text)
                if value > 0:
                    any_report = True
                    yield _Figure(place, test, record, value, unit, size)
    if not any_report:
        raise bad("the reports", "at least one figure above 0", "none")
