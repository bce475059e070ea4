"""Each gate with the disturbance that it is for; dropping the gate fails its test."""

import dataclasses
import mmap
import operator
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedlab.host.safety import owned
from schedlab.run import gates
from schedlab.run.io import drain
from schedlab.run.other_programs import Process, UserProcesses, other_s, parse, user_processes

# Uses that many seconds of CPU time.
BUSY = "import time\nwhile time.process_time() < {}: pass"


def names(findings):
    return [finding.gate for finding in findings]


@pytest.fixture
def quiet():
    """The counters now, on a machine on which nothing else happens."""
    return dataclasses.replace(gates.snapshot(None), processes=UserProcesses(), too_hot=())


def later(quiet, **changes):
    return dataclasses.replace(quiet, at_s=quiet.at_s + 1, **changes)


@contextmanager
def detached(program):
    """A process that is no descendant of ours: its parent is gone."""
    start = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
        " stdout=subprocess.DEVNULL, start_new_session=True); print(p.pid, flush=True)"
    )
    number = int(subprocess.check_output([sys.executable, "-c", start, program], text=True))
    try:
        yield number
    finally:
        subprocess.run(["kill", "-9", str(number)], check=False, capture_output=True)


def used_by(process, before, after):
    """Seconds that are charged to one process; other tests may be at work on this machine."""
    mine = [
        UserProcesses({k: v for k, v in s.processes.others.items() if k[0] == process})
        for s in (before, after)
    ]
    return other_s(*mine)


def test_a_busy_process_of_another_program_is_found():
    with detached(BUSY.format(30)) as process:
        before = gates.snapshot(None)
        assert owned.wait_until(lambda: used_by(process, before, gates.snapshot(None)) > 0.2, 20)
        after = gates.snapshot(None)
    assert "others" in names(gates.neighbour_findings(before, after))
    watch = gates.Watch()
    assert "others" in names(watch.findings(gates.Before(before)))
    assert gates.cpu_facts(before, after)["cpu_others_s"] > 0.2


def test_our_own_processes_and_groups_are_not_others(root_with_loop):
    group = owned.cgroup_root() / f"{owned.PREFIX}gates-{os.getpid()}"
    group.mkdir()
    try:
        with detached(BUSY.format(30)) as process:
            (group / "cgroup.procs").write_text(str(process), encoding="ascii")
            child = subprocess.Popen([sys.executable, "-c", BUSY.format(0.3)])
            before, seen = gates.snapshot(None, [group]), gates.snapshot(None)
            assert owned.wait_until(lambda: used_by(process, seen, gates.snapshot(None)) > 0.1, 20)
            child.wait()
            after = gates.snapshot(None, [group])
        keys = {key[0] for key in (*before.processes.others, *after.processes.others)}
        assert not keys & {process, child.pid, os.getpid()}
    finally:
        assert owned.wait_until(lambda: _gone(group), 10)


def _gone(group):
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def test_processes_that_came_and_went_are_charged_to_their_parent():
    program = (
        "import subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {BUSY.format(0.4)!r}])\n"
        "time.sleep(30)\n"
    )
    before = gates.snapshot(None)
    with detached(program) as process:
        assert owned.wait_until(lambda: used_by(process, before, gates.snapshot(None)) > 0.3, 20)


def used(before, after, ours=None, ours_after=None):
    return other_s(UserProcesses(before, ours or {}), UserProcesses(after, ours_after or {}))


def test_what_a_child_had_used_before_is_not_charged_again():
    parent = Process(1, 1.0, 0.5)
    before = {(10, 0): parent, (11, 0): Process(10, 0.25, 0.125)}
    # The child used 0.5 s more, and its parent waited for it.
    after = {(10, 0): Process(1, 1.0, 0.5 + 0.25 + 0.125 + 0.5)}
    assert used(before, after) == 0.5
    assert used(before, {(10, 0): parent}) == 0.0
    assert used({}, {(12, 0): Process(1, 0.25, 0.0)}) == 0.25


def test_a_grandchild_that_ended_before_its_parent_is_not_charged_again():
    """A build or a test run ends: its lives of 898 s arrive at the shell within one window."""
    shell, make, job = Process(1, 1.0, 0.0), Process(10, 2.0, 30.0), Process(11, 898.0, 0.0)
    before = {(10, 0): shell, (11, 0): make, (12, 0): job}
    after = {(10, 0): Process(1, 1.0, 898.0 + 0.5 + 32.0)}
    assert used(before, after) == pytest.approx(0.5)


