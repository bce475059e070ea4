"""What `status` and `watch` report of real loop devices, and `undo` of one that has changed."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_apply import choice, device, needs_root, quiet, root

from schedlab.app.apply import applied
from schedlab.app.apply.apply import Request, apply
from schedlab.app.apply.undo import status, undo
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab.host.safety import owned
from schedlab.host.settings import knobs, writers

__all__ = ["device", "root"]


@needs_root
def test_watch_names_who_wrote_and_ends_well(device, root):
    """One line per change, with the process that made it; Ctrl-C is the way to end it."""
    queue = knobs.queue_of(device)
    knobs.write_value(queue / "scheduler", "none")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    watching = subprocess.Popen(
        [sys.executable, "-m", "schedlab", "status", "--watch", device, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        told = watching.stderr.readline()
        assert told.startswith(f"watching {device}")
        if "not seen" in told:
            pytest.skip("this kernel has no fanotify")
        lines = []
        for name, value in (("scheduler", "bfq"), ("iosched/slice_idle", "3"), ("nomerges", "2")):
            words = ["sh", "-c", f"echo {value} > {queue / name}; read until_it_was_named"]
            with subprocess.Popen(words, stdin=subprocess.PIPE) as writer:
                lines.append((json.loads(watching.stdout.readline()), writer.pid))
                writer.stdin.close()
    finally:
        watching.send_signal(signal.SIGINT)
        rest, errors = watching.communicate(timeout=30)
    assert (watching.returncode, rest, errors) == (0, "", "")
    for (change, process_id), (name, before, after) in zip(
        lines,
        (("scheduler", "none", "bfq"), ("iosched/slice_idle", "8", "3"), ("nomerges", "0", "2")),
        strict=True,
    ):
        assert (change["setting"], change["before"], change["after"]) == (name, before, after)
        assert change["writer"]["process_id"] == process_id
        assert change["writer"]["command"].startswith("sh -c echo")


@needs_root
def test_only_writes_of_others_are_told(tmp_path):
    told, file = writers.Writers(), tmp_path / "knob"
    if not told.is_told:
        pytest.skip("this kernel has no fanotify")
    file.write_text("0")
    told.mark([file])
    file.write_text("1")
    assert file.read_text() == "1"
    assert (told.wait(0.05), told.take()) == (False, {})
    subprocess.run(["cat", file], check=True, stdout=subprocess.DEVNULL)
    assert (told.wait(0.05), told.take()) == (False, {})
    other = subprocess.Popen(["sh", "-c", f"echo 2 > {file}"])
    assert told.wait(30) and told.take()[str(file)].process_id == other.pid
    assert other.wait() == 0
    told.close()


@needs_root
def test_status_names_what_drifted_and_exits_with_1(root, device):
    apply(choice("bfq", low_latency=0), Request((device,), root=root), quiet)
    assert CliRunner().invoke(cli, ["status"]).exit_code == 0
    queue = knobs.queue_of(device)
    knobs.write_value(queue / "iosched/low_latency", "1")
    knobs.write_value(queue / "max_sectors_kb", "64")
    shown = CliRunner().invoke(cli, ["status"])
    assert shown.exit_code == 1
    assert shown.output.splitlines()[1:3] == [
        "  iosched/low_latency: 0 was set, it is 1",
        f"  max_sectors_kb: {status(root)[0].drift[1].wanted} was set, it is 64",
    ]
    knobs.write_value(queue / "scheduler", "none")
    (drifted,) = status(root)
    assert [each.key for each in drifted.drift] == ["scheduler", "max_sectors_kb"]
    number = int(device.removeprefix("loop"))
    backing = Path(f"/sys/block/{device}/loop/backing_file").read_text().strip()
    owned.remove_loop(number, backing)
    assert status(root)[0].gone == "the device is not present"
    assert owned.add_loop(number)  # without a file
    assert status(root)[0].gone == "no file is attached to the device any more"
    owned.attach_loop(number, Path(backing))
    assert status(root)[0].gone == "the device was connected again since"
    assert not status(root)[0].holds
    lines = []
    assert undo([], False, lines.append) == [device]  # the only one needs no name
    assert not any("another program" in line for line in lines)
    with pytest.raises(SpecError, match="nothing is applied"):
        undo([], False, quiet)


@needs_root
def test_a_loop_device_whose_file_was_detached_is_undone_without_a_false_line(root, device):
    """The kernel resets its limits then: nobody has changed them."""
    queue = knobs.queue_of(device)
    before = knobs.read_value(queue / "scheduler")
    apply(choice("bfq" if before != "bfq" else "kyber"), Request((device,), root=root), quiet)
    with Path(f"/dev/{device}").open("rb") as opened:
        fcntl.ioctl(opened, owned.LOOP_CLR_FD)
    assert owned.wait_until(lambda: not applied.has_medium(device), 10)
    lines = []
    assert undo([], False, lines.append) == [device]
    assert lines == []
    assert knobs.read_value(queue / "scheduler") == before
