"""Commands as they are typed: metrics, units, policies; numbers out of output; bad inputs."""

import json
import os
import signal

import pytest
from calls import brief, refusals, shown

from schedlab.app.compare.cpu_comparison import CpuLoad, policy_comparison
from schedlab.app.compare.own_work import OwnWork, workload_of
from schedlab.app.measure import virtual
from schedlab.errors import HostError, SpecError
from schedlab.guest.kernels import Kernel
from schedlab.host.settings import knobs, settings
from schedlab.kinds import typed
from schedlab.nouns import ATTEMPTS_MAX, Candidate, Workload
from schedlab.nouns.load_result import Ending
from schedlab.nouns.output_metrics import converted, dimension, parse_output_metric
from schedlab.run.command import launch
from schedlab.run.command.failures import CommandFailed, Failures
from schedlab.run.command.metrics_from_output import Missing, Reader, json_values, taken
from schedlab.run.cpu.cpu_policy import (
    check_here,
    parse_policies,
    policy_of,
    refuse_ext,
    refuse_locked,
)
from schedlab.run.io import neighbours

METRICS = (
    "tps:1/s=stdout~^tps = ([0-9.]+)", "t:ms=stderr~took (.*)!only", "score:higher=stdout~(.*)",
    "score::lower=stdout~(.*)", "p:us=stdout@jobs[0].x!max", "b:MB/s=file:out/log.txt~(.*)",
    "b:J=file:x.json@a.b!sum", "b:Kibit/s=stdout~(.*)!first", "b:s:higher=stdout~(.*)",
    "b:higher:lower=stdout~(.*)",
    "tps", "tps=stdout~(.*)", "x:furlong=stdout~(.*)", "x:s=stderr@a.b", "=stdout~(.*)",
    "tps:1/s=http://localhost/metrics~(.*)", "tps:1/s=stdout~(.*)!rate",
)  # fmt: skip
UNITS = (
    "ns", "us", "µs", "ms", "min", "seconds", " sec ", "mJ", "kB", "KB", "MB", "GB", "TB", "KiB",
    "MiB", "GiB", "TiB", "bytes", "Mb/s", "Mbps", "kbit", "ops/s", "iops", "s/s", "kmin", "GHz", "",
)  # fmt: skip


def test_metrics_are_read_as_typed_or_refused(golden):
    def read(text):
        try:
            return brief(parse_output_metric(text))
        except SpecError as error:
            return f"{error} ({error.hint})"

    lines = [f"{text}\n  {read(text)}" for text in METRICS]
    lines += [f"{unit!r}: {dimension(unit)}" for unit in UNITS]
    golden("output-metrics.txt", "\n".join(lines))


def test_units_are_converted_by_their_prefix():
    assert converted(1500.0, "usec", "ms") == pytest.approx(1.5)
    assert converted(2.0, "MiB/s", "B/s") == 2 * 2**20
    assert converted(1.0, "min", "s") == 60.0
    assert converted(3.0, "kB/s", "MB/s") == pytest.approx(0.003)
    assert converted(1.0, "ms", "B/s") is None
    assert converted(7.0, "frames", "frames") == 7.0
    assert converted(1.0, "frames", "s") is converted(1.0, "s", "frames") is None


def read(spec, stdout=b"", stderr=b"", files=lambda name: None):
    return Reader([parse_output_metric(spec)]).read(stdout, stderr, files)


def test_the_last_match_counts_unless_another_is_asked_for():
    text = b"tps = 1\ntps = 2\ntps = 6\n"
    for take, value in (("last", 6), ("first", 1), ("sum", 9), ("mean", 3), ("min", 1), ("max", 6)):
        assert read(f"tps:1/s=stdout~^tps = ([0-9]+)!{take}", text)[0] == {"tps": value}
    values, gates = read("tps:1/s=stdout~^tps = ([0-9]+)!only", text)
    assert (values, gates[0].gate) == ({}, "no-value")


NOT_POSITIVE = [b"tps = -3", b"tps = 0", b"tps = nan", b"", b"tps: 3", b"\xff\xfe"]


@pytest.mark.parametrize("text", NOT_POSITIVE)
def test_what_is_no_positive_number_fails_a_gate(text):
    values, gates = read("tps:1/s=stdout~^tps = (\\S+)", text)
    assert values == {}
    assert [gate.gate for gate in gates] == ["no-value"]


