"""Who sets the scheduler of a disk: what can be evaluated is, and what cannot is uncertain."""

from pathlib import Path

import pytest

from schedlab.host.settings import setters, udev


def disk(tmp_path, name="sda", offered="[none] mq-deadline kyber bfq", **properties):
    queue = tmp_path / "sys/block" / name / "queue"
    queue.mkdir(parents=True)
    (queue / "scheduler").write_text(f"{offered}\n")
    (queue / "rotational").write_text("1\n")
    return udev.Disk(name, {"DEVTYPE": "disk", **properties}, tmp_path / "sys", is_known=True)


def beneath(here, device):
    """Move the disk below a device with a model, on a bus with a driver."""
    device.mkdir(parents=True)
    here.path.rename(device / here.name)
    here.path.symlink_to(device / here.name)
    for each, name, text in ((device, "model", "A"), (device, "vendor", "B"),
                             (device.parent, "uevent", ""), (device, "uevent", "")):  # fmt: skip
        (each / name).write_text(f"{text}\n")
    for name, target in (("subsystem", "bus/pci"), ("driver", "drivers/ahci")):
        (here.sysfs / target).mkdir(parents=True)
        (device.parent / name).symlink_to(here.sysfs / target)


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root / name


SETS = 'ATTR{queue/scheduler}="bfq"'
RULES = {
    "a property that a rule set": ('ENV{X}="bfq", ATTR{queue/scheduler}="$env{X}"',
                                    ("bfq", True)),
    "a property that rules set":
        ('ENV{X}="b$env{Y}"\nATTR{queue/scheduler}="%E{X}"', ("%E{X}", False)),
    "a property of two": ('ENV{X}="fq"\nENV{Y}="b%E{X}"\nATTR{queue/scheduler}="$env{Y}"',
                          ("bfq", True)),
    "no such property": ('ATTR{queue/scheduler}="%E{SCHED}"', ("%E{SCHED}", False)),
    "the result of a program": ('ATTR{queue/scheduler}="$result"', ("$result", False)),
    "the same, short": ('ATTR{queue/scheduler}="%c{2}"', ("%c{2}", False)),
    "the name of the disk": ('KERNEL=="sda", ENV{of_sda}="bfq"\n'
                             'ATTR{queue/scheduler}="$env{of_%k}"', ("$env{of_%k}", False)),
    "a file of the disk": ('ATTR{queue/scheduler}="$attr{queue/mine}"', ("kyber", True)),
    "a file that is not there": ('ATTR{queue/scheduler}="%s{no}"', ("%s{no}", False)),
    "letters of any case": (f'KERNEL==i"SDA", {SETS}', ("bfq", False)),
    "letters of any case of another": (f'KERNEL==i"SDB", {SETS}', None),
    "escapes": (f'KERNEL==e"sda", {SETS}', ("bfq", True)),
    "a program": (f'PROGRAM=="/bin/false", {SETS}', ("bfq", False)),
    "a program with one =": (f'PROGRAM="/bin/false", {SETS}', ("bfq", False)),
    "an import": (f'IMPORT{{program}}="/bin/x", {SETS}', ("bfq", False)),
    "an import of a builtin": (f'IMPORT{{builtin}}="path_id", {SETS}', ("bfq", False)),
    "a parameter of the kernel": (f'IMPORT{{cmdline}}="mine", {SETS}', ("bfq", True)),
    "a parameter that is not there": (f'IMPORT{{cmdline}}="no", {SETS}', None),
    "a test of a pattern": (f'TEST=="queue/rot*", {SETS}', ("bfq", False)),
    "a test of a file": (f'TEST=="queue/rotational", {SETS}', ("bfq", True)),
    "a test of no file": (f'TEST=="queue/no", {SETS}', None),
    "a test of a mode": (f'TEST{{0111}}=="queue/rotational", {SETS}', ("bfq", False)),
    "a test of a name": (f'TEST=="/sys/block/$env{{NO}}", {SETS}', ("bfq", False)),
    "a constant": (f'CONST{{virt}}=="kvm", {SETS}', ("bfq", False)),
    "a tag": (f'TAG=="x", {SETS}', ("bfq", False)),
    "a disk by its name": ('ATTR{[block/sda]queue/scheduler}="bfq"', ("bfq", True)),
    "another disk by its name": ('ATTR{[block/sdb]queue/scheduler}="bfq"', None),
    "some disk": ('ATTR{[block/$result]queue/scheduler}="bfq"', ("bfq", False)),
    # As a real udev 252 does.
    "a final attribute": ('ATTR{queue/scheduler}:="bfq"', ("bfq", True)),
    "an attribute taken away": ('ATTR{queue/scheduler}-="bfq"', None),
    "a match with one =": (f'KERNEL="sdb", {SETS}', None),
    "an attribute that is not there": (f'ATTR{{queue/no}}!="1", {SETS}', None),
    "its empty text": (f'ATTR{{queue/no}}=="", {SETS}', None),
    "an attribute of parents that is not there": (f'ATTRS{{no}}!="1", {SETS}', None),
    "an attribute of another device": (f'ATTR{{[block/sdb]size}}=="1", {SETS}', ("bfq", False)),
    "an attribute that a rule set": (
        f'ATTR{{queue/mine}}="1"\nATTR{{queue/mine}}=="kyber", {SETS}', ("bfq", False)),
    "attributes of a parent": (f'ATTRS{{model}}=="A", ATTRS{{vendor}}=="B", {SETS}', ("bfq", True)),
    "attributes of two parents": (f'ATTRS{{model}}=="A", KERNELS=="bus", {SETS}', None),
    "a bus": (f'KERNELS=="bus", SUBSYSTEMS=="pci", DRIVERS=="ahci", {SETS}', ("bfq", True)),
    "the bus of another": (f'KERNELS=="disk", SUBSYSTEMS=="pci", {SETS}', None),
    "a directory that is no device": (f'KERNELS=="sys", {SETS}', None),
    "a jump without a label": (f'GOTO="no"\n{SETS}', ("bfq", True)),
    "a jump back": (f'LABEL="up"\nGOTO="up"\n{SETS}', ("bfq", True)),
    "a jump that is none": (f'GOTO:="end"\n{SETS}\nLABEL="end"', ("bfq", True)),
    "a jump to the last of two labels": (f'LABEL="x"\nGOTO="x"\n{SETS}\nLABEL="x"', None),
    "a jump to a second label": (f'GOTO="x"\nLABEL="y", LABEL="x", {SETS}', ("bfq", True)),
    "a doubtful one": (f'PROGRAM="a", GOTO="x"\nLABEL="y", LABEL="x", {SETS}', ("bfq", True)),
    "an escape": ('ATTR{queue/scheduler}=e"bf\\x71"', (r"bf\x71", False)),
    "a line continued twice": ('KERNEL=="sda", \\\nACTION=="change", \\\n' + SETS, ("bfq", True)),
    "its beginning counts": ('KERNEL=="sdb", \\\nACTION=="change", \\\n' + SETS, None),
    "a dollar sign": ('ENV{X}="$$k"\nENV{X}=="$k", ' + SETS, ("bfq", True)),
}  # fmt: skip


