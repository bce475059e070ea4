"""Our file tests as the text of IOzone's `-R`: a report per test, rows by file size.

Figures are the means of the analysed runs in kB/s (of 1024 bytes), 0 where nothing was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import Record
from schedlab.nouns.names import safe_names
from schedlab.store.exporters import Parameters
from schedlab.store.files import make_directory, write_atomic

_TITLES = {
    "write": "Writer",
    "rewrite": "Re-writer",
    "read": "Reader",
    "re-read": "Re-Reader",
    "random read": "Random read",
    "random write": "Random write",
    "reverse read": "Backward read",
    "record rewrite": "Record rewrite",
    "stride read": "Stride read",
}
# What published tables call them, and how a spec may write them.
_ALIASES = {"initial write": "write", "backward read": "reverse read"}

#: Where IOzone has no place for a result.
_WAY = "fio has a place for it: schedlab report DIR --fio OUT"
Table = dict[tuple[int, int], list[float]]


def write(record: Record, parameters: Parameters, out: Path) -> list[Path]:
    """Write `CANDIDATE.txt` for every candidate; SpecError when no workload is a file test, or two
    are the same one.
    """
    tables: dict[str, dict[str, Table]] = {}
    workloads: dict[tuple[str, str, int, int], str] = {}
    for run in record.analysed_runs:
        p = parameters[run.workload, run.candidate]
        name = str(p.get("test", "")).lower().replace("_", " ").replace("-", " ")
        name = _ALIASES.get(name, name.replace("re read", "re-read"))
        size = p.get("record_bytes")
        rate = run.metrics.get("throughput_bytes_per_s")
        if name not in _TITLES or not isinstance(size, int) or rate is None:
            continue
        key = (_file_bytes(record, p), size)
        if not key[0]:
            raise SpecError(
                f"{run.workload}: IOzone's tables have a row per file size, and it is not known",
                _WAY,
            )
        other = workloads.setdefault((run.candidate, name, *key), run.workload)
        if other != run.workload:
            place = f"{name} of {size} bytes"
            raise SpecError(
                f"IOzone's tables have one place for {other!r} and {run.workload!r}: {place}",
                _WAY,
            )
        test = tables.setdefault(run.candidate, {}).setdefault(name, {})
        test.setdefault(key, []).append(rate / 1024)
    if not tables:
        raise SpecError(
            "no workload of this experiment is one of IOzone's tests with a record size",
            _WAY,
        )
    make_directory(out)
    written = []
    names = safe_names(tables)
    for candidate, tests in tables.items():
        path = out / f"{names[candidate]}.txt"
        write_atomic(path, _report(candidate, tests), within=out)
        written.append(path)
    return written


def _file_bytes(record: Record, p: Mapping[str, Any]) -> int:
    """The size of what a test went over: its own, else the whole target; 0 where that is not known,
    as on a file system, of which a test has a part.
    """
    target = record.experiment.target
    size = target.size_bytes
    if target.kind == "device":
        facts = record.host.get("devices", {}).get(Path(target.path).name, {})
        size = facts.get("size_bytes", 0) if isinstance(facts, Mapping) else 0
    is_bare = all(workload.kind == "file-test" for workload in record.experiment.workloads)
    if target.filesystem not in ("", "none") or not is_bare:
        size = 0
    own = p.get("file_bytes") or p.get("span_bytes") or 0
    own = own if isinstance(own, int) else 0
    return min(own, size) if own and size else own or size


def _report(candidate: str, tests: dict[str, Table]) -> str:
    lines = [f"\tschedlab, candidate {candidate}", "\tOutput is in kBytes/sec", ""]
    lines.append("Excel output is below:")
    for name, title in _TITLES.items():
        if name not in tests:
            continue
        table = tests[name]
        records = sorted({record for _, record in table})
        lines += ["", f'"{title} report"']
        lines.append("        " + "  ".join(f'"{record // 1024}"' for record in records))
        for size in sorted({size for size, _ in table}):
            means = [sum(v) / len(v) if (v := table.get((size, r))) else 0.0 for r in records]
            lines.append(f'"{size // 1024}"   ' + "  ".join(f"{mean:.2f}" for mean in means))
    return "\n".join([*lines, "", "iozone test complete.", ""])
