"""A user's fio job: how its file is read, and what its numbers become."""

import hashlib
import json
import os
import shutil
import subprocess

import pytest

from schedlab.errors import HostError, SpecError
from schedlab.kinds.fio_job import FioJob
from schedlab.store import fio_output
from schedlab.store.importers import fio
from schedlab.store.importers.imported import Options


def write(path, text):
    path.write_text(text)
    return path


def fio_side(ios, size, bins, **fields):
    """The reads or writes of a job in fio's JSON."""
    times = {"mean": 7.0, "max": 9, "min": 1, "stddev": 1.0, "N": ios, "bins": bins}
    return {"total_ios": ios, "io_bytes": size, "bw_bytes": size * 10, "iops": ios / 4.0,
            "runtime": 4000, "lat_ns": times, "clat_ns": {"bins": {}}, **fields}  # fmt: skip


needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")


def job_file(path, text):
    """A job file as a workload."""
    return FioJob(job_file=str(write(path / "job", text)))


@pytest.mark.sampled(2)
@needs_fio
@pytest.mark.parametrize(
    ("rw", "directions"),
    [
        ("rw=randread", ("read",)), ("rw=write", ("write",)), ("rw=rw", ("read", "write")),
        ("readwrite=randrw", ("read", "write")), ("rw=readwrite:2", ("read", "write")),
        ("rw=randtrim", ("trim",)), ("rw=trimwrite", ("trim", "write")), ("bs=4k", ("read",)),
        ("rw=read:8k", ("read",)), ("rw=read\nrw=write", ("write",)),
        ("rw=write\nfsync=1", ("write", "sync")), ("rw=write\nfsync=0", ("write",)),
        ("rw=randrw\nfdatasync=8", ("read", "write", "sync")), ("rw=read\nfsync=1", ("read",)),
        ("  rw=write", ("write",)), ("rw=trimwrite\nverify=md5", ("trim", "write")),
    ],
)  # fmt: skip
def test_the_directions_of_a_job(tmp_path, rw, directions):
    assert job_file(tmp_path, f"[a]\n{rw}\n").jobs() == {"a": directions}


@needs_fio
def test_the_jobs_of_a_file_are_those_of_fio(tmp_path):
    """Names as in fio's own output, over everything that gives a name."""
    text = (
        "; c\n[global]\nname=bench\nsize=4k\nioengine=null\n[one]\nrw=write\n"
        "[two]\nname=own\nnumjobs=2\n[globals]\nrw=randwrite\n[three]\n[one]\nrw=read\n"
        "[five]\n  rw=rw\n"
        "[global]\ngroup_reporting\n[six]\nstonewall\nnumjobs=3\nrw=read\n[seven]\n"
        "[eight]\nnew_group\n[nine]\ngroup_reporting=0\n"
    )
    kind = job_file(tmp_path, text)
    ran = subprocess.run(["fio", "--output-format=json", kind.job_file], capture_output=True,
                         check=True, cwd=tmp_path)  # fmt: skip
    theirs = fio_output.jobs("fio", json.loads(ran.stdout))
    labels = fio_output.numbered([(job.name,) for job in theirs])
    assert list(kind.jobs()) == labels
    moved = [set(job.directions()) for job in theirs if job.name == "one"]
    assert [set(kind.jobs()[name]) for name in ("one", "one#2")] == moved == [{"write"}, {"read"}]


VERIFIED = {
    "verify=crc32c": {"write", "read"}, "verify=0": {"write"}, "verify=md5\ndo_verify=0": {"write"},
    "verify=md5\ndo_verify=1": {"write", "read"}, "verify=md5\nruntime=9": {"write", "read"},
    "verify=md5\nruntime=1\ntime_based": {"write"},
    "verify=md5\nruntime=1\ntime_based\nverify_backlog=8": {"write", "read"},
    "verify=md5\nverify_dump=1\nloops=2": {"write", "read"},
}  # fmt: skip


@needs_fio
@pytest.mark.parametrize("lines", VERIFIED)
def test_a_job_that_verifies_reads_what_it_wrote(tmp_path, lines):
    kind = job_file(tmp_path, f"[a]\nrw=write\nsize=64k\n{lines}\n")
    kind.check("w")
    ran = subprocess.run(["fio", "--output-format=json", kind.job_file], capture_output=True,
                         check=True, cwd=tmp_path)  # fmt: skip
    (job,) = json.loads(ran.stdout[ran.stdout.index(b"{") :])["jobs"]
    theirs = {way for way in ("read", "write", "trim") if job[way]["total_ios"]}
    assert set(kind.jobs()["a"]) == theirs == VERIFIED[lines]


