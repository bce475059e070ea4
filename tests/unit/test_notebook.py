"""The notebook of the guides still runs and its stored outputs are today's; commands as calls."""

import ast
import contextlib
import io
import json
import re
from pathlib import Path

import pytest

import schedlab
from schedlab.call import _words
from schedlab.cli.compare import compare
from schedlab.errors import SpecError

NOTEBOOK = Path(__file__).parents[2] / "docs" / "guides" / "notebook.ipynb"


def code_cells():
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def stored(cell):
    """What a cell printed, and the kinds of what it showed."""
    printed = "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
    shown = {kind for o in cell["outputs"] for kind in o.get("data", {})}
    return printed, shown


def test_the_cells_run_and_print_what_is_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(), 1):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1]
        value = None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if isinstance(last, ast.Expr) and not cell_prints(last):
                exec(compile(ast.Module(tree.body[:-1], []), f"cell {number}", "exec"), names)
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
            else:
                exec(compile(tree, f"cell {number}", "exec"), names)
        printed, shown = stored(cell)
        assert out.getvalue() == printed, f"cell {number}: run the notebook again"
        assert ("text/html" in shown) == hasattr(value, "_repr_html_"), f"cell {number}"


def cell_prints(expression):
    call = expression.value
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") == "print"


def test_it_is_small_and_names_no_place_of_the_machine_that_ran_it():
    text = NOTEBOOK.read_text("utf-8")
    assert len(text) < 200_000
    assert "/tmp" not in text and "/root" not in text and "/home" not in text
    assert all(cell["execution_count"] for cell in code_cells())


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"schedulr": "none"},
            "schedulr: is no option of a comparison",
            "did you mean schedulers?",
        ),
        ({"json": True}, "json: is no option of a comparison", "schedlab compare --help-all"),
        ({"blocks": 0}, "Invalid value for '--blocks'", "schedlab compare --help-all"),
        ({"schedulers": "none,none", "dry_run": True}, "dry_run: is no option", "--help-all"),
    ],
)
def test_a_call_refuses_what_the_command_line_refuses(options, message, hint):
    with pytest.raises(SpecError, match=re.escape(message)) as refused:
        schedlab.compare(**options)
    assert hint in refused.value.hint


def test_options_of_a_call_are_the_words_of_the_command_line():
    options = {
        "schedulers": ["none", "bfq"], "aa": False, "read_only": True, "quick": False,
        "metric": ["a_s", "b_s"], "margin": "3%",
    }  # fmt: skip
    assert _words(compare, options) == [
        "--schedulers", "none,bfq", "--no-aa", "--read-only", "--metric", "a_s", "--metric", "b_s",
        "--margin", "3%",
    ]  # fmt: skip
