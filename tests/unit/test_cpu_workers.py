"""CPU workers without running them: their job, times as typed, lines, refusals, sums of bursts."""

from __future__ import annotations

import codecs
import contextlib
import errno
import math
import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from golden import Golden

from schedlab.cpu import refusals
from schedlab.cpu.bursts import Bursts, Check, check
from schedlab.cpu.crew import Quantum, Settings, needs_control, set_quantum
from schedlab.cpu.epoch_lines import PRINTERS, JsonLines, Printer
from schedlab.cpu.policy import CpuPolicy
from schedlab.cpu.refusals import explain
from schedlab.errors import SIMULATED_CPU, HostError, SpecError, as_root
from schedlab.nouns.load_result import TaskResult
from schedlab.nouns.quantities import parse_cpus, parse_slices, parse_time_ns

AFFINITY = os.sched_getaffinity(0)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: users and limits")


# ---- workers and their policies


def test_workers_as_they_come_and_as_they_are_asked() -> None:
    role = {"kind": "calculation", "kernel": "elementwise", "epoch_ns": 100_000_000,
            "epoch_grid": False, "slices": False}  # fmt: skip
    group = {"name": "work", "role": role, "tasks": 3, "cgroups": [],
             "scheduling": {"policy": "other"}}  # fmt: skip
    assert Settings(3, None).job() == {"groups": [group], "window_ns": None, "cpus": []}
    asked = Settings(
        2, 77, CpuPolicy("batch", slice_ms=1.5), (1, 0), kernel="matmul", epoch_grid=True,
        tell_slices=True,
    )  # fmt: skip
    role = {**role, "kernel": "matmul", "epoch_grid": True, "slices": True}
    group = {**group, "role": role, "tasks": 2,
             "scheduling": {"policy": "batch", "slice_ns": 1_500_000}}  # fmt: skip
    assert asked.job() == {"groups": [group], "window_ns": 77, "cpus": [1, 0]}
    # A cpuset confines them instead of their affinity.
    job = Settings(2, 77, cpus=(1,), cpuset=True).job(["/procs"])
    assert (job["cpus"], job["groups"][0]["cgroups"]) == ([], ["/procs"])


def scheduling(settings: Settings) -> Mapping[str, Any]:
    given: Mapping[str, Any] = settings.job()["groups"][0]["scheduling"]
    return given


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        (CpuPolicy("idle", priority=7), {}),
        (CpuPolicy("other", priority=0), {}),
        (CpuPolicy("other", nice=3), {"nice": 3}),
        (CpuPolicy("fifo"), {"priority": 10}),
        # The quantum of rr is a knob of the host, none of the worker.
        (CpuPolicy("rr", 99, slice_ms=4), {"priority": 99}),
        (CpuPolicy("other", slice_ms=0.25), {"slice_ns": 250_000}),
        (CpuPolicy("ext"), {}),
    ],
)
def test_scheduling_of_workers(policy: CpuPolicy, given: Mapping[str, Any]) -> None:
    assert scheduling(Settings(1, None, policy)) == {"policy": policy.policy, **given}


@pytest.mark.parametrize(
    ("processes", "cpus", "slice_ms", "runtime_ns", "period_ns"),
    [
        # Of each CPU 90 %: 9 ms of 10 ms.
        (3, (0, 1, 2), 9.0, 9_000_000, 10_000_000),
        (6, (0, 1, 2), 9.0, 9_000_000, 20_000_000),
        (5, (0,), 9.0, 9_000_000, 50_000_000),
        (1, (), None, 10_000_000, 11_111_111),
        (4 * len(AFFINITY), (), None, 10_000_000, 44_444_444),
    ],
)
def test_deadline_workers_ask_for_nine_tenths_of_their_cpus(
    processes: int, cpus: tuple[int, ...], slice_ms: float | None, runtime_ns: int, period_ns: int
) -> None:
    given = scheduling(Settings(processes, None, CpuPolicy("deadline", slice_ms=slice_ms), cpus))
    assert given["slice_ns"] == runtime_ns
    assert given["period_ns"] == pytest.approx(period_ns, abs=1)
    assert isinstance(given["period_ns"], int)