NAMED = {
    "a name for all": ("[global]\nname=b\n[one]\n[two]\n", {"one", "two"}),
    "an own name": ("[one]\nname=mine\n[two]\n", {"mine", "two"}),
    "clones": ("[one]\nnumjobs=3\n", {"one"}),
    "clones of an own name": ("[one]\nname=mine\nnumjobs=2\n", {"mine", "one"}),
    "one group": ("[global]\ngroup_reporting\n[one]\nnumjobs=2\n[two]\n", {"one"}),
    "two groups": ("[global]\ngroup_reporting\n[one]\n[two]\nstonewall\n", {"one", "two"}),
    "a new group": ("[global]\ngroup_reporting\n[one]\n[two]\nnew_group\n", {"one", "two"}),
    "one name twice": ("[one]\n[one]\nstonewall\n", {"one", "one#2"}),
    "twice, together": ("[one]\nnumjobs=2\n[one]\nnumjobs=2\n", {"one"}),
    "with other options": ("[one]\nbs=4k\n[two]\n[one]\nbs=8k\n", {"one", "two", "one#2"}),
    "two groups of one name": (
        "[global]\ngroup_reporting\n[one]\n[two]\n[one]\nstonewall\n",
        {"one", "one#2"},
    ),
    "a global that is longer": ("[globals]\nname=b\n[one]\n", {"one"}),
    "spaces and dots": ("[a job.1]\n", {"a job.1"}),
    "all together": ("[one]\nunified_rw_reporting=mixed\nnumjobs=2\nfsync=4\n", {"one"}),
    "all together, by a number": ("[one]\nunified_rw_reporting=1\n", {"one"}),
    "each and all": ("[one]\nunified_rw_reporting=both\nfsync=4\n", {"one"}),
    "each and all, by a number": ("[one]\nunified_rw_reporting=2\n", {"one"}),
    "each, as usual": ("[one]\nunified_rw_reporting=0\nfsync=4\n", {"one"}),
}


@pytest.mark.sampled(2)
@needs_fio
@pytest.mark.parametrize("case", NAMED)
def test_metrics_are_called_as_fio_calls_its_jobs(tmp_path, case):
    """Every metric that its JSON gives is one that may be asked for, and no other is missing."""
    text, names = NAMED[case]
    kind = job_file(tmp_path, f"[global]\nsize=64k\nrw=rw\nrandseed=1\n{text}")
    ran = subprocess.run(list(kind.command()), capture_output=True, check=True, cwd=tmp_path)
    values, _ = kind.values_of(ran.stdout)
    assert {name.split(".")[0] if case != "spaces and dots" else "a job.1" for name in values} == {
        *names
    }
    assert set(values) == set(kind.own_metrics())


@needs_fio
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("[a]\nruntime=900\ntime_based\n", 900), ("[a]\nruntime=2m\nramp_time=30s\n", 150),
        ("[a]\nruntime=10\n[b]\nruntime=20\n", 20), ("[a]\nsize=1g\n", 1),
        ("[a]\nruntime=10\n[b]\nstonewall\nruntime=20\nstartdelay=5\n", 35),
    ],
)  # fmt: skip
def test_the_time_of_a_run_is_that_of_its_jobs(tmp_path, text, seconds):
    assert job_file(tmp_path, text).estimate_s() == seconds


@needs_fio
def test_the_metrics_of_a_job_file_have_units_and_a_direction(tmp_path):
    file = write(tmp_path / "job", "[a]\nrw=write\nbs=4k\n")
    kind = FioJob(job_file=str(file), extract=("x:s=stdout~(.)",), setup="s", cleanup="c",
                  writable=("/w",))  # fmt: skip
    metrics = kind.own_metrics()
    shown = {name: (each.unit, each.higher_is_better) for name, each in metrics.items()}
    latencies = {f"a.write.lat_ns_{word}": ("ns", False)
                 for word in ("mean", "max", "p50", "p90", "p99", "p99_9")}  # fmt: skip
    rates = {"a.write.bw_bytes": ("B/s", True), "a.write.iops": ("1/s", True)}
    assert shown == {"x": ("s", False), **rates, **latencies}
    assert kind.command() == ("fio", "--output-format=json+", str(file))
    line = "fio --name=a --rw=write --bs=4k, which may write to /w"
    assert kind.programs() == (line, "s (setup)", "c (cleanup)")


