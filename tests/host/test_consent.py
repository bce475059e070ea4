"""The write gate on real loop devices: every state of a device, with and without a consent."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from device_states import LUKS, MIB, SIZE, STATES, at, digest
from dying import die, new_journal

from schedlab.errors import HostError
from schedlab.host import content
from schedlab.host.safety import consent, journal, owned, recover
from schedlab.host.safety.consent import Consent, consent_to


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STATES)
def test_no_sector_is_written_without_consent(state, loop, tmp_path, name):
    make, reason = STATES[name]
    with make(loop, tmp_path):
        before = digest(loop)
        assert bool(reason) == bool(consent.objections(loop))
        for also_unknown in (False, True):
            before = digest(loop)
            allowed = not reason or ("unknown origin" in reason and also_unknown)
            if allowed:
                with consent_to(loop, allow_unknown_data=also_unknown) as held:
                    Path(held.target).write_bytes(b"overwritten")
            else:
                with pytest.raises(HostError) as caught:
                    consent_to(loop, allow_unknown_data=also_unknown)
                assert f"Refusing to write to {loop}: " in str(caught.value)
                assert reason in str(caught.value)
                assert caught.value.hint
            assert (digest(loop) != before) == allowed
            if allowed:
                break


def test_while_it_is_held_no_program_formats_or_mounts_it(state, loop, tmp_path):
    program = shutil.which("mkfs.ext4", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    assert program
    with consent_to(loop) as held:
        result = subprocess.run([program, "-q", loop], capture_output=True, text=True, check=False)
        assert (result.returncode, "in use" in result.stderr) == (1, True)
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


def test_a_swapped_device_node_does_not_redirect_writes(state, new_loop, tmp_path):
    agreed, precious = new_loop(), new_loop()
    before = digest(precious)
    node = tmp_path / "node"
    node.symlink_to(agreed)
    with consent_to(node) as held:
        node.unlink()
        node.symlink_to(precious)
        assert not held.covers(node)
        program = "import os, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY), b'x' * 512, 0)"
        subprocess.run([sys.executable, "-c", program, held.target], check=True)
    assert Path(agreed).read_bytes()[:2] == b"xx"
    assert digest(precious) == before


def test_what_we_left_there_is_known_and_what_others_change_is_not(state, loop):
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


def test_a_consent_cannot_be_made_by_hand_and_ends(state, loop):
    with pytest.raises(TypeError, match="consent_to"):
        Consent(loop, 0, consent.Identity("7:0", 1), object())
    held = consent_to(loop)
    held.close()
    assert not held.covers(loop)
    with pytest.raises(HostError, match="has ended"):
        _ = held.target


def test_large_devices_are_sampled_at_the_same_places():
    places = list(content.places(1 << 40))
    assert places == list(content.places(1 << 40))
    assert places[0] == (0, MIB)
    assert ((1 << 40) - MIB, MIB) in places
    between = [length for _, length in places if length == content.BLOCK_BYTES]
    assert len(between) == content.SAMPLES
    assert sum(length for _, length in content.places(SIZE)) == SIZE


@pytest.mark.parametrize("victims", ["owner", "both"])
def test_what_a_killed_session_has_written_counts_as_ours(state, loop, victims):
    """Its guardian, or the next recovery, notes what it left on the device."""
    work = (
        "from schedlab.host.safety.consent import consent_to\n"
        "target = control.write_to(consent_to(device))\n"
        "os.pwrite(os.open(target, os.O_WRONLY), os.urandom(1 << 20), 3 << 20)"
    )
    die(loop, work, with_guardian=victims == "both")
    recover.restore_all(state)
    consent_to(loop).close()
    at(15 * MIB, b"x")(loop)
    with pytest.raises(HostError, match="data of unknown origin"):
        consent_to(loop)


def test_a_lock_that_is_held_for_a_moment_is_waited_for(state, loop, monkeypatch):
    """udev looks at a device so, and it does that after each close of a writer."""
    rival = os.open(loop, os.O_RDONLY)
    fcntl.flock(rival, fcntl.LOCK_EX)
    timer = threading.Timer(0.1, os.close, (rival,))
    timer.start()
    consent_to(loop).close()
    timer.join()
    monkeypatch.setattr(consent, "LOCK_WAIT_S", 0.0)
    rival = os.open(loop, os.O_RDONLY)
    fcntl.flock(rival, fcntl.LOCK_EX)
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(HostError, match="another process has locked it"):
        consent_to(loop)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - nothing stays open
    for offset in (64 << 10, 2 << 20):  # both of what two lost partitions held are named, too
        at(offset, LUKS)(loop)
    named = "; ".join(consent.objections(loop))
    assert named.count("it holds a crypto_LUKS signature") == 2 and "locked it" in named
    for offset in (64 << 10, 2 << 20):
        at(offset, bytes(len(LUKS)))(loop)
    os.close(rival)
    consent_to(loop).close()


@pytest.mark.parametrize(
    ("reasons", "hint"),
    [
        (["it holds data of unknown origin (1 of 2)"], "--allow-unknown-data"),
        (["it is mounted", "it holds data of unknown origin (1 of 2)"], "use an empty device"),
        (["it holds a gpt partition table"], "wipefs -a /dev/x"),
        (["it holds a gpt partition table", "it holds a ext4 signature"], "wipefs -a /dev/x"),
        (["it holds a gpt partition table", "it is mounted"], "use an empty device"),
        (["it is mounted"], "use an empty device"),
    ],
)
def test_a_refusal_has_the_hint_that_fits_every_reason(reasons, hint):
    error = consent.refusal("/dev/x", reasons)
    assert str(error) == f"Refusing to write to /dev/x: {'; '.join(reasons)}."
    assert error.hint.startswith(hint) or f": {hint}" in error.hint


def test_notes_about_a_device_are_kept_under_what_outlives_a_reboot():
    named = consent.Identity("8:16", 4096, serial="S1", wwid="naa.5", uuid="", sequence="7")
    assert named.lasting_key == "S1/naa.5:4096"
    assert named.lasting_key == consent.Identity("8:32", 4096, "S1", "naa.5", "", "9").lasting_key
    assert consent.Identity("8:16", 4096).lasting_key == "8:16:4096"


@pytest.mark.parametrize("size", [4096, MIB + 512, 32 * MIB, 33 * MIB, 36 * MIB, 40 * MIB, 1 << 40])
def test_the_whole_start_and_end_of_a_device_are_looked_at(size):
    places = list(content.places(size))
    ends = [offset + length for offset, length in places]
    covered = sum(length for _, length in places)
    assert len(set(places)) == len(places)
    start = [length for offset, length in places if offset < 32 * MIB]
    assert sum(start) == min(size, 32 * MIB)
    assert max(ends) == size
    end = [length for offset, length in places if offset >= max(32 * MIB, size - 4 * MIB)]
    assert sum(end) == max(0, min(4 * MIB, size - 32 * MIB))
    assert covered == size or size > 36 * MIB


def test_what_we_remember_of_a_device_is_of_its_size(tmp_path):
    data = tmp_path / "data"
    data.write_bytes(b"\0" * MIB + b"ours" + b"\0" * MIB + b"too" + b"\0" * (MIB - 7))
    with data.open("rb") as file:
        description = content.unknown_data(file.fileno(), 3 * MIB)
        assert "(2 of 3 sampled places are not zero, the first at 1 MiB" in description
        assert "starting with 'ours')" in description
        content.remember(tmp_path, "key", file.fileno(), 3 * MIB)
        known = content.remembered(tmp_path, "key", 3 * MIB)
        assert content.unknown_data(file.fileno(), 3 * MIB, known) == ""
    assert content.remembered(tmp_path, "key", MIB) == ""
    assert content.remembered(tmp_path, "another", 3 * MIB) == ""
    assert content._place(63 * 512) == "byte 32256"
    assert [content._place(at) for at in (0, 64 << 10)] == ["byte 0", "64 KiB"]


@pytest.mark.parametrize("medium", ["same", "another"])
def test_what_a_session_left_is_noted_only_while_its_medium_is_there(state, loop, medium):
    with consent_to(loop) as held:
        identity = held.identity
    at(9 * MIB, b"what is there now")(loop)
    log = new_journal(state)
    sequence = identity.sequence if medium == "same" else str(int(identity.sequence) - 1)
    facts = {"size_bytes": identity.size_bytes, "key": identity.lasting_key}
    log.append("data", number=identity.number, sequence=sequence, **facts)
    log.release()
    assert recover.restore_all(state).notices == []
    assert bool(consent.objections(loop)) == (medium == "another")


def test_a_loop_device_over_a_device_in_use_is_refused(new_loop, tmp_path):
    """The kernel does not claim what is behind a loop device: both would write."""
    below = new_loop()
    subprocess.run(["mkfs.ext4", "-q", below], check=True)
    where = tmp_path / "mounted"
    where.mkdir()
    chain = [below]
    try:
        for _ in range(2):
            # Beyond its superblocks: nothing is found in what this one shows.
            made = subprocess.run(
                ["losetup", "--find", "--show", "--offset", str(2 << 20), chain[-1]],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            chain.append(made.stdout.strip())
        subprocess.run(["mount", below, where], check=True)
        for device in chain[1:]:
            named = Path(below).name
            reasons = "; ".join(consent.objections(device))
            assert f"it is on {named}, and it is mounted on {where}" in reasons
            assert f"it is on {named}, and it holds a ext4 signature" in reasons
    finally:
        subprocess.run(["umount", where], check=False)
        for device in reversed(chain[1:]):
            subprocess.run(["losetup", "--detach", device], check=True)
