"""Recovering from a journal: what is restored, what is kept, what is refused."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from dying import die, journal_of, new_journal, schedlab

from schedlab.errors import HostError, RestoreError
from schedlab.host.safety import journal, leftovers, owned, recover
from schedlab.host.safety.consent import consent_to
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.nouns import checked_line


def test_every_line_is_of_this_boot_and_the_first_original_wins(state, loop):
    die(
        loop,
        "control.set_scheduler(device, 'bfq')\n"
        "control.set_scheduler(device, 'kyber')\n"
        "control.write_knob('/sys/block/%s/queue/read_ahead_kb' % device[5:], 32)\n"
        "control.write_knob('/sys/block/%s/queue/read_ahead_kb' % device[5:], 64)",
    )
    lines = journal_of(state).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert {entry["boot"] for entry in entries} == {journal.boot_id()}
    assert [entry["kind"] for entry in entries[:3]] == ["session", "claim", "queue"]
    read_ahead = [e for e in entries if e["kind"] == "write" and "read_ahead" in e["path"]]
    assert [e["new"] for e in read_ahead] == ["32", "64"]
    assert read_ahead[0]["original"] == read_ahead[1]["original"] not in ("32", "64")
    recover.restore_all(state)


def test_recover_shows_puts_back_and_is_then_done(state, loop, tmp_path):
    before = knobs.snapshot(knobs.queue_of(loop))
    die(
        loop,
        "control.set_scheduler(device, 'bfq')\ncontrol.scratch(1 << 20, directory)",
        tmp_path,
    )
    shown = schedlab("recover", "--dry-run")
    assert shown.returncode == 0
    assert f"{knobs.scheduler_file(loop)}: bfq -> none (would be restored)" in shown.stdout
    assert shown.stdout.count("would be removed") == 1  # the loop device; its file has no name
    assert knobs.read_value(knobs.scheduler_file(loop)) == "bfq"
    report = json.loads(schedlab("recover", "--json").stdout)
    assert [c["original"] for c in report["restored"] if "scheduler" in c["path"]] == ["none"]
    assert len(report["removed"]) == 1
    assert knobs.snapshot(knobs.queue_of(loop)) == before
    assert list(tmp_path.glob("schedlab-*")) == []
    assert schedlab("recover").stdout == "nothing to restore\n"


def test_any_command_that_touches_the_host_puts_back_first(state, loop):
    die(loop, "control.set_scheduler(device, 'bfq')")
    result = schedlab("io", "get", loop)
    assert result.stdout == f"{Path(loop).name}:\tnone\n"
    assert "left changed by a session that died" in result.stderr
    die(loop, "control.set_scheduler(device, 'bfq')")
    with Control() as control:
        assert [c.found for c in control.recovered.restored if "scheduler" in c.path] == ["bfq"]


def test_a_value_of_another_program_is_left_where_no_scheduler_changed(state, loop):
    read_ahead = knobs.queue_of(loop) / "read_ahead_kb"
    die(loop, f"control.write_knob({str(read_ahead)!r}, 32)")
    knobs.write_value(read_ahead, "40")
    recovery = recover.restore_all(state)
    assert [(each.path, each.found) for each in recovery.foreign] == [(str(read_ahead), "40")]
    assert (recovery.restored, knobs.read_value(read_ahead)) == ([], "40")


def test_a_value_that_is_none_of_ours_is_left_and_reported(state, loop):
    queue = knobs.queue_of(loop)
    die(
        loop,
        "control.set_scheduler(device, 'bfq', {'low_latency': 0, 'nr_requests': 50})",
    )
    knobs.write_value(queue / "nr_requests", "60")
    knobs.write_value(queue / "read_ahead_kb", "40")
    result = schedlab("recover")
    assert result.returncode == 0
    assert f"{queue}/read_ahead_kb: left at 40, which another program set" in result.stdout
    assert f"{queue}/nr_requests: left at 60" in result.stdout
    assert knobs.read_value(queue / "scheduler") == "none"
    assert knobs.read_value(queue / "read_ahead_kb") == "40"
    assert knobs.read_value(queue / "nr_requests") == "60"  # although the scheduler was restored


def test_a_foreign_scheduler_is_left_with_its_tunables(state, loop):
    queue = knobs.queue_of(loop)
    knobs.write_value(queue / "scheduler", "mq-deadline")
    die(loop, "control.set_scheduler(device, 'bfq')")
    knobs.write_value(queue / "scheduler", "kyber")
    knobs.write_value(queue / "iosched/read_lat_nsec", "123")
    recovery = recover.restore_all(state)
    assert [c.found for c in recovery.foreign if c.path.endswith("scheduler")] == ["kyber"]
    assert knobs.tunables(queue)["read_lat_nsec"] == "123"


def test_a_journal_that_another_takes_is_tried_again_but_not_for_ever(state, monkeypatch):
    journal.prepare(state)
    answers = iter([False, True])
    monkeypatch.setattr(journal.Journal, "lock", lambda self: next(answers))
    log = journal.Journal.create(state)
    assert log.path == max(journal.sessions(state))
    log.release()
    monkeypatch.setattr(journal.Journal, "lock", lambda self: False)
    with pytest.raises(HostError, match="cannot lock a new journal"):
        journal.Journal.create(state)


def test_a_kill_between_journal_and_write_is_not_foreign(state, loop):
    """Every value in the journal is ours, whichever of them the kernel shows."""
    queue = knobs.queue_of(loop)
    for current in ("none", "bfq", "kyber"):
        knobs.write_value(queue / "scheduler", "none")
        before = knobs.snapshot(queue)
        log = new_journal(state)
        log.append("queue", queue=str(queue), values=before)
        for new in ("bfq", "kyber"):
            path = str(queue / "scheduler")
            log.append("write", path=path, original="none", new=new)
        knobs.write_value(queue / "scheduler", current)
        log.release()
        recovery = recover.restore_all(state)
        assert (recovery.foreign, recovery.failed) == ([], [])
        assert knobs.snapshot(queue) == before


def test_what_a_stored_record_names_stays_and_all_else_is_put_back(state, loop, tmp_path):
    record = tmp_path / "record"
    record.write_text("stored")
    with Control() as control:
        queue = knobs.queue_of(loop)
        before = knobs.snapshot(queue)
        for name, value in (("iostats", "0"), ("nomerges", "1"), ("rq_affinity", "2")):
            control.write_knob(queue / name, value)
        control.keep_with(record, "stored", [str(queue / "nomerges")])
    after = knobs.snapshot(queue)
    assert {name: after[name] for name in after if after[name] != before[name]} == {"nomerges": "1"}


def test_what_an_interrupted_write_caused_stays_ours_while_it_is_put_back(state, loop):
    """Found by the kill tests: the guardian's own lines hid that a write was never confirmed."""
    queue = knobs.queue_of(loop)
    knobs.write_value(queue / "scheduler", "mq-deadline")
    knobs.write_value(queue / "nr_requests", "64")
    knobs.write_value(queue / "iosched/fifo_batch", "7")
    before = knobs.snapshot(queue)
    log = new_journal(state)
    log.append("queue", queue=str(queue), values=before)
    for scheduler in ("none", "mq-deadline"):
        path = str(queue / "scheduler")
        log.append("write", path=path, original="mq-deadline", new=scheduler)
        knobs.write_value(path, scheduler)
    # The owner is dead; a guardian comes to the first tunable and is killed, too.
    known = recover._Knowledge(log, journal.read(log.path).entries)
    known.confirm(dry_run=False)
    recover._restore_knobs([str(queue / "iosched/fifo_batch")], known, recover.Recovery())
    log.release()
    recovery = recover.restore_all(state)
    assert (recovery.foreign, recovery.failed) == ([], [])
    assert knobs.snapshot(queue) == before


