"""Control on a real loop device: settings, errors, gates, created things, and their restoration."""

import multiprocessing
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from dying import die, schedlab

from schedlab.errors import HostError, RestoreError
from schedlab.host import scratch
from schedlab.host.safety import journal, leftovers, owned
from schedlab.host.safety.consent import consent_to
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs


def queue_values(device):
    return knobs.snapshot(knobs.queue_of(device))


def set_by_hand(device, **values):
    queue = knobs.queue_of(device)
    for name, value in values.items():
        path = queue / "iosched" / name
        knobs.write_value(path if path.exists() else queue / name, value)


def test_a_claim_waits_while_another_looks_or_claims(state, loop, monkeypatch):
    """Without the lock of the host two sessions would see no claim, and both would have it."""
    with Control() as control, journal.HostLock(state) as lock:
        lock.acquire(0)
        monkeypatch.setattr("schedlab.host.safety.control.LOCK_WAIT_S", 0.1)
        with pytest.raises(HostError, match=f"restoring settings .*: {os.getpid()} "):
            control.claim(loop)
        assert journal.read(journal.sessions(state)[0]).claims == frozenset()
        lock.release()
        control.claim(loop)
        assert journal.read(journal.sessions(state)[0]).claims == {loop}


def test_everything_under_queue_is_put_back(state, loop):
    set_by_hand(loop, scheduler="mq-deadline")
    set_by_hand(loop, fifo_batch="7", nr_requests="64", read_ahead_kb="96", wbt_lat_usec="1500")
    before = queue_values(loop)
    with Control() as control:
        for scheduler in ("bfq", "none", "kyber", "mq-deadline"):
            if scheduler in knobs.offered(loop):
                applied = control.set_scheduler(loop, scheduler, {"nr_requests": 32})
                assert applied.scheduler == queue_values(loop)["scheduler"] == scheduler
                assert applied.queue["nr_requests"] == "32"
                assert control.check() == ()
        control.write_knob(knobs.queue_of(loop) / "read_ahead_kb", 512)
    assert queue_values(loop) == before
    assert journal.sessions(state) == []


def test_each_candidate_starts_from_the_kernels_defaults(state, loop):
    set_by_hand(loop, scheduler="mq-deadline", fifo_batch="7", read_ahead_kb="96")
    with Control() as control:
        plain = control.set_scheduler(loop, "mq-deadline")
        tuned = {"fifo_batch": 3, "read_ahead_kb": 64, "nr_requests": 20}
        control.set_scheduler(loop, "mq-deadline", tuned)
        again = control.set_scheduler(loop, "mq-deadline")
        assert plain.queue["iosched/fifo_batch"] == "16"
        assert again.queue == plain.queue
        control.set_scheduler(loop, "none", {"nr_requests": 16})
        assert control.set_scheduler(loop, "none").queue["nr_requests"] == "128"
        control.write_knob(knobs.queue_of(loop) / "read_ahead_kb", 512)
        assert control.set_scheduler(loop, "none").queue["read_ahead_kb"] == "96"


def test_a_limit_of_requests_leaves_the_read_ahead_alone(state, loop):
    set_by_hand(loop, read_ahead_kb="96")
    queue = knobs.queue_of(loop)
    with Control() as control:
        for tunables in ({"max_sectors_kb": 256}, {}, {"read_ahead_kb": 64, "max_sectors_kb": 128}):
            control.set_scheduler(loop, "none", tunables)
            wanted = str(tunables.get("read_ahead_kb", 96))
            assert knobs.read_value(queue / "read_ahead_kb") == wanted
            assert not control.check()
    assert knobs.read_value(queue / "read_ahead_kb") == "96"


@pytest.mark.parametrize("first", ["none", "bfq"])
def test_writeback_is_throttled_as_the_kernel_does_with_each_scheduler(state, loop, first):
    """The kernel keeps a value that was written over all schedulers, bfq among them."""
    if "wbt_lat_usec" not in queue_values(loop):
        pytest.skip("needs CONFIG_BLK_WBT")

    def throttling(scheduler):
        return control.set_scheduler(loop, scheduler).queue["wbt_lat_usec"]

    set_by_hand(loop, scheduler=first)
    with Control() as control:
        control.set_scheduler(loop, first, {"wbt_lat_usec": 1000})
        again = [throttling(each) for each in ("bfq", "mq-deadline", "bfq", "none")]
        assert again == ["0", "2000", "0", "2000"]


