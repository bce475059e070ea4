"""Serial numbers in udev rules, whatever characters a device has in its own."""

from dataclasses import replace

import pytest

from schedlab.app.apply.applied import Applied
from schedlab.app.apply.apply import rule_text
from schedlab.host.settings import udev

RECORD = Applied("sdx", "wwid:eui.1", "none", "/r", "it is best", "2026-01-02", "boot", "apply")


@pytest.mark.parametrize(
    "value", ["x\ny", 'q"q', "a\\", "tab\there", "\x1b[0m", "é\x85x", "50%k $n"]
)
def test_a_serial_with_odd_characters_is_one_rule_that_matches_it(tmp_path, value):
    text = rule_text(replace(RECORD, identity=f"serial:{value}", setting="none"))
    file = tmp_path / "etc/udev/rules.d/50-x.rules"
    file.parent.mkdir(parents=True)
    file.write_text(text + "\n")
    (rule,) = udev.rules(file)
    assert rule.readable and "\n" not in text and "\x1b" not in text
    disk = tmp_path / "sys/block/sdx"
    disk.mkdir(parents=True)
    for serial, wanted in ((value, 1), ("another", 0)):
        (disk / "serial").write_text(serial)
        target = udev.disk("sdx", tmp_path / "sys", tmp_path / "run")
        assert len(udev.queue_settings(target, tmp_path)) == wanted


def test_one_parent_with_the_attribute_is_enough(tmp_path):
    """udev(7): ATTRS searches the device and its parents for one that matches."""
    own = tmp_path / "devices/host/sdx"
    (tmp_path / "block").mkdir()
    for place, vendor in ((own.parent, "A"), (own, "B")):
        place.mkdir(parents=True, exist_ok=True)
        (place / "uevent").write_text("")
        (place / "vendor").write_text(f"{vendor}\n")
    (tmp_path / "block/sdx").symlink_to(own)
    rules = tmp_path / "etc/udev/rules.d/60-x.rules"
    rules.parent.mkdir(parents=True)
    disk = udev.Disk("sdx", sysfs=tmp_path)
    for vendor, sets in (("A", 1), ("B", 1), ("C", 0)):
        rules.write_text(f'ATTRS{{vendor}}=="{vendor}", ATTR{{queue/scheduler}}="bfq"\n')
        assert len(udev.queue_settings(disk, tmp_path)) == sets
