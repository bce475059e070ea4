"""The content of a timeline: runs of the same work, each with its bars in rows over time.

A bar is a request, or a burst of a task on a CPU: a moment at which it arrived, and how long it
stayed in each part of its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.report.texts import Texts
from schedlab.store.requests import RequestRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The parts of a way, in their order. Of a trace that tells less apart: `wait` is all that is
#: known before the device, `whole` the whole way.
IO_PARTS = ("tag", "plug", "scheduler", "device")
CPU_PARTS = ("ready", "runs")
OPERATIONS = ("read", "write", "discard", "flush")
#: A process starves that is not served for so long, while so many are that came later.
STARVED_NS, STARVED_BY = 100_000_000, 100
#: A pause of the device that is no longer may be the way from the scheduler to it.
PAUSE_NS = 100_000
#: How a burst ended.
ENDS = ("sleeps", "preempted", "quantum", "ended")

PAGE_BYTES, SECTOR_BYTES = 4096, 512
#: The steps that logs have, in their order: of a disk the first and the last two, of an SSD
#: without the third, under a scheduler without the second.
LOG_STEPS = ("arrival_ns", "admitted_ns", "inserted_ns", "dispatched_ns", "completed_ns")
#: The part that begins with each step: an SSD's queue and a disk's are those of a scheduler.
BEGUN = {"arrival_ns": "tag", "admitted_ns": "scheduler", "inserted_ns": "scheduler",
         "dispatched_ns": "device"}  # fmt: skip


@dataclass(frozen=True)
class Bars:
    """The bars of one run, in the order of their arrival: all arrays have one entry for each.

    `times_ns` has a row for each border of a part, from the arrival to the end, never falling.
    `row` is a place in `rows`, the names of processes, dies or CPUs; `kind` one in `OPERATIONS`,
    or in `ENDS` where bars are bursts.
    """

    name: str
    rows: tuple[str, ...]
    row: NDArray[Any]
    times_ns: NDArray[Any]
    offset_bytes: NDArray[Any] | None = None
    size_bytes: NDArray[Any] | None = None
    kind: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def total_ns(self) -> NDArray[Any]:
        """How long each one took."""
        spent: NDArray[Any] = self.times_ns[-1] - self.times_ns[0]
        return spent

    @property
    def end_ns(self) -> int:
        """When the last one ended."""
        return int(self.times_ns[-1].max()) if self.times_ns.shape[1] else 0

    def where(self, keep: NDArray[Any]) -> Bars:
        """Those of them for which `keep` is true."""
        arrays: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[keep]
            for name in ("row", "offset_bytes", "size_bytes", "kind")
        }
        return replace(self, times_ns=self.times_ns[:, keep], **arrays)

    def longest(self, count: int, unit: str) -> list[int]:
        """The places of those that waited for the longest time, the longest first: of a request its
        whole way, for its process waits until it ends; of a burst before it runs.
        """
        import numpy as np

        waited = self.times_ns[-2] - self.times_ns[0] if unit == "burst" else self.total_ns
        order = np.lexsort((-self.total_ns, -waited))
        return [int(place) for place in order[:count]]


@dataclass(frozen=True)
class Scene:
    """One piece of work, with a run of each candidate on the same clock.

    `unit` is `request` or `burst`. `parts` are between the borders of its bars. `pair` are the two
    runs that are shown first; without it the first one, and the one whose longest wait differs
    most from its.
    """

    title: str
    parts: tuple[str, ...]
    runs: tuple[Bars, ...]
    unit: str = "request"
    notes: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stretch:
    """A time from `since_ns` to `until_ns` for which a process had something waiting, and nothing
    of it was served; `passed` of others came later, and ended meanwhile.
    """

    row: int
    since_ns: int
    until_ns: int
    passed: int

    @property
    def is_starved(self) -> bool:
        """Whether it was long, and others were served that came later."""
        return self.until_ns - self.since_ns >= STARVED_NS and self.passed >= STARVED_BY


def stretches(bars: Bars, unit: str) -> list[Stretch]:
    """The longest stretch of each process, the longest of all first; a burst is served when it
    runs, a request when it ends.
    """
    import numpy as np

    arrived, ended = bars.times_ns[0], bars.times_ns[-1]
    served = ended if unit == "request" else bars.times_ns[-2]
    found = []
    for row in np.unique(bars.row).tolist():
        mine = np.flatnonzero(bars.row == row)
        mine = mine[np.argsort(served[mine], kind="stable")]
        oldest = np.minimum.accumulate(arrived[mine][::-1])[::-1]
        since = np.maximum(oldest, np.concatenate((oldest[:1], served[mine][:-1])))
        at = int(np.argmax(served[mine] - since))
        start, end = int(since[at]), int(served[mine][at])
        later = (bars.row != row) & (arrived >= start) & (ended <= end)
        found.append(Stretch(row, start, end, int(later.sum())))
    return sorted(found, key=lambda each: each.since_ns - each.until_ns)


def pauses(bars: Bars) -> NDArray[Any]:
    """When nothing was in the device although a request waited in its scheduler, or where that is
    not known apart, before the device: (from, until) in ns, one after the other.
    """
    import numpy as np

    if len(bars.times_ns) < 3 or not len(bars.row):
        return np.empty((0, 2), np.int64)
    waits, issued, ended = (np.sort(border) for border in bars.times_ns[-3:])
    # After as many ends as requests were issued before, the device has nothing.
    since = np.maximum(waits, np.concatenate((waits[:1], ended[:-1])))
    found: NDArray[Any] = np.stack((since, issued), axis=1)[since < issued]
    return found


def bars_of(
    name: str, labels: Sequence[str], times_ns: Sequence[NDArray[Any]], **more: Any
) -> Bars:
    """Bars whose rows are `labels`, sorted by arrival; a border that is not known (0) is that of
    the part before it, and none is earlier than the one before.
    """
    import numpy as np

    borders = np.maximum.accumulate(np.array(times_ns, dtype=np.int64), axis=0)
    order = np.argsort(borders[0], kind="stable")
    known, row = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)
    notes = more.pop("notes", ())
    arrays = {
        key: None if values is None else np.asarray(values)[order] for key, values in more.items()
    }
    rows = tuple(str(label) for label in known)
    return Bars(name, rows, row[order], borders[:, order], **arrays, notes=notes)


def since(bars: Bars, zero_ns: int) -> Bars:
    """The same bars on a clock that is 0 at `zero_ns`; without those that arrived before."""
    kept = bars.where(bars.times_ns[0] >= zero_ns)
    return replace(kept, times_ns=kept.times_ns - zero_ns)


def request_bars(
    name: str, requests: RequestRows, texts: Texts, tasks: Mapping[int, str] | None = None
) -> tuple[tuple[str, ...], Bars]:
    """The parts that a trace tells apart, and its requests that have an end as bars.

    `tasks` are names of processes and threads by their number. SpecError where the trace has no
    ends, so that nothing took any time.
    """
    import numpy as np

    rows = requests.rows
    known = rows["done_ns"] > 0
    if not known.any():
        raise SpecError(
            f"{name}: it has no completions, so no request has a length",
            "record with schedlab trace io DEVICE --out FILE",
        )
    lost = int((~known).sum())
    notes = (texts("timeline.unfinished", count=texts.number(lost, 0)),) if lost else ()
    rows = rows[known]
    arrival, tag, insert, issue, done = (
        rows[f"{step}_ns"].astype(np.int64)
        for step in ("arrival", "tag", "insert", "issue", "done")
    )
    # One that joined another waits where that one does; one that went past the scheduler left its
    # plug for the device.
    insert = np.where((insert == 0) & (tag > 0), issue, insert)
    parts: tuple[str, ...] = IO_PARTS
    borders = [arrival, tag, insert, issue, done]
    if not tag.any():
        parts, borders = ("wait", "device"), [arrival, issue, done]
    if not issue.any():
        parts, borders = ("whole",), [arrival, done]
    bars = bars_of(
        name, _task_names(rows, requests.names, tasks or {}), borders,
        offset_bytes=rows["offset_bytes"].astype(np.int64),
        size_bytes=rows["size_bytes"].astype(np.int64), kind=rows["operation"], notes=notes,
    )  # fmt: skip
    return parts, bars


def _task_names(
    rows: NDArray[Any], names: Mapping[int, str], tasks: Mapping[int, str]
) -> list[str]:
    """The name of the process of each request, or of the thread where `tasks` has it; those of one
    name are numbered as they first come. Kernel threads that write back are one: any of them does
    the work of all.
    """
    import numpy as np

    known = np.isin(rows["thread"], np.array(list(tasks), np.uint32))
    task = np.where(known, rows["thread"], rows["process"])
    numbers, first, place = np.unique(task, return_index=True, return_inverse=True)
    began = np.full(len(numbers), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(began, place, rows["arrival_ns"])
    plain = []
    for number, at in zip(numbers.tolist(), first.tolist(), strict=True):
        name = names.get(number) or names.get(int(rows["thread"][at]), "")
        plain.append(tasks.get(number) or ("kworker" if name.startswith("kworker") else name))
    several = Counter(plain)
    seen: Counter[str] = Counter()
    labels = [""] * len(numbers)
    for at in np.argsort(began, kind="stable").tolist():
        base = plain[at]
        seen[base] += 1
        is_one = base == "kworker" or (several[base] == 1 and base != "")
        labels[at] = base if is_one else f"{base or 'task'} {seen[base]}"
    return [labels[at] for at in place]


def log_bars(
    name: str, columns: Mapping[str, Any], labels: Sequence[str]
) -> tuple[tuple[str, ...], Bars]:
    """The parts and bars of a simulated run; `columns` are those of its log, `labels` the rows."""
    import numpy as np

    steps = [step for step in LOG_STEPS if step in columns]
    parts = tuple(BEGUN[step] for step in steps[:-1])
    if len(steps) == 3:
        parts = ("scheduler", "device")
    if "sector" in columns:
        offset, size = columns["sector"], columns["sectors"]
        unit = SECTOR_BYTES
    elif "first_page" in columns:
        offset, size, unit = columns["first_page"], columns["pages"], PAGE_BYTES
    else:
        offset, size, unit = columns["offset_bytes"], columns["length_bytes"], 1
    bars = bars_of(
        name, labels, [np.asarray(columns[step], np.int64) for step in steps],
        offset_bytes=np.asarray(offset, np.int64) * unit,
        size_bytes=np.asarray(size, np.int64) * unit, kind=np.asarray(columns["operation"]),
    )  # fmt: skip
    return parts, bars
