"""Mutation tests of the Python rooms: `make mutants ROOM=analyse SAMPLE=40`.

A copy of the tree is changed in one place at a time and the quick tests of that room run on it.
What they do not notice is tried again with the tests of its module on real devices. A mutant that
none of them notices is printed with its change: a test is missing, or the code is not needed, or
the change is one that nobody could see; then it stands in tests/survivors.toml with the reason.
The sample is drawn with a fixed seed, so that two runs change the same places.

usage: tests/mutants.py ROOM [SAMPLE [SEED]]
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SEED = 20
TIMEOUT_S = 120.0
# A mutant that takes so many times the time of the plain tests never ends. A run that is cut off
# counts as noticed, so that a limit below the plain time would hide every survivor.
SLOWER = 2.0
# room -> the tests that must notice when it is wrong
TESTS = {
    "analyse": "tests/unit/test_answer*.py tests/unit/test_limits.py tests/unit/test_run_flags.py"
    " tests/unit/test_call_cost.py tests/unit/test_goal.py tests/unit/test_diff.py"
    " tests/unit/test_fleet.py tests/unit/test_guarantees.py tests/unit/test_statements.py",
    "design": "tests/unit/test_design.py tests/unit/test_planning.py tests/unit/test_io_work*.py",
    "run": "tests/unit/test_executor.py tests/unit/test_own_work.py tests/unit/test_io_workloads.py"
    " tests/unit/test_live.py tests/unit/test_several*.py tests/host/test_gates.py"
    " tests/host/test_cache.py",
    "host": "tests/host/test_queues.py tests/host/test_devices.py tests/host/test_udev.py"
    " tests/host/test_doctor.py tests/host/test_apply.py tests/host/test_facts.py"
    " tests/host/test_recover.py tests/host/test_control.py tests/host/test_consent.py"
    " tests/unit/test_app_apply.py tests/unit/test_setting_names.py tests/unit/test_boots.py"
    " tests/unit/test_udev_serials.py tests/unit/test_several*.py",
    "store": "tests/unit/test_store*.py tests/unit/test_import*.py tests/unit/test_exports.py",
    "tune": "tests/unit/test_tune*.py tests/unit/test_app_tune.py tests/unit/test_app_space.py",
    "nouns": "tests/unit/test_nouns.py tests/unit/test_design.py tests/unit/test_report_why.py"
    " tests/unit/test_own_work.py",
    "kinds": "tests/unit/test_io_work*.py tests/unit/test_own_work.py"
    " tests/unit/test_executor.py tests/unit/test_planning.py tests/unit/test_labs.py"
    " tests/unit/test_reference.py tests/unit/test_kinds_*.py"
    " tests/unit/test_cpu_kinds.py tests/host/test_kinds.py",
    "report": "tests/unit/test_report*.py tests/unit/test_diff.py tests/unit/test_tune.py"
    " tests/unit/test_several*.py",
    "schedlab_sim": "tests/sim/test_[!sc]*.py tests/sim/test_ssd*.py tests/sim/test_cpu_[sv]*.py",
    "app": "tests/unit/test_app_*.py tests/unit/test_labs.py tests/unit/test_reference.py"
    " tests/unit/test_several*.py"
    " tests/unit/test_diff.py tests/unit/test_merge.py tests/unit/test_trace_file.py"
    " tests/unit/test_own_work.py tests/unit/test_import_csv.py"
    " tests/sim/test_host_sim.py tests/sim/test_validate.py",
    "cpu": "tests/unit/test_cpu_*.py tests/unit/test_burst_charts.py tests/host/test_cpu_crew.py",
    "cli": "tests/unit/test_cli_o*.py tests/unit/test_cli_[!o]*.py tests/unit/test_trace_file.py"
    " tests/host/test_cli_*.py tests/unit/test_labs.py tests/unit/test_import_[ct]*.py"
    " tests/sim/test_ssd_errors.py tests/sim/test_cpu_sim.py tests/sim/test_host_sim.py"
    " tests/sim/test_*validate.py",
}
# room -> pairs of modules and the tests on devices that they have; the first that fits counts
DEVICE_TESTS = {
    "run": (
        ("cpu_ext", "tests/host/test_sched_ext.py"),
        ("cpu_[enps]*", "tests/host/test_cpu_policies.py"),
        ("cpu*", "tests/host/test_burst_capture.py tests/host/test_cpu_[rs]*.py"),
        ("live* guard_rails", "tests/host/test_live_runs.py"),
        ("fidelity", "tests/host/test_trace_replay_runs.py"),
        ("candidate_settings", "tests/host/test_settings.py"),
        (
            "cache command_runs drain io_commands launch metrics_from_output phases workplace",
            "tests/host/test_cache.py tests/host/test_launch.py tests/host/test_commands.py"
            " tests/host/test_command_truth.py",
        ),
        (
            "*",
            "tests/host/test_io_engine.py tests/host/test_true_experiments.py"
            " tests/host/test_emulated_runs.py tests/e2e/test_compare.py"
            " tests/e2e/test_compare_workloads.py tests/e2e/test_switch.py"
            " tests/host/test_run_conditions.py",
        ),
    ),
    "host": (
        ("emulated* keeper", "tests/host/test_emulated*.py"),
        ("writers", "tests/host/test_apply_watch.py"),
        ("udev_service", "tests/host/test_apply_lasting.py"),
        ("bootloader", "tests/host/test_systemd_boot.py"),
        ("kernel_paths", "tests/host/test_odd_paths.py"),
        ("descriptors", "tests/host/test_descriptors.py"),
        ("settings control_groups", "tests/host/test_settings.py"),
        ("*", "tests/host/test_guardian.py tests/host/test_*_kill.py tests/e2e/test_switch.py"),
    ),
    "schedlab_sim": (
        ("emulator cli/device", "tests/host/test_emulated*.py"),
        ("emulated_devices", "tests/host/test_emulated_runs.py"),
        ("fit/* predict/fit", "tests/host/test_device_fit.py"),
    ),
    "tune": (("*", "tests/e2e/test_tune_device.py"),),
    "app": (
        ("recovering", "tests/host/test_recover.py"),
        ("apply/*", "tests/host/test_apply.py tests/host/test_apply_l*.py"),
        ("tune/*", "tests/e2e/test_tune_device.py"),
        ("cpu_comparison", "tests/host/test_cpu_policies.py"),
        ("quanta switch_cost", "tests/host/test_cpu_sweep.py"),
        ("count", "tests/host/test_cpu_run.py"),
        ("trace/command", "tests/host/test_burst_capture.py"),
        ("trace/block_io", "tests/host/test_block_capture.py"),
        ("own_work extraction", "tests/host/test_commands.py tests/host/test_kinds.py"),
        ("*", "tests/host/test_io_engine.py tests/e2e/test_compare.py"),
    ),
    "cpu": (("*", "tests/host/test_cpu_[rs]*.py tests/host/test_burst_capture.py"),),
    "cli": (
        ("apply", "tests/host/test_apply.py"),
        ("tune", "tests/e2e/test_tune_device.py"),
        ("recover", "tests/host/test_recover.py"),
        ("get list set", "tests/host/test_facts.py"),
        ("doctor", "tests/host/test_doctor.py tests/host/test_queues.py"),
        ("cost sweep", "tests/host/test_cpu_sweep.py"),
        ("cpu", "tests/host/test_burst_capture.py"),
        ("io", "tests/host/test_block_capture.py"),
        ("timings", "tests/host/test_io_engine.py"),
        ("run", "tests/e2e/test_compare.py tests/host/test_cpu_run.py"),
        ("reproduce show", "tests/e2e/test_hostile_inputs.py"),
    ),
    "kinds": (
        (
            "cpu_*",
            "tests/host/test_cpu_kinds_run.py tests/host/test_cpu_run.py"
            " tests/host/test_cpu_policies.py",
        ),
        ("archive_extraction source_tree", "tests/host/test_kinds.py"),
        ("newcomer weights actors *reads", "tests/host/test_true_experiments.py"),
        ("*", "tests/e2e/test_compare_workloads.py tests/e2e/test_compare.py"),
    ),
}
# Changes that no test can see: annotations, operators of types, and "is" for equal short texts.
SKIPPED = (
    "core/ReplaceBinaryOperator_BitOr_%",
    "core/ReplaceComparisonOperator_Eq_Is",
    "core/ReplaceComparisonOperator_NotEq_IsNot",
)
# Survivors that change nothing, each with its reason.
ALLOWED = PROJECT / "tests" / "survivors.toml"


def main(room: str, sample: int, seed: int) -> int:
    """Run a sample of the mutants of `room`; the exit status says whether 9 in 10 were noticed."""
    if room not in TESTS:
        print(f"error: there is no room {room!r}\nhint: one of {', '.join(TESTS)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="schedlab-mutants-") as place:
        tree = copied(Path(place))
        session = Path(place) / "session.sqlite"
        settings = Path(place) / "settings.toml"
        settings.write_text(configuration(room, TESTS[room], tree), encoding="utf-8")
        add_operator(Path(place))
        subprocess.run([tool("cosmic-ray"), "init", settings, session], cwd=tree, check=True)
        kept, of = thin(session, sample, seed)
        print(f"{room}: {kept} of {of} mutants", flush=True)
        execute(settings, session, tree)
        for tests, jobs in by_tests(room, survivors(session)).items():
            print(f"{len(jobs)} again with {tests}", flush=True)
            settings.write_text(configuration(room, tests, tree), encoding="utf-8")
            forget(session, jobs)
            execute(settings, session, tree)
        return summary(session)


def tool(name: str) -> Path:
    """A program of this environment."""
    return Path(sys.executable).parent / name


def add_operator(place: Path) -> None:
    """Have cosmic-ray find the operator of ours as if it was installed."""
    about = place / "first_item-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: first_item\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[cosmic_ray.operator_providers]\nfirst = first_item:Provider\n"
    )
    shutil.copy2(PROJECT / "tests" / "support" / "first_item.py", place)
    os.environ["PYTHONPATH"] = str(place)


def execute(settings: Path, session: Path, tree: Path) -> None:
    """Run the tests on every mutant of the session that has no result."""
    subprocess.run([tool("cosmic-ray"), "exec", settings, session], cwd=tree, check=True)


def survivors(session: Path) -> dict[str, str]:
    """Job of each mutant that no test noticed -> the file that it changes."""
    with sqlite3.connect(session) as database:
        return dict(
            database.execute(
                "select job_id, module_path from work_results join mutation_specs using (job_id)"
                " where upper(test_outcome) like '%SURVIVED' order by module_path, job_id"
            )
        )


def by_tests(room: str, jobs: dict[str, str]) -> dict[str, list[str]]:
    """Tests on devices -> the jobs that they may notice."""
    groups: dict[str, list[str]] = {}
    for job, path in jobs.items():
        module = path.removeprefix(f"{home(room)}/").removesuffix(".py")
        names = (module, Path(module).name)
        for modules, tests in DEVICE_TESTS.get(room, ()):
            if any(fnmatch(name, each) for each in modules.split() for name in names):
                groups.setdefault(tests, []).append(job)
                break
    return groups


def home(room: str) -> str:
    """The folder of a room; the package of the simulators is one."""
    return f"python/{room}" if room == "schedlab_sim" else f"python/schedlab/{room}"


def forget(session: Path, jobs: list[str]) -> None:
    """Drop the results of `jobs`, so that they are run again."""
    with sqlite3.connect(session) as database:
        database.executemany("delete from work_results where job_id = ?", [(job,) for job in jobs])


def copied(place: Path) -> Path:
    """The tracked files and the built modules in a directory of their own."""
    tree = place / "tree"
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listing.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, tree / name)
    for module in PROJECT.glob("python/*/*.so"):
        shutil.copy2(module, tree / module.relative_to(PROJECT))
    return tree


def command(patterns: str, tree: Path) -> str:
    """What runs the tests of `patterns` on the copy."""
    paths = (path for word in patterns.split() for path in sorted(tree.glob(word)))
    tests = " ".join(str(path.relative_to(tree)) for path in paths)
    # Absolute, for tests that start Python elsewhere.
    python = f"env PYTHONPATH={tree / 'python'} {sys.executable}"
    return f"{python} -m pytest -x -q -p no:cacheprovider {tests}"


def configuration(room: str, patterns: str, tree: Path) -> str:
    """The settings of cosmic-ray; ends the program if the tests fail without a mutant."""
    start = time.monotonic()
    tests = command(patterns, tree)
    plain = subprocess.run(tests.split(), cwd=tree, check=False, capture_output=True, text=True)
    if plain.returncode:
        print(plain.stdout[-1500:], "error: the tests fail without a mutant", sep="\n")
        print("hint:", tests)
        sys.exit(2)
    limit_s = max(TIMEOUT_S, SLOWER * (time.monotonic() - start))
    return (
        "[cosmic-ray]\n"
        f'module-path = "{home(room)}"\n'
        f"timeout = {limit_s:.1f}\n"
        "excluded-modules = []\n"
        f'test-command = "{tests}"\n'
        "[cosmic-ray.distributor]\n"
        'name = "local"\n'
    )


def thin(session: Path, sample: int, seed: int) -> tuple[int, int]:
    """Keep a random sample of the planned mutants; (kept, planned)."""
    with sqlite3.connect(session) as database:
        database.executemany(
            "delete from work_items where job_id in"
            " (select job_id from mutation_specs where operator_name like ?)",
            [(operator,) for operator in SKIPPED],
        )
        jobs = [row[0] for row in database.execute("select job_id from work_items order by job_id")]
        places = dict(
            database.execute(
                "select job_id, module_path || start_pos_row || '/' || start_pos_col"
                " || operator_name || occurrence from mutation_specs"
            )
        )
        jobs.sort(key=lambda job: places[job])  # job ids are random, places are not
        random.Random(seed).shuffle(jobs)
        for table in ("work_items", "mutation_specs"):
            database.executemany(
                f"delete from {table} where job_id = ?", [(job,) for job in jobs[sample:]]
            )
    return min(sample, len(jobs)), len(jobs)


def allowed(diff: str, known: list[dict[str, str]]) -> bool:
    """Whether a change stands among the survivors that change nothing."""
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    old = [line[1:].strip() for line in lines if line.startswith("-")]
    new = [line[1:].strip() for line in lines if line.startswith("+")]
    return any(one["file"] in diff and [one["old"]] == old and [one["new"]] == new for one in known)


def summary(session: Path) -> int:
    """Print the survivors with their change, and the share of noticed mutants."""
    with sqlite3.connect(session) as database:
        results = database.execute("select test_outcome, diff from work_results").fetchall()
    unseen = [diff for outcome, diff in results if "SURVIVED" in str(outcome).upper()]
    known = tomllib.loads(ALLOWED.read_text(encoding="utf-8"))["survivor"]
    missed = [diff for diff in unseen if not allowed(diff, known)]
    for diff in missed:
        print(diff, end="\n\n")
    of = len(results) - len(unseen) + len(missed)
    print(f"{of - len(missed)} of {of} mutants were noticed", end="")
    print(f"; {len(unseen) - len(missed)} more change nothing" if len(unseen) > len(missed) else "")
    return 0 if of - len(missed) >= 0.9 * of else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    numbers = [int(word) for word in sys.argv[2:]]
    sys.exit(main(sys.argv[1], *(numbers + [40, SEED][len(numbers) :])))