def test_the_error_shows_the_nearest_lines():
    text = b"start\nnearly tps = none\n\nwhat is far away\nTPS = 12.5\nend\n"
    _, gates = read("tps:1/s=stdout~^tps = ([0-9.]+)", text)
    assert "the nearest lines are 'TPS = 12.5'; 'nearly tps = none'; " in gates[0].detail
    assert gates[0].detail.count(";") == 3


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("7", 7.0),
        ("7.5", 7.5),
        ('"1,234.5"', 1234.5),
        ("true", None),
        ("null", None),
        ('"x"', None),
    ],
)
def test_what_counts_as_a_number_in_json(value, number):
    values, gates = read("n:1/s=stdout@n", f'{{"n": {value}}}'.encode())
    assert values == ({} if number is None else {"n": number})
    assert [gate.gate for gate in gates] == ([] if number else ["no-value"])


def test_a_unit_that_changes_between_runs_is_noticed():
    reader = Reader([parse_output_metric("lat:us=stdout~lat ([0-9]+)")])
    assert reader.read(b"lat 12 usec", b"", lambda name: None)[1] == []
    _, gates = reader.read(b"lat 1 msec", b"", lambda name: None)
    assert gates[0].gate == "unit-changed"
    reader = Reader([parse_output_metric("lat:us=stdout~lat (?<value>[0-9]+) (?<unit>[a-z]+)")])
    assert reader.read(b"lat 12 usec", b"", lambda name: None)[0] == {"lat": 12.0}
    assert reader.read(b"lat 1 msec", b"", lambda name: None)[0] == pytest.approx({"lat": 1000.0})


def test_json_paths():
    text = (
        b"fio-3\nnoise\n"
        + json.dumps(
            {"jobs": [{"name": "a", "v": 1}, {"name": "b", "v": 2}], "odd key": {"x.y": 3}}
        ).encode()
    )
    assert json_values(text, "jobs[0].v") == [1]
    assert json_values(text, "jobs[*].v") == [1, 2]
    assert json_values(text, "jobs[?name==b].v") == [2]
    assert json_values(text, '["odd key"]["x.y"]') == [3]
    for path in ("jobs[2].v", "nothing", "jobs[?name==c].v", "jobs]["):
        with pytest.raises(Missing):
            json_values(text, path)
    for nested in (b"[" * 100_000, b'{"a": 1'):
        with pytest.raises(Missing, match="not JSON"):
            json_values(nested, "a")
    with pytest.raises(Missing, match="no JSON"):
        json_values(b"plain", "a")


def test_a_file_that_this_run_did_not_write_is_stale(tmp_path):
    from schedlab.run.command.metrics_from_output import written_file

    (tmp_path / "log").write_text("v 5")
    written = (tmp_path / "log").stat().st_mtime
    assert written_file(tmp_path, written, 99)("log") == b"v 5"
    assert written_file(tmp_path, written + 0.01, 99)("log") == b"v 5"  # the clock's last tick
    assert written_file(tmp_path, written + 0.1, 99)("log") is None
    assert written_file(tmp_path, written, 99)("nothing") is None
    files = written_file(tmp_path, written, 99)
    assert read("v:s=file:log~v (.*)", b"v 1", files=files)[0] == {"v": 5}
    _, gates = read("v:s=file:log~v (.*)", files=written_file(tmp_path, written + 10, 99))
    assert "was not written by this run" in gates[0].detail


def test_only_a_file_of_the_directory_is_read_of_what_a_program_made(tmp_path):
    from schedlab.run.command.metrics_from_output import written_file

    (home := tmp_path / "home").mkdir()
    for place in (tmp_path, home):
        (place / "secret").write_text("v 5")
    (home / "out").symlink_to(tmp_path)
    (home / "in").symlink_to(home / "secret")
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "device").symlink_to("/dev/zero")
    os.mkfifo(home / "pipe")
    (home / "large").touch()
    os.truncate(home / "large", 1 << 40)
    content = written_file(home, 0.0, 99)
    assert content("secret") == content("in") == content(str(tmp_path / "secret")) == b"v 5"
    for name in ("link", "out/secret", "../secret", "device", "pipe", "large", str(home / "link")):
        assert content(name) is None, name


