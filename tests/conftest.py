"""For all tests: Ctrl-C that is heard by the programs they start, disks without room, which tests
run beside which, and what a busy machine or a kernel without bfq cannot tell."""

import gc
import os
import signal
import subprocess
from pathlib import Path

import pytest
import turns
from golden import Golden
from xdist.scheduler import LoadScopeScheduling

from schedlab.errors import SchedlabError
from schedlab.run.gates import neighbour_findings, snapshot

# A shell that starts the tests in the background sets SIGINT to "ignore", and programs inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


os.environ["LANGUAGE"] = "en"  # of whoever runs the tests
# A heap of seven thousand tests was gone through after every 700 new objects.
gc.set_threshold(100_000, 50, 50)

# Modules whose tests measure on the real machine, where what others do can discard every run. A
# test of these that fails has one more attempt, alone, and both are reported.
MEASURING = frozenset({
    "test_block_capture", "test_burst_capture", "test_command_truth", "test_commands",
    "test_compare", "test_compare_workloads", "test_cpu_policies", "test_cpu_run", "test_cpu_sweep",
    "test_emulated", "test_emulated_runs", "test_gates", "test_io_engine",
    "test_kinds", "test_live_guide", "test_live_runs", "test_settings",
    "test_tour", "test_tour_of_the_machine", "test_true_experiments", "test_tune_device",
})  # fmt: skip
# Modules that share what there is once: they run beside others, but not beside their own group.
GROUPS = {
    "test_apply": "sysctl", "test_apply_kill": "sysctl", "test_cpu_crew": "sysctl",
    "test_cpu_policies": "sysctl", "test_cpu_run": "sysctl", "test_two_at_once": "sysctl",
    "test_settings": "sysctl", "test_apply_chains": "sysctl",
    "test_tour_of_the_machine": "sysctl",
    "test_guardian": "names of control groups",
    "test_report_a11y": "npm",
}  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="renew the files of tests/golden")
    parser.addoption("--turn", type=int, help="of a test marked sampled(n) one in n of its cases: "
                     "number TURN, TURN + n, … (default: all of them)")  # fmt: skip
    parser.addoption("--one-passes", action="store_true", help="fail where no test passed")


def pytest_sessionfinish(session):
    """Of a suite that skipped all of its tests nothing is known."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("one_passes") and not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture
def golden(request):
    """Hold a text to a golden file: `golden("compare-help.txt", text)`."""
    return Golden(request.config.getoption("update"))


def pytest_collection_modifyitems(config, items):
    # Beside others the second attempt comes later, and the run of what failed is that attempt.
    reruns = 0 if "PYTEST_XDIST_WORKER" in os.environ or config.getoption("lf", False) else 1
    for item in items:
        if item.path.stem in MEASURING or item.get_closest_marker("machine"):
            item.add_marker(pytest.mark.flaky(reruns=reruns))
    if (turn := config.getoption("turn")) is not None:
        items[:], others = turns.taken(items, turn)
        config.hook.pytest_deselected(items=others)
    # A group is one long queue, so it begins first.
    items.sort(key=lambda item: item.path.stem not in GROUPS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure becomes a skip with its reason where the machine could not give the answer."""
    if call.when == "setup" and item.get_closest_marker("machine"):
        item.before = snapshot(None)
    report = yield
    if report.failed and (reason := _no_answer(item, call, report.longreprtext)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], reason)
    return report


def _no_answer(item, call, text):
    if "bfq" in text and item.path.parent.name in ("e2e", "host") and not _has_bfq():
        return "this kernel has no bfq"
    # Whatever else is raised is a fault of the test or of schedlab, however busy the machine is.
    slow = (AssertionError, SchedlabError, subprocess.SubprocessError, pytest.fail.Exception)
    is_slow = call.when == "call" and call.excinfo.errisinstance(slow)
    if is_slow and item.get_closest_marker("machine"):
        after = snapshot(None)
        busy = [each.detail for each in neighbour_findings(item.before, after)]
        return f"too busy to tell: {busy[0]}" if busy else None
    return None


def _has_bfq():
    return any("bfq" in each.read_text() for each in Path("/sys/block").glob("*/queue/scheduler"))


def pytest_collection_finish():
    """What exists now lives to the end: tests that collect garbage need not look through it."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config, log):
    return ByGroup(config, log)


class ByGroup(LoadScopeScheduling):
    """Hands out whole groups, whole modules of tests that need no host, and single other tests."""

    def _split_scope(self, nodeid):
        path = Path(nodeid.partition("::")[0])
        if path.stem in GROUPS:
            return GROUPS[path.stem]
        return nodeid if path.parent.name in ("e2e", "host", "tour") else str(path)


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state directory of this test alone, also for the processes it starts."""
    directory = tmp_path / "state"
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(directory))
    return directory


@pytest.fixture
def small_disk(tmp_path, request):
    """A tmpfs of 8 MiB, or of the size that a test gives as this fixture's parameter."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = getattr(request, "param", "8m")
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk]
    mounted = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"needs to mount a tmpfs: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)