def test_the_journal_of_another_boot_is_not_replayed(state, loop):
    die(loop, "control.set_scheduler(device, 'bfq')")
    path = journal_of(state)
    lines = [checked_line.decode(line) for line in path.read_bytes().splitlines()]
    old = [checked_line.encode({**line, "boot": "0" * 36}) + "\n" for line in lines]
    path.write_text("".join(old), encoding="utf-8")
    result = schedlab("recover")
    assert (result.returncode, "another boot" in result.stdout) == (0, True)
    assert knobs.read_value(knobs.scheduler_file(loop)) == "bfq"
    assert not path.exists()


@pytest.mark.parametrize("cut", range(1, 90, 8))
def test_a_last_line_cut_short_announced_nothing(state, loop, cut):
    queue = knobs.queue_of(loop)
    before = knobs.snapshot(queue)
    log = new_journal(state)
    log.append("queue", queue=str(queue), values=before)
    log.append("write", path=str(queue / "scheduler"), original="none", new="bfq")
    knobs.write_value(queue / "scheduler", "bfq")
    log.append("after", path=str(queue / "scheduler"), values=knobs_of(queue))
    line = checked_line.encode(
        {"schema": 2, "boot": log.boot, "kind": "write", "path": "/x", "original": "1"}
    )
    log.release()
    with log.path.open("a", encoding="utf-8") as file:
        file.write(line[:cut])
    recovery = recover.restore_all(state)
    assert (recovery.foreign, recovery.failed) == ([], [])
    assert knobs.snapshot(queue) == before