REFUSED: Sequence[tuple[dict[str, Any], str]] = [
    ({"policy": "rr", "priority": 0}, "priority 0 for rr"),
    ({"policy": "fifo", "priority": 100}, "priority 100 for fifo"),
    *[({"policy": policy, "slice_ms": 4.0}, f"policy {policy} has no slice")
      for policy in ("fifo", "idle", "ext")],
    *[({"policy": "rr", "slice_ms": slice_ms}, "the quantum of rr must be in whole ms")
      for slice_ms in (0.5, 1.5)],
    *[({"policy": policy, "slice_ms": slice_ms}, f"a slice of {slice_ms:g} ms")
      for policy in ("rr", "other", "deadline") for slice_ms in (0.0, -0.5, math.nan, math.inf)],
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_policies_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        CpuPolicy(**options)
    assert str(refused.value) == message and refused.value.hint


def test_workers_have_a_limit() -> None:
    assert Settings(1000, None).processes == 1000
    for processes in (0, 1001):
        with pytest.raises(SpecError, match=f"{processes} processes") as refused:
            Settings(processes, None)
        assert refused.value.hint == "use 1 to 1000"
    CpuPolicy("rr", 1, slice_ms=1.0), CpuPolicy("fifo", 99), CpuPolicy(slice_ms=0.001)


# ---- as typed

TIMES_NS = {
    "7ns": 7, "2us": 2000, "1.5 ms": 1_500_000, "30S": 30_000_000_000, "3m": 180_000_000_000,
    " 4 ": 4_000_000_000, "0.6ns": 1,
}  # fmt: skip


@pytest.mark.parametrize("text", TIMES_NS)
def test_times_as_typed(text: str) -> None:
    assert parse_time_ns(text) == TIMES_NS[text]


def test_a_bare_number_has_the_unit_that_the_command_says() -> None:
    assert (parse_time_ns("250", "ms"), parse_time_ns("250ns", "ms")) == (250_000_000, 250)
    for text in ("soon", "", "-1s", "1d", "1.s", "1s2", "0"):
        with pytest.raises(SpecError, match="is not a duration") as refused:
            parse_time_ns(text)
        assert refused.value.hint == "write for example 500ms, 30s or 10m"
    for text in ("0.4ns", "4611686018427387904ns"):
        with pytest.raises(SpecError, match="is out of range") as refused:
            parse_time_ns(text)
        assert refused.value.hint == "choose more than 0 and less than a year"


def test_cpus_as_typed() -> None:
    for text, cpus in {
        "5": (5,), "0,2": (0, 2), "2-4": (2, 3, 4), "7, 1-2,7,2-3": (7, 1, 2, 3), "3-3": (3,),
        "9998-9999": (9998, 9999),
    }.items():  # fmt: skip
        assert parse_cpus(text) == cpus
    for text in ("", "a", "1-", "-1", "0,", "10000", "1-10000", "4-2"):
        with pytest.raises(SpecError, match="is not understood") as refused:
            parse_cpus(text)
        assert refused.value.hint == "write 0, 0,2 or 0-3"


def test_quanta_as_typed() -> None:
    assert parse_slices("4, 0.5ms ,4.0,1000000") == (4.0, 0.5, 1e6)
    for text in ("", "4,", "0", "-1", "1000001", "fast", "nan", "4,0"):
        with pytest.raises(SpecError, match="are not understood") as refused:
            parse_slices(text)
        assert refused.value.hint == "write milliseconds: 1,10,100"


# ---- lines

EPOCHS = [(0, (150_999_999, 40, 1)), (1, (101_000_000, 7, 1)), (0, (260_500_000, 95, 3))]
TOTALS = [
    TaskResult(elapsed_ns=412_999_999, count=1234),
    TaskResult(elapsed_ns=98_000_000, count=1_234_567),
]
QUANTUM = Quantum(1.0, 4.0)


def printed(make: Callable[[Callable[[str], None]], Printer]) -> list[str]:
    """All lines of two workers, with their epochs in two rows of rows."""
    lines: list[str] = []
    printer = make(lines.append)
    printer.created(2)
    printer.epochs(EPOCHS[:2])
    printer.epochs(EPOCHS[2:])
    printer.finished(TOTALS, QUANTUM)
    return lines


def test_lines_of_the_course_of_the_sample_and_for_programs(golden: Golden) -> None:
    assert set(PRINTERS) == {"spec", "sample"}
    printers = (*PRINTERS.values(), lambda write: JsonLines(write, "rr"))
    golden("commands/epochs.txt", "\n\n".join("\n".join(printed(make)) for make in printers))


@pytest.mark.parametrize(
    ("quantum", "sentence"),
    [
        (Quantum(1.0, 4.0), "quantum: 1 ms requested, 4 ms effective"),
        (Quantum(None, 2.8), "quantum: the kernel's own requested, 2.8 ms effective"),
        (Quantum(0.5, None), "quantum: 0.5 ms requested, none effective"),
    ],
)
def test_both_quanta_in_words(quantum: Quantum, sentence: str) -> None:
    assert quantum.sentence() == sentence


def test_only_a_knob_and_a_cpuset_change_the_host() -> None:
    quantum = CpuPolicy("rr", slice_ms=3.0)
    for policy in (CpuPolicy(), CpuPolicy("rr"), CpuPolicy(slice_ms=3.0)):
        assert not needs_control(Settings(1, None, policy))
        set_quantum(policy, None)
    assert needs_control(Settings(1, None, quantum))
    assert needs_control(Settings(1, None, cpuset=True))
    with pytest.raises(HostError, match=r"^a quantum of rr needs root$") as refused:
        set_quantum(quantum, None)
    assert refused.value.hint == as_root(SIMULATED_CPU)


# ---- refusals


def told(step: str, code: int, cpus: Sequence[int] = (), **options: Any) -> tuple[str, str]:
    """What is said when the kernel refuses a step of workers, and what helps."""
    error = explain(OSError(code, os.strerror(code), step), CpuPolicy(**options), cpus, 3)
    assert isinstance(error, HostError)
    return str(error), error.hint


DEADLINE = {"policy": "deadline"}
REFUSALS: Sequence[tuple[str, int, dict[str, Any]]] = [
    ("affinity", errno.EINVAL, {"cpus": (5, 7)}), ("slice", errno.EINVAL, {"slice_ms": 1.5}),
    ("slice", errno.EPERM, {"policy": "batch", "slice_ms": 2.0}),
    ("slice", errno.ESRCH, {"slice_ms": 2.0}), ("memory", errno.ENOMEM, {}),
    ("fork", errno.ENOMEM, {}), ("worker", errno.ETIMEDOUT, {}),
    ("policy", errno.EINVAL, {"policy": "batch"}), ("cgroup", errno.EBUSY, {}), ("memory", 0, {}),
    ("memory", 4095, {}), ("deadline", errno.EBUSY, DEADLINE),
    ("deadline", errno.EPERM, {**DEADLINE, "cpus": (0,)}), ("deadline", errno.EPERM, DEADLINE),
    ("deadline", errno.EINVAL, DEADLINE), ("deadline", errno.E2BIG, DEADLINE),
]  # fmt: skip


def test_refusals_in_words(golden: Golden) -> None:
    allowed = ",".join(str(cpu) for cpu in sorted(AFFINITY))
    texts = ("\n  ".join(told(step, code, **options)) for step, code, options in REFUSALS)
    golden("refusals.txt", "\n".join(texts).replace(f"from CPU {allowed} ", "from CPU 0,1 "))


def test_a_scheduler_that_is_missing_or_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "SCHED_EXT", tmp_path / "absent")
    refused = "the kernel refused policy ext (EINVAL): "
    assert told("policy", errno.EINVAL, policy="ext") == (
        f"{refused}this kernel was built without CONFIG_SCHED_CLASS_EXT",
        "boot a kernel (Linux 6.12 or newer) with CONFIG_SCHED_CLASS_EXT=y",
    )
    monkeypatch.setattr(refusals, "SCHED_EXT", tmp_path)
    loading = (f"{refused}Invalid argument", "load a sched_ext scheduler first")
    assert told("policy", errno.EINVAL, policy="ext") == loading


