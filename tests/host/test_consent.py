"""The write gate on real loop devices: every state of a device, with and without a consent."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from device_states import MIB, SIZE, STATES, at, digest

from schedlab.errors import HostError
from schedlab.host import consent, content, journal, owned, recover
from schedlab.host.consent import Consent, consent_to, open_device, writable_path


def try_to_write(device: str, held: Consent | None) -> None:
    """Every way by which schedlab opens a device for writing, with the descriptor it gives."""
    consents = [held] if held else []
    with contextlib.suppress(HostError):
        descriptor = os.open(writable_path(device, consents), os.O_RDWR)
        os.pwrite(descriptor, b"overwritten", 0)
        os.close(descriptor)
    with contextlib.suppress(HostError):
        descriptor = open_device(device, held)
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, b"overwritten", 0)
        os.close(descriptor)


@pytest.mark.parametrize("asked", ["not", "consent", "unknown-data-too"])
@pytest.mark.parametrize("name", STATES)
def test_no_sector_is_written_without_consent(
    state: Path, loop: str, tmp_path: Path, name: str, asked: str
) -> None:
    make, reason = STATES[name]
    with make(loop, tmp_path):
        before = digest(loop)
        unknown = "unknown origin" in reason
        allowed = asked != "not" and (not reason or (unknown and asked == "unknown-data-too"))
        if asked == "not":
            assert bool(reason) == bool(consent.objections(loop))
            try_to_write(loop, None)
        elif allowed:
            with consent_to(loop, allow_unknown_data=asked == "unknown-data-too") as held:
                try_to_write(loop, held)
        else:
            with pytest.raises(HostError) as caught:
                consent_to(loop, allow_unknown_data=asked == "unknown-data-too")
            assert f"Refusing to write to {loop}: " in str(caught.value)
            assert reason in str(caught.value)
            assert caught.value.hint
            try_to_write(loop, None)
        assert (digest(loop) != before) == allowed


def test_while_it_is_held_no_program_formats_or_mounts_it(
    state: Path, loop: str, tmp_path: Path
) -> None:
    program = shutil.which("mkfs.ext4", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    assert program
    with consent_to(loop) as held:
        done = subprocess.run([program, "-q", loop], capture_output=True, text=True, check=False)
        assert (done.returncode, "in use" in done.stderr) == (1, True)
        with pytest.raises(OSError, match="busy") as caught:
            owned.mount(loop, tmp_path, "ext4")
        assert caught.value.errno == errno.EBUSY
        with pytest.raises(HostError, match="the kernel is using it"):
            consent_to(loop)
        rival = os.open(loop, os.O_RDONLY)
        with pytest.raises(BlockingIOError):  # udev asks so before it looks at a device
            fcntl.flock(rival, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(rival)
        assert held.covers(loop)
    subprocess.run([program, "-q", loop], check=True)


def test_a_swapped_device_node_does_not_redirect_writes(
    state: Path, new_loop: Callable[[], str], tmp_path: Path
) -> None:
    agreed, precious = new_loop(), new_loop()
    before = digest(precious)
    node = tmp_path / "node"
    node.symlink_to(agreed)
    with consent_to(node) as held:
        node.unlink()
        node.symlink_to(precious)
        with pytest.raises(HostError, match="not the device that you agreed to"):
            open_device(node, held)
        program = "import os, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY), b'x' * 512, 0)"
        subprocess.run([sys.executable, "-c", program, held.target], check=True)
        with pytest.raises(HostError, match="not allowed the loss"):
            writable_path(precious, [held])
    assert Path(agreed).read_bytes()[:2] == b"xx"
    assert digest(precious) == before


def test_what_we_left_there_is_known_and_what_others_change_is_not(state: Path, loop: str) -> None:
    with consent_to(loop) as held:
        with Path(held.target).open("r+b") as file:
            file.write(os.urandom(8 * MIB))
        os.fsync(held.descriptor)
        content.remember(
            journal.lasting_directory(), held.identity.lasting_key, held.descriptor, SIZE
        )
    consent_to(loop).close()
    at(9 * MIB, b"a diary without a file system")(loop)
    with pytest.raises(HostError, match="data of unknown origin"):
        consent_to(loop)


def test_a_consent_cannot_be_made_by_hand_and_ends(state: Path, loop: str) -> None:
    with pytest.raises(TypeError, match="consent_to"):
        Consent(loop, 0, consent.Identity("7:0", 1), object())
    held = consent_to(loop)
    held.close()
    assert not held.covers(loop)
    with pytest.raises(HostError, match="has ended"):
        _ = held.target


def test_large_devices_are_sampled_at_the_same_places() -> None:
    places = list(content.places(1 << 40))
    assert places == list(content.places(1 << 40))
    assert places[0] == (0, MIB)
    assert ((1 << 40) - MIB, MIB) in places
    between = [length for _, length in places if length == content.BLOCK_BYTES]
    assert len(between) == content.SAMPLES
    assert sum(length for _, length in content.places(SIZE)) == SIZE


@pytest.mark.parametrize("victims", ["owner", "both"])
def test_what_a_killed_session_has_written_counts_as_ours(
    state: Path, loop: str, victims: str
) -> None:
    """Its guardian, or the next recovery, notes what it left on the device."""
    program = (
        "import os, sys\n"
        "from schedlab.host.consent import consent_to\n"
        "from schedlab.host.control import Control\n"
        "control = Control().__enter__()\n"
        f"target = control.write_to(consent_to({loop!r}))\n"
        "os.pwrite(os.open(target, os.O_WRONLY), os.urandom(1 << 20), 3 << 20)\n"
        f"if {victims == 'both'}: os.kill(control.guardian_process_id, 9)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    recover.settle(state)
    consent_to(loop).close()
    at(15 * MIB, b"x")(loop)
    with pytest.raises(HostError, match="data of unknown origin"):
        consent_to(loop)
