"""Apply, status, undo: real loop devices, and trees of rules as distributions ship them."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from loops import needs_root

from schedlab.app.apply import applied
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.apply import Request, ToApply, apply, choice_of, rule_text
from schedlab.app.apply.undo import status, undo
from schedlab.errors import HostError, SpecError
from schedlab.host import doctor
from schedlab.host.settings import knobs, setters, settings, udev, udev_service
from schedlab.nouns import Candidate

SLICE = settings.SYSCTL / "kernel" / apply_machine.SLICE
SUSE = """\
# set optimal I/O scheduler
SUBSYSTEM!="block", GOTO="scheduler_end"
ACTION!="add|change", GOTO="scheduler_end"
ENV{DEVTYPE}!="disk", GOTO="scheduler_end"
KERNEL=="loop*|dm-*", TEST=="no-such-file", GOTO="scheduler_end"
ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="bfq"
ATTR{queue/rotational}=="0", \\
  ATTR{queue/scheduler}="kyber"
LABEL="scheduler_end"
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    tree = tmp_path / "root"
    for name in ("etc/udev/rules.d", "usr/lib/udev/rules.d", "run/udev/rules.d"):
        (tree / name).mkdir(parents=True)
    (tree / "usr/lib/udev/rules.d/60-io-scheduler.rules").write_text(SUSE)
    return tree


@pytest.fixture
def device(new_loop):
    return Path(new_loop()).name


@pytest.fixture
def lasting(monkeypatch):
    """Loop devices get no lasting rule; here they represent disks."""
    monkeypatch.setattr("schedlab.app.apply.applied.UNLASTING", ())


def tree(root):
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def choice(scheduler, **tunables):
    return ToApply(Candidate(scheduler, {"scheduler": scheduler, **tunables}))


def quiet(_):
    pass


@needs_root
def test_what_is_applied_holds_and_is_undone_byte_by_byte(root, device, lasting):
    queue = knobs.queue_of(device)
    before, rules = knobs.snapshot(queue), tree(root)
    request = Request((f"/dev/{device}",), persist=True, root=root)
    (record,) = apply(choice("bfq", low_latency=0, read_ahead_kb=64), request, quiet)
    now = knobs.snapshot(queue)
    assert (now["scheduler"], now["iosched/low_latency"], now["read_ahead_kb"]) == (
        "bfq",
        "0",
        "64",
    )
    (setting,) = status(root)
    assert setting.holds
    assert setting.after_reboot.startswith("bfq (90-schedlab.rules)")
    text = (root / "etc/udev/rules.d/90-schedlab.rules").read_text()
    assert text.index("queue/scheduler") < text.index("iosched/low_latency")
    assert record.originals
    assert undo([device], False, quiet) == [device]
    assert knobs.snapshot(queue) == before
    assert tree(root) == rules
    assert applied.load_all() == []


@needs_root
@pytest.mark.parametrize("now", ["mq-deadline", "bfq"])  # what the new kernel, or our rule, chose
def test_after_a_reboot_only_our_file_goes(root, device, lasting, monkeypatch, tmp_path, now):
    queue, rules = knobs.queue_of(device), tree(root)
    (queue / "scheduler").write_text("none")
    apply(choice("bfq"), Request((device,), persist=True, root=root), quiet)
    (queue / "scheduler").write_text(now)
    other = tmp_path / "boot_id"
    other.write_text("another-boot\n")
    monkeypatch.setattr(applied, "BOOT_ID", other)
    messages = []
    undo([device], False, messages.append)
    assert tree(root) == rules
    assert knobs.read_value(queue / "scheduler") == now
    assert not any(str(queue) in line for line in messages)


@needs_root
def test_two_devices_share_one_rule_file(root, device, lasting, new_loop):
    second = Path(new_loop()).name
    rules = tree(root)
    for name, scheduler in ((device, "bfq"), (second, "kyber")):
        apply(choice(scheduler), Request((name,), persist=True, root=root), quiet)
    file = root / "etc/udev/rules.d/90-schedlab.rules"
    assert file.read_text().count("queue/scheduler") == 2
    undo([device], False, quiet)
    assert "kyber" in file.read_text()
    assert "bfq" not in file.read_text()
    undo([second], False, quiet)
    assert tree(root) == rules