@contextlib.contextmanager
def limited(kind: int, limit: int) -> Iterator[int]:
    """A soft limit of this process for a while: `limit`, or the hard limit where that is lower."""
    before = resource.getrlimit(kind)
    hard = before[1]
    soft = limit if hard == resource.RLIM_INFINITY or hard > limit >= 0 else hard
    resource.setrlimit(kind, (soft, hard))
    try:
        yield soft
    finally:
        resource.setrlimit(kind, before)


@pytest.mark.parametrize("limit", [4321, resource.RLIM_INFINITY])
def test_the_limit_of_processes_is_told(limit: int) -> None:
    with limited(resource.RLIMIT_NPROC, limit) as soft:
        text = told("fork", errno.EAGAIN)
    shown = "unlimited" if soft == resource.RLIM_INFINITY else soft
    assert text == (
        "the kernel refused 3 worker processes (EAGAIN): a limit of processes is reached "
        f"(ulimit -u: {shown}; or pids.max of the cgroup)",
        "use fewer processes, or raise the limit",
    )


@needs_root
def test_a_user_is_told_of_the_limit_of_priorities() -> None:
    codecs.lookup("ascii")  # a user may not be able to read the library, and no later look helps
    with limited(resource.RLIMIT_RTPRIO, 6) as soft:
        os.seteuid(65_534)
        try:
            real_time = [told("policy", errno.EPERM, policy=each) for each in ("rr", "fifo")]
            other = told("policy", errno.EPERM, policy="batch")
        finally:
            os.seteuid(0)
    why = f"it needs CAP_SYS_NICE, or a limit of real-time priority (now {soft}) of at least 10"
    assert real_time == [
        (
            f"the kernel refused policy {each} (EPERM): {why}",
            as_root(SIMULATED_CPU, "run as root, or ulimit -r 10"),
        )
        for each in ("rr", "fifo")
    ]
    missing = "the capability CAP_SYS_NICE is missing"
    helps = as_root(SIMULATED_CPU, "run as root, in a container with --cap-add SYS_NICE")
    assert other == (f"the kernel refused policy batch (EPERM): {missing}", helps)
    of_root = told("policy", errno.EPERM, policy="fifo")
    assert of_root == (f"the kernel refused policy fifo (EPERM): {missing}", helps)


