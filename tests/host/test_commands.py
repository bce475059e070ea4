"""Commands whose truth is known: what they do depends on the scheduler that they find, and what
schedlab makes of it must agree; the host is as before afterwards."""

import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from schedlab.app.admit import admit
from schedlab.app.compare.comparison import Load, Place, comparison
from schedlab.app.compare.own_work import OwnWork, comparison_of, rehearse
from schedlab.app.measure.measure import Observer, run
from schedlab.app.preview import preview
from schedlab.errors import GateError, HostError, SchedlabError, SpecError
from schedlab.host.safety import owned
from schedlab.nouns import Stopping
from schedlab.nouns.convert import to_json
from schedlab.result import Result
from schedlab.run.admitted import Permission
from schedlab.run.command import launch
from schedlab.run.io import io_commands
from schedlab.run.io.drain import drain

pytestmark = pytest.mark.usefixtures("root_with_loop", "state")
READ_ALL = ('dd if="$SCHEDLAB_DEVICE" of=/dev/null bs=64k iflag=direct',)
FIND = 'read -r s < "/sys/block/${SCHEDLAB_DEVICE#/dev/}/queue/scheduler"; '


def experiment(line, *, metrics=(), blocks=2, schedulers="none,bfq", **parameters):
    work = OwnWork([line], True, metrics=metrics, parameters={"anyway": True, **parameters})
    return comparison_of(
        Place(scratch_bytes=64 << 20),
        work,
        schedulers=schedulers,
        stopping=Stopping(blocks=blocks),
        aa_arm=False,
        seed=1,
    )


def measured(tmp_path, line, **options):
    """The runs of a small comparison of a shell line."""
    messages = []
    observer = Observer(report=messages.append)
    result = run(experiment(line, **options), tmp_path / "out", observer=observer)
    assert_nothing_left()
    return result.folder.runs(), messages


MADE = []


@pytest.fixture(autouse=True)
def names_that_are_made(monkeypatch):
    """Other sessions may be running: only the things of this process must go."""
    MADE.clear()
    new_name = owned.new_name

    def noted(what):
        MADE.append(new_name(what))
        return MADE[-1]

    monkeypatch.setattr(owned, "new_name", noted)


def assert_nothing_left():
    """No cgroup that was made is left under any hierarchy."""
    assert any("command" in name for name in MADE)
    left = [path for name in MADE for path in Path("/sys/fs/cgroup").glob(f"*/{name}")]
    left += [path for name in MADE for path in Path("/sys/fs/cgroup").glob(name)]
    assert left == []


def values(runs, candidate, metric="elapsed_s"):
    return [r.metrics[metric] for r in runs if r.candidate == candidate and r.status == "ok"]


def test_printed_numbers_follow_the_scheduler(tmp_path):
    """Times that follow it are in test_command_truth.py."""
    took = FIND + 'case "$s" in *"[bfq]"*) t=0.52;; *) t=0.40;; esac; '
    line = took + 'echo "took $t s"; echo "log {\\"a\\": [{\\"n\\": \\"x\\", \\"t\\": $t}]}"'
    runs, _ = measured(
        tmp_path, line,
        metrics=["elapsed", "took:ms=stdout~took (?<value>[0-9.]+) (?<unit>s)",
                 "json:s=stdout@a[?n==x].t"],
    )  # fmt: skip
    assert (set(values(runs, "bfq", "took")), set(values(runs, "none", "took"))) == (
        {520.0},
        {400.0},
    )
    assert (set(values(runs, "bfq", "json")), set(values(runs, "none", "json"))) == ({0.52}, {0.4})
    assert all(run.metrics["elapsed_synced_s"] > run.metrics["elapsed_s"] for run in runs)


def test_a_command_reads_nothing_unless_it_is_given_something(tmp_path):
    given = tmp_path / "given"
    given.write_text("hello\n")
    for stdin, printed in (("", ""), (str(given), "hello\n")):
        where = tmp_path / f"printed {len(printed)}"
        where.mkdir()
        measured(where, "cat", blocks=1, schedulers="none", stdin=stdin)
        assert {file.read_text() for file in where.glob("out/raw/output/*.out")} == {printed}


def test_a_status_under_one_scheduler_ends_the_experiment_with_exit_1(tmp_path):
    line = FIND + 'case "$s" in *"[bfq]"*) echo wrong >&2; exit 3;; esac'
    with pytest.raises(SchedlabError, match="exited with status 3 3 times in a row under bfq") as e:
        run(experiment(line), tmp_path / "out")
    assert e.value.exit_code == 1
    assert "wrong" in str(e.value)
    assert_nothing_left()


