"""Of several loaders, entries, knobs, commands, layers or reasons each is looked at, told and
restored: rooms of the host, with plain files and records in the place of a kernel."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import refused

from schedlab.errors import SpecError
from schedlab.host import bootloader, content, devices, doctor, kernel_paths, queues
from schedlab.host.emulated import emulated, emulated_calibration, emulated_removal
from schedlab.host.safety import cleanup, consent, guardian, journal, recover, write_back
from schedlab.host.settings import knobs, setters, settings, udev, writers
from schedlab.nouns import checked_line

ORDERS = [1, -1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("as_array", [True, False])
def test_each_entry_of_systemd_boot_is_found_by_its_kernel_and_ours_is_removed(
    tmp_path, monkeypatch, order, as_array
):
    entries = [{"id": f"{name}.conf", "version": name, "path": str(tmp_path / name / "x.conf")}
               for name in ("6.1", "6.12")][::order]  # fmt: skip
    entries += [{"id": "late.conf", "version": "6.1", "path": "/late.conf"}]
    entries += [{"id": "one.efi", "version": "7", "path": "/efi/one.efi"}, {"id": "auto"}]
    for entry in entries[:2]:
        Path(entry["path"]).parent.mkdir()
        Path(entry["path"]).write_text(f"title {entry['version']}\noptions a\n")
    ran = []
    text = json.dumps(entries) if as_array else "\n".join(map(json.dumps, entries))
    monkeypatch.setattr(
        bootloader, "_output", lambda *words: text if "list" in words else ran.append(words)
    )
    loader = bootloader.SystemdBoot()
    ours = f"{bootloader.ENTRY}.conf"
    for kernel in ("6.1", "6.12"):
        assert loader.check("x", kernel, "") == f"{kernel}.conf"
        loader.boot_once("x", kernel, "quiet")
        copied = (tmp_path / kernel / ours).read_text()
        assert copied == f"title {kernel}\noptions a\noptions quiet\n"
    assert ran == [("bootctl", "set-oneshot", ours)] * 2
    assert loader.check("x", "7", "") == "one.efi"
    assert "one image" in refused(loader.check, "x", "7", "quiet")[0]
    assert "no Linux 5" in refused(loader.check, "x", "5", "")[0]
    loader.reset()
    assert not [*tmp_path.glob(f"*/{ours}")] and len([*tmp_path.glob("*/x.conf")]) == 2


def test_an_entry_of_grub_is_that_of_its_kernel_with_all_its_lines_below_all_menus():
    text = """