@needs_root
def test_the_second_device_of_an_apply_is_told_triggered_and_undone_as_the_first(
    root, device, lasting, new_loop, monkeypatch
):
    second = Path(new_loop()).name
    both, triggered, lines = Request((device, second), persist=True, root=root), [], []
    monkeypatch.setattr(udev_service, "reload", lambda names, report: triggered.append(names))
    mine = f'KERNEL=="{second}", ATTR{{queue/scheduler}}="none"\n'
    (root / "etc/udev/rules.d/70-mine.rules").write_text(mine)
    apply(choice("kyber"), both, lines.append)
    assert triggered == [[device, second]]
    assert any("70-mine.rules:1" in line for line in lines), lines
    records, file = applied.load_all(), root / "etc/udev/rules.d/90-schedlab.rules"
    rules = file.read_text()

    def refuse(path):
        raise HostError("no")

    with monkeypatch.context() as patch, pytest.raises(HostError, match="no"):
        patch.setattr(udev_service, "objections", refuse)
        apply(choice("bfq"), both, quiet)
    assert (applied.load_all(), file.read_text()) == (records, rules)
    for name in (device, second):
        assert knobs.read_value(knobs.queue_of(name) / "scheduler") == "kyber"
    undo([], True, quiet)
    assert applied.load_all() == [] and not file.exists()


@needs_root
def test_a_second_apply_to_two_devices_is_undone_to_what_each_had_before_the_first(
    root, device, new_loop
):
    names = (device, Path(new_loop()).name)
    for name, found in zip(names, ("none", "mq-deadline"), strict=True):
        knobs.write_value(knobs.SYS_BLOCK / name / "queue/scheduler", found)
    before = [knobs.snapshot(knobs.queue_of(name)) for name in names]
    for scheduler in ("kyber", "bfq"):
        apply(choice(scheduler), Request(names, root=root), quiet)
    assert undo(names, False, quiet) == sorted(names)
    assert [knobs.snapshot(knobs.queue_of(name)) for name in names] == before


@needs_root
def test_what_cannot_be_applied_changes_nothing(root, device, new_loop, monkeypatch):
    before = knobs.snapshot(knobs.queue_of(device))
    other = Path(new_loop()).name
    # Every device is checked before the first one is changed.
    monkeypatch.setattr("schedlab.app.apply.applied.UNLASTING", (other,))
    with pytest.raises(SpecError, match=f"{other}: schedlab writes no lasting rule"):
        apply(choice("bfq"), Request((device, other), root=root, persist=True), quiet)
    assert knobs.snapshot(knobs.queue_of(device)) == before
    with pytest.raises(HostError, match="cfs"):
        apply(choice("cfs"), Request((device,), root=root), quiet)
    with pytest.raises(HostError):
        apply(choice("bfq", nonsense=1), Request((device,), root=root), quiet)
    assert knobs.snapshot(knobs.queue_of(device)) == before
    assert applied.load_all() == []
    lines = []
    rule = root / "etc/udev/rules.d/70-mine.rules"
    rule.write_text('SUBSYSTEM=="block", ATTR{queue/scheduler}="kyber"\n')
    request = Request((device, other), root=root, dry_run=True)
    assert apply(choice("bfq"), request, lines.append) == []
    assert [line.split("/")[3] for line in lines if "queue/scheduler = " in line] == [device, other]
    assert lines.count(f"also sets it: {rule}:1 (kyber)") == 2
    rule.unlink()
    assert knobs.snapshot(knobs.queue_of(device)) == before
    with pytest.raises(SpecError, match="schedlab applied nothing"):
        undo([device], False, quiet)


@needs_root
def test_a_rule_file_of_another_program_is_not_touched(root, device, lasting):
    file = root / "etc/udev/rules.d/90-schedlab.rules"
    file.write_text('# mine\nKERNEL=="sda"\n')
    before = knobs.snapshot(knobs.queue_of(device))
    with pytest.raises(HostError, match="schedlab did not write it"):
        apply(choice("bfq"), Request((device,), persist=True, root=root), quiet)
    assert knobs.snapshot(knobs.queue_of(device)) == before
    assert file.read_text().startswith("# mine")


