"""Commands of which the right verdict is known before: what they take depends on the scheduler
that they find in a way that is written here, and the interval must hold it."""

import math
import mmap
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from schedlab.app.admit import admit
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.own_work import OwnWork, comparison_of
from schedlab.app.measure.files import experiment_of
from schedlab.app.measure.measure import SILENT, opened, run
from schedlab.errors import HostError, SpecError
from schedlab.host.safety.consent import consent_to
from schedlab.nouns import Stopping
from schedlab.run.admitted import Permission

pytestmark = pytest.mark.usefixtures("root_with_loop", "state")
# Seconds under each scheduler; none and kyber are alike.
TAKES = {"none": 0.30, "mq-deadline": 0.36, "kyber": 0.30, "bfq": 0.45}
PROGRAM = f"""
import os, random, re, time
name = os.environ["SCHEDLAB_DEVICE"].removeprefix("/dev/")
with open(f"/sys/block/{{name}}/queue/scheduler") as file:
    active = re.search(r"\\[(.+)\\]", file.read())[1]
noise = random.Random(os.environ["SCHEDLAB_SEED"] + active).gauss(1.0, 0.01)
seconds = {TAKES}[active] * noise
print(f"took {{seconds * 1e3:.3f}} ms")
time.sleep(SLEEP)
"""
PRINTED = "took:ms=stdout~took (?<value>[0-9.]+) (?<unit>ms)"


def compared(tmp_path, sleep, metric, blocks, schedulers=tuple(TAKES)):
    """The verdict on the program; it sleeps for the Python expression `sleep`."""
    offered = Path("/sys/block").joinpath(any_loop(), "queue/scheduler").read_text()
    if missing := [name for name in TAKES if name not in re.findall(r"[a-z-]+", offered)]:
        pytest.skip(f"this kernel has no {missing[0]}")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("SLEEP", sleep))
    asked = comparison_of(
        Place(scratch_bytes=32 << 20, scratch_directory=str(tmp_path)),
        OwnWork(["/usr/bin/python3", "-S", str(program)], metrics=[metric],
                parameters={"anyway": True, "cache": "as-is"}),
        schedulers=",".join(schedulers),
        stopping=Stopping(blocks=blocks),
        margin=0.03,
        seed=7,
    )  # fmt: skip
    answer = run(asked, tmp_path / "out").answer
    return answer, answer.cells["python3"]


def any_loop():
    return next(path.name for path in Path("/sys/block").glob("loop*"))


@pytest.mark.machine
def test_a_printed_number_that_follows_the_scheduler_gives_the_right_verdict(tmp_path):
    answer, cells = compared(tmp_path, "0.01", PRINTED, blocks=8)
    least = min(TAKES.values())
    for name, cell in cells.items():
        truth = math.log(TAKES[name] / least)
        assert cell.low <= truth + 1e-9, (name, cell)
        assert cell.up is None or truth <= cell.up, (name, cell)
    assert all(cells[name].low > 0 for name in ("mq-deadline", "bfq"))
    assert "aa-differs" not in {flag.kind for flag in answer.flags}
    assert answer.take in ("none", "kyber")


@pytest.mark.machine
def test_a_time_that_does_not_depend_on_the_scheduler_makes_no_winner(tmp_path):
    answer, cells = compared(tmp_path, "0.05", "elapsed", blocks=6)
    assert all(cell.low == 0 for cell in cells.values())
    assert answer.keeps


@pytest.mark.machine
@pytest.mark.alone
def test_an_elapsed_time_that_follows_the_scheduler_is_put_in_order(tmp_path):
    _, cells = compared(tmp_path, "seconds", "elapsed", blocks=6, schedulers=("none", "bfq"))
    ratio = math.exp(cells["bfq"].loss)
    assert cells["bfq"].low > 0, cells["bfq"]
    # Starting the program adds the same to both, so the ratio is a little nearer to 1.
    assert 1.2 < ratio < TAKES["bfq"] / TAKES["none"] + 0.05


def own(tmp_path, line, *, blocks=1, place=None, permission=None, **parameters):
    """The runs of a shell line under none and bfq."""
    place = place or Place(scratch_bytes=32 << 20, scratch_directory=str(tmp_path))
    asked = comparison_of(
        place,
        OwnWork([line], True, parameters=parameters),
        schedulers="none,bfq",
        stopping=Stopping(blocks=blocks),
        aa_arm=False,
        seed=1,
    )
    return run(asked, tmp_path / "out", permission=permission).folder.runs()


