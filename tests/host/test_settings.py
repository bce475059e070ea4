"""Settings of every layer on the real kernel: a command reads each back; a killed run leaves
nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from dying import recovered

from schedlab.app.apply.apply import Request, ToApply, apply
from schedlab.app.apply.recovering import recover_all
from schedlab.app.apply.undo import undo
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.own_work import OwnWork, comparison_of
from schedlab.app.measure.measure import run
from schedlab.app.tune import space as tune_space
from schedlab.errors import HostError
from schedlab.host.safety import journal, recover
from schedlab.host.safety.control import Control
from schedlab.host.settings import control_groups, knobs, settings
from schedlab.nouns import Candidate, Stopping
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.tune.space import SchedulerSpace, Space, Tunable, settings_of

pytestmark = pytest.mark.usefixtures("root_with_loop", "state")
CENTISECS = Path("/proc/sys/vm/dirty_writeback_centisecs")
SYSCTL = "sysctl.vm.dirty_writeback_centisecs"


def own(controller, file, process="self"):
    """The file of a process's own group in version 1 or 2, as a shell expression."""
    groups = f"/proc/{process}/cgroup"
    names = f"/sys/fs/cgroup/{controller}$(sed -n 's/^[0-9]*:{controller}://p' {groups})"
    unified = f"/sys/fs/cgroup$(sed -n 's/^0:://p' {groups})/.."
    return f"cat {names}/{file[0]} 2>/dev/null || cat {unified}/{file[1]}"


def harmless_parameter():
    """A switch of a loaded module that may be written, and nothing here uses; None without one."""
    for name in ("sch_htb.htb_hysteresis", "printk.time"):
        path = settings.MODULES / name.replace(".", "/parameters/")
        if knobs.writable(path) and os.access(path, os.W_OK):
            return name, path
    return None


def can_boost(file):
    """Whether the kernel takes "on": a processor may be without, and have the file."""
    if not file.exists():
        return False
    found = file.read_text()
    try:
        file.write_text("1")
    except OSError:
        return False
    file.write_text(found)
    return True


def scenes(group, mark):
    """(kind, words of one candidate, of the other, what reads it, what it reads under the other),
    of each kind of setting that this machine has."""
    queue = "/sys/block/$(basename @device@)/queue/read_ahead_kb"
    yield "queue", "read_ahead_kb=64", "read_ahead_kb=256", f"cat {queue}", "256"
    first, second = (int(CENTISECS.read_text()) + n for n in (1, 2))
    yield "sysctl", f"{SYSCTL}={first}", f"{SYSCTL}={second}", f"cat {CENTISECS}", str(second)
    if parameter := harmless_parameter():
        name, path = parameter
        now = "Y" if path.read_text()[0] in "YN" else "1"
        yield "module", f"module.{name}=0", f"module.{name}=1", f"cat {path}", now
    yield "thp", "thp=madvise", "thp=never", f"grep -o '\\[never\\]' {settings.THP}", "[never]"
    for policy in sorted(settings.CPUFREQ.glob("policy*"))[:1]:
        file = policy / knobs.GOVERNOR
        yield "governor", "governor=performance", "governor=powersave", f"cat {file}", "powersave"
        if (file := policy / knobs.PREFERENCE).exists():  # set by the governor, unless it is named
            yield "preference", "", f"{file.name}=power", f"cat {file}", "power"
    if can_boost(file := settings.CPUFREQ / "boost"):
        yield "boost", "boost=on", "boost=off", f"cat {file}", "0"
    file = own("blkio", ("blkio.throttle.read_bps_device", "io.max"))
    yield "io.max", "", "cgroup.io.max=rbps=64M", f"({file}) | grep -o 67108864", "67108864"
    if (group / "io.latency").exists():
        file = own("io", ("io.latency", "io.latency"))
        read = f"({file}) | grep -o target=5000"
        yield "io.latency", "", "cgroup.io.latency=5000", read, "target=5000"
    file = own("blkio", ("blkio.bfq.weight", "io.weight"))
    yield "io.weight", "", "cgroup.io.weight=300", f"({file}) | grep -o 300", "300"
    file = own("cpu", ("cpu.shares", "cpu.weight"))
    yield "cpu.weight", "", "cgroup.cpu.weight=50", f"({file}) | sed s/^512$/50/", "50"
    file = own("cpu", ("cpu.shares", "cpu.weight"), "$(cat @dir@/server)")
    yield "server", "", "", f"({file}) | sed s/^512$/50/", "50"
    file = "io.max" if control_groups.io_hierarchy().is_v2 else "blkio.throttle.read_bps_device"
    words, read = f"cgroup.{group.name}.io.max=rbps=32M", f"grep -o 33554432 {group}/{file}"
    yield "group", "", words, read, "33554432"
    yield "run", "", f"run='echo 7 > {mark}' undo='rm -f {mark}'", f"cat {mark} 2>/dev/null", "7"


