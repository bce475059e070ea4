"""Workloads that start programs: archives, libraries, start-up beside a load, copies, errors."""

import gzip
import hashlib
import os
import random
import resource
import shlex
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import refusals
from load_engine import MIB, READ, WRITE, group, side, work

from schedlab import _core
from schedlab.errors import HostError, SpecError
from schedlab.kinds import archive_extraction, source_tree, startup, typed
from schedlab.kinds.archive_extraction import ArchiveExtraction
from schedlab.kinds.brought import program_path, sha256_of
from schedlab.kinds.command import Command, tree_bytes
from schedlab.kinds.cpu_command import CpuCommand
from schedlab.kinds.launching import replaced, sha256_of_program
from schedlab.kinds.live_load import LiveLoad
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.kinds.startup import Program, Startup, beside, shared_libraries
from schedlab.nouns import Workload


def target_in(directory):
    """A target of 80 MiB with a file system."""
    where = Path("/t")
    return ResolvedTarget(where, 80 * MIB, None, 512, True, where, 80 * MIB, directory)


@pytest.fixture
def only_program(tmp_path, monkeypatch):
    """Makes a shell script the only program that is found; without a line there is none."""
    where = tmp_path / "bin"
    where.mkdir()
    monkeypatch.setenv("PATH", str(where))

    def make(name, line):
        (where / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{line}\n")
        (where / name).chmod(0o755)

    return make


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("size_bytes", "seed", "files", "sha256"),
    [
        (300_000, 1, 31, "ef4e5bf2f070986742e9b955b6cba11199aa8134b7ca8bb1b638792d8549efd9"),
        (300_000, 2, 23, "61f43a069b89f3a38f8f766d9f6e0c1f3b4f7141391df9f48976e0071ad1547f"),
        (1, 1, 1, "cad96448684a3bebac929d59a2b5f2bc67db9a0bf59c46647642eeb6dc74256e"),
    ],
)
def test_the_same_seed_gives_the_same_archive_everywhere(tmp_path, size_bytes, seed, files, sha256):
    """The digests were noted once: results of two machines may be compared."""
    path = tmp_path / "tree.tar"
    assert source_tree.write_archive(path, size_bytes, "none", seed) == files
    assert digest(path) == sha256
    with tarfile.open(path) as tar:
        assert sum(each.size for each in tar.getmembers()) == size_bytes
    assert [each.name for each in tmp_path.iterdir()] == ["tree.tar"]


def test_an_archive_has_files_and_sizes_like_a_source_tree(tmp_path, monkeypatch):
    """Median 5 KiB and mean 13 KiB of about 900 files; the bytes themselves do not matter here."""
    monkeypatch.setattr(source_tree, "_text", lambda rng, words, size: bytes(size))
    source_tree.write_archive(tmp_path / "tree.tar", 12_000_000, "none", 7)
    with tarfile.open(tmp_path / "tree.tar") as tar:
        members = tar.getmembers()
    sizes = [each.size for each in members]
    assert sum(sizes) == 12_000_000
    assert statistics.median(sizes) == pytest.approx(5000, rel=0.15)
    assert statistics.mean(sizes) == pytest.approx(13_100, rel=0.15)
    names = [each.name for each in members]
    assert [names[n] for n in (0, 15, 16, 511, 512, 528)] == [
        "tree/00/00000/file000000.c", "tree/00/00000/file000015.c", "tree/01/00001/file000016.c",
        "tree/31/00031/file000511.c", "tree/00/00032/file000512.c", "tree/01/00033/file000528.c",
    ]  # fmt: skip
    assert {(each.mtime, each.mode) for each in members} == {(1_600_000_000, 0o644)}


def test_a_compressed_archive_holds_the_same_tree(tmp_path):
    for compressor in ("none", "gzip"):
        kind = ArchiveExtraction(size_bytes=300_000, decompressor=compressor)
        kind.prepare(target_in(tmp_path), "w")
    plain, packed = (tmp_path / f"tree-300000.tar.{name}" for name in ("none", "gzip"))
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert digest(plain).startswith("ef4e5bf2f070")
    assert 2 < plain.stat().st_size / packed.stat().st_size < 5  # about as source code does
    before = packed.stat().st_mtime_ns
    kind.prepare(target_in(tmp_path), "w")
    assert packed.stat().st_mtime_ns == before