@pytest.mark.parametrize("case", RULES)
def test_rules_of_udev(tmp_path, case):
    text, expected = RULES[case]
    root = tmp_path / "root"
    write(root, "etc/udev/rules.d/99-x.rules", text + "\n")
    write(root, "proc/cmdline", "quiet mine=1\n")
    here = disk(tmp_path)
    (here.path / "queue/mine").write_text("kyber\n")
    beneath(here, tmp_path / "sys/devices/bus/disk")
    found = [(each.value, each.certain) for each in setters.setters_of(here, root)]
    assert found == ([expected] if expected else [])


def test_what_udev_stored_stays_known(tmp_path):
    text = f'PROGRAM="/bin/x", ENV{{ID_BUS}}="ata"\nENV{{ID_BUS}}=="ata", {SETS}\n'
    write(tmp_path / "root", "etc/udev/rules.d/99-x.rules", text)
    (each,) = setters.setters_of(disk(tmp_path, ID_BUS="ata"), tmp_path / "root")
    assert (each.value, each.certain) == ("bfq", True)


REFUSED = [("noop", "", None), ("cfq", "", None), ("BFQ", "", None), ("noop", "[noop] cfq", "noop"),
           ("deadline", "", "deadline"), ("adios", "[none] adios", "adios")]  # fmt: skip


@pytest.mark.parametrize(("value", "offered", "winner"), REFUSED)
def test_what_the_kernel_refuses_does_not_win(tmp_path, value, offered, winner):
    rules = f'ATTR{{queue/scheduler}}="kyber"\nATTR{{queue/scheduler}}="{value}"\n'
    write(tmp_path / "root", "etc/udev/rules.d/99-x.rules", rules)
    here = disk(tmp_path, offered=offered) if offered else disk(tmp_path)
    found = setters.setters_of(here, tmp_path / "root")
    assert [each.value for each in found] == ["kyber", value]
    assert found[1].is_refused == (winner is None)
    for last in (setters.winner_at_boot(found), setters.winner_of_udev(found)):
        assert last.value == (winner or "kyber")


