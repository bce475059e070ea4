"""Holds the house together: who may import whom, how long things may be, what every file says.

The ratchet: what is over a limit today is in `OVER` with its size and may shrink, not grow.
"""

import ast
import functools
import importlib
import re
import subprocess
from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "schedlab"
SIMULATORS = ROOT / "python" / "schedlab_sim"
COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600

# package -> what of ours it may import (itself is always allowed); see ARCHITECTURE.md.
MAY_IMPORT = {
    "errors": set(),
    "package": {"errors"},
    "nouns": {"errors"},
    "kinds": {"nouns", "errors", "store", "_core"},
    "host": {"nouns", "errors", "_core"},
    "design": {"nouns", "errors", "kinds", "store"},
    "store": {"nouns", "errors", "_core"},
    "run": {"nouns", "errors", "kinds", "host", "store", "design", "cpu", "_core"},
    "cpu": {"nouns", "errors", "_core", "host"},
    "guest": {"nouns", "errors", "store", "host"},
    "analyse": {"nouns", "errors", "_core"},
    "report": {"nouns", "errors", "analyse", "store"},
    "result": {"nouns", "errors", "kinds", "store", "analyse", "report"},
    "tune": {"nouns", "errors", "analyse", "_core"},
    "app": {
        "nouns", "errors", "kinds", "host", "design", "run", "store", "analyse", "report", "result",
        "cpu", "tune", "guest", "_core",
    },
    "cli": {
        "app", "report", "result", "nouns", "errors", "host", "store", "cpu", "run",
    },
    "call": {"app", "cli", "errors", "result"},
    "__init__": {"app", "call", "errors", "result", "run", "nouns"},
    "__main__": {"cli"},
}  # fmt: skip
# The same of the simulators, which no core room may import.
SIMULATORS_MAY_IMPORT = {
    "simulation": {
        "nouns", "errors", "_core", "design", "store", "report", "kinds", "run", "host", "package",
    },
    "fit": {"nouns", "errors", "_core"},
    "predict": {
        "nouns", "errors", "_core", "store", "kinds", "run", "host", "guest", "app", "simulation",
        "fit",
    },
    "cli": {
        "nouns", "errors", "store", "report", "host", "run", "cli", "simulation", "fit", "predict",
    },
}  # fmt: skip
CLI_LINES_MAX = 3_800
RUST_MAY_USE = {
    "model": set(),
    "load": {"model"},
    "trace": {"model"},
    "memory": set(),
    "formats": {"model"},
    "sim": {"model", "memory", "formats"},
    "emulate": {"model", "sim"},
    "py": {"model", "load", "trace", "formats"},
    "py_sim": {"model", "sim", "emulate"},
}
# Pairs of modules of a crate that name each other: a door of a capture and what it is read from.
RUST_PAIRS = {
    "trace: blocks and bpf", "trace: bpf and records", "trace: bpf and runqueue",
    "trace: bpf and syncs",
}  # fmt: skip
RUST_PATHS = re.compile(
    r"^ *(?:pub(?:\(\w+\))? )?use ([^;]+);|\b((?:crate|super)(?:::\w+)+)", re.MULTILINE
)
# A file of ours, as builds and their scripts name it.
BUILDS = re.compile(
    r"(?<![\w./$}-])(?:packaging|tests|tools|fuzz|benches|crates|docs|ansible)/[\w./-]*[\w]"
)
# A source of ours as prose names it, by the end of its path; comments, docstrings, and the names in
# them: in backquotes, or called.
SOURCE = re.compile(r"(?<![\w./<{~-])(?:[\w-]+/)+[\w-]+\.(?:py|rs)\b")
PROSE = re.compile(r'"""[\s\S]*?"""|#.*')
SPOKEN = re.compile(r"`([^`\n]+)`|\b(\w+)\(")
# Placeholders, and what is of another project: Dask, Prometheus, the kernel.
NOT_OURS = {
    "path/to/file.py", "crates/sim/src/policy/reads_by_wait.rs", "distributed/cfexecutor.py",
    "NAME_read_latency_ns_mean", "histogram_quantile", "sched_info_depart",
}  # fmt: skip
# "path" or "path:function" -> lines today.
OVER: dict[str, int] = {}


def tracked(*endings):
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [
        ROOT / n
        for n in listing.stdout.splitlines()
        if n.endswith(endings) and (ROOT / n).is_file()
    ]


@functools.cache
def parsed(path):
    """The tree of a Python file, which most rules look through."""
    return ast.parse(path.read_text())


def name(path):
    return str(path.relative_to(ROOT))


def over(sizes, limit):
    return {key: size for key, size in sizes.items() if size > max(limit, OVER.get(key, 0))}


