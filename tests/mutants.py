"""Mutation tests of the Python rooms: `make mutants ROOM=analyse SAMPLE=40`.

A copy of the tree is changed in one place at a time and the tests of that room run on it. A mutant
that no test notices is printed with its change: either a test is missing or the code is not needed.
The sample is drawn with a fixed seed, so that two runs change the same places.

usage: tests/mutants.py ROOM [SAMPLE]
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SEED = 20
TIMEOUT_S = 120.0
# A mutant that takes so many times the time of the plain tests never ends. A run that is cut off
# counts as noticed, so that a limit below the plain time would hide every survivor.
SLOWER = 5.0
# room -> the tests that must notice when it is wrong
TESTS = {
    "analyse": "tests/unit/test_analyse_[!c]*.py tests/unit/test_run_flags.py"
    " tests/unit/test_call_cost.py tests/unit/test_goal.py tests/unit/test_diff.py"
    " tests/unit/test_analyse.py tests/unit/test_analyse_c*.py",
    "design": "tests/unit/test_design.py tests/unit/test_planning.py tests/unit/test_io_work*.py",
    "run": "tests/unit/test_executor.py tests/unit/test_own_work.py tests/unit/test_io_workloads.py"
    " tests/host/test_gates.py",
    "host": "tests/host/test_queues.py tests/host/test_devices.py tests/host/test_udev.py"
    " tests/host/test_doctor.py tests/host/test_apply.py tests/host/test_facts.py"
    " tests/host/test_recover.py tests/host/test_control.py tests/host/test_consent.py"
    " tests/host/test_emulated_keeper.py tests/host/test_emulated.py tests/host/test_guardian.py",
    "store": "tests/unit/test_store*.py tests/unit/test_import*.py",
    "tune": "tests/unit/test_tune.py",
    "spec": "tests/unit/test_spec.py tests/unit/test_design.py tests/unit/test_report_why.py"
    " tests/unit/test_own_work.py",
}
# Changes that no test can see: annotations, and operators of types.
SKIPPED = "core/ReplaceBinaryOperator_BitOr_%"


def main(room: str, sample: int) -> int:
    """Run a sample of the mutants of `room`; the exit status says whether 9 in 10 were noticed."""
    if room not in TESTS:
        print(f"error: there is no room {room!r}\nhint: one of {', '.join(TESTS)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="schedlab-mutants-") as place:
        tree = copied(Path(place))
        session = Path(place) / "session.sqlite"
        settings = Path(place) / "settings.toml"
        tests = command(room).split()
        start = time.monotonic()
        if subprocess.run(tests, cwd=tree, check=False, capture_output=True).returncode:
            print(f"error: the tests of {room} fail without a mutant\nhint: {command(room)}")
            return 2
        limit = max(TIMEOUT_S, SLOWER * (time.monotonic() - start))
        settings.write_text(configuration(room, limit), encoding="utf-8")
        tool = str(Path(sys.executable).parent / "cosmic-ray")
        subprocess.run([tool, "init", settings, session], cwd=tree, check=True)
        kept, of = thin(session, sample)
        print(f"{room}: {kept} of {of} mutants", flush=True)
        subprocess.run([tool, "exec", settings, session], cwd=tree, check=True)
        return summary(session)


def copied(place: Path) -> Path:
    """The tracked files and the built core in a directory of their own."""
    tree = place / "tree"
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listing.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, tree / name)
    for core in (PROJECT / "python" / "schedlab").glob("_core*.so"):
        shutil.copy2(core, tree / "python" / "schedlab" / core.name)
    return tree


def command(room: str) -> str:
    """What runs the tests of a room on the copy."""
    paths = (path for word in TESTS[room].split() for path in sorted(PROJECT.glob(word)))
    tests = " ".join(str(path.relative_to(PROJECT)) for path in paths)
    return f"env PYTHONPATH=python {sys.executable} -m pytest -x -q -p no:cacheprovider {tests}"


def configuration(room: str, limit_s: float) -> str:
    """The settings of cosmic-ray for one room."""
    return (
        "[cosmic-ray]\n"
        f'module-path = "python/schedlab/{room}"\n'
        f"timeout = {limit_s:.1f}\n"
        "excluded-modules = []\n"
        f'test-command = "{command(room)}"\n'
        "[cosmic-ray.distributor]\n"
        'name = "local"\n'
    )


def thin(session: Path, sample: int) -> tuple[int, int]:
    """Keep a random sample of the planned mutants; (kept, planned)."""
    with sqlite3.connect(session) as database:
        database.execute(
            "delete from work_items where job_id in"
            " (select job_id from mutation_specs where operator_name like ?)",
            (SKIPPED,),
        )
        jobs = [row[0] for row in database.execute("select job_id from work_items order by job_id")]
        places = dict(
            database.execute(
                "select job_id, module_path || start_pos_row || '/' || start_pos_col"
                " || operator_name || occurrence from mutation_specs"
            )
        )
        jobs.sort(key=lambda job: places[job])  # job ids are random, places are not
        random.Random(SEED).shuffle(jobs)
        for table in ("work_items", "mutation_specs"):
            database.executemany(
                f"delete from {table} where job_id = ?", [(job,) for job in jobs[sample:]]
            )
    return min(sample, len(jobs)), len(jobs)


def summary(session: Path) -> int:
    """Print the survivors with their change, and the share of noticed mutants."""
    with sqlite3.connect(session) as database:
        results = database.execute("select test_outcome, diff from work_results").fetchall()
    survivors = [diff for outcome, diff in results if "SURVIVED" in str(outcome).upper()]
    for diff in survivors:
        print(diff, end="\n\n")
    noticed = len(results) - len(survivors)
    print(f"{noticed} of {len(results)} mutants were noticed")
    return 0 if noticed >= 0.9 * len(results) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40))
