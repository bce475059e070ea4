"""Boot the distribution's kernels in qemu and run the smoke tests in each: `make test-kernels`.

The guest sees this machine's root read-only with a scratch disk over it, so the tests run from the
same tree and the same virtual environment; only the kernel is another one. Nothing of the host is
changed: the guest has its own devices, its own cgroups and its own settings.

usage: tests/kernels/boot.py [VERSION …]
"""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.guest import kernels

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
KERNELS = PROJECT / "target" / "kernels"
REPORT = PROJECT / "docs" / "reference" / "kernels.md"
VERSIONS = ("6.1", "6.12", "7.2")
TIMEOUT_S = 3600
MEMORY = "3G"
# An AMD processor whose frequencies are those of `cpufreq.asl`, which uses the reserved memory.
CPU = "max,family=25,model=1"
COMMON = "console=ttyS0 quiet panic=-1"
ARGUMENTS = "amd_pstate=active memmap=64K$0x70000000"
SMOKE = f"""cd {PROJECT} && .venv/bin/python -m pytest -p no:cacheprovider --tb=short -q \\
  --reruns 1 --color=no -c pyproject.toml @tests/kernels/smoke.txt \\
  --junitxml=/guest/results/smoke.xml
"""
# What the guest must have before it sees the root of the host.
FIRST_MODULES = (
    "virtio_pci",
    "virtio_blk",
    "9pnet_virtio",
    "9p",
    "overlay",
    "crc32c_generic",
    "ext4",
)
# What the tests use, loaded once the root is there.
TEST_MODULES = (
    *("loop", "fuse", "bfq", "kyber-iosched", "mq-deadline", "dm-mod", "dm-delay"),
    *(
        "sd_mod",
        "null_blk nr_devices=0",
        "scsi_debug dev_size_mb=64 delay=0 ndelay=2000000",
        "ublk_drv",
    ),
    *("acpi-cpufreq", "cpufreq_powersave"),
)


def main(versions: list[str]) -> int:
    """Boot each kernel, run the smoke tests, write the report. The exit status says if all held."""
    for tool in ("qemu-system-x86_64", "busybox", "cpio", "iasl"):
        if not shutil.which(tool):
            print(f"error: {tool} is not installed", file=sys.stderr)
            print("hint: make test-kernels installs what it needs as root", file=sys.stderr)
            return 2
    rows = [tested(version) for version in versions]
    REPORT.write_text(report(rows), encoding="utf-8")
    print(f"wrote {REPORT.relative_to(PROJECT)}")
    return 0 if all(row["failed"] == 0 and row["passed"] for row in rows) else 1


def tested(wanted: str) -> dict[str, object]:
    """The outcome of the smoke tests under a kernel of that version."""
    root = fetched(wanted)
    version = root.name
    results = root / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    print(f"booting Linux {version}", flush=True)
    boot(root, version, results)
    outcome = results / "smoke.xml"
    if not outcome.exists():
        print(f"error: Linux {version} did not finish; see {root / 'console.log'}")
        return {"version": version, "passed": 0, "failed": 1, "skipped": [], "failures": ["boot"]}
    return {"version": version, **read(outcome)}


def read(outcome: Path) -> dict[str, object]:
    """Counts and names of a JUnit file: passed, failed, failures, skipped (with reasons)."""
    failures, skipped, passed = [], [], 0
    for case in ElementTree.parse(outcome).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append(name)
        elif skip is not None:
            skipped.append(f"{name}: {skip.get('message')}")
        else:
            passed += 1
    return {"passed": passed, "failed": len(failures), "failures": failures, "skipped": skipped}


def fetched(version: str) -> Path:
    """A kernel of that version, with its modules uncompressed and indexed."""
    try:
        kernel = kernels.find(version)
    except SpecError:
        kernel = kernels.get(version)
    root, release = KERNELS / kernel.release, kernel.release
    if (root / "ready").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    (root / "boot").mkdir(parents=True)
    shutil.copy(kernel.image, root / "boot" / f"vmlinuz-{release}")
    assert kernel.modules
    shutil.copytree(kernel.modules, root / "lib" / "modules" / release, symlinks=True)
    packed = [str(path) for path in root.rglob("*.ko.xz")]
    for start in range(0, len(packed), 500):
        subprocess.run(["xz", "-d", *packed[start : start + 500]], check=True)
    subprocess.run(["busybox", "depmod", "-b", root, release], check=True)
    (root / "ready").touch()
    return root


def boot(root: Path, version: str, results: Path) -> None:
    """Run the smoke tests in a guest until it powers off; its console goes to `console.log`."""
    scratch = make_disk(root / "scratch.img")
    image = initramfs(root, version, SMOKE)
    try:
        command = guest(root, version, results, scratch, image)
        subprocess.run(command, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"Linux {version} was stopped after {TIMEOUT_S} s")
    finally:
        scratch.unlink(missing_ok=True)