@pytest.mark.parametrize("heir", [1, 5])
def test_an_orphan_is_not_charged_to_the_ancestor_that_waits_for_it(heir):
    """Its parent ended without waiting: init or a subreaper of the chain does."""
    shell, orphan = Process(5, 3.0, 0.0), Process(10, 898.0, 2.0)
    before = {(1, 0): Process(0, 9.0, 9.0), (5, 0): Process(1, 1.0, 0.0), (10, 0): shell,
              (11, 0): orphan}  # fmt: skip
    # The shell's own 3 s are with its parent, which is there.
    after = {(1, 0): Process(0, 9.0, 9.0), (5, 0): Process(1, 1.0, 3.0)}
    account = after[heir, 0]
    after[heir, 0] = Process(account.parent, account.own_s, account.waited_s + 900.0 + 0.25)
    assert used(before, after) == pytest.approx(0.25)


def test_a_child_that_nobody_waits_for_takes_nothing_from_its_grandparent():
    """A parent that ignores SIGCHLD gets no account; the grandparent's other child used 2 s."""
    before = {(1, 0): Process(0, 0.0, 0.0), (10, 0): Process(1, 0.0, 0.0),
              (11, 0): Process(10, 50.0, 0.0)}  # fmt: skip
    after = {(1, 0): Process(0, 0.0, 2.0), (10, 0): Process(1, 0.0, 0.0)}
    assert used(before, after) == 2.0


def test_a_process_of_ours_that_lost_its_parent_stays_ours():
    ours = {(20, 0): Process(1, 1.0, 0.0), (21, 0): Process(20, 400.0, 0.0)}
    init = {(1, 0): Process(0, 9.0, 0.0)}
    adopted = {**init, (21, 0): Process(1, 401.0, 0.0)}
    assert used(init, adopted, ours) == 0.0
    # It ends as well, and init waits for both.
    waited = {(1, 0): Process(0, 9.0, 402.5)}
    assert used(init, waited, ours) == pytest.approx(1.5)


def test_no_program_uses_more_than_the_cpus_were_busy_for(quiet):
    """Whatever the accounts of processes say."""
    jump = UserProcesses({(7, 0): Process(1, 898.03, 0.0)})
    after = later(quiet, busy_s=quiet.busy_s + 0.5, processes=jump)
    assert gates.cpu_facts(quiet, after)["cpu_others_s"] == pytest.approx(0.5)
    wild = later(quiet, busy_s=quiet.busy_s + 1e6, processes=jump)
    assert gates.cpu_facts(quiet, wild)["cpu_others_s"] == pytest.approx(os.cpu_count() or 1)
    backwards = later(quiet, busy_s=quiet.busy_s - 5, processes=jump, stolen_s=quiet.stolen_s - 5)
    assert gates.cpu_facts(quiet, backwards)["cpu_others_s"] == 0.0
    assert gates.neighbour_findings(quiet, backwards) == ()
    jumped = later(quiet, stolen_s=quiet.stolen_s + 1e4)
    assert gates.neighbour_findings(quiet, jumped) == ()


def test_the_end_of_a_long_family_is_not_its_life(state):
    """The same on the kernel: a program whose grandchild has used a second ends as a whole."""
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY.format(1)!r}])"
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    program = f"{middle}\nimport time; time.sleep(60)"
    with detached(program) as process:

        def family():
            return _family(process, gates.snapshot(None).processes.others)

        assert owned.wait_until(lambda: max(family().values(), default=0) > 0.8, 60)
        before = gates.snapshot(None)
        assert owned.wait_until(lambda: len(family()) == 1, 60)
        after = gates.snapshot(None)
        lives = _family(process, before.processes.others)
        mine = [UserProcesses({k: v for k, v in s.processes.others.items() if k[0] in lives})
                for s in (before, after)]  # fmt: skip
    assert other_s(*mine) < 0.7


def _family(process, others):
    """Process id -> CPU seconds of a process and of those below it."""
    ids = {process}
    for _ in range(4):
        ids |= {pid for (pid, _), each in others.items() if each.parent in ids}
    return {pid: each.own_s for (pid, _), each in others.items() if pid in ids}


def test_kernel_threads_are_not_others():
    known = user_processes(os.getpid()).others
    threads = {2}  # kthreadd
    assert not {key[0] for key in known} & threads
    stat = "12 (kworker/0:1-events) I 2 0 0 0 -1 69238880 0 0 0 0 500 900 0 0 20 0 1 0 7 0 0"
    assert parse(stat.rpartition(")")[2].split()) is None
    user = stat.replace("69238880", "4194304").replace("kworker/0:1-events", "a) b (c")
    assert parse(user.rpartition(")")[2].split()) == (7, Process(2, 14.0, 0.0))


