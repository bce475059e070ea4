"""Names of settings: the files that they mean, and what is refused before anything is changed."""

import re
from types import SimpleNamespace

import pytest
from calls import refusals, refused

from schedlab.app import setting_checks
from schedlab.app.measure import files
from schedlab.design.candidates import is_one, parse_candidate
from schedlab.errors import HostError
from schedlab.host.kernel_paths import Hierarchy
from schedlab.host.safety.control import EffectiveSettings
from schedlab.host.settings import control_groups, knobs, settings
from schedlab.host.settings.settings import SettingScope, check, resolve
from schedlab.kinds import typed
from schedlab.kinds.resolved import IoGroup
from schedlab.nouns import Candidate, Target, Workload
from schedlab.nouns.names import is_beyond_target
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.run.cpu.cpu_policy import parse_policy
from schedlab.run.io import io_groups

COMMAND = typed(Workload("c", "command", "elapsed_s", {"argv": ["true"]}))
READS = typed(Workload("r", "random-reads", "reads_per_s"))


def test_reports_know_which_settings_others_feel():
    """They cannot ask `host.settings.settings`, so both say the same of every form of a name."""
    for family in settings.TABLE:
        named = [family.example.partition("=")[0], *re.split(r",\s*", family.form)]
        for name in (each for each in named if family.pattern.fullmatch(each) and each != "undo"):
            own = name.startswith(settings.CPU_PREFIX) or family.find is settings._cpu_knob
            assert is_beyond_target(name) == (family.scope in settings.BEYOND and not own), name
    assert not is_beyond_target("scheduler") and not is_beyond_target("workload.mode")


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A machine in files: sysctls, two CPUs, a module, huge pages, one disk, cgroup v2."""
    contents = {
        "sysctl/vm/dirty_bytes": "0", "sysctl/vm/swappiness": "60",
        "sysctl/kernel/sched_rr_timeslice_ms": "100",
        "cpufreq/policy0/scaling_governor": "powersave",
        "cpufreq/policy1/scaling_governor": "powersave",
        "cpufreq/policy0/scaling_available_governors": "performance powersave",
        "cpufreq/policy1/scaling_available_governors": "performance powersave",
        "no_turbo": "0",
        "module/zfs/parameters/txg_timeout": "5",
        "thp": "always [madvise] never",
        "debug/base_slice_ns": "3000000",
        "block/sdx/dev": "8:16", "block/sdx/queue/read_ahead_kb": "128",
        "block/sdx/queue/scheduler": "none [bfq]", "block/sdx/queue/iosched/slice_idle": "8",
        "cgroup/io.cost.qos": "", "cgroup/io.cost.model": "8:16 ctrl=auto model=linear rbps=7",
        "cgroup/db.slice/io.weight": "default 100", "cgroup/db.slice/cpu.weight": "100",
    }  # fmt: skip
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, place in {
        "SYSCTL": "sysctl", "CPUFREQ": "cpufreq", "NO_TURBO": "no_turbo", "MODULES": "module",
        "THP": "thp", "DEBUG": "debug",
    }.items():  # fmt: skip
        monkeypatch.setattr(settings, name, tmp_path / place)
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path / "block")
    monkeypatch.setattr(knobs, "_VM", tmp_path / "sysctl/vm")
    unified = Hierarchy(tmp_path / "cgroup", frozenset({"io", "cpu"}), True)
    monkeypatch.setattr(settings, "io_hierarchy", lambda: unified)
    monkeypatch.setattr(settings, "cpu_hierarchy", lambda: unified.root)
    return tmp_path


class Scheduled:
    """A control that only notes the schedulers that it is to set."""

    def __init__(self):
        self.calls = []

    def set_scheduler(self, queue, scheduler, tunables, found):
        self.calls.append((scheduler, tunables, found))
        return EffectiveSettings(queue, scheduler, scheduler)


def test_as_is_sets_what_was_found_where_another_candidate_sets_a_scheduler(host):
    found = {"scheduler": "bfq", "read_ahead_kb": "128", "iosched/slice_idle": "8"}
    as_is, none = Candidate("a", {"scheduler": "as-is"}), Candidate("n", {"scheduler": "none"})
    control = Scheduled()
    CandidateSettings(control, ("sdx",), (as_is,)).apply(as_is)
    assert control.calls == []
    hosts = CandidateSettings(control, ("sdx",), (as_is, none))
    assert hosts.apply(as_is)[0] == {"scheduler": "bfq"}
    hosts.apply(none)
    hosts.as_found()
    assert control.calls == [("bfq", {}, found), ("none", {}, {}), ("bfq", {}, found)]


SETTINGS = (
    ("sysctl.vm.dirty_bytes", "100M"), ("sysctl.vm.swappiness", 10), ("governor", "performance"),
    ("boost", "off"), ("module.zfs.txg_timeout", 20), ("thp", "never"), ("knob.base_slice_ns", 4),
    ("base_slice_ns", 4), ("sched_rr_timeslice_ms", 4.0), ("read_ahead_kb", 64), ("slice_idle", 0),
    ("fifo_batch", 1), ("cgroup.io.cost.qos", "enable=1,rlat=5000"),
    ("cgroup.io.cost.model", "ctrl=user rbps=1M wbps=9 rseqiops=5"), ("cgroup.io.weight", 300),
    ("cgroup.io.max", "rbps=10M,wiops=5"), ("cgroup.io.latency", 5000), ("cgroup.cpu.weight", 50),
    ("cgroup.db.slice.io.weight", 20), ("run", "true"),
)  # fmt: skip
WRONG = (
    ("sysctl.vm.dirty_byte", 1), ("governor", "performence"), ("thp", "newer"), ("boost", "fast"),
    ("module.zfs.txg_timeou", 1), ("module.zf.x", 1), ("cgroup.io.weight", 0),
    ("cgroup.io.max", "bps=1"), ("cgroup.dbslice.io.weight", 1), ("knob.sched_x", 1),
    ("vm.swappiness", 1), ("run", "no-such-program -x"), ("a/b", 1),
)  # fmt: skip


def test_each_name_means_its_files_and_what_is_not_there_is_named(host, golden):
    place = SettingScope("sdx", lambda controller: host / "cgroup/work")
    lines = []
    for name, value in SETTINGS:
        lines.append(f"{name} = {value!r}")
        lines += [f"  {path}: {text}" for path, text in resolve(name, value, place)]
    told = refusals(lambda name, value: check(name, value, place), WRONG, f"{host}/")
    golden("settings.txt", "\n".join([*lines, "", told]).replace(f"{host}/", ""))
    said, hint = refused(check, "undo", "echo 'x", place)  # the rest is the shell's
    assert said.startswith('undo="echo \'x": ') and hint.startswith("try it: sh -c ")


def test_a_preference_is_one_that_its_governor_has(host):
    """The kernel lists those of the governor that is set now."""
    policy, name = host / "cpufreq/policy0", "energy_performance_preference"
    (policy / name).write_text("performance")
    (policy / "energy_performance_available_preferences").write_text("performance")
    (policy / "scaling_governor").write_text("performance")
    check(name, "power", SettingScope(), "powersave")
    said, hint = refused(check, name, "power", SettingScope())
    assert said.endswith("governor performance has no other than performance")
    assert hint == f"{name}=power governor=powersave"
    assert refused(check, name, "power", SettingScope(), "performance") == (said, hint)
    candidate = parse_candidate(f"as-is {name}=power governor=powersave")
    allowed = Target("scratch", switch=("governor", name))
    setting_checks.check_settings([candidate], allowed, (), ())


def test_a_governor_is_one_that_every_cpu_has(host):
    check("governor", "performance", SettingScope())
    (host / "cpufreq/policy1/scaling_available_governors").write_text("powersave")
    said, _ = refused(check, "governor", "performance", SettingScope())
    assert said == "governor = 'performance' is not offered"


def test_what_can_only_be_read_is_refused(host, say):
    file = host / "module/zfs/parameters/txg_timeout"
    file.chmod(0o444)
    say(check, "module.zfs.txg_timeout", 7, SettingScope())
    say(check, "cgroup.io.weight", 7, SettingScope("sdx"))


def test_version_1_of_control_groups(host, monkeypatch, say):
    first = Hierarchy(host / "cgroup", frozenset({"blkio"}), False)
    monkeypatch.setattr(settings, "io_hierarchy", lambda: first)
    (host / "cgroup/cpu.shares").touch()
    home = host / "cgroup/work"
    place = SettingScope("sdx", lambda controller: home)
    assert resolve("cgroup.io.max", "rbps=1M,wiops=max", place) == [
        (home / "blkio.throttle.read_bps_device@8:16", "1048576"),
        (home / "blkio.throttle.write_iops_device@8:16", "0"),
    ]
    assert resolve("cgroup.io.weight", 7, place) == [(home / "blkio.bfq.weight", "7")]
    assert resolve("cgroup.cpu.weight", 50, place) == [(home / "cpu.shares", "512")]
    for name in ("cgroup.io.latency", "cgroup.io.cost.qos"):
        say(resolve, name, "1", place)


def test_a_group_of_a_workload_has_its_share_and_its_limit_of_reads(host, monkeypatch):
    monkeypatch.setattr(io_groups, "io_hierarchy", settings.io_hierarchy)
    made, written = [], []
    control = SimpleNamespace(
        cgroup=lambda name, root: made.append(name) or host / "cgroup/work",
        write_knob=lambda knob, value: written.append((knob.name, value)),
    )
    groups = io_groups.IoGroups(control, "sdx")
    for name, weight, limit in (("a", 300, 0), ("b", 0, 1 << 20), ("b", 7, 0)):
        assert groups.directory(IoGroup(name, weight, limit)) == str(host / "cgroup/work")
    assert made == ["a", "b"] and [value for _, value in written] == ["300", "rbps=1048576", "7"]
    with pytest.raises(HostError, match="a limit needs a single device"):
        io_groups.IoGroups(control, None).directory(IoGroup("c", 0, 1))


def test_lines_of_devices_in_files_of_control_groups(host):
    model = host / "cgroup/io.cost.model@8:16"
    assert knobs.read_value(model) == "ctrl=auto"  # the figures are the kernel's own
    assert knobs.read_value(host / "cgroup/io.cost.qos@8:16") == "enable=0 ctrl=auto"
    knobs.write_value(model, "ctrl=user rbps=5")
    assert (host / "cgroup/io.cost.model").read_text() == "8:16 ctrl=user rbps=5"
    assert knobs.read_value(model) == "ctrl=user rbps=5"
    assert knobs.read_value(host / "cgroup/db.slice/io.weight@default") == "100"
    assert knobs.accepts("rbps=5 wbps=max", "rbps=5") and not knobs.accepts("rbps=6", "rbps=5")
    assert knobs.accepts("enable=1 rpct=95.00", "enable=1 rpct=95")
    assert knobs.same("Y", "1") and knobs.same("4096\t87380", "4096 87380")
    assert not knobs.same("Y", "0")


def test_two_files_of_one_setting(host):
    size, ratio = host / "sysctl/vm/dirty_bytes", host / "sysctl/vm/dirty_ratio"
    assert (knobs.companion(size), knobs.companion(ratio)) == (ratio, size)
    assert knobs.companion(host / "sysctl/vm/swappiness") is None


def test_who_else_feels_a_setting():
    names = ["scheduler", "read_ahead_kb", "thp", "cgroup.io.weight", "knob.sched_x", "run", "undo",
             "cgroup.a.slice.io.weight", "thp", "cgroup.io.cost.qos"]  # fmt: skip
    assert settings.beyond_target(names) == ["thp", "run", "cgroup.a.slice.io.weight"]
    assert settings.is_beyond("governor") and not settings.is_beyond("sda")
    assert not settings.is_beyond("/dev/sda") and settings.is_machine("sysctl.vm.swappiness")
    assert settings.scope_of("cgroup.io.cost.qos") == "device"


def test_a_candidate_may_begin_with_a_setting_of_another_layer():
    for text in ("thp=never", "sysctl.vm.swappiness=10 thp=never", "run='true ;' undo=true"):
        candidate = parse_candidate(text)
        assert (candidate.label, candidate.settings["scheduler"]) == (text, "as-is")
    assert parse_candidate("thp=never").settings == {"scheduler": "as-is", "thp": "never"}
    assert parse_policy("thp=never").settings["policy"] == "other"
    assert parse_candidate("thp_2=none").settings == {"scheduler": "none"}


def test_one_candidate_with_settings_of_any_layer():
    assert parse_candidate("zen=kyber sysctl.vm.dirty_bytes=100M cgroup.io.weight=300") == (
        Candidate("zen", {"scheduler": "kyber", "sysctl.vm.dirty_bytes": "100M",
                          "cgroup.io.weight": 300})
    )  # fmt: skip
    assert parse_candidate("bfq:slice_idle=0,low_latency=1   thp=never") == Candidate(
        "bfq:slice_idle=0,low_latency=1 thp=never",
        {"scheduler": "bfq", "slice_idle": 0, "low_latency": 1, "thp": "never"},
    )
    run = parse_candidate("a=none run='modprobe -q x' undo=\"modprobe -r x\"")
    assert run.settings["run"] == "modprobe -q x" and run.settings["undo"] == "modprobe -r x"
    assert parse_policy("perf=rr:10ms governor=performance").settings == {
        "policy": "rr", "slice_ms": 12.0 if settings.knobs.ticks_per_second() == 250 else 10.0,
        "governor": "performance",
    }  # fmt: skip
    assert [is_one(each) for each in ("bfq:a=1", "x=bfq", "bfq thp=never", "none")] == [
        False, True, True, False
    ]  # fmt: skip
    for wrong in ("", "a=", "a=none x", "a=none x=", "a=none 'x=1", "a=none scheduler=bfq",
                  "a=none x=1 x=2", "a=bfq:x=1 x=2", "=none"):  # fmt: skip
        assert refused(parse_candidate, wrong)[1]


def test_a_file_may_nest_the_names_of_settings():
    table = {
        "candidates": [
            {"label": "a", "settings": {"scheduler": "none", "sysctl": {"vm": {"swappiness": 9}}}},
            "b=bfq thp=never",
            "kyber",
        ],
        "workloads": [{"kind": "random-reads"}],
    }
    asked = files.experiment_of(table, "x.toml")
    assert [dict(each.settings) for each in asked.candidates] == [
        {"scheduler": "none", "sysctl.vm.swappiness": 9},
        {"scheduler": "bfq", "thp": "never"},
        {"scheduler": "kyber"},
    ]


def of(*texts):
    return tuple(map(parse_candidate, texts))


def test_the_door_refuses_what_the_run_would(host, say):
    scratch = Target("scratch", size_bytes=1 << 20)
    door = setting_checks.check_settings
    for text in (
        "a=bfq nosuch=1",
        "a=none slice_idle=1",
        "a=as-is read_ahead_kb=1",
        "a=none run=true",
        "a=none cgroup.io.weight=9",
        "a=none thp=never",
    ):
        say(door, of(text), scratch, ("sdx",), [READS])
    say(door, of("a=none thp=never run=true undo=:"), scratch, ("sdx",), [READS])
    allowed = Target("scratch", size_bytes=1 << 20, switch=("thp",))
    (note,) = door(of("a=none thp=never", "b=unknown x=1"), allowed, ("sdx",), [READS])
    assert note.startswith("thp is set for every program of this machine while")
    assert door(of("a=none cgroup.io.weight=9"), allowed, ("sdx",), [COMMAND]) == ()


@pytest.mark.parametrize("is_v2", [True, False])
def test_a_limit_that_buffered_writes_pass_is_said(is_v2, host, monkeypatch):
    hierarchy = Hierarchy(host / "cgroup", frozenset({"blkio"}), is_v2)
    monkeypatch.setattr(settings, "io_hierarchy", lambda: hierarchy)
    monkeypatch.setattr(setting_checks, "io_hierarchy", lambda: hierarchy)
    scratch = Target("scratch", size_bytes=1 << 20)
    texts = "a=none cgroup.io.max=rbps=1M,wiops=max", "b=none cgroup.io.max=rbps=1M,wbps=20M"
    notes = setting_checks.check_settings(of(*texts), scratch, (), [COMMAND])
    assert [note.partition(" holds direct writes only")[0] for note in notes] == (
        [] if is_v2 else ["cgroup.io.max (rbps=1M,wbps=20M)"]
    )


def test_a_dry_run_names_every_file(host):
    places = setting_checks.places_of(("sdx",), [COMMAND])
    (candidate,) = of("a=bfq slice_idle=0 cgroup.io.weight=9 thp=never run='a b' undo=c")
    written = setting_checks.planned_writes(candidate, places)
    assert [(path.removeprefix(f"{host}/"), text) for path, text in written] == [
        ("block/sdx/queue/scheduler", "bfq"),
        ("block/sdx/queue/iosched/slice_idle", "0"),
        ("(the command's group)/io.weight@default", "9"),
        ("thp", "never"), ("run", "a b"), ("undo", "c"),
    ]  # fmt: skip


def test_a_group_that_is_not_there_is_the_nearest_of_all(tmp_path):
    for name in ("web", "db", "backup"):
        (tmp_path / name).mkdir()
        assert control_groups.existing_group(tmp_path, f"/{name}/") == tmp_path / name
    (tmp_path / "file").touch()
    for name, meant in (("wep", "web"), ("dbs", "db"), ("bakup", "backup"), ("../x", "web")):
        with pytest.raises(HostError, match="there is no control group") as error:
            control_groups.existing_group(tmp_path, name)
        assert meant in error.value.hint and "file" not in error.value.hint


def test_where_control_groups_are_is_found_or_said():
    """Of the machine of the test: what it says is where groups can be made, or an error."""
    try:
        where = control_groups.io_hierarchy()
    except HostError as error:
        assert error.hint
    else:
        assert (where.root / "cgroup.procs").exists()