@needs_fio
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("filename=/etc/passwd", "filename = /etc/passwd is outside the target"),
        ("filename=a:/etc/passwd", "filename = /etc/passwd is outside the target"),
        ("filename=../a", "filename = ../a is outside the target"),
        ("  directory = /etc", "directory = /etc is outside the target"),
        ("filename=${MINE}", "filename = /etc is outside the target"),
        ("filename=${GIVEN}/x", "filename = /etc/x is outside the target"),
        ("ioscheduler=bfq", "ioscheduler is refused"),
        ("exec_prerun=x", "exec_prerun is refused"),
        ("ioengine=null", "ioengine=null is refused"),
        ("verify_state_save=1", "verify_state_save is refused"),
    ],
)
def test_options_of_a_job_file_that_are_refused(tmp_path, monkeypatch, line, message):
    monkeypatch.setenv("MINE", "/etc")
    monkeypatch.setenv("GIVEN", "here")  # the workload's own value counts
    file = write(tmp_path / "job", f"[global]\nbs=4k\n[a]\n{line}\nbs=8k\n[b]\n")
    with pytest.raises(SpecError) as error:
        FioJob(job_file=str(file), environment={"GIVEN": "/etc"}).check("w")
    file.write_text("[a]\nfilename=${MINE}\n")
    with pytest.raises(SpecError, match="the variable MINE has a control character"):
        FioJob(job_file=str(file), environment={"MINE": "a\nb"}).check("w")
    assert str(error.value).startswith(f"w: {file}: [a]: {message}")
    assert error.value.hint


@needs_fio
def test_a_job_may_include_a_file_beside_it(tmp_path):
    write(tmp_path / "shared.inc", "rw=write\n")
    kind = job_file(tmp_path, "[a]\ninclude shared.inc\n")
    kind.check("w")
    assert kind.jobs() == {"a": ("write",)}
    write(tmp_path / "more.inc", "bs=4k\n")
    several = job_file(tmp_path, "[a]\ninclude shared.inc\ninclude more.inc\ninclude gone.inc\n")
    with pytest.raises(SpecError, match=r"include is refused: \S+gone.inc"):
        several.check("w")
    (tmp_path / "deeper").mkdir()
    for name in ("gone.inc", "../shared.inc", str(tmp_path / "shared.inc")):
        elsewhere = job_file(tmp_path / "deeper", f"[a]\ninclude {name}\n")
        with pytest.raises(SpecError, match="include is refused"):
            elsewhere.check("w")


@needs_fio
def test_a_job_file_is_checked_by_fio_and_by_its_digest(tmp_path):
    text = "[a]\nfilename=${SCHEDLAB_DEVICE}\n[b]\ndirectory=${SCHEDLAB_DIRECTORY}\n" \
           "[c]\nfilename=C\\:/x:${NO_SUCH_NAME}y\n"  # fmt: skip
    kind = job_file(tmp_path, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    kind.check("w")
    FioJob(job_file=kind.job_file, job_sha256=digest).check("w")
    with pytest.raises(SpecError, match="job is not the measured file"):
        FioJob(job_file=kind.job_file, job_sha256=digest[::-1]).check("w")
    for own in ({"argv": ("true",)}, {"shell": "true"}):
        with pytest.raises(SpecError, match="w: a fio job has no command"):
            FioJob(job_file=kind.job_file, **own).check("w")
    for broken, hint in {
        "[a]\nrw=nonsense\n": "fio --parse-only ",
        "no section\n": "fio --parse-only ",
        "[a]\nno_such_option=1\n": "fio --parse-only ",
        "[a]\nioengine=nothing\nhostname=${HOST}\n": "this fio has no engine nothing: use ",
        "[a]\nrw=${WAY}\nbs=${SIZE}\nbs=${SIZE}\n": "e: --env WAY=VALUE --env SIZE=VALUE\n",
    }.items():
        with pytest.raises(SpecError, match=r"fio does not accept|has no job") as error:
            job_file(tmp_path, broken).check("w")
        assert hint in f"{error.value.hint}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[a]\n\x00\n", "line 2: has a control character"),
        (b"[a\x1b[2J]\n", "line 1: has a control character"),
        ("[a]\nfilename=b\u2028:/c\n".encode(), "line 2: has a control character"),
        (b"[a]\nfilename=b\r:/c\r\n", "line 2: has a control character"),
        (b"#" * (1 << 20) + b"\n", "is larger than 1 MiB"),
    ],
)
def test_a_job_file_is_a_text(tmp_path, content, message):
    """fio prints what it reads line by line: no character may begin a line of its own."""
    (tmp_path / "job").write_bytes(content)
    with pytest.raises(SpecError, match=message) as error:
        FioJob(job_file=str(tmp_path / "job")).jobs()
    assert error.value.hint


def test_a_job_file_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/zero", tmp_path / "pipe", tmp_path):
        with pytest.raises(SpecError, match="is not a regular file"):
            FioJob(job_file=str(name)).jobs()


