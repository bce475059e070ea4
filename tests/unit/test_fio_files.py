"""fio jobs and files: those of the user in the directory, and those that a job includes."""

import shutil

import pytest

from schedlab.app.compare.own_work import OwnWork, workload_of
from schedlab.app.targets import resolve
from schedlab.errors import SpecError
from schedlab.kinds.command import Command
from schedlab.kinds.fio_job import FioJob
from schedlab.nouns import Candidate, Experiment, Target
from schedlab.run.admitted import Permission
from schedlab.store.files import is_made_here, mark_made

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
HAS_MARKS = "this file system keeps no extended attributes"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / "sub").mkdir(parents=True)
    return tmp_path / "home"


def kind_of(tmp_path, text, **more):
    (tmp_path / "job.fio").write_text(text)
    return FioJob(job_file=str(tmp_path / "job.fio"), **more)


def check(kind, home):
    """At the door, as `--directory` does."""
    target = Target("directory", path=str(home), size_bytes=1 << 20)
    as_is = Candidate("as-is", {"scheduler": "as-is"})
    experiment = Experiment("t", "io", target, (as_is,), (), "as-is", 1)
    return resolve(experiment, [kind], Permission())


WRITES = "[j]\nrw=write\nsize=64k\n"
READS = "[j]\nrw=read\nsize=1k\n"
# (the job, a file that is there with 4 KiB) that is changed.
CHANGED = {
    "named": (WRITES + "filename=thesis.txt", "thesis.txt"),
    "second of two": (WRITES + "filename=a:thesis.txt", "thesis.txt"),
    "of the second job": (WRITES + "filename=a\n[k]\nrw=write\nfilename=b\nsize=4k", "b"),
    "in global": ("[global]\nfilename=x\n" + WRITES, "x"),
    "named twice": (WRITES + "filename=a\nfilename=b", "a"),
    "default name": (WRITES, "j.0.0"),
    "of a clone": (WRITES + "numjobs=3", "j.2.0"),
    "second file": (WRITES + "nrfiles=2", "j.0.1"),
    "below": (WRITES + "directory=sub", "sub/j.0.0"),
    "below the second": (WRITES + "directory=.:sub\nnumjobs=2", "sub/j.1.0"),
    "by the token": (WRITES + "filename=${SCHEDLAB_DIRECTORY}/sub/x", "sub/x"),
    "formatted": (WRITES + "filename_format=$jobname-x-$filenum", "j-x-0"),
    "odd section": ("[a[b]*?]\nrw=write\nsize=4k", "a[b]*?.0.0"),
    "hidden": (WRITES + "filename=.bashrc", ".bashrc"),
    "read and written": ("[j]\nrw=randrw\nsize=1k\nfilename=x", "x"),
    "read and removed": (READS + "filename=x\nunlink=1", "x"),
    "read and made larger": ("[j]\nrw=read\nsize=64k\nfilename=x", "x"),
    "read beyond its end": (READS + "offset=4k\nfilename=x", "x"),
    "named as a pattern": (WRITES + "filename=[x]", "[x]"),
    "read from within to beyond its end": ("[j]\nrw=read\nsize=3k\noffset=2k\nfilename=x", "x"),
    "trimmed": ("[j]\nrw=trim\nsize=4k\nfilename=x", "x"),
    "log": (READS + "write_bw_log=my\nfilename=a", "my_bw.1.log"),
    "log without a name": (READS + "write_lat_log\nfilename=a", "j_clat.1.log"),
    "log of rates": (READS + "write_iops_log=my\nfilename=a", "my_iops.1.log"),
    "log of histograms": (READS + "write_hist_log=my\nfilename=a", "my_clat_hist.1.log"),
    "iolog": (READS + "write_iolog=x\nfilename=a", "x"),
    "memory": (READS + "mem=mmap:x\nfilename=a", "x"),
}
KEPT = {
    "read": (READS + "filename=x", "x"),
    "read to its end": (READS + "offset=3k\nfilename=x", "x"),
    "read by its default name": (READS, "j.0.0"),
    "another": (WRITES + "filename=x", "x2"),
    "of another job": (WRITES, "k.0.0"),
    "cpu": ("[j]\nioengine=cpuio\ncpuload=50\nruntime=1", "j.0.0"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_file_of_the_user_that_a_job_would_change_is_refused(tmp_path, home, name):
    text, file = CHANGED[name]
    kind = kind_of(tmp_path, text)
    kind.check("w")
    check(kind, home)
    (home / file).write_bytes(b"t" * 4096)
    with pytest.raises(SpecError, match="would overwrite") as caught:
        check(kind, home)
    assert str(home / file) in str(caught.value) and "--writable" in caught.value.hint
    check(kind_of(tmp_path, text, writable=(str(home / file),)), home)
    (home / file).unlink()
    (home / file).symlink_to("nowhere")
    with pytest.raises(SpecError, match="would overwrite"):
        check(kind, home)


@pytest.mark.parametrize("name", KEPT)
def test_a_file_that_is_only_read_is_no_refusal(tmp_path, home, name):
    text, file = KEPT[name]
    (home / file).write_bytes(b"t" * 4096)
    check(kind_of(tmp_path, text), home)


def test_what_the_job_made_itself_is_used_again(tmp_path, home):
    kind = kind_of(tmp_path, WRITES + "[k]\nrw=write\nfilename=mine\nsize=4k\n",
                   writable=(str(home / "mine"),))  # fmt: skip
    (home / "mine").touch()
    (home / "other").touch()
    (home / "j.0.0").touch()
    kind.mark_files(home)
    if not is_made_here(home / "j.0.0"):
        pytest.skip(HAS_MARKS)
    check(kind, home)
    assert not is_made_here(home / "mine") and not is_made_here(home / "other")


def test_a_directory_that_leads_out_is_refused(tmp_path, home):
    (home / "out").symlink_to(tmp_path)
    for text in (WRITES + "directory=out", WRITES + "filename=out/x"):
        with pytest.raises(SpecError, match="leads out of"):
            check(kind_of(tmp_path, text), home)
    (home / "j.0").mkdir()
    (home / "j.1").symlink_to(tmp_path)
    with pytest.raises(SpecError, match=r"j\.1 leads out of"):
        check(kind_of(tmp_path, WRITES + "numjobs=2\nfilename_format=$jobname.$jobnum/x"), home)
    (home / "in").symlink_to(home / "sub")
    check(kind_of(tmp_path, WRITES + "directory=in"), home)


def test_what_a_copy_would_replace_is_refused(tmp_path, home):
    source = tmp_path / "sub"
    source.mkdir()
    kind = Command(argv=("true",), copy_in=str(source))
    with pytest.raises(SpecError, match="would be replaced by the copy"):
        check(kind, home)
    mark_made(home / "sub")
    if not is_made_here(home / "sub"):
        pytest.skip(HAS_MARKS)
    check(kind, home)


def test_the_digest_is_of_every_file_that_fio_read(tmp_path):
    job, part, second = (tmp_path / name for name in ("job.fio", "part.fio", "second.fio"))
    job.write_text("[j]\nrw=randread\nsize=4M\ninclude part.fio\n")
    part.write_text("bs=4k\ninclude second.fio\n")
    second.write_text("iodepth=1\n")
    work = workload_of(OwnWork(job_file=str(job)))
    kind = FioJob(**work.parameters)
    kind.check("w")
    for file, other in ((part, "bs=64k\ninclude second.fio\n"), (second, "iodepth=9\n"),
                        (job, "[j]\nrw=read\nsize=4M\ninclude part.fio\n")):  # fmt: skip
        before = file.read_text()
        file.write_text(other)
        with pytest.raises(SpecError, match=r"job.fio or part.fio or second.fio is not the meas"):
            kind.check("w")
        file.write_text(before)
        kind.check("w")


def test_fio_includes_no_file_of_the_directory_instead(tmp_path, home):
    (tmp_path / "part.fio").write_text("bs=4k\n")
    kind = kind_of(tmp_path, WRITES + "include part.fio\n")
    kind.check("w")
    kind.check_files("w", home, is_ours=True)
    (home / "part.fio").write_text("filename=/dev/null\n")
    with pytest.raises(SpecError, match="fio would include"):
        kind.check_files("w", home, is_ours=True)