def part_of(module):
    return module.split(".")[1] if module.startswith("schedlab.") else None


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "schedlab":
                yield from (f"schedlab.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", sorted(SIMULATORS.rglob("*.py")), ids=name)
def test_walls_around_the_simulators(path):
    rooms = {"fit", "predict", "cli"}
    own = path.relative_to(SIMULATORS).parts[0]
    own = own if own in rooms else "simulation"
    used = set()
    for module in imports(parsed(path)):
        first, _, rest = module.partition(".")
        part = rest.partition(".")[0]
        if first == "schedlab_sim":
            used |= {part if part in rooms else "simulation"} - {own}
        elif first == "schedlab" and rest:
            used.add(part)
    assert used <= SIMULATORS_MAY_IMPORT[own]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name)
def test_the_core_imports_no_simulator(path):
    """It asks for them by the names of entry points, and works without them."""
    assert [m for m in imports(parsed(path)) if m.startswith("schedlab_sim")] == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name)
def test_walls_between_python_packages(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    everywhere = {None, own, "package"}
    used = {part_of(module) for module in imports(parsed(path))} - everywhere
    used = {
        part
        for part in used
        if (PACKAGE / part).exists() or (PACKAGE / f"{part}.py").exists() or part == "_core"
    }
    assert own in MAY_IMPORT, f"{own} has no rule"
    assert used <= MAY_IMPORT[own], f"{own} imports {used - MAY_IMPORT[own]}"


def test_modules_are_named_by_string_only_where_commands_are_imported_late():
    """A name in a string is seen neither by go-to-definition nor by the walls above; the files of
    the kinds are found in their room, by no name.
    """
    modules = [
        name(path)
        for path in (*PACKAGE.rglob("*.py"), *SIMULATORS.rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute | ast.Name)
        and (getattr(node, "attr", None) or getattr(node, "id", None)) == "import_module"
    ]
    found = {"python/schedlab/cli/__init__.py", "python/schedlab/kinds/__init__.py"}
    assert set(modules) <= found


def test_only_one_module_finds_files_by_where_it_is():
    """Paths are those of the package, so that a module may move: no other asks for `__file__`."""
    modules = {
        name(path)
        for path in (*PACKAGE.rglob("*.py"), *SIMULATORS.rglob("*.py"))
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Name) and node.id == "__file__")
        or (isinstance(node, ast.Attribute) and node.attr == "__file__")
    }
    assert modules == {"python/schedlab/package.py"}


def test_the_command_line_stays_thin():
    homes = (PACKAGE / "cli", SIMULATORS / "cli")
    lines = sum(len(p.read_text().splitlines()) for home in homes for p in home.rglob("*.py"))
    assert lines <= CLI_LINES_MAX


@pytest.mark.parametrize("crate", RUST_MAY_USE)
def test_walls_between_crates(crate):
    manifest = (ROOT / "crates" / crate / "Cargo.toml").read_text()
    used = set(re.findall(r"^schedlab-(\w+)", manifest, re.MULTILINE))
    assert used <= RUST_MAY_USE[crate]


@pytest.mark.parametrize("crate", RUST_MAY_USE)
def test_no_two_modules_of_a_crate_name_each_other(crate):
    """Beside each other, at each level; what both need stands in a third one below them."""
    named = set(rust_siblings(ROOT / "crates" / crate / "src"))
    pairs = {f"{crate}: {'::'.join(a)} and {b[-1]}" for a, b in named if a < b and (b, a) in named}
    assert pairs == {pair for pair in RUST_PAIRS if pair.startswith(f"{crate}:")}


def rust_siblings(source):
    """(module, one beside it that it names): in `use` and in paths, through re-exports."""
    files, exported, found = {}, {}, []
    for path in source.rglob("*.rs"):
        parts = path.relative_to(source).with_suffix("").parts
        if "tests" in parts:
            continue
        code = re.sub(r"//.*", "", path.read_text().partition("#[cfg(test)]\nmod tests")[0])
        files[parts[:-1] if parts[-1] in ("lib", "mod") else parts] = code
    modules = {here[:n] for here in files for n in range(len(here) + 1)}
    for here, code in files.items():
        for use, inline in RUST_PATHS.findall(code):
            for one in rust_paths(use or inline):
                parts = tuple(re.sub(r"::self$| as .*", "", one).split("::"))
                base = here
                while parts[:1] == ("super",):
                    base, parts = base[:-1], parts[1:]
                if parts[:1] == ("crate",):
                    base, parts = (), parts[1:]
                elif base == here and here + parts[:1] not in modules:
                    continue
                found.append((here, base + parts))
                if use and parts:
                    exported.setdefault(here + parts[-1:], base + parts)

    def owner(path):
        for n in range(1, len(path) + 1):
            if path[:n] in exported and path[:n] not in modules:
                return owner(exported[path[:n]] + path[n:])
        return path

    for here, path in found:
        there = owner(path)
        shared = zip(here, there, strict=False)
        level = next((n for n, two in enumerate(shared) if two[0] != two[1]), None)
        if level is not None and there[: level + 1] in modules:
            yield here[: level + 1], there[: level + 1]