@needs_fio
def test_a_job_file_of_another_encoding_and_of_windows_is_read(tmp_path):
    (tmp_path / "job").write_bytes(b"; M\xfcller\r\n[a]\r\nrw=write\r\ndescription=\tx\r\n")
    assert FioJob(job_file=str(tmp_path / "job")).jobs() == {"a": ("write",)}


@needs_fio
def test_jobs_know_their_time_only_by_their_own_options(tmp_path):
    for more, is_known in (("", False), ("runtime=3\ntime_based\n", True)):
        kind = job_file(tmp_path, f"[a]\nrw=read\nsize=1m\n{more}")
        assert kind.knows_its_time() == is_known
    assert not FioJob().knows_its_time()


def test_a_job_file_needs_fio(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="fio is not installed") as error:
        job_file(tmp_path, "[a]\n; without fio\n").check("w")
    assert error.value.hint == "apt install fio"


def test_completion_latency_counts_where_the_total_has_no_bins():
    bins = {"bins": {"500": 100}}
    side = {**fio_side(100, 1, {}), "lat_ns": {"mean": 7.0, "max": 9}, "clat_ns": bins}
    job = {"jobname": "a", "read": side, "write": {"total_ios": 0}, "trim": {"total_ios": 0}}
    values, bounds = FioJob().values_of(json.dumps({"jobs": [job]}).encode())
    assert (values["a.read.lat_ns_p90"], values["a.read.lat_ns_mean"]) == (500.0, 7.0)
    assert set(bounds) == {"a.read.lat_ns_p99", "a.read.lat_ns_p99_9"}
    nothing = {**side, "clat_ns": {}}
    values, _ = FioJob().values_of(json.dumps({"jobs": [{**job, "read": nothing}]}).encode())
    assert "a.read.lat_ns_p50" not in values


@needs_fio
@pytest.mark.parametrize("mode", ["none", "mixed", "both"])
def test_the_bytes_that_fio_moved_are_counted_once(tmp_path, mode):
    kind = job_file(tmp_path, f"[a]\nsize=64k\nrw=rw\nnumjobs=3\nunified_rw_reporting={mode}\n")
    ran = subprocess.run(list(kind.command()), capture_output=True, check=True, cwd=tmp_path)
    assert kind.claimed_bytes(ran.stdout) == 3 * 65536


def test_one_run_of_fio_is_one_report():
    report = json.dumps({"fio version": "fio-3.33", "jobs": []}).encode()
    assert FioJob().values_of(b"note: {both} and {}\n" + report) == ({}, {})
    with pytest.raises(SpecError, match="fio printed 3 reports, not one"):
        FioJob().values_of(report * 3)


@pytest.mark.parametrize("text", [b"", b"fio: broken", b"{", b'{"a": 1}', b"[1]"])
def test_output_that_is_not_fios(text):
    with pytest.raises(SpecError, match="the output of fio is not JSON: ") as error:
        FioJob().values_of(text)
    assert error.value.hint == "fio --version"


@needs_fio
@pytest.mark.parametrize(("change", "message"), [
    ({"error": 5}, "expected a job without errors, found 'error 5'"),
    ({"read": {"total_ios": 0, "iops": 0.0}}, "expected a job with reads, writes or trims"),
])  # fmt: skip
def test_both_ways_refuse_a_job_that_failed_and_pass_over_an_idle_one(change, message, tmp_path):
    work = {"total_ios": 4, "iops": 5.0, "bw_bytes": 20480, "lat_ns": {}}
    whole = {"jobname": "a", "groupid": 0, "error": 0, "read": work}
    other = {**whole, "jobname": "b", **change}
    job, output = tmp_path / "job.fio", tmp_path / "out.json"
    job.write_text("[a]\nsize=1m\nrw=read\n[b]\nsize=1m\nrw=read\n")

    def both(*jobs):
        output.write_text(json.dumps({"jobs": jobs}))
        yield lambda: FioJob(job_file=str(job)).values_of(output.read_bytes())[0]
        yield lambda: fio.read([("none", output)], options=Options())

    for way in both(other) if "read" in change else both(whole, other):
        with pytest.raises(SpecError, match=message):
            way()
    if "read" in change:
        values, imported = (way() for way in both(whole, other))
        assert values == {"a.read.iops": 5.0, "a.read.bw_bytes": 20480.0}
        assert [run.workload for run in imported.runs] == ["a"]
        assert any(note.endswith("did no I/O: b") for note in imported.experiment.notes)
        # One that only computes has nothing to move.
        job.write_text("[b]\nioengine=cpuio\ncpuload=5\nruntime=1\n")
        assert next(both(other))() == {}