def test_every_archive_has_a_file_of_its_own_on_the_target(tmp_path):
    sources = [tmp_path / name / "linux.tar" for name in "ab"]
    for source in sources:
        source.parent.mkdir()
        source.write_text(str(source))
    kinds = [ArchiveExtraction(size_bytes=size) for size in (4096, 8192)]
    kinds += [ArchiveExtraction(archive=str(source)) for source in sources]
    place = tmp_path / "target"
    place.mkdir()
    for kind in kinds:
        kind.prepare(target_in(place), "w")
    assert len({digest(copy) for copy in place.iterdir()}) == 4


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (None, "gzip is not installed", "apt install gzip"),
        ("cat >/dev/null; exit 3", "gzip exited 3", "is the disk full?"),
        ("exit 4", "gzip exited 4", "is the disk full?"),  # it does not read to the end
    ],
)
def test_a_compressor_that_fails_leaves_no_archive(tmp_path, only_program, line, message, hint):
    if line:
        only_program("gzip", line)
    with pytest.raises(HostError) as error:
        source_tree.write_archive(tmp_path / "tree.tar", 300_000, "gzip", 1)
    assert (str(error.value), error.value.hint) == (message, hint)
    assert [each.name for each in tmp_path.iterdir()] == ["bin"]
    with pytest.raises(SpecError, match="decompressor 'rar' is not known") as unknown:
        source_tree.write_archive(tmp_path / "tree.tar", 1, "rar", 1)
    assert unknown.value.hint == "use none, gzip, xz, zstd"


def test_an_extraction_takes_the_cpu_time_of_tar(tmp_path):
    source_tree.write_archive(tmp_path / "mine.tar.gz", 300_000, "gzip", 1)
    place = tmp_path / "target"
    place.mkdir()
    kind = ArchiveExtraction(archive=str(tmp_path / "mine.tar.gz"), size_bytes=4096)
    assert kind.programs() == (f"tar --extract --file {tmp_path}/mine.tar.gz",)
    assert ArchiveExtraction().programs() == ()
    kind.prepare(target_in(place), "w")
    (copy,) = place.iterdir()
    assert digest(copy) == digest(tmp_path / "mine.tar.gz")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    outcome = kind.measure(target_in(place), "w", seed=1)
    seconds = time.monotonic() - start
    after, metrics = resource.getrusage(resource.RUSAGE_CHILDREN), outcome.metrics
    assert metrics["user_s"] == pytest.approx(after.ru_utime - before.ru_utime, abs=1e-5)
    assert metrics["system_s"] == pytest.approx(after.ru_stime - before.ru_stime, abs=1e-5)
    assert metrics["cpu_s"] == pytest.approx(metrics["user_s"] + metrics["system_s"], abs=1e-9)
    assert 0 < metrics["elapsed_s"] <= seconds
    share = metrics["cpu_s"] / metrics["elapsed_s"]
    assert outcome.properties == {"cpu_share": pytest.approx(share), "command": "tar --extract"}
    assert [*place.iterdir()] == [copy]
    assert set(metrics) == set(kind.metrics)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("echo first >&2; echo second >&2; exit 2", "first"),
        ("exit 3", "tar exited 3"),
        ("kill -KILL $$", "tar exited -9"),
        ("exec 2>&-; sleep 0.2; exit 5", "tar exited 5"),
    ],
)
def test_a_tar_that_fails_is_named_with_its_first_line(tmp_path, only_program, line, text):
    only_program("tar", line)
    (tmp_path / f"tree-{64 * MIB}.tar.none").write_bytes(b"")
    outcome = ArchiveExtraction().measure(target_in(tmp_path), "w", seed=1)
    assert [(gate.gate, gate.detail) for gate in outcome.gates] == [("command-failed", text)]


