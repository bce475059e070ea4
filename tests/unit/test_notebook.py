"""The notebook of the guides still runs, and its stored outputs are those of today."""

import ast
import contextlib
import io
import json
from pathlib import Path

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
