"""A journal that names what is neither a setting nor ours, and what is no journal at all."""

import json
import os
import stat
from pathlib import Path

import pytest
from dying import die, schedlab

from schedlab.errors import HostError
from schedlab.host.safety import journal
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs

FOREIGN = [
    {"kind": "write", "path": "FILE", "original": "0", "new": "1"},
    {"kind": "write", "path": "/proc/sysrq-trigger", "original": "b", "new": "1"},
    {"kind": "write", "path": "/sys/block/../../FILE", "original": "0", "new": "1"},
    {"kind": "write", "path": "/sys/block/DISK/queue/../../../FILE", "original": "0", "new": "1"},
    {"kind": "write", "path": "/sys/fs/cgroup/cgroup.kill", "original": "1", "new": "0"},
    {"kind": "queue", "queue": "PLACE", "values": {"file": "0"}},
    {"kind": "queue", "queue": "/sys/block/DISK/queue", "values": {"../../../../FILE": "0"}},
    {"kind": "own", "what": "file", "path": "FILE"},
    {"kind": "own", "what": "directory", "path": "PLACE"},
    {"kind": "own", "what": "mount", "path": "PLACE"},
    {"kind": "own", "what": "cgroup", "path": "PLACE"},
    {"kind": "own", "what": "emulated", "path": "PLACE"},
]


@pytest.mark.parametrize("entry", FOREIGN, ids=lambda entry: f"{entry['kind']}-{entry.get('path')}")
def test_an_entry_that_names_another_file_is_refused_and_the_rest_restored(
    state, loop, tmp_path, entry
):
    place = tmp_path / "place"
    place.mkdir()
    file = place / "file"
    file.write_text("1", encoding="ascii")
    words = {"FILE": str(file), "PLACE": str(place), "DISK": Path(loop).name}
    text = json.dumps(entry)
    for word, value in words.items():
        text = text.replace(word, value)
    entry = json.loads(text)
    die(loop, f"control.set_scheduler(device, 'bfq')\ncontrol._journal.append(**{entry!r})")
    result = schedlab("recover")
    assert result.returncode == 2, result.stderr
    assert "which is no setting and nothing of schedlab's: it is left alone" in result.stderr
    assert "hint:" in result.stderr
    assert file.read_text(encoding="ascii") == "1"
    assert knobs.read_value(knobs.scheduler_file(loop)) == "none"
    assert journal.sessions(state) == []
    assert schedlab("recover").returncode == 0


def test_a_path_that_recovering_would_refuse_is_not_written(state, tmp_path):
    file = tmp_path / "file"
    file.write_text("1", encoding="ascii")
    with Control() as control, pytest.raises(HostError, match="no setting that schedlab changes"):
        control.write_knob(file, 2)
    assert file.read_text(encoding="ascii") == "1"


def _put_odd(kind, path):
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "device":
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero has no end
    else:
        with path.open("wb") as file:
            file.truncate(journal.BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("command", "kind"),
    [*((["recover"], kind) for kind in ("fifo", "directory", "link", "device", "too large")),
     (["io", "get"], "device"), (["io", "set", "none"], "link"), (["doctor"], "fifo")],
)  # fmt: skip
def test_what_is_no_journal_is_an_error_and_nothing_is_waited_for(state, loop, kind, command):
    journal.prepare(state)
    path = state / "session-00000000000000000001-1.jsonl"
    _put_odd(kind, path)
    words = [*command, loop] if command[0] == "io" else command
    result = schedlab(*words)
    assert "Traceback" not in result.stderr
    if command != ["doctor"]:
        assert result.returncode == 3, result.stderr
        assert str(path) in result.stderr and "hint:" in result.stderr
    assert path.is_symlink() or path.exists()
