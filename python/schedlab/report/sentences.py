"""The sentences of a headline: one table from the code of a verdict to its text.

Nothing else in the program makes a sentence about an outcome. Terminal, page, workbook and
Markdown print what `headline` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlab.report import words
from schedlab.report.shares import share_lines
from schedlab.report.view import View
from schedlab.spec import Fact, Headline, Metric, Overall, WorkloadVerdict

NAMED_MAX = 2
# A smallest visible difference beyond this is no comfort to print.
MDD_MAX = 1.0
# Codes that say nothing of a workload, or name it themselves.
NAMELESS = ("single", "nothing-to-compare", "did-not-finish")
# A difference that is printed as what all others are within.
WITHIN_MIN = 0.0001
# Actors of which a workload has one.
SINGULAR = ("copy", "load", "reader", "newcomer", "source")
LOSERS_MAX = 2


def headline(view: View, one: str = "one-counts") -> list[str]:
    """The verdict of the whole experiment, a sentence each: which one, and at what price.

    `one` is the text with which one workload of several is named, where it is about that.
    """
    outcome = view.verdict.headline
    lines = _sentences(view, outcome, mix=view.is_mix)
    everywhere = view.verdict.overall.best_everywhere
    if everywhere and outcome.names_one and len(view.workloads) > 1:
        count = view.texts.number(len(view.verdict.overall.workloads), 0)
        lines.append(view.texts("headline.best-everywhere", workloads=count))
    if view.orders_nothing:
        lines.insert(1, view.texts("headline.nothing-to-order"))
    if (only := view.the_only_one) and outcome.code not in NAMELESS:
        lines[0] = view.texts(f"headline.{one}", workload=only, sentence=lines[0])
    if (goal := view.verdict.goal) and view.reports_goal:
        wanted = view.texts(f"goal.{goal}")
        lines[0] = view.texts("headline.goal", goal=wanted, sentence=lines[0])
    if view.medium:
        medium = view.texts(f"medium.{view.medium}")
        lines[0] = view.texts("headline.medium", medium=medium, sentence=lines[0])
    return lines


def headline_text(view: View) -> str:
    """`headline` as one paragraph."""
    return " ".join(headline(view))


def change_text(view: View) -> str:
    """`headline_text` of two results: that of the workload on which they differ most."""
    return " ".join(headline(view, "differ-most"))


def of_workload(view: View, of: WorkloadVerdict | Overall) -> str:
    """The sentence of one workload, or of all of them together."""
    shares = share_lines(view, of.workload) if isinstance(of, WorkloadVerdict) else ()
    return " ".join([*_sentences(view, of.headline, mix=False), *shares])


def _sentences(view: View, outcome: Headline, mix: bool) -> list[str]:
    return _SPEAKERS[outcome.code](view, outcome.values, mix)


def _fact(view: View, values: Mapping[str, Any], key: str) -> tuple[Fact, Metric | None]:
    fact = Fact.of(values[key])
    return fact, view.metric(fact.metric, fact.higher_is_better)


def _gain(view: View, values: Mapping[str, Any], key: str) -> str:
    fact, metric = _fact(view, values, key)
    return words.gain(view.texts, fact, metric)


def _short(view: View, values: Mapping[str, Any], key: str, side: words.Side) -> str:
    """A fact in few words, for brackets in a sentence."""
    fact, metric = _fact(view, values, key)
    return words.short(view.texts, fact, metric, side, "format.comma")


def _single(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    return [view.texts("headline.single" if view.is_single else "headline.single-together")]


def _nothing(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts, names = view.texts, list(values.get("candidates") or ())
    counted = view.verdict.overall.workloads
    if any(of.pairs for of in view.workloads if of.workload in counted):
        return [texts("headline.nothing-in-common")]
    if not names and (zero := view.without_ratio):
        return [texts("headline.nothing-but-zero", names=texts.listed(zero))]
    return [texts(f"headline.nothing-{'to-compare' if names else 'at-all'}",
                  names=texts.listed(names))]  # fmt: skip


def _did_not_finish(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts, time_s = view.texts, values.get("time_s")
    about = {"name": values["name"], "workload": values["workload"]}
    if time_s:
        lines = [texts("headline.did-not-finish", time=texts.duration(time_s), **about)]
    else:
        lines = [texts("headline.did-not-finish-untimed", **about)]
    if others := [name for name in values.get("names") or () if name != values["name"]]:
        lines.append(texts("headline.did-not-finish-others", names=texts.listed(others)))
    together: dict[tuple[str, ...], list[str]] = {}
    for workload, names in values.get("elsewhere") or ():
        together.setdefault(tuple(names), []).append(workload)
    for names, labels in together.items():
        about = {"works": _works(view, labels), "names": texts.listed(names)}
        lines.append(texts("headline.did-not-finish-elsewhere", **about))
    rest = values.get("rest")
    if rest and rest not in ("did-not-finish", "nothing-to-compare"):
        lines += _sentences(view, Headline(rest, values.get("rest_values") or {}), mix)
    return lines


def _depends(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts = view.texts
    lines = [
        texts(
            "headline.depends",
            name=values["name"],
            baseline=values["baseline"],
            won=_works(view, values["won"]),
            lost=_works(view, values["lost"]),
            best=_example(view, values, "won", "best", "better"),
            worst=_example(view, values, "lost", "worst", "worse"),
        ),
        *_price(view, values, mix),
    ]
    return [*lines, *_same(view, values)]


def _same(view: View, values: Mapping[str, Any]) -> list[str]:
    """The workloads on which nothing matters, where there are some."""
    same, texts = values.get("same"), view.texts
    if not same:
        return []
    within = words.share(texts, max(values.get("within") or 0.0, WITHIN_MIN))
    return [texts("headline.depends-same", works=_works(view, same), within=within)]


def _best_on(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts = view.texts
    won = _works(view, values["won"])
    about = {"name": values["name"], "won": won, "gain": _gain(view, values, "best")}
    key = "best-on"
    if len(names := values.get("names") or ()) > 1:
        fact, metric = _fact(view, values, "best")
        does = words.gain(texts, fact, metric, "does")
        about, key = (
            {"names": texts.listed(list(names)), "won": won, "does": does},
            "best-on-shared",
        )
    if len(values["won"]) > 1:
        about["workload"] = Fact.of(values["best"]).workload
        key += "-most"
    lines = [texts(f"headline.{key}", **about)]
    lines += _price(view, values, mix)
    for each in values.get("also") or ():
        fact, metric = _fact(view, {"also": each}, "also")
        does = words.gain(texts, fact, metric, "does")
        lines.append(texts("headline.best-on-also", workload=fact.workload, does=does))
    lines += _same(view, values)
    if others := values.get("others"):
        works = _works(view, others)
        if 0 < (values.get("mdd") or 0.0) <= MDD_MAX:
            lines.append(texts("headline.best-on-open", works=works, mdd=_mdd(view, values)))
        else:
            lines.append(texts("headline.best-on-unknown", works=works))
    if undecided := values.get("undecided"):
        works = _works(view, undecided)
        lines.append(texts("headline.best-on-undecided", works=works, name=values["name"]))
    return lines


def _example(view: View, values: Mapping[str, Any], group: str, key: str, side: words.Side) -> str:
    """The best or worst case, with its workload where the group has several."""
    shown = _short(view, values, key, side)
    fact = Fact.of(values[key])
    if len(values[group]) > 1 and fact.workload:
        return view.texts("headline.on", workload=fact.workload, words=shown)
    return shown


def _works(view: View, labels: Sequence[str]) -> str:
    """The names of a few workloads, or how many they are."""
    if len(labels) <= NAMED_MAX:
        return view.texts.listed([*labels])
    return view.texts.counted("scope.workloads", len(labels))


def _winner(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    key = "headline.winner-mix" if mix else "headline.winner"
    lines = [view.texts(key, best=values["best"], gain=_gain(view, values, "gain"))]
    if mix and values.get("example"):
        fact, metric = _fact(view, values, "example")
        about = {"workload": fact.workload, "words": words.gain(view.texts, fact, metric)}
        lines.append(view.texts("headline.winner-example", **about))
    return [*lines, *_price(view, values, mix)]


def _price(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    """What the winner costs: another workload, other processes of the run, another metric.

    Its workload is named where there are several: the price need not be paid on the others.
    """
    price, texts = values.get("price"), view.texts
    if not price:
        return _unseen(view, values)
    fact, metric = _fact(view, price, "fact")
    if price["kind"] == "rival":
        does = words.gain(texts, fact, metric, "does")
        return [texts("price.rival", workload=fact.workload, does=does), *_more(view, price)]
    if price["kind"] == "workload":
        loss = words.loss(texts, fact, metric)
    elif price["kind"] == "actor":
        loss = _actor_loss(view, fact, metric, price["actor"])
    else:
        loss = words.loss(texts, fact, metric, "lost")
    named = fact.workload and (mix or price["kind"] == "workload")
    about = {"workload": fact.workload, "loss": loss}
    return [texts("price.on" if named else "price.here", **about), *_more(view, price)]


def _more(view: View, facts: Mapping[str, Any]) -> list[str]:
    """How many further losses there are, and where to find them."""
    more = facts.get("more")
    key = "price.more" if view.shows_all_rows else "price.more_in_report"
    return [view.texts(key, count=view.texts.number(more, 0))] if more else []


def _actor_loss(view: View, fact: Fact, metric: Metric | None, actor: str) -> str:
    """What other processes of the run lose."""
    name = view.texts.maybe(f"actor_name.{actor}", actor)
    form = "actor_one" if actor in SINGULAR else "actor"
    return words.loss(view.texts, fact, metric, form, name)


def _cost(view: View, values: Mapping[str, Any]) -> list[str]:
    """What separates those that nothing else does."""
    cost, texts = values.get("cost"), view.texts
    if not cost:
        return []
    fact, metric = _fact(view, cost, "fact")
    if actor := cost["actor"]:
        loss = _actor_loss(view, fact, metric, actor)
        line = texts("headline.cost-actor", name=fact.worse, workload=fact.workload, loss=loss)
    else:
        loss = words.loss(texts, fact, metric, names_metric=True)
        line = texts("headline.cost", workload=fact.workload, loss=loss)
    return [line, *_more(view, cost)]


def _unseen(view: View, values: Mapping[str, Any]) -> list[str]:
    """Without a price: what may hide of it."""
    unseen, texts = values.get("unseen"), view.texts
    if not unseen:
        return []
    fact, metric = _fact(view, unseen, "fact")
    kind = words.speech(metric)
    amount = words.amount(texts, fact.ratio, "worse", kind)
    if fact.ratio <= words.TIMES_MAX:
        amount = texts("ratio.up_to", amount=amount)
    what = texts.metric(metric) if metric else ""
    loss = texts(f"lost.{kind}", amount=amount, what=what)
    name = texts.maybe(f"actor_name.{unseen['actor']}", unseen["actor"]) or fact.worse
    return [texts("price.unseen", workload=fact.workload, name=name, loss=loss)]


def _keep(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    fact, metric = _fact(view, values, "loss")
    key = "headline.keep-mix" if mix else "headline.keep"
    loss = words.loss(view.texts, fact, metric)
    return [view.texts(key, baseline=values["baseline"], loss=loss)]


def _losers(view: View, values: Mapping[str, Any]) -> list[str]:
    """Who is out of the question, and by how much."""
    facts = [Fact.of(each) for each in values.get("losers") or ()]
    if len(facts) > LOSERS_MAX:
        names = view.texts.listed([fact.worse for fact in facts])
        return [view.texts("headline.losers", names=names)]
    losses = [
        words.loss(view.texts, fact, view.metric(fact.metric, fact.higher_is_better))
        for fact in facts
    ]
    return [view.texts("headline.loser", loss=each) for each in losses]


def _tied(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    key = "headline.tied-mix" if mix else "headline.tied"
    margin = words.share(view.texts, values["margin"])
    return [view.texts(key, names=view.texts.listed(list(values["names"])), margin=margin),
            *_losers(view, values), *_cost(view, values)]  # fmt: skip


def _rare_run(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts = view.texts
    fact, metric = _fact(view, values, "gain")
    return [
        texts(
            "headline.rare-run",
            does=words.gain(texts, fact, metric, "does"),
            wild=texts.number(values["wild_blocks"], 0),
            blocks=texts.number(values["blocks"], 0),
            of=values["of"] or texts("headline.one-of-two"),
            factor=words.amount(texts, values["factor"], "worse", "time"),
        )
    ]


def _unsteady(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    shown = {key: _named(view, values, key) for key in ("early", "late")}
    return [view.texts("headline.unsteady", a=values["a"], b=values["b"], **shown)]


def _named(view: View, values: Mapping[str, Any], key: str) -> str:
    """`bfq 12 % faster`: a fact with the name of the better one."""
    fact, metric = _fact(view, values, key)
    kind = words.speech(metric)
    amount = words.amount(view.texts, fact.ratio, "better", kind)
    word = words.word(view.texts, "better", kind)
    return view.texts("headline.named", name=fact.better, amount=amount, word=word)


def _disagree(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    shown = {key: _named(view, values, key) for key in ("lowest", "highest")}
    return [view.texts("headline.sessions-disagree", a=values["a"], b=values["b"], **shown)]


def _no_verdict(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts = view.texts
    fact, metric = _fact(view, values, "gain")
    counts = [
        texts("headline.unfinished-runs", name=name, count=texts.number(count, 0),
              runs=texts.number(runs, 0))
        for name, count, runs in values.get("starved") or ()
    ]  # fmt: skip
    line = texts(
        f"headline.no-verdict-{values['why']}",
        does=words.gain(texts, fact, metric, "does"),
        a=values["a"],
        b=values["b"],
        baseline=values["baseline"],
        counts=texts.listed(counts),
    )
    return [line, *_losers(view, values), *_cost(view, values)]


def _too_early(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    texts = view.texts
    about = {"names": texts.listed(list(values["names"])), "mdd": _mdd(view, values)}
    if not values.get("blocks"):
        first = texts("headline.too-early-open", **about)
        return [first, *_losers(view, values), *_cost(view, values)]
    blocks = texts.counted("scope.more_blocks", values["blocks"])
    seconds = values.get("time_s") or 0.0
    if seconds:
        taking = texts.about(seconds)
        blocks = texts("headline.blocks-time", blocks=blocks, time=taking)
    smaller = words.share(texts, values["smaller"])
    first = texts("headline.too-early", blocks=blocks, smaller=smaller, **about)
    return [first, *_losers(view, values), *_cost(view, values)]


def _mdd(view: View, values: Mapping[str, Any]) -> str:
    mdd = values.get("mdd")
    return view.texts("verdict.none") if mdd is None else words.share(view.texts, mdd)


def _no_difference(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    names = view.texts.listed(list(values["names"]))
    key = "no-difference-seen" if values.get("mdd") is not None else "no-difference-open"
    return [view.texts(f"headline.{key}", names=names, mdd=_mdd(view, values)),
            *_losers(view, values), *_cost(view, values)]  # fmt: skip


def _too_noisy(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    return [view.texts("headline.too-noisy"), *_losers(view, values)]


def _one_session(view: View, values: Mapping[str, Any], mix: bool) -> list[str]:
    fact, metric = _fact(view, values, "gain")
    does = words.gain(view.texts, fact, metric, "does")
    lines = [view.texts("headline.one-session", does=does)]
    if values.get("aa"):
        aa = words.share(view.texts, values["aa"])
        lines.append(view.texts("headline.one-session-aa", aa=aa))
    return lines


_SPEAKERS: Mapping[str, Callable[[View, Mapping[str, Any], bool], list[str]]] = {
    "single": _single,
    "nothing-to-compare": _nothing,
    "did-not-finish": _did_not_finish,
    "depends": _depends,
    "best-on": _best_on,
    "winner-price": _winner,
    "winner": _winner,
    "keep": _keep,
    "tied": _tied,
    "rare-run": _rare_run,
    "unsteady": _unsteady,
    "sessions-disagree": _disagree,
    "no-verdict": _no_verdict,
    "too-early": _too_early,
    "no-difference-seen": _no_difference,
    "too-noisy": _too_noisy,
    "one-session": _one_session,
}
