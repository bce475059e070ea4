"""Fuzz what comes from foreign files: `python fuzz/importers.py [FORMAT] SECONDS [SEED]`.

Half of the inputs are written from known figures, which must come back; the other half are damaged
ones. An importer without known figures gets damaged files of the others. Each is imported or
refused with a SchedlabError, within 20 s. Figures of a damaged file are finite, and where a figure
is a number times a unit the file has that number. Once a second an accepted input goes on to its
report: a result folder and its page, or a simulation of the trace. Resident memory stays within 512
MiB.
"""

import math
import random
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import traces
import truths
from mutation import checked, mutate

from schedlab.errors import SchedlabError
from schedlab.result import Result
from schedlab.store.importers import IMPORTERS
from schedlab.store.importers.csv import Columns
from schedlab.store.importers.imported import Options

RESIDENT_KIB_MAX = 512 << 10
COLUMNS = Columns(("who",), "speed", unit="KiB/s", block="n")
# format -> (files of known figures, units in which the file may have a figure)
TARGETS = {
    "csv": (truths.csv_rows, (1024,)),
    "iozone": (truths.iozone, (1, 1000, 1024)),
    "fio": (truths.fio, ()),
    "hdparm": (truths.hdparm, (1024, 1 << 20)),
    "dmesg": (truths.kernel_log, ()),
    "time": (truths.shell_time, ()),
    "sysbench": (truths.sysbench, ()),
    "pgbench": (truths.pgbench, ()),
    "schbench": (truths.schbench, ()),
    "hackbench": (truths.hackbench, ()),
    "iostat": (truths.iostat, ()),
    "sched": (truths.switches, ()),
}
# What the importer is given, where that is not only a candidate's file.
ARGUMENTS = {
    "csv": lambda file: (file, COLUMNS, Options()),
    "time": lambda file: ([("a", file)], "w", Options()),
}
_NUMBER = re.compile(rb"[0-9.]+(?:[eE][+-]?[0-9]+)?")


def check_truth(name, imported, runs):
    """The metrics of the runs are those of the file, to the last digits of a float."""
    actual = [dict(run.metrics) for run in imported.runs]
    assert [set(run) for run in actual] == [set(run) for run in runs], (name, actual, runs)
    for one, known in zip(actual, runs, strict=True):
        for metric, value in known.items():
            assert math.isclose(one[metric], value, rel_tol=1e-9), (name, metric, one, known)


def check_figures(name, imported, data, units):
    """Every figure is finite and from 0; one that is a number times a unit is in the file."""
    # A BIFF file has its numbers in binary, and text may have digits of other scripts.
    numbers = None
    if units and data.isascii() and not data.startswith(b"\x09\0"):
        # A figure may have commas, spaces or apostrophes between its thousands.
        both = data + b"\n" + re.sub(rb"(?<=\d)[,' ](?=\d{3})", b"", data)
        numbers = {float(text) for text in _NUMBER.findall(both) if text.count(b".") < 2
                   and any(48 <= byte <= 57 for byte in text)}  # fmt: skip
    for run in imported.runs:
        for metric, value in run.metrics.items():
            assert 0 <= value < math.inf, f"{name}: {metric} = {value}"
            known = numbers is None or any(value / unit in numbers for unit in units)
            assert known, f"{name}: {metric} = {value} is not in the file"


def to_report(imported, folder):
    """Store an import, load it again, and write its answer and its page."""
    imported.save(folder)
    result = Result.load(folder)
    stored = [run.metrics for run in result.record.runs]
    assert stored == [run.metrics for run in imported.runs], "stored figures differ"
    assert "nan" not in result.text().split(), "a figure without a value"
    result.write_html(folder / "page.html")


def fuzz_importer(name, seconds, seed, place):
    """Fuzz one importer; a sentence about it."""
    write, units = TARGETS.get(name, (None, ()))
    arguments = ARGUMENTS.get(name, lambda file: ([("a", file)], Options()))
    rng = random.Random(seed)
    file = place / "input"
    tried = accepted = reports = 0
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        data, runs = (write or rng.choice([*TARGETS.values()])[0])(rng)
        if damaged := not write or rng.random() < 0.5:
            data = mutate(rng, data)
        tried += 1
        file.write_bytes(data)
        with checked(f"crash-{name}-{seed}-{tried}", data):
            try:
                imported = IMPORTERS[name].read(*arguments(file))
            except SchedlabError:
                assert damaged, f"{name}: refused a file that is right"
                continue
            accepted += damaged
            if not damaged:
                check_truth(name, imported, runs)
            check_figures(name, imported, data, units)
            if reports <= elapsed:
                to_report(imported, place / f"{name}-{reports}")
                reports += 1
    return (
        f"{name}: {tried} inputs in {seconds:g} s, {accepted} damaged ones accepted, "
        f"{reports} up to the report"
    )


def fuzz_trace(form, seconds, seed, place):
    """Fuzz one format of traces up to the simulation; a sentence about it."""
    rng = random.Random(seed)
    file = place / "trace"
    tried = accepted = simulated = 0
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        tried += 1
        with checked(f"crash-{form}-{seed}-{tried}", b""):
            data = traces.check_truth(rng, form, file)
        with checked(f"crash-{form}-{seed}-{tried}", data):
            is_understood = traces.check_damaged(rng, form, file, data)
            accepted += is_understood
            if is_understood and simulated <= 10 * elapsed:
                traces.check_simulated(form, file)
                simulated += 1
    return (
        f"trace {form}: {tried} inputs in {seconds:g} s, {accepted} damaged ones understood, "
        f"{simulated} simulated"
    )


# what to fuzz -> the function that does
JOBS = {
    **dict.fromkeys(IMPORTERS, fuzz_importer),
    **dict.fromkeys(traces.FORMS, fuzz_trace),
}


def main():
    """Fuzz what the arguments name."""
    arguments = sys.argv[1:]
    names = [arguments.pop(0)] if arguments and arguments[0] in JOBS else list(JOBS)
    seconds = float(arguments[0]) if arguments else 10.0
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(JOBS[name](name, seconds, seed, Path(folder)), flush=True)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak_kib > RESIDENT_KIB_MAX:
        raise MemoryError(f"{peak_kib >> 10} MiB")
    print(f"resident memory at most {peak_kib >> 10} MiB")


if __name__ == "__main__":
    main()
