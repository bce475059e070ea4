"""Files of other programs that a reader cannot read: which program, and what does read them.

The one table of them, and the one refusal. A reader that fails asks `explained` before it complains
about a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.nouns.reading import open_regular

_START_BYTES = 64 << 10
#: What a mail puts before the lines that it quotes.
QUOTED = re.compile(r"^(?:> ?)+", re.MULTILINE)
_TABLE = "put its figures into a table: schedlab import csv results.csv"
COMMAND = "schedlab compare --metric 'NAME:UNIT=stdout~REGEX' -- COMMAND"


@dataclass(frozen=True)
class _Known:
    """A pattern of the first 64 KiB, what the file is, and what reads it. No pattern may begin with
    what spans lines or has no end: it would be tried anew at each of them.
    """

    pattern: str
    what: str
    way: str
    #: The importer, or the format of traces, that reads it.
    reader: str = ""


def _result(pattern: str, what: str) -> _Known:
    """A result that only a table, or its command run by schedlab, brings in."""
    return _Known(pattern, what, f"{_TABLE}; or measure again: {COMMAND}")


def _own(name: str, pattern: str) -> _Known:
    """A result that an importer reads."""
    return _Known(pattern, f"output of {name}", f"schedlab import {name} FILE --out DIR", name)


_TRACE = "schedlab trace stats FILE"
_OWN_DEVICE = (
    "take a shipped device and change its keys: --device nvme --set KEY=VALUE; "
    "schedlab docs ssd-simulator names them"
)
_KNOWN = (
    # Simulators: what they are told, and what they say.
    _Known(r"^[ \t]*(?:disksim_\w+|dm_disk|dm_layout_\w+|dm_mech_\w+)\s+(?:\S+\s+)?\{"
           r"|^Byte Order \(Endian\)", "a parameter file of DiskSim",
           "`tools/disksim` of the source tree converts it: schedlab docs disk-model"),
    _Known(r"<(?:Execution_Parameter_Set|Device_Parameter_Set|Host_Parameter_Set)\b",
           "a parameter file of MQSim", _OWN_DEVICE),
    _Known(r"<MQSim_IO_Scenarios\b|<IO_Scenario\b", "a parameter file of MQSim, of a workload",
           f"its trace (File_Path) is read by {_TRACE}:mqsim; of a device: {_OWN_DEVICE}"),
    _Known(r"<simplessd\b|^[ \t]*\[(?:pal|icl|hil)\]", "a parameter file of SimpleSSD",
           _OWN_DEVICE),
    _Known(r"^(?:RAM_READ_DELAY|BUS_CTRL_DELAY|SSD_SIZE|PACKAGE_SIZE)\s+\d",
           "a parameter file of FlashSim", _OWN_DEVICE),
    _Known(r"^[ \t]*(?:dram capacity|chip number|channel number)\s*=",
           "a parameter file of SSDsim", _OWN_DEVICE),
    _result(r"OVERALL I/O SYSTEM STATISTICS|\AIOdriver ", "a result of DiskSim"),
    _result(r"<MQSim_Results\b", "a result of MQSim"),
    # Recordings that another program has to print first.
    _Known(r"\APERFILE2", "a binary recording of perf",
           "perf script -i FILE > FILE.txt, then schedlab trace stats FILE.txt"),
    _Known(r"\A\x17\x08Dtracing", "a binary recording of trace-cmd",
           "trace-cmd report FILE > FILE.txt, then schedlab trace stats FILE.txt"),
    _Known(r"^TIME\(ms\)\s+DISK\s+COMM",
           "the output of biosnoop.bt, which has no offsets",
           "the biosnoop of bcc has them: schedlab trace stats FILE:biosnoop"),
    _Known(r"^COMM\s+PID\s+TYPE\s+DEV\s+BLOCK\s", "a table of iosnoop without times",
           "the biosnoop of bcc has them: schedlab trace stats FILE:biosnoop"),
    _result(r"^[ \t]*[mun]?secs\s+: count\s+distribution|^\[\d+[KMG]?, \d+[KMG]?\)\s+\d+ \|[@ ]*\|"
            r"|^[ \t]*>=\(\w{1,9}\) \.\. <\(", "a histogram of bcc or bpftrace, or of perf-tools"),
    _Known(r"^[ \t]*time\s+cpu\s+task name\s+wait time", "a table of perf sched timehist",
           "perf sched script > FILE has the events: schedlab import sched FILE --out DIR"),
    _Known(r"/\* CTF 1\.8", "the metadata of a CTF trace",
           "babeltrace2 DIR prints its events; recorded anew: schedlab trace io DEVICE --out FILE"),
    _Known(r"^[ \t]*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d{9}\s+\d+\s+[A-Z]{1,2}\s", "text of blkparse",
           f"{_TRACE}:blkparse", "blkparse"),
    _Known(r"\d:?[ \t]+(?:\w+:){0,2}block_(?:rq|bio)_\w+:\s", "block events of the kernel",
           f"{_TRACE}:ftrace", "ftrace"),
    _Known(r"^TIME\(s\)\s+COMM\s+PID\s+DISK", "a table of biosnoop",
           f"{_TRACE}:biosnoop", "biosnoop"),
    _Known(r"\d:?[ \t]+(?:\w+:){0,2}sched_switch:\s", "switches of tasks",
           "schedlab import sched FILE --out DIR, or schedlab sim cpu --tasks FILE", "sched"),
    # Results that an importer reads.
    _own("fio", r'"fio version"\s*:'),
    _own("sysbench", r"^sysbench \d|^Threads fairness:"),
    _own("pgbench", r"^pgbench \(|^transaction type: "),
    _own("schbench", r"^(?:(?:Wakeup|Request) Latencies|Latency) percentiles \(usec\)"),
    _own("hackbench", r"^Running in \w+ mode with \d+ groups|sched/messaging"),
    _own("iostat", r'"sysstat"\s*:\s*\{\s*"hosts"'),
    _own("iozone", r"Iozone: Performance Test of File I/O|Children see throughput for"
         r"|^[ \t]*[kK]B\s+reclen\s|\A\x09\x00\x04\x00"),  # the last: BIFF2, of -b
    _own("hdparm", r"^[ \t]*Timing .* reads?:\s"),
    _own("dmesg", r"CPU[Bb]urst: \d"),
    _own("time", r"^real\s+\d+m[\d.]+s\s*$|\b\d{1,9}%CPU \(|\selapsed \d{1,9}%CPU"),
    # Results that none reads.
    _Known(r"\A\d+, \d+, [012], (?:0|\d{3,})\s*$", "a log of fio without offsets",
           "fio --log_offset=1 writes them, no log_avg_msec: schedlab trace stats FILE:fio-log"),
    _Known(r"^\[[^\]\n]{1,99}\][ \t]*\n(?:[^\[\n]*\n){0,99}?[ \t]*(?:rw|readwrite|ioengine)[ \t]*=",
           "a job file of fio", "measure it: schedlab compare --fio FILE"),
    _Known(r"^\d;fio-\d", "fio's terse output",
           "run fio with --output-format=json+: schedlab import fio FILE --out DIR"),
    _Known(r"\(groupid=\d+, jobs=\d+\): err=", "fio's output for people",
           "run fio with --output-format=json+, or schedlab compare --fio JOB"),
    _Known(r"^avg-cpu:\s+%user|^Device\s+.*(?:tps|r/s)\s", "iostat's output for people",
           "iostat -o JSON -x -y 1 60 > FILE; schedlab import iostat FILE --out DIR"),
    _Known(r"^PID\s+COMM\s+D\s+MAJ\s+MIN\s+DISK\s", "a table of biotop, without requests",
           "the biosnoop of bcc has them: schedlab trace stats FILE:biosnoop"),
    _result(r"^procs -+memory-+ -+swap", "a result of vmstat"),
    _result(r"^(?:\d\.\d+,){2}|^Version\s+[\d.]+\s+-+Sequential Output",
            "a result of bonnie++"),
    _result(r"stress-ng: (?:info|metrc)", "a result of stress-ng"),
    _result(r"^T:\s*\d+ \(\s*\d+\) P:\s*\d+ I:\d+ C:", "a result of cyclictest"),
    _result(r"^--- .* ioping statistics ---", "a result of ioping"),
    _result(r"^Throughput [\d.]+ MB/sec .*\d+ procs", "a result of dbench"),
    _result(r"IO Summary:\s+\d+ ops", "a result of filebench"),
    _result(r"^\d+(?:\+\d+)? records (?:in|out)\s*$|bytes .* copied, ", "a result of dd"),
    _result(r'"results"\s*:\s*\[\s*\{\s*"command"', "a result of hyperfine"),
    _result(r"Performance counter stats for", "a result of perf stat"),
    _result(r"\[OVERALL\], RunTime\(ms\)", "a result of YCSB"),
    _result(r"Vdbench|vdbench", "a result of Vdbench"),
    _result(r"Command Line: .*diskspd|^Total IO\s*$", "a result of DiskSpd"),
    _result(r"BYTE UNIX Benchmarks|System Benchmarks Index", "a result of UnixBench"),
    _result(r"L M B E N C H", "a result of lmbench"),
)  # fmt: skip


def refuse_foreign(file: Path, text: str) -> None:
    """SpecError for the text of a device that is another program's."""
    if known := _recognised(text):
        raise SpecError(f"{file}: is {known.what}, not a device file", _way(known, file, text))