def test_an_archive_that_cannot_be_put_there(tmp_path, only_program):
    (tmp_path / "a.tar").write_bytes(b"")
    kind = ArchiveExtraction(archive=str(tmp_path / "none.tar"))
    with pytest.raises(SpecError, match=r"none.tar: No such file or directory$") as error:
        kind.prepare(target_in(tmp_path), "w")
    assert error.value.hint == "name a readable tar archive"
    with pytest.raises(SpecError, match=r"^w: needs a file system$"):
        kind.prepare(target_in(None), "w")
    partial = tmp_path / f".tree-{64 * MIB}.tar.none.partial"
    for aim in ("/no/such/file", partial.name):  # not a question of room
        partial.symlink_to(aim)
        with pytest.raises(OSError, match=r"No such file|Too many levels of symbolic links"):
            ArchiveExtraction().prepare(target_in(tmp_path), "w")
        assert not partial.is_symlink()
    with pytest.raises(HostError, match=r"^tar is not installed$") as missing:
        ArchiveExtraction(archive="a.tar").measure(target_in(tmp_path), "w", seed=1)
    assert missing.value.hint == "apt install tar"
    assert not (tmp_path / "extracted").exists()


def test_the_files_of_a_program_are_like_the_libraries_of_a_desktop(tmp_path):
    names = startup._write_files(tmp_path, 16 * MIB)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert (len(names), sum(sizes)) == (68, 16 * MIB)
    assert statistics.median(sizes) == pytest.approx(128 * 1024, rel=0.1)
    assert sorted(names) == [f"file{n:03d}" for n in range(68)]
    assert names[:5] == ["file045", "file034", "file029", "file051", "file014"]
    whole = hashlib.sha256(b"".join((tmp_path / name).read_bytes() for name in names))
    assert whole.hexdigest().startswith("196af152421b2a1a")


@pytest.mark.parametrize(
    ("drawn", "total", "sizes"),
    [
        ([5000.9, 9e9, 1.0, 9e9], 4_210_000, [5000, 4_194_304, 4096, 6600]),
        ([9e9], 1, [1]),
        ([4097.0, 4095.0], 8193, [4097, 4096]),
    ],
)
def test_a_file_of_a_program_has_4_kib_to_4_mib_and_the_last_one_the_rest(
    tmp_path, monkeypatch, drawn, total, sizes
):
    left = iter(drawn)
    monkeypatch.setattr(random.Random, "lognormvariate", lambda self, mu, sigma: next(left))
    startup._write_files(tmp_path, total)
    assert [path.stat().st_size for path in sorted(tmp_path.iterdir())] == sizes


def test_the_libraries_of_a_program_are_those_that_ldd_finds(only_program):
    only_program(
        "ldd",
        "echo 'linux-vdso.so.1 (0x7ffc)'; echo 'libx.so.1 => /lib/libx.so.1 (0x7f01)';"
        "echo 'libno.so => not found'; echo '/lib64/ld-linux.so.2 (0x7f02)'",
    )
    assert shared_libraries("/bin/sh") == [Path("/lib/libx.so.1")]
    only_program("ldd", "echo 'not a dynamic executable'; exit 1")
    assert shared_libraries("script") == []


def test_a_program_is_put_onto_the_target_once_with_its_libraries(tmp_path):
    kind = Startup(program="sh -c 'echo x; exit 3'")
    kind.prepare(target_in(tmp_path), "w")
    (home,) = tmp_path.iterdir()
    assert home.name == "program-605811ca"  # the CRC-32 of the line
    assert digest(home / "program") == digest(Path("/bin/sh").resolve())
    assert "libc.so.6" in {path.name for path in (home / "lib").iterdir()}
    (home / "mark").touch()
    kind.prepare(target_in(tmp_path), "w")
    assert (home / "mark").exists()
    assert kind.programs() == ("sh -c 'echo x; exit 3'",)
    assert Startup().programs() == ()
    outcome = kind.measure(target_in(tmp_path), "w", seed=1)
    (gate,) = outcome.gates
    assert (gate.gate, gate.detail, gate.fatal) == ("command-failed", "the program exited 3", True)
    assert outcome.properties == {"command": str(home / "program"), "errors": 0}
    assert set(outcome.metrics) == {"startup_s", "cpu_s"}


