"""Of several disks, queues, files, rules, CPUs, processes or sessions each counts: rooms that look
at the host, with plain directories in the place of sysfs."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_setters import disk, write

from schedlab.errors import HostError
from schedlab.host import bootloader, devices, doctor, facts, processes, queues
from schedlab.host.queues import Node
from schedlab.host.safety import journal, leftovers, recover
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, setters, settings, udev, writers


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """A directory in the place of /sys/block and /sys/class/block."""
    for name in ("SYS_BLOCK", "CLASS_BLOCK"):
        monkeypatch.setattr(knobs, name, tmp_path / "block")
    return tmp_path / "block"


def test_all_disks_below_a_directory_are_found_through_all_layers(blocks, monkeypatch):
    for name in ("md0/slaves/sda", "md0/slaves/sdb", "sda", "sdb", "sdc", "md0/slaves/dm-0",
                 "dm-0/slaves/sdd", "dm-0/slaves/sde", "sdd", "sde",
                 "bcache0/slaves/sda", "bcache0/slaves/sdb"):  # fmt: skip
        (blocks / name).mkdir(parents=True)
    monkeypatch.setattr(devices, "_sources_of", lambda directory: ["md0", "sdc"])
    assert devices.disks_below("/srv") == ("sda", "sdb", "sdc", "sdd", "sde")
    monkeypatch.setattr(knobs, "device_name", lambda name: name.rpartition("/")[2])
    assert devices.each_with_queue(str.upper, ["/dev/sdb", "/x/sda"]) == {
        "sdb": "/DEV/SDB", "sda": "/X/SDA"
    }  # fmt: skip
    caches = [blocks / f"sd{letter}" / "bcache" for letter in "yx"]
    (blocks / "bcache0/bcache/cache").mkdir(parents=True)
    for number, cache in enumerate(caches):
        cache.mkdir(parents=True)
        (blocks / f"bcache0/bcache/cache/cache{number}").symlink_to(cache)
    assert queues._parts(blocks / "bcache0") == ("sda", "sdb", "sdx", "sdy")
    assert facts.device("md0")["below"] == ["dm-0", "sda", "sdb"]


def test_a_tree_has_all_that_is_below(tmp_path):
    (tmp_path / "scheduler").write_text("[none]")
    leaves = [Node(f"sd{letter}", "disk", queue=tmp_path) for letter in "cba"]
    tree = Node("md0", "md", (Node("dm-0", "dm", tuple(leaves[:2])), leaves[2]))
    names = [line.split()[1].rstrip(":") for line in tree.lines()]
    assert names == ["md0", "dm-0", "sdc", "sdb", "sda"] == [node.name for node in tree.walk()]
    assert queues._names(tree) == ("sda", "sdb", "sdc")


def test_all_nodes_below_a_mount_have_their_queues(tmp_path, monkeypatch):
    disks = [Node(f"sd{letter}", "disk", queue=tmp_path) for letter in "abc"]
    nodes = [Node("md0", "md", tuple(disks[:2])), disks[2]]
    monkeypatch.setattr(queues, "_below_mount", lambda *of: iter(nodes))
    assert queues.queues_of(SimpleNamespace()) == {"sda", "sdb", "sdc"}


def test_what_a_driver_takes_is_the_sum_of_its_queues(blocks, monkeypatch):
    depths = {}
    for number, (tags, depth) in enumerate([(31, 7), (32, 8), (64, 16)]):
        (blocks / f"sda/mq/{number}").mkdir(parents=True)
        (blocks / f"sda/mq/{number}/nr_tags").write_text(str(tags))
        lines = f"nr_tags={tags}\nnr_reserved_tags=0\ndepth={depth}\n"
        depths[f"/sys/kernel/debug/block/sda/hctx{number}/tags"] = lines
    plain = facts.text
    monkeypatch.setattr(facts, "text", lambda path: depths.get(str(path)) or plain(path))
    found = facts.queue_facts("sda")
    assert [found[key] for key in ("hardware_queues", "driver_tags", "driver_tags_in_use")] == [
        3, 127, 31
    ]  # fmt: skip


def test_all_cpus_devices_and_words_are_among_the_facts(tmp_path, monkeypatch):
    for number, governor in enumerate(("powersave", "performance", "powersave")):
        write(tmp_path, f"cpufreq/policy{number}/scaling_governor", governor)
    monkeypatch.setattr(facts, "CPU", tmp_path)
    assert facts.governors() == {
        "policy0": "powersave", "policy1": "performance", "policy2": "powersave"
    }  # fmt: skip
    (fact, *_) = doctor.processor()
    assert fact.found == "performance, powersave"
    for at in range(3):  # the second and the last, whatever their order is
        for number in range(3):
            bits = "000001" if number == at else "000010"
            write(tmp_path, f"virtio_balloon/virtio{number}/features", bits)
        assert facts.free_pages_reported(tmp_path)
    (tmp_path / "virtio_balloon/virtio2/features").write_text("000010")
    assert not facts.free_pages_reported(tmp_path)
    words = {"/sys/class/dmi/id/sys_vendor": "QEMU", "/sys/class/dmi/id/product_name": "PC"}
    monkeypatch.setattr(facts, "text", lambda path: words.get(str(path)))
    assert facts.virtualisation()["product"] == "QEMU PC"


def test_doctor_names_all_that_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "text", lambda path: "CapEff:\t0000000000000000\n")
    missing = ", ".join(doctor._CAPABILITIES)
    assert next(doctor.privileges()).found.endswith(f"without {missing}")
    modules = ["bfq", "kyber-iosched", "mq-deadline"]
    for name in modules:
        write(tmp_path, f"kernel/block/{name}.ko.xz", "")
    (fact,) = doctor.scheduler_modules(tmp_path)
    assert fact.found.split() == modules
    assert [each.split()[1] for each in fact.command.split("; ")] == modules
    monkeypatch.setattr(devices, "disks_below", lambda directory: ("sda", "sdb"))
    (fact,) = doctor.space(tmp_path)
    assert fact.found.endswith(" on sda, sdb)")


def test_doctor_names_every_disk_session_and_left_over(blocks, tmp_path, monkeypatch):
    for name in ("sda", "sdb"):
        (blocks / name).mkdir(parents=True)
    each = [setters.Setter("tmpfiles", tmp_path / file, 1, "bfq") for file in "ab"]
    monkeypatch.setattr(setters, "setters_of", lambda *of: each)
    found = [fact.found for fact in doctor.set_by(tmp_path)]
    assert [state.split(":")[0] for state in found] == ["sda", "sda", "sdb", "sdb"]
    assert [f"{tmp_path}/{'ab'[n % 2]}" in state for n, state in enumerate(found)] == [True] * 4
    paths = [tmp_path / name for name in ("one", "other")]
    left = [leftovers.Leftover("file", str(path)) for path in paths]
    for path in paths:
        path.touch()
    monkeypatch.setattr(journal, "sessions", lambda directory: paths)
    monkeypatch.setattr(journal, "read", lambda path: SimpleNamespace(owner="1 x"))
    monkeypatch.setattr(journal, "is_alive", lambda owner: False)
    monkeypatch.setattr(leftovers, "stale", lambda directory: left)
    assert [fact.found.split()[0] for fact in doctor.session()] == list(map(str, paths))
    assert [fact.found for fact in doctor.left_over()] == list(map(str, paths))


def test_what_every_session_left_is_restored(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("dead1", "alive1", "dead2", "alive2")]
    for path in paths[1::2]:
        path.touch()
    monkeypatch.setattr(journal, "sessions", lambda directory: paths)
    monkeypatch.setattr(journal, "read", lambda path: SimpleNamespace(owner=path.name))
    monkeypatch.setattr(
        recover, "restore_stale_session",
        lambda path, *of: None if path.exists() else recover.Recovery(removed=[path.name]),
    )  # fmt: skip
    left = [leftovers.Leftover("file", name) for name in ("f", "g")]
    monkeypatch.setattr(leftovers, "stale", lambda directory: left)
    monkeypatch.setattr(recover, "_remove", lambda of, into, _: into.removed.append(of["path"]))
    done = recover.restore_all(tmp_path)
    assert done.removed == ["dead1", "dead2", "f", "g"]
    assert [notice.split()[-1] for notice in done.notices] == ["alive1", "alive2"]


def test_a_knob_that_another_resets_is_restored_again(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text("1")
    resets = [True]

    def write_knob(path, text, known):
        Path(path).write_text(text)
        if path == str(paths[1]) and resets:
            paths[0].write_text("1" if resets.pop() else "")
        return ""

    monkeypatch.setattr(recover, "_write", write_knob)
    known = SimpleNamespace(originals={str(path): "2" for path in paths},
                            is_ours=lambda path, value: True)  # fmt: skip
    done = recover.Recovery()
    recover._restore_knobs(list(map(str, paths)), known, done)
    assert [each.path for each in done.restored] == list(map(str, paths)) and not done.failed


def test_notes_of_all_that_was_left_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv(journal.LASTING_VARIABLE, str(tmp_path / "lasting"))
    for name in ("/b", "/e", "/a", "/d", "/c"):
        leftovers._note(tmp_path, tmp_path / "gone", "file", name)
    (next(leftovers._directory(tmp_path).iterdir()).parent / "0.jsonl").write_text("damaged")
    assert [each.path for each in leftovers.stale(tmp_path)] == [*map("/{}".format, "abcde")]


def test_descendants_are_the_children_of_all_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PROC", tmp_path)
    children = {"1/task/1": "2 3", "1/task/9": "4", "2/task/2": "5", "3/task/3": "6 7"}
    for number in range(1, 8):
        write(tmp_path, f"{number}/stat", f"{number} (x) {'Z' if number == 4 else 'S'} 1")
        children.setdefault(f"{number}/task/{number}", "")
    for task, text in children.items():
        write(tmp_path, f"{task}/children", text)
    assert sorted(processes.descendants([1])) == [2, 3, 5, 6, 7]


def test_either_name_of_grub_and_every_line_of_its_environment(tmp_path, monkeypatch):
    for name in ("grub2", "grub"):
        write(tmp_path, f"boot/{name}/grub.cfg", "")
        found = bootloader.bootloader("", tmp_path)
        assert found.directory.name == name
    write(tmp_path, "boot/grub/grubenv", "")
    monkeypatch.setattr(found, "_run", lambda *of: "saved_entry=old\nnext_entry=ours\nx=1\n")
    assert found.chosen() == "ours"


def test_every_line_of_every_file_may_set_the_scheduler(tmp_path):
    root, here = tmp_path / "root", disk(tmp_path)
    write(root, "etc/modprobe.d/a.conf", "options zfs zfs_arc_max=1\n")
    write(root, "etc/modprobe.d/b.conf", "x\noptions zfs zfs_vdev_scheduler=none\n")
    write(root, "etc/nixos/a.nix", "{\n}\n")
    write(
        root, "etc/nixos/b.nix", 'hardware.block.scheduler = {\n"vd*" = "none";\n"sd*" = "bfq";\n'
    )
    write(root, "etc/rc.local", "true\necho kyber > /sys/block/sda/queue/scheduler\n"
                                "echo 9 > /sys/block/sda/queue/nr_requests\n"
                                "echo 8 > /sys/block/sda/queue/read_ahead_kb\n")  # fmt: skip
    found = setters.setters_of(here, root)
    assert [(each.source, each.value) for each in found if each.source != "udev"] == [
        ("ZFS", "none"), ("NixOS", "bfq"), ("rc.local", "kyber")
    ]  # fmt: skip
    others = [(each.name, each.value) for each in setters.others(here, root)]
    assert others == [("nr_requests", "9"), ("read_ahead_kb", "8")]


def test_the_last_file_of_tlp_counts(tmp_path):
    for name, value in (("10-a", "none"), ("20-b", "kyber"), ("15-c", "bfq")):
        write(
            tmp_path,
            f"etc/tlp.d/{name}.conf",
            f'DISK_DEVICES="sdb sda"\nDISK_IOSCHED="keep {value}"',
        )
    here = disk(tmp_path)
    found = setters.setters_of(here, tmp_path)
    assert [each.value for each in found if each.source == "TLP"] == ["kyber"]
    for file in (tmp_path / "etc/tlp.d").iterdir():
        file.unlink()
    write(tmp_path, "etc/tlp.conf", 'DISK_IOSCHED="kyber bfq none"\n')
    found = setters.setters_of(here, tmp_path)  # the usual list has it as its second
    assert [each.value for each in found if each.source == "TLP"] == ["bfq"]


def test_all_profiles_units_and_keys_of_tuned_count(tmp_path):
    root, base = tmp_path / "root", "[a]\ntype=disk\nelevator=none\nreadahead=1\n"
    write(root, "etc/tuned/active_profile", "one other\n")
    write(root, "etc/tuned/one/tuned.conf", base)
    write(root, "etc/tuned/other/tuned.conf", "[a]\ntype=disk\nx=1\n"
          "[b]\ntype=disk\nelevator=kyber\n[c]\ntype=sysfs\n/sys/block/sda/queue/nr_requests=9\n"
          "/sys/block/sda/queue/scheduler=bfq\n")  # fmt: skip
    found = setters.setters_of(disk(tmp_path), root)
    assert [(each.value, each.certain) for each in found] == [("none", True), ("bfq", True)]


def test_every_file_of_nixos_and_every_unit_before_may_have_the_disk(tmp_path):
    root = tmp_path / "root"
    for name in "abc":
        text = f'hardware.block.scheduler = {{\n"sd*" = "none";\n"sd{name}" = "bfq";\n'
        write(root / name, f"etc/nixos/{name}.nix", text)
    for name in "abc":
        (found,) = setters._nixos(f"sd{name}", root / name)
        assert (found.file.name, found.value) == (f"{name}.nix", "bfq")
    sections = {"a": "uname_regex=x\nelevator=none", "b": "elevator=kyber", "c": "elevator=bfq"}
    text = "".join(f"[{name}]\ntype=disk\n{lines}\n" for name, lines in sections.items())
    write(root, "etc/tuned/active_profile", "one\n")
    write(root, "etc/tuned/one/tuned.conf", text)
    found = setters._tuned("sda", root, {})
    assert [(each.value, each.certain) for each in found] == [("none", False), ("kyber", False)]


@pytest.mark.parametrize(("listed", "expected"), [
    ("vd* sd*", True), ("sd* vd*", True), ("vd* xvd*", False), ("!sdb, !sda", False),
    ("!sda; !sdb", False), ("!sdb !sdc", True), ("vd* sd* !sda !sdb", False),
])  # fmt: skip
def test_every_word_of_a_list_of_disks_counts(listed, expected):
    assert setters._is_listed("sda", listed) == expected


def test_udev_knows_all_properties_and_all_rules(tmp_path):
    write(tmp_path, "sys/block/sda/dev", "8:0\n")
    write(tmp_path, "run/udev/data/b8:0", "S:disk\nE:A=1\nE:B=2\n")
    here = udev.disk("sda", tmp_path / "sys", tmp_path / "run")
    assert (here.properties["A"], here.properties["B"]) == ("1", "2")
    home = tmp_path / "etc/udev/rules.d"
    planned = {home / f"{name}.rules": "" for name in ("90-b", "80-a")}
    for directory in udev.DIRECTORIES:
        write(tmp_path / "all", f"{directory}/{directory.replace('/', '-')}.rules", "")
    assert len(udev.rule_files(tmp_path / "all", {})) == len(udev.DIRECTORIES)
    assert udev.rule_files(tmp_path, planned) == [home / "80-a.rules", home / "90-b.rules"]


def test_what_two_settings_of_one_rule_changed_is_unknown_to_later_rules(tmp_path):
    target = disk(tmp_path)
    for name in ("nr_requests", "read_ahead_kb"):
        (target.path / "queue" / name).write_text("1")
    write(tmp_path, "etc/udev/rules.d/09.rules", 'KERNEL=="sdz", ATTR{queue/scheduler}="none"\n')
    write(tmp_path, "etc/udev/rules.d/10.rules",
          'ATTR{queue/nr_requests}="2", ATTR{queue/read_ahead_kb}="2"\n'
          'ATTR{queue/nr_requests}=="1", ATTR{queue/scheduler}="kyber"\n'
          'ATTR{queue/read_ahead_kb}=="1", ATTR{queue/scheduler}="bfq"\n')  # fmt: skip
    found = udev.queue_settings(target, tmp_path)
    assert [(each.value, each.certain) for each in found if each.name == "scheduler"] == [
        ("kyber", False), ("bfq", False)
    ]  # fmt: skip
    token = udev.Token("TAG", "", "==", "B", True)
    assert [udev._agrees(token, each) for each in (["A", "b"], ["b", "A"], ["A", "c"])] == [
        True, True, False
    ]  # fmt: skip


def test_writes_to_all_files_are_marked(tmp_path):
    marked = []
    seen = writers.Writers()
    seen.close()
    library = SimpleNamespace(fanotify_mark=lambda *of: marked.append(of[-1]))
    seen._libc, seen._descriptor = library, os.open(tmp_path, os.O_RDONLY)
    seen.mark([tmp_path / "a", tmp_path / "b"])
    assert marked == [os.fsencode(tmp_path / name) for name in "ab"]
    seen.close()


def test_a_tunable_of_any_device_and_a_file_of_any_name_are_known(blocks, monkeypatch):
    for name, scheduler, tunables in (("sda", "none", ""), ("sdb", "bfq", "low new"),
                                      ("sdc", "bfq", "other")):  # fmt: skip
        write(blocks, f"{name}/queue/scheduler", f"[{scheduler}]\n")
        for tunable in tunables.split():
            write(blocks, f"{name}/queue/iosched/{tunable}", "1")
        for file in ("nr_requests", "read_ahead_kb"):
            write(blocks, f"{name}/queue/{file}", "1")
    monkeypatch.setattr(knobs, "iosched", dict)
    assert settings._tunables_of("bfq") == {"low", "new", "other"}
    for name in ("nr_requests", "read_ahead_kb", "other"):
        settings.check_tunable(name, "bfq", blocks / "sda/queue")
    with pytest.raises(HostError):
        settings.check_tunable("unknown", "bfq", blocks / "sda/queue")


def test_both_weights_of_a_group_are_set_and_every_parameter_may_be_meant(tmp_path, monkeypatch):
    monkeypatch.setattr(
        settings, "io_hierarchy", lambda: SimpleNamespace(root=tmp_path, is_v2=True)
    )
    for name in ("io.bfq.weight", "io.weight"):
        (tmp_path / name).touch()
    assert settings.group_knobs(tmp_path, "io.weight", "50", "sda") == [
        (tmp_path / "io.bfq.weight@default", "50"), (tmp_path / "io.weight@default", "50")
    ]  # fmt: skip
    monkeypatch.setattr(settings, "MODULES", tmp_path)
    for name in ("alpha", "beta"):
        write(tmp_path, f"loop/parameters/{name}", "1")
    for wrong, right in (("alpho", "alpha"), ("bete", "beta")):
        with pytest.raises(HostError) as error:
            settings.resolve(f"module.loop.{wrong}", "1", settings.SettingScope())
        assert right in error.value.hint


def test_knobs_in_no_queue_of_several_are_elsewhere():
    known = SimpleNamespace(
        queues=[Path("/sys/a/queue"), Path("/sys/b/queue")],
        originals=dict.fromkeys(("/p", "/sys/a/queue/x", "/q", "/sys/b/queue/x"), "1"),
    )
    assert recover._Knowledge.knobs_elsewhere(known) == ["/q", "/p"]


def test_what_a_command_changed_is_known_of_every_queue(monkeypatch):
    monkeypatch.setattr(recover, "shell_line", lambda line: "")
    monkeypatch.setattr(knobs, "snapshot", dict)
    seen = []
    host = SimpleNamespace(
        _guard=lambda of: None, _commands={}, _queues=((), ()),
        _journal=SimpleNamespace(append=lambda *of, **more: None),
        _expect=lambda queue, found: seen.append(queue),
    )  # fmt: skip
    assert Control.run_command(host, "run", "undo") == 1
    assert len(seen) == 2


@pytest.mark.parametrize("order", [1, -1])
def test_a_planned_file_is_judged_for_what_it_is(order, tmp_path):
    write(tmp_path, "etc/tuned/active_profile", "old\n")
    texts = {"active_profile": "mine", "mine/tuned.conf": "[disk]\nelevator=bfq\n"}
    planned = {tmp_path / "etc/tuned" / name: texts[name] for name in [*texts][::order]}
    found = setters.setters_of(disk(tmp_path), tmp_path, planned)
    assert [setter.value for setter in found] == ["bfq"]


def test_a_line_that_goes_on_at_the_end_of_a_file_is_not_part_of_the_next(tmp_path):
    first, second = (tmp_path / name for name in ("a.service", "b.conf"))
    first.write_text("[Service]\nExecStart=one \\\nand \\\nmore\nExecStart=cut \\\n")
    second.write_text("ExecStartPost=two\n")
    lines = [text for _, _, text in setters._commands_of([first, second])]
    assert lines == ["ExecStart=one and more", "ExecStartPost=two"]