def test_rounding_is_reported_and_the_effective_value_returned(state, loop):
    tick_ms = 1000 // knobs.ticks_per_second()
    if tick_ms == 1:
        pytest.skip("HZ=1000: this kernel does not round milliseconds")
    with Control() as control:
        applied = control.set_scheduler(loop, "mq-deadline", {"read_expire": 1})
        assert applied.tunables == {"read_expire": str(tick_ms)}
        assert "read_expire=1 was rounded" in applied.notes[0]


def test_legacy_names_are_mapped_and_reported(state, loop):
    with Control() as control:
        applied = control.set_scheduler(loop, "deadline")
        assert (applied.requested, applied.scheduler) == ("deadline", "mq-deadline")
        assert "called mq-deadline today" in applied.notes[0]
        assert control.set_scheduler(loop, "noop").scheduler == "none"


@pytest.mark.parametrize(
    ("scheduler", "tunables", "message", "hint"),
    [
        ("nosuch", {}, "does not offer scheduler 'nosuch'", "mq-deadline"),
        ("../x", {}, "does not offer", "mq-deadline"),
        ("mq-deadline", {"nosuch": 1}, "no tunable 'nosuch'", "fifo_batch=16"),
        ("mq-deadline", {"../scheduler": 1}, "no tunable", "fifo_batch=16"),
        ("none", {"nosuch": 1}, "scheduler none has no tunable 'nosuch'", "read_ahead_kb="),
        ("mq-deadline", {"front_merges": 5}, "front_merges: 5 was written, but it reads 1", "cat"),
        ("mq-deadline", {"fifo_batch": -1}, "-1 was written, but it reads 0", "cat"),
        ("none", {"nr_requests": "many"}, "nr_requests refuses many", "range"),
        ("none", {"nr_requests": 1 << 30}, "nr_requests refuses 1073741824", "range"),
    ],
)
def test_what_the_kernel_does_not_take_is_named(state, loop, scheduler, tunables, message, hint):
    before = queue_values(loop)
    with pytest.raises(HostError) as caught, Control() as control:
        control.set_scheduler(loop, scheduler, tunables)
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2
    assert queue_values(loop) == before


def test_a_knob_changed_by_another_program_is_a_finding_and_kept(state, loop):
    messages = []
    with Control(report=messages.append) as control:
        control.set_scheduler(loop, "mq-deadline")
        set_by_hand(loop, nr_requests="99")
        findings = control.check()
        assert {(f.gate, f.fatal) for f in findings} == {("knob-changed", True)}
        assert any("nr_requests is 99 instead of 256" in f.detail for f in findings)
        set_by_hand(loop, scheduler="kyber")
        assert any("kyber instead of mq-deadline" in f.detail for f in control.check())
    assert queue_values(loop)["scheduler"] == "kyber"
    assert any("left at kyber" in line for line in messages)


def test_keep_leaves_the_settings(state, loop):
    with Control() as control:
        control.set_scheduler(loop, "bfq")
        control.keep()
    assert queue_values(loop)["scheduler"] == "bfq"


def test_the_second_device_of_a_session_is_watched_and_restored_as_the_first(state, new_loop):
    queues = [knobs.queue_of(new_loop()) for _ in range(2)]
    before = [knobs.snapshot(queue) for queue in queues]

    def line(*values):
        each = zip(queues, values, strict=True)
        return "; ".join(f"echo {kib} >{queue}/read_ahead_kb" for queue, kib in each)

    with Control() as control:
        for queue in queues:
            control.set_scheduler(queue.parent.name, "bfq")
        control.run_command(line(64, 32), line(*(of["read_ahead_kb"] for of in before)))
        assert control.check() == ()
        knobs.write_value(queues[1] / "read_ahead_kb", "16")
        (finding,) = control.check()
        assert f"{queues[1]}/read_ahead_kb is 16 instead of 32" in finding.detail
    assert [knobs.snapshot(queue) for queue in queues] == before


def test_the_disk_of_the_root_is_refused_unless_named(state, loop, monkeypatch):
    name = Path(loop).name
    monkeypatch.setattr("schedlab.host.devices.disks_below", lambda directory: (name,))
    with Control() as control, pytest.raises(HostError, match="holds /"):
        control.set_scheduler(loop, "bfq")
    with Control(named_devices=[loop]) as control:
        assert control.set_scheduler(loop, "bfq").scheduler == "bfq"


