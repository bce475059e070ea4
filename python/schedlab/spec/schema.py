"""The JSON schema of experiment files, made from the dataclasses of `spec`.

`python -m schedlab.spec.schema` prints it; docs/reference/experiment.schema.json holds it, and a
test keeps the two the same.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from schedlab.spec import Experiment

SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(kind: Any = Experiment) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of an annotated type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return {}
    if dataclasses.is_dataclass(kind):
        return _of_dataclass(typing.cast("type[Any]", kind))
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is types.UnionType or origin is typing.Union:
        return {"anyOf": [schema(a) for a in arguments if a is not type(None)]}
    if origin is tuple:
        return {"type": "array", "items": schema(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema(arguments[1])}
    return {"type": SCALARS[kind]}


def _of_dataclass(cls: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    required = [
        f.name
        for f in fields
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    return {
        "type": "object",
        "description": " ".join((cls.__doc__ or "").split()),
        "properties": {f.name: schema(hints[f.name]) for f in fields},
        "required": required,
        "additionalProperties": False,
    }


def text() -> str:
    """The schema file."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "schedlab experiment",
    }
    return json.dumps({**head, **schema()}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
