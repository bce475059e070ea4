"""Round trips between the nouns and plain JSON types."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from schedlab.errors import SpecError

T = TypeVar("T")


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
    return typing.cast("T", _build(cls, data, where or cls.__name__))


def _build(kind: Any, data: Any, where: str) -> Any:
    """`data` as the annotated type `kind`; recursion over dataclasses, mappings and tuples."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast("type[Any]", kind), data, where)
    if origin is Literal:
        if data in arguments:
            return data
        raise SpecError(f"{where} = {data!r}", f"expected one of {', '.join(map(repr, arguments))}")
    if origin is types.UnionType or origin is typing.Union:
        if data is None and type(None) in arguments:
            return None
        return _build_union([a for a in arguments if a is not type(None)], data, where)
    if origin is tuple:
        return _build_tuple(arguments, data, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise SpecError(f"{where} = {data!r}", "expected a table")
        return {key: _build(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    return _build_scalar(kind, data, where)


def _build_union(kinds: list[Any], data: Any, where: str) -> Any:
    """The first of `kinds` that fits exactly, then the first that can be made to fit."""
    for kind in kinds:
        if isinstance(kind, type) and type(data) is kind:
            return data
    error: SpecError | None = None
    for kind in kinds:
        try:
            return _build(kind, data, where)
        except SpecError as failed:
            error = failed
    raise error or SpecError(f"{where} = {data!r}")


def _build_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise SpecError(f"{where} = {data!r}", "expected a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_build(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(arguments) != len(data):
        raise SpecError(f"{where} has {len(data)} items", f"expected {len(arguments)}")
    pairs = enumerate(zip(arguments, data, strict=True))
    return tuple(_build(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)


def _build_scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is float and data is None:
        return float("nan")
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise SpecError(f"{where} = {data!r}", f"expected {getattr(kind, '__name__', kind)}")
    return data


def _build_dataclass(cls: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise SpecError(f"{where} = {data!r}", "expected a table")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(fields)):
        raise SpecError(f"{where}: unknown key {unknown[0]!r}", f"known keys: {', '.join(fields)}")
    hints = typing.get_type_hints(cls)
    values = {key: _build(hints[key], item, f"{where}.{key}") for key, item in data.items()}
    required = (
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    if missing := [name for name in required if name not in values]:
        raise SpecError(f"{where}: key {missing[0]!r} is missing", f"add {missing[0]!r}")
    return cls(**values)