@pytest.fixture
def group():
    """A control group of block I/O that exists, the test's own."""
    try:
        where = control_groups.io_hierarchy()
    except HostError as error:
        pytest.skip(str(error))
    path = where.root / f"schedlab-test-{os.getpid()}.slice"
    path.mkdir()
    yield path
    path.rmdir()


def test_a_command_finds_each_setting_as_its_candidate_has_it(tmp_path, group):
    mark = Path("/tmp") / f"schedlab-test-{os.getpid()}"
    kinds, first, second, reads, expected = zip(*scenes(group, mark), strict=True)
    lines = [f'echo "{kind} $( {read})"' for kind, read in zip(kinds, reads, strict=True)]
    work = OwnWork(
        argv=(f"{'; '.join(lines)}; true",), shell=True, metrics=("elapsed",),
        parameters={"anyway": True, "user": "root", "confine": "nothing",
                    "setup": "sleep 600 & echo $! >@dir@/server"},
    )  # fmt: skip
    names = [word.partition("=")[0] for word in " ".join(second).split() if "=" in word]
    place = Place(scratch_bytes=16 << 20, filesystem="ext4",
                  switch=tuple(filter(settings.is_beyond, names)))  # fmt: skip
    candidates = f"a=bfq {' '.join(first)}", f"b=bfq {' '.join(second)}"
    asked = comparison_of(place, work, candidates=candidates, aa_arm=False, seed=1,
                          stopping=Stopping(blocks=2))  # fmt: skip
    before = CENTISECS.read_text()
    for each in run(asked, tmp_path / "out").folder.runs():
        file = tmp_path / f"out/raw/output/{each.block:04d}-{each.position:04d}-{each.attempt}.out"
        found = dict(line.partition(" ")[::2] for line in file.read_text().splitlines())
        assert list(found) == list(kinds)
        for kind, value in zip(kinds, expected, strict=True):
            assert (found[kind] == value) == (each.candidate == "b"), (each.candidate, found)
        assert "knob-changed" not in {finding.gate for finding in each.gates}
    assert CENTISECS.read_text() == before
    assert not mark.exists()


def test_a_setting_that_another_program_changes_is_noticed(loop):
    found = int(CENTISECS.read_text())
    name = Path(loop).name
    candidate = Candidate("a", {"scheduler": "none", SYSCTL: found + 1})
    with Control() as control:
        hosts = CandidateSettings(control, (name,), (candidate,))
        effective, _ = hosts.apply(candidate)
        assert effective == {"scheduler": "none", SYSCTL: str(found + 1)}
        assert control.check() == ()
        CENTISECS.write_text(str(found + 2))
        (finding,) = control.check()
        assert str(CENTISECS) in finding.detail
        CENTISECS.write_text(str(found + 1))
    assert int(CENTISECS.read_text()) == found


def test_as_is_is_the_queue_that_was_found(loop):
    queue = knobs.queue_of(loop)
    for file, value in {"scheduler": "mq-deadline", "iosched/fifo_batch": "7", "nr_requests": "64",
                        "read_ahead_kb": "96"}.items():  # fmt: skip
        knobs.write_value(queue / file, value)
    found = knobs.snapshot(queue)
    as_is, plain = Candidate("as-is", {"scheduler": "as-is"}), Candidate("t", {SYSCTL: 499})
    tuned = Candidate("b", {"scheduler": "bfq", "nr_requests": 32, "read_ahead_kb": 64})
    with Control() as control:
        hosts = CandidateSettings(control, (Path(loop).name,), (as_is, tuned, plain))
        for each in (tuned, as_is, tuned, plain):
            hosts.apply(each)
            assert (knobs.snapshot(queue) == found) == (each is not tuned), each.label
            assert control.check() == ()
        hosts.apply(tuned)
        hosts.as_found()
        assert knobs.snapshot(queue) == found