def test_the_program_that_comes_with_it_reads_all_its_files(tmp_path):
    kind = Startup(program_bytes=3 * MIB)
    kind.prepare(target_in(tmp_path), "w")
    (home,) = tmp_path.iterdir()
    files = sorted(home.glob("file*"))
    assert sum(path.stat().st_size for path in files) == 3 * MIB
    arguments = (home / "arguments.json").read_text()
    assert all(f'"{path}"' in arguments for path in files)
    assert kind._executable() is not None
    outcome = kind.measure(target_in(tmp_path), "w", seed=1)
    assert (outcome.gates, outcome.bounds) == ((), {})
    with pytest.raises(SpecError, match=r"^w: needs a file system$"):
        kind.prepare(target_in(None), "w")
    with pytest.raises(SpecError, match=r"^w: program 'no-such' is not found$"):
        Startup(program="no-such x").prepare(target_in(tmp_path), "w")


def test_a_program_at_its_limit_counts_with_that_time(tmp_path):
    kind = Startup(program="sleep 60", limit_seconds=0.2)
    kind.prepare(target_in(tmp_path), "w")
    outcome = kind.measure(target_in(tmp_path), "w", seed=1)
    (gate,) = outcome.gates
    assert (gate.gate, gate.fatal) == ("limit", False)
    assert gate.detail == "the program was still running after 0.2 s and counts with that time"
    assert outcome.bounds == {"startup_s": "at-least"}
    assert 0.2 <= outcome.metrics["startup_s"] < 50


def test_the_load_beside_a_program(engine, tmp_path):
    kind = Startup(program="sh -c 'echo wrong >&2; exit 1'", readers=3, writers=2, ramp_seconds=0.1,
                   background_record_bytes=512, background_depth=5, limit_seconds=50)  # fmt: skip
    kind.prepare(target_in(tmp_path), "w")
    engine.answers(
        group("readers", reads=side(1, 3000, errors=1), writes=side(1, 1, errors=2)),
        group("writers", writes=side(1, 300, errors=4), elapsed_ns=1_500_000_000),
    )
    outcome = kind.measure(target_in(tmp_path), "w", seed=5)
    order = {"kind": "random", "replacement": True}
    common = {"path": "/t", "engine": "io_uring", "direct": True}
    assert engine.jobs[0]["groups"] == [
        {"name": "readers", "workload": work(order, READ, 512, 80 * MIB, 5, 5), "workers": 3,
         **common},
        {"name": "writers", "workload": work(order, WRITE, 512, 80 * MIB, 5, 6), "workers": 2,
         **common},
    ]  # fmt: skip
    assert engine.window == (50.1, 0.05, False, None)
    assert outcome.metrics["read_bytes_per_s"] == pytest.approx(1500, rel=1e-12)
    assert outcome.metrics["write_bytes_per_s"] == pytest.approx(200, rel=1e-12)
    assert outcome.properties["errors"] == 7
    assert [gate.detail for gate in outcome.gates] == ["wrong"]
    assert Startup(readers=1).background(target_in(None), 1)[0]["name"] == "readers"
    assert Startup().background(target_in(None), 1) == []


def test_a_program_beside_a_load_starts_after_the_ramp(engine):
    engine.answers(group("readers", elapsed_ns=0))
    start = time.monotonic()
    started, loads = beside([{"name": "readers"}], Program(["/bin/true"], {}, 9.0), 0.2)
    assert time.monotonic() - start >= 0.2
    assert (started.status, list(loads)) == (0, ["readers"])
    kind = Startup(program="true", readers=1, ramp_seconds=0.0)
    assert kind.estimate_s() == 1.0