def explained(error: SpecError, paths: Iterable[Path], reader: str = "") -> SpecError:
    """The error of a reader, or what the first file that is recognised is and what reads it. The
    files of `reader` itself are its own to complain about.
    """
    for path in paths:
        try:
            text = _start(path, error.hint)
        except (OSError, SpecError):
            return error
        if reader and any(each.reader == reader and _matches(each, text) for each in _KNOWN):
            return error
        if known := _recognised(text):
            way = _way(known, path, text)
            return SpecError(f"{path}: is {known.what}, which is not read here", way)
    return error


def unread(path: str | Path, message: str) -> str:
    """The hint for a trace that cannot be read: `trace stats` says more of it, but not of one whose
    format it would not know either.
    """
    is_unknown = "cannot recognise" in message
    return f"name its format: {path}:FORMAT" if is_unknown else f"schedlab trace stats {path}"


def reader_of(path: Path, hint: str) -> str:
    """The importer that reads a file, by its contents; empty for one that is not recognised.
    SpecError, with the hint, for no regular file.
    """
    known = _recognised(_start(path, hint))
    return known.reader if known else ""


def _start(path: Path, hint: str) -> str:
    with open_regular(path, hint) as file:
        return QUOTED.sub("", file.read(_START_BYTES).decode("latin-1"))


def _recognised(text: str) -> _Known | None:
    return next((each for each in _KNOWN if _matches(each, text)), None)


def _matches(known: _Known, text: str) -> bool:
    return bool(re.search(known.pattern, text[:_START_BYTES], re.MULTILINE))


def _way(known: _Known, file: Path, text: str) -> str:
    way = re.sub(r"\bFILE\b(?!\.)", lambda _: str(file), known.way)
    found = re.search(known.pattern, text, re.MULTILINE)
    # Requests in a document: its other lines are none.
    is_within = found is not None and "\n" in text[: found.start()].lstrip()
    return f"{way} --skip-bad-lines" if is_within and way.startswith(_TRACE[:-5]) else way