def test_the_report_shows_the_rehearsal_after_a_warm_up_and_a_discarded_first_run(tmp_path):
    line = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; [ $n != 2 ]"
    runs, _ = measured(tmp_path, line, blocks=1, schedulers="none", warm_up=1)
    assert [run.status for run in runs] == ["discarded", "ok"]
    assert "cpu_share" in runs[1].properties["rehearsal"]
    assert "PATH" in runs[1].properties["environment"]["names"]
    Result.load(tmp_path / "out").write_html(tmp_path / "page.html")
    assert "Rehearsed in " in (tmp_path / "page.html").read_text()


def test_a_command_that_fails_now_and_then_is_repeated(tmp_path):
    line = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; [ $((n % 4)) != 3 ]"
    runs, _ = measured(tmp_path, line, blocks=3)
    assert [gate.gate for run in runs if run.status == "discarded" for gate in run.gates
            if gate.fatal]  # fmt: skip
    assert len({run.key for run in runs if run.status == "ok"}) == 6


def test_a_hang_is_an_observation_and_its_children_end(tmp_path):
    line = FIND + 'case "$s" in *"[bfq]"*) sleep 1000 & wait;; esac'
    runs, _ = measured(tmp_path, line, blocks=1, timeout_s=3.0)
    hung = next(run for run in runs if run.candidate == "bfq")
    assert hung.status == "ok"
    assert hung.metrics["elapsed_synced_s"] == 3.0
    assert hung.bounds["elapsed_synced_s"] == "at-least"
    assert hung.properties["censored"] is True
    Result.load(tmp_path / "out").write_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "count with it as a lower bound: bfq (1)" in page
    assert "Rehearsed in " in page
    assert "sleep 1000" in page


def test_what_is_left_behind_is_named_and_ended(tmp_path):
    # A daemon in its own session, whose parent has ended, does not escape either.
    line = (
        "sleep 1001 & setsid sh -c 'setsid tail -s1001 -f /dev/null & echo $! > daemon; exit' & "
        "wait $!; until grep -q tail /proc/$(cat daemon)/comm; do :; done; rm daemon"
    )
    runs, messages = measured(tmp_path, line, blocks=1)
    assert all(run.properties["left_behind"] == ["sleep", "tail"] for run in runs)
    assert any("still running and ended: sleep, tail" in text for text in messages)
    running = [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"1001" in _bytes(p)]
    assert running == []


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_no_run_starts_before_the_dirty_pages_of_the_last_are_written(tmp_path):
    line = (
        'read -r a b < "/sys/block/${SCHEDLAB_DEVICE#/dev/}/inflight"; '
        "dd if=/dev/zero of=f bs=1M count=40 2>/dev/null; echo inflight $((a + b + 1))"
    )
    runs, _ = measured(tmp_path, line, blocks=2, sync="outside",
                       metrics=["inflight::lower=stdout~inflight ([0-9]+)"])  # fmt: skip
    assert {run.metrics["inflight"] for run in runs} == {1.0}
    assert all(run.metrics["written_bytes"] >= 40 << 20 for run in runs)
    assert all(run.metrics["elapsed_synced_s"] == run.metrics["elapsed_s"] for run in runs)