def test_dirty_bytes_and_their_ratio_are_one_setting():
    """The kernel takes no 0 for the bytes: the ratio that it set to 0 is the way back."""
    files = [Path("/proc/sys/vm") / f"dirty_background_{what}" for what in ("bytes", "ratio")]
    found = [each.read_text() for each in files]
    if found[0].strip() != "0":
        pytest.skip("this machine has dirty_background_bytes set")
    first = Candidate("a", {"sysctl.vm.dirty_background_bytes": "512M"})
    second = Candidate("b", {})
    with Control() as control:
        hosts = CandidateSettings(control, (), (first, second))
        for _ in range(2):
            hosts.apply(first)
            assert files[0].read_text().strip() == str(512 << 20)
            assert control.check() == ()
            hosts.apply(second)
            assert [each.read_text() for each in files] == found
            assert control.check() == ()
        hosts.apply(first)
    assert [each.read_text() for each in files] == found


def test_a_setting_of_the_machine_is_probed_and_can_be_tuned(loop):
    found = CENTISECS.read_text()
    asked = Space((SchedulerSpace("none", (Tunable(SYSCTL, 100, 900),)),))
    with Control() as control:
        session = SimpleNamespace(queues=(Path(loop).name,), control=control)
        space, notes = tune_space.probe(session, asked)
        assert CENTISECS.read_text() == found
        (tunable,) = space.schedulers[0].tunables
        assert (tunable.low, tunable.high, tunable.default, notes) == (100, 900, int(found), [])
        hosts = CandidateSettings(control, session.queues, ())  # a search names them one by one
        for value in (101, 102):
            hosts.apply(Candidate("t", settings_of(space, "none", {SYSCTL: value})))
            assert int(CENTISECS.read_text()) == value
        hosts.apply(Candidate("default", settings_of(space, "none", {})))
        assert CENTISECS.read_text() == found


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_command_whose_undo_fails_is_named(tmp_path, by_hand):
    mark = tmp_path / "mark"
    with pytest.raises(HostError, match="exit status 3") as raised, Control() as control:
        control.run_command("true", f"test -e {mark} || exit 3")
    assert raised.value.hint.endswith(f"test -e {mark} || exit 3; schedlab recover --forget-undo")
    recover_all(None, dry_run=True, forget_undo=True)  # changes nothing
    (failure,) = recover_all(None, dry_run=False).failed  # every command that looks tries it again
    assert failure.what == f"`test -e {mark} || exit 3`"
    if by_hand:
        mark.touch()
    assert recover_all(None, dry_run=False, forget_undo=not by_hand).failed == []
    assert journal.sessions(journal.state_directory()) == []


def test_what_a_command_leaves_in_the_background_does_not_hold_it(monkeypatch):
    monkeypatch.setattr(recover, "COMMAND_TIMEOUT_S", 2.0)
    assert recover.shell_line("sleep 5 &") == ""
    assert recover.shell_line("echo first >&2; echo why >&2; exit 3") == "exit status 3: why"


