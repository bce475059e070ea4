"""A fleet of real hosts: four sshd in namespaces with devices of known, different effects, one of
them measured without bfq, one that dies in the middle; and one that is not reached."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from loops import loop_device
from ssh_hosts import keys, ssh_host, sshd

MISSING = [tool for tool in (sshd(), "ssh", "ip", "nsenter") if not shutil.which(tool)]
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or bool(MISSING), reason=f"needs root and {', '.join(MISSING) or 'nothing'}"
)
pytest.importorskip("ansible_runner")

# On a machine that does much else every task of Ansible takes a minute.
LIMIT_S = 1800
# What each host sleeps under bfq, and 0.2 s under all others.
SECONDS = {"a": 0.1, "b": 0.07, "c": 0.2, "d": 0.13}
EXTRA = {"a": " schedlab_shares=array", "b": " schedlab_shares=array", "c": " schedlab_switch='[]'"}
FILE = """
title = "fleet"
candidates = {{ schedlab_candidates | default(["none", "bfq"]) | to_json }}

[target]
kind = "directory"
path = "/mnt"
size_bytes = "1M"
switch = {{ schedlab_switch | default([schedlab_device]) | to_json }}

[[workloads]]
label = "sleep"
kind = "command"
metric = "elapsed_s"

[workloads.parameters]
shell = "sh /var/lib/work"
anyway = true
user = "root"