def is_removed(device, backing_file):
    """The number of a loop device that is gone may be another test's by now, with its own file."""
    entry = Path("/sys/block", Path(device).name)

    def is_so():
        shown = knobs.text(entry / "loop/backing_file") or backing_file
        return not entry.exists() or not shown.startswith(backing_file)

    return owned.wait_until(is_so, 1.0)


def test_what_was_made_is_removed(state, root_with_loop, tmp_path):
    with Control() as control:
        scratch = control.scratch(8 << 20, tmp_path)
        directory = control.directory(tmp_path)
        (directory / "file").write_text("x", encoding="ascii")
        formatted = control.scratch(16 << 20, tmp_path)
        mounted = control.filesystem(formatted)
        assert not Path(formatted.backing_file).exists()  # it never had a name
        (mounted / "file").write_text("x", encoding="ascii")
        group = control.cgroup("test")
        assert Path(scratch.path).is_block_device()
        assert scratch.backing_file.startswith(f"{tmp_path}/#")
        assert knobs.read_value(knobs.queue_of(scratch.path) / "rotational") == "0"
        dio = Path("/sys/block", Path(scratch.path).name, "loop/dio").read_text(encoding="ascii")
        assert scratch.direct_io == (dio.strip() == "1")
    assert not any(path.exists() for path in (directory, mounted, group))
    assert is_removed(scratch.path, scratch.backing_file)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_where_a_file_needs_a_name_it_is_gone_once_the_loop_device_holds_it(
    state, root_with_loop, tmp_path, monkeypatch
):
    monkeypatch.setattr(scratch, "_unnamed", lambda directory: None)
    place = tmp_path / "place"
    place.mkdir()
    with Control() as control:
        device = control.scratch(8 << 20, place)
        name = Path(device.path).name
        assert list(place.iterdir()) == []
        assert leftovers.stale(state) == []
        assert device.backing_file.startswith(f"{place}/schedlab-scratch-")
        dio = Path(f"/sys/block/{name}/loop/dio").read_text(encoding="ascii").strip()
        assert device.direct_io == (dio == "1")
        descriptor = os.open(device.path, os.O_RDWR | os.O_DIRECT)
        os.close(descriptor)
        control.set_scheduler(device.path, "bfq")
    assert is_removed(device.path, device.backing_file)


def test_leaving_while_inside_our_own_cgroup(state, root_with_loop):
    with Control() as control:
        group = control.cgroup("home")
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    assert not group.exists()


def test_the_scratch_file_neither_repeats_nor_compresses(state, root_with_loop, tmp_path):
    import zlib

    with Control() as control:
        scratch = control.scratch(40 << 20, tmp_path)
        data = Path(scratch.path).read_bytes()
    blocks = {data[at : at + 4096] for at in range(0, len(data), 4096)}
    assert len(blocks) == (40 << 20) // 4096
    assert len(zlib.compress(data[: 2 << 20], 1)) > 2 << 20


@pytest.mark.parametrize(
    ("size_bytes", "message"),
    [(1 << 60, "MiB free"), (4096, "cannot have"), ((1 << 20) + 5, "cannot have")],
)
def test_scratch_sizes_that_cannot_be(state, root_with_loop, tmp_path, size_bytes, message):
    with Control() as control, pytest.raises(HostError, match=message) as caught:
        control.scratch(size_bytes, tmp_path)
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_disk_is_never_filled_to_its_last_block(small_disk):
    scratch.check_space(small_disk, 7 << 20)
    for size_bytes in (8 << 20, 9 << 20):
        with pytest.raises(HostError, match=f"has 8 MiB free, {size_bytes >> 20} MiB are needed"):
            scratch.check_space(small_disk, size_bytes)
    assert list(small_disk.iterdir()) == []


@pytest.mark.usefixtures("ordinary_knobs")
def test_two_sessions_share_a_host_but_not_a_device(state, new_loop, tmp_path):
    mine, yours = new_loop(), new_loop()
    knob = tmp_path / "knob"
    knob.write_text("4\n", encoding="ascii")
    with Control() as one, Control() as other:
        one.set_scheduler(mine, "bfq")
        other.set_scheduler(yours, "bfq")
        one.write_knob(knob, 5)
        message = f"{mine} is in use by another schedlab: process {os.getpid()} "
        with pytest.raises(HostError, match=message) as caught:
            other.set_scheduler(mine, "kyber")
        assert "Ctrl-C" in caught.value.hint
        with pytest.raises(HostError, match=f"{mine} is in use"):
            other.claim(mine)
        with pytest.raises(HostError, match=f"{knob} is in use"):
            other.write_knob(knob, 6)
        device = one.scratch(1 << 20, tmp_path)
        with pytest.raises(HostError, match=f"{device.path} is in use"):
            other.claim(device.path)
        assert one.check() == other.check() == ()
        assert knob.read_text(encoding="ascii") == "5\n" or knob.read_text("ascii") == "5"
    assert [queue_values(loop)["scheduler"] for loop in (mine, yours)] == ["none", "none"]
    assert knob.read_text(encoding="ascii")[:1] == "4"
    with Control() as later:
        later.set_scheduler(mine, "kyber")


