"""Settings of every layer on the real kernel: a command reads each back and sleeps accordingly; a
killed run leaves nothing."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.app.apply.apply import Request, ToApply, apply
from schedlab.app.apply.recovering import recover_all
from schedlab.app.apply.undo import undo
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.own_work import OwnWork, comparison_of
from schedlab.app.measure.measure import run
from schedlab.app.tune import space as tune_space
from schedlab.errors import HostError
from schedlab.host import control_groups, journal, knobs, recover, settings
from schedlab.host.control import Control
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.spec import Candidate, Stopping
from schedlab.tune.space import SchedulerSpace, Space, Tunable, settings_of

pytestmark = pytest.mark.usefixtures("root_with_loop", "state")
CENTISECS = Path("/proc/sys/vm/dirty_writeback_centisecs")
SYSCTL = "sysctl.vm.dirty_writeback_centisecs"


def own(controller, file):
    """The file of the command's own group in version 1 or 2, as a shell expression."""
    names = f"/sys/fs/cgroup/{controller}$(sed -n 's/^[0-9]*:{controller}://p' /proc/self/cgroup)"
    unified = "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/.."
    return f"cat {names}/{file[0]} 2>/dev/null || cat {unified}/{file[1]}"


def harmless_parameter():
    """A switch of a loaded module that may be written, and nothing here uses."""
    for name in ("sch_htb.htb_hysteresis", "printk.time"):
        (path,) = [settings.MODULES / name.replace(".", "/parameters/")]
        if knobs.writable(path) and os.access(path, os.W_OK):
            return name, path
    pytest.skip("no harmless parameter of a module may be written here")


def cpu_policy():
    """The directory of the first CPU's frequencies; skips where there are none."""
    for path in sorted(settings.CPUFREQ.glob("policy*")):
        return path
    pytest.skip("this machine has no cpufreq driver")


def scene(kind, group):
    """(words of the fast candidate, of the slow one, what reads it, what it reads under slow)."""
    if kind == "queue":
        queue = "/sys/block/$(basename @device@)/queue/read_ahead_kb"
        return "read_ahead_kb=64", "read_ahead_kb=256", f"cat {queue}", "256"
    if kind == "sysctl":
        fast, slow = (int(CENTISECS.read_text()) + n for n in (1, 2))
        return f"{SYSCTL}={fast}", f"{SYSCTL}={slow}", f"cat {CENTISECS}", str(slow)
    if kind == "module":
        name, path = harmless_parameter()
        now = {"0": "N", "1": "Y"} if path.read_text()[0] in "YN" else {"0": "0", "1": "1"}
        return f"module.{name}=0", f"module.{name}=1", f"cat {path}", now["1"]
    if kind == "thp":
        words = f"grep -o '\\[never\\]' {settings.THP}"
        return "thp=madvise", "thp=never", words, "[never]"
    if kind in ("governor", "preference"):
        policy = cpu_policy()
        file = policy / (knobs.GOVERNOR if kind == "governor" else knobs.PREFERENCE)
        if kind == "governor":
            return "governor=performance", "governor=powersave", f"cat {file}", "powersave"
        if not file.exists():
            pytest.skip("these CPUs have no energy_performance_preference")
        words = [f"governor=powersave {file.name}={word}" for word in ("performance", "power")]
        return *words, f"cat {file}", "power"
    if kind == "boost":
        if not (settings.CPUFREQ / "boost").exists():
            pytest.skip("these CPUs have no frequencies above the nominal one")
        return "boost=on", "boost=off", f"cat {settings.CPUFREQ / 'boost'}", "0"
    if kind == "io.max":
        file = own("blkio", ("blkio.throttle.read_bps_device", "io.max"))
        return "", "cgroup.io.max=rbps=64M", f"({file}) | grep -o 67108864", "67108864"
    if kind == "io.latency":
        if not (group / "io.latency").exists():
            pytest.skip("needs cgroup v2 and CONFIG_BLK_CGROUP_IOLATENCY")
        file = own("io", ("io.latency", "io.latency"))
        return "", "cgroup.io.latency=5000", f"({file}) | grep -o target=5000", "target=5000"
    if kind == "io.weight":
        file = own("blkio", ("blkio.bfq.weight", "io.weight"))
        return "", "cgroup.io.weight=300", f"({file}) | grep -o 300", "300"
    if kind == "cpu.weight":
        file = own("cpu", ("cpu.shares", "cpu.weight"))
        return "", "cgroup.cpu.weight=50", f"({file}) | sed s/^512$/50/", "50"
    if kind == "group":
        is_v2 = control_groups.io_hierarchy().is_v2
        file = "io.max" if is_v2 else "blkio.throttle.read_bps_device"
        word = f"cgroup.{group.name}.io.max=rbps=64M"
        return "", word, f"grep -o 67108864 {group}/{file}", "67108864"
    mark = group.parent.parent / f"schedlab-test-{os.getpid()}"
    mark = Path("/tmp") / mark.name
    return "", f"run='echo 7 > {mark}' undo='rm -f {mark}'", f"cat {mark} 2>/dev/null", "7"


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


