"""schedlab doctor: every promised line, on this machine, without root, and with half of it gone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dying import die

from schedlab.host import devices, doctor, facts
from schedlab.host.safety import journal, recover
from schedlab.host.settings import knobs

PROMISED = (
    "machine",
    "privileges",
    "loop devices",
    "io_uring",
    "BPF",
    "BTF",
    "tracefs",
    "perf events",
    "RT throttling",
    "fair server",
    "RT_GROUP_SCHED",
    "CPU governor",
    "SMT",
    "turbo",
    "clock source",
    "sched_ext",
    "emulated device",
    "journal",
    "guardian",
    "HZ",
    "free space",
)


def reads_of(name):
    return int((knobs.SYS_BLOCK / name / "stat").read_text().split()[0])


def test_every_promised_fact_has_what_follows(state, loop, tmp_path):
    before = reads_of(Path(loop).name)
    by_topic = {fact.topic: fact for fact in doctor.examine(tmp_path)}
    assert set(PROMISED) <= set(by_topic)
    assert any(topic.startswith("set by") for topic in by_topic)
    assert all(fact.found and fact.follows for fact in by_topic.values())
    name = Path(loop).name
    assert reads_of(name) == before, "examining disturbs whoever measures on a loop device"
    line = by_topic[f"scheduler of {name}"]
    assert all(scheduler in line.found for scheduler in knobs.offered(loop))
    assert line.command == f"schedlab io set NAME {name}"
    assert by_topic[f"tags of {name}"].found.startswith("128 in 1 hardware queues")
    assert f"rotational of {name}" in by_topic


@pytest.mark.parametrize("stays", [False, True])
def test_a_device_that_cannot_be_read_hides_no_other(loop, monkeypatch, stays):
    name = Path(loop).name
    listed = iter([("absent", name), ("absent", name) if stays else (name,)])
    monkeypatch.setattr(devices, "with_queues", lambda: next(listed))
    shown = {fact.topic: fact.found for fact in doctor.schedulers()}
    assert {f"scheduler of {name}", f"tags of {name}"} <= set(shown)
    assert ("scheduler of absent" in shown) == stays
    if stays:
        assert "unknown" in shown["scheduler of absent"]


def test_turbo_is_what_the_driver_of_the_cpu_says(tmp_path, monkeypatch):
    monkeypatch.setattr(facts, "CPU", tmp_path)
    assert facts.turbo() is None
    for name, off, on in (("cpufreq/boost", "0", "1"), ("intel_pstate/no_turbo", "1", "0")):
        (tmp_path / name).parent.mkdir()
        for text, is_on in ((on, True), (off, False)):
            (tmp_path / name).write_text(f"{text}\n")
            assert facts.turbo() is is_on


@pytest.mark.parametrize(
    ("source", "offered", "is_told"),
    [("hpet", "tsc hpet", True), ("hpet", "hpet acpi_pm", False), ("tsc", "tsc hpet", False)],
)
def test_a_slow_clock_has_a_command_where_a_fast_one_is_offered(
    tmp_path, monkeypatch, source, offered, is_told
):
    monkeypatch.setattr(facts, "CLOCK", tmp_path)
    (tmp_path / "current_clocksource").write_text(f"{source}\n")
    (tmp_path / "available_clocksource").write_text(f"{offered}\n")
    (fact,) = doctor.clock()
    assert bool(fact.command) is is_told


def test_a_device_that_says_it_is_a_disk_but_is_faster_is_flagged(state, loop, monkeypatch):
    name = Path(loop).name
    knobs.write_value(knobs.queue_of(loop) / "rotational", "0")
    assert facts.rotational_doubt(name) == ""
    assert facts.queue_facts(name)["rotational"] is False
    knobs.write_value(knobs.queue_of(loop) / "rotational", "1")
    assert 0 < facts.random_read_ms(loop) < 60_000
    for measured_ms, is_doubted in ((facts.DISK_MS_MIN, False), (0.99 * facts.DISK_MS_MIN, True)):
        monkeypatch.setattr(facts, "random_read_ms", lambda path, of=measured_ms: of)
        doubt = facts.rotational_doubt(name)
        text = f"{name} reports itself as rotational, but answers random reads in"
        assert doubt.startswith(text) if is_doubted else doubt == ""
    known = facts.queue_facts(name)
    assert (known["rotational"], known["hardware_queues"], known["driver_tags"]) == (True, 1, 128)


def test_a_left_over_directory_is_shown_and_removed_by_recover(state, tmp_path):
    """As after a power failure: the journal in RAM is gone, the directory on the disk is not."""
    shown = die("", "print(control.directory(directory), flush=True)", tmp_path)
    left = Path(shown.strip())
    (left / "file").write_text("x", encoding="ascii")
    for path in journal.sessions(state):
        path.unlink()
    leftover = {fact.topic: fact for fact in doctor.examine(tmp_path)}["left-over directory"]
    assert (leftover.found, leftover.command) == (str(left), "schedlab recover")
    shown = "\n".join(recover.restore_all(state).lines())
    assert f"directory {left} (removed)" in shown
    assert not left.exists()
    assert "left-over directory" not in {fact.topic for fact in doctor.examine(tmp_path)}


@pytest.mark.parametrize(
    ("hz", "asked_ms", "real_ms"),
    [(250, 1, 4), (250, 5, 8), (250, 10, 12), (250, 100, 100), (1000, 7, 7), (100, 1, 10)],
)
def test_quanta_are_rounded_up_to_ticks(hz, asked_ms, real_ms):
    assert doctor.effective_quantum_ms(asked_ms, hz) == real_ms


def test_a_fact_that_cannot_be_found_out_is_unknown(tmp_path, monkeypatch):
    def fails():
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(doctor, "FACTS", dict.fromkeys(doctor.FACTS, fails))
    all_facts = doctor.examine(tmp_path)
    assert next(f.found for f in all_facts if f.topic == "machine").startswith("unknown")


@pytest.mark.parametrize(
    ("user", "changed", "named", "command"),
    [
        (0, {}, "sched_ext", "schedlab compare --quick"),
        (1000, {"privileges": "user 1000"}, "CPU policies (privileges: user 1000)",
         "sudo schedlab compare --quick; without root: schedlab lab run ncq-ssd"),
        (0, {"loop devices": "none"}, "I/O schedulers (loop devices: none)",
         "schedlab lab run ncq-ssd"),
        (0, {"BPF": "refused (x)"}, "kernel events (BPF: refused (x))",
         "schedlab compare --quick"),
    ],
)  # fmt: skip
def test_the_summary_names_what_is_missing_and_the_next_command(
    monkeypatch, user, changed, named, command
):
    usual = {"loop devices": "available", "emulated device": "yes", "privileges": "root",
             "sched_ext": "not in this kernel", "io_uring": "allowed", "BPF": "usable"}  # fmt: skip
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    known = [doctor.Fact(topic, found, "") for topic, found in (usual | changed).items()]
    able, unable, following = doctor.summary(known)
    assert (named in unable, following) == (True, command)
    assert named.partition(" (")[0] not in able
    died = doctor.Fact("journal", "of a session that died", "", "schedlab recover")
    assert doctor.summary([*known, died])[2] == "schedlab recover"


def test_the_command_prints_a_line_per_fact(state, tmp_path):
    command = [sys.executable, "-m", "schedlab", "doctor", "--directory", str(tmp_path)]
    plain = subprocess.run(
        [*command, "--all"], capture_output=True, text=True, check=True, timeout=60
    )
    facts = json.loads(subprocess.check_output([*command, "--json"], timeout=60))["facts"]
    assert plain.stderr == ""
    short = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    starts = [line[:16].strip() for line in short.splitlines()]
    assert [each for each in starts if each] == ["Can measure", "Cannot measure", "Next"]
    assert max(map(len, short.splitlines())) <= 80
    whole = plain.stdout.splitlines()[len(short.splitlines()) :]
    topics = [line.split(":")[0] for line in whole]
    in_json = [fact["topic"] for fact in facts]
    # Other tests may make loop devices between the two commands.
    own = [[t for t in each if "loop" not in t] for each in (topics, in_json)]
    assert own[0] == own[1]
    asked = subprocess.run([*command, "--quanta", "x"], capture_output=True, text=True, check=False)
    assert (asked.returncode, "hint:" in asked.stderr) == (2, True)


@pytest.mark.parametrize("hidden", ["/sys", "/sys/block", "/dev", "/proc/sys", "/etc"])
def test_it_works_where_half_of_the_machine_is_hidden(root_with_loop, tmp_path, hidden):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare (util-linux) to hide directories from one process")
    program = f'mount -t tmpfs none {hidden} && cd /var && exec "$0" -m schedlab doctor --all'
    python_path = str(Path(doctor.__file__).parents[2])
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", program, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": python_path},
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "privileges: root" in result.stdout


@pytest.mark.parametrize(
    ("features", "reported"),
    [("0" * 64, False), ("1" * 5 + "01" + "0" * 57, False), ("0" * 5 + "1" + "0" * 58, True)],
)
def test_memory_that_goes_back_to_a_hypervisor_is_seen(tmp_path, features, reported):
    """The sixth character is bit 5: sysfs prints the features from bit 0 on."""
    assert not facts.free_pages_reported(tmp_path)
    device = tmp_path / "virtio_balloon/virtio0"
    device.mkdir(parents=True)
    (device / "features").write_text(features + "\n")
    assert facts.free_pages_reported(tmp_path) is reported


def test_every_scheduler_that_is_a_module_can_be_loaded(tmp_path):
    assert not list(doctor.scheduler_modules(tmp_path))
    block = tmp_path / "kernel" / "block"
    block.mkdir(parents=True)
    for name in ("kyber-iosched.ko.xz", "bfq.ko", "mq-deadline.ko.zst", "t10-pi.ko"):
        (block / name).touch()
    (fact,) = doctor.scheduler_modules(tmp_path)
    assert fact.command == "modprobe bfq; modprobe kyber-iosched; modprobe mq-deadline"
