"""schedlab doctor: every promised line, on this machine, without root, and with half of it gone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedlab.host import doctor, knobs

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
    "journal",
    "HZ",
    "free space",
)


def test_every_promised_fact_has_what_follows(state: Path, loop: str, tmp_path: Path) -> None:
    found = {fact.topic: fact for fact in doctor.examine(tmp_path)}
    assert set(PROMISED) <= set(found)
    assert any(topic.startswith("set by") for topic in found)
    assert all(fact.found and fact.follows for fact in found.values())
    name = Path(loop).name
    line = found[f"scheduler of {name}"]
    assert all(scheduler in line.found for scheduler in knobs.offered(loop))
    assert line.command == f"schedlab io set NAME {name}"


@pytest.mark.parametrize(
    ("hz", "asked_ms", "real_ms"),
    [(250, 1, 4), (250, 5, 8), (250, 10, 12), (250, 100, 100), (1000, 7, 7), (100, 1, 10)],
)
def test_quanta_are_rounded_up_to_ticks(hz: int, asked_ms: int, real_ms: float) -> None:
    assert doctor.effective_quantum_ms(asked_ms, hz) == real_ms


def test_a_fact_that_cannot_be_found_out_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> list[doctor.Fact]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(doctor, "FACTS", dict.fromkeys(doctor.FACTS, fails))
    found = doctor.examine(tmp_path)
    assert next(f.found for f in found if f.topic == "machine").startswith("unknown")


def test_who_sets_schedulers_is_recognised() -> None:
    rule = 'ACTION=="add|change", KERNEL=="sd[a-z]", ATTR{queue/scheduler}="bfq"'
    assert doctor._SETTER.search(rule)
    assert doctor._SETTER.search('x\nDISK_IOSCHED="mq-deadline"\n')
    assert doctor._SETTER.search("[disk]\nelevator = kyber\n")
    assert not doctor._SETTER.search('#DISK_IOSCHED="mq-deadline"\n')
    assert not doctor._SETTER.search('SUBSYSTEM=="block", ATTR{queue/rotational}=="1"')


def test_the_command_prints_a_line_per_fact(state: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedlab", "doctor", "--directory", str(tmp_path)]
    plain = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    facts = json.loads(subprocess.check_output([*command, "--json"], timeout=60))["facts"]
    assert plain.stderr == ""
    topics = [line.split(":")[0] for line in plain.stdout.splitlines()]
    in_json = [fact["topic"] for fact in facts]
    # Other tests may make loop devices between the two commands.
    own = [[t for t in each if "loop" not in t] for each in (topics, in_json)]
    assert own[0] == own[1]
    asked = subprocess.run([*command, "--quanta", "x"], capture_output=True, text=True, check=False)
    assert (asked.returncode, "hint:" in asked.stderr) == (2, True)


@pytest.mark.parametrize("hidden", ["/sys", "/sys/block", "/dev", "/proc/sys", "/etc"])
def test_it_works_where_half_of_the_machine_is_hidden(
    root_with_loop: None, tmp_path: Path, hidden: str
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare (util-linux) to hide directories from one process")
    program = f'mount -t tmpfs none {hidden} && cd /var && exec "$0" -m schedlab doctor'
    python_path = str(Path(doctor.__file__).parents[2])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", program, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": python_path},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "privileges: root" in done.stdout
