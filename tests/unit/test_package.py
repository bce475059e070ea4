"""Shipped files are found beside the sources, and inside an installed package."""

import ast
import builtins
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedlab import package
from schedlab.app import documents
from schedlab.app.fleet import fleet

ROOT = Path(__file__).parents[2]
# `python -m NAME`, in a shell or as words of a command, where a module may name itself.
STARTED = re.compile(r'(?<!\w)-m"?,? (schedlab[.\w]*|"schedlab[.\w]*"|__name__|__spec__\.name)')
NAMED = re.compile(r'_MODULE = "(schedlab[.\w]+)"')


def playbooks_of(module):
    """The playbooks that a module plays: the first word of each call of `play` or `_play`."""
    for node in ast.walk(ast.parse(module.read_text())):
        called = node.func if isinstance(node, ast.Call) else None
        if getattr(called, "id", "") in ("play", "_play") and isinstance(
            node.args[0], ast.Constant
        ):
            yield node.args[0].value


def test_every_playbook_of_a_fleet_is_there():
    used = [
        name
        for module in ("cli/fleet.py", "app/fleet/fleet.py")
        for name in playbooks_of(package.PACKAGE / module)
    ]
    assert sorted(used) == ["apply", "run", "status", "undo"]
    assert all(fleet.playbook(name).is_file() for name in used)


@pytest.mark.parametrize(
    ("command", "line"), [("status", "nothing is applied"), ("undo", "undone: nothing")]
)
def test_a_fleet_of_this_machine_alone(command, line, state, tmp_path):
    """Ansible plays the playbook that is shipped, without ssh."""
    pytest.importorskip("ansible_runner")
    program = Path(sys.executable).with_name("schedlab")
    inventory = tmp_path / "hosts"
    inventory.write_text(
        f"here ansible_connection=local ansible_python_interpreter={sys.executable} "
        f"schedlab_command={program}\n"
    )
    words = [program, "fleet", command, "-i", inventory]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, f"here: {line}\n"), done.stderr


@pytest.fixture
def installed(tmp_path):
    """A package as the wheel has it: documents and collection inside, no sources beside it."""
    copy = tmp_path / "site" / "schedlab"
    shutil.copytree(package.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("docs", "ansible"):
        shutil.copytree(package.tree(name), copy / name, dirs_exist_ok=True)
    return copy


def test_an_installed_package_has_its_own_documents_and_collection(installed, tmp_path):
    script = (
        "from schedlab.app import documents; from schedlab.app.fleet import fleet\n"
        "print(fleet.playbook('undo')); print(documents.pages()['fleet'])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(installed.parent)},
    ).stdout.splitlines()  # fmt: skip
    assert shown == [
        str(installed / "ansible/playbooks/undo.yml"), str(installed / "docs/guides/fleet.md"),
    ]  # fmt: skip


def test_documents_are_found():
    assert {"fleet", "statistics", "settings"} <= set(documents.pages())


def started():
    """Modules that a process is started with, by name: in a command of ours, a guest or a test."""
    places = ["python", "ansible", "packaging", "crates", "docs", "tests", "tools"]
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *places]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    for path in map(ROOT.joinpath, done.stdout.splitlines()):
        if path.is_file() and path.suffix != ".json":
            text = path.read_text(encoding="utf-8", errors="replace")
            own = ".".join(path.with_suffix("").parts[len(package.PACKAGE.parts) - 1 :])
            for name in STARTED.findall(text):
                yield name.strip(chr(34)) if "schedlab" in name else own
            yield from NAMED.findall(text)


def test_every_module_that_is_started_by_name_is_there_and_starts_what_it_has():
    names = set(started())
    assert len(names) > 6 and {"schedlab", "schedlab.app.measure.in_guest"} <= names
    for name in sorted(names):
        path = package.PACKAGE.parent.joinpath(*name.split("."))
        path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        (start,) = (node for node in tree.body if isinstance(node, ast.If)
                    and ast.unparse(node.test) == "__name__ == '__main__'")  # fmt: skip
        called = {node.func.id for node in ast.walk(start) if isinstance(node, ast.Call)
                  and isinstance(node.func, ast.Name)}  # fmt: skip
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        imported = {each.asname or each.name for node in tree.body
                    if isinstance(node, ast.ImportFrom) for each in node.names}  # fmt: skip
        assert called and called <= there | imported | set(dir(builtins)), f"{name}: {called}"
