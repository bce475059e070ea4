"""Crews of workers on the running kernel: where they are, what they are, and that all is undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from schedlab._core import probe_burst_sources
from schedlab.cpu.bursts import Capture
from schedlab.cpu.crew import Settings, held_crew, last_cpu, pids_of
from schedlab.cpu.policy import RR_KNOB, CpuPolicy
from schedlab.errors import SIMULATED_CPU, HostError, as_root
from schedlab.host.safety import owned
from schedlab.host.safety.control import Control

LAST = last_cpu()
MOUNTS = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
V1 = [Path(row[1]) for row in MOUNTS if row[2] == "cgroup" and "cpuset" in row[3].split(",")]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: settings of the host")


@pytest.fixture
def control(state: Path) -> Iterator[Control]:
    """Control of the host, which restores everything at the end of the test."""
    with Control() as control:
        yield control


def is_gone(pids: Sequence[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def allowed(pid: int) -> str:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(row.split()[1] for row in rows if row.startswith("Cpus_allowed_list"))


def leftovers(root: Path) -> list[Path]:
    return list(root.glob(f"{owned.PREFIX}cpuset-*"))


# ---- workers


def test_held_workers_are_as_they_were_asked_and_go() -> None:
    asked = Settings(3, None, CpuPolicy("batch"), (LAST,))
    with held_crew(asked, None) as (crew, quantum):
        pids = pids_of(crew)
        assert len(set(pids)) == 3
        assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_BATCH}
        assert {allowed(pid) for pid in pids} == {str(LAST)}
        assert quantum.requested_ms is None
    assert is_gone(pids)


def test_workers_that_count_go_as_well_when_all_ends_early() -> None:
    with pytest.raises(KeyboardInterrupt), held_crew(Settings(2, None), None) as (crew, _):
        pids = pids_of(crew)
        crew.start()
        raise KeyboardInterrupt
    assert is_gone(pids)


def test_the_quantum_in_milliseconds_is_the_one_that_the_worker_has() -> None:
    with held_crew(Settings(1, None, CpuPolicy(slice_ms=2.5)), None) as (crew, quantum):
        assert quantum.requested_ms == 2.5
        nanoseconds = crew.effective_slice_ns()
        if nanoseconds is None:
            assert quantum.effective_ms is None
            pytest.skip("this kernel is older than 6.12: no slice for fair policies")
        assert (nanoseconds, quantum.effective_ms) == (2_500_000, 2.5)


@needs_root
def test_the_quantum_of_rr_is_written_to_its_knob_and_restored(state: Path) -> None:
    knob = Path(RR_KNOB)
    before = knob.read_text()
    asked = Settings(1, None, CpuPolicy("rr", 7, slice_ms=40.0))
    with Control() as control:
        with held_crew(asked, control) as (crew, quantum):
            assert knob.read_text() == "40\n"
            assert os.sched_getparam(pids_of(crew)[0]).sched_priority == 7
            assert os.sched_getscheduler(pids_of(crew)[0]) == os.SCHED_RR
            assert (quantum.requested_ms, quantum.effective_ms) == (40.0, 40.0)
        assert knob.read_text() == "40\n"  # other crews of the session have it as well
    assert knob.read_text() == before


def test_a_cpu_that_is_not_there_is_refused_in_words() -> None:
    asked = Settings(1, None, cpus=(4000,))
    with (
        pytest.raises(HostError, match="refused pinning to CPU 4000 ") as refused,
        held_crew(asked, None),
    ):
        pass
    assert refused.value.hint.startswith("choose from CPU ")


@needs_root
def test_workers_that_the_kernel_refuses_go_as_well() -> None:
    mine = Path(f"/proc/self/task/{os.getpid()}/children")
    before = mine.read_text().split()
    # All of a CPU twice: what is typed is right, and the kernel has no room for it.
    asked = Settings(2, None, CpuPolicy("deadline", slice_ms=10.0, period_ms=10.0))
    with (
        pytest.raises(HostError) as refused,
        held_crew(asked, None),
    ):
        pass
    assert isinstance(refused.value.__cause__, OSError)
    assert mine.read_text().split() == before


def test_a_cpuset_without_control_is_refused() -> None:
    asked = Settings(1, None, cpus=(LAST,), cpuset=True)
    with (
        pytest.raises(HostError, match=r"^a cpuset needs root$") as refused,
        held_crew(asked, None),
    ):
        pass
    assert refused.value.hint == as_root(SIMULATED_CPU)


# ---- cpusets


def group_of(pid: int) -> Path:
    """The cpuset of a process: v1 where it is mounted there."""
    if V1:
        return Path(f"{V1[0]}{Path(f'/proc/{pid}/cpuset').read_text().strip()}")
    own = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2]
    return Path(f"{owned.cgroup_root()}{own}")


@needs_root
@pytest.mark.alone  # a cpuset of others would be in the way of an exclusive one
@pytest.mark.parametrize("policy", ["other", "deadline"])
def test_workers_are_confined_by_a_cpuset(state: Path, policy: str) -> None:
    """DEADLINE tasks have it for themselves: no balancing above it, or a partition."""
    asked = Settings(2, None, CpuPolicy(policy), (LAST,), cpuset=True)
    if policy == "deadline" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("the only CPU is not taken away from all others")
    root = V1[0] if V1 else owned.cgroup_root()
    balances = root / "cpuset.sched_load_balance"
    before = balances.read_text() if V1 else ""
    with Control() as control:
        with held_crew(asked, control) as (crew, _):
            pids = pids_of(crew)
            number = {"other": 0, "deadline": 6}[policy]
            assert {os.sched_getscheduler(pid) for pid in pids} == {number}
            assert {allowed(pid) for pid in pids} == {str(LAST)}
            (group,) = {group_of(pid) for pid in pids}
            assert [group] == leftovers(root)
            assert {int(row) for row in (group / "cgroup.procs").read_text().split()} == set(pids)
            own = {
                name: (group / f"cpuset.{name}").read_text().strip() for name in ("cpus", "mems")
            }
            assert own["cpus"] == str(LAST)
            alone = policy == "deadline"
            if V1:
                assert own["mems"] == (root / "cpuset.mems").read_text().strip()
                assert (group / "cpuset.cpu_exclusive").read_text() == f"{int(alone)}\n"
                assert balances.read_text() == ("0\n" if alone else before)
            else:
                partition = (group / "cpuset.cpus.partition").read_text().strip()
                assert partition == ("root" if alone else "member")
        assert is_gone(pids)
    assert leftovers(root) == []
    if V1:
        assert balances.read_text() == before


@needs_root
def test_a_cpuset_may_have_several_cpus(control: Control) -> None:
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:2]
    asked = Settings(1, None, cpus=cpus, cpuset=True)
    with held_crew(asked, control) as (crew, _):
        pid = pids_of(crew)[0]
        assert os.sched_getaffinity(pid) == set(cpus)
        assert group_of(pid).parent == (V1[0] if V1 else owned.cgroup_root())


@needs_root
def test_without_a_controller_a_cpuset_is_refused() -> None:
    """In a world of mounts of its own, in which the v1 hierarchy of cpusets is not mounted."""
    if not V1:
        pytest.skip("cpusets belong to cgroup v2 here, which needs to stay mounted")
    program = (
        "from schedlab.cpu.crew import _cpuset_root\n"
        "from schedlab.errors import HostError\n"
        "try: _cpuset_root()\n"
        "except HostError as error: print(error, error.hint, sep='|')\n"
    )
    unmounted = 'umount "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", unmounted, str(V1[0])]
    command += [sys.executable, "-c", program]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.stdout == (
        "no cpuset controller is mounted|pin with --cpu instead of --cpuset\n"
    ), result.stderr


# ---- captures


def test_bursts_of_a_process_that_is_gone_are_refused() -> None:
    if why := dict(probe_burst_sources())["perf"]:
        pytest.skip(why)
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    with pytest.raises(HostError, match="No such process") as refused:
        Capture([ended.pid], "perf")
    assert refused.value.hint == "omit --method to get the best source that works"
    assert isinstance(refused.value.__cause__, OSError)


def test_lost_records_and_lost_tasks_are_told_apart() -> None:
    """Half of the records and none of the tasks are lost."""
    with held_crew(Settings(2, 300_000_000, cpus=(LAST,)), None) as (crew, _):
        capture = Capture(pids_of(crew), records_max=2)
        crew.start()
        while not crew.wait(0.1):
            pass
        bursts = capture.finish()
    if not bursts.has_bursts:
        pytest.skip("no source of bursts here")
    assert len(bursts.records) == 2
    assert bursts.lost > 2
    assert bursts.lost_tasks == 0
    assert all(isinstance(reason, str) for reason in bursts.passed_over)
    assert json.dumps(bursts.tasks)