def knobs_of(queue):
    return {str(queue / name): value for name, value in knobs.snapshot(queue).items()}


def test_a_damaged_line_is_exit_code_3_and_the_rest_is_put_back(state, loop):
    before = knobs.snapshot(knobs.queue_of(loop))
    die(loop, "control.set_scheduler(device, 'bfq')")
    path = journal_of(state)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([lines[0], "\0garbage\n", *lines[1:]]), encoding="utf-8")
    result = schedlab("recover")
    assert result.returncode == 3
    assert f"{path}: line 2 is damaged" in result.stderr
    assert "Traceback" not in result.stderr
    assert knobs.snapshot(knobs.queue_of(loop)) == before
    assert list(state.glob("*.damaged"))
    assert schedlab("recover").returncode == 0


def test_a_session_at_work_is_not_disturbed(state, loop):
    with Control() as control:
        control.set_scheduler(loop, "bfq")
        result = schedlab("recover")
        assert result.returncode == 0
        assert f"a running session is not touched: process {os.getpid()}" in result.stdout
        got = schedlab("io", "get", loop)
        assert got.stdout == f"{Path(loop).name}:\tbfq\n"
        assert control.check() == ()


def test_a_process_that_is_ending_lives_no_more():
    """One with many open files is not a zombie for a while after the first of them is closed."""
    program = (
        "import os, resource, signal\n"
        "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n"
        "count = min(most, 20000) - 100\n"
        "files = [os.open('/dev/null', os.O_RDONLY) for _ in range(count)]\n"
        "os.dup2(1, files[-1])\n"
        "os.close(1)\n"
        "os.write(files[-1], b'r')\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"r"
        assert journal.is_alive(str(process.pid))
        process.kill()
        assert process.stdout.read() == b""
        assert not journal.is_alive(str(process.pid))


def test_a_journal_that_cannot_be_written_stops_before_the_change(state, loop, monkeypatch):
    with Control() as control:
        path = journal_of(control.state_directory)
        path.rename(path.with_suffix(".aside"))
        path.with_suffix(".aside").unlink()
        with pytest.raises(HostError, match="nothing was changed"):
            control.set_scheduler(loop, "bfq")
        assert knobs.read_value(knobs.scheduler_file(loop)) == "none"


def test_without_a_journal_what_the_scheduler_resets_comes_back_all_the_same(state, loop):
    queue = knobs.queue_of(loop)
    for file, value in {"scheduler": "mq-deadline", "iosched/read_expire": "100"}.items():
        knobs.write_value(queue / file, value)
    before = knobs.snapshot(queue)
    with Control() as control:
        control.set_scheduler(loop, "bfq")
        journal_of(state).unlink()
    assert control.restored.foreign == []
    assert knobs.snapshot(queue) == before


def test_a_journal_that_others_could_have_written_is_not_followed(state, tmp_path):
    knob = tmp_path / "knob"
    knob.write_text("1", encoding="ascii")
    journal.prepare(state)
    journal.Journal.create(state).append("write", path=str(knob), original="0", new="1")
    state.chmod(0o777)
    for command in (["recover"], ["io", "get"], ["io", "set", "none", "loop0"]):
        result = schedlab(*command)
        assert (result.returncode, "written to by others" in result.stderr) == (2, True)
    assert knob.read_text(encoding="ascii") == "1"


def test_a_journal_behind_a_link_is_an_error_and_not_empty(tmp_path):
    link = tmp_path / "session.jsonl"
    link.symlink_to("/etc/passwd")
    with pytest.raises(RestoreError, match="its settings are not restored"):
        journal.read(link)


def test_a_gone_device_leaves_nothing_to_restore(state, new_loop):
    device = new_loop()
    die(device, "control.set_scheduler(device, 'bfq')")
    name = Path(device).name
    backing = Path(f"/sys/block/{name}/loop/backing_file").read_text(encoding="utf-8").strip()
    owned.remove_loop(int(name.removeprefix("loop")), backing)
    recovery = recover.restore_all(state)
    assert (recovery.restored, recovery.failed) == ([], [])


def whole_entries(data):
    """The complete lines in a damaged journal, found without the code under test."""
    return [m.group() for m in re.finditer(rb'\{"schema": 2[^\n]*?"crc": "[0-9a-f]{8}"\}', data)]


@pytest.fixture
def knob_journal(ordinary_knobs):
    """A journal of two knobs that were changed from `0` to `1`; path, content, knobs.

    In RAM, like the real one: thousands of recoveries need not wait for a disk.
    """
    ram = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=ram if ram.is_dir() else None) as place:
        yield from _knob_journal(Path(place))


