"""The part of test_udev.py inside the namespaces: a real udev daemon, apply, reboot, undo.

python udev_reboot.py DEVICE UDEVADM            prints what was seen as JSON
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from schedlab.app.apply import applied as applying
from schedlab.app.apply.apply import Request, ToApply, apply, warnings
from schedlab.app.apply.undo import status, undo
from schedlab.host.settings import knobs, udev_service
from schedlab.nouns import Candidate

RULES = Path("/etc/udev/rules.d")
WAIT_S = 10


def private_directories() -> None:
    """Rules and state of a udev that is invisible to the rest of this machine."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for name in ("/etc/udev", "/run/udev"):
        subprocess.run(["mount", "-t", "tmpfs", "none", name], check=True)
    RULES.mkdir()


def daemon(udevadm: str) -> subprocess.Popen[bytes]:
    """systemd-udevd, which is udevadm under another name."""
    process = subprocess.Popen(["systemd-udevd"], executable=udevadm, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + WAIT_S
    while not udev_service.CONTROL.exists():
        assert process.poll() is None, "the daemon ended"
        assert time.monotonic() < deadline, "the daemon does not answer"
        time.sleep(0.02)
    return process


def files() -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in RULES.parent.rglob("*.*")
            if p.is_file()}  # fmt: skip


def booted(udevadm: str, queue: Path) -> dict[str, str]:
    """The device as a boot makes it: the kernel's scheduler, then the rules by an `add` event."""
    knobs.write_value(queue / "scheduler", "none")
    subprocess.run([udevadm, "control", "--reload"], check=True)
    subprocess.run([udevadm, "trigger", "--action=add", str(queue.parent)], check=True)
    subprocess.run([udevadm, "settle", f"--timeout={WAIT_S}"], check=True)
    return knobs.snapshot(queue)


def main(device: str, udevadm: str) -> None:
    os.environ["PATH"] = f"{Path(udevadm).parent}:{os.environ['PATH']}"
    applying.UNLASTING = ()  # the loop device represents a disk
    private_directories()
    process = daemon(udevadm)
    try:
        queue, name = knobs.queue_of(device), knobs.device_name(device)
        (RULES / "60-distribution.rules").write_text(
            f'KERNEL=="{name}", ATTR{{queue/scheduler}}="kyber"\n'
        )
        seen = {"without us": booted(udevadm, queue)}
        before, rules, messages = knobs.snapshot(queue), files(), []
        choice = ToApply(Candidate("bfq", {"scheduler": "bfq", "low_latency": 0}))
        planned: list[str] = []
        apply(choice, Request((device,), persist=True, dry_run=True), planned.append)
        seen["planned"] = planned
        apply(choice, Request((device,), persist=True), messages.append)
        seen["applied"] = knobs.snapshot(queue)
        seen["status"] = status()[0].after_reboot
        seen["after a boot"] = booted(udevadm, queue)
        conflict = RULES / "99-conflict.rules"
        conflict.write_text(f'KERNEL=="{name}", ATTR{{queue/scheduler}}="mq-deadline"\n')
        seen["with a conflict"] = booted(udevadm, queue)
        seen["warnings"] = warnings(name, "bfq", Request((device,)))
        planned_late: list[str] = []
        apply(choice, Request((device,), persist=True, dry_run=True), planned_late.append)
        seen["planned beside a conflict"] = planned_late
        conflict.unlink()
        seen["again"] = booted(udevadm, queue)
        undo([device], False, messages.append)
        seen["same queue"] = knobs.snapshot(queue) == before
        seen["same rules"] = files() == rules
        seen["undone and booted"] = booted(udevadm, queue)
        seen["said"] = messages
        print(json.dumps(seen))
    finally:
        process.terminate()
        process.wait(WAIT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
