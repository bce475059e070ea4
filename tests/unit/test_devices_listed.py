"""Listing devices while they come and go."""

import pytest

from schedlab.errors import HostError
from schedlab.host import devices


def look(name):
    if name == "gone":
        raise FileNotFoundError(name)
    return name.upper()


def test_a_device_that_is_removed_meanwhile_is_left_out_unless_it_was_named(monkeypatch, tmp_path):
    monkeypatch.setattr(devices.knobs, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(devices.knobs, "device_name", lambda name: name)
    monkeypatch.setattr(devices, "with_queues", lambda: ("sda", "gone"))
    assert devices.each_with_queue(look) == {"sda": "SDA"}
    with pytest.raises(FileNotFoundError):
        devices.each_with_queue(look, ("gone",))
    (tmp_path / "gone" / "queue").mkdir(parents=True)  # it is there, and cannot be read
    with pytest.raises((OSError, HostError)):
        devices.each_with_queue(look)