def test_a_governor_takes_its_preference_back():
    """A governor sets the preference: what was found comes back with it, in every order."""
    cpus = len(list(settings.CPUFREQ.glob("policy*")))
    files = [*settings.CPUFREQ.glob(f"*/{knobs.GOVERNOR}"),
             *settings.CPUFREQ.glob(f"*/{knobs.PREFERENCE}")]  # fmt: skip
    if not files or len(files) < 2 * cpus:
        pytest.skip("these CPUs have no energy_performance_preference")
    usual = [each.read_text() for each in files]
    candidates = [
        Candidate("fast", {"governor": "performance"}), Candidate("plain", {}),
        Candidate("saving", {"energy_performance_preference": "power"}),
        Candidate("both", {"energy_performance_preference": "power", "governor": "powersave"}),
    ]  # fmt: skip
    expected = [("performance", "performance"), ("powersave", "balance_power"),
                ("powersave", "power"), ("powersave", "power")]  # fmt: skip

    def now():
        return [each.read_text() for each in files]

    def both(governor, preference):
        return [f"{governor}\n"] * cpus + [f"{preference}\n"] * cpus

    found = both("powersave", "balance_power")
    for file, text in zip(files, found, strict=True):
        file.write_text(text)
    try:
        with Control() as control:
            hosts = CandidateSettings(control, (), candidates[::-1])
            for number in (0, 1, 0, 2, 0, 3, 0):
                hosts.apply(candidates[number])
                assert now() == both(*expected[number]), number
                assert control.check() == ()
        assert now() == found
        apply(ToApply(candidates[0]), Request(()), lambda line: None)
        assert now() == both(*expected[0])
        lines = []
        undo([], False, lines.append)
        assert (now(), lines) == (found, [])
    finally:
        for file, text in zip(files, usual, strict=True):
            file.write_text(text)


CALLS = ("write", "fsync", "openat")
SOME = (1, 5, 12, 20, 33, 50, 70, 100)
PROGRAM = """
import json, sys
from schedlab.host.safety.control import Control
from schedlab.run.candidate_settings import CandidateSettings, groups_of_work
from schedlab.nouns import Candidate
device, settings = sys.argv[1], json.loads(sys.argv[2])
first, second = Candidate("a", settings), Candidate("b", {"scheduler": "none"})
with Control() as control:
    hosts = CandidateSettings(control, (device,), (first, second), groups_of_work(control))
    for each in (first, second, first):
        hosts.apply(each)
"""


def of_every_kind(group, mark):
    """A setting of each kind that this machine has, unlike what it is now."""
    found = harmless_parameter()
    values = {
        "scheduler": "bfq", "slice_idle": 3, "read_ahead_kb": 64,
        SYSCTL: int(CENTISECS.read_text()) + 1,
        "sysctl.vm.dirty_background_bytes": "512M",
        "thp": "madvise" if "[never]" in settings.THP.read_text() else "never",
        "knob.sched_rr_timeslice_ms": 30,
        "cgroup.cpu.weight": 50, "cgroup.io.max": "rbps=32M",
        f"cgroup.{group.name}.io.max": "rbps=64M", f"cgroup.{group.name}.io.weight": 200,
        "run": f"touch {mark}", "undo": f"rm -f {mark}",
    }  # fmt: skip
    if found:
        values[f"module.{found[0]}"] = 1 - "1Y".count(found[1].read_text()[0])
    for policy in sorted(settings.CPUFREQ.glob("policy*"))[:1]:
        now = (policy / knobs.GOVERNOR).read_text().strip()
        values["governor"] = "powersave" if now == "performance" else "performance"
    return values


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_any_step_leaves_every_layer_as_it_was(loop, group, tmp_path, call):
    if shutil.which("strace") is None:
        pytest.skip("needs strace to kill at a system call")
    mark, name = tmp_path / "mark", Path(loop).name
    knobs.write_value(knobs.queue_of(loop) / "scheduler", "bfq")  # groups have weights only then
    values = of_every_kind(group, mark)
    place = settings.SettingScope(name, lambda controller: group)
    files = {
        knobs.keyed(path)[0]
        for key, value in values.items() if settings.scope_of(key) in ("machine", "group")
        for path, _ in settings.resolve(key, value, place)
    }  # fmt: skip
    files |= {each for path in files if (each := knobs.companion(path))}

    def now():
        return {each: each.read_text() for each in files}, knobs.snapshot(knobs.queue_of(loop))

    before = now()
    for number in range(1, 5000) if os.environ.get("KILLS") == "all" else SOME:
        program = [sys.executable, "-c", PROGRAM, name, json.dumps(values)]
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        strace = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        ended = subprocess.run([*strace, *program], capture_output=True, text=True, timeout=120,
                               check=False)  # fmt: skip
        assert ended.returncode in (0, -9, 137), ended.stderr
        recovery = recovered(journal.state_directory())
        assert recovery.failed == recovery.foreign == [], f"{call} {number}: {recovery.lines()}"
        assert now() == before, f"{call} {number}"
        assert not mark.exists(), f"{call} {number}"
        if ended.returncode == 0:
            break