def disk(tmp_path, rotational="1", **properties):
    queue = tmp_path / "sys/block/sdx/queue"
    queue.mkdir(parents=True)
    (queue / "rotational").write_text(f"{rotational}\n")
    (queue / "scheduler").write_text("[none] mq-deadline kyber bfq\n")
    return udev.Disk("sdx", {"DEVTYPE": "disk", **properties}, tmp_path / "sys", is_known=True)


def test_the_rules_of_a_distribution_name_their_winner(root, tmp_path):
    settings = udev.queue_settings(disk(tmp_path), root)
    assert [(s.value, s.line, s.certain) for s in settings] == [("bfq", 6, True)]
    settings = udev.queue_settings(disk(tmp_path / "b", "0"), root)
    assert [s.value for s in settings] == ["kyber"]
    assert udev.queue_settings(disk(tmp_path / "c", DEVTYPE="partition"), root) == []


IMPORTED = 'IMPORT{cmdline}="'
RULES = [
    ("61-later", 'KERNEL=="sd*", ATTR{queue/scheduler}="mq-deadline"', "mq-deadline", True),
    ("59-final", 'ATTR{queue/scheduler}:="none"', "bfq", True),
    ("60-io-scheduler", "# overridden: nothing", None, True),
    ("99-asks", 'PROGRAM=="/bin/x", ATTR{queue/scheduler}="kyber"', "kyber", False),
    ("99-cmdline", IMPORTED + 'elevator"\nENV{elevator}=="b?q", ATTR{queue/scheduler}="kyber"',
     "kyber", True),
    ("99-cmdline", IMPORTED + 'absent"\nENV{absent}=="?*", ATTR{queue/scheduler}="none"',
     "bfq", True),
    ("99-goto", 'PROGRAM=="/bin/x", GOTO="end"\nATTR{queue/scheduler}="none"\nLABEL="end"',
     "none", False),
    ("99-skipped", 'KERNEL=="sd*", GOTO="end"\nSUBSYSTEM=="end"\nATTR{queue/scheduler}="none"\n'
     'LABEL="end"', "bfq", True),
    ("99-runs", "RUN+=\"/bin/sh -c 'echo x > /sys/block/%k/queue/scheduler'\"", "x", False),
    ("99-other", 'KERNEL=="nvme*", ATTR{queue/scheduler}="none"', "bfq", True),
    ("99-driver", 'DRIVERS=="sd", ATTR{queue/scheduler}="none"', "bfq", True),
    ("99-broken", 'KERNEL="sdx" and more', "bfq", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "value", "certain"), RULES)
def test_later_final_and_overriding_rules(root, tmp_path, name, text, value, certain):
    (root / f"etc/udev/rules.d/{name}.rules").write_text(f"{text}\n")
    (root / "proc").mkdir()
    (root / "proc/cmdline").write_text("quiet elevator=bfq\n")
    last = setters.winner_at_boot(setters.setters_of(disk(tmp_path), root))
    if value is None:
        assert last is None
        return
    assert last.value == value or value in last.value
    assert last.certain is certain


OTHERS = {
    "tmpfiles": ("etc/tmpfiles.d/x.conf", "w /sys/block/sd*/queue/scheduler - - - - kyber\n", 1),
    "systemd unit": (
        "etc/systemd/system/io.service",
        "[Service]\nExecStart=/bin/sh -c 'echo kyber > /sys/block/sdx/queue/scheduler'\n",
        2,
    ),
    "rc.local": ("etc/rc.local", "#!/bin/sh\necho kyber >/sys/block/sdx/queue/scheduler\n", 2),
    "TLP": ("etc/tlp.conf", 'DISK_DEVICES="sda sdx"\nDISK_IOSCHED="keep kyber"\n', 2),
    "tuned": ("usr/lib/tuned/mine/tuned.conf", "[main]\ninclude=base\n", 4),
}