def _knob_journal(place):
    state = place / "state"
    log = new_journal(state)
    changed = [place / f"knob-{i}" for i in range(2)]
    for knob in changed:
        log.append("write", path=str(knob), original="0", new="1")
        log.append("after", path=str(knob), values={str(knob): "1"})
    log.release()
    yield log.path, log.path.read_bytes(), changed


def recovered(path, content, changed):
    """Recover from that journal; the knobs that were restored."""
    for knob in changed:
        knob.write_text("1", encoding="ascii")
    path.write_bytes(content)
    recovery = recover.restore_all(path.parent)
    for aside in path.parent.glob("*.damaged"):
        aside.unlink()
    return recovery, {str(k) for k in changed if k.read_text(encoding="ascii") == "0"}


def test_a_journal_cut_at_any_byte_loses_no_complete_line(knob_journal):
    path, whole, changed = knob_journal
    for size in range(len(whole)):
        recovery, restored = recovered(path, whole[:size], changed)
        promised = {
            str(json.loads(line)["path"])
            for line in whole_entries(whole[:size])
            if b'"kind": "write"' in line
        }
        assert restored == promised, size
        assert recovery.failed == recovery.foreign == [], size


def test_a_journal_damaged_at_any_byte_loses_only_that_line(knob_journal):
    path, whole, changed = knob_journal
    for at in range(len(whole)):
        damaged = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        recovery, restored = recovered(path, damaged, changed)
        hit = whole[:at].count(b"\n")  # 0 is who it was, then a write and an after per knob
        written = {str(knob) for i, knob in enumerate(changed) if hit != 1 + 2 * i}
        if whole[at : at + 1] == b"\n":
            written = {str(knob) for knob in changed}
            assert recovery.failed == [], at
        else:
            assert recovery.failed or at >= whole.rstrip().rfind(b"\n"), at
        # A write whose `after` is damaged is restored as well, and so is one known by that alone.
        assert restored >= written, at
        assert all(k.read_text("ascii") in ("0", "1") for k in changed)


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "write"},
        {"kind": "write", "path": 3, "original": [], "new": {}},
        {"kind": "queue", "queue": "/x", "values": 4},
        {"kind": "after", "values": [1]},
        {"kind": "own", "what": "loop"},
        {"kind": "own", "what": "nosuch", "path": "/x"},
        {"kind": "own", "what": 4, "path": 5},
        {"kind": "claim", "resources": 9},
        {"kind": "data", "number": 1},
        {"kind": "disown"},
        {"kind": "a kind of tomorrow"},
    ],
    ids=lambda entry: str(entry["kind"]),
)
def test_an_entry_of_another_shape_never_crashes(state, tmp_path, entry, ordinary_knobs):
    knob = tmp_path / "knob"
    knob.write_text("1", encoding="ascii")
    log = new_journal(state)
    log.append("write", path=str(knob), original="0", new="1")
    log.append(**entry)
    log.release()
    recovery = recover.restore_all(state)
    assert knob.read_text(encoding="ascii") == "0"
    assert recovery.lines()
    assert journal.sessions(state) == []