SCRIPT = "[Service]\nExecStart=/bin/sh -c 'echo {} > /sys/block/{}/queue/scheduler'\n"
UNITS = {
    "an instance": ("bfq@.service", "bfq@vda.service", SCRIPT.format("bfq", "%i"), ("bfq", True)),
    "its unescaped name": ("x@.service", "x@vda.service", SCRIPT.format("kyber", "%I"),
                           ("kyber", True)),
    "the scheduler is the instance": ("x@.service", "x@bfq.service", SCRIPT.format("%i", "vda"),
                                      ("bfq", True)),
    "another instance": ("bfq@.service", "bfq@vdb.service", SCRIPT.format("bfq", "%i"), None),
    "no instance": ("bfq@.service", "kyber@vda.service", SCRIPT.format("bfq", "%i"), None),
    "a condition": ("x.service", "x.service",
                    "[Unit]\nConditionVirtualization=no\n" + SCRIPT.format("bfq", "vda"),
                    ("bfq", False)),
    "a variable": ("x.service", "x.service", SCRIPT.format("$SCHED", "vda"), ("?", False)),
    "a test": ("x.service", "x.service", SCRIPT.replace("echo", "test -e /x && echo").format(
        "bfq", "vda"), ("bfq", False)),
}  # fmt: skip


SETS_KYBER = SCRIPT.format("kyber", "vda")
DROP_INS = {
    "adds": ("x.service.d", SETS_KYBER, ["bfq", "kyber"], True),
    "replaces": ("x.service.d", SETS_KYBER.replace("ExecStart", "ExecStart=\nExecStart"), ["kyber"],
                 True),
    "takes away": ("x.service.d", "[Service]\nExecStart=\n", [], True),
    "has a condition": ("x.service.d", "[Unit]\nConditionPathExists=/x\n", ["bfq"], False),
    "stops": ("x.service.d", SETS_KYBER.replace("ExecStart", "ExecStop"), ["bfq"], True),
    "is of another": ("y.service.d", SETS_KYBER, ["bfq"], True),
}  # fmt: skip


@pytest.mark.parametrize("case", DROP_INS)
def test_drop_ins_of_systemd(tmp_path, case):
    root, (home, text, values, certain) = tmp_path / "root", DROP_INS[case]
    write(root, "etc/systemd/system/x.service", SCRIPT.format("bfq", "vda"))
    write(root, "etc/systemd/system/basic.target.wants/x.service", "")
    write(root, f"usr/lib/systemd/system/{home}/10-x.conf", text)
    found = setters.setters_of(disk(tmp_path, "vda"), root)
    assert [(each.value, each.certain) for each in found] == [(value, certain) for value in values]


def test_a_timer_and_a_drop_in_of_an_instance(tmp_path):
    root = tmp_path / "root"
    units = "usr/local/lib/systemd/system"
    write(root, f"{units}/x@.service", "[Service]\nExecStart=/bin/true\n")
    write(
        root, f"{units}/x@vda.service.d/a.conf", SCRIPT.format("bfq", "%i").replace(" >", " \\\n>")
    )
    write(root, "etc/systemd/system/timers.target.wants/x@vda.timer", "")
    (each,) = setters.setters_of(disk(tmp_path, "vda"), root)
    assert (each.value, each.certain) == ("bfq", False)


@pytest.mark.parametrize("kind", ["wants", "requires"])
@pytest.mark.parametrize("case", UNITS)
def test_units_of_systemd(tmp_path, case, kind):
    name, enabled, text, expected = UNITS[case]
    root = tmp_path / "root"
    file = write(root, f"usr/lib/systemd/system/{name}", text)
    wanted = root / f"etc/systemd/system/multi-user.target.{kind}"
    wanted.mkdir(parents=True)
    (wanted / enabled).symlink_to(file)
    found = [(each.value, each.certain) for each in setters.setters_of(disk(tmp_path, "vda"), root)]
    if expected and expected[0] == "?":
        expected = (text.splitlines()[-1], expected[1])
    assert found == ([expected] if expected else [])


PROFILES = {
    "[disk]\nelevator=bfq\n": ("bfq", True),
    "[disk]\nelevator=bfq # for all\n": ("bfq", True),
    "[disk]\nelevator=${mine}\n": ("${mine}", False),
    "[disk]\ndevices=${mine}\nelevator=bfq\n": ("bfq", False),
    "[disk]\ndevices_udev_regex=(ID_BUS=ata)\nelevator=bfq\n": ("bfq", False),
    "[disk]\nuname_regex=x86\nelevator=bfq\n": ("bfq", False),
    "[disk]\nenabled=false\nelevator=bfq\n": None,
    "[disk]\nenabled=0\nelevator=bfq\n": None,
    "[mine]\ntype=disk\ndevices=sd*\nelevator=bfq\n": ("bfq", True),
    "[mine]\ntype=disk\ndevices=vd*\nelevator=bfq\n": None,
    "[sysfs]\n/sys/block/sda/queue/scheduler=bfq\n": ("bfq", True),
    "[sysfs]\n/sys/block/sd*/queue/scheduler=bfq\n": ("bfq", True),
    "[sysfs]\n/sys/block/${disk}/queue/scheduler=bfq\n": ("bfq", False),
    "[sysfs]\n/sys/block/sda/queue/scheduler=${mine}\n": ("${mine}", False),
}