def test_the_first_original_wins_over_a_session_that_died(state, loop):
    """Killed with its guardian after a change: the next one restores before it snapshots."""
    before = queue_values(loop)
    with Control() as control:
        die(loop, "control.set_scheduler(device, 'bfq')")
        assert queue_values(loop)["scheduler"] == "bfq"
        control.set_scheduler(loop, "kyber")
    assert queue_values(loop) == before


def test_rotational_is_set_kept_over_candidates_and_put_back(state, loop):
    queue = knobs.queue_of(loop)
    before = knobs.read_value(queue / "rotational")
    other = "0" if before == "1" else "1"
    with Control() as control:
        assert control.set_rotational(loop, other == "1") == before
        for scheduler in ("bfq", "none", "bfq"):
            applied = control.set_scheduler(loop, scheduler)
            assert applied.queue["rotational"] == other
        assert control.check() == ()
    assert knobs.read_value(queue / "rotational") == before


@pytest.fixture
def debug_tags(loop, tmp_path):
    """The depth of the driver's tags of a loop device, which only debugfs shows."""
    where = tmp_path / "debugfs"
    where.mkdir()
    result = subprocess.run(["mount", "-t", "debugfs", "none", str(where)], check=False)
    file = where / "block" / Path(loop).name / "hctx0" / "tags"
    try:
        if result.returncode or not file.exists():
            pytest.skip("needs debugfs with block/ (CONFIG_BLK_DEBUG_FS, no lockdown)")
        yield lambda: int(re.findall(r"^depth=(\d+)", file.read_text("ascii"), re.MULTILINE)[0])
    finally:
        subprocess.run(["umount", str(where)], check=False)


@pytest.mark.parametrize("original", ["none", "mq-deadline"])
def test_driver_tags_that_nr_requests_narrowed_are_widened_again(state, loop, debug_tags, original):
    set_by_hand(loop, scheduler=original)
    before, tags = queue_values(loop), debug_tags()
    with Control() as control:
        control.set_scheduler(loop, "none", {"nr_requests": 16})
        assert debug_tags() == 16
        control.set_scheduler(loop, "mq-deadline")
        assert debug_tags() == tags
        control.set_scheduler(loop, "none", {"nr_requests": 16})
    assert (queue_values(loop), debug_tags()) == (before, tags)


def test_what_is_written_with_a_consent_counts_as_ours_next_time(state, loop):
    with consent_to(loop) as consent, Control() as control:
        target = control.write_to(consent)
        with Path(target).open("r+b") as file:
            file.write(os.urandom(1 << 20))
        with Control() as other, pytest.raises(HostError, match="in use by another"):
            other.claim(loop)
    consent_to(loop).close()


def test_a_forked_child_that_leaves_puts_nothing_back(state, loop):
    with Control() as control:
        control.set_scheduler(loop, "bfq")
        child = multiprocessing.get_context("fork").Process(
            target=control.__exit__, args=(None, None, None)
        )
        child.start()
        child.join()
        assert child.exitcode == 0
        assert control.check() == ()


def test_a_signal_waits_until_all_is_put_back(state, loop, monkeypatch):
    before = queue_values(loop)
    write = knobs.write_value

    def interrupted_write(path, value):
        os.kill(os.getpid(), signal.SIGINT)
        write(path, value)

    control = Control()
    control.__enter__()
    control.set_scheduler(loop, "bfq")
    monkeypatch.setattr(knobs, "write_value", interrupted_write)
    with pytest.raises(KeyboardInterrupt):
        control.__exit__(None, None, None)
    assert queue_values(loop) == before


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_state_directory_that_others_can_write_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(HostError, match="written to by others"), Control(state_directory=tmp_path):
        pass


