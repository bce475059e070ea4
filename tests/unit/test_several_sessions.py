"""Of several entries, knobs, servers, loops, mounts or reasons of a session each is restored,
removed or told: rooms of the host, with records in the place of a kernel."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.errors import HostError, RestoreError
from schedlab.host import content, devices, kernel_paths, processes, queues
from schedlab.host.emulated import emulated_facts, emulated_removal, keeper
from schedlab.host.safety import (
    cleanup,
    consent,
    control,
    journal,
    owned,
    recover,
    shelter,
    write_ahead,
)
from schedlab.host.safety.recover import Failure, KnobChange, Recovery
from schedlab.host.settings import knobs

QUEUES = [f"/sys/block/sd{letter}/queue" for letter in "ab"]


def known_of(*entries):
    log = SimpleNamespace(lines=[])
    log.append = lambda kind, **of: log.lines.append({"kind": kind, **of})
    return recover._Knowledge(log, [{"boot": "b", **entry} for entry in entries])


def queue(at, **values):
    return {"kind": "queue", "queue": QUEUES[at], "values": values}


def write(at, name, new, original="0"):
    return {"kind": "write", "path": f"{QUEUES[at]}/{name}", "original": original, "new": new}


def test_all_entries_of_a_session_are_known():
    entries = [
        queue(0, scheduler="none", nr_requests="64"), queue(1, scheduler="bfq", nr_requests="32"),
        write(0, "nr_requests", "8", "64"), write(0, "nr_requests", "9", "8"),
        write(1, "nomerges", "2"), write(1, "rq_affinity", "2", "1"),
        *({"kind": "own", "what": "file", "path": f"/x/schedlab-{n}"} for n in range(4)),
        *({"kind": "disown", "path": f"/x/schedlab-{n}"} for n in (1, 2)),
        *({"kind": "data", "number": str(n), "sequence": "s", "size_bytes": n, "key": "k"}
          for n in range(2)),
        *({"kind": "command", "number": n, "undo": f"u{n}"} for n in range(4)),
        *({"kind": "undone", "number": n} for n in (0, 2)),
        *({"kind": "cleanup", "label": f"c{n}", "line": "l", "order": {}} for n in range(4)),
        *({"kind": "cleaned", "label": f"c{n}"} for n in (1, 3)),
        {"kind": "own", "what": "odd"}, {"kind": "write"},
        {"kind": "own", "what": "file", "path": "/etc/a"},
        {"kind": "write", "path": "/etc/b", "original": "", "new": ""},
    ]  # fmt: skip
    known = known_of(*entries)
    assert list(map(str, known.queues)) == QUEUES
    assert known.originals == {
        f"{QUEUES[0]}/scheduler": "none", f"{QUEUES[0]}/nr_requests": "64",
        f"{QUEUES[1]}/scheduler": "bfq", f"{QUEUES[1]}/nr_requests": "32",
        f"{QUEUES[1]}/nomerges": "0", f"{QUEUES[1]}/rq_affinity": "1",
    }  # fmt: skip
    for value, is_ours in (("8", True), ("9", True), ("64", False)):
        assert known.is_ours(f"{QUEUES[0]}/nr_requests", value) == is_ours
    assert len(known.written) == 3 and known.unconfirmed == f"{QUEUES[1]}/rq_affinity"
    assert [thing["path"][-1] for thing in known.things] == ["0", "3"]
    assert len(known.data) == 2 and known.commands == {1: "u1", 3: "u3"}
    assert [each["label"] for each in known.cleanups] == ["c0", "c2"]
    assert known.odd == 2 and known.refused == ["/etc/a", "/etc/b"]


def test_what_stays_with_a_record_is_forgotten_and_all_else_is_not(tmp_path):
    entries = [
        *(queue(at, scheduler="none", nr_requests="64") for at in range(2)),
        *(write(at, name, "1") for at in range(2) for name in ("nomerges", "rq_affinity")),
        *({"kind": "command", "number": n, "undo": "u"} for n in range(2)),
        {"kind": "write", "path": "/proc/sys/vm/a", "original": "0", "new": "1"},
        {"kind": "write", "path": "/proc/sys/vm/b", "original": "0", "new": "1"},
    ]  # fmt: skip
    record = tmp_path / "record"
    record.write_text("x")
    keep = {"kind": "keep", "record": str(record), "sha256": recover._digest(str(record))}
    for stays in range(2):
        known = known_of(*entries, keep | {"settings": [QUEUES[stays], "/proc/sys/vm/b"]})
        other = QUEUES[1 - stays]
        assert list(map(str, known.queues)) == [other]
        assert [*known.originals] == [
            *(
                f"{other}/{name}"
                for name in ("scheduler", "nr_requests", "nomerges", "rq_affinity")
            ),
            "/proc/sys/vm/a",
        ]
        assert known.is_ours(f"{other}/rq_affinity", "1") and known.is_ours("/proc/sys/vm/a", "1")
        for gone in (f"{QUEUES[stays]}/nomerges", f"{QUEUES[stays]}/rq_affinity", "/proc/sys/vm/b"):
            assert not known.is_ours(gone, "1")
        assert known.unconfirmed == "" and len(known.commands) == 2
    known = known_of(*entries, {"kind": "keep"})
    assert (known.queues, known.originals, known.commands) == ([], {}, {})
    assert not known.is_ours("/proc/sys/vm/a", "1") and known.unconfirmed == ""


def test_knobs_that_a_write_changed_are_all_noted(tmp_path, monkeypatch):
    place = tmp_path / "sda" / "queue"
    (place / "iosched").mkdir(parents=True)
    for name in ("scheduler", "nr_requests", "nomerges", "iosched/a", "iosched/b"):
        (place / name).write_text("1")
    before = knobs.snapshot(place)
    for name in ("nr_requests", "nomerges"):
        (place / name).write_text("2")
    found = write_ahead.caused(place / "nomerges", place, before)
    assert found == {f"{place}/nr_requests": "2", f"{place}/nomerges": "2"}
    after = write_ahead.caused(place / "scheduler", place, knobs.snapshot(place))
    assert {*after} == {f"{place}/{name}" for name in ("scheduler", "iosched/a", "iosched/b")}
    pair = [tmp_path / name for name in ("bytes", "ratio")]
    for path in pair:
        path.write_text("7")
    monkeypatch.setattr(knobs, "companion", lambda path: pair[1])
    assert write_ahead.caused(pair[0], None, {}) == {str(path): "7" for path in pair}
    known = known_of()
    known.unconfirmed = str(pair[0])
    known.confirm(dry_run=False)
    assert all(known.is_ours(str(path), "7") for path in pair)
    assert known.journal.lines == [
        {"kind": "after", "path": str(pair[0]), "values": {str(path): "7" for path in pair}}
    ]


def test_a_recovery_takes_over_and_tells_everything():
    first, second = Recovery(), Recovery()
    change, failure = KnobChange("p", "1", "2"), Failure("w", "r", "c")
    for at, each in enumerate((first, second)):
        for name in ("removed", "refused", "cleanups", "notices"):
            getattr(each, name).extend([f"{name}{at}a", f"{name}{at}b"])
        each.restored.append(change)
        each.foreign.append(change)
        each.failed.append(failure)
    first.add(second)
    for name in ("removed", "refused", "cleanups", "notices"):
        assert getattr(first, name) == [f"{name}{at}{part}" for at in range(2) for part in "ab"]
    assert (len(first.restored), len(first.foreign), len(first.failed)) == (2, 2, 2)
    with pytest.raises(RestoreError, match="w: r; w: r") as failed:
        first.raise_if_failed()
    assert failed.value.hint == "as root:\n  c\n  c"
    first.failed.clear()
    with pytest.raises(HostError, match="refused0a; refused0b; refused1a; refused1b"):
        first.raise_if_failed()


def test_commands_of_every_dead_session_are_forgotten(tmp_path, monkeypatch):
    logs = {}
    for name in ("a", "b", "c"):
        entries = [{"kind": "command", "number": n, "undo": "u", "boot": "b"} for n in range(2)]
        log = SimpleNamespace(gone=[], released=0, content=lambda of=entries: SimpleNamespace(
            entries=of))  # fmt: skip
        log.append = lambda kind, number, log=log: log.gone.append((kind, number))
        log.release = lambda log=log: setattr(log, "released", log.released + 1)
        logs[name] = log
    monkeypatch.setattr(journal, "sessions", lambda directory: ["a", "b", "alive", "c"])
    monkeypatch.setattr(recover, "_stale", lambda path, patience: logs.get(path))
    recover.forget_commands(tmp_path)
    for log in logs.values():
        assert (log.gone, log.released) == ([("undone", 0), ("undone", 1)], 1)


def test_every_damaged_and_every_refused_line_is_told(tmp_path):
    (tmp_path / "x.journal").touch()
    done = Recovery()
    told = journal.Content((), False, (2, 5))
    known = SimpleNamespace(odd=3, refused=["/etc/a", "/etc/b"])
    recover._finish(tmp_path / "x.journal", told, known, done)
    assert [failure.reason.split(" have")[0] for failure in done.failed] == [
        "line 2 is damaged", "line 5 is damaged", "3 lines"
    ]  # fmt: skip
    assert [line.split(" names ")[1].split(",")[0] for line in done.refused] == ["/etc/a", "/etc/b"]
    assert (tmp_path / "x.damaged").exists()


def test_the_owner_of_a_journal_and_all_damaged_lines_are_found(tmp_path):
    pairs = ((7, "x"), (8, "y"))
    owners = [{"kind": "session", "process": of, "command": text} for of, text in pairs]
    entries = ({"kind": "claim", "resources": []}, *owners)
    assert journal.Content(entries, False, ()).owner == "7 x"
    log = tmp_path / "j"
    log.write_bytes(b"damaged\n\0\0\nodd\n")
    assert journal.read(log).damaged_lines == (1, 3)


def test_a_dead_command_is_ended_in_all_its_groups_and_cleaned_up_in_reverse(tmp_path, monkeypatch):
    groups = [tmp_path / name for name in ("one", "two", "three")]
    for group in groups:
        for inside in ("", f"{owned.PREFIX}a", f"{owned.PREFIX}b"):
            (group / inside).mkdir(exist_ok=True)
    busy = {str(groups[0]), str(groups[2] / f"{owned.PREFIX}b")}
    removed, ran = [], []

    def remove(path):
        if path in busy:
            raise OSError(16, "busy")
        removed.append(path)

    monkeypatch.setattr(owned, "remove_cgroup", remove)
    monkeypatch.setattr(cleanup, "_run", lambda order: ran.append(order["n"]) or order["failed"])
    servers = [groups[1] / f"{owned.PREFIX}{name}" for name in "ab"]
    pending = [
        {"label": f"w{n}", "line": "l",
         "order": {"n": n, "failed": "failed" * (n == 1),
                   "cgroups": [str(servers[n] / "cgroup.procs"), "/x/cgroup.procs"][:: 1 - 2 * n]}}
        for n in range(2)
    ]  # fmt: skip
    things = [{"what": "cgroup", "path": str(group)} for group in groups]
    told = cleanup.run_all(pending, things)
    assert ran == [1, 0]
    assert {*removed} == {
        str(groups[2]), *(str(group / f"{owned.PREFIX}{name}") for group in (groups[0], groups[2])
                          for name in "ab")
    } - busy  # fmt: skip
    assert sorted(told[:2]) == sorted(f"{path} is in use: busy" for path in busy)
    assert told[2:] == [
        "w1: cleanup 'l' failed: run it by hand", "w0: cleanup 'l' was run"
    ]  # fmt: skip
    monkeypatch.setattr(processes, "below", lambda group: [5] if str(group) == "/b" else [6])
    for pair in (["/a/x", "/b/x"], ["/b/x", "/a/x"]):
        assert cleanup._room({"room": 5}, pair) == 5
    assert cleanup._room({"room": 5}, ["/a/x"]) is None


def test_every_server_is_closed_before_anything_is_restored_and_reaped_after_it(monkeypatch):
    log = []
    done = Recovery(foreign=[KnobChange(name, "1", "0") for name in "ab"], notices=["n1", "n2"])
    session = control.Control.__new__(control.Control)
    read, ends = zip(*(os.pipe() for _ in range(2)), strict=True)
    session._owner, session._held, session._agreed = os.getpid(), list(ends), ["x"]
    session._servers = [
        SimpleNamespace(close=lambda n=n: log.append(f"close {n}"),
                        reap=lambda n=n: log.append(f"reap {n}")) for n in range(2)
    ]  # fmt: skip
    session._guardian = SimpleNamespace(
        dismiss=lambda: log.append("dismiss"), expect=lambda s: None
    )
    session._journal = SimpleNamespace(release=lambda: log.append("release"))
    told = []
    session._report = told.append
    monkeypatch.setattr(recover, "restore_session", lambda of: log.append("restore") or done)
    session.__exit__(None, None, None)
    assert log == ["close 0", "close 1", "restore", "reap 0", "reap 1", "dismiss", "release"]
    assert [line.split()[0] for line in told] == ["a", "b", "n1", "n2"]
    assert [os.read(end, 1) for end in read] == [b"", b""]  # all that was held is closed
    for end in read:
        os.close(end)


def test_all_that_is_wanted_is_claimed_and_every_session_is_asked(tmp_path, monkeypatch):
    session = control.Control.__new__(control.Control)
    appended, asked = [], []
    session._claims = {"/dev/old"}
    session.state_directory = tmp_path
    session._journal = SimpleNamespace(
        path="own", append=lambda kind, resources: appended.append(resources)
    )
    monkeypatch.setattr(session, "_resource", lambda each: f"/dev/{each}", raising=False)
    monkeypatch.setattr(journal, "sessions", lambda directory: ["own", "a", "b"])
    monkeypatch.setattr(
        session, "_refuse_claimed", lambda path, wanted: asked.append((path, {*wanted}))
    )
    session.claim("sdb", "sda", "old")
    both = ["/dev/sda", "/dev/sdb"]
    assert appended == [both] and asked == [("a", {*both}), ("b", {*both})]
    assert session._claims == {"/dev/old", *both}
    taken = SimpleNamespace(claims=frozenset([*both, "/dev/x"]), owner="7 x")
    monkeypatch.setattr(journal, "read", lambda path: taken)
    monkeypatch.setattr(recover, "restore_stale_session", lambda path: None)
    with pytest.raises(HostError, match="/dev/sda, /dev/sdb is in use"):
        control.Control._refuse_claimed(session, "a", {*both, "/dev/z"})


@pytest.mark.parametrize("at", [0, 1])
def test_any_device_that_was_named_may_hold_the_root(monkeypatch, at):
    session = control.Control.__new__(control.Control)
    monkeypatch.setattr(devices, "disks_below", lambda path: ("sda", "sdb"))
    monkeypatch.setattr(knobs, "device_name", lambda device: device)
    session._named = ("sda", "sdb")
    session._allow(session._named[at])
    session._named = ("sdx", "sdy")
    with pytest.raises(HostError, match="holds /"):
        session._allow(("sda", "sdb")[at])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_hint_of_a_refusal_fits_all_its_reasons(order):
    held, unknown, used = "it holds a gpt", "it holds data of unknown origin", "it is mounted"
    for pair, word in (((held, held), "wipefs"), ((unknown, unknown), "--allow-unknown-data"),
                       ((held, used), ""), ((unknown, held), "wipefs"),
                       ((unknown, used), "")):  # fmt: skip
        error = consent.refusal("/dev/x", [pair[at] for at in order])
        assert str(error).count("it ") == 2
        assert (word in error.hint) if word else ("wipefs" not in error.hint), pair


def test_signatures_are_looked_for_at_every_place_and_all_are_named(tmp_path, monkeypatch):
    size = 4 << 20
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(size)
        for offset in content.PARTITION_STARTS_BYTES:
            if offset < size:
                file.seek(offset)
                file.write(b"x")
    probed = []

    def probe(program, descriptor, offset):
        probed.append(offset)
        return ["a one", "a two"] if offset else []

    monkeypatch.setattr(content, "_probe", probe)
    monkeypatch.setattr(content, "_backup_table", lambda *of: ["b"])
    with disk.open("rb") as file:
        found = content.signatures(file.fileno(), size)
    places = [offset for offset in content.PARTITION_STARTS_BYTES if offset < size]
    assert len(places) > 1 and probed == [0, *places]
    assert [line.split(" at ")[0] for line in found] == ["a one", "a two"] * len(places) + ["b"]


def test_both_tables_and_file_systems_are_named(tmp_path):
    program = tmp_path / "blkid"
    program.write_text("#!/bin/sh\necho PTTYPE=gpt\necho USAGE=raid\necho TYPE=x\n")
    program.chmod(0o755)
    with Path(os.devnull).open("rb") as file:
        assert content._probe(str(program), file.fileno(), 0) == [
            "a gpt partition table", "a x signature (raid)"
        ]  # fmt: skip


def test_every_device_goes_down_that_can_and_every_refusal_is_told(tmp_path, monkeypatch):
    def down(name, state):
        if name in "bd":
            raise HostError(f"{name} stays", f"hint {name}")

    monkeypatch.setattr(keeper, "down", down)
    gone = []
    with pytest.raises(HostError, match="b stays; d stays") as refused:
        keeper.down_all("abcde", None, gone.append)
    assert gone == ["a", "c", "e"] and refused.value.hint == "hint b; hint d"
    monkeypatch.setattr(keeper, "_directories", lambda root: [root / n for n in ("m", "m-2", "x")])
    assert keeper._free_name(tmp_path, "M") == "m-3"
    cleared = []
    monkeypatch.setattr(keeper, "_ask", lambda directory, what: None)
    monkeypatch.setattr(keeper, "_clear", lambda each: cleared.append(each) or Recovery())
    assert keeper.kept(tmp_path) == [] and len(cleared) == 3
    monkeypatch.setattr(keeper, "Kept", lambda **of: of["name"])
    answers = {"m": {"name": "m"}, "x": {"name": "x"}}
    monkeypatch.setattr(keeper, "_ask", lambda directory, what: answers.get(directory.name))
    assert keeper.kept(tmp_path, clear=False) == ["m", "x"] and len(cleared) == 3


def test_all_loops_of_all_emulated_devices_are_written_back_and_unmounted(monkeypatch):
    log = []

    class Writer:
        def __init__(self, index):
            self.index = index

        def failures(self, left_s):
            return [f"lost {self.index}", f"more {self.index}"]

        def end(self):
            log.append(f"end {self.index}")

    monkeypatch.setattr(emulated_removal, "WriteBack", Writer)
    monkeypatch.setattr(emulated_removal, "servers", lambda directory: [1])
    monkeypatch.setattr(emulated_removal, "end_servers", lambda d: log.append(f"servers {d}"))
    monkeypatch.setattr(emulated_removal, "unmount", lambda mount, how: log.append(mount))
    monkeypatch.setattr(kernel_paths, "mounts_of_loop", lambda n: [f"/m{n}a", f"/m{n}b"])
    loops = [("/d1", 1), ("/d1", 2), ("/d1x", 3), ("/d1x", 4), ("/d1", 5), ("/d1x", 6)]
    backing = {f"loop{index}": f"{place}/fuse/x" for place, index in loops}
    monkeypatch.setattr(kernel_paths, "backing_file", lambda path: backing[path.name])
    backing |= {"loop5": "/d1/fuse/other", "loop6": ""}  # meanwhile of somebody else
    things = [{"what": emulated_removal.KIND, "path": path} for path in ("/d1", "/d1x")]
    things += [{"what": "loop", "index": index, "backing": f"{place}/fuse/x"}
               for place, index in loops]  # fmt: skip
    lost = emulated_removal.quiesce(things)
    assert lost == [f"{word} {n}" for n in (1, 2, 3, 4) for word in ("lost", "more")]
    assert log == [
        "servers /d1", "end 1", "end 2", "/m1a", "/m1b", "/m2a", "/m2b",
        "servers /d1x", "end 3", "end 4", "/m3a", "/m3b", "/m4a", "/m4b",
    ]  # fmt: skip


def test_all_mounts_inside_an_emulated_device_are_unmounted_in_reverse(tmp_path, monkeypatch):
    place = tmp_path / f"{owned.PREFIX}{emulated_removal.KIND}-x"
    (place / "fuse").mkdir(parents=True)
    mounts = [SimpleNamespace(target=f"{place}/fuse{end}") for end in ("", "/a", "/a/b")]
    log = []
    monkeypatch.setattr(kernel_paths, "mounts", lambda: [SimpleNamespace(target="/"), *mounts])
    monkeypatch.setattr(emulated_removal, "end_servers", lambda path: None)
    monkeypatch.setattr(emulated_removal, "unmount", lambda mount, how: log.append(mount))
    assert emulated_removal.remove(str(place)) and not place.exists()
    assert log == mounts[::-1]
    ended = []
    monkeypatch.undo()
    monkeypatch.setattr(emulated_removal, "servers", lambda directory: [11, 12])
    monkeypatch.setattr(emulated_removal.os, "pidfd_open", _open_of)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda descriptor, which: ended.append(which))
    monkeypatch.setattr(emulated_removal.select, "select", lambda *of: None)
    emulated_removal.end_servers(place)
    assert ended == [signal.SIGKILL] * 2


def _open_of(process):
    return os.open(os.devnull, os.O_RDONLY)


def test_figures_of_an_emulated_device_are_of_reads_writes_and_discards():
    modelled = {"mean_ns": 100.0, "p99_ns": 200.0}
    account = {"reads": 2, "writes": 2, "discards": 4, "read_bytes": 4 << 20,
               "written_bytes": 8 << 20, "modelled": modelled, "replied": modelled,
               "elapsed_s": 8e-9, "hidden_mean": 10.0, "hidden_error": 5.0, "errors": 3,
               "reordered_share": 0.5, "depth_max": 99}  # fmt: skip
    facts = {"lead_ns": 10, "lead_read_per_mib_ns": 20, "lead_write_per_mib_ns": 5, "tags": 32,
             "model": "m", "size_bytes": 8 << 30, "served_in_order": True,
             "dilate": 2.0}  # fmt: skip
    assert emulated_facts.lead_share(account, facts) == pytest.approx((10 + 20 + 10) / 100)
    assert emulated_facts.mean_error(account) == pytest.approx((0.1, 0.05))
    found = emulated_facts.findings(account | {"hidden_mean": 900.0}, facts)
    assert [each.gate for each in found] == [
        "device-alive", "model-on-time", "model-on-time", "device-tags"
    ]  # fmt: skip
    assert emulated_facts.describe(facts) == (
        "m, 8 GiB, 32 tags, served in order, dilated ×2, emulated"
    )
    for way in ("reads", "writes"):
        one = account | {"reads": 0, "writes": 0, "discards": 0, way: 4, "depth_max": 1}
        assert len(emulated_facts.findings(one | {"hidden_mean": 900.0}, facts)) == 3


def test_the_group_of_a_process_is_that_of_its_io(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PROC", tmp_path)
    (tmp_path / "5").mkdir()
    lines = ["9:cpu,cpuacct:/c", "8:memory,blkio:/io", "1:name=systemd:/s", "0::/unified"]
    for order in (lines, lines[::-1]):
        (tmp_path / "5" / "cgroup").write_text("\n".join(order) + "\n")
        assert processes.control_group_of(5) == "/io"
        (tmp_path / "5" / "cgroup").write_text("\n".join(o for o in order if "blkio" not in o))
        assert processes.control_group_of(5) == "/unified"
    for group in ("", "a", "a/b"):
        (tmp_path / "g" / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / "g" / group / "cgroup.procs").write_text(f"{len(group)}1\n{len(group)}2\n")
    assert sorted(processes.below(tmp_path / "g")) == [1, 2, 11, 12, 31, 32]


def test_a_process_leaves_every_group_and_is_free_when_it_left_all(tmp_path, monkeypatch):
    roots = [tmp_path / name for name in "abc"]
    for root in roots:
        root.mkdir()
    paths = dict(zip(roots, ("/x", "/", "/y"), strict=True))
    looks = [paths]

    def groups():
        return looks.pop(0) if len(looks) > 1 else looks[0]

    monkeypatch.setattr(shelter, "groups_of", groups)
    monkeypatch.setattr(shelter, "_ask_systemd", lambda: None)
    assert not shelter.leave_groups()
    written = [(root / "cgroup.procs").exists() for root in roots]
    assert written == [True, False, True]
    for stuck in (roots[0], roots[2]):
        left = {root: "/x" if root == stuck else "/" for root in roots}
        looks[:] = [paths, left, {**left, stuck: paths[stuck]}]
        assert not shelter.leave_groups()
        looks[:] = [paths, left, {**left, stuck: "/moved"}]
        assert shelter.leave_groups()


def test_swap_areas_and_mounts_that_share_a_queue_are_all_named(monkeypatch):
    mounts = [SimpleNamespace(number=f"8:{n}", source=f"/dev/x{n}", target=f"/m{n}", kind="ext4")
              for n in range(3)]  # fmt: skip
    below = {"/dev/x0": {"sda"}, "/dev/x1": {"sda", "sdb"}, "/dev/x2": {"sdc"}}
    monkeypatch.setattr(kernel_paths, "mounts", lambda: mounts)
    monkeypatch.setattr(queues, "queues_of", lambda mount, deep: below[mount.source])
    areas = [("/swap1", {"sdb", "sda"}), ("/swap2", {"sdd"}), ("/swap3", {"sdb"})]
    monkeypatch.setattr(queues, "_swap_areas", lambda deep: iter(areas))
    named, reasons = queues._others({"sda", "sdb"}, "0:9", False)
    assert named == (
        "/m0 (ext4, on sda)", "/m1 (ext4, on sda, sdb)", "the swap area /swap1 (on sda, sdb)",
        "the swap area /swap3 (on sdb)",
    )  # fmt: skip
    assert reasons == {
        "sda": ("it carries /m0", "it carries /m1", "it carries the swap area /swap1"),
        "sdb": ("it carries /m1", "it carries the swap area /swap1",
                "it carries the swap area /swap3"),
    }  # fmt: skip
    monkeypatch.undo()
    files = [Path("/swap1"), Path("/swap2")]
    monkeypatch.setattr(kernel_paths, "swap_areas", lambda: files)
    monkeypatch.setattr(devices, "mount_of", lambda area: area)
    monkeypatch.setattr(queues, "_mount", lambda area, *of: area)
    monkeypatch.setattr(queues, "_names", lambda tree: (f"{tree}a", f"{tree}b"))
    assert list(queues._swap_areas(False)) == [
        (str(file), {f"{file}a", f"{file}b"}) for file in files
    ]


def test_every_user_of_a_disk_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    numbers = {"8:0": "sda", "8:1": "sda1", "7:1": "loop1", "7:2": "loop2"}
    for at in range(1, 6):
        (tmp_path / f"loop{at}" / "loop").mkdir(parents=True)
        (tmp_path / f"loop{at}" / "loop" / "backing_file").touch()
    known = {"loop1": ("f1", ""), "loop2": ("f2", ""), "loop3": ("f1", "8:0"),
             "loop4": ("f2", "8:1"), "loop5": ("f9", "")}  # fmt: skip
    monkeypatch.setattr(devices, "_backing_of", known.get)
    assert devices._loops_beside(numbers) == [
        "it is below loop3 (sda)", "its file is behind loop3 as well (loop1)",
        "it is below loop4 (sda1)", "its file is behind loop4 as well (loop2)",
    ]  # fmt: skip
    family = [tmp_path / name for name in ("sda", "sda1")]
    for member in family:
        for holder in ("dm-0", "dm-1"):
            (member / "holders" / holder).mkdir(parents=True)
    monkeypatch.setattr(knobs, "device_file", lambda name: tmp_path / "dev" / name)
    areas = [tmp_path / "dev" / name for name in ("other", "sda", "sda1")]
    monkeypatch.setattr(kernel_paths, "swap_areas", lambda: areas)
    assert devices._swap_and_holders(family) == [
        line for name in ("sda", "sda1") for line in (
            f"it is swap space in use ({name})", f"it is held by dm-0 ({name})",
            f"it is held by dm-1 ({name})")
    ]  # fmt: skip


def test_the_devices_below_one_without_a_scheduler_are_all_named(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "queue_of", lambda device: tmp_path / "queue")
    for name in ("sdb", "sda"):
        (tmp_path / "slaves" / name).mkdir(parents=True)
    with pytest.raises(HostError) as refused:
        knobs.scheduler_file("md0")
    assert refused.value.hint == "set it on the device below: sda, sdb"