BASE = "[disk]\nelevator=kyber\n"
MERGED = {
    "over the included": ("[main]\ninclude=base\n[disk]\nelevator=bfq\n", "bfq"),
    "included if it is there": ("[main]\ninclude=-base,-no\n", "kyber"),
    "another disk": ("[main]\ninclude=base\n[disk]\ndevices=vda\n", None),
    "disabled": ("[main]\ninclude=base\n[disk]\nenabled=no\n", None),
    "replaced": ("[main]\ninclude=base\n[disk]\nreplace=1\nreadahead=4096\n", None),
    "dropped": ("[main]\ninclude=base\n[disk]\ndrop=x, elevator\n", None),
    "the first unit has the disk": (
        f"{BASE}[mine]\ntype=disk\ndevices=sda\nelevator=bfq\n",
        "kyber",
    ),
    "by priority": (f"{BASE}[mine]\ntype=disk\npriority=-1\nelevator=bfq\n", "bfq"),
    "sysfs afterwards": (f"{BASE}[sysfs]\n/sys/block/sda/queue/scheduler=bfq\n", "bfq"),
}


@pytest.mark.parametrize("case", MERGED)
def test_profiles_of_tuned_are_merged_as_tuned_does(tmp_path, case):
    root, (text, winner) = tmp_path / "root", MERGED[case]
    write(root, "etc/tuned/active_profile", "mine\n")
    write(root, "usr/lib/tuned/base/tuned.conf", BASE)
    write(root, "etc/tuned/mine/tuned.conf", text)
    last = setters.winner_at_boot(setters.setters_of(disk(tmp_path), root))
    assert (last and last.value) == winner
    assert last is None or last.certain


@pytest.mark.parametrize("text", PROFILES)
def test_profiles_of_tuned(tmp_path, text):
    root = tmp_path / "root"
    write(root, "etc/tuned/active_profile", "mine\n")
    file = write(root, "etc/tuned/mine/tuned.conf", text)
    found = setters.setters_of(disk(tmp_path), root)
    assert [(s.value, s.certain) for s in found] == [PROFILES[text]] * (PROFILES[text] is not None)
    lines = text.splitlines()
    assert all(
        (s.file, "scheduler" in lines[s.line - 1] or "elevator" in lines[s.line - 1])
        == (Path(file), True)
        for s in found
    )


TLP = {
    "the place of a disk": ('DISK_DEVICES="sdb sda"\nDISK_IOSCHED="none bfq"', [("bfq", True)]),
    "the last definition": ('DISK_IOSCHED="none"\nDISK_DEVICES="sda"\nDISK_IOSCHED="kyber"',
                            [("kyber", True)]),
    "left as it is": ('DISK_DEVICES="sda"\nDISK_IOSCHED="keep"', []),
    "not one of them": ('DISK_DEVICES="sdb"\nDISK_IOSCHED="bfq"', []),
    "disks by id": ('DISK_DEVICES="ata-x sdb nvme-y"\nDISK_IOSCHED="keep none bfq"',
                    [("keep bfq", False)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TLP)
def test_what_tlp_sets(tmp_path, name):
    text, expected = TLP[name]
    write(tmp_path, "etc/tlp.d/10-first.conf", 'DISK_DEVICES="sda"\nDISK_IOSCHED="none"\n')
    write(tmp_path, "etc/tlp.conf", f"{text}\n")
    found = setters.setters_of(disk(tmp_path), tmp_path)
    assert [(each.value, each.certain) for each in found if each.source == "TLP"] == expected


def test_of_files_of_one_name_that_of_the_first_directory_counts(tmp_path):
    for directory in ("etc", "run", "usr"):
        write(tmp_path, f"{directory}/60-a.rules", directory)
    for directory in ("run", "usr"):
        write(tmp_path, f"{directory}/50-b.rules", directory)
    found = setters.overriding(tmp_path, ("etc", "run", "usr"), "*.rules")
    assert [str(path.relative_to(tmp_path)) for path in found] == ["run/50-b.rules",
                                                                   "etc/60-a.rules"]  # fmt: skip
