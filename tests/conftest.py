"""For all tests: Ctrl-C that is heard by the programs they start, disks without room, and one more
attempt for what measures a machine that others slow down."""

import signal
import subprocess

import pytest

# A shell that starts the tests in the background sets SIGINT to "ignore", and programs inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Modules whose tests measure rates and times of the real machine. A test of these that fails runs
# once more, and pytest reports both; all others have one attempt.
MEASURING = frozenset({
    "test_block_capture", "test_burst_capture", "test_command_truth", "test_commands",
    "test_compare", "test_compare_workloads", "test_cpu_policies", "test_cpu_run", "test_cpu_sweep",
    "test_emulated", "test_emulated_runs", "test_gates", "test_io_engine", "test_io_run",
    "test_true_experiments", "test_tune_device",
})  # fmt: skip


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in MEASURING:
            item.add_marker(pytest.mark.flaky(reruns=1))


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
