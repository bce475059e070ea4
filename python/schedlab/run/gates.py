"""Conditions that every run must meet, checked without knowing its outcome.

    watch = Watch(devices=("sdb",))
    before = watch.before()              # waits until writeback and the devices are quiet
    ...                                  # the run
    found = (*before.findings, *watch.findings(before, claimed))

Thresholds are constants, or readings taken before runs; never quantiles of runs that were kept.
Kernel threads do not count as others: block and loop workers do the work of the run, so a gate on
them would choose runs by their outcome.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.host import processes
from schedlab.host.devices import text_of
from schedlab.spec import GateFinding

PROC = Path("/proc")
CPU = Path("/sys/devices/system/cpu")
BLOCK = Path("/sys/block")
HWMON = Path("/sys/class/hwmon")

SECTOR_BYTES = 512
# Fraction by which device bytes may differ from claimed bytes: requests around the window's
# edges, file system metadata.
BYTES_TOLERANCE = 0.02
BYTES_TOLERANCE_FLOOR = 1 << 20
# Of the CPU time of all CPUs; the floor is two ticks, the resolution of the counter.
STEAL_SHARE, STEAL_FLOOR_S = 0.01, 0.02
# Of one CPU.
OTHERS_SHARE, OTHERS_FLOOR_S = 0.05, 0.02
SETTLE_BYTES, SETTLE_LOOKS, SETTLE_STEP_S, SETTLE_S_MAX = 1 << 20, 5, 0.1, 30.0
FREQUENCY_SHARE = 0.05
FREQUENCY_READINGS_MIN = 3
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """CPU seconds of a user process and of its children that it has waited for."""

    parent: int
    own_s: float
    waited_s: float


@dataclass(frozen=True)
class Snapshot:
    """Counters of the machine and of one device at a moment.

    `others` are the user processes that are not ours: (process id, start time) -> CPU time.
    `frequency_khz` is the mean of all CPUs now, `cycles_khz_s` the time in each state times its
    frequency, summed; both empty where the kernel does not report it.
    """

    at_s: float
    busy_s: float
    own_s: float
    swapped_pages: int
    throttled: int
    read_bytes: int
    written_bytes: int
    stolen_s: float = 0.0
    io_errors: int = 0
    others: Mapping[tuple[int, int], Process] = field(default_factory=dict)
    frequency_khz: float = 0.0
    cycles_khz_s: float = 0.0
    in_states_s: float = 0.0
    too_hot: tuple[str, ...] = ()


@dataclass(frozen=True)
class Before:
    """The state before a run: the counters, and findings."""

    snapshot: Snapshot
    findings: tuple[GateFinding, ...] = ()


class Watch:
    """The gates of a session; it remembers the frequencies that it saw before each run."""

    def __init__(self, devices: Sequence[str] = (), counted: str | None = None) -> None:
        """`devices` are kernel names that must be quiet before a run; `counted` is the one whose
        bytes belong to the run.
        """
        self._devices = tuple(devices)
        self._counted = counted
        self._frequencies_khz: list[float] = []

    def before(self, settle_s: float = SETTLE_S_MAX) -> Before:
        """Wait until nothing is being written, at most `settle_s` seconds; read the counters."""
        finding = settle(self._devices, settle_s) if settle_s else None
        now = snapshot(self._counted)
        if now.frequency_khz:
            self._frequencies_khz.append(now.frequency_khz)
        return Before(now, (finding,) if finding else ())

    def findings(
        self,
        before: Before,
        claimed: tuple[int, int] | None = None,
        cold_bytes: int = 0,
    ) -> tuple[GateFinding, ...]:
        """Broken conditions of the run that ends now; arguments as of `findings()`."""
        after = snapshot(self._counted)
        return (
            *findings(before.snapshot, after, claimed, cold_bytes),
            *neighbour_findings(before.snapshot, after),
            *frequency_findings(before.snapshot, after, self._frequencies_khz),
        )


def settle(devices: Iterable[str], settle_s: float = SETTLE_S_MAX) -> GateFinding | None:
    """Wait until devices have nothing in flight and hardly a page is dirty, five times in a row.

    A finding that is not fatal when it took more than `settle_s` seconds.
    """
    names = tuple(devices)
    begin = time.monotonic()
    quiet, seen = 0, ""
    while True:
        seen = _unquiet(names)
        quiet = 0 if seen else quiet + 1
        if quiet == SETTLE_LOOKS:
            return None
        if time.monotonic() - begin > settle_s:
            text = f"the machine was not idle after {settle_s:g} s: {seen or 'it had just been'}"
            return GateFinding("unsettled", text, fatal=False)
        time.sleep(SETTLE_STEP_S)


def _unquiet(devices: Iterable[str]) -> str:
    """The remaining activity, in words; empty when there is none."""
    counts = vmstat()
    page = os.sysconf("SC_PAGE_SIZE")
    for name, word in (("nr_writeback", "being written back"), ("nr_dirty", "dirty")):
        if (size := counts.get(name, 0) * page) >= SETTLE_BYTES:
            return f"{size >> 10} KiB are {word}"
    for device in devices:
        fields = text_of(BLOCK / device / "inflight").split()
        if any(number != "0" for number in fields):
            return f"{device} has {' + '.join(fields)} requests in flight"
    return ""


def snapshot(device: str | None, groups: Iterable[Path] = ()) -> Snapshot:
    """The counters now; `device` is a kernel name under /sys/block, or None."""
    read_bytes, written_bytes = device_bytes(device) if device else (0, 0)
    busy_s, stolen_s = cpu_times(text_of(PROC / "stat"))
    times = os.times()
    counts = vmstat()
    cycles_khz_s, in_states_s = _time_in_states()
    return Snapshot(
        at_s=time.monotonic(),
        busy_s=busy_s,
        own_s=times.user + times.system + times.children_user + times.children_system,
        swapped_pages=counts.get("pswpin", 0) + counts.get("pswpout", 0),
        throttled=_throttled(),
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        stolen_s=stolen_s,
        io_errors=_io_errors(device) if device else 0,
        others=other_processes(os.getpid(), groups),
        frequency_khz=_frequency_khz(),
        cycles_khz_s=cycles_khz_s,
        in_states_s=in_states_s,
        too_hot=_too_hot(),
    )


def device_bytes(device: str) -> tuple[int, int]:
    """(read, written) bytes since boot from /sys/block/DEVICE/stat (Documentation/block/stat)."""
    fields = (BLOCK / device / "stat").read_text().split()
    return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES


def findings(
    before: Snapshot,
    after: Snapshot,
    claimed: tuple[int, int] | None,
    cold_bytes: int = 0,
) -> tuple[GateFinding, ...]:
    """Conditions that did not hold between two snapshots.

    `claimed` are the (read, written) bytes that the workload moved past the page cache,
    or None where the cache may answer (buffered I/O). `cold_bytes` were read through a cold cache:
    the device must have read them, and may have read ahead.
    """
    failed = []
    if swapped := after.swapped_pages - before.swapped_pages:
        failed.append(GateFinding("swap", f"{swapped} pages were swapped during the run"))
    if throttled := after.throttled - before.throttled:
        failed.append(GateFinding("thermal", f"the CPU was throttled {throttled} times"))
    failed += [GateFinding("thermal", text) for text in after.too_hot]
    if errors := after.io_errors - before.io_errors:
        failed.append(GateFinding("io-errors", f"the device reports {errors} errors"))
    seen = after.read_bytes - before.read_bytes
    if seen < cold_bytes * (1 - BYTES_TOLERANCE) - BYTES_TOLERANCE_FLOOR:
        text = f"{cold_bytes} bytes were read, but only {seen} from the device: its cache was warm"
        failed.append(GateFinding("not-cold", text))
    if claimed is not None:
        failed += _byte_findings(before, after, claimed)
    return tuple(failed)


def cache_drops() -> int:
    """How often this machine's page cache was dropped since boot (drop_pagecache of /proc/vmstat,
    fs/drop_caches.c).
    """
    return vmstat().get("drop_pagecache", 0)


def warm_findings(drops_before: int) -> tuple[GateFinding, ...]:
    """Whether the page cache was dropped since `cache_drops()` said `drops_before`."""
    if not (dropped := cache_drops() - drops_before):
        return ()
    text = f"the page cache was dropped {dropped} times after it had been warmed"
    return (GateFinding("not-warm", text),)


def neighbour_findings(before: Snapshot, after: Snapshot) -> tuple[GateFinding, ...]:
    """Whether the hypervisor or other programs took CPU time between two snapshots."""
    window_s = after.at_s - before.at_s
    failed = []
    if (stolen_s := after.stolen_s - before.stolen_s) > max(
        STEAL_SHARE * window_s * (os.cpu_count() or 1), STEAL_FLOOR_S
    ):
        text = f"the hypervisor took {stolen_s:.2f} s of CPU time in {window_s:.2f} s"
        failed.append(GateFinding("steal", text))
    others_s = other_s(before.others, after.others)
    if others_s > max(OTHERS_SHARE * window_s, OTHERS_FLOOR_S):
        text = f"other programs used {others_s:.2f} s of CPU time in {window_s:.2f} s"
        failed.append(GateFinding("others", text))
    return tuple(failed)


def _byte_findings(
    before: Snapshot, after: Snapshot, claimed: tuple[int, int]
) -> list[GateFinding]:
    device = (after.read_bytes - before.read_bytes, after.written_bytes - before.written_bytes)
    failed = []
    for word, claimed_bytes, seen in zip(("read", "written"), claimed, device, strict=True):
        if abs(claimed_bytes - seen) > max(BYTES_TOLERANCE * claimed_bytes, BYTES_TOLERANCE_FLOOR):
            text = f"the workload {word} {claimed_bytes} bytes, the device counted {seen}"
            failed.append(GateFinding("device-bytes", text))
    return failed


def frequency_findings(
    before: Snapshot, after: Snapshot, readings_khz: Sequence[float]
) -> tuple[GateFinding, ...]:
    """Whether the CPUs were slower during the run than they usually are before one."""
    if len(readings_khz) < FREQUENCY_READINGS_MIN:
        return ()
    usual_khz = statistics.median(readings_khz)
    in_states_s = after.in_states_s - before.in_states_s
    if in_states_s > 0:
        mean_khz = (after.cycles_khz_s - before.cycles_khz_s) / in_states_s
    else:
        mean_khz = (before.frequency_khz + after.frequency_khz) / 2
    if mean_khz >= (1 - FREQUENCY_SHARE) * usual_khz:
        return ()
    text = f"the CPUs ran at {mean_khz / 1e3:.0f} MHz, usually {usual_khz / 1e3:.0f} MHz"
    return (GateFinding("frequency", text),)


def cpu_facts(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """CPU seconds of the window, for the run's properties: ours, everybody's, others', stolen."""
    return {
        "window_s": after.at_s - before.at_s,
        "cpu_own_s": after.own_s - before.own_s,
        "cpu_system_wide_s": after.busy_s - before.busy_s,
        "cpu_others_s": other_s(before.others, after.others),
        "cpu_stolen_s": after.stolen_s - before.stolen_s,
    }


