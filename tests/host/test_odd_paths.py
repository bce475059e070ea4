"""Mount points and files whose names are no UTF-8, or hold newlines, quotes and what a shell would
run: every command reads them, prints them, and writes back what is mounted there."""

import json
import os

import pytest
from odd_names import NAMES, in_namespace

pytestmark = pytest.mark.usefixtures("root_with_loop")
MOUNTED = """
import json, os, subprocess, sys
place, names = os.fsencode(sys.argv[1]), [os.fsencode(name) for name in json.loads(sys.argv[2])]
for name in names:
    os.mkdir(os.path.join(place, name))
    where = os.path.join(place, name)
    subprocess.run(["mount", "-t", "tmpfs", b"odd " + name, where], check=True)
"""
READ = (
    MOUNTED
    + """
from schedlab.host import kernel_paths
rows = [(each.source, each.target) for each in kernel_paths.mounts() if each.kind == "tmpfs"]
print(json.dumps([row for row in rows if row[0].startswith("odd ")]))
"""
)
RUN = (
    MOUNTED
    + """
loop = sys.argv[3]
commands = [
    ["doctor"], ["doctor", "--all"], ["doctor", "--path", loop],
    ["io", "get"], ["io", "list"], ["io", "set", "none", loop], ["recover"], ["status"],
    ["undo", "--all"], ["status", "--watch", loop, "--seconds", "0.1"], ["device", "list"],
    ["compare", "--dry-run", "--scratch", "64M"], ["compare", "--dry-run", "--device", loop],
    ["tune", "--dry-run", "--scratch", "64M"],
    ["cpu", "compare", "--dry-run"], ["lab", "run", "block-size", "--dry-run"],
    ["apply", "none", loop], ["undo", os.path.basename(loop)],
    ["device", "up", "disk7200", "--size", "64M", "--name", "odd"], ["device", "down", "odd"],
    ["compare", "--scratch", "64M", "--schedulers", "none", "--blocks", "1", "--no-aa", "--anyway",
     "--out", os.path.join(sys.argv[1], "result"), "--", "true"],
]
refused = [["doctor", "--path", os.path.join(place, name)] for name in names]
for command in commands + refused:
    words = [sys.executable, "-m", "schedlab", *command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, cwd=place)
    wanted = 2 if command in refused else 0
    print(json.dumps([wanted, done.returncode, repr(command), repr(done.stderr)]))
"""
)


def texts(names=NAMES):
    return json.dumps([os.fsdecode(name) for name in names])


def test_names_are_read_as_they_are(tmp_path):
    result = in_namespace(READ, tmp_path, texts())
    assert result.returncode == 0, result.stderr
    rows = [[os.fsencode(part) for part in row] for row in json.loads(result.stdout)]
    assert rows == [[b"odd " + n, os.fsencode(tmp_path) + b"/" + n] for n in NAMES]


@pytest.mark.sampled(2)
def test_every_command_does_its_work_beside_such_mounts(tmp_path, state, loop):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    result = in_namespace(RUN, tmp_path, texts(), loop, env=environment)
    assert result.returncode == 0, result.stderr
    for line in result.stdout.splitlines():
        wanted, status, command, message = json.loads(line)
        assert status == wanted, (command, message)
        # A result has to hold what was typed.
        words = "is not UTF-8 text" if "\\xff" in command else "no request queue below this tmpfs"
        assert words in message or not wanted, (command, message)
    assert not list(tmp_path.rglob("pwned"))


KEPT = """
import os, subprocess, sys
from pathlib import Path
place, data = Path(sys.argv[1]), sys.argv[2]
run = [sys.executable, "-m", "schedlab", "device"]
up = [*run, "up", "disk7200", "--size", "64M", "--name", "odd", "--data", data]
for number, name in enumerate(map(os.fsencode, sys.argv[3:])):
    device = subprocess.run(up, check=True, capture_output=True, text=True).stdout.split(":")[0]
    if not number:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
    where = os.path.join(os.fsencode(place), name)
    os.makedirs(where, exist_ok=True)
    subprocess.run(["mount", device, where], check=True)
    Path(os.fsdecode(where), f"file {number}").write_bytes(bytes([number + 1]) * 100_000)
    subprocess.run([*run, "down", "odd"], check=True, cwd=place)
device = subprocess.run(up, check=True, capture_output=True, text=True).stdout.split(":")[0]
subprocess.run(["mount", "-o", "ro", device, place], check=True)
files = [(place / f"file {number}").read_bytes() for number in range(len(sys.argv) - 3)]
subprocess.run([*run, "down", "odd"], check=True)
assert files == [bytes([number + 1]) * 100_000 for number in range(len(files))]
"""


@pytest.mark.sampled(2)
def test_files_of_an_emulated_device_are_kept_wherever_it_was_mounted(tmp_path, state, needs_fuse):
    place = tmp_path / "place"
    place.mkdir()
    result = in_namespace(KEPT, place, tmp_path / "data", NAMES[0], NAMES[1], NAMES[-1])
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.rglob("pwned"))


LOST = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
full, place = map(Path, sys.argv[1:])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", full], check=True)
run = [sys.executable, "-m", "schedlab", "device"]
up = [*run, "up", "disk7200", "--size", "64M", "--name", "full", "--data", full / "data"]
device = subprocess.run(up, check=True, capture_output=True, text=True).stdout.split(":")[0]
subprocess.run(["mkfs.ext4", "-q", device], check=True)
subprocess.run(["mount", device, place], check=True)
(place / "file").write_bytes(bytes(range(256)) * (20 << 12))
down = subprocess.run([*run, "down", "full"], check=False, capture_output=True, text=True)
kept = place.is_mount()  # what it has in memory only, whoever drops caches drops
keeper = json.loads(subprocess.check_output([*run, "list", "--json"]))["devices"][0]["keeper"]
os.kill(keeper, signal.SIGTERM)
while Path(f"/proc/{keeper}").exists():
    time.sleep(0.02)
print(down.returncode, down.stderr, kept, subprocess.run([*run, "list"], capture_output=True))
"""


def test_a_device_stays_up_when_its_files_cannot_be_written_back(tmp_path, state, needs_fuse):
    full, place = tmp_path / "full", tmp_path / "it's mounted"
    full.mkdir()
    place.mkdir()
    result = in_namespace(LOST, full, place, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("2 error: full stays up: its data is in a file, and the file ")
    # EIO, or EROFS where the kernel wrote first and ext4 then gave the file system up.
    assert f"the file system on {place} could not be written back: " in result.stdout
    assert "hint: copy what you need from it" in result.stdout
    assert " True CompletedProcess" in result.stdout
    assert "no emulated device is up" in result.stdout