def test_a_full_state_directory_stops_before_the_change(state, loop, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k,mode=700", "none", str(small)]
    subprocess.run(command, check=True)
    try:
        with Control(state_directory=small) as control:
            (small / "ballast").write_bytes(bytes(20 << 10))
            with pytest.raises(HostError, match="No space left") as caught:
                for scheduler in ("bfq", "none") * 20:
                    control.set_scheduler(loop, scheduler)
            assert "free space" in caught.value.hint
        assert knobs.read_value(knobs.scheduler_file(loop)) == "none"
        assert journal.sessions(small) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_loop_device_that_another_program_has_by_now_is_left_alone(loop):
    index = int(loop.removeprefix("/dev/loop"))
    assert owned.remove_loop(index, "/the/file/of/the/session") is False
    assert Path(f"/sys/block/loop{index}/loop/backing_file").exists()


def old_session(state, *things):
    """The journal of a session of another boot that had made these things."""
    log = new_journal(state)
    log.boot = "0" * 36
    for thing in things:
        log.append("own", **thing)
    log.release()
    lines = [checked_line.decode(line) for line in log.path.read_bytes().splitlines()]
    text = "".join(checked_line.encode({**line, "boot": log.boot}) + "\n" for line in lines)
    log.path.write_text(text, encoding="utf-8")
    return log.path


def test_of_another_boot_only_files_and_directories_are_removed(state, tmp_path):
    file, directory = tmp_path / "schedlab-file", tmp_path / "schedlab-directory"
    foreign = tmp_path / "schedlab-cgroup"  # its name may be another session's of this boot
    file.touch()
    directory.mkdir()
    foreign.mkdir()
    path = old_session(
        state,
        {"what": "directory", "path": str(directory)},
        {"what": "file", "path": str(file)},
        {"what": "cgroup", "path": str(foreign)},
        {"what": "file", "path": str(tmp_path / "schedlab-never-made")},
    )
    shown = recover.restore_all(state, dry_run=True)
    gone = [f"file {file}", f"directory {directory}"]  # the last made goes first
    assert shown.removed == gone
    assert shown.lines() == [f"{what} (would be removed)" for what in gone]
    assert file.exists() and path.exists()
    recovery = recover.restore_all(state)
    assert recovery.lines() == [f"{what} (removed)" for what in gone]
    assert not file.exists() and not directory.exists() and not path.exists()
    assert foreign.is_dir()


def test_what_cannot_be_removed_has_its_shell_line_and_keeps_the_journal(state, tmp_path):
    mounted = tmp_path / "schedlab-my directory"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted)], check=True)
    try:
        path = old_session(state, {"what": "directory", "path": str(mounted)})
        recovery = recover.restore_all(state)
        assert [failure.command for failure in recovery.failed] == [f"rm -r '{mounted}'"]
        with pytest.raises(RestoreError, match="busy") as caught:
            recovery.raise_if_failed()
        assert f"as root:\n  rm -r '{mounted}'" in caught.value.hint
        assert mounted.is_dir() and path.exists()
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_note_of_a_thing_lives_as_long_as_its_session(state, tmp_path):
    log = new_journal(state)
    for name in ("b", "a"):
        leftovers.own(log, "directory", str(tmp_path / name))
    leftovers.own(log, "mount", str(tmp_path / "mount"))  # dies with the kernel: no note
    assert leftovers.stale(state) == []
    log.clear()
    left = [leftovers.Leftover("directory", str(tmp_path / name)) for name in ("a", "b")]
    assert leftovers.stale(state) == left
    leftovers.forget(state, str(tmp_path / "a"))
    assert leftovers.stale(state) == left[1:]
    log.release()