# Recorded on a virtual machine, 2 CPUs; then the same 1 s later with 5 ticks stolen.
STAT = "cpu  248941 87 43154 233673 13499 0 2017 1437 0 0\ncpu0 113493 54 20679 129183 6976\n"


def test_stolen_time_is_found(quiet):
    busy_s, stolen_s = gates.cpu_times(STAT)
    assert (busy_s, stolen_s) == (pytest.approx(2941.99), pytest.approx(14.37))
    assert gates.cpu_times("cpu  1 2 3 4 5 6 7") == (pytest.approx(0.19), 0.0)
    _, more_s = gates.cpu_times(STAT.replace(" 1437 ", " 1442 "))
    before = dataclasses.replace(quiet, stolen_s=stolen_s)
    assert names(gates.neighbour_findings(before, later(quiet, stolen_s=more_s))) == ["steal"]
    two_ticks = later(quiet, stolen_s=stolen_s + 0.0199)
    assert gates.neighbour_findings(before, two_ticks) == ()


def test_stolen_time_is_a_share_of_all_cpus_and_of_the_window(quiet):
    share_s = gates.STEAL_SHARE * 10 * (os.cpu_count() or 1)
    assert share_s > gates.STEAL_FLOOR_S
    for factor, found in ((0.9, []), (1.1, ["steal"])):
        after = dataclasses.replace(
            quiet, at_s=quiet.at_s + 10, stolen_s=quiet.stolen_s + factor * share_s
        )
        assert names(gates.neighbour_findings(quiet, after)) == found


def test_pages_that_were_swapped_either_way_are_counted(tmp_path, monkeypatch):
    (tmp_path / "vmstat").write_text("pswpin 3\npswpout 40\n", encoding="ascii")
    (tmp_path / "stat").write_text(STAT, encoding="ascii")
    monkeypatch.setattr(gates, "PROC", tmp_path)
    assert gates.snapshot(None).swapped_pages == 43


def test_swap_errors_and_bytes(quiet):
    findings = gates.findings(quiet, later(quiet, swapped_pages=quiet.swapped_pages + 1), None)
    assert names(findings) == ["swap"]
    findings = gates.findings(quiet, later(quiet, io_errors=quiet.io_errors + 1), None)
    assert names(findings) == ["io-errors"]
    moved = later(quiet, read_bytes=quiet.read_bytes + (100 << 20))
    assert gates.findings(quiet, moved, None) == ()
    assert gates.findings(quiet, moved, (99 << 20, 0)) == ()
    assert names(gates.findings(quiet, moved, (98 << 20, 0))) == ["device-bytes"]
    few = later(quiet, read_bytes=quiet.read_bytes + (1 << 20) + 1)
    assert names(gates.findings(quiet, few, (0, 0))) == ["device-bytes"]
    assert names(gates.findings(quiet, moved, (100 << 20, 9 << 20))) == ["device-bytes"]


def test_what_was_counted_before_a_run_is_not_held_against_it(quiet):
    names_of_counters = ("swapped_pages", "throttled", "io_errors", "read_bytes", "written_bytes")
    used = dataclasses.replace(quiet, **dict.fromkeys(names_of_counters, 7))
    assert gates.findings(used, later(used), (0, 0)) == ()
    more = later(used, written_bytes=used.written_bytes + (3 << 20))
    assert "the device counted 3145728" in gates.findings(used, more, (0, 0))[0].detail
    assert gates.findings(used, more, (0, 2 << 20)) == ()  # a MiB is allowed
    used = dataclasses.replace(quiet, read_bytes=300 << 20)
    read = later(used, read_bytes=400 << 20)
    assert gates.findings(used, read, None, cold_bytes=100 << 20) == ()
    assert names(gates.findings(used, read, None, cold_bytes=200 << 20)) == ["not-cold"]