@pytest.mark.parametrize("source", OTHERS)
def test_a_program_that_acts_after_udev_wins_at_boot_and_is_named(root, tmp_path, source):
    name, text, line = OTHERS[source]
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if source == "systemd unit":
        assert setters.winner_at_boot(setters.setters_of(disk(tmp_path), root)).source == "udev"
        wants = root / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir()
        (wants / file.name).symlink_to(file)
    if source == "tuned":
        base = root / "etc/tuned/base"
        base.mkdir(parents=True)
        (root / "etc/tuned/active_profile").write_text("mine\n")
        file = base / "tuned.conf"
        file.write_text("[disk]\n# all but one\ndevices=!sda\nelevator=kyber\n")
    settings = setters.setters_of(disk(tmp_path / "d"), root)
    last = setters.winner_at_boot(settings)
    assert (last.source, last.file, last.line, last.value, last.certain) == (
        source, file, line, "kyber", True,
    )  # fmt: skip
    assert setters.winner_of_udev(settings).value == "bfq"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("etc/tmpfiles.d/x.conf", "w /sys/block/nvme*/queue/scheduler - - - - kyber\n"),
        ("etc/tmpfiles.d/x.conf", "# w /sys/block/sdx/queue/scheduler - - - - kyber\n"),
        ("etc/rc.local", "echo kyber > /sys/block/sda/queue/scheduler\n"),
        ("etc/tlp.conf", 'DISK_DEVICES="sdx"\nDISK_IOSCHED="keep"\n'),
        ("etc/tlp.conf", 'DISK_IOSCHED="kyber bfq"\n'),
        ("etc/tuned/other/tuned.conf", "[disk]\nelevator=kyber\n"),
    ],
)
def test_what_is_for_another_disk_is_not_named(root, tmp_path, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    assert [s.source for s in setters.setters_of(disk(tmp_path / "d"), root)] == ["udev"]


BESIDE = {
    "etc/udev/rules.d/70-latency.rules": 'KERNEL=="sd*", ATTR{queue/wbt_lat_usec}="0"\n',
    "etc/tmpfiles.d/disk.conf": "w /sys/block/sd*/queue/read_ahead_kb - - - - 64\n",
    "etc/rc.local": "echo 64 > /sys/block/sdx/queue/nr_requests\n",
    "etc/modprobe.d/zfs.conf": "options zfs zfs_arc_max=9 zfs_vdev_scheduler=noop\n",
}


def test_rules_of_others_for_other_files_of_the_queue_are_listed(root, tmp_path):
    for name, text in BESIDE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    here = disk(tmp_path / "d")
    found = {(each.source, each.name, each.value) for each in setters.others(here, root)}
    assert found == {("udev", "wbt_lat_usec", "0"), ("tmpfiles", "read_ahead_kb", "64"),
                     ("rc.local", "nr_requests", "64")}  # fmt: skip
    (zfs,) = [each for each in setters.setters_of(here, root) if each.source == "ZFS"]
    assert (zfs.value, zfs.certain, zfs.line) == ("noop", False, 1)
    # Old releases of ZFS acted by it, so it never is the winner.
    assert setters.winner_at_boot(setters.setters_of(here, root)).source == "udev"


@needs_root
def test_a_dry_run_judges_with_its_own_rule_in_place(root, device, lasting):
    """A rule that is read before ours, or after it, by the names of the files."""
    request = Request((device,), persist=True, dry_run=True, root=root)
    early, late = (root / f"etc/udev/rules.d/{n}-x.rules" for n in (10, 95))
    for file, wins in ((early, False), (late, True)):
        file.write_text(f'KERNEL=="{device}", ATTR{{queue/scheduler}}="kyber"\n')
        lines = []
        apply(choice("bfq"), request, lines.append)
        assert any(f"also sets it: {file}:1 (kyber)" in line for line in lines)
        assert any(f"{file}:1 wins" in line for line in lines) == wins
        assert not (root / "etc/udev/rules.d/90-schedlab.rules").exists()
        file.unlink()


def test_a_boot_parameter_sets_nothing_and_a_nixos_gets_no_rule(root, tmp_path, device, lasting):
    (root / "proc").mkdir()
    (root / "proc/cmdline").write_text("quiet elevator=deadline\n")
    settings = setters.setters_of(disk(tmp_path / "d"), root)
    assert (settings[0].source, settings[0].value) == ("boot parameter", "deadline")
    assert setters.winner_at_boot(settings).source == "udev"
    (root / "etc/nixos").mkdir()
    (root / "etc/NIXOS").touch()
    configuration = root / "etc/nixos/configuration.nix"
    configuration.write_text('{\n  hardware.block.scheduler = {\n    "sd*" = "kyber";\n  };\n}\n')
    nixos = next(s for s in setters.setters_of(disk(tmp_path / "e"), root) if s.source == "NixOS")
    assert (nixos.file, nixos.line, nixos.value) == (configuration, 3, "kyber")
    with pytest.raises(SpecError, match="NixOS") as error:
        apply(choice("bfq"), Request((device,), persist=True, root=root), quiet)
    assert "configuration.nix" in error.value.hint


def test_a_rule_is_for_one_whole_disk_however_it_is_called(tmp_path):
    """By its WWID or serial, with what udev would take for a pattern; partitions never match."""
    record = applied.Applied(
        "sdx", 'device/wwid:t10.ATA a"b*c[1]', "bfq", "", "", "", "", "", {}, {}
    )
    rules = tmp_path / "r/etc/udev/rules.d/90-schedlab.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text(rule_text(record) + "\n")
    target = disk(tmp_path)
    wwid = target.path / "device/wwid"
    wwid.parent.mkdir()
    for text, matches in (('t10.ATA a"b*c[1]', True), ("t10.ATA other", False)):
        wwid.write_text(text + "\n")
        settings = udev.queue_settings(target, tmp_path / "r")
        assert [s.value for s in settings] == ["bfq"] * matches
    wwid.write_text('t10.ATA a"b*c[1]\n')
    for change in ({"DEVTYPE": "partition"}, {"DM_MULTIPATH_DEVICE_PATH": "1"}):
        other = replace(target, properties={**target.properties, **change})
        assert udev.queue_settings(other, tmp_path / "r") == []
    for name in ("loop7", "zram0", "dm-3"):
        (tmp_path / "sys/block" / name).symlink_to(target.path)
        assert udev.queue_settings(replace(target, name=name), tmp_path / "r") == []


@needs_root
def test_a_rule_that_cannot_be_written_leaves_no_record(root, device, lasting):
    before = knobs.snapshot(knobs.queue_of(device))
    rules = root / "etc/udev/rules.d"
    rules.rmdir()
    rules.write_text("")  # a file where the directory should be
    with pytest.raises(HostError):
        apply(choice("bfq"), Request((device,), persist=True, root=root), quiet)
    assert applied.load_all() == []
    assert knobs.snapshot(knobs.queue_of(device)) == before


@pytest.fixture
def slice_kept():
    """The machine's own slice is restored after the test, also after a failure."""
    before = SLICE.read_text()
    yield before.strip()
    SLICE.write_text(before)


@needs_root
def test_the_slice_of_the_cpu_is_applied_kept_and_undone(root, slice_kept):
    (root / "usr/lib/sysctl.d").mkdir(parents=True)
    (root / "usr/lib/sysctl.d/99-late.conf").write_text("kernel.sched_rr_timeslice_ms=7\n")
    files = tree(root)
    messages = []
    request = Request((), persist=True, root=root)
    for value in ("20", "40"):
        (record,) = apply(choice_of(f"sched_rr_timeslice_ms={value}", []), request, messages.append)
    assert SLICE.read_text().strip() == "40"
    assert "99-late.conf" in messages[-1]
    (setting,) = status(root)
    assert (setting.holds, setting.after_reboot) == (True, "7 (99-late.conf)")
    text = (root / "etc/sysctl.d/90-schedlab.conf").read_text()
    assert text.splitlines()[1:] == ["kernel.sched_rr_timeslice_ms = 40"]
    assert record.originals == {str(SLICE): slice_kept}
    assert undo(["cpu"], False, quiet) == ["machine"]
    assert SLICE.read_text().strip() == slice_kept
    assert tree(root) == files
    assert status(root) == []


@needs_root
def test_a_foreign_slice_and_a_foreign_file_are_left(root, slice_kept):
    file = root / "etc/sysctl.d/90-schedlab.conf"
    file.parent.mkdir(parents=True)
    file.write_text("# mine\n")
    one = choice_of("sched_rr_timeslice_ms=20", [])
    with pytest.raises(HostError, match="schedlab did not write it"):
        apply(one, Request((), persist=True, root=root), quiet)
    assert SLICE.read_text().strip() == slice_kept
    apply(one, Request((), root=root), quiet)
    SLICE.write_text("30")
    messages = []
    undo([], True, messages.append)
    assert SLICE.read_text().strip() == "30"
    assert "another program" in messages[0]
    with pytest.raises(SpecError, match="no device"):
        apply(one, Request(("sda",), root=root), quiet)
    for wrong in ("0", "-1", "2.5", "x"):
        with pytest.raises(SpecError, match="whole milliseconds"):
            apply(choice_of(f"sched_rr_timeslice_ms={wrong}", []), Request(()), quiet)


def test_doctor_names_who_sets_each_disk_and_who_wins(root, tmp_path, monkeypatch):
    (root / "etc/rc.local").write_text("echo kyber > /sys/block/sdx/queue/scheduler\n")
    monkeypatch.setattr(knobs, "SYS_BLOCK", disk(tmp_path).path.parent)
    known = udev.Disk("sdx", {"DEVTYPE": "disk"}, tmp_path / "sys", is_known=True)
    monkeypatch.setattr(udev, "disk", lambda name: known)
    first, second = doctor.set_by(root)
    assert "60-io-scheduler.rules:6 (bfq)" in first.found
    assert "loses" in first.follows
    assert "rc.local" in second.found
    assert "wins at boot" in second.follows


@needs_root
def test_settings_of_eevdf_are_kept_by_tmpfiles(root, tmp_path, monkeypatch, slice_kept):
    """Plain files represent debugfs, which a locked-down kernel does not open."""
    debug = tmp_path / "debug/sched"
    monkeypatch.setattr(settings, "DEBUG", debug)
    one = choice_of("base_slice_ns=2000000", ["sched_rr_timeslice_ms=20"])
    with pytest.raises(HostError, match="not mounted"):
        apply(one, Request((), root=root), quiet)
    debug.mkdir(parents=True)
    (debug / "base_slice_ns").write_text("3000000\n")
    files, messages = tree(root), []
    apply(choice_of("base_slice_ns=2500000", []), Request((), root=root), messages.append)
    assert "tmpfiles.d" in messages[-1]
    (record,) = apply(one, Request((), persist=True, root=root), messages.append)
    assert record.setting == "base_slice_ns=2000000,sched_rr_timeslice_ms=20"
    kept = (root / "etc/tmpfiles.d/90-schedlab.conf").read_text().splitlines()[1:]
    assert kept == [f"w {debug}/base_slice_ns - - - - 2000000"]
    (setting,) = status(root)
    assert setting.holds
    assert "base_slice_ns: 2000000 (90-schedlab.conf)" in setting.after_reboot
    undo(["cpu"], False, quiet)
    assert ((debug / "base_slice_ns").read_text().strip(), SLICE.read_text().strip()) == (
        "3000000", slice_kept,
    )  # fmt: skip
    assert tree(root) == files
    assert not (root / "etc/tmpfiles.d").exists()
    for wrong, message in (("nr_migrate=8", "no nr_migrate"), ("sched_nonsense=1", "no sched_non")):
        with pytest.raises(HostError, match=message):
            apply(choice_of(wrong, []), Request((), root=root), quiet)
    with pytest.raises(SpecError, match="low_latency is no setting of the machine"):
        apply(choice_of("base_slice_ns=1", ["low_latency=0"]), Request((), root=root), quiet)
