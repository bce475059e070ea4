"""sched_ext schedulers on a kernel that may have none: a directory like /sys/kernel/sched_ext, and
a program that loads a scheduler, is ejected, or does not start."""

import os
import signal
from pathlib import Path

import pytest

from schedlab.app.compare.cpu_comparison import CpuLoad, policy_comparison
from schedlab.app.compare.own_work import OwnWork
from schedlab.app.measure.measure import run
from schedlab.errors import HostError, SpecError
from schedlab.nouns import Stopping
from schedlab.run.cpu import cpu_ext, cpu_policy

pytestmark = [
    pytest.mark.usefixtures("state", "no_neighbours"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: control groups"),
]
# Loads at its start, unloads at Ctrl-C; `touch eject` makes the kernel throw it out.
PROGRAM = """#!/bin/sh
cd {root} || exit 9
echo "$$ $*" >> started
[ "$1" = --fail ] && {{ echo "no such topology" >&2; exit 3; }}
loaded() {{ mkdir -p root; echo fake > root/ops; echo enabled > state; \
echo $(($(cat enable_seq) + 1)) > enable_seq; }}
unloaded() {{ echo disabled > state; rm -rf root; }}
trap 'unloaded; exit 0' INT
[ "$1" = --forget ] && loaded() {{ echo $(($(cat enable_seq) + 1)) > enable_seq; }}
loaded
while :; do
    if [ -e eject ]; then rm eject; unloaded; loaded; fi
    sleep 0.02
done
"""


@pytest.fixture
def ext(tmp_path, monkeypatch):
    """The directory of the kernel's facts, and the program."""
    root = tmp_path / "sched_ext"
    root.mkdir()
    for name, text in {"state": "disabled", "switch_all": "1", "nr_rejected": "0",
                       "enable_seq": "0"}.items():  # fmt: skip
        (root / name).write_text(f"{text}\n")
    program = tmp_path / "scx_fake"
    program.write_text(PROGRAM.format(root=root))
    program.chmod(0o755)
    for module in (cpu_policy, cpu_ext):
        monkeypatch.setattr(module, "SCHED_EXT", root)
    return root, program


def compared(tmp_path, policies, line, blocks=1, **parameters):
    asked = policy_comparison(
        CpuLoad(work=OwnWork([line], True, parameters=parameters)), policies=policies,
        aa_arm=False, seed=1, stopping=Stopping(blocks=blocks),
    )  # fmt: skip
    return run(asked, tmp_path / "out").folder.runs()


def processes_of(root):
    pids = [int(line.split()[0]) for line in (root / "started").read_text().splitlines()]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_scheduler_is_loaded_for_its_runs_alone(tmp_path, ext):
    root, program = ext
    line = f"cat {root}/state >> {tmp_path}/seen; true"
    runs = compared(tmp_path, f"other,ext:{program},args=--slow 5", line, blocks=2)
    assert [each.status for each in runs] == ["ok"] * 4
    names = {each.candidate.split(":")[0]: each.properties["sched_ext"] for each in runs}
    assert names == {"other": "", "ext": "fake"}
    seen = (tmp_path / "seen").read_text().split()
    assert sorted(seen[1:]) == ["disabled"] * 2 + ["enabled"] * 2  # after the rehearsal
    assert {line.split(" ", 1)[1] for line in (root / "started").read_text().splitlines()} == {
        "--slow 5"
    }
    assert (root / "state").read_text() == "disabled\n"
    assert processes_of(root) == []


def test_a_scheduler_that_is_ejected_in_a_run_discards_it(tmp_path, ext):
    root, program = ext
    once = tmp_path / "once"
    line = (
        f"if grep -q enabled {root}/state && [ ! -e {once} ]; then touch {once} {root}/eject; "
        f"while [ -e {root}/eject ]; do sleep 0.01; done; sleep 0.1; fi"
    )
    runs = compared(tmp_path, f"other,ext:{program}", line)
    gates = [gate.gate for each in runs for gate in each.gates if gate.fatal]
    assert gates == ["ext-ejected"]
    assert [each.status for each in runs].count("ok") == 2


def test_one_that_is_ejected_before_anybody_looks_is_a_result_with_the_kernels_reason(
    tmp_path, ext, monkeypatch
):
    _, program = ext
    log = tmp_path / "kmsg"
    log.write_text(
        '3,1,0,-;sched_ext: BPF scheduler "old" disabled (unregistered from user space)\n'
        '3,2,0,-;sched_ext: BPF scheduler "fake" disabled (runnable task stall)\n'
    )
    monkeypatch.setattr(cpu_ext, "KERNEL_LOG", log)
    runs = compared(tmp_path, f"other,ext:{program},args=--forget", "true")
    tried = [each for each in runs if each.candidate != "other"]
    assert [each.status for each in tried] == ["discarded"] * 3
    details = {gate.detail for each in tried for gate in each.gates}
    assert details == {"the kernel ejected the scheduler: runnable task stall"}


def test_a_scheduler_that_does_not_load_is_an_error_with_its_words(tmp_path, ext):
    root, program = ext
    with pytest.raises(HostError, match="exited with status 3:\nno such topology"):
        compared(tmp_path, f"other,ext:{program},args=--fail", "true")
    assert processes_of(root) == []
    assert (root / "state").read_text() == "disabled\n"


def test_a_partial_scheduler_wants_its_tasks_named(tmp_path, ext):
    root, program = ext
    (root / "switch_all").write_text("0\n")
    # This kernel has no SCHED_EXT, and says so when a task asks for it.
    with pytest.raises(HostError, match=r"refuses the policy .*'ext'"):
        compared(tmp_path, f"other,ext:{program}", "true")
    assert processes_of(root) == []


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ("ext", "no scheduler is named"),
        ("ext:/no/such/scx", "is not found"),
        ("other:args=--fast", "belong to policy ext"),
    ],
)
def test_what_cannot_be_loaded_is_refused(tmp_path, ext, policies, why):
    with pytest.raises((HostError, SpecError), match=why):
        compared(tmp_path, policies, "true")


def test_ctrl_c_unloads(tmp_path, ext):
    root, program = ext
    line = f"if grep -q enabled {root}/state; then kill -INT {os.getpid()}; sleep 60; fi"
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Exception, match="interrupted"):
            compared(tmp_path, f"other,ext:{program}", line, confine="nothing")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert processes_of(root) == []
    assert (root / "state").read_text() == "disabled\n"