def test_heat_of_cpu_and_nvme(quiet, tmp_path, monkeypatch):
    cpu = tmp_path / "cpu" / "cpu0" / "thermal_throttle"
    cpu.mkdir(parents=True)
    (cpu / "core_throttle_count").write_text("7\n", encoding="ascii")
    sensor = tmp_path / "hwmon" / "hwmon3"
    sensor.mkdir(parents=True)
    for name, text in {"name": "nvme", "temp1_input": "70450", "temp1_max": "70450"}.items():
        (sensor / name).write_text(text + "\n", encoding="ascii")
    monkeypatch.setattr(gates, "CPU", tmp_path / "cpu")
    monkeypatch.setattr(gates, "HWMON", tmp_path / "hwmon")
    hot = gates.snapshot(None)
    findings = gates.findings(quiet, later(quiet, throttled=hot.throttled), None)
    assert names(findings) == ["thermal"]
    (finding,) = gates.findings(quiet, later(quiet, too_hot=hot.too_hot), None)
    assert finding.gate == "thermal"
    assert finding.detail == "device has 70 °C, its warning is at 70"
    (sensor / "temp1_input").write_text("70449\n", encoding="ascii")
    assert gates.snapshot(None).too_hot == ()


def test_a_lower_frequency_than_before_runs(tmp_path, monkeypatch):
    policy = tmp_path / "cpufreq" / "policy0"
    (policy / "stats").mkdir(parents=True)
    states = policy / "stats" / "time_in_state"

    def clock(now_khz, spent):
        (policy / "scaling_cur_freq").write_text(f"{now_khz}\n", encoding="ascii")
        text = "".join(f"{khz} {ticks}\n" for khz, ticks in spent.items())
        states.write_text(text, encoding="ascii")

    monkeypatch.setattr(gates, "CPU", tmp_path)
    watch = gates.Watch()
    monkeypatch.setattr(gates, "settle", lambda devices, settle_s: None)
    for _ in range(3):
        clock(3_000_000, {3_000_000: 1000, 2_000_000: 0})
        before = watch.before()
    clock(3_000_000, {3_000_000: 1050, 2_000_000: 50})
    assert "frequency" in names(watch.findings(before))
    clock(3_000_000, {3_000_000: 1095, 2_000_000: 5})
    assert "frequency" not in names(watch.findings(before))
    states.unlink()
    before = watch.before()
    (policy / "scaling_cur_freq").write_text("2000000\n", encoding="ascii")
    assert "frequency" in names(watch.findings(before))


def test_dirty_pages_keep_it_from_settling(tmp_path, monkeypatch, loop):
    monkeypatch.setattr(gates, "PROC", tmp_path)
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_dirty 3\nnr_writeback 0\n", encoding="ascii")
    began = time.monotonic()
    assert gates.settle([Path(loop).name], 5.0) is None
    assert time.monotonic() - began >= gates.SETTLE_STEP_S * (gates.SETTLE_LOOKS - 1)
    for text, words in (("nr_dirty 300", "dirty"), ("nr_writeback 300", "being written back")):
        vmstat.write_text(text + "\n", encoding="ascii")
        finding = gates.settle([], 0.2)
        assert finding
        assert (finding.gate, finding.fatal, words in finding.detail) == ("unsettled", False, True)


def test_requests_in_flight_keep_it_from_settling(tmp_path, monkeypatch):
    (tmp_path / "sdx").mkdir()
    monkeypatch.setattr(gates, "BLOCK", tmp_path)
    monkeypatch.setattr(gates, "PROC", tmp_path)
    (tmp_path / "sdx" / "inflight").write_text("       0        2\n", encoding="ascii")
    began = time.monotonic()
    finding = gates.settle(["sdx"], 0.2)
    assert time.monotonic() - began >= 0.2
    assert finding
    assert "sdx has 0 + 2 requests in flight" in finding.detail


def test_a_queue_is_silent_only_after_its_last_write(loop):
    handle, page = os.open(loop, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096)
    written, before_bytes = [], gates.device_bytes(Path(loop).name)

    def write():
        for _ in range(20):
            os.pwritev(handle, [page], 0)
            written.append(time.monotonic())
            time.sleep(drain.QUIET_S / 6)

    writer = threading.Thread(target=write)
    writer.start()
    assert owned.wait_until(lambda: bool(written), 20)
    took_s = drain.drain(Path(loop), [Path(loop).name], 60.0)
    returned = time.monotonic()
    writer.join()
    os.preadv(handle, [mmap.mmap(-1, 1 << 20)], 0)
    os.close(handle)
    read, wrote = map(operator.sub, gates.device_bytes(Path(loop).name), before_bytes)
    assert read >= 1 << 20 and wrote == 20 * 4096
    # One write may come between the last look and the return.
    *_, before, last = [0.0, *(at for at in written if at < returned)]
    assert max(returned - last, last - before) >= drain.QUIET_S * 0.9
    assert took_s >= drain.QUIET_S
