"""Each refusal for lack of root names a next command that works without it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from loops import loop_device, needs_root

from schedlab.errors import SchedlabError
from schedlab.host import bootloader
from schedlab.host.safety import consent
from schedlab.host.settings import settings

PROGRAM = Path(sys.executable).with_name("schedlab")
# A user in a namespace of its own: not root, and without its abilities.
PLAIN = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


def plain(words, where):
    done = subprocess.run(
        [*PLAIN, PROGRAM, *words], cwd=where, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "HOME": str(where)}, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout, " ".join(done.stderr.split())


@pytest.fixture(scope="module", autouse=True)
def _namespaces():
    if subprocess.run([*PLAIN, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")


REFUSED = [
    "compare --quick", "compare --scratch 64M --dry-run", "compare --model sata-ssd",
    "tune --scratch 64M", "device up disk7200", "lab run interference", "lab run ncq-depth",
    "lab run iozone-schedulers", "lab run block-size", "cpu compare --policies fifo",
    "lab run rr-quantum", "cpu run 2 1s --policy rr",
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", REFUSED)
def test_a_refusal_names_what_works_without_root(command, tmp_path):
    code, _, err = plain(command.split(), tmp_path)
    assert code == 2, err
    hint = re.search(r"; without root: (.*)$", err)[1]
    if hint == "the same with --directory .":
        hint = f"schedlab {command} --directory ."
    words = shlex.split(hint)
    assert words[0] == "schedlab"
    dry = [] if words[1:3] == ["sim", "cpu"] else ["--dry-run"]
    code, out, err = plain([*words[1:], *dry], tmp_path)
    assert code == 0 and out, err


def test_the_first_steps_of_the_readme(tmp_path):
    """doctor, its next command, and the same question here."""
    code, out, _ = plain(["doctor"], tmp_path)
    assert code in (0, 1)
    text = " ".join(out.split())
    assert "Next sudo schedlab compare --quick; without root: schedlab lab run ncq-ssd" in text
    code, out, err = plain(["lab", "run", "ncq-ssd", "--dry-run"], tmp_path)
    assert code == 0 and out, err


def hint_without_root(call):
    """The hint of an error in a process without rights; empty where there is none."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        try:
            call()
        except SchedlabError as error:
            os.write(writing, error.hint.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


@needs_root
def test_what_only_root_may_write_or_open_has_a_way_without(tmp_path):
    name, place = "sysctl.vm.swappiness", settings.SettingScope()
    with loop_device(tmp_path / "disk", 1 << 20) as device:
        for call, way in (
            (lambda: settings.check(name, 5, place), "schedlab sim compare"),
            (lambda: consent.consent_to(device), "--directory DIR"),
            (lambda: bootloader.write_file(tmp_path / "grubenv", ""), "schedlab compare --kernel"),
        ):
            hint = hint_without_root(call)
            assert f"; without root: {way}" in hint, hint