def test_a_load_that_ends_before_the_program_begins_is_an_error(monkeypatch):
    engine = '{"interrupted": false, "groups": []}'
    monkeypatch.setattr(_core, "run_io_job", lambda *_: engine)
    with pytest.raises(HostError, match="the load ended before the program began") as error:
        beside([], Program(["/bin/true"], {}, 9.0), 30.0)
    assert error.value.hint == "look at `dmesg` for I/O errors"


def test_a_program_that_is_killed_or_missing():
    program = Program(["/bin/sleep", "60"], {}, 0.1)
    program.kill()  # nothing runs yet
    assert program.run().status is None
    program.kill()  # nothing runs any more
    assert Program(["/bin/sh", "-c", "kill -9 $$"], {}, 9.0).run().status == -9
    quiet = "exec 2>&-; /bin/sleep 0.2; exit 5"
    assert Program(["/bin/sh", "-c", quiet], {}, 9.0).run().status == 5
    assert Program(["/no/such"], {}, 9.0).run() == startup.TimedRun(
        0.0, 0.0, 0.0, 126, "/no/such: No such file or directory"
    )


def test_of_what_a_program_complains_the_beginning_is_kept():
    """It is not killed for saying more than that, nor for more than a pipe holds."""
    line = 'echo " $FOO " >&2; exec head -c 200000 /dev/zero >&2'
    loud = Program(["/bin/sh", "-c", line], {"FOO": "bar"}, 60.0).run()
    assert (loud.message[:3], len(loud.message), loud.status) == ("bar", 4095, 0)


@pytest.mark.parametrize(
    ("ended_s", "elapsed_s", "status"), [(7.5, 4.5, 0), (11.99, 8.99, 0), (12.0, 9.0, None)]
)
def test_the_time_of_a_program_is_from_its_start_to_its_end(
    monkeypatch, ended_s, elapsed_s, status
):
    """The clock stands at 3 s in the beginning; the limit of 9 s is too late itself."""
    times = iter((3.0, ended_s))
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(startup, "time", clock)
    result = Program(["/bin/true"], {}, 9.0).run()
    assert result.elapsed_s == pytest.approx(elapsed_s)
    assert result.status == status


def test_the_time_of_an_extraction_includes_writing_back(monkeypatch, tmp_path):
    times = iter((3.0, 7.5))
    synced = []
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(archive_extraction, "time", clock)
    monkeypatch.setattr(archive_extraction, "_sync_filesystem", synced.append)
    assert archive_extraction.timed(["true"], tmp_path).elapsed_s == 4.5
    usage = SimpleNamespace(total=9 << 20, used=4 << 20, free=5 << 20)
    monkeypatch.setattr(archive_extraction.shutil, "disk_usage", lambda path: usage)
    assert "has 5 MiB free" in str(archive_extraction._too_large("w", "it", tmp_path))
    assert len(synced) == 1


def test_the_cpu_time_of_a_program_is_user_and_system_time():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = Program(["/bin/sh", "-c", "head -c 20000000 /dev/urandom | md5sum"],
                     {"PATH": "/usr/bin:/bin"}, 60.0).run()  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(after[:2]) - sum(before[:2])
    assert result.cpu_s == pytest.approx(used, abs=1e-5)
    assert result.cpu_s > 0


def test_a_copied_tree_is_told_by_names_contents_and_links(tmp_path):
    file = tmp_path / "one"
    file.write_bytes(b"abc")
    inner = hashlib.sha256(b"abc").digest()
    assert sha256_of(file) == hashlib.sha256(b".\0" + inner).hexdigest()
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "b").write_bytes(b"abc")
    (tree / "a").symlink_to("deep/b")
    expected = b"a\0deep/b" + b"deep\0" + b"deep/b\0" + inner
    assert sha256_of(tree) == hashlib.sha256(expected).hexdigest()
    (tree / "c").write_bytes(b"12345")
    assert (tree_bytes(file), tree_bytes(tree)) == (3, 8)


