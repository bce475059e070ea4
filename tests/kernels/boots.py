"""A plan of boots on real kernels in qemu: `make test-boots`.

Two kernels of the distribution, and the newer one with one CPU, each measure the same parallel work
in random order. One boot is killed in the middle, one is foreign. The guest's disk stays, so the
plan does.

usage: tests/kernels/boots.py [command|grub …]

With `command` the host stands for the boot loader: `boots init --with COMMAND` writes the next
kernel to a file that this script obeys, as a server for PXE would. With `grub` the guest has a boot
disk of its own with the real GRUB, which chooses by itself.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from boot import COMMON, KERNELS, PROJECT, VERSIONS, fetched, guest, initramfs, machine, make_disk

from schedlab.app.fleet.boots import Boots
from schedlab.result import Result

BOOTS_MAX, BOOT_S, ROUNDS = 14, 600, 2
FOREIGN, KILLED = 3, 5  # which boots, of those that the host starts
PYTHON = f"{PROJECT}/.venv/bin/python"
FILE = """\
kind = "cpu"
candidates = ["other"]
stopping = { blocks = 2 }
[[workloads]]
label = "two processes"
kind = "calculation"
metric = "calculations"
parameters = { processes = 2, seconds = "1s" }
"""
INIT = f"""\
mkdir -p bin && cp {PROJECT}/tests/kernels/reboot bin && cp /guest/results/x.toml .
{PYTHON} -m schedlab boots init x.toml --kernels OLD,NEW \\
  --candidate 'one-cpu=NEW cmdline=maxcpus=1' --boots {ROUNDS} --out plan WITH
"""
WITH = """--with 'echo "$SCHEDLAB_KERNEL $SCHEDLAB_CMDLINE" >/guest/results/next'"""
NEXT = f"""\
{PYTHON} -m schedlab boots next --reboot
rm -rf /guest/results/plan && cp -r plan /guest/results/
(cat /guest/results/next; ls /boot/grub/custom.cfg; grub-editenv list) >/guest/results/default
"""
JOB = "mkdir -p /root && cd /root && exec >>/guest/results/log 2>&1\nPATH=/root/bin:$PATH\n"


def main(loaders: list[str]) -> int:
    """Run a plan to its end with each boot loader; the exit status says whether all is true."""
    roots = {root.name: root for root in map(fetched, VERSIONS)}
    return max(planned(roots, loader) for loader in loaders)


def planned(roots: dict[str, Path], loader: str) -> int:
    """Boot until the plan ends, and check it."""
    old, new = sorted(roots, key=lambda release: [*map(int, release.split(".")[:2])])
    results = KERNELS / f"boots-{loader}"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    (results / "x.toml").write_text(FILE)
    with_ = WITH if loader == "command" else ""
    init = INIT.replace("OLD", old).replace("NEW", new).replace("WITH", with_)
    job = f"{JOB}[ -e plan ] || {{\n{init}}}\n{NEXT}"
    images = {release: initramfs(root, release, job) for release, root in roots.items()}
    disks = [make_disk(results / "disk.img")]
    if loader == "grub":
        disks.append(boot_disk(results / "grub.img", roots, images))
    for number in range(1, BOOTS_MAX + 1):
        release, words = chosen(results) or (new, "")
        is_foreign, began = number == FOREIGN, time.monotonic()
        if is_foreign:
            release, words = new, "single"
        command = guest(roots[release], release, results, disks[0], images[release], words)
        if loader == "grub" and not is_foreign:
            command = machine(results, results / "console.log", *disks)
        run(command, results / "log", is_killed=number == KILLED)
        what = f"{release} {words}" if loader == "command" or is_foreign else "GRUB"
        print(f"boot {number}: {what}, {time.monotonic() - began:.0f} s", flush=True)
        if (results / "plan" / "result").exists():
            break
    code = check(results, old, new)
    for disk in disks:
        disk.unlink()
    return code


def boot_disk(path: Path, roots: dict[str, Path], images: dict[str, Path]) -> Path:
    """A disk with GRUB and both kernels: its menu is made by `grub-mkconfig`, mounted as /boot."""
    core = path.with_suffix(".core")
    modules = ("biosdisk", "part_msdos", "ext2", "normal")
    making = ["grub-mkimage", "-O", "i386-pc", "-o", core, "-p", "(hd0,msdos1)/grub", *modules]
    subprocess.run(making, check=True)
    start, size = 2048, 256 << 20
    first = Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()[:440]
    ends = (b"\0\x20\x21", 0x83, b"\xfe\xff\xff")
    partition = struct.pack("<B3sB3sII", 0x80, *ends, start, size // 512 - start)
    with path.open("wb") as file:
        file.truncate(size)
        file.write(first + bytes(6) + partition + bytes(48) + b"\x55\xaa" + core.read_bytes())
    attaching = ["losetup", "-f", "--show", "-o", str(start * 512), path]
    loop = subprocess.run(attaching, check=True, capture_output=True, text=True).stdout.strip()
    copies = "\n".join(
        f"cp {root}/boot/vmlinuz-{release} /boot && cp {images[release]} /boot/initrd.img-{release}"
        for release, root in roots.items()
    )
    script = f"""set -e; mkfs.ext4 -q {loop}; mount {loop} /boot; mkdir /boot/grub
    cp -r /usr/lib/grub/i386-pc /boot/grub; {copies}
    grub-mkconfig -o /boot/grub/grub.cfg 2>/dev/null; umount /boot"""
    settings = {"GRUB_TIMEOUT": "0", "GRUB_TERMINAL": "serial", "GRUB_CMDLINE_LINUX": COMMON,
                "GRUB_SERIAL_COMMAND": "serial --unit=0"}  # fmt: skip
    try:
        private = ["unshare", "-m", "sh", "-c", script]
        subprocess.run(private, check=True, env={**os.environ, **settings})
    finally:
        subprocess.run(["losetup", "-d", loop], check=True)
    return path


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


def check(results: Path, old: str, new: str) -> int:
    """Print what the plan made of these boots; 0 where all of it is true."""
    plan = Boots(results / "plan")
    print("\n".join(plan.lines()))
    result = Result.load(results / "plan" / "result")
    print(result.text())
    events = Counter(event["event"] for event in plan.events)
    answer, record = result.answer, result.record
    boots = record.host["boots"].items()
    kernels = {label: facts["kernel"]["release"] for label, facts in boots}
    cpus = {label: facts["cpu"]["online"] for label, facts in boots}
    facts = {
        "every boot of the plan was measured": plan.due is None and events["done"] == 3 * ROUNDS,
        "one was killed, one was foreign": events["killed"] == events["foreign"] == 1,
        "each kind has its kernel": kernels == {old: old, new: new, "one-cpu": new},
        "every boot is another": len({run.properties["boot"] for run in record.runs}) == 3 * ROUNDS,
        "one of them has one CPU": cpus == {old: 2, new: 2, "one-cpu": 1},
        "boots are the units": (answer.used, answer.units) == ("sessions", ROUNDS),
        "the default is next": (results / "default").read_text().split() in ([], ["next_entry="]),
    }
    for fact, holds in facts.items():
        print(f"{'ok   ' if holds else 'WRONG'} {fact}")
    return 0 if all(facts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["command", "grub"]))