def test_what_cannot_be_put_back_is_exit_code_3_with_the_shell_line(state, loop, monkeypatch):
    write = knobs.write_value
    control = Control()
    control.__enter__()
    control.set_scheduler(loop, "bfq")

    def refuse(path, value):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(knobs, "write_value", refuse)
    with pytest.raises(RestoreError) as caught:
        control.__exit__(None, None, None)
    assert caught.value.exit_code == 3
    assert f"echo none > {knobs.queue_of(loop)}/scheduler" in caught.value.hint
    with pytest.raises(RestoreError), Control():
        pass
    monkeypatch.setattr(knobs, "write_value", write)
    assert schedlab("recover").returncode == 0
    assert queue_values(loop)["scheduler"] == "none"


@pytest.mark.usefixtures("ordinary_knobs")
def test_sysctl_knobs_are_put_back(state, tmp_path):
    knob = tmp_path / "knob"
    knob.write_text("4\n", encoding="ascii")
    with Control() as control:
        assert control.write_knob(knob, 100).rstrip() == "100"
        assert control.check() == ()
        knob.write_text("7", encoding="ascii")
        assert "is 7 instead of 100" in control.check()[0].detail
        knob.write_text("100", encoding="ascii")
    assert knob.read_text(encoding="ascii")[:1] == "4"


def test_a_first_change_closes_no_descriptor_of_its_owner(state, loop):
    with Control() as control:
        control.set_scheduler(loop, "bfq")
        os.fstat(0)


def test_patience_ends_without_what_was_waited_for():
    assert owned.wait_until(lambda: True, 0) and not owned.wait_until(lambda: False, 0.01)


def test_names_that_are_not_ours_are_never_removed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    for remove in (owned.remove_directory, owned.remove_file, owned.remove_cgroup):
        with pytest.raises(OSError, match="did not choose its name"):
            remove(str(precious))
    assert precious.is_dir()


@pytest.mark.parametrize(
    ("path", "requested", "got", "is_rounded"),
    [
        ("iosched/read_expire", "1", "4", True),
        ("iosched/read_expire", "501", "504", True),
        ("iosched/read_expire", "500", "504", False),
        ("iosched/read_expire", "0", "3", False),
        ("iosched/read_expire", "3", "0", False),
        ("iosched/read_expire", "many", "4", False),
        ("iosched/fifo_batch", "1", "2", False),
        ("read_ahead_kb", "5", "8", True),
        ("read_ahead_kb", "5", "4", True),
        ("read_ahead_kb", "4", "8", False),
    ],
)
def test_rounding_is_less_than_a_tick_or_a_page_and_nothing_else(
    monkeypatch, path, requested, got, is_rounded
):
    monkeypatch.setattr(knobs, "ticks_per_second", lambda: 250)
    monkeypatch.setattr(os, "sysconf", lambda name: 4096)
    assert knobs.is_rounding(path, requested, got) is is_rounded


def test_readings_that_mean_the_same_are_the_same():
    assert knobs.same("032", "32") and knobs.same("none", "none")
    assert not knobs.same("32", "33") and not knobs.same("none", "bfq")
    assert [knobs.as_text(value) for value in (32, 32.0, 0.5, " x ")] == ["32", "32", "0.5", "x"]


def test_a_knob_belongs_to_the_queue_above_it_or_to_none():
    queue = knobs.SYS_BLOCK / "sdx" / "queue"
    assert knobs.queue_above(queue / "iosched" / "low_latency") == queue
    assert knobs.queue_above(queue / "nr_requests") == queue
    assert knobs.queue_above("/proc/sys/kernel/queue/x") is None
    assert knobs.queue_above("/sys/block/sdx/device/queue_depth") is None


def test_a_lock_that_cannot_be_made_is_explained(state):
    (state / journal.LOCK_NAME).mkdir(parents=True)
    state.chmod(0o700)
    with pytest.raises(HostError, match=f"cannot write {state}/lock: Is a directory") as caught:
        Control().__enter__()
    assert "SCHEDLAB_STATE_DIR" in caught.value.hint
    # A command that only looks must not take it for a lock that another one has.
    with pytest.raises(HostError, match="Is a directory"), journal.held(state, 0.0):
        pass


def test_a_lock_without_room_for_the_name_of_its_holder_is_one(state, monkeypatch):
    def full(*values):
        raise OSError(28, "No space left on device")

    state.mkdir()
    monkeypatch.setattr(os, "pwrite", full)
    with journal.held(state, 0.0) as got:
        assert got
        with journal.held(state, 0.0) as again:
            assert not again