# ---- sums of bursts


def task(number: int, bursts: int, total_ns: int, untraced: int = 0) -> dict[str, Any]:
    return {"task": number, "bursts": bursts, "total_ns": total_ns, "preempted": 1,
            "untraced_starts": untraced, "histogram": [[1, 2, bursts]]}  # fmt: skip


RECORDS = ((10, 5, 7, True), (20, 5, 7, False), (30, 5, 9, True))
TASKS = (task(7, 5, 4_000_500, 2), task(9, 4, 2_000_000, 3))


def test_totals_of_tasks() -> None:
    bursts = Bursts("perf", ("bpf: no",), TASKS, RECORDS, 2, 1)
    assert bursts.untraced_starts == 5
    assert bursts.of(9) is TASKS[1]
    nothing = {"task": 8, "bursts": 0, "total_ns": 0, "preempted": 0, "histogram": []}
    assert bursts.of(8) == nothing
    assert [Bursts(name, (), (), (), 0, 0).has_bursts for name in ("bpf", "perf", "schedstat")] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("method", "kept"), [("bpf", 5), ("perf", 3)])
def test_three_sums_must_agree(method: str, kept: int) -> None:
    bursts = Bursts(method, (), TASKS, RECORDS, 2, 1)
    assert check(bursts, 5_000_000, 12) == (
        Check("sum of bursts and CPU time", 6.0, 5.0, "ms"),
        Check("bursts and context switches", 9, 12, "bursts"),
        Check("bursts kept or counted as lost, and bursts", kept, 9, "bursts"),
    )
    # Microseconds are kept, what is below is not.
    (total, *_) = check(Bursts(method, (), (task(7, 1, 1_234_567),), (), 0, 0), 2_345_678, 1)
    assert (total.found, total.expected) == (1.235, 2.346)


def test_there_is_nothing_to_check_in_totals_alone() -> None:
    assert check(Bursts("schedstat", (), TASKS, (), 0, 0), 5_000_000, 12) == ()


def test_how_far_a_sum_is_from_what_it_should_be() -> None:
    off = [Check("a", found, 8.0, "ms").deviation for found in (10.0, 6.0, 8.0)]
    assert off == [0.25, -0.25, 0.0]
    assert Check("a", 0.0, 0.0, "ms").deviation == 0.0
    assert Check("a", 3.0, 0.0, "ms").deviation == float("inf")
    above = Check("bursts", 1_234_567_891, 1_000_000_000.5, "bursts").sentence()
    assert above == "bursts: 1234567891 bursts found, 1000000000.5 expected (+23.457%)"