POLICIES = (
    "other,batch,rr:8ms,fifo:priority=20,other:slice=3ms,nice=5,other:weight=50", "other,other",
    "batch:slice=3ms,nice=5", "other:slice=0.05ms,other:slice=0.1ms", "other:slice=500ms",
    "deadline", "deadline:period=20ms", "deadline:8", "deadline:8ms", "deadline:500us",
    "deadline:0.005s", "other:nice=-20,batch:nice=19,fifo:priority=1,fifo:priority=99",
    "other:weight=1,other:weight=10000",
)  # fmt: skip
WRONG_POLICIES = (
    "deadline:-8ms", "deadline:0.02s", "deadline:8x", "deadline:0ms", "realtime", "fifo:slice=3ms",
    "fifo:priority=100", "fifo:priority=0", "idle:nice=5", "other:nice=-21", "other:nice=20",
    "fifo:weight=50", "other:weight=0", "other:weight=10001", "other:wieght=50", "other:max=half",
)  # fmt: skip
WRONG_SETTINGS = (
    {"autogroup": "maybe"}, {"slice_ms": "abc"}, {"slice_ms": float("nan")}, {"slice_ms": 0},
    {"slice_ms": -5.0}, {"policy": "deadline", "period_ms": 0}, {"group_idle": "false"},
    {"wieght": 50},
)  # fmt: skip


def test_policies_are_read_as_typed_or_refused(monkeypatch, golden):
    """What the kernel is asked for, for 4 tasks on 2 CPUs; of deadline for more and fewer tasks."""
    monkeypatch.setattr(knobs, "ticks_per_second", lambda: 250)

    def asked(candidate, tasks=4):
        policy = policy_of(candidate)
        return {"policy": policy, "asks": policy.attributes(tasks, 2)}

    (deadline,) = parse_policies("deadline")
    made = {
        **{each.label: asked(each) for text in POLICIES for each in parse_policies(text)},
        **{f"deadline, {n} tasks": asked(deadline, n) for n in (0, 1, 2, 3, 16)},
    }
    golden("policies.txt", shown(made))
    settings = [{"policy": "other"} | each for each in WRONG_SETTINGS]
    wrong = [
        refusals(lambda text: [policy_of(each) for each in parse_policies(text)],
                 [(text,) for text in WRONG_POLICIES]),
        refusals(lambda each: checked(Candidate("c", each)), [(each,) for each in settings]),
    ]  # fmt: skip
    golden("refusals/policies.txt", "\n".join(wrong))


def test_a_quantum_in_whole_ms_may_become_one_of_whole_ticks(monkeypatch):
    monkeypatch.setattr(knobs, "ticks_per_second", lambda: 300)
    (five,) = parse_policies("rr:5ms")
    assert five.label == "rr:5ms (is 6.66667 ms)" and policy_of(five).slice_ms == 2000 / 300
    assert policy_of(parse_policies("rr:13ms")[0]).slice_ms == 4000 / 300
    with pytest.raises(SpecError, match=r"policy 'rr:2[.]5ms': the quantum of rr must be"):
        parse_policies("other,rr:2.5ms")
    with pytest.raises(SpecError, match="must be in whole ms"):
        policy_of(Candidate("c", {"policy": "rr", "slice_ms": 2.5}))


def test_one_number_is_the_only_one():
    assert taken([3.0], "only") == 3.0
    with pytest.raises(Missing, match="2 values, but exactly one"):
        taken([3.0, 3.0], "only")


