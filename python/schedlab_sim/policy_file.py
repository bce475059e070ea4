"""Policies of the command queue written in Python: `path/to/file.py:Class[,key=value…]`.

The file is code and is run. Its class has one method:

* `select(queue, now_ns, device)`: the row of `queue` to dispatch next, or
* `order(queue, now_ns, device)`: rows to dispatch one after another until a request arrives, or
* `estimate(queue, now_ns, device)`: the time that each row is taken to need, in ns. The least
  α^n·T is dispatched, and aging comes by itself.

`queue` is a read-only structured array of `QUEUE_DTYPE`, in order of admission, valid during the
call; for `estimate` it holds the requests that came or whose `missing` changed. `device.page_ns(
is_write)` is the time of a page. Optional: `uses` (a set; without `"missing"` in it the column
`missing` is not kept up to date), `volatile = True` (`estimate` is called for all, each time).
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns.names import is_policy_file
from schedlab_sim.device import parse_change

QUEUE_DTYPE = [
    ("index", "<u8"),
    ("arrival_ns", "<u8"),
    ("admitted_ns", "<u8"),
    ("first_page", "<u4"),
    ("pages", "<u4"),
    ("missing", "<u4"),
    ("is_write", "u1"),
    ("is_trim", "u1"),
    ("overtaken", "<u2"),
    ("estimate", "<f8"),
    ("power", "<f8"),
    ("unit_ns", "<f8"),
]
HINT = "see docs/guides/policy-in-python.md"


def split_policies(text: str) -> list[str]:
    """Names separated by commas; `key=value` belongs to the policy file before it."""
    names: list[str] = []
    for part in text.split(","):
        key, equals, _ = part.partition("=")
        if names and equals and ":" not in key and is_policy_file(names[-1]):
            names[-1] += f",{part.strip()}"
        else:
            names.append(part.strip())
    return names


def load_policy(policy: str) -> Any:
    """An object of the class; SpecError names the file and line of an error in it."""
    where, _, name = policy.partition(".py:")
    path = Path(f"{where}.py")
    name, *settings = name.split(",")
    arguments = dict(_settings(settings))
    spec = importlib.util.spec_from_file_location(f"schedlab_policy_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SpecError(f"policy {policy}: {path} is not a file", HINT)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        policy_class = getattr(module, name, None)
        instance = None if policy_class is None else policy_class(**arguments)
    except Exception as error:
        line = _line_in(path, error)
        raise SpecError(f"policy {policy}: {path}{line}: {error!r}", HINT) from error
    if policy_class is None:
        raise SpecError(f"policy {policy}: {path} has no class {name}", HINT)
    return instance


def policy_sha256(policy: str) -> str:
    """SHA-256 of the file, to be stored with a result."""
    path = Path(policy.partition(".py:")[0] + ".py")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _settings(texts: Iterable[str]) -> Iterable[tuple[str, Any]]:
    return (parse_change(text) for text in texts)


def _line_in(path: Path, error: BaseException) -> str:
    line, traceback = "", error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = f", line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return line
