"""The waits of fsync in words: data, journal, flush, and who wrote meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from schedlab.nouns.durability import OF_THE_KERNEL, Chain
from schedlab.report import words
from schedlab.report.texts import Texts
from schedlab.report.view import View

PARTS = ("data", "journal", "flush")
#: Smaller shares of the bytes in front are not worth a sentence.
IN_FRONT_LEAST = 0.25


def lines(view: View) -> list[str]:
    """The chain of each workload that synced, by candidate, from its scored runs."""
    several = len(view.runs_by_workload) > 1
    found = []
    for workload, runs in view.runs_by_workload.items():
        by_candidate = {
            name: chain
            for name in view.names
            if (chain := together(run.properties.get("durability") for run in runs
                                  if run.candidate == name))
        }  # fmt: skip
        for line in sentences(view.texts, by_candidate):
            found.append(
                view.texts("why.of", workload=workload, sentence=line) if several else line
            )
    return found


def together(parts: Iterable[Mapping[str, Any] | None]) -> Chain | None:
    """The chains of several runs as one; None where none of them synced."""
    names = [each.name for each in fields(Chain)]
    chains = [Chain(**{name: each[name] for name in names}) for each in parts if each]
    if not chains:
        return None
    written = sum((Counter(each.written) for each in chains), Counter[str]())
    data_s, journal_s, flush_s = (
        sum(getattr(each, f"{part}_s") for each in chains) for part in PARTS
    )
    calls = sum(each.calls for each in chains)
    return Chain(calls, data_s, journal_s, flush_s, written)


def sentences(texts: Texts, chains: Mapping[str, Chain]) -> list[str]:
    """One sentence of the parts with each candidate, and one of who wrote meanwhile."""
    if not chains:
        return []
    clauses = [
        texts("why.durable_with", name=name,
              **{part: words.share(texts, chain.share(part)) for part in PARTS})
        for name, chain in chains.items()
    ]  # fmt: skip
    found = [texts("why.durable", waits="; ".join(clauses))]
    front, (who, share) = max(((name, each.front) for name, each in chains.items()),
                              key=lambda item: item[1][1])  # fmt: skip
    if share >= IN_FRONT_LEAST:
        who = texts(f"why.writer_{who.replace('-', '_')}") if who in OF_THE_KERNEL else who
        found.append(texts("why.durable_front", name=front, who=who,
                           share=words.share(texts, share)))  # fmt: skip
    return found
