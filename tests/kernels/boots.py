"""A plan of boots on real kernels in qemu: `make test-boots`.

Two kernels of the distribution, and the newer one with one CPU, each measure the same parallel work
in random order. One boot is killed in the middle, one is foreign. The host stands for the boot
loader: `boots init --with COMMAND` writes the next kernel to a file that this script obeys, as
a server for PXE would. The guest's disk stays, so the plan does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from boot import KERNELS, PACKAGES, PROJECT, fetched, guest, initramfs, make_disk

from schedlab.app.boots import Boots
from schedlab.result import Result

BOOTS_MAX, BOOT_S, ROUNDS = 14, 600, 2
FOREIGN, KILLED = 3, 5  # which boots, of those that the host starts
PYTHON = f"{PROJECT}/.venv/bin/python"
# Both CPUs calculate: with one there is half as much.
FILE = """\
kind = "cpu"
candidates = ["other"]
stopping = { blocks = 2 }
[[workloads]]
label = "two processes"
kind = "calculation"
metric = "calculations"
parameters = { processes = 2, seconds = "3s" }
"""
INIT = f"""\
mkdir -p bin && cp {PROJECT}/tests/kernels/reboot bin && cp /tmp/results/x.toml .
{PYTHON} -m schedlab boots init x.toml --kernels OLD,NEW \\
  --candidate 'one-cpu=NEW cmdline=maxcpus=1' --boots {ROUNDS} --out plan \\
  --with 'echo "$SCHEDLAB_KERNEL $SCHEDLAB_CMDLINE" >/tmp/results/next'
"""
NEXT = f"""\
{PYTHON} -m schedlab boots next --reboot
rm -rf /tmp/results/plan && cp -r plan /tmp/results/
"""
JOB = "mkdir -p /root && cd /root && exec >>/tmp/results/log 2>&1\nPATH=/root/bin:$PATH\n"


def main() -> int:
    """Boot until the plan ends; the exit status says whether it is complete and true."""
    roots = {}
    for package in PACKAGES:
        root = fetched(package)
        roots[next((root / "lib" / "modules").iterdir()).name] = root
    old, new = sorted(roots, key=lambda release: [*map(int, release.split(".")[:2])])
    results = KERNELS / "boots"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    (results / "x.toml").write_text(FILE)
    disk = make_disk(results / "disk.img")
    init = INIT.replace("OLD", old).replace("NEW", new)
    booted = []
    for number in range(1, BOOTS_MAX + 1):
        release, words = chosen(results) or (new, "")
        if number == FOREIGN:
            release, words = (old if release == new else new), ""
        kernel = f"{release} {words}".strip()
        print(f"boot {number}: {kernel}", flush=True)
        began = time.monotonic()
        image = initramfs(roots[release], release, JOB + (init if number == 1 else "") + NEXT)
        command = guest(roots[release], release, results, disk, image, words)
        run(command, results / "log", is_killed=number == KILLED)
        booted.append(kernel)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
        if (results / "plan" / "result").exists():
            break
    disk.unlink()
    return check(results, booted, old, new)


def chosen(results: Path) -> tuple[str, str] | None:
    """(release, words) of the next boot, which are obeyed once; None: the default."""
    file = results / "next"
    text = file.read_text().split(" ", 1) if file.exists() else [""]
    file.unlink(missing_ok=True)
    return (text[0], text[1].strip()) if text[0].strip() else None


def run(command: list[str], log: Path, *, is_killed: bool) -> None:
    """Run a guest until it reboots or powers off; or kill it as soon as it has measured a run."""
    before = log.stat().st_size if log.exists() else 0
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + BOOT_S
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
                raise SystemExit(f"no end after {BOOT_S} s: see {log}")
            if is_killed and b"run 1/2" in log.read_bytes()[before:]:
                process.kill()
            time.sleep(0.2)


def check(results: Path, booted: list[str], old: str, new: str) -> int:
    """Print what the plan made of these boots; 0 where all of it is true."""
    plan = Boots(results / "plan")
    print("\n".join(plan.lines()))
    result = Result.load(results / "plan" / "result")
    print(result.text())
    events = Counter(event["event"] for event in plan.events)
    answer, record = result.answer, result.record
    cells = answer.cells["two processes"]
    kernels = {label: facts["kernel"]["release"] for label, facts in record.host["boots"].items()}
    half = cells["one-cpu"].value / cells[new].value
    facts = {
        "every boot of the plan was measured": plan.due is None and events["done"] == 3 * ROUNDS,
        "one was killed, one was foreign": events["killed"] == events["foreign"] == 1,
        "each kind has its kernel": kernels == {old: old, new: new, "one-cpu": new},
        "every boot is another": len({run.properties["boot"] for run in record.runs}) == 3 * ROUNDS,
        f"one CPU does about half ({half:.2f})": 0.35 < half < 0.7,
        "boots are the units": (answer.used, answer.units) == ("sessions", ROUNDS),
        "the default is next": (results / "next").read_text().strip() == "",
    }
    for fact, holds in facts.items():
        print(f"{'ok   ' if holds else 'WRONG'} {fact}")
    print(f"{len(booted)} boots")
    return 0 if all(facts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