def cpu_times(stat: str) -> tuple[float, float]:
    """(busy, stolen) CPU seconds of all CPUs since boot, from the text of /proc/stat.

    Busy is what was neither idle, waiting, nor stolen (Documentation/filesystems/proc.rst).
    """
    user, nice, system, _idle, _wait, irq, softirq, *more = map(
        int, stat.split("\n", 1)[0].split()[1:]
    )
    stolen = more[0] if more else 0
    return (user + nice + system + irq + softirq) * _TICK_S, stolen * _TICK_S


def other_processes(
    own_process: int, groups: Iterable[Path] = ()
) -> dict[tuple[int, int], Process]:
    """User processes that neither descend from `own_process` nor are in one of `groups`."""
    known: dict[int, tuple[int, Process]] = {}
    for pid in processes.every():
        with contextlib.suppress(IndexError):
            if parsed := _process(processes.stat_fields(pid)):
                known[pid] = parsed
    ours = {own_process, *(pid for group in groups for pid in processes.below(group))}
    descendants = {pid for pid in known if _descends(pid, known, ours)}
    return {(p, start): each for p, (start, each) in known.items() if p not in descendants}


def _process(fields: Sequence[str]) -> tuple[int, Process] | None:
    """(start time in ticks, process) from `processes.stat_fields`; None for a kernel thread."""
    if int(fields[6]) & _KERNEL_THREAD:
        return None
    user, system, waited_user, waited_system = map(int, fields[11:15])
    own_s, waited_s = (user + system) * _TICK_S, (waited_user + waited_system) * _TICK_S
    return int(fields[19]), Process(int(fields[1]), own_s, waited_s)


