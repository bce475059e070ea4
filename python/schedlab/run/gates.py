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

import os
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.host.devices import text_of
from schedlab.nouns import GateFinding
from schedlab.run.other_programs import UserProcesses, other_s, user_processes

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
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Snapshot:
    """Counters of the machine and of one device at a moment.

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
    processes: UserProcesses = field(default_factory=UserProcesses)
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
        processes=user_processes(os.getpid(), groups),
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
    if (stolen_s := _stolen_s(before, after)) > max(
        STEAL_SHARE * window_s * (os.cpu_count() or 1), STEAL_FLOOR_S
    ):
        text = f"the hypervisor took {stolen_s:.2f} s of CPU time in {window_s:.2f} s"
        failed.append(GateFinding("steal", text))
    others_s = _others_s(before, after)
    if others_s > max(OTHERS_SHARE * window_s, OTHERS_FLOOR_S):
        text = f"other programs used {others_s:.2f} s of CPU time in {window_s:.2f} s"
        failed.append(GateFinding("others", text))
    return tuple(failed)


def _others_s(before: Snapshot, after: Snapshot) -> float:
    """CPU seconds of other programs: never more than the CPUs were busy for."""
    busy_s = min(after.busy_s - before.busy_s, _cpus_s(before, after))
    return max(0.0, min(other_s(before.processes, after.processes), busy_s))


def _stolen_s(before: Snapshot, after: Snapshot) -> float:
    """CPU seconds that the hypervisor took; 0 where its counter moved as no clock can."""
    stolen_s = after.stolen_s - before.stolen_s
    return stolen_s if 0 <= stolen_s <= _cpus_s(before, after) + STEAL_FLOOR_S else 0.0


def _cpus_s(before: Snapshot, after: Snapshot) -> float:
    """The time that all CPUs have had in between."""
    return (after.at_s - before.at_s) * (os.cpu_count() or 1)


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
        "cpu_others_s": _others_s(before, after),
        "cpu_stolen_s": _stolen_s(before, after),
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