[stopping]
blocks = 3
"""


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """The device of each host."""
    place = tmp_path_factory.mktemp("devices")
    with ExitStack() as stack:
        made = {name: loop_device(place / name, 32 << 20) for name in "abcd"}
        devices = {name: stack.enter_context(each) for name, each in made.items()}
        for device in devices.values():
            subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        yield devices


@pytest.fixture
def fleet(devices, tmp_path):
    """(hosts by name, a function that runs `schedlab fleet` on them)"""
    key = keys(tmp_path)
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=2"
    lines = ["[all:vars]", "ansible_user=root", f"ansible_ssh_private_key_file={key}",
             f"ansible_ssh_common_args='{options}'", "schedlab_poll_seconds=1",
             f"ansible_python_interpreter={sys.executable}", "schedlab_reconnections=0",
             f"schedlab_command={Path(sys.executable).parent / 'schedlab'}", "[all]",
             "e ansible_host=127.0.0.1 ansible_port=9"]  # fmt: skip
    with ExitStack() as stack:
        hosts = {}
        for number, (name, device) in enumerate(devices.items(), 101):
            short = Path(device).name
            work = f"grep -qsF '[bfq]' /sys/block/{short}/queue/scheduler && sleep {SECONDS[name]}"
            host = ssh_host(tmp_path, number, device, f"{work} || sleep 0.2")
            hosts[name] = stack.enter_context(host)
            address = hosts[name].address
            lines.append(f"{name} ansible_host={address} schedlab_device={short}"
                         + EXTRA.get(name, ""))  # fmt: skip
        (tmp_path / "inventory.ini").write_text("\n".join(lines) + "\n")
        (tmp_path / "fleet.toml").write_text(FILE)

        def call(*words, **more):
            command = [sys.executable, "-m", "schedlab", "fleet", *words, "-i", "inventory.ini"]
            return subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, **more)  # fmt: skip

        yield hosts, call


def until(condition, limit_s=LIMIT_S):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def scheduler(device):
    return Path(f"/sys/block/{Path(device).name}/queue/scheduler").read_text()


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def place(host):
    """What the host has in /var/lib/schedlab-fleet."""
    return Path(f"/proc/{host.process.pid}/root/var/lib/schedlab-fleet/out")


def test_a_fleet_of_which_one_dies_and_one_is_not_reached(fleet, devices, tmp_path):
    hosts, call = fleet
    before = {host: scheduler(device) for host, device in devices.items()}
    run = call("run", "fleet.toml", "--trust", "--out", "out")
    until(lambda: "[bfq]" in scheduler(devices["d"]))
    assert (place(hosts["d"]) / "result" / "plan.jsonl").exists()
    hosts["d"].kill(spared="guardian")
    until(lambda: scheduler(devices["d"]) == before["d"])  # by the guardian
    out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 1, err
    assert "missing: d: not reached: " in err and "missing: e: not reached: " in err
    assert "missing: c: failed: /mnt: no scheduler would be set" in err
    assert "hint: when they are well again: schedlab fleet run fleet.toml -i inventory.ini" in err
    words = " ".join(out.split())
    assert "b: fetching" in err and "2 machines, 6 runs of each" in words
    answer = json.loads((tmp_path / "out" / "answer" / "verdict.json").read_text())
    (cells,) = answer["cells"].values()
    assert 0.2 < cells["none"]["value"] < 0.6 and 0.08 < cells["bfq"]["value"] < 0.25
    a, b = (json_lines(tmp_path / "out" / "hosts" / host / "runs.jsonl") for host in "ab")
    assert max(run["started_at"] for run in a) < min(run["started_at"] for run in b)
    assert {h: scheduler(devices[h]) for h in before} == before
    apply_and_undo(call, devices, before)
    refuse_what_was_edited(call, hosts, tmp_path)


def apply_and_undo(call, devices, before):
    """What is not settled is left alone; what is applied is seen, and undone to the byte."""
    out, err = call("apply", "out/answer").communicate(timeout=LIMIT_S)  # two bound nothing
    assert err.splitlines() == ["a: left as it is: keep none", "b: left as it is: keep none"], out
    words = ("apply", "bfq", "--limit", "a,b")
    out, err = call(*words, "--dry-run").communicate(timeout=LIMIT_S)
    assert "a: " in out and "bfq" in out, (out, err)
    assert {h: scheduler(devices[h]) for h in before} == before
    out, err = call(*words).communicate(timeout=LIMIT_S)
    assert "[bfq]" in scheduler(devices["a"]) and "[bfq]" in scheduler(devices["b"]), (out, err)
    status = call("status", "--limit", "a,b")
    assert "bfq" in status.communicate(timeout=LIMIT_S)[0] and status.returncode == 0
    Path(f"/sys/block/{Path(devices['b']).name}/queue/scheduler").write_text("kyber")
    status = call("status", "--limit", "a,b")
    assert "b: " in status.communicate(timeout=LIMIT_S)[0] and status.returncode == 1
    Path(f"/sys/block/{Path(devices['b']).name}/queue/scheduler").write_text("bfq")
    out, err = call("undo", "--limit", "a,b").communicate(timeout=LIMIT_S)
    assert f"a: undone: {Path(devices['a']).name}" in out, (out, err)
    assert {h: scheduler(devices[h]) for h in before} == before


def refuse_what_was_edited(call, hosts, tmp_path):
    """The second command measures only what is missing, and refuses an archive that is another."""
    inventory = tmp_path / "inventory.ini"
    without_bfq = """schedlab_candidates='["none"]'"""
    inventory.write_text(inventory.read_text().replace("schedlab_switch='[]'", without_bfq))
    runs_of_b = (place(hosts["b"]) / "result" / "runs.jsonl").read_text()
    archive = place(hosts["a"]) / "result.tar.gz"
    archive.write_bytes(archive.read_bytes() + b"x")
    run = call("run", "fleet.toml", "--trust", "--out", "out", "--limit", "a,b,c")
    _, err = run.communicate(timeout=LIMIT_S)
    assert "missing: a: failed: the archive was changed after it was measured" in err
    assert "b: fetching" in err and "c: fetching" in err and run.returncode == 1
    assert list(json.loads((tmp_path / "out/answer/host.json").read_text())["hosts"]) == ["b", "c"]
    assert (place(hosts["b"]) / "result" / "runs.jsonl").read_text() == runs_of_b
