"""Round trips between the nouns and plain JSON types.

`from_json` is the boundary for what strangers wrote: types, finite numbers of sensible size, and
text without control characters are checked here, once, and nowhere behind it.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from schedlab.errors import SpecError
from schedlab.nouns.printable import is_printable, printable

T = TypeVar("T")
#: No figure of a machine is larger, and sums and squares of smaller ones are finite.
NUMBER_MAX = 1e30


def to_json(value: Any) -> Any:
    """Plain JSON types for any value of this module; NaN and infinities become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_json(cls: type[T], data: Any, where: str = "") -> T:
    """A `cls` from plain JSON types; SpecError naming `where` and the key otherwise."""
    return typing.cast("T", convert(cls, data, where or cls.__name__))


def convert(kind: Any, data: Any, where: str) -> Any:
    """`data` as the annotated type `kind`; recursion over dataclasses, mappings and tuples.

    A `kind` may also be written as the data looks: `[kind]` is a list, and a dict a table that has
    these keys among others. A key with `?` may be missing; null is as good as missing.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _any(data, where)
    if isinstance(kind, dict):
        return _build_table(kind, data, where)
    if isinstance(kind, list):
        return list(_build_tuple((kind[0], ...), data, where))
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast("type[Any]", kind), data, where)
    if origin is Literal:
        # By type as well: True is 1, and a list has no hash.
        if any(type(data) is type(each) and data == each for each in arguments):
            return data
        raise SpecError(
            f"{where} = {data!r:.80}", f"expected one of {', '.join(map(repr, arguments))}"
        )
    if origin is types.UnionType or origin is typing.Union:
        if data is None and type(None) in arguments:
            return None
        return _build_union([a for a in arguments if a is not type(None)], data, where)
    if origin is tuple:
        return _build_tuple(arguments, data, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise SpecError(f"{where} = {data!r:.80}", "expected a table")
        return {
            _text(key, where): convert(arguments[1], item, f"{where}.{printable(str(key))}")
            for key, item in data.items()
        }
    return _build_scalar(kind, data, where)


def _build_table(kinds: Mapping[str, Any], data: Any, where: str) -> dict[str, Any]:
    """All of a table, with the values of the named keys as their kinds."""
    if not isinstance(data, Mapping):
        raise SpecError(f"{where} = {data!r:.80}", "expected a table")
    table = {**data}
    for name, kind in kinds.items():
        key = name.removesuffix("?")
        if table.get(key) is not None:
            table[key] = convert(kind, table[key], f"{where}.{key}")
        elif name.endswith("?"):
            table.pop(key, None)
        else:
            raise SpecError(f"{where}: key {key!r} is missing", f"add {key!r}")
    return table


def _build_union(kinds: list[Any], data: Any, where: str) -> Any:
    """The first of `kinds` that fits exactly, then the first that can be made to fit."""
    for kind in kinds:
        if isinstance(kind, type) and type(data) is kind:
            return _any(data, where)
    error: SpecError | None = None
    for kind in kinds:
        try:
            return convert(kind, data, where)
        except SpecError as failed:
            error = failed
    raise error or SpecError(f"{where} = {data!r:.80}")


def _build_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise SpecError(f"{where} = {data!r:.80}", "expected a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(arguments) != len(data):
        raise SpecError(f"{where} has {len(data)} items", f"expected {len(arguments)}")
    pairs = enumerate(zip(arguments, data, strict=True))
    return tuple(convert(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)


def _build_scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is float and data is None:
        return float("nan")
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(_any(data, where))
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise SpecError(f"{where} = {data!r:.80}", f"expected {getattr(kind, '__name__', kind)}")
    return _any(data, where)


def _any(data: Any, where: str) -> Any:
    """Plain JSON types as they are; SpecError for numbers and text that nothing can work with."""
    if isinstance(data, str):
        return _text(data, where)
    if isinstance(data, float) and not abs(data) <= NUMBER_MAX:
        raise SpecError(f"{where} = {data!r:.80}", f"expected a number up to {NUMBER_MAX:g}")
    if isinstance(data, int) and not -(1 << 63) <= data < 1 << 64:
        raise SpecError(f"{where}: the number is too large", "expected one of at most 64 bits")
    if isinstance(data, Mapping):
        return {_text(k, where): _any(v, f"{where}.{printable(str(k))}") for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [_any(item, f"{where}[{i}]") for i, item in enumerate(data)]
    return data


def _text(text: Any, where: str) -> str:
    if not isinstance(text, str) or not is_printable(text):
        raise SpecError(f"{where} = {text!a:.80}", "expected text without control characters")
    return text


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    """Each annotation is compiled as it is read: once for a class, not for each of its values."""
    return typing.get_type_hints(cls)


def _build_dataclass(cls: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise SpecError(f"{where} = {data!r:.80}", "expected a table")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(fields)):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}", f"known keys: {', '.join(fields)}")
    hints = _hints(typing.cast("Hashable", cls))
    values = {key: convert(hints[key], item, f"{where}.{key}") for key, item in data.items()}
    required = (
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    if missing := [name for name in required if name not in values]:
        raise SpecError(f"{where}: key {missing[0]!r} is missing", f"add {missing[0]!r}")
    return cls(**values)
