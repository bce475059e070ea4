"""Kernels for virtual time, the archive that boots, and what is refused before a boot."""

import dataclasses
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from schedlab.app.compare.difference import require_same_clock
from schedlab.app.measure import labs, virtual, virtual_boots
from schedlab.app.measure.measure import Observer, check_kernel
from schedlab.errors import HostError, SpecError
from schedlab.guest import cache, image, initramfs, kernels, machine, monitor, place
from schedlab.guest.machine import MARK, BootSettings, Message
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload


def bz_image(path, release="6.99.1-test"):
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x100).to_bytes(2, "little")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(head[:0x300]) + f"{release} (me) #1".encode() + b"\0" * 64)
    return path


def module(path, depends="", soft=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    info = f"license=GPL\0depends={depends}\0" + (f"softdep={soft}\0" if soft else "")
    content = b"\x7fELF\0" + info.encode() + b"name=x\0"
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "schedlab" / "kernels"


def cached(home, release, config=""):
    root = home / release
    bz_image(root / "boot" / f"vmlinuz-{release}", release)
    (root / "boot" / f"config-{release}").write_text(config)
    (root / "lib/modules" / release).mkdir(parents=True)


def test_a_kernel_is_found_by_its_version_the_newest_first(home):
    for release in ("6.1.0-9-amd64", "6.1.0-44-amd64", "6.12.117+deb12-amd64"):
        cached(home, release)
    assert kernels.find("6.1").release == "6.1.0-44-amd64"
    assert kernels.find("6.12").release == "6.12.117+deb12-amd64"
    assert kernels.find("6.12.117").release == "6.12.117+deb12-amd64"
    with pytest.raises(SpecError, match=r"no kernel 6\.11 is here") as error:
        kernels.find("6.11")
    assert error.value.hint == "schedlab kernel get 6.11"


@pytest.mark.parametrize("name", ["x y", "../x", "6", "/tmp/bzImage", "6.1;id", "-h"])
def test_what_is_no_version_is_refused_before_anything_is_fetched(name):
    with pytest.raises(SpecError, match="is no version of Linux"):
        kernels.get(name)


def test_a_file_is_a_kernel_with_what_is_beside_it(tmp_path):
    own = bz_image(tmp_path / "build/arch/x86/boot/bzImage", "4.19.3")
    (tmp_path / "build/.config").write_text("CONFIG_IOSCHED_BFQ=m\n# CONFIG_X is not set\n")
    (tmp_path / "build/lib/modules/4.19.3").mkdir(parents=True)
    found = kernels.find(str(own))
    assert found.release == "4.19.3"
    assert found.modules == tmp_path / "build/lib/modules/4.19.3"
    assert found.schedulers == ("none", "bfq")
    assert "CONFIG_EXT4_FS" in found.lacks


@pytest.mark.parametrize("content", [b"", b"\x7fELF" + bytes(3000), bytes(1 << 17)])
def test_another_file_is_no_kernel(tmp_path, content):
    file = tmp_path / "vmlinux"
    file.write_bytes(content)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SpecError, match="is not a regular file"):
        kernels.find(str(tmp_path / "fifo"))
    with pytest.raises(SpecError, match="is not a kernel"):
        kernels.find(str(file))


def test_a_kernel_of_unknown_options_may_offer_every_scheduler(tmp_path):
    found = kernels.find(str(bz_image(tmp_path / "bzImage")))
    assert found.schedulers == kernels.SCHEDULERS
    assert found.lacks == ()


def test_modules_come_after_what_they_need(tmp_path):
    root = tmp_path / "lib/modules/6.99.1-test/kernel"
    module(root / "fs/ext4.ko.xz", "mbcache,jbd2", "pre: crc32c")
    module(root / "fs/jbd2.ko", "")
    module(root / "fs/mbcache.ko.xz", "")
    module(root / "lib/crc32c.ko", "")
    found = kernels.find(str(bz_image(tmp_path / "boot/vmlinuz")))
    names = list(found.with_dependencies(["ext4", "loop", "jbd2"]))
    assert names == ["mbcache", "jbd2", "crc32c", "ext4"]


