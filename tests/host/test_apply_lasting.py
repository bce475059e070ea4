"""What keeps a setting after a reboot, on loop devices and plain files: it is never out of date."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_apply import choice, device, lasting, needs_root, quiet, root, tree

from schedlab.app.apply import applied
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.apply import Request, apply, choice_of
from schedlab.app.apply.undo import status, undo
from schedlab.errors import HostError
from schedlab.host.settings import settings, udev_service

__all__ = ["device", "lasting", "root"]


@needs_root
def test_what_keeps_a_device_follows_a_later_apply(root, device, lasting, new_loop, monkeypatch):
    reloaded = []
    monkeypatch.setattr(udev_service, "reload", lambda names, report: reloaded.append(names))
    other = Path(new_loop()).name
    files, messages = tree(root), []
    rules = root / "etc/udev/rules.d/90-schedlab.rules"
    apply(choice("bfq"), Request((device,), persist=True, root=root), quiet)
    later = Request((device, other), root=root)
    apply(choice("none"), replace(later, dry_run=True), messages.append)
    assert [line for line in messages if str(rules) in line and '"none"' in line]
    (record, unlasting) = apply(choice("none"), later, messages.append)
    assert rules.read_text().count("queue/scheduler") == 1
    assert 'ATTR{queue/scheduler}="none"' in rules.read_text()
    assert list(record.files) == [str(rules)]
    assert not unlasting.files
    assert reloaded == [[device], [device]]
    rules.write_text("# mine\n")
    with pytest.raises(HostError, match="schedlab did not write it"):
        apply(choice("bfq"), later, quiet)
    rules.unlink()
    undo([], True, quiet)
    assert tree(root) == files


@needs_root
def test_a_former_name_is_kept_as_the_name_of_today(root, device, lasting):
    messages = []
    request = Request((device,), persist=True, root=root)
    apply(choice("noop"), replace(request, dry_run=True), messages.append)
    assert any('ATTR{queue/scheduler}="none"' in line for line in messages)
    messages.clear()
    (record,) = apply(choice("noop"), request, messages.append)
    assert record.setting == "none"
    assert (
        'ATTR{queue/scheduler}="none"' in (root / "etc/udev/rules.d/90-schedlab.rules").read_text()
    )
    assert status(root)[0].holds
    assert not any("sets none" in line for line in messages)
    undo([device], False, quiet)


@pytest.fixture
def plain_cpu(tmp_path, monkeypatch):
    """Plain files represent the settings of the CPU scheduler."""
    sysctls, debug = tmp_path / "sysctls/kernel", tmp_path / "debug/sched"
    for path in (sysctls / "sched_a", sysctls / "sched_b", debug / "nr_migrate"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    for module in (settings, apply_machine):
        monkeypatch.setattr(module, "SYSCTL", sysctls.parent)
    monkeypatch.setattr(settings, "DEBUG", debug)
    return sysctls


def test_a_cpu_setting_that_cannot_be_kept_leaves_no_file_and_no_record(root, plain_cpu):
    (root / "etc/tmpfiles.d").write_text("")  # a file where the directory should be
    files = tree(root)
    with pytest.raises(HostError, match=r"tmpfiles\.d"):
        apply(
            choice_of("sched_a=2", ["nr_migrate=8"]), Request((), persist=True, root=root), quiet
        )  # fmt: skip
    assert tree(root) == files
    assert not (root / "etc/sysctl.d").exists()
    assert applied.load_all() == []
    assert (plain_cpu / "sched_a").read_text().strip() == "1"


def test_files_of_the_cpu_keep_what_any_apply_set(root, plain_cpu, tmp_path, monkeypatch):
    files, lasting = tree(root), Request((), persist=True, root=root)
    kept = root / "etc/sysctl.d/90-schedlab.conf"

    def lines():
        return kept.read_text().splitlines()[1:]

    apply(choice_of("sched_a=2", []), lasting, quiet)
    other = tmp_path / "boot_id"
    other.write_text("another-boot\n")
    monkeypatch.setattr(applied, "BOOT_ID", other)
    planned = []
    plan = Request((), persist=True, dry_run=True, root=root)
    apply(choice_of("sched_b=3", []), plan, planned.append)
    assert planned[1:] == [f"{kept}: kernel.sched_a = 2", f"{kept}: kernel.sched_b = 3"]
    apply(choice_of("sched_b=3", []), lasting, quiet)
    assert lines() == ["kernel.sched_a = 2", "kernel.sched_b = 3"]
    assert status(root)[0].record.setting == "sched_a=2,sched_b=3"
    (record,) = apply(choice_of("sched_a=4", ["nr_migrate=8"]), Request((), root=root), quiet)
    assert lines() == ["kernel.sched_a = 4", "kernel.sched_b = 3"]
    assert (root / "etc/tmpfiles.d/90-schedlab.conf").read_text().endswith(" 8\n")
    assert len(record.files) == 2
    undo(["cpu"], False, quiet)
    assert tree(root) == files
    values = [(plain_cpu / name).read_text().strip() for name in ("sched_a", "sched_b")]
    assert values == ["2", "1"]  # as this boot began