def rust_paths(tree):
    """`a::{b, c::d}` is `a::b` and `a::c::d`."""
    inner = re.compile(r"([\w:]*)\{([^{}]*)\}")
    while "{" in tree:
        tree = inner.sub(lambda m: ",".join(m[1] + e.strip() for e in m[2].split(",")), tree)
    return [path.strip() for path in tree.split(",")]


def test_no_line_is_longer_than_100_columns():
    long_lines = [
        f"{name(path)}:{number}"
        for path in tracked(".py", ".rs", ".sh", ".c", "Makefile", "run-all")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(re.sub(r"  # (type:|noqa).*", "", line)) > COLUMNS_MAX and path.name != "Makefile"
    ]
    assert long_lines == []


def test_no_module_is_longer_than_600_lines():
    sizes = {name(p): len(p.read_text().splitlines()) for p in tracked(".py", ".rs", ".c")}
    assert over(sizes, MODULE_LINES_MAX) == {}


def test_no_function_is_longer_than_70_lines():
    sizes = {}
    for path in tracked(".py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes[f"{name(path)}:{node.name}"] = node.end_lineno - node.lineno + 1
    for path in tracked(".rs"):
        for function, lines in rust_functions(path.read_text()):
            sizes[f"{name(path)}:{function}"] = lines
    assert over(sizes, FUNCTION_LINES_MAX) == {}


def rust_functions(text):
    """(name, lines) of functions in rustfmt's layout: the closing brace has fn's indentation."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        head = re.match(
            r"( *)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |extern \"C\" )*fn (\w+)", line
        )
        if not head or line.rstrip().endswith((";", "}")):
            continue
        closing = head[1] + "}"
        end = next((i for i in range(start, len(lines)) if lines[i] == closing), start)
        yield head[2], end - start + 1


def test_every_module_says_what_it_is_for():
    silent = [
        name(path)
        for path in tracked(".py")
        if path.read_text().strip() and not ast.get_docstring(parsed(path))
    ]
    silent += [
        name(p) for p in tracked(".rs") if not p.read_text().lstrip().startswith(("//", "/*"))
    ]
    assert silent == []


def of_the_product():
    """(name, tree) of every Python file that is no test."""
    homes = (PACKAGE, SIMULATORS, ROOT / "tools")
    for path in tracked(".py"):
        if any(path.is_relative_to(home) for home in homes):
            yield name(path), parsed(path)


def test_a_class_name_means_one_thing():
    classes = {}
    for path, tree in of_the_product():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(path)
    assert {each: paths for each, paths in classes.items() if len(paths) > 1} == {}


def test_a_docstring_says_the_thing_itself():
    """ "What is measured" says less than "The measured devices": see the words of CONTRIBUTING."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    riddles = {
        path
        for path, tree in of_the_product()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and (ast.get_docstring(node) or "").startswith("What ")
    }
    assert riddles == set()


def test_no_two_test_files_have_one_name():
    names = [path.name for path in tracked(".py") if path.name.startswith("test_")]
    assert sorted(set(names)) == sorted(names)  # pytest imports them by name


def test_the_smoke_tests_of_other_kernels_exist():
    for line in (ROOT / "tests" / "kernels" / "smoke.txt").read_text().split():
        path, _, name = line.partition("::")
        assert not name or f"\ndef {name}(" in (ROOT / path).read_text(), line


def test_every_file_that_a_build_names_is_there():
    """Of what only some builds run: suites, packages, fuzzers; and in the words of Makefile."""
    builders = [ROOT / "Makefile", *tracked("tests/suite", "tests/run-all", ".ci/run"),
                *tracked("tests/packages", "tests/wheel", "smoke.txt", "CONTRIBUTING.md"),
                *(path for path in tracked("") if path.parent.name == "packaging")]  # fmt: skip
    named = {
        (name(path), match[0].rstrip(".,"))
        for path in builders
        for match in BUILDS.finditer(path.read_text(encoding="utf-8"))
    }
    missing = [each for each in named if not (ROOT / each[1]).exists()
               and not re.search("[A-Z]{4}", each[1])]  # fmt: skip
    assert len(named) > 40 and not missing