def test_the_archive_is_that_of_its_content_alone(tmp_path):
    entries = [("a", 0o040755, b""), ("a/b", 0o100644, b"12345"), ("init", 0o100755, b"#!")]
    packed = initramfs.archive(entries)
    assert packed == initramfs.archive(entries)
    names, at = [], 0
    while not names or names[-1] != "TRAILER!!!":
        fields = [int(packed[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        size, length = fields[6], fields[11]
        names.append(packed[at + 110 : at + 110 + length - 1].decode())
        at = (at + 110 + length + 3) // 4 * 4
        assert packed[at : at + size] == {n: c for n, _, c in entries}.get(names[-1], b"")
        at = (at + size + 3) // 4 * 4
        assert fields[2:4] == [0, 0] and fields[5] == 0
    assert names == ["a", "a/b", "init", "TRAILER!!!"]


def test_the_machine_has_no_network_no_disk_and_its_own_clock(tmp_path):
    kernel = kernels.find(str(bz_image(tmp_path / "bzImage")))
    root = tmp_path / "root.img"
    root.write_bytes(bytes(1 << 21))
    settings = BootSettings(2, 1 << 30, 5, "quiet x")
    words = machine.command(root, tmp_path / "ram", settings, is_shared=False)
    text = " ".join(words)
    assert "-icount shift=2,sleep=off" in text and "mem-path=result,share=on" in text
    assert f"size={1 << 30},mem-path={tmp_path / 'ram'},share=off" in text
    # The seed comes with the job: the state after the boot is one for all.
    assert words == machine.command(
        root, tmp_path / "ram", BootSettings(2, 1 << 30), is_shared=False
    )
    assert "-nic none" in text and "-drive" not in text and "-netdev" not in text
    assert "-smp 1" in text and "rdrand=off" in text and "clock=vm" in text
    words = machine.boot_words(kernel, tmp_path / "initrd", settings)
    assert words[-1].endswith("quiet x") and "norandmaps" in words[-1]
    assert BootSettings(2).instructions_per_s == 250_000_000


@pytest.mark.parametrize(
    ("script", "console", "message"),
    [
        ("exit 0", "x\n[ 1.0] Kernel panic - not syncing: Oops\n", "panicked: not syncing: Oops"),
        ("kill -9 $$", "", "qemu was killed"),
        ("kill -SEGV $$", f'{MARK}{{"up": true}}\n', "qemu ended by SIGSEGV"),
        ("exit 3", f'{MARK}{{"up": true}}\n', "printed nothing"),
        ("echo no such option >&2; exit 1", "", "no such option"),
        ("exit 0", "", "printed nothing"),
        ("while :; do :; done", "", "the machine hangs"),
    ],
)
def test_a_machine_that_ends_without_a_result_says_why(
    tmp_path, monkeypatch, script, console, message
):
    """One that hangs, as a damaged kernel does, was waited for for half an hour, then "killed"."""
    monkeypatch.setattr(machine, "_START_CPU_S", 0.1)
    kernel = kernels.find(str(bz_image(tmp_path / "bzImage")))
    (tmp_path / "console").write_text(console)
    with pytest.raises(HostError, match=message) as error:
        machine.run(["sh", "-c", script], tmp_path, kernel, None, lambda message: None)
    assert "Linux 6.99.1-test" in str(error.value) and error.value.hint


def test_a_machine_that_is_killed_while_it_loads_says_so(tmp_path):
    """Its console was not there yet."""
    kernel = kernels.find(str(bz_image(tmp_path / "bzImage")))
    (tmp_path / "devices").touch()
    with pytest.raises(HostError, match="qemu was killed"):
        machine.run(["sh", "-c", "kill -9 $$"], tmp_path, kernel, tmp_path / "devices", print)


def test_messages_of_a_guest_are_lines_with_a_mark(tmp_path):
    kernel = kernels.find(str(bz_image(tmp_path / "bzImage")))
    lines = [f'{MARK}{{"report": "one"}}', "noise", f"{MARK}half a li", f'{MARK}{{"ended": true}}']
    script = "".join(f"echo '{line}' >>console;" for line in lines)
    heard = []
    machine.run(["sh", "-c", script], tmp_path, kernel, None, heard.append)
    assert heard == [Message(report="one"), Message(ended=True)]


def experiment(kind="io", target=None, **more):
    work = Workload("w", "newcomer" if kind == "io" else "wakeup", "m", more.pop("parameters", {}))
    settings = {"scheduler": more.pop("scheduler", "none")} if kind == "io" else {"policy": "rr"}
    usual = Target("emulated", model="disk7200", size_bytes=1 << 30)
    target = target or (usual if kind == "io" else Target("none"))
    return Experiment("t", kind, target, (Candidate("c", settings),), (work,), "c", 7, **more)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (experiment(scheduler="kyber"), "does not offer kyber"),
        (experiment(target=Target("device", "/dev/sdb", 1 << 30)), "has no disk of this one"),
        (experiment(target=Target("directory", "/srv", 1 << 30)), "has no disk of this one"),
        (experiment(target=Target("scratch", "", 1 << 30)), "does not fit into the 2560 MiB"),
        (experiment("cpu", explain=True), "--explain traces this machine"),
        (dataclasses.replace(experiment("cpu"), kind="sim"), "would change nothing"),
    ],
)
def test_what_a_guest_cannot_measure_is_refused_before_the_boot(tmp_path, asked, message):
    options = {"CONFIG_IOSCHED_BFQ": "m"}
    kernel = kernels.Kernel("6.99", tmp_path / "bzImage", None, options)
    with pytest.raises(SpecError, match=message) as error:
        virtual.check(asked, kernel)
    assert error.value.hint
    virtual.check(experiment(scheduler="bfq"), kernel)
    virtual.check(experiment("cpu"), kernel)


def test_a_machine_without_a_result_leaves_no_folder(tmp_path, monkeypatch):
    """It left an empty one, and so did a kernel that is not there."""
    bz_image(tmp_path / "bzImage")
    for module in (virtual, virtual_boots):
        monkeypatch.setattr(module, "booted", lambda *_: pytest.fail("panicked"))
    with pytest.raises(SpecError, match="No such file"):
        virtual.measure(experiment("cpu"), str(tmp_path / "other"), tmp_path / "out")
    for sessions in (1, 2):
        asked = experiment("cpu", stopping=Stopping(blocks=2, sessions=sessions))
        with pytest.raises(pytest.fail.Exception):
            virtual.measure(asked, str(tmp_path / "bzImage"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_an_experiment_names_are_brought_along(tmp_path):
    trace, tool = tmp_path / "t.trace", tmp_path / "tool"
    trace.write_text("x")
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    asked = experiment(parameters={"trace": str(trace), "argv": [str(tool), "/usr/bin/env", "-x"]})
    assert virtual._files_of(asked) == [trace, tool]
    assert virtual._files_of(experiment(parameters={"argv": ["sh", "-c", "true"]})) == []


@pytest.mark.parametrize("name", ["python3", "own"])
def test_a_program_that_the_shell_alone_finds_is_no_part_of_the_machine(
    tmp_path, monkeypatch, name
):
    """The next shell finds another, and a repetition was that of another machine."""
    (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert virtual._files_of(experiment(parameters={"argv": [name]})) == []


def test_a_job_is_equal_to_the_byte_and_has_its_seed():
    job = place.Job("measure", {"experiment.toml": b"x = 1", "files/a/b": b"y"})
    packed = place._packed(job, BootSettings(seed=9))
    assert packed == place._packed(job, BootSettings(seed=9))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        read = {name: archive.extractfile(name).read() for name in archive.getnames()}
    order = json.loads(read.pop("job.json"))
    assert (read, order) == (dict(job.files), {"do": "measure", "seed": 9})


@pytest.mark.parametrize("names", ["abcd", "dcba", "bcad"])
def test_the_cache_keeps_what_was_used_last(tmp_path, names):
    paths = [tmp_path / name for name in names]
    for age, path in enumerate(paths):
        path.mkdir()
        os.utime(path, (age, age))
    for other in ("x.img", ".making"):  # of another kind, and what another process makes
        (tmp_path / other).touch()
        os.utime(tmp_path / other, (0, 0))
    cache.keep_newest(paths[0])
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {".making", "x.img", names[0], *names[2:]}


def test_a_monitor_speaks_of_errors_and_of_a_machine_that_is_gone():
    with monitor.Monitor() as asked:
        asked.theirs.sendall(b'{"event": "STOP"}\n{"return": {"status": "running"}}\n')
        assert asked.ask("query-status", a_b=1) == {"status": "running"}
        sent = json.loads(asked.theirs.recv(200))
        assert sent == {"execute": "query-status", "arguments": {"a-b": 1}}
        asked.theirs.sendall(b'{"error": {"desc": "no such"}}\n')
        with pytest.raises(HostError, match="qemu: stop: no such"):
            asked.ask("stop")
        asked.is_started()
        with pytest.raises(monitor.MachineGone):
            asked.ask("stop")


def test_a_full_disk_is_refused_before_it_kills_the_machine(tmp_path, monkeypatch):
    """Memory that is mapped from a file without space is SIGBUS, and copytree has a list of it."""
    monkeypatch.setattr(machine, "RESULT_BYTES", 1 << 62)
    kernel = kernels.find(str(bz_image(tmp_path / "bzImage")))
    boot = place.Boot(kernel, BootSettings(), b"", tmp_path / "root", b"", {})
    with pytest.raises(HostError, match="and a machine with its result needs") as error:
        boot.run(print)
    assert "TMPDIR=DIR" in error.value.hint
    monkeypatch.setattr(image, "_SPACE", 1 << 40)
    with pytest.raises(HostError, match="making a guest's root needs") as error:
        image._make(tmp_path / "x.img")
    assert "XDG_CACHE_HOME=DIR" in error.value.hint and [*tmp_path.glob("*.img")] == []


def test_a_program_of_this_machine_that_the_image_lacks_comes_with_its_libraries(monkeypatch):
    """It was taken for one that the image has, because it is below /usr, and not found inside."""
    env = Path(shutil.which("env")).resolve()
    monkeypatch.setattr(image, "files", dict)
    brought = virtual._files_of(experiment(parameters={"argv": ["env"]}))
    assert env in brought and any("libc.so" in path.name for path in brought)


def test_several_kernels_are_boots_with_equal_seeds(home):
    for release in ("6.1.0-44-amd64", "6.12.117+deb12-amd64"):
        cached(home, release, "CONFIG_HZ=250\nCONFIG_IOSCHED_BFQ=m\n")
    named = virtual.kernels_named("6.1, 6.12")
    assert list(named) == ["6.1", "6.12"]
    stopping = Stopping(blocks=6, sessions=2)
    asked = experiment(scheduler="bfq", stopping=stopping)
    asked = dataclasses.replace(asked, candidates=(*asked.candidates, Candidate("n", {})))
    plan = virtual_boots.planned(asked, named)
    assert (plan.boots, plan.experiment.stopping.blocks, plan.experiment.aa_arm) == (4, 3, False)
    seeds = [plan.experiment_of(number).seed for number in range(4)]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]
    assert [each.label for each in plan.candidates] == [
        "6.1 × c",
        "6.1 × n",
        "6.12 × c",
        "6.12 × n",
    ]
    one = virtual_boots.planned(asked, virtual.kernels_named("6.12"))
    assert (one.boots, one.candidates, one.label(one.kinds[0], "c")) == (2, asked.candidates, "c")
    assert one.experiment.aa_arm
    with pytest.raises(SpecError, match="same number of blocks"):
        budget = dataclasses.replace(stopping, budget_s=60.0)
        virtual_boots.planned(dataclasses.replace(asked, stopping=budget), named)
    with pytest.raises(SpecError, match="--explain"):
        virtual_boots.planned(dataclasses.replace(asked, explain=True), named)


@pytest.mark.parametrize("text", ["", ",", "6.1,6.1", "6.1,6.1.0"])
def test_a_kernel_is_named_once(home, text):
    cached(home, "6.1.0-44-amd64")
    with pytest.raises(SpecError, match=r"names no kernel|named twice"):
        virtual.kernels_named(text)


def test_a_quantum_that_two_kernels_round_differently_is_refused(home):
    cached(home, "6.1.0-44-amd64", "CONFIG_HZ=250\n")
    cached(home, "6.12.1-amd64", "CONFIG_HZ=1000\n")
    assert virtual.effective_slices("rr", [20.0], "6.1,6.12") == {20.0: 20.0}
    with pytest.raises(SpecError, match=r"10 ms is another one under each of 6\.1, 6\.12"):
        virtual.effective_slices("rr", [10.0], "6.1,6.12")


def test_the_usual_schedulers_are_those_of_all_kernels(home):
    cached(home, "6.1.0-44-amd64", "CONFIG_IOSCHED_BFQ=m\n")
    cached(home, "6.12.1-amd64", "CONFIG_IOSCHED_BFQ=m\nCONFIG_MQ_IOSCHED_KYBER=m\n")
    typed = {"kernel": "6.1,6.12", "candidates": ()}
    assert virtual.with_usual(typed)["schedulers"] == "none,bfq"


@pytest.mark.parametrize(
    ("model", "dilate", "least"),
    [("sata-ssd", 1, 17), ("sata-ssd", 16, 17), ("nvme", 1, 58), ("ncq2014", 20, 51)],
)
def test_a_device_that_answers_too_soon_is_refused_before_the_boot(tmp_path, model, dilate, least):
    kernel = kernels.Kernel("6.99", tmp_path / "bzImage", None, {})
    target = Target("emulated", model=model, size_bytes=1 << 30, dilate=dilate)
    with pytest.raises(SpecError, match="share") as error:
        virtual.check(experiment(target=target), kernel)
    assert f"--dilate {least}" in error.value.hint
    virtual.check(experiment(target=dataclasses.replace(target, dilate=least)), kernel)


def test_an_own_scheduler_is_brought_along_where_the_kernel_has_sched_ext(tmp_path):
    scheduler = tmp_path / "fifo.bpf.o"
    scheduler.write_bytes(b"\x7fELF")
    settings = {"policy": "ext", "ext": str(scheduler)}
    asked = dataclasses.replace(experiment("cpu"), candidates=(Candidate("c", settings),))
    assert virtual._files_of(asked) == [scheduler]
    with pytest.raises(SpecError, match="has no sched_ext"):
        virtual.check(asked, kernels.Kernel("6", tmp_path, None, {"CONFIG_IOSCHED_BFQ": "m"}))
    virtual.check(asked, kernels.Kernel("7", tmp_path, None, {"CONFIG_SCHED_CLASS_EXT": "y"}))


def test_what_is_used_is_held_against_others(tmp_path):
    with cache.held(tmp_path) as is_free:
        assert is_free
        with cache.held(tmp_path, wait=False) as is_free_too:
            assert not is_free_too
    with pytest.raises(BlockingIOError, match="another's"), cache.held(tmp_path):
        raise BlockingIOError("another's")


def test_progress_of_a_guest_has_both_times():
    seen, reports = [], []
    heed = virtual.heeding(Observer(seen.append, reports.append))
    fields = {"done": 0, "total": 4, "block": 1, "blocks": 2, "eta_s": 0.0, "last": None}
    heed(Message(progress={**fields, "text": "run 0/4", "repeated": ""}))
    heed(Message(progress={**fields, "done": 1, "text": "run 1/4, 3 s left", "repeated": "why"}))
    heed(Message(report="measured"))
    assert [each.text.split(" (")[0] for each in seen] == ["run 0/4", "run 1/4, 3 s left"]
    assert seen[1].text.endswith("left here") and seen[1].repeated == "why"
    assert reports == ["measured"]


def test_the_tree_of_an_archive_gets_the_facts_of_its_machine(tmp_path):
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "host.json").write_text('{"schema": 1}')
    with tarfile.open(tmp_path / "region", "w") as archive:
        archive.add(folder, "result")
    with (tmp_path / "region").open("ab") as region:
        region.truncate(1 << 22)
    place._unpack(tmp_path / "region", tmp_path / "out", {"digest": "d"})
    host = json.loads((tmp_path / "out/host.json").read_text())
    assert host == {"virtual": {"digest": "d"}, "schema": 1}
    (tmp_path / "empty").write_bytes(bytes(1 << 20))
    with pytest.raises(HostError, match="left no result"):
        place._unpack(tmp_path / "empty", tmp_path / "other", {})
    assert not (tmp_path / "other").exists()


class Stored:
    def __init__(self, path, lines, digest):
        path.mkdir()
        (path / "runs.jsonl").write_text("".join(lines))
        self.folder = type("F", (), {"path": path})
        self.record = type("R", (), {"host": {"virtual": {"digest": digest}}})


def test_identity_counts_the_runs_that_are_equal_to_the_bit(tmp_path):
    one = Stored(tmp_path / "1", ["a\n", "b\n"], "d")
    two, fewer = (
        Stored(tmp_path / lines, [*map("{}\n".format, lines)], "d") for lines in ("ab", "a")
    )
    assert virtual.identity(one, two) == ("identical, 2 of 2 runs", True)
    assert virtual.identity(fewer, one)[0].startswith("identical are 1 of 2 runs")
    text, is_same = virtual.identity(one, Stored(tmp_path / "3", ["a\n", "c\n"], "d"))
    assert not is_same and text.startswith("identical are 1 of 2 runs") and "a fault" in text
    text, is_same = virtual.identity(one, Stored(tmp_path / "4", ["a\n"], "e"))
    assert not is_same and "1 of 2" in text and "the machines differ" in text


def test_virtual_time_is_not_compared_with_a_machine():
    here, there = (type("R", (), {"host": host}) for host in ({}, {"virtual": {}}))
    require_same_clock(here, here)
    require_same_clock(there, there)
    for pair in ((here, there), (there, here)):
        with pytest.raises(SpecError, match="is in virtual time"):
            require_same_clock(*pair)


def test_the_loader_of_a_guest_knows_the_libraries_that_are_there_alone(tmp_path):
    """With those of this machine, an image was another one after each library installed here."""
    places = {image._merged(library) for library in image.libraries_of(["/bin/ls"])}
    for library in places:
        image._copy(library, tmp_path / str(library).lstrip("/"))
    (tmp_path / "etc").mkdir()
    image._index(tmp_path, {str(library.parent) for library in places})
    command = [shutil.which("ldconfig", path="/usr/sbin:/sbin"), "-p", "-r", tmp_path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    known = {Path(line.rpartition("=> ")[2]) for line in text.splitlines() if "=>" in line}
    assert known == places
    assert not (tmp_path / "var/cache").exists()
    assert Path("/etc/ld.so.cache") not in image.files()


def test_the_image_has_the_run_time_packages_and_no_extras():
    names = image._distributions()
    assert {"numpy", "click", "msgspec"} <= set(names)
    assert not {"pytest", "optuna", "mypy", "pandas", "scipy"} & set(names)


def test_commands_import_no_guest_until_they_need_it():
    code = "import schedlab.cli.kernel, sys; print('schedlab.guest.kernels' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert Path(initramfs.INIT).read_text().startswith("#!/bin/busybox sh")


def test_a_folder_of_virtual_time_is_not_resumed_here(tmp_path):
    folder = type("F", (), {"host": {"virtual": {"kernel": "6.12.1"}}, "path": tmp_path})
    with pytest.raises(SpecError, match="in virtual time") as error:
        check_kernel(folder)
    assert "--kernel 6.12.1" in error.value.hint


@pytest.mark.parametrize(
    ("ticks", "requested_ms", "effective_ms"),
    [
        ("250", 1, 4),
        ("250", 10, 12),
        ("250", 100, 100),
        ("300", 10, 10),
        ("100", 11, 20),
        ("", 3, 3),
    ],
)
def test_a_quantum_becomes_whole_ticks(tmp_path, ticks, requested_ms, effective_ms):
    options = {"CONFIG_HZ": ticks} if ticks else {}
    assert kernels.Kernel("6", tmp_path, None, options).quantum_ms(requested_ms) == effective_ms


def test_the_quanta_of_a_lab_are_those_of_the_kernel_on_its_only_cpu(home):
    cached(home, "6.12.1-test", "CONFIG_HZ=250\n")
    changes = labs.LabChanges(kernel="6.12")
    asked = labs.lab_experiment(labs.lab_named("rr-quantum"), "small", changes, probe=True)
    quanta = [each.settings["effective_ms"] for each in asked.candidates]
    assert quanta == [4, 12, 100]
    assert {tuple(work.parameters["cpus"]) for work in asked.workloads} == {(0,)}


def test_the_scheduler_of_the_guide_is_the_one_that_is_measured():
    guides = Path(__file__).resolve().parents[2] / "docs" / "guides"
    example = (guides / "examples" / "fifo.bpf.c").read_text()
    assert f"```c\n{example}```" in (guides / "sched-ext.md").read_text()