def test_warm_up_runs_every_candidate_unmeasured(tmp_path):
    log = tmp_path / "log"
    queue = "/sys/block/${SCHEDLAB_DEVICE#/dev/}/queue/scheduler"
    line = f'sed "s/.*\\[\\(.*\\)\\].*/\\1/" {queue} >> {log}'
    runs = own(tmp_path, line, warm_up=2, anyway=True)
    seen = log.read_text().split()
    assert len(runs) == 2
    assert seen[1:5] == ["none", "none", "bfq", "bfq"]  # after the rehearsal
    assert len(seen) == 1 + 4 + 2


@pytest.mark.sampled(2)
def test_a_file_system_is_made_again_as_often_as_asked(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("as copied\n")
    line = "ls | wc -l; cat tree/file; date > tree/file; date > new"
    for fresh, lines in (("run", [2, 2, 2, 2]), ("block", [2, 3, 2, 3])):
        where = tmp_path / fresh
        where.mkdir()
        runs = own(where, line, blocks=2, copy_in=str(tree), fresh=fresh, anyway=True, warm_up=1)
        names = [f"{r.block:04d}-{r.position:04d}-{r.attempt}.out" for r in runs]
        printed = [(where / "out/raw/output" / name).read_text().split("\n") for name in names]
        assert [int(text[0]) for text in printed] == lines  # lost+found, tree (and new)
        assert [text[1] == "as copied" for text in printed] == [n == 2 for n in lines]


def test_a_bare_device_is_worked_on_without_a_file_system(tmp_path):
    place = Place(scratch_bytes=32 << 20, scratch_directory=str(tmp_path), filesystem="none")
    line = "dd if=/dev/zero of=$SCHEDLAB_DEVICE bs=64k count=128 conv=notrunc 2>&1; ls -A | wc -l"
    runs = own(tmp_path, line, place=place, user="nobody")
    assert [each.status for each in runs] == ["ok", "ok"]
    assert all(8 << 20 <= each.metrics["written_bytes"] < 9 << 20 for each in runs)
    with pytest.raises(SpecError, match="no file system to copy to"):
        own(tmp_path, "true", place=place, fresh="run")


# By file system: a command that reads at least 24 MiB.
READING = {
    "none": "dd if=$SCHEDLAB_DEVICE bs=64k 2>&1",
    "ext4": "[ -e f ] || head -c 24M /dev/urandom > f; cat f | wc -c",
}


def read_mib(tmp_path, filesystem, cache, line=""):
    """What each run read from the device, and the checks that did not hold."""
    place = Place(scratch_bytes=32 << 20, scratch_directory=str(tmp_path), filesystem=filesystem)
    confine = "nothing" if line else "devices"  # a confined one sets nothing of the kernel
    line += READING[filesystem]
    runs = own(tmp_path, line, place=place, cache=cache, anyway=True, confine=confine)
    return [each.metrics["read_bytes"] / (1 << 20) for each in runs], [
        (each.status, [gate.gate for gate in each.gates if gate.fatal]) for each in runs
    ]


@pytest.mark.alone  # Whoever drops caches drops those of everybody.
@pytest.mark.parametrize("cache", ["cold", "drop"])
@pytest.mark.parametrize("filesystem", READING)
def test_a_command_reads_what_is_not_in_the_cache(tmp_path, filesystem, cache):
    read, checks = read_mib(tmp_path, filesystem, cache)
    assert min(read) >= 24 and max(read) < 33, read
    assert checks == [("ok", [])] * 2


@pytest.mark.machine
@pytest.mark.alone
@pytest.mark.parametrize("filesystem", READING)
def test_what_a_command_finds_in_the_cache_it_does_not_read(tmp_path, filesystem):
    read, checks = read_mib(tmp_path, filesystem, "warm")
    assert all(each <= 0.1 for each in read)
    assert checks == [("ok", [])] * 2


@pytest.mark.alone
@pytest.mark.parametrize(("cache", "repeated"), [("warm", ["not-warm"]), ("cold", [])])
def test_a_warm_run_is_repeated_when_the_cache_is_dropped_meanwhile(tmp_path, cache, repeated):
    """The command drops it itself in its first run after the rehearsal, as another could."""
    drop = "[ ! -e first ] || [ -e second ] || { touch second; echo 1 > /proc/sys/vm/drop_caches; }"
    read, checks = read_mib(tmp_path, "ext4", cache, f"{drop}; touch first; ")
    assert checks == [("discarded", [each]) for each in repeated] + [("ok", [])] * 2
    assert 24 <= read[0] < 33
    assert repeated == [] or all(each <= 0.1 for each in read[1:])


def test_a_device_is_given_to_a_command_only_with_a_consent(tmp_path, new_loop):
    device = new_loop()
    with pytest.raises(SpecError, match="nothing can stop a command from writing to it"):
        comparison_of(Place(device=device), OwnWork(["true"]))
    place = Place(device=device, destroy_data=device)
    line = "dd if=/dev/urandom of=$SCHEDLAB_DEVICE bs=64k count=64 conv=notrunc 2>&1"
    asked = comparison_of(place, OwnWork([line], True), schedulers="none,bfq")
    with pytest.raises(SpecError, match="you have not allowed"):
        admit(asked, Permission(trust=True))
    before = Path(f"/sys/block/{Path(device).name}/queue/scheduler").read_text()
    with consent_to(device, allow_unknown_data=True) as consent:
        runs = own(tmp_path, line, place=place, permission=Permission((consent,), trust=True))
    assert all(each.metrics["written_bytes"] >= 4 << 20 for each in runs)
    assert Path(f"/sys/block/{Path(device).name}/queue/scheduler").read_text() == before


def test_a_link_that_leads_elsewhere_after_the_consent_is_refused(tmp_path, new_loop):
    """Without a consent for it, the other device was taken as it was, and a command wrote to it."""
    agreed, other = new_loop(), new_loop()
    link = tmp_path / "link"
    link.symlink_to(agreed)
    place = Place(device=str(link), destroy_data=str(link))
    line = "dd if=/dev/zero of=$SCHEDLAB_DEVICE bs=64k count=64 conv=notrunc oflag=direct"
    asked = comparison_of(place, OwnWork([line], True), schedulers="none,bfq")
    with consent_to(link, allow_unknown_data=True) as consent:
        admitted = admit(asked, Permission((consent,), trust=True))
        link.unlink()
        link.symlink_to(other)
        with pytest.raises(HostError, match="leads to another device"), opened(admitted, SILENT):
            pass
        link.unlink()
        link.symlink_to(agreed)
        with opened(admitted, SILENT) as session:
            assert f"/dev/{session.target.device}" == agreed


def test_work_goes_where_a_link_led_when_it_was_checked(tmp_path, new_loop):
    """Its queue was switched, and the work went elsewhere."""
    link, places = tmp_path / "link", [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    document = {"candidates": ["as-is"], "aa_arm": False, "stopping": {"blocks": 1}}
    reads = {"label": "w", "kind": "random-reads", "metric": "iops"}
    command = {"label": "w", "kind": "command", "metric": "elapsed_s",
               "parameters": {"argv": ["true"]}}  # fmt: skip
    for kind, work, (checked, other) in (
        ("device", reads, (new_loop(), new_loop())), ("directory", reads, places),
        ("directory", command, places),
    ):  # fmt: skip
        link.unlink(missing_ok=True)
        link.symlink_to(checked)
        target = {"kind": kind, "path": str(link), "size_bytes": "1M"}
        asked = {**document, "target": target, "workloads": [work]}
        if kind == "device":
            del target["size_bytes"]
        admitted = admit(experiment_of(asked, "e.toml"), Permission())
        link.unlink()
        link.symlink_to(other)
        with opened(admitted, SILENT) as session:
            at = session.target.directory or Path(f"/dev/{session.target.device}")
            assert Path(checked) in (at, at.parent)
        assert not list(places[1].iterdir())


@pytest.mark.machine
def test_reads_of_another_program_are_noticed(tmp_path, mounted_loop):
    device, where = mounted_loop
    # The command says when others may read, so that the disk is quiet before it starts.
    stop, flag = threading.Event(), tmp_path / "flag"

    def read():
        handle = os.open(device, os.O_RDONLY)
        while not stop.wait(0.01):
            if flag.exists():
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                for part in range(8):
                    os.pread(handle, 1 << 20, part << 20)
        os.close(handle)

    reader = threading.Thread(target=read)
    place = Place(directory=str(where), switch=(Path(device).name,))
    setup = "dd if=/dev/urandom of=big bs=1M count=8 2>/dev/null"
    line = f"dd if=big of=/dev/null bs=1M 2>/dev/null; touch {flag}; sleep 0.5; rm -f {flag}"
    try:
        quiet = own(tmp_path / "quiet", line, place=place, setup=setup)
        reader.start()
        disturbed = own(tmp_path / "disturbed", line, place=place, setup=setup)
    finally:
        stop.set()
        if reader.ident:
            reader.join()
    found_in = [{gate.gate for each in runs for gate in each.gates} for runs in (quiet, disturbed)]
    assert ["foreign-io" in names for names in found_in] == [False, True]


def test_what_a_named_server_reads_for_the_command_is_no_foreign_io(tmp_path, mounted_loop):
    """Its work is done by a child of its own that ends within the run, as that of a database."""
    (device, where), flag = mounted_loop, tmp_path / "flag"
    name = f"pages{os.getpid()}"  # of this test alone
    program = tmp_path / name
    program.write_text(
        f"#!/bin/sh\nwhile sleep 0.01; do [ -e {flag} ] || continue\n"
        f"dd if={device} of=/dev/null bs=1M count=8 iflag=direct; rm {flag}; done\n"
    )
    program.chmod(0o755)
    place = Place(directory=str(where), switch=(Path(device).name,))
    line = f"touch {flag}; while [ -e {flag} ]; do sleep 0.01; done"
    server = subprocess.Popen([program], stderr=subprocess.DEVNULL)
    try:
        unnamed = own(tmp_path / "unnamed", line, place=place)
        named = own(tmp_path / "named", line, place=place, servers=(name,))
    finally:
        server.kill()
        server.wait()
    found_in = [{gate.gate for each in runs for gate in each.gates} for runs in (unnamed, named)]
    assert ["foreign-io" in names for names in found_in] == [True, False]
    with pytest.raises(SpecError, match=f"no process of the server '{name}' runs"):
        own(tmp_path / "gone", "true", place=place, servers=(name,))


@pytest.mark.machine
def test_what_a_server_read_before_a_run_hides_no_reads_of_others(tmp_path, mounted_loop):
    (device, where), flag = mounted_loop, tmp_path / "flag"
    stop = threading.Event()

    def read():
        """8 MiB in every run, when its command says that it has begun."""
        handle, seen = os.open(device, os.O_RDONLY | os.O_DIRECT), ""
        block = mmap.mmap(-1, 8 << 20)
        while not stop.wait(0.01):
            if flag.exists() and (now := flag.read_text()) and now != seen:
                seen = now
                os.preadv(handle, [block], 0)
        os.close(handle)

    reader = threading.Thread(target=read)
    place = Place(directory=str(where), switch=(Path(device).name,))
    serve = "(dd if=big of=/dev/null bs=1M iflag=direct; sleep 100) >/dev/null 2>&1 </dev/null & "
    setup = f"dd if=/dev/urandom of=big bs=1M count=32 2>/dev/null; sync; {serve} sleep 0.5"
    line = (
        f"dd if=big of=/dev/null bs=1M count=4 2>/dev/null; echo $SCHEDLAB_RUN >{flag}; sleep 0.3"
    )
    reader.start()
    try:
        runs = own(tmp_path / "own", line, place=place, setup=setup)
    finally:
        stop.set()
        reader.join()
    assert runs and all("foreign-io" in {gate.gate for gate in each.gates} for each in runs)


@pytest.mark.machine
def test_no_run_pays_for_the_dirty_pages_of_another(tmp_path):
    # 300 MB through the page cache under bfq, nothing under none: the time of none is its own.
    line = (
        'read -r s < "/sys/block/${SCHEDLAB_DEVICE#/dev/}/queue/scheduler"; case "$s" in '
        '*"[bfq]"*) dd if=/dev/zero of=f bs=1M count=300 2>/dev/null;; *) sleep 0.2;; esac'
    )
    place = Place(scratch_bytes=512 << 20, scratch_directory=str(tmp_path))
    runs = own(tmp_path, line, blocks=3, place=place, sync="outside", anyway=True)
    written = {r.candidate: r.metrics["written_bytes"] for r in runs if r.status == "ok"}
    assert written["bfq"] >= 300 << 20
    assert written["none"] < 1 << 20
    assert all(r.properties["dirty_peak_bytes"] > 0 for r in runs if r.candidate == "bfq")