def test_a_metric_that_is_not_printed_is_an_error_of_the_rehearsal(tmp_path):
    line = "echo 'rate = 12 per second'"
    with pytest.raises(HostError, match=r"no line matches.*nearest lines are 'rate = 12"):
        run(experiment(line, metrics=["tps:1/s=stdout~^tps = ([0-9]+)"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert_nothing_left()


@pytest.mark.parametrize(
    ("line", "parameters", "named"),
    [
        ("mount -t tmpfs x .", {}, "--unconfined starts it free"),
        ("echo 1 > /proc/sys/vm/swappiness", {}, "--unconfined starts it free"),
        ("echo x > OUTSIDE", {"confine": "files"}, "--writable PATH opens a place of files"),
        ("true", {"setup": "mount -t tmpfs x ."}, "--unconfined starts it free"),
        ("true", {"setup": "false"}, "run it by hand"),
        ("echo 'disk full' >&2; false", {}, "run it by hand"),
        ("cat /dev/null/x; false", {"confine": "nothing"}, "run it by hand"),
    ],
)
def test_what_a_wall_stopped_is_told_the_way_out(tmp_path, line, parameters, named):
    asked = experiment(line.replace("OUTSIDE", str(tmp_path / "x")), **parameters)
    with pytest.raises(HostError) as refused:
        run(asked, tmp_path / "out")
    assert named in refused.value.hint, refused.value
    assert_nothing_left()


def test_a_command_that_switches_the_scheduler_itself_is_found_out(tmp_path):
    line = (
        'q="/sys/block/${SCHEDLAB_DEVICE#/dev/}/queue/scheduler"; read -r s < "$q"; '
        'case "$s" in *"[bfq]"*) echo none > "$q";; esac'
    )
    runs, _ = measured(tmp_path, line, blocks=1, confine="nothing")
    gates = [gate for run in runs if run.candidate == "bfq" for gate in run.gates]
    fatal = {gate.gate for gate in gates if gate.fatal}
    assert fatal == {"knob-changed"}
    Result.load(tmp_path / "out").write_html(tmp_path / "page.html")
    assert "setting changed" in (tmp_path / "page.html").read_text()


@pytest.fixture
def open_directory(monkeypatch):
    """A directory that every user may enter, with a state directory in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("SCHEDLAB_STATE_DIR", f"{name}/state")
        yield Path(name)


def test_phases_user_and_fresh_copies(open_directory):
    tree, seen = open_directory / "tree", open_directory / "seen"
    tree.mkdir()
    (tree / "file").write_text("as copied")
    seen.mkdir()
    seen.chmod(0o777)
    line = f"id -un; cat tree/file; echo changed > tree/file; echo work >> {seen}/log"
    phases = {name: f"echo {name} >> {seen}/log" for name in
              ("setup", "prepare_run", "conclude_run", "cleanup")}  # fmt: skip
    runs, _ = measured(open_directory, line, blocks=1, user="nobody", copy_in=str(tree),
                       fresh="run", **phases)  # fmt: skip
    output = open_directory / "out" / "raw" / "output"
    assert (output / "0000-0001-1.out").read_text() == "nobody\nas copied"
    cycle = ["prepare_run", "work", "conclude_run"]
    assert (seen / "log").read_text().split() == ["setup", *cycle, *cycle, *cycle, "cleanup"]
    assert len(runs) == 2


def test_work_that_misses_the_device_is_refused(tmp_path):
    with pytest.raises(HostError, match="moved nothing on loop"):
        run(experiment("true", anyway=False), tmp_path / "out")


def test_work_on_another_disk_is_refused_and_that_disk_is_named(tmp_path, new_loop):
    device = new_loop()
    line = f"dd if=/dev/zero of={device} bs=1M count=8 conv=fsync 2>&1; echo x > f"
    with pytest.raises(HostError, match=f"{Path(device).name} moved [0-9]+ KiB"):
        run(experiment(line, anyway=False, cache="as-is", confine="nothing"), tmp_path / "out")


def test_too_much_output_ends_the_run(tmp_path):
    with pytest.raises(HostError, match="printed more than 8192 bytes"):
        run(experiment("yes", output_limit_bytes=8192), tmp_path / "out")
    assert_nothing_left()


def test_the_rehearsal_alone_measures_nothing_tries_once_more_and_restores():
    messages = []
    line = "[ -e f ]; first=$?; dd if=/dev/zero of=f bs=1M count=8; [ $first = 0 ] && echo 7"
    asked = experiment(line, metrics=["n::higher=stdout~([0-9]+)"], anyway=False)
    admitted = admit(asked, Permission())
    rehearse(admitted, Observer(report=messages.append))
    (tried,) = (n for n, text in enumerate(messages) if "exited with status 1 in the" in text)
    assert any("rehearsed in" in text and "n 7" in text for text in messages[tried:])
    assert_nothing_left()


def test_a_file_from_elsewhere_needs_trust(tmp_path):
    file = tmp_path / "own.toml"
    data = to_json(experiment("echo 7", metrics=["n::higher=stdout~([0-9]+)"], blocks=1))
    data.pop("metrics")
    file.write_text(tomli_w.dumps(_without_none(data)))
    with pytest.raises(SpecError, match="wants to run echo 7") as refused:
        run(file, tmp_path / "out")
    assert "--trust" in refused.value.hint
    result = run(file, tmp_path / "out", permission=Permission(trust=True))
    assert {r.metrics["n"] for r in result.folder.runs()} == {7.0}


def _without_none(value):
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list) else value


def test_draining_gives_up_on_a_queue_that_never_rests(tmp_path, loop):
    busy = threading.Event()

    def write():
        with Path(loop).open("r+b", buffering=0) as device:
            while not busy.is_set():
                device.seek(0)
                device.write(b"x" * 4096)
                os.fsync(device.fileno())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(GateError, match="still busy"):
            drain(tmp_path, (Path(loop).name,), 1.0)
    finally:
        busy.set()
        writer.join()
    assert drain(tmp_path, (Path(loop).name,), 20.0) >= 0.3


def test_a_request_in_flight_is_waited_for_though_no_sector_moves(loop, tmp_path, monkeypatch):
    """The counters move when a request completes: a slow one would fall into the next run."""
    began = time.monotonic()
    module = sys.modules[drain.__module__]
    monkeypatch.setattr(module, "_in_flight", lambda queues: time.monotonic() < began + 0.4)
    assert drain(tmp_path, (Path(loop).name,), 20.0) > 0.65
    monkeypatch.setattr(module, "_in_flight", lambda queues: True)
    with pytest.raises(GateError, match="still busy"):
        drain(tmp_path, (Path(loop).name,), 0.5)


def test_a_device_that_goes_in_the_rehearsal_is_named(monkeypatch):
    monkeypatch.setattr(io_commands, "_moved", lambda queues: {"sda": (3, 4), "sdb": (1, 0)})
    before = {"sda": (1, 1), "sdb": (1, 0), "sdx": (0, 0)}
    assert io_commands._moved_since(before, ("sda",)) == ({"sda": 5}, {"sdb": 0})
    with pytest.raises(HostError, match="sdx was removed"):
        io_commands._moved_since(before, ("sda", "sdx"))


def test_a_command_ends_when_its_start_is_interrupted(tmp_path):
    """Also without a control group, where nothing else would end it."""
    group = launch.WorkGroup(None, "test")
    line = ["/bin/sh", "-c", "sleep 60 & sleep 60"]
    order = launch.Launch(line, tmp_path, {"PATH": "/usr/bin:/bin"})

    def interrupt():
        if len(group.members()) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch.run(order, group, interrupt)
    assert group.members() == []


def test_the_place_of_temporary_files_stays_open_to_all(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    bare = comparison_of(
        Place(scratch_bytes=64 << 20), OwnWork(READ_ALL, shell=True), schedulers="none",
        stopping=Stopping(blocks=1), aa_arm=False,
    )  # fmt: skip
    run(bare, tmp_path / "out")
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_a_fio_job_file_gives_fios_own_numbers(tmp_path):
    job = tmp_path / "job.fio"
    job.write_text(
        "[global]\nsize=16m\nruntime=1\ntime_based\nioengine=psync\ndirect=1\n"
        "[reader]\nrw=randread\nbs=4k\n[writer]\nrw=write\nbs=64k\nnumjobs=2\nthinktime=2000\n"
    )
    place = Place(scratch_bytes=128 << 20)
    with pytest.raises(SpecError, match="several jobs"):
        comparison_of(place, OwnWork(job_file=str(job)))
    asked = comparison_of(
        place,
        OwnWork(job_file=str(job), metrics=["reader.read.lat_ns_p99", "writer.write.bw_bytes"]),
        schedulers="none",
        stopping=Stopping(blocks=2),
        aa_arm=False,
    )
    result = run(asked, tmp_path / "out")
    for one in result.folder.runs():
        name = f"{one.block:04d}-{one.position:04d}-{one.attempt}.out"
        report = json.loads((tmp_path / "out/raw/output" / name).read_text())
        readers = [each for each in report["jobs"] if each["jobname"] == "reader"]
        writers = [each for each in report["jobs"] if each["jobname"] == "writer"]
        theirs = readers[0]["read"]["clat_ns"]["percentile"]
        for word, key in {"p50": "50.000000", "p99": "99.000000"}.items():
            name = f"reader.read.lat_ns_{word}"
            if name in one.bounds:  # fewer than 20 or 1,000 reads on a busy machine
                assert one.metrics[name] <= theirs[key] * 1.02
            elif word == "p50":
                assert one.metrics[name] == pytest.approx(theirs[key], rel=0.02)
        assert one.metrics["reader.read.iops"] == pytest.approx(readers[0]["read"]["iops"])
        total = sum(each["write"]["bw_bytes"] for each in writers)
        assert one.metrics["writer.write.bw_bytes"] == pytest.approx(total)
    assert asked.metrics["reader.read.lat_ns_p99"].higher_is_better is False


def test_the_rehearsal_tells_the_time_and_ends_when_the_deciding_metric_is_missing(tmp_path):
    """All runs would be measured, and none could be used."""
    job, lines = tmp_path / "job.fio", []
    job.write_text("[j]\nrw=randrw\nrwmixread=100\nsize=8m\ndirect=1\nruntime=1\ntime_based\n")
    work = OwnWork(job_file=str(job), metrics=["j.write.iops"])
    asked = comparison_of(
        Place(scratch_bytes=64 << 20), work, schedulers="none,bfq", stopping=Stopping(blocks=20),
        aa_arm=False,
    )  # fmt: skip
    admitted = admit(asked, Permission())
    assert "40 runs in 20 blocks, about 44 s" in preview(admitted).lines()
    with pytest.raises(HostError, match=r"gave no j\.write\.iops, the metric") as caught:
        rehearse(admitted, Observer(report=lines.append))
    assert caught.value.hint.startswith("--metric with one of j.read.iops")
    told = "job.fio: by its options the rehearsal takes 1 s, and 40 runs about 40 s"
    assert told in lines


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ioscheduler=bfq", "ioscheduler is refused"),
        ("filename=/dev/sda", "is outside the target"),
        ("exec_prerun=rm", "exec_prerun is refused"),
        ("include other.fio", "include is refused"),
        ("filename=${DISK_OF_MINE}", "is outside the target"),
        ("rw=nonsense", "fio does not accept"),
    ],
)
def test_a_fio_job_that_would_do_more_than_its_work_is_refused(tmp_path, line, why, monkeypatch):
    monkeypatch.setenv("DISK_OF_MINE", "/dev/sda")
    job = tmp_path / "job.fio"
    job.write_text(f"[reader]\nsize=1m\n{line}\n")
    with pytest.raises(SpecError, match=why):
        admit(
            comparison_of(Place(scratch_bytes=64 << 20), OwnWork(job_file=str(job))), Permission()
        )


def test_a_command_in_a_directory_switches_the_queue_that_is_named(tmp_path, mounted_loop):
    device, where = mounted_loop
    queue = Path(f"/sys/block/{Path(device).name}/queue/scheduler")
    before = queue.read_text()
    (where / "mine").write_text("kept")
    line = f"cat {queue} >> seen; dd if=/dev/zero of=f bs=64k count=64 2>/dev/null"
    asked = comparison_of(
        Place(directory=str(where), switch=(Path(device).name,)),
        OwnWork([line], True),
        schedulers="none,bfq",
        stopping=Stopping(blocks=1),
        aa_arm=False,
    )
    result = run(asked, tmp_path / "out")
    assert all(each.status == "ok" for each in result.folder.runs())
    seen = (where / "seen").read_text()
    assert "[bfq]" in seen
    assert "[none]" in seen
    assert queue.read_text() == before
    assert (where / "mine").read_text() == "kept"
    with pytest.raises(SpecError, match="no request queue is named"):
        admit(
            comparison_of(Place(directory=str(where)), OwnWork(["true"]),
                          schedulers="none,bfq"),
            Permission(),
        )  # fmt: skip


@pytest.mark.sampled(2)
def test_a_command_beside_a_workload_of_ours_on_a_bare_device(tmp_path):
    """Both get the device: the command by its name, our engine as it was given up."""
    command = experiment("true", blocks=1, schedulers="none,mq-deadline")
    ours = comparison(
        Place(scratch_bytes=64 << 20), Load(seconds=0.2), families=["newcomer"],
        schedulers="none,mq-deadline", stopping=Stopping(blocks=1), aa_arm=False, seed=1,
    )  # fmt: skip
    both = replace(
        command,
        target=replace(command.target, filesystem="none"),
        workloads=(*command.workloads, *ours.workloads),
    )
    runs = run(both, tmp_path / "out").folder.runs()
    assert {each.workload for each in runs} == {w.label for w in both.workloads}
    # On a busy machine a run is repeated.
    scored = [(each.workload, each.candidate) for each in runs if each.status == "ok"]
    assert len(scored) == len(set(scored)) == 4
    assert_nothing_left()