def test_no_secret_of_the_environment_is_stored(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    work = OwnWork(["/bin/true"], parameters={"environment": {"GIVEN": "told"}})
    facts = typed(workload_of(work)).environment_facts()
    assert "MY_TOKEN" in facts["names"]
    assert "secret" not in str(facts)
    assert facts["values"]["OMP_NUM_THREADS"] == "2"
    assert facts["values"]["GIVEN"] == "told"


def test_nice_values_and_real_time_name_what_limits_them(monkeypatch, tmp_path):
    from schedlab.host import facts as machine
    from schedlab.run.cpu import cpu_notes

    files = {"sched_autogroup_enabled": "1", "sched_rt_runtime_us": "950000",
             "sched_rt_period_us": "1000000"}  # fmt: skip
    for name, value in files.items():
        (tmp_path / name).write_text(value)
    monkeypatch.setattr(cpu_notes, "PROC", tmp_path)
    monkeypatch.setattr(cpu_notes, "FAIR_SERVER", tmp_path / "none")
    monkeypatch.setattr(cpu_notes, "AUTOGROUP_KNOB", tmp_path / "sched_autogroup_enabled")
    monkeypatch.setattr(machine, "release", lambda: (6, 11))

    def notes(policies, **parameters):
        cpu_policies = [policy_of(each) for each in parse_policies(policies)]
        kind = typed(Workload("w", "cpu-command", "elapsed_s", {"argv": ["true"], **parameters}))
        return cpu_notes.notes_of(cpu_policies, [kind])

    assert notes("other,batch") == []
    assert "only among the tasks of one session" in notes("other,other:nice=5")[0]
    assert notes("other:autogroup=off,other:nice=5,autogroup=off") == []
    assert notes("other:weight=100,other:weight=50", load=4) == []
    assert "as much of the CPUs as the session of the load" in notes("other", load=4)[0]
    assert notes("other:autogroup=shared", load=4) == []
    (line,) = notes("other,fifo")
    assert "fifo: ordinary tasks keep a share of each CPU: 5% by RT throttling" in line
    (tmp_path / "sched_rt_runtime_us").write_text("-1")
    assert notes("other,fifo") == []


@pytest.fixture
def debugfs(monkeypatch, tmp_path):
    """The settings of a kernel with debugfs, in files of this test."""
    for name in ("base_slice_ns", "fair_server/cpu0/runtime"):
        (tmp_path / "sched" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sched" / name).write_text("3000000")
    monkeypatch.setattr(settings, "DEBUG", tmp_path / "sched")
    return tmp_path / "sched"


def test_a_knob_behind_lockdown_says_so(monkeypatch, debugfs):
    """Under lockdown `integrity` even root gets EPERM for reading debugfs/sched."""

    def read(path):
        if str(path).endswith("lockdown"):
            return "none [integrity] confidentiality"
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(settings.knobs, "read_value", read)
    candidate = parse_policies("other:knob.base_slice_ns=3000000")[0]
    with pytest.raises(HostError, match=r"base_slice_ns may not be read.*\[integrity\]") as refused:
        checked(candidate)
    assert "lockdown=none" in refused.value.hint


def checked(candidate):
    """Its policy, where this machine has all of its settings."""
    policy = policy_of(candidate)
    check_here(policy, candidate.label)
    return policy


def test_a_setting_of_a_kernel_in_virtual_time_is_not_asked_of_this_machine(monkeypatch, tmp_path):
    """A user whose machine has no debugfs was refused base_slice_ns of a kernel that has it."""
    monkeypatch.setattr(settings, "DEBUG", tmp_path / "not mounted")
    load = CpuLoad(workloads=("wakeup",))
    asked = policy_comparison(load, candidates=("a=other knob.base_slice_ns=1", "b=other"))
    virtual.check(asked, Kernel("6.12", tmp_path, None, {}))
    with pytest.raises(HostError, match="candidate 'a': base_slice_ns is in debugfs, which is not"):
        checked(asked.candidates[0])


def test_knobs_of_the_fair_server_are_known(debugfs):
    name = "knob.fair_server/cpu0/runtime"
    policy = policy_of(parse_policies(f"other:{name}=0")[0])
    assert policy.knobs == {name: 0}
    assert settings.resolve(name, 0, settings.SettingScope()) == [(debugfs / name[5:], "0")]
    for wrong, why in (("fair_server/../x", "is not the name of"), ("sched_no", "has no sched_no")):
        with pytest.raises((SpecError, HostError), match=why):
            checked(Candidate("c", {"policy": "other", f"knob.{wrong}": "0"}))


def ended(status=0, killed_by=None, **how):
    fields = {"timed_out": False, "output_exceeded": False, "stdout": b"", "stderr": b"", **how}
    return launch.Ended(1.0, status, killed_by, **fields)


def test_how_a_command_failed_is_said_in_words():
    assert ended().failure() == ended(3).failure((0, 3)) == ""
    assert ended(3).failure() == "exited with status 3"
    assert ended(None, signal.SIGSEGV).failure() == "was killed by SIGSEGV"
    assert ended(None, signal.SIGKILL, timed_out=True).failure() == ""
    assert ended(None, signal.SIGKILL, output_exceeded=True).failure() == ""
    assert ended(stdout=b"a\nb\nc\n").last_lines(2) == "b\nc"
    assert ended(stdout=b"a\n", stderr=b"broken\n").last_lines(2) == "broken"


def test_a_command_that_fails_in_a_row_under_one_candidate_is_the_answer():
    kind, failures = typed(workload_of(OwnWork(["/bin/true"]))), Failures()
    for _ in range(2):  # a success in between begins a new row, and candidates have their own
        for _ in range(ATTEMPTS_MAX - 1):
            failures.note("w", "bfq", kind, ended(1))
            failures.note("w", "none", kind, ended(1))
        failures.note("w", "bfq", kind, ended(0))
        failures.note("w", "none", kind, ended(0))
    for _ in range(ATTEMPTS_MAX - 1):
        failures.note("w", "bfq", kind, ended(1))
    with pytest.raises(CommandFailed, match="exited with status 1 3 times in a row under bfq"):
        failures.note("w", "bfq", kind, ended(1))
    ignoring = typed(workload_of(OwnWork(["/bin/true"], parameters={"ignore_exit": True})))
    for _ in range(ATTEMPTS_MAX):
        failures.note("v", "bfq", ignoring, ended(1))


def test_the_account_of_a_command_is_in_seconds_and_bytes():
    report = {"user_ns": 250_000_000, "system_ns": 1_500_000_000, "rss_bytes": 4096,
              "major_faults": 7, "voluntary_switches": 5, "involuntary_switches": 3,
              "read_bytes": 11, "dirtied_bytes": 13, "elapsed_ns": 1, "status": 0, "signal": None,
              "cpu_ns": 1}  # fmt: skip
    assert launch._usage(Ending(**report)) == {
        "cpu_s": 1.75, "user_s": 0.25, "system_s": 1.5, "rss_bytes": 4096, "major_faults": 7,
        "context_switches": 8, "own_read_bytes": 11, "own_dirtied_bytes": 13,
    }  # fmt: skip
    assert launch._usage(None) == {}


def test_of_a_long_output_both_ends_are_kept():
    mib = 1 << 20
    assert launch.ends_of(b"a" * (2 * mib)) == b"a" * (2 * mib)
    kept = launch.ends_of(b"a" * mib + b"x" + b"z" * mib)
    assert kept == b"a" * mib + b"\n[...]\n" + b"z" * mib


@pytest.mark.parametrize(
    ("seen_kib", "own_kib", "is_complete", "is_reported"),
    [
        (1024, 0, True, False),
        (1025, 0, True, True),
        (1025, 0, False, False),
        (105 << 10, 100 << 10, True, False),
        (106 << 10, 100 << 10, True, True),
        (10, 100 << 10, True, False),
    ],
)
def test_reads_of_others_are_those_above_a_mib_and_a_twentieth(
    seen_kib, own_kib, is_complete, is_reported
):
    queues = {"sda": seen_kib << 10, "sdb": 0}
    gates = neighbours.foreign_reads(queues, own_kib << 10, is_complete)
    assert [gate.gate for gate in gates] == ["foreign-io"] * is_reported
    if is_reported:
        assert f"sda, sdb read {seen_kib} KiB, of which the command read {own_kib}" in (
            gates[0].detail
        )


def test_the_peak_of_dirty_pages_is_held_against_the_kernels_limit(monkeypatch):
    page = os.sysconf("SC_PAGE_SIZE")
    dirty = neighbours.DirtyPeak()
    assert dirty.findings() == ()
    readings = iter([(300, 212), (600, 424), (100, 0)])

    def vmstat():
        pages, writeback = next(readings)
        return {"nr_dirty": pages, "nr_writeback": writeback, "nr_dirty_background_threshold": 512}

    monkeypatch.setattr(neighbours, "vmstat", vmstat)
    dirty.look()
    assert (dirty.peak_bytes, dirty.limit_bytes) == (512 * page, 512 * page)
    assert dirty.findings() == ()  # at the limit, not above it
    dirty.look()
    dirty.look()
    assert dirty.peak_bytes == 1024 * page
    (finding,) = dirty.findings()
    assert (finding.gate, finding.fatal) == ("dirty-limit", False)
    assert f"{1024 * page >> 20} MiB were dirty, more than the {512 * page >> 20} MiB" in (
        finding.detail
    )


def test_a_real_time_load_on_every_cpu_is_refused():
    cpus = os.sched_getaffinity(0)
    fifo, other, work = (
        policy_of(parse_policies(text)[0]) for text in ("fifo:apply=all", "other", "fifo")
    )
    with pytest.raises(SpecError, match="locks the machine"):
        refuse_locked(fifo, cpus, 1)
    refuse_locked(fifo, cpus, 0)
    refuse_locked(fifo, set(), 1)
    refuse_locked(other, cpus, 1)
    refuse_locked(work, cpus, 1)  # the load is not under that policy


def test_a_scheduler_of_bpf_needs_the_kernel_and_that_no_other_is_loaded(tmp_path):
    with pytest.raises(HostError, match="CONFIG_SCHED_CLASS_EXT"):
        refuse_ext(tmp_path / "sched_ext")
    (tmp_path / "state").write_text("disabled\n")
    refuse_ext(tmp_path)
    (tmp_path / "state").write_text("enabled\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "ops").write_text("scx_lavd\n")
    with pytest.raises(HostError, match="the scheduler scx_lavd is loaded") as refused:
        refuse_ext(tmp_path)
    assert refused.value.hint