def test_what_is_copied_fits_into_nine_tenths_of_the_target(tmp_path):
    (tmp_path / "file").write_bytes(bytes(900))
    kind = Command(argv=("true",), copy_in=str(tmp_path / "file"))
    kind.check_room("w", 1000)
    with pytest.raises(SpecError, match=r"^w: .*file has 900 B, the target 999 B$") as error:
        kind.check_room("w", 999)
    assert error.value.hint == "use a larger --scratch"
    Command(argv=("true",)).check_room("w", 0)


def test_all_that_a_command_runs_is_said(tmp_path):
    kind = Command(shell="a | b", user="nobody", setup="s", prepare_run="p", conclude_run="c",
                   cleanup="e", copy_in="/tree")  # fmt: skip
    assert kind.programs() == (
        "a | b as nobody", "s as nobody (setup)", "p as nobody (prepare)",
        "c as nobody (conclude)", "e as nobody (cleanup)", "copy /tree to the target",
    )  # fmt: skip
    plain = Command(argv=("echo", "a b"), cleanup="e")
    assert plain.programs() == ("echo 'a b'", "e (cleanup)")
    assert (plain.phases(), plain.command()) == ({"cleanup": "e"}, ("echo", "a b"))
    assert kind.command() == ("/bin/sh", "-c", "a | b")
    assert not CpuCommand(argv=("true",)).writes() and plain.writes()


def test_all_that_the_user_brings_is_known(tmp_path, monkeypatch):
    """Programs behind others, scripts, phases, input, copies; no data, and nothing that is not."""
    for name, text in (("own", "x"), ("script.py", "1"), ("marked", "#!/bin/sh"), ("data", "1")):
        (tmp_path / name).write_text(text)
    (tmp_path / "own").chmod(0o755)
    own, script, marked, data = (f"{tmp_path}/{n}" for n in ("own", "script.py", "marked", "data"))
    monkeypatch.setenv("PATH", "/usr/bin")
    for argv, expected in (
        (["taskset", "-c", "0", own, data], ["/usr/bin/taskset", own]),
        (["env", f"A={own}", marked, "/dev/null", "/"], ["/usr/bin/env", marked]),
        ([sys.executable, "-O", script, data, own], [sys.executable, script, own]),
        (["sh", data, script], ["/usr/bin/sh", data]),
        (["cat", script, data], ["/usr/bin/cat"]),
        (["@dir@/x", own], [own]),
        (["no-such-program", own], []),
    ):
        assert list(Command(argv=tuple(argv)).brought()) == expected, argv
        assert list(LiveLoad(command=tuple(argv)).brought()) == expected
        if argv[0] != "@dir@/x":
            assert list(Command(shell=shlex.join(argv)).brought()) == expected
            assert list(Startup(program=shlex.join(argv)).brought()) == expected
    line = f"{own};{marked}>{data} | '{script}' && (/no/such)"
    kind = Command(argv=("true",), setup=line, cleanup="unclosed '", stdin=data, copy_in=script)
    assert kind.brought() == ("/usr/bin/true", own, marked, data, script)
    assert Command(shell="").brought() == Startup().brought() == LiveLoad().brought() == ()
    there = Command(argv=("own",), environment={"PATH": str(tmp_path)})
    assert there.brought() == (own,)


def test_the_environment_of_a_command(monkeypatch):
    monkeypatch.setenv("MINE", "kept")
    monkeypatch.delenv("PATH")
    usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = Command(argv=("true",), environment={"GIVEN": "1", "LC_ALL": "de_DE"}, user="root")
    env = own.environment_of({"SCHEDLAB_RUN": "7", "GIVEN": "2"})
    assert {"MINE": "kept", "PATH": usual, "GIVEN": "2", "LC_ALL": "de_DE", "SCHEDLAB_RUN": "7",
            "HOME": "/root", "USER": "root", "LOGNAME": "root"}.items() <= env.items()  # fmt: skip
    bare = Command(argv=("true",), clear_environment=True).environment_of({})
    assert bare == {"PATH": usual, "LC_ALL": "C.UTF-8"}
    facts = Command(argv=("true",), clear_environment=True).environment_facts()
    assert facts == {"names": ["LC_ALL", "PATH"], "values": bare}