def test_sources_that_prose_names_are_there():
    """By a part of their path, such as `settings/udev.py`: also in comments of another language."""
    ends = {"/".join(parts[n:]) for path in tracked(".py", ".rs")
            for parts in [path.relative_to(ROOT).parts] for n in range(len(parts))}  # fmt: skip
    product = ("ansible", "benches", "crates", "docs", "fuzz", "python", "tools")
    gone = [
        f"{name(path)}: {source}"
        for path in tracked(".py", ".rs", ".md", ".toml", "Makefile")
        if path.relative_to(ROOT).parts[0] in product or path.suffix == ".md"
        for source in SOURCE.findall(path.read_text(encoding="utf-8"))
        if source.removeprefix("PWD/") not in ends | NOT_OURS
    ]
    assert gone == []


def test_names_that_prose_names_are_in_the_code():
    """Of what a comment or docstring calls by its name: renamed there, it is renamed here."""
    named, code = {}, set(NOT_OURS)
    for path in tracked(".py", ".pyi", ".rs", ".toml", ".js", ".c", ".md"):
        code.update(re.findall(r"\w+", name(path)))
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(PACKAGE.parent) and path.suffix == ".py":
            named[name(path)] = " ".join(PROSE.findall(text))
        if path.name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
            named[name(path)] = text
        if path.suffix != ".md":
            code.update(re.findall(r"\w+", PROSE.sub("", re.sub(r"//.*", "", text))))
    gone = {
        f"{path}: {word}"
        for path, text in named.items()
        for quoted, called in SPOKEN.findall(text)
        for word in ([called] if called else re.findall(r"[A-Za-z]\w*[A-Za-z0-9]", quoted))
        if "_" in word and word not in code
    }
    assert gone == set()


def test_print_stays_in_the_command_line():
    modules = [
        name(path)
        for path in (*PACKAGE.rglob("*.py"), *SIMULATORS.rglob("*.py"))
        if "cli" not in path.parts
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert modules == []


def test_unsafe_stays_where_it_is_declared():
    for crate in ("model", "formats", "sim"):
        assert "#![forbid(unsafe_code)]" in (ROOT / "crates" / crate / "src" / "lib.rs").read_text()


@pytest.mark.parametrize("module", ["schedlab._core", "schedlab_sim._simulators"])
def test_every_rust_name_has_a_python_signature(module):
    stub = ast.parse((PACKAGE.parent / f"{module.replace('.', '/')}.pyi").read_text())
    declared = {
        node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    } | {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    names = dir(importlib.import_module(module))
    offered = {each for each in names if not each.startswith("__") or each == "__version__"}
    assert declared == offered


def test_no_file_of_the_tests_is_a_copy_of_one_that_is_shipped():
    tests = ROOT / "tests"
    shipped = {path.read_bytes(): name(path) for path in (PACKAGE / "labs").iterdir()}
    files = [path for path in tracked("") if path.is_relative_to(tests) and path.stat().st_size]
    assert [name(path) for path in files if path.read_bytes() in shipped] == []


def test_versions_agree():
    import tomllib

    from schedlab import __version__

    project, simulators, cargo = (
        tomllib.loads((ROOT / file).read_text())
        for file in ("pyproject.toml", "python/schedlab_sim/pyproject.toml", "Cargo.toml")
    )
    assert project["project"]["version"] == cargo["workspace"]["package"]["version"] == __version__
    assert simulators["project"]["version"] == __version__
    assert simulators["project"]["dependencies"] == [f"schedlab=={__version__}"]
    extras = project["project"]["optional-dependencies"]
    assert extras["sim"] == [f"schedlab-sim=={__version__}"]


def test_locks_name_no_registry_host():
    for lock in ("build.lock", "requirements.lock", "test.lock", "tools.lock"):
        text = (ROOT / lock).read_text()
        assert not re.search(r"^[^#]*://", text, re.MULTILINE), lock


def test_the_tests_of_a_room_are_there_for_its_mutants():
    """A pattern that names no file would leave out its tests, and let mutants survive."""
    of_devices = [tests for pairs in mutants.DEVICE_TESTS.values() for _, tests in pairs]
    patterns = {word for tests in (*mutants.TESTS.values(), *of_devices) for word in tests.split()}
    assert {word for word in patterns if not [*ROOT.glob(word)]} == set()


def test_a_release_is_told_in_sixty_lines():
    """The changelog is for users: what was mended before a release is the git log."""
    releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert releases
    for each in releases:
        assert each.count("\n") <= 60, each.partition("\n")[0]