def make_disk(path: Path) -> Path:
    """A new sparse disk, on which the guest makes its file system when it boots first."""
    path.unlink(missing_ok=True)
    with path.open("wb") as disk:
        disk.truncate(6 << 30)
    return path


def guest(
    root: Path, version: str, results: Path, disk: Path, image: Path, words: str = ""
) -> list[str]:
    """The command that boots a kernel, with further words on its command line."""
    tables = root / "cpufreq.aml"
    compiling = ["iasl", "-p", tables.with_suffix(""), HERE / "cpufreq.asl"]
    subprocess.run(compiling, check=True, stdout=subprocess.DEVNULL)
    return [
        *machine(results, root / "console.log", disk),
        *("-acpitable", f"file={tables}"),
        *("-kernel", str(root / "boot" / f"vmlinuz-{version}")),
        *("-initrd", str(image)),
        *("-append", f"{COMMON} {ARGUMENTS} {words}".strip()),
    ]


def machine(results: Path, console: Path, *disks: Path) -> list[str]:
    """A machine that sees the root of the host, and boots its last disk if it has no kernel."""
    shares = {"root": ("/", "on"), "results": (str(results), "off")}
    command = [
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2"),
        *("-cpu", CPU, "-m", MEMORY, "-display", "none", "-nodefaults", "-no-reboot"),
        *("-serial", f"file:{console}"),
    ]
    for number, disk in enumerate(disks):
        command += ["-drive", f"file={disk},format=raw,if=none,id=disk{number},cache=unsafe"]
        command += ["-device", f"virtio-blk-pci,drive=disk{number},bootindex={9 - number}"]
    for tag, (path, readonly) in shares.items():
        command += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none"
                    f",readonly={readonly},multidevs=remap"]  # fmt: skip
    return command


def initramfs(root: Path, version: str, job: str) -> Path:
    """A small root with busybox, the first modules, `init`, and the shell script that it runs."""
    tree = root / "initramfs"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "host", "upper", "root", f"lib/modules/{version}"):
        (tree / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox
    shutil.copy(busybox, tree / "bin" / "busybox")
    modules = root / "lib" / "modules" / version
    for path in needed(modules, FIRST_MODULES):
        place = tree / "lib" / "modules" / version / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(modules / path, place)
    subprocess.run(["busybox", "depmod", "-b", tree, version], check=True)
    script = (HERE / "init").read_text(encoding="utf-8")
    settings = {
        "FIRST": " ".join(FIRST_MODULES),
        "KERNEL_ROOT": str(root),
        "MODULES": "".join(f"load {name}\n" for name in TEST_MODULES),
    }
    for name, value in settings.items():
        script = script.replace(f"@{name}@", value)
    (tree / "init").write_text(script, encoding="utf-8")
    (tree / "init").chmod(0o755)
    (tree / "job").write_text(job, encoding="utf-8")
    image = root / "initramfs.img"
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with image.open("wb") as out:
        packing = ["cpio", "--quiet", "-o", "-H", "newc"]
        subprocess.run(packing, cwd=tree, input=names.encode(), stdout=out, check=True)
    return image


def needed(modules: Path, names: tuple[str, ...]) -> set[str]:
    """Paths of the modules `names` and of all that they depend on; built-in ones are not files."""
    depends: dict[str, list[str]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        depends[path] = others.split()
    by_name = {Path(path).stem.replace("-", "_"): path for path in depends}
    wanted: set[str] = set()
    waiting = [
        by_name[name.replace("-", "_")] for name in names if name.replace("-", "_") in by_name
    ]
    while waiting:
        path = waiting.pop()
        if path not in wanted:
            wanted.add(path)
            waiting += depends[path]
    return wanted


def report(rows: list[dict[str, object]]) -> str:
    """The page of the documentation, made from what was measured just now."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    asking = ["git", "-C", PROJECT, "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asking, check=True, capture_output=True, text=True).stdout.strip()
    lines = [
        "# Kernels that schedlab was tested on",
        "",
        "`make test-kernels` boots these kernels of the distribution in qemu and runs",
        "the tests of `tests/kernels/smoke.txt` in each. This page is written by that command.",
        "",
        f"Last run: {today}, at commit {commit}.",
        "",
        "| kernel | passed | failed | skipped |",
        "|---|---:|---:|---:|",
    ]
    for row in rows:
        skipped = list(row["skipped"])
        lines.append(f"| {row['version']} | {row['passed']} | {row['failed']} | {len(skipped)} |")
    for row in rows:
        for title in ("failures", "skipped"):
            names = list(row[title])
            if names:
                lines += ["", f"{title} on {row['version']}:", "", *(f"* `{n}`" for n in names)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(VERSIONS)))