def _descends(pid: int, known: Mapping[int, tuple[int, Process]], ours: set[int]) -> bool:
    for _ in range(len(known)):
        if pid in ours:
            return True
        if pid not in known:
            return False
        pid = known[pid][1].parent
    return False


def other_s(
    before: Mapping[tuple[int, int], Process], after: Mapping[tuple[int, int], Process]
) -> float:
    """CPU seconds that these processes used in between, also those that came and went.

    What ended meanwhile is in its parent's account of children that it waited for, together with
    what it had used before.
    """
    used_s = 0.0
    ended_s: dict[int, float] = {}
    for key, process in before.items():
        if key not in after:
            total_s = process.own_s + process.waited_s
            ended_s[process.parent] = ended_s.get(process.parent, 0.0) + total_s
    for key, process in after.items():
        earlier = before.get(key, Process(process.parent, 0.0, 0.0))
        used_s += process.own_s - earlier.own_s
        used_s += max(0.0, process.waited_s - earlier.waited_s - ended_s.get(key[0], 0.0))
    return used_s


def vmstat() -> dict[str, int]:
    """The counters of /proc/vmstat by name."""
    pairs = (line.split() for line in text_of(PROC / "vmstat").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def _throttled() -> int:
    files = CPU.glob("cpu*/thermal_throttle/*_throttle_count")
    return sum(int(text_of(file) or 0) for file in files)


def _too_hot() -> tuple[str, ...]:
    """NVMe devices whose composite temperature has reached their warning."""
    texts = []
    for sensor in sorted(HWMON.glob("hwmon*")):
        now, limit = text_of(sensor / "temp1_input"), text_of(sensor / "temp1_max")
        if text_of(sensor / "name") == "nvme" and now and limit and int(now) >= int(limit):
            device = (sensor / "device").resolve().name
            texts.append(f"{device} has {int(now) / 1000:.0f} °C, its warning is at {limit[:-3]}")
    return tuple(texts)


def _io_errors(device: str) -> int:
    return int(text_of(BLOCK / device / "device" / "ioerr_cnt") or "0", 16)


def _frequency_khz() -> float:
    readings = [text_of(f) for f in CPU.glob("cpufreq/policy*/scaling_cur_freq")]
    values = [int(value) for value in readings if value.isdigit()]
    return statistics.fmean(values) if values else 0.0


def _time_in_states() -> tuple[float, float]:
    """(sum of frequency times time, time) over all states of all CPUs, times in 10 ms units."""
    cycles = total = 0.0
    for file in CPU.glob("cpufreq/policy*/stats/time_in_state"):
        for line in text_of(file).splitlines():
            frequency, spent = map(int, line.split())
            cycles += frequency * spent * 0.01
            total += spent * 0.01
    return cycles, total