function f {
}
menuentry 'Plain' $menuentry_id_option 'plain' {
\tsearch a
\tif x ; then {
\t}
\tlinux /boot/vmlinuz-6.1 root=a
\tinitrd b
}
submenu 'More' $menuentry_id_option 'more' {
\tmenuentry 'Old' $menuentry_id_option 'old' {
\t\tlinux /boot/vmlinuz-5.10 root=c
\t\tinitrd d
\t}
\tmenuentry 'Again' $menuentry_id_option 'again' {
\t\tlinux /boot/vmlinuz-6.1 root=e
\t}
}
"""

    def of(kernel):
        entry, lines = bootloader._named(text, kernel, Path("/boot"))
        return entry, [line.strip() for line in lines]

    assert of("6.1") == ("plain", ["search a", "linux /boot/vmlinuz-6.1 root=a", "initrd b"])
    assert of("5.10") == ("more>old", ["linux /boot/vmlinuz-5.10 root=c", "initrd d"])
    with pytest.raises(SpecError):
        of("4.19")


@pytest.fixture
def session(tmp_path, monkeypatch):
    """What is needed to restore a session: two queues of plain files, and what was run."""
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    made = SimpleNamespace(queues=[tmp_path / name / "queue" for name in ("sda", "sdb")])
    for place in made.queues:
        (place / "iosched").mkdir(parents=True)
        (place / "scheduler").write_text("[none] bfq kyber\n")
        for name in ("nr_requests", "nomerges", "iosched/x", "iosched/y"):
            (place / name).write_text("now\n")

    def write(path, text, known):
        file = Path(path)
        file.write_text(f"[{text}] none\n" if file.name == "scheduler" else f"{text}\n")
        if file.name == "scheduler":
            for name in ("nr_requests", "nomerges"):
                (file.parent / name).write_text("reset\n")
        return ""

    monkeypatch.setattr(recover, "_write", write)
    monkeypatch.setattr(recover.knobs, "writable", lambda path: True)
    monkeypatch.setattr(recover, "_widen_tags", lambda queue, known: made.widened.append(queue))
    made.widened = []
    return made


def known_of(*entries, **more):
    log = SimpleNamespace(append=lambda kind, **of: None, **more)
    return recover._Knowledge(log, [{"boot": "b", **entry} for entry in entries])


@pytest.mark.parametrize("ours", [True, False])
def test_every_setting_of_a_queue_is_restored_or_left_to_who_set_it(session, ours):
    """Of two settings beside a scheduler another program has set both; a third is ours."""
    place = session.queues[0]
    (place / "third").write_text("1\n")
    values = {"third": "0", "scheduler": "bfq", "nr_requests": "8", "nomerges": "9",
              "iosched/x": "1", "iosched/y": "2"}  # fmt: skip
    written = [("third", "1"), ("iosched/x", "now"), ("iosched/y", "now")]
    written += [("scheduler", "none")] if ours else []
    known = known_of(
        {"kind": "queue", "queue": str(place), "values": values},
        *({"kind": "write", "path": str(place / name), "original": values[name], "new": new}
          for name, new in written),
    )  # fmt: skip
    recovery = recover.Recovery(foreign=[recover.KnobChange("earlier", "1", "2")])
    recover._restore_queue(place, known, recovery)
    foreign = [Path(change.path).name for change in recovery.foreign]
    of = ["earlier", "nr_requests", "nomerges", *([] if ours else ["scheduler"])]
    assert sorted(foreign) == sorted(of)
    read = {name: knobs.read_value(place / name) for name in values}
    assert read == {**values, "nr_requests": "now", "nomerges": "now",
                    **({} if ours else {"scheduler": "none", "iosched/x": "now",
                                        "iosched/y": "now"})}  # fmt: skip
    restored = {str(Path(change.path).relative_to(place)) for change in recovery.restored}
    assert restored == {"third", *(["scheduler", "iosched/x", "iosched/y"] if ours else [])}


def test_each_setting_that_cannot_be_restored_has_its_own_reason_and_line(session, monkeypatch):
    monkeypatch.setattr(recover, "_write", lambda path, *_: "busy" if "sda" in path else "")
    paths = [str(place / name) for place in session.queues for name in ("nr_requests", "nomerges")]
    known = known_of(*({"kind": "write", "path": path, "original": str(n), "new": "now"}
                       for n, path in enumerate(paths)))  # fmt: skip
    recovery = recover.Recovery()
    recover._restore_knobs(paths, known, recovery)
    reasons = ["busy"] * 2 + [f"it reads now instead of {n}" for n in (2, 3)]
    assert [(each.what, each.reason, each.command) for each in recovery.failed] == [
        (path, reason, f"echo {n} > {path}")
        for n, (path, reason) in enumerate(zip(paths, reasons, strict=True))
    ]  # fmt: skip


@pytest.mark.parametrize("dry_run", [True, False])
def test_each_command_is_undone_by_its_own_line_the_last_first(dry_run, monkeypatch):
    ran = []
    monkeypatch.setattr(recover, "shell_line", lambda line: ran.append(line) or f"no {line}")
    known = known_of(*({"kind": "command", "number": n, "run": "r", "undo": f"u{n}"}
                       for n in (1, 2)))  # fmt: skip
    recovery = recover.Recovery(dry_run=dry_run)
    for number in sorted(known.commands, reverse=True):
        recover._undo_command(number, known, recovery)
    assert recovery.notices == (["would run: u2", "would run: u1"] if dry_run else [])
    assert ran == ([] if dry_run else ["u2", "u1"])
    failed = [(each.what, each.reason) for each in recovery.failed]
    assert failed == ([] if dry_run else [("`u2`", "no u2"), ("`u1`", "no u1")])
    monkeypatch.undo()
    assert recover.shell_line("echo a >&2; echo b >&2; exit 3") == "exit status 3: b"


@pytest.mark.parametrize("other_boot", [True, False])
def test_all_that_a_session_left_is_told_and_removed(other_boot, tmp_path, monkeypatch):
    """Of another boot only files and directories are there to be removed."""
    kinds = ("file", "cgroup", "directory", "loop", "file")
    things = [{"kind": "own", "what": what, "path": f"/x/schedlab-{n}", "index": n, "backing": ""}
              for n, what in enumerate(kinds)]  # fmt: skip
    cleanups = [{"kind": "cleanup", "label": name, "line": f"rm {name}", "order": {}}
                for name in "ab"]  # fmt: skip
    knob = {"kind": "write", "path": "/proc/sys/vm/dirty_bytes", "original": "1", "new": "2"}
    queues = [{"kind": "queue", "queue": f"/sys/block/{name}/queue", "values": {}}
              for name in ("sda", "sdb")]  # fmt: skip
    entries = tuple({"boot": "b", **each} for each in (*things, *cleanups, knob, *queues))
    log = SimpleNamespace(
        path=tmp_path / "log", is_gone=lambda: True, end_last_line=lambda: None,
        content=lambda: journal.Content(entries, other_boot, ()), append=lambda *_, **__: None,
    )  # fmt: skip
    removed, cleaned = [], []
    monkeypatch.setattr(recover, "_remove", lambda thing, *_: removed.append(thing["path"]))
    monkeypatch.setattr(recover, "_finish", lambda *_: None)
    restored = []
    monkeypatch.setattr(recover, "_restore_queue", lambda queue, *_: restored.append(str(queue)))
    monkeypatch.setattr(recover, "_restore_knobs", lambda *_: None)
    monkeypatch.setattr(emulated_removal, "quiesce", lambda things: ["quiet"])
    monkeypatch.setattr(cleanup, "run_all", lambda all_of, _: cleaned.extend(all_of) or ["1", "2"])
    told = recover.restore_session(log)
    assert restored == ([] if other_boot else [each["queue"] for each in queues])
    left = (0, 2, 4) if other_boot else range(5)
    assert removed == [f"/x/schedlab-{n}" for n in reversed(left)]
    deleted = f"{log.path} was deleted: restored from memory"
    boot = "the journal is of another boot: its settings ended with it"
    assert told.notices == [deleted, boot if other_boot else "quiet"]
    assert [each["label"] for each in cleaned] == ([] if other_boot else ["a", "b"])
    dry = recover.restore_session(log, dry_run=True)
    assert dry.cleanups == ([] if other_boot else [
        f"{name}: cleanup 'rm {name}' (would be run)" for name in "ab"])  # fmt: skip


def test_each_thing_that_cannot_be_removed_has_its_own_line(tmp_path, monkeypatch):
    def fail(thing):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(recover, "_remover", fail)
    recovery = recover.Recovery()
    ways = {"loop": "losetup -d", "mount": "umount", "cgroup": "rmdir", "directory": "rm -r",
            "file": "rm"}  # fmt: skip
    for what in ways:
        recover._remove({"what": what, "path": f"/x {what}"}, recovery, tmp_path)
    assert [(each.what, each.command) for each in recovery.failed] == [
        (f"{what} /x {what}", f"{way} '/x {what}'") for what, way in ways.items()
    ]
    here = [tmp_path / name for name in "ab"]
    for path in here:
        path.touch()
    monkeypatch.setattr(recover, "_remover", lambda thing: thing["path"] != "b")
    for path in "abc":
        recover._remove({"what": "file", "path": path}, recovery, tmp_path)
    assert recovery.removed == ["file a", "file c"]
    would = recover.Recovery(dry_run=True)
    for path in (*here, tmp_path / "absent"):
        recover._remove({"what": "file", "path": str(path)}, would, tmp_path)
    assert would.removed == [f"file {path}" for path in here]


def test_a_guardian_tells_all_that_was_restored_and_all_that_is_left(tmp_path, monkeypatch):
    failures = [recover.Failure(name, "why", f"echo {name}") for name in "ab"]
    done = recover.Recovery(removed=["x", "y"], failed=failures)
    told = []
    monkeypatch.setattr(guardian, "restore_session", lambda log: done)
    monkeypatch.setattr(guardian, "_say", told.append)
    assert guardian._restore(SimpleNamespace(path=tmp_path)) == 3
    by_hand = ["by hand: echo a", "by hand: echo b"]
    assert told[1:] == [*(f"  {line}" for line in done.lines()), *by_hand]
    told.clear()
    monkeypatch.setattr(guardian, "restore_session", lambda log: replace(done, failed=[]))
    assert guardian._restore(SimpleNamespace(path=tmp_path)) == 0 and told[-1] == "  y (removed)"


def test_entries_of_a_journal_whose_newlines_are_damaged_are_all_read(tmp_path):
    boot = journal.boot_id()
    entry = {"schema": journal.SCHEMA, "boot": boot, "kind": "x"}
    lines = [checked_line.encode({**entry, "n": n}).encode() for n in range(5)]
    path = tmp_path / "log"
    path.write_bytes(lines[0] + b"\n" + b"#".join(lines[1:4]) + b"\n" + lines[4])
    assert [entry["n"] for entry in journal.read(path).entries] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("order", ORDERS)
def test_entries_of_another_boot_are_left_out_wherever_they_stand(tmp_path, order):
    boots = [(n, journal.boot_id() if n in (1, 3) else "other") for n in range(5)][::order]
    path = tmp_path / "log"
    texts = [
        checked_line.encode({"schema": journal.SCHEMA, "boot": of, "kind": "x", "n": n})
        for n, of in boots
    ]
    path.write_text("\n".join([*texts, ""]))
    read = journal.read(path)
    assert [entry["n"] for entry in read.entries] == [1, 3][::order] and not read.other_boot


@pytest.mark.parametrize(("number", "reason"), [
    (errno.EWOULDBLOCK, "another process has locked it (flock)"),
    (errno.EACCES, "it cannot be opened (Permission denied)"),
    (errno.EBUSY, None),
])  # fmt: skip
def test_every_objection_to_a_device_that_cannot_be_held_is_told(monkeypatch, number, reason):
    def refuse(path):
        raise OSError(number, os.strerror(number))

    used = ["it is mounted on /a", "it is mounted on /b"]
    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setattr(Path, "is_block_device", lambda path: True)
    monkeypatch.setattr(devices, "reasons_in_use", lambda entry: [*used])
    monkeypatch.setattr(consent, "_named_content", lambda path: ["a", "b"])
    monkeypatch.setattr(consent, "hold", refuse)
    told = [*used, "it holds a", "it holds b", *([reason] if reason else [])]
    assert consent._examine("/dev/x", False) == (told, -1)


@pytest.mark.parametrize("broken", [False, True])
def test_every_objection_to_a_device_that_is_held_is_told(monkeypatch, broken):
    def read(*_):
        if broken:
            raise OSError(errno.EIO, "Input/output error")
        return ["it holds a", "it holds b"]

    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setattr(Path, "is_block_device", lambda path: True)
    monkeypatch.setattr(devices, "reasons_in_use", lambda entry: ["it is read-only", "it is swap"])
    monkeypatch.setattr(consent, "_content", read)
    monkeypatch.setattr(consent, "hold", lambda path: os.dup(0))
    last = ["it cannot be read (Input/output error)"] if broken else ["it holds a", "it holds b"]
    assert consent._examine("/dev/x", False) == (["it is read-only", "it is swap", *last], -1)


def test_a_device_is_looked_at_in_all_its_places_and_remembered_by_all_of_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(content, "START_BYTES", 2 << 20)
    monkeypatch.setattr(content, "END_BYTES", 1 << 20)
    size = 2 << 30
    every = [*content.places(size)]
    within = [offset for offset, length in every if length == content.BLOCK_BYTES]
    assert len(within) == len({*within}) > content.SAMPLES * 0.9
    assert sum(offset % (1 << 20) == 0 for offset in within) >= content.SAMPLES // 2
    whole = sum(length for _, length in every if length != content.BLOCK_BYTES)
    assert whole == content.START_BYTES + content.END_BYTES
    file = tmp_path / "disk"
    file.touch()
    os.truncate(file, size)
    with file.open("r+b", buffering=0) as disk:
        for at, text in ((within[500], b"\0\0abcd"), (within[-1], b"z")):
            os.pwrite(disk.fileno(), text, at)
        found = content.unknown_data(disk.fileno(), size)
        assert f"2 of {len(every)} sampled places" in found and "starting with 'abcd'" in found
        content.remember(tmp_path, "key", disk.fileno(), size)
        known = content.remembered(tmp_path, "key", size)
        assert content.unknown_data(disk.fileno(), size, known) == ""
        os.pwrite(disk.fileno(), b"y", within[-1])
        assert content.unknown_data(disk.fileno(), size, known) != ""


@pytest.mark.parametrize("lacking", range(len(doctor._ABILITIES)))
def test_each_ability_is_by_its_own_fact_and_all_that_lack_are_told(lacking, monkeypatch):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    facts = []
    for n, (_, topic, begins) in enumerate(doctor._ABILITIES):
        word = begins if isinstance(begins, str) else begins[-1]
        facts.append(doctor.Fact(topic, "no" if n in (lacking, 5) else word, ""))
        facts.append(doctor.Fact(topic, "later", ""))
    able, unable, command = doctor.summary(facts)
    lacks = [doctor._ABILITIES[n] for n in sorted({5, lacking})]
    assert unable == ", ".join(f"{ability} ({topic}: no)" for ability, topic, _ in lacks)
    has = [each[0] for each in doctor._ABILITIES if each not in lacks]
    assert able.split(", ") == [*has, "file tests"]
    assert command == ("schedlab compare --quick" if lacking else "schedlab lab run ncq-ssd")
    left = doctor.Fact("journal", "x", "", "schedlab recover")
    assert doctor.summary([*facts, left, doctor.Fact("z", "", "")])[2] == "schedlab recover"


def test_each_setter_of_each_disk_has_its_place_and_its_fate(tmp_path, monkeypatch):
    def setter(source, name, value, line=1, certain=True):
        return setters.Setter(source, tmp_path / name, line, value, certain)

    indirect = next(iter(setters.INDIRECT))
    of = {
        "sda": [setter("udev", "a", "bfq"), setter(indirect, "b", "x", line=0),
                setter("tmpfiles", "c", "none", certain=False)],
        "sdb": [setter("tmpfiles", "d", "none"), setter("udev", "e", "bfq")], "sdc": [],
    }  # fmt: skip
    for name in of:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(udev, "disk", lambda name: name)
    monkeypatch.setattr(setters, "setters_of", lambda disk, root: of[disk])
    found = [(fact.found.split(":")[0], fact.follows.split(" and ")[0].split(",")[0],
              fact.command.removeprefix("sed -n "), fact.found.endswith(", perhaps)"))
             for fact in doctor.set_by(tmp_path / "root")]  # fmt: skip
    early, wins, nothing = "it acts before others", "it wins at boot", "it sets nothing itself"
    assert found == [
        ("sda", early, f"1p {tmp_path}/a", False), ("sda", nothing, f"cat {tmp_path}/b", False),
        ("sda", wins, f"1p {tmp_path}/c", True), ("sdb", wins, f"1p {tmp_path}/d", False),
        ("sdb", early, f"1p {tmp_path}/e", False),
    ]  # fmt: skip


def test_all_layers_and_all_devices_beside_a_file_system_are_below_it(tmp_path, monkeypatch):
    for name in ("upper", "one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(devices, "mount_of", lambda path: path.name)
    monkeypatch.setattr(queues, "_mount", lambda path, mount, below, depth: queues.Node(
        f"m-{mount}", "ext4", (queues.Node(f"disk-{mount}"),)))  # fmt: skip
    lower = f"lowerdir={tmp_path}/one:{tmp_path}/absent:{tmp_path}/two"
    mount = SimpleNamespace(
        kind="overlay", super_options=("rw", f"upperdir={tmp_path}/upper", lower)
    )
    assert [(node.name, node.label, node.below[0].name)
            for node in queues._below_mount(mount, False, 3)] == [
        (f"m-{name}", f"{label} {tmp_path}/{name} on ext4", f"disk-{name}")
        for label, name in (("upper", "upper"), ("lower", "one"), ("lower", "two"))
    ]  # fmt: skip
    monkeypatch.setattr(Path, "is_block_device", lambda path: True)
    monkeypatch.setattr(knobs, "kernel_name", lambda path: path.name)
    monkeypatch.setattr(queues, "_device", lambda name, label, below: (name, label))
    xfs = SimpleNamespace(kind="xfs", super_options=("rw", "logdev=/dev/a", "rtdev=/dev/b"))
    assert [*queues._external(xfs, "sda", False)] == [
        ("a", "log device"), ("b", "realtime device")
    ]  # fmt: skip


def test_all_parts_of_a_multipath_or_cached_device_are_below_it(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path / "block")
    entry = tmp_path / "nvme0n1"
    for name in ("slaves/sda", "slaves/sdb", "multipath/nvme0c0n1", "multipath/nvme0c1n1"):
        (entry / name).mkdir(parents=True)
    for path in ("nvme1/nvme0c2n1", "nvme2/nvme0c3n1", "block/nvme0c4n1", "block/nvme0c5n1"):
        (tmp_path / path).mkdir(parents=True)
    parts = [*(f"nvme0c{number}n1" for number in range(6)), "sda", "sdb"]
    assert [*queues._parts(entry)] == parts
    tree = queues.Node("/srv", "ext4", (queues.Node("sda", "disk"), queues.Node("sdb", "disk")))
    lines = queues.QueueSet(
        "/srv", tree, ("sda", "sdb"), ("/a (ext4)", "/b (xfs)"),
        {"sda": ("it carries /", "it carries swap"), "sdb": ("it carries /b",)},
    ).lines()  # fmt: skip
    assert len([*tree.lines()]) == 3 and lines[:3] == [*tree.lines()]
    assert lines[3:] == [
        "it also affects /a (ext4)", "it also affects /b (xfs)",
        "sda is switched only when named: it carries /; it carries swap",
        "sdb is switched only when named: it carries /b",
    ]  # fmt: skip


@pytest.mark.parametrize("is_v2", [True, False])
def test_each_limit_of_a_group_is_its_own(tmp_path, is_v2):
    found = settings._limits(tmp_path, "8:0", is_v2, "rbps=1M,wiops=max riops=200")
    if is_v2:
        assert found == [(tmp_path / "io.max@8:0", f"rbps={1 << 20} wiops=max riops=200")]
    else:
        values = {"read_bps": str(1 << 20), "write_iops": "0", "read_iops": "200"}
        assert found == [(tmp_path / f"blkio.throttle.{name}_device@8:0", value)
                         for name, value in values.items()]  # fmt: skip
    for text in ("x=1,rbps=1", "rbps=1,x=1"):
        with pytest.raises(SpecError, match="'x' is no limit"):
            settings._limits(tmp_path, "8:0", is_v2, text)


def test_a_line_of_the_shell_and_its_program_are_both_looked_at():
    settings._check_line("x", "true && false")
    for line in ("if", "echo 'a", "no-such-program-anywhere x"):
        with pytest.raises(SpecError):
            settings._check_line("x", line)


def test_each_file_system_on_a_loop_device_is_written_back_and_each_failure_told(monkeypatch):
    mounts = [kernel_paths.Mount(target=f"/{name}") for name in "abc"]
    done = []

    def act(what, fails):
        def of(mount, *_):
            done.append((what, getattr(mount, "target", mount)))
            if done[-1] in fails:
                raise OSError(*fails[done[-1]])

        return of

    fails = {("sync", "/a"): (errno.EIO, "bad"), ("unmount", "/b"): (errno.EBUSY, "used"),
             ("unmount", "/c"): (errno.EIO, "worse"),
             ("flush", "/dev/loop5"): (errno.EIO, "worst")}  # fmt: skip
    monkeypatch.setattr(kernel_paths, "mounts_of_loop", lambda index: mounts)
    for name in ("sync", "flush"):
        monkeypatch.setattr(write_back, f"_{name}", act(name, fails))
    monkeypatch.setattr(write_back, "unmount", act("unmount", fails))
    written = []
    monkeypatch.setattr(write_back.os, "write", lambda descriptor, text: written.append(text))
    assert write_back.main(["x", "5"]) == 1
    assert done == [("sync", "/a"), ("sync", "/b"), ("unmount", "/b"), ("sync", "/c"),
                    ("unmount", "/c"), ("flush", "/dev/loop5")]  # fmt: skip
    assert json.loads(written[0]) == [
        "the file system on /a could not be written back: bad",
        "the file system on /c could not be written back: worse",
        "/dev/loop5 could not be written back: worst",
    ]
    for code in (errno.EINVAL, errno.ENOENT):  # gone by now
        monkeypatch.undo()
        fails = {("top", "/a"): (code, "gone")}
        monkeypatch.setattr(kernel_paths, "is_on_top", act("top", fails))
        write_back.unmount(mounts[0])
    monkeypatch.setattr(kernel_paths, "is_on_top", act("top", {("top", "/a"): (errno.EIO, "x")}))
    with pytest.raises(OSError, match="x"):
        write_back.unmount(mounts[0])


def test_all_facts_of_a_mount_and_every_tunable_are_shown(tmp_path):
    options = ("rw,noatime", ("rw", "data=x"))
    mount = kernel_paths.Mount("1", "8:1", "/dev/a", "/m\tx", "ext4", *options)
    assert mount.facts() == {
        "number": "8:1", "source": "/dev/a", "target": "/m\\tx", "kind": "ext4",
        "options": "rw,noatime", "super_options": "rw,data=x",
    }  # fmt: skip
    place = tmp_path / "sda" / "queue"
    (place / "iosched").mkdir(parents=True)
    (place / "scheduler").write_text("[bfq] none\n")
    for name in ("iosched/a", "iosched/b", "nr_requests"):
        (place / name).write_text("1\n")
    assert knobs.tunable_path(place, "b") == place / "iosched/b"
    assert knobs.tunable_path(place, "nr_requests") == place / "nr_requests"
    assert "it has a=1, b=1" in str(refused(knobs.tunable_path, place, "c"))


def test_a_value_is_ours_when_any_of_our_writes_or_their_effects_made_it():
    path = "/proc/sys/vm/dirty_bytes"
    known = known_of(
        *({"kind": "write", "path": path, "original": "0", "new": new} for new in "123")
    )
    for value in "45":
        known.caused({path: value})
    assert [known.is_ours(path, value) for value in "123456"] == [True] * 5 + [False]
    place = "/sys/block/sda/queue"
    looks = [
        {"kind": "queue", "queue": place, "values": of}
        for of in ({"nomerges": "1", "nr_requests": "2"}, {"nr_requests": "9", "rotational": "3"})
    ]
    assert known_of(*looks).originals == {
        f"{place}/{name}": of for name, of in
        (("nomerges", "1"), ("nr_requests", "2"), ("rotational", "3"))
    }  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_the_mount_of_a_directory_is_the_innermost_and_the_last(order, tmp_path, monkeypatch):
    targets = ["/", str(tmp_path), str(tmp_path / "a"), str(tmp_path / "ab")][::order]
    mounts = [kernel_paths.Mount(str(n), target=target) for n, target in enumerate(targets)]
    mounts.append(kernel_paths.Mount("last", target=str(tmp_path / "a")))
    monkeypatch.setattr(kernel_paths, "mounts", lambda: mounts)
    for place, target in (("a/b", "last"), ("ab/c", str(tmp_path / "ab")), ("c", str(tmp_path))):
        found = devices.mount_of(tmp_path / place)
        assert target in (found.identity, found.target)


def test_each_mount_of_a_disk_is_told_with_its_own_partition(monkeypatch):
    of = (("8:2", "x", "/b"), ("0:9", "/dev/sda1", "/a"), ("8:9", "/dev/sdz", "/z"),
          ("8:1", "y", "/c"))  # fmt: skip
    mounts = [kernel_paths.Mount(number=number, source=source, target=target)
              for number, source, target in of]  # fmt: skip
    there = {"self": mounts, "7": [*mounts[::-1], replace(mounts[1], source="/dev/sda2")],
             "9": [replace(mounts[0], target="/d")]}  # fmt: skip
    monkeypatch.setattr(kernel_paths, "mounts", there.get)
    monkeypatch.setattr(devices.processes, "every", lambda: [6, 7, 8, 9])
    monkeypatch.setattr(Path, "readlink", lambda link: {"6": "self", "8": "7"}.get(
        link.parts[2], link.parts[2]))  # fmt: skip
    beside = ", in the mount namespace of process"
    assert devices._mounted({"8:1": "sda1", "8:2": "sda2"}) == [
        "it is mounted on /b (sda2)", "it is mounted on /a (sda1)", "it is mounted on /c (sda1)",
        f"it is mounted on /a (sda2{beside} 7)", f"it is mounted on /d (sda2{beside} 9)",
    ]  # fmt: skip


def test_each_writer_of_a_file_is_named_by_its_own_command(tmp_path, monkeypatch):
    there = {process: f"command {process}" for process in (10, 11)}  # soon they are gone
    monkeypatch.setattr(writers, "command_of", there.pop)
    made = writers.Writers.__new__(writers.Writers)
    made._commands, made._last = {}, {}
    for name, process in (("a", 11), ("a", 10), ("b", 10), ("b", 11), ("c", 10)):
        (tmp_path / name).touch()
        assert made._note(writers._MODIFY, os.open(tmp_path / name, os.O_RDONLY), process)
    found = {Path(path).name: of for path, of in made.take().items()}
    assert found == {name: writers.Writer(process, f"command {process}")
                     for name, process in (("a", 10), ("b", 11), ("c", 10))}  # fmt: skip


def test_an_answer_of_a_server_may_come_in_parts_and_several_at_once():
    parts = [b'{"a"', b": 1", b'}\n{"b": 2}\n{"c', b'": 3}\n']
    server = emulated.Server.__new__(emulated.Server)
    server._buffer, server._socket = b"", SimpleNamespace(recv=lambda size: parts.pop(0))
    assert [server._receive() for _ in range(3)] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_the_excess_of_a_way_is_the_median_of_its_batches(monkeypatch):
    times = iter([1000.0, 10.0, 20.0, 30.0, 5000.0])
    monkeypatch.setattr(emulated_calibration, "WAY_BATCHES", 5)
    monkeypatch.setattr(emulated_calibration, "predict", lambda *_: {"mean_ns": 1e6})
    monkeypatch.setattr(emulated_calibration, "load", lambda *_, **__: (0.0, next(times)))
    server = SimpleNamespace(ask=lambda word: {"modelled": {"mean_ns": 3.0}})
    of = SimpleNamespace(dilate=1.0)
    assert emulated_calibration.way("/dev/x", server, of, "read", 512) == 27