def test_programs_and_tokens(tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.write_bytes(b"#!/bin/sh\n")
    own.chmod(0o755)
    assert program_path("@dir@/program") == "@dir@/program"
    assert program_path("own", str(tmp_path)) == str(own)
    assert program_path("own") is None
    assert sha256_of_program([str(own), "true"]) == hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert sha256_of_program(["@dir@/x"]) == sha256_of_program([]) == ""
    assert sha256_of_program(["no-such-program"]) == ""
    assert replaced("@run@ of @dir@: @run@ @no@", {"run": 7, "dir": "/d"}) == "7 of /d: 7 @no@"
    monkeypatch.delenv("PATH")
    assert program_path("sh") == "/usr/bin/sh"


NO_COMMANDS = (
    {"argv": ["own"]}, {"argv": ["a b", "c"]}, {"argv": ["a|b"]},
    {"shell": "true", "extract": ["a:s=stdout~x", "a:s=stdout@b"]},
    {"shell": "true", "extract": [f"{name}:s=stdout~x" for name in "abab"]},
    {"shell": "true", "extract": ["a:s=stdout~(x)(?<unit>y)"]},
    {"shell": "true", "extract": ["a:s=stdout~["]}, {"shell": "true", "user": "no-such-user"}, {},
    {"argv": ["true"], "shell": "true"}, {"argv": ["/etc/passwd"]},
    {"shell": "true", "stdin": "/no/such/file"}, {"shell": "true", "copy_in": "/no/such/tree"},
)  # fmt: skip


def test_commands_that_cannot_be_started(golden):
    def check(parameters):
        given = {**parameters, "environment": {"PATH": "/nowhere"}}
        typed(Workload("w", "command", "", given)).check("w")

    golden("refusals/commands.txt", refusals(check, [(each,) for each in NO_COMMANDS]))


def test_only_root_runs_a_command_as_another_user(monkeypatch):
    kind = Command(argv=("true",), user="root")
    for somebody in (1, 2):
        monkeypatch.setattr(os, "geteuid", lambda uid=somebody: uid)
        with pytest.raises(HostError, match="w: only root can run as root") as error:
            kind.check("w")
        assert error.value.hint.endswith("without root: omit --user")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    kind.check("w")
    Command(argv=("true",), user="nobody").check("w")


def test_another_program_or_tree_is_reported_only_where_its_digest_is_known(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"abc")
    program.chmod(0o755)
    own, tree = hashlib.sha256(b"abc").hexdigest(), sha256_of(program)
    for own_digest, tree_digest, notes in (
        ("", "", []), (own, tree, []), (own[::-1], tree, [f"w: {program} is not the program"]),
        (own, own, ["differs from the one"]),
    ):  # fmt: skip
        kind = Command(argv=(str(program), "x"), program_sha256=own_digest, copy_in=str(program),
                       copy_in_sha256=tree_digest)  # fmt: skip
        assert len(kind.notes("w")) == len(notes)
        assert all(text in note for text, note in zip(notes, kind.notes("w"), strict=True))


def test_commands_that_can_be_started(tmp_path):
    own = tmp_path / "own"
    own.write_bytes(b"#!/bin/sh\n")
    own.chmod(0o755)
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    for parameters in (
        {"argv": ["own"], "environment": {"PATH": str(tmp_path)}},
        {"argv": ["sh", "-c", "a | b"]}, {"argv": ["@dir@/program x"]},
        {"shell": "true", "user": user, "stdin": str(own)},
        {"shell": "true", "extract": ["a:s=stdout~x", "b:s=stdout@b", "c:s=stdout~(x)",
                                      "d:s=stdout~(x)(?<value>y)"]},
    ):  # fmt: skip
        kind = typed(Workload("w", "command", "", parameters))
        kind.check("w")
    assert list(kind.own_metrics()) == ["a", "b", "c", "d"]
    assert os.environ.get("PATH")