def test_a_note_of_another_boot_is_stale_although_a_journal_has_that_name(
    state, tmp_path, monkeypatch
):
    log = new_journal(state)
    leftovers.own(log, "file", str(tmp_path / "schedlab-file"))
    monkeypatch.setattr(journal, "boot_id", lambda: "1" * 36)
    assert [left.path for left in leftovers.stale(state)] == [str(tmp_path / "schedlab-file")]
    log.release()


def test_what_is_announced_is_on_disk_before_it_is_done(state, tmp_path, monkeypatch):
    log = new_journal(state)
    synced = []
    sync = os.fsync

    def noted_sync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(f"{path.name} {path.stat().st_size if path.is_file() else ''}".strip())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted_sync)
    log.append("keep")
    whole = f"{log.path.name} {log.path.stat().st_size}"
    assert synced == [whole]  # after the line, not before it
    synced.clear()
    leftovers.own(log, "directory", str(tmp_path / "schedlab-directory"))
    note, directory, line = synced
    assert int(note.split()[1]) > 0
    assert (directory, line.split()[0]) == ("leftovers", log.path.name)
    log.release()


def test_places_of_journals_and_notes(tmp_path, monkeypatch):
    for variable in ("SCHEDLAB_STATE_DIR", "SCHEDLAB_VAR_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    places = {}
    for user in (0, 7):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        places[user] = (str(journal.state_directory()), str(journal.lasting_directory()))
    assert places == {
        0: ("/run/schedlab", "/var/lib/schedlab"),
        7: ("/run/user/7/schedlab", "/home/me/.local/state/schedlab"),
    }
    assert journal.lasting_directory(tmp_path) == tmp_path / "lasting"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert journal.lasting_directory() == Path("/state/schedlab")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert journal.state_directory() == Path("/tmp/schedlab-7")
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    assert journal.state_directory() == tmp_path / "state"
    assert journal.state_directory("/typed") == Path("/typed")
    assert journal.lasting_directory() == tmp_path / "state" / "lasting"
    monkeypatch.setenv("SCHEDLAB_VAR_DIR", "/var")
    assert journal.lasting_directory(tmp_path) == Path("/var")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", "state")
    monkeypatch.setenv("SCHEDLAB_VAR_DIR", "var")
    assert journal.state_directory() == journal.state_directory("state") == tmp_path / "state"
    assert journal.lasting_directory() == tmp_path / "var"


def test_the_last_write_of_a_worker_counts_as_ours(state, loop):
    """A worker outlives its owner by the write that it is in."""
    worker = (
        "from schedlab.host.safety.consent import consent_to\n"
        "control.write_to(consent_to(device))\n"
        "if not os.fork():\n"
        "    os.closerange(0, 1000)\n"
        "    file = os.open(device, os.O_WRONLY | os.O_SYNC)\n"
        "    import time; time.sleep(0.7)\n"
        "    os.write(file, b'x' * 4096)\n"
        "    os._exit(0)\n"
        "import time; time.sleep(0.2)\n"
    )
    die(loop, worker)
    assert schedlab("recover").returncode == 0
    assert Path(loop).read_bytes()[:1] == b"x"
    consent_to(loop).close()
