"""The command line as a program: exit codes, what goes to stderr, and which words are commands."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import COMMANDS

import schedlab
from schedlab.cli import FIRST, OFFERED, OTHERS, cli, main
from schedlab.errors import SIMULATORS
from schedlab.package import PACKAGE

SCHEDLAB = [sys.executable, "-m", "schedlab"]
TRACE = Path(__file__).parents[1] / "data" / "traces" / "tpcc-small.trace"


WRONG = (
    "compare --", "analyse gone", "undo sda --all", "run", "run a.toml --resume b",
    "doctor --quanta 1,a", "doctor --quanta 5,0", "nosuch", "io nosuch",
    "report . --markdown --csv", "device down", "device down a --all", "tune --kernel 6.12",
)  # fmt: skip


def test_an_error_is_on_stderr_with_its_exit_code(monkeypatch, capsys, golden):
    shown = []
    for words in ("--version", *WRONG):
        monkeypatch.setattr(sys, "argv", ["schedlab", *words.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert (ended.value.code, bool(captured.out)) == (
            (0, True) if words[0] == "-" else (2, False)
        )
        shown.append(f"$ schedlab {words}\n{captured.out}{captured.err}")
    text = "\n".join(shown).replace(schedlab.__version__, "VERSION")
    golden("errors.txt", text)


@pytest.mark.parametrize(
    "words", [["analyse"], ["fleet", "apply", "none", "-i"], ["compare", "--fio"]]
)
def test_a_word_that_is_no_text_is_refused_before_anything_else(words):
    """Results, which hold what was typed, are text."""
    done = subprocess.run(
        [*SCHEDLAB, *words, b"a\xff"], capture_output=True, check=False, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: 'a\\udcff' is not UTF-8 text\nhint: ")
    # A compressor that ends early is an error, not the end of schedlab without a word.
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError(13, "Permission denied", "/etc/x"), "/etc/x: Permission denied"),
        (OSError("odd"), "odd"),
    ],
)
def test_an_error_of_the_system_is_no_traceback(monkeypatch, capsys, error, message):
    def ends(**named):
        raise error

    monkeypatch.setattr(sys, "argv", ["schedlab", "status"])
    monkeypatch.setattr("schedlab.cli.cli", ends)
    with pytest.raises(SystemExit) as ended:
        main()
    hint = "hint: `schedlab doctor` shows privileges and space\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, f"error: {message}\n{hint}")


def test_a_closed_pipe_is_silent():
    ours, theirs = os.pipe()
    os.close(ours)
    ended = subprocess.run(
        [*SCHEDLAB, "docs", "statistics"], check=False, stdout=theirs, stderr=subprocess.PIPE
    )  # fmt: skip
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("group", "names"),
    [
        (group, sorted(name.split()[1] for name in COMMANDS if name.startswith(f"{group} ")))
        for group in ("cpu", "io", "lab", "sim", "trace", "device")
    ],
)
def test_a_group_lists_its_commands_by_name(group, names):
    shown = CliRunner().invoke(cli, [*group.split(), "--help"]).output
    _, _, listed = shown.partition("Commands:\n")
    rows = [line.split() for line in listed.splitlines() if line[:3].strip()]
    assert [row[0] for row in rows] == names
    assert all(row[1:] for row in rows), "a help is missing"


def test_the_help_shows_nine_commands_and_names_each_other_once():
    others = [name for names in OTHERS.values() for name in names]
    first = [name for names in FIRST.values() for name in names]
    assert len(first) == 9
    assert sorted((*first, *others)) == sorted({name.split()[0] for name in COMMANDS})
    shown = CliRunner().invoke(cli, ["--help"]).output
    for question, names in FIRST.items():
        below = shown.split(f"  {question}\n")[1]
        for name in names:
            assert re.search(rf"^    {name} +[A-Z]", below, re.M), name


@pytest.mark.parametrize("words", [["-h"], ["cpu", "-h"], ["sim", "-h"], ["io", "get", "-h"]])
def test_the_help_has_a_short_name(words):
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0
    assert shown.output == CliRunner().invoke(cli, [*words[:-1], "--help"]).output


def test_the_help_of_no_command_imports_what_works():
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom schedlab.cli import cli\n"
        "for name in sys.argv[1:]:\n"
        "    words = [*name.split(), '--help']\n"
        "    assert CliRunner().invoke(cli, words).exit_code == 0, name\n"
        "print(*sys.modules)"
    )
    words = [sys.executable, "-c", program, "", *COMMANDS]
    imported = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert "schedlab_sim.cli.run" in imported
    rooms = ("app", "analyse", "design", "host", "report", "store.folder", "tune", "_core")
    ours = [f"schedlab.{room}" for room in (*rooms, "result", "run.executor")]
    heavy = ("numpy", "scipy", "rich", "optuna", "msgspec", "schedlab.store.importers.", *ours)
    assert [name for name in imported if name.startswith(heavy)] == []
    simulators = [name for name in imported if name.startswith("schedlab_sim.")]
    assert [name for name in simulators if not name.startswith("schedlab_sim.cli")] == []


def test_the_help_of_all_reads_no_entry_points():
    assert "importlib.metadata" not in imported_by("--help")


def imported_by(command):
    """The modules that are there after a command has run."""
    program = (
        "import sys\nfrom schedlab.cli import cli\n"
        "cli(sys.argv[1:], standalone_mode=False)\nprint(*sys.modules)"
    )
    words = [sys.executable, "-c", program, *command.split()]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


def test_a_simulation_imports_no_kind_of_real_load():
    imported = imported_by("sim run --requests 1 --seeds 1")
    assert "schedlab_sim.simulation_set" in imported and "schedlab.kinds" not in imported


def test_a_plan_is_shown_without_arrays():
    imported = imported_by("compare --scratch 64M --dry-run")
    assert "schedlab.app.preview" in imported and "numpy" not in imported


def test_a_cpu_schedule_is_printed_without_statistics_and_pages():
    imported = imported_by("sim cpu --tasks A:0:8")
    heavy = ("numpy", "schedlab.analyse", "schedlab.report.timeline", "schedlab.report.frame")
    assert "schedlab_sim.cpu_schedule" in imported
    assert [name for name in imported if name.startswith(heavy)] == []


@pytest.mark.parametrize(
    ("words", "code", "first"),
    [
        (["cpu"], 2, "Usage: cli cpu [OPTIONS] COMMAND [ARGS]..."),
        (["cpu", "--help"], 0, "Usage: cli cpu [OPTIONS] COMMAND [ARGS]..."),
        (["cpu", "2", "--help"], 0, "Usage: cli cpu run [OPTIONS] N TIME"),
        (["cpu", "--policy", "rr", "--help"], 0, "Usage: cli cpu run [OPTIONS] N TIME"),
        (["cpu", "sweep", "--help"], 0, "Usage: cli cpu sweep [OPTIONS]"),
    ],
)
def test_a_number_after_cpu_means_run(words, code, first):
    shown = CliRunner().invoke(cli, words)
    assert (shown.exit_code, shown.output.splitlines()[0]) == (code, first)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell):
    shown = CliRunner().invoke(cli, ["--completion", shell])
    assert shown.exit_code == 0
    assert "_SCHEDLAB_COMPLETE" in shown.output
    assert f"{shell}_complete" in shown.output


def test_documents_are_listed_in_columns_and_printed():
    listed = CliRunner().invoke(cli, ["docs"]).stdout.splitlines()
    names = [line.split()[0] for line in listed]
    assert {"io-lab", "statistics", "workloads"} <= set(names)
    widest = max(map(len, names))
    assert all(line[widest : widest + 2] == "  " for line in listed)
    assert all(line[widest + 2] != " " for line in listed)
    printed = CliRunner().invoke(cli, ["docs", "statistics"]).stdout
    assert printed.startswith("# From runs to an answer\n")


def test_labs_are_listed_within_the_width_of_a_pipe():
    shown = CliRunner().invoke(cli, ["lab", "list"]).stdout
    rows = json.loads(CliRunner().invoke(cli, ["lab", "list", "--json"]).stdout)
    assert [set(row) for row in rows] == [{"name", "title", "study", "kind"}] * len(rows)
    titles = [line for line in shown.splitlines() if line[0] != " "]
    assert titles == [f"{row['name']}: {row['title']}" for row in rows]
    studies = [line for line in shown.splitlines() if line[0] == " "]
    assert all(line.startswith("  ") and line[2] != " " for line in studies)
    assert 70 < max(map(len, studies)) <= 80


@pytest.mark.parametrize(("columns", "widest"), [("50", 50), ("300", 100)])
def test_labs_are_listed_within_the_width_of_a_terminal(columns, widest):
    ours, theirs = pty.openpty()
    where = {**os.environ, "COLUMNS": columns}
    subprocess.run([*SCHEDLAB, "lab", "list"], check=True, stdout=theirs, env=where)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:
        os.close(ours)
    studies = [line for line in shown.decode().splitlines() if line.startswith("  ")]
    assert widest - 12 < max(map(len, studies)) <= widest


def test_an_experiment_is_written_as_a_file_that_can_be_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(cli, ["init"])
    assert shown.stdout == (
        "experiment.toml: edit it, then run `schedlab run experiment.toml`\n"
    )  # fmt: skip
    CliRunner().invoke(cli, ["init", "lab.toml", "--lab", "interference"], catch_exceptions=False)
    CliRunner().invoke(
        cli, ["init", "full.toml", "--lab", "interference", "--scale", "full"],
        catch_exceptions=False,
    )  # fmt: skip
    plain, small, full = ((tmp_path / f"{name}.toml").read_text()
                          for name in ("experiment", "lab", "full"))  # fmt: skip
    assert "title" in plain and len({plain, small, full}) == 3


@pytest.mark.parametrize("name", ["compare", "tune", "cpu compare"])
def test_the_help_of_a_command_with_many_options_is_one_screen(name, golden):
    shown = CliRunner().invoke(cli, [*name.split(), "--help"], terminal_width=80)
    assert len(shown.output.splitlines()) <= 50
    golden(f"help/{name.replace(' ', '-')}.txt", shown.output)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["compar"], "compare"), (["cpu", "swep"], "sweep"), (["sim", "rum"], "run"),
     (["reco"], "recover or recommend or report?")],
)  # fmt: skip
def test_a_misspelt_command_is_answered_with_the_nearest(typed, meant):
    shown = CliRunner().invoke(cli, typed)
    assert (shown.exit_code, f"Did you mean {meant}" in shown.output) == (2, True)


def test_a_caller_that_ignores_the_end_of_children_gets_the_status_of_a_command():
    """As some daemons do: the kernel then reaps a child before it can be waited for."""
    words = [*SCHEDLAB, "trace", "cpu", "--method", "schedstat", "--", "false"]
    ended = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr


@pytest.fixture
def core_alone(tmp_path):
    """The words of `schedlab` where nothing but its core can be imported."""
    places = {Path(path) for path in map(str, sys.path) if path.endswith("-packages")}
    for each in (*(each for place in places for each in place.iterdir()), PACKAGE):
        if each.suffix not in (".dist-info", ".pth") and each.name != "schedlab_sim":
            (tmp_path / each.name).symlink_to(each)
    return [sys.executable, "-S", "-m", "schedlab"], {**os.environ, "PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("sim run", "schedlab sim"),
        ("device list", "schedlab device"),
        ("predict --help", "schedlab predict"),
        ("compare --model disk7200 --dry-run", "an emulated device"),
        ("compare --kernel 6.12 --dry-run", "an emulated device"),
        ("lab run ncq-ssd --dry-run", "kind 'ssd'"),
    ],
)
def test_without_the_simulators_a_command_says_what_to_install(core_alone, line, what):
    words, environment = core_alone
    done = subprocess.run(
        [*words, *line.split()], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    hint = f"hint: {SIMULATORS}"
    missing = "needs the simulators, which are not installed"
    assert done.stderr.endswith(f"{what} {missing}\n{hint}\n")


def test_without_the_simulators_the_rest_works(core_alone):
    words, environment = core_alone
    for line in ("cpu compare --dry-run", "trace stats TRACE", "--help"):
        typed = line.replace("TRACE", str(TRACE)).split()
        subprocess.run([*words, *typed], env=environment, capture_output=True, check=True)


def test_without_the_simulators_nothing_promises_them(core_alone):
    words, environment = core_alone
    program = "import sys; sys.argv[0] = 'schedlab'; from schedlab.cli import main; main()"

    def said(*typed, **more):
        done = subprocess.run(
            [*words[:2], "-c", program, *typed],
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout

    assert "simulations (simulators: missing)" in " ".join(said("doctor").split())
    completed = {"_SCHEDLAB_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    assert said(COMP_WORDS="schedlab co", **completed) == "plain,compare\n"
    assert said(COMP_WORDS="schedlab sim", **completed).strip() == ""
    program = "import schedlab; print(hasattr(schedlab, 'sim'), len(schedlab.kinds.KINDS) > 20)"
    subprocess.run(
        [*words[:2], "-c", f"import schedlab.kinds; {program}"], env=environment, check=True
    )


def test_simulators_that_do_not_fit_are_told_and_stop_nothing_else(core_alone, tmp_path):
    words, environment = core_alone
    made = tmp_path / "schedlab_sim"
    made.mkdir()
    (made / "__init__.py").write_text("import schedlab.of_another_version\n")
    about = tmp_path / "schedlab_sim-0.1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text(
        "[schedlab.kinds]\nssd = schedlab_sim:Ssd\n[schedlab.commands]\nsim = schedlab_sim:sim\n"
    )
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: schedlab-sim\nVersion: 0.1.0\n")
    for line, code in (("cpu compare --dry-run", 0), ("sim run", 2), ("lab run ncq-ssd", 2)):
        done = subprocess.run(
            [*words, *line.split()], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert not code or "the simulators, which do not fit this schedlab: " in done.stderr


def test_the_help_of_all_says_of_the_simulators_what_they_say_themselves():
    own = {
        name: cli.get_command(click.Context(cli), name).get_short_help_str(200) for name in OFFERED
    }
    assert {
        name: line for name, line in own.items() if not line.startswith(OFFERED[name][:-1])
    } == {}
