"""Option types of the command line: sizes, durations, shares, lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import click

from schedlab.errors import SpecError
from schedlab.nouns.quantities import (
    parse_cpus,
    parse_duration,
    parse_share,
    parse_size,
    parse_slices,
)

T = TypeVar("T")


class Listed(click.ParamType[str]):
    """`a,b`: several, as a text that the command parses; those with commas are split by `;`."""

    name = "text"

    def __init__(self, separator: str = ",") -> None:
        self.separator = separator

    def joined(self, texts: Sequence[str]) -> str:
        """The texts of an option that is typed several times, as one."""
        plain = (t if ":" in t else t.replace(",", self.separator) for t in texts)
        return self.separator.join(plain) if len(texts) > 1 else texts[0]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; that of a default is one already."""
        return self.joined(value) if isinstance(value, list) else value


class QuantityType(click.ParamType[T], Generic[T]):
    """Text that one of the parsers of `nouns.quantities` reads."""

    parse: Callable[[str], T]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """The number; a usage error with the parser's hint."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            return type(self).parse(value)
        except SpecError as error:
            self.fail(f"{error}; {error.hint}", param, ctx)


class _Quantities(QuantityType[T]):
    """Several, separated by commas; an option that is typed several times adds to them."""

    joined = staticmethod(",".join)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """The numbers."""
        return super().convert(self.joined(value) if isinstance(value, list) else value, param, ctx)


class Size(QuantityType[int]):
    """`64k`, `1G`, `4KiB`: bytes, in powers of 1024."""

    name = "size"
    parse = staticmethod(parse_size)


class Duration(QuantityType[float]):
    """`500ms`, `30s`, `10m`, `1h`; a bare number is seconds."""

    name = "duration"
    parse = staticmethod(parse_duration)


class Percent(QuantityType[float]):
    """`2%` or `0.02`: a fraction."""

    name = "percent"
    parse = staticmethod(parse_share)


class Sizes(_Quantities[tuple[int, ...]]):
    """`8k,64k,1M`: several sizes, each once."""

    name = "sizes"

    @staticmethod
    def parse(text: str) -> tuple[int, ...]:
        """Bytes, in the order typed."""
        return tuple(dict.fromkeys(parse_size(part) for part in text.split(",")))


class Words(_Quantities[tuple[str, ...]]):
    """`a,b`: several words, each once, in the order typed."""

    name = "words"

    @staticmethod
    def parse(text: str) -> tuple[str, ...]:
        """The words."""
        return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


class Cpus(_Quantities[tuple[int, ...]]):
    """`0`, `0,2` or `0-3`: CPU numbers."""

    name = "cpus"
    parse = staticmethod(parse_cpus)


class SliceList(_Quantities[tuple[float, ...]]):
    """`1,10,100`: quanta in ms."""

    name = "slices"
    parse = staticmethod(parse_slices)