KINDS = ("queue", "sysctl", "module", "thp", "io.max", "io.weight", "cpu.weight", "group", "run",
         "io.latency", "governor", "preference", "boost")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_finds_each_setting_as_its_candidate_has_it(tmp_path, group, kind):
    fast, slow, read, expected = scene(kind, group)
    script = f'v=$( {read}); echo "seen=$v."; [ "$v" = "{expected}" ] && sleep 0.5; true'
    work = OwnWork(
        argv=(script,), shell=True, metrics=("elapsed",),
        parameters={"anyway": True, "user": "root"},
    )  # fmt: skip
    names = [word.partition("=")[0] for word in slow.split() if "=" in word]
    place = Place(scratch_bytes=16 << 20, filesystem="ext4",
                  switch=tuple(filter(settings.is_beyond, names)))  # fmt: skip
    scheduler = "bfq" if kind == "io.weight" else "none"
    asked = comparison_of(
        place, work, candidates=(f"slow={scheduler} {slow}", f"fast={scheduler} {fast}"),
        aa_arm=False, seed=1, stopping=Stopping(blocks=5),
    )  # fmt: skip
    asked = replace(asked, workloads=(replace(asked.workloads[0], metric="elapsed_s"),))
    before = CENTISECS.read_text()
    result = run(asked, tmp_path / "out")
    times = {label: [r.metrics["elapsed_s"] for r in result.folder.runs() if r.candidate == label]
             for label in ("slow", "fast")}  # fmt: skip
    assert min(times["slow"]) >= 0.5, times
    assert result.answer.take == "fast"
    for each in result.folder.runs():
        assert not any(finding.fatal for finding in each.gates), each.gates
    assert CENTISECS.read_text() == before
    assert not Path(f"/tmp/schedlab-test-{os.getpid()}").exists()


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
    (failure,) = recover_all(None, dry_run=False).failed  # every command that looks tries it again
    assert failure.what == f"`test -e {mark} || exit 3`"
    if by_hand:
        mark.touch()
    assert recover_all(None, dry_run=False, forget_undo=not by_hand).failed == []
    assert journal.sessions(journal.state_directory()) == []


def test_a_governor_takes_its_preference_back():
    """A governor sets the preference: what was found comes back with it, in every order."""
    cpus = len(list(cpu_policy().parent.glob("policy*")))
    files = [*settings.CPUFREQ.glob(f"*/{knobs.GOVERNOR}"),
             *settings.CPUFREQ.glob(f"*/{knobs.PREFERENCE}")]  # fmt: skip
    if len(files) < 2 * cpus:
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
from schedlab.host.control import Control
from schedlab.run.candidate_settings import CandidateSettings, groups_of_work
from schedlab.spec import Candidate
device, settings = sys.argv[1], json.loads(sys.argv[2])
first, second = Candidate("a", settings), Candidate("b", {"scheduler": "none"})
with Control() as control:
    hosts = CandidateSettings(control, (device,), (first, second), groups_of_work(control))
    for each in (first, second, first):
        hosts.apply(each)
"""


def of_every_kind(group, mark):
    """A setting of each kind that this machine has, unlike what it is now."""
    module, parameter = harmless_parameter()
    values = {
        "scheduler": "bfq", "slice_idle": 3, "read_ahead_kb": 64,
        SYSCTL: int(CENTISECS.read_text()) + 1,
        "sysctl.vm.dirty_background_bytes": "512M",
        "thp": "madvise" if "[never]" in settings.THP.read_text() else "never",
        f"module.{module}": 1 - "1Y".count(parameter.read_text()[0]),
        "knob.sched_rr_timeslice_ms": 30,
        "cgroup.cpu.weight": 50, "cgroup.io.max": "rbps=32M",
        f"cgroup.{group.name}.io.max": "rbps=64M", f"cgroup.{group.name}.io.weight": 200,
        "run": f"touch {mark}", "undo": f"rm -f {mark}",
    }  # fmt: skip
    if list(settings.CPUFREQ.glob("policy*")):
        now = (cpu_policy() / knobs.GOVERNOR).read_text().strip()
        values["governor"] = "powersave" if now == "performance" else "performance"
    return values


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
        state = journal.state_directory()
        journal.prepare(state)
        with journal.held(state, wait_s=30.0) as got:
            assert got, "the lock is still held"
            recovery = recover.restore_all(state)
        assert recovery.failed == recovery.foreign == [], f"{call} {number}: {recovery.lines()}"
        assert now() == before, f"{call} {number}"
        assert not mark.exists(), f"{call} {number}"
        if ended.returncode == 0:
            break
