"""Ratios and sentences about outcomes: every code with real values, in every language."""

from __future__ import annotations

import dataclasses
import re
import string
from pathlib import Path

import pytest
import report_verdicts as verdicts
from report_verdicts import fact

import schedlab
from schedlab import report
from schedlab.report import words
from schedlab.report.commands import command_lines
from schedlab.report.sentences import headline, headline_text
from schedlab.report.steps import next_steps
from schedlab.report.texts import Texts, catalogue, plural_form
from schedlab.report.view import View
from schedlab.spec import (
    METRICS,
    Headline,
    Metric,
    Run,
    StoppingState,
    Target,
    from_json,
    to_json,
)

RATE, TIME = METRICS["throughput_bytes_per_s"], METRICS["reader_latency_ns_mean"]
EN = Texts("en")
# Words that no English sentence about an outcome may have.
NEVER = ("performance", "bound", "separate", "equivalent within", "noise floor", "−", "{", "}")


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("ratio", "side", "kind", "phrase"),
    [
        (82.3, "better", "time", "82×"),
        (113.0, "better", "time", "110×"),
        (2.04, "better", "rate", "2.0×"),
        (1.996, "better", "rate", "2.0×"),
        (1.92, "better", "rate", "92 %"),
        (1.034, "better", "rate", "3.4 %"),
        (1 / 0.71, "worse", "rate", "29 %"),
        (1 / 0.71, "better", "rate", "41 %"),
        (1.8, "better", "time", "44 %"),
        (1.8, "worse", "time", "80 %"),
        (3.41, "worse", "rate", "3.4×"),
        (1000.0, "better", "time", "1,000×"),
        (54_000.0, "better", "time", "over 1,000×"),
        (1.0004, "better", "rate", "0.04 %"),
    ],
)
def test_ratio_words(ratio: float, side: words.Side, kind: words.Speech, phrase: str) -> None:
    assert plain(words.amount(EN, ratio, side, kind)) == phrase


@pytest.mark.parametrize(
    ("ratio", "low", "high", "side", "kind", "phrase"),
    [
        (82.0, 61.0, 110.0, "better", "time", "61 to 110×"),
        (1 / 0.71, 1.28, 1.59, "worse", "rate", "22 to 37 %"),
        (1.034, 1.02, 1.048, "better", "rate", "2.0 to 4.8 %"),
        (1.02, 0.97, 1.07, "better", "rate", "−3.0 to 7.0 %"),
        (1.8, 1.1, 2.4, "better", "rate", "10 % to 2.4×"),
        (1.8, 1.1, 3.0, "better", "time", "9 to 67 %"),
        (2.4, 1.5, 3.9, "better", "rate", "1.5 to 3.9×"),
        (900.0, 600.0, 2000.0, "better", "time", "600× to over 1,000×"),
        (5000.0, 2000.0, 9000.0, "better", "time", ""),
    ],
)
def test_intervals_have_the_form_of_their_ratio(
    ratio: float, low: float, high: float, side: words.Side, kind: words.Speech, phrase: str
) -> None:
    assert plain(words.between(EN, ratio, low, high, side, kind)) == phrase


@pytest.mark.parametrize(
    ("metric", "better", "worse"),
    [
        (RATE, "faster", "slower"),
        (TIME, "shorter", "longer"),
        (METRICS["elapsed_s"], "shorter", "longer"),
        (METRICS["fairness_jain"], "more even", "less even"),
        (Metric("cpu_ns_per_request", "ns", False), "less", "more"),
        (METRICS["cpu_s"], "less", "more"),
        (METRICS["rss_bytes"], "less", "more"),
        (METRICS["written_bytes"], "fewer", "more"),
        (METRICS["major_faults"], "fewer", "more"),
        (METRICS["calculations"], "more", "fewer"),
        (METRICS["weighted_jain"], "more even", "less even"),
        (Metric("miss_share", "", False), "lower", "higher"),
        (Metric("hit_share", "", True), "higher", "lower"),
        (Metric("unfairness", "", False), "lower", "higher"),
        (Metric("tps", "", True), "higher", "lower"),
        (Metric("errors", "", False), "lower", "higher"),
        (METRICS["calculations_per_cpu_s"], "faster", "slower"),
        (None, "better", "worse"),
    ],
)
def test_words_of_direction_follow_the_metric(
    metric: Metric | None, better: str, worse: str
) -> None:
    kind = words.speech(metric)
    assert words.word(EN, "better", kind) == better
    assert words.word(EN, "worse", kind) == worse


def test_plural_of_times_in_russian() -> None:
    texts = Texts("ru")
    phrases = [words.amount(texts, ratio, "better", "time") for ratio in (2.4, 21.0, 22.0, 110.0)]
    assert phrases == ["в 2,4 раза", "в 21 раз", "в 22 раза", "в 110 раз"]


WAIT = fact("bfq", "none", 82, 61, 110, TIME.name, workload="reader")
SLOW = fact("none", "bfq", 1 / 0.71, 1.28, 1.59, "write_bytes_per_s")
BETTER = fact("kyber", "none", 1.12, 1.08, 1.16)
RIVAL = fact("kyber", "bfq", 1.12, 1.08, 1.16, workload="commits")
HIDDEN = fact("none", "bfq", 1.4, workload="commits")
ACTOR = {"kind": "actor", "fact": SLOW.values(), "actor": "writers", "more": 2}
PLACE = {
    "kind": "workload", "actor": "", "more": 0,
    "fact": fact("none", "kyber", 3.4, 3.0, 3.9, "iops", workload="commits").values(),
}  # fmt: skip
TAIL = {
    "kind": "metric", "actor": "", "more": 0,
    "fact": fact("none", "kyber", 1.2, 1.1, 1.3, "latency_ns_p99").values(),
}  # fmt: skip


def winner(gain: object, price: object = None, **more: object) -> dict[str, object]:
    return {
        "best": gain.better, "baseline": "none", "gain": gain.values(), "other": gain.worse,  # type: ignore[attr-defined]
        "runner_up": None, "price": price, "losers": [], **more,
    }  # fmt: skip


DEPENDS = {
    "name": "bfq", "baseline": "none", "won": ["reader"], "lost": ["a", "b", "c"],
    "best": WAIT.values(),
    "worst": fact("none", "bfq", 1.41, 1.28, 1.59, workload="b").values(),
    "same": ["d"], "within": 0.03, "price": None,
}  # fmt: skip
BEST_ON = {
    "name": "bfq", "baseline": "none", "won": ["reader"], "best": WAIT.values(),
    "others": ["a", "b"], "mdd": 0.4, "price": None,
}  # fmt: skip
NO_VERDICT = {
    "a": "kyber", "b": "none", "gain": BETTER.values(), "baseline": "none", "starved": [],
    "losers": [],
}  # fmt: skip
CASES: list[tuple[str, dict[str, object], str]] = [
    ("single", {"candidates": ["none", "bfq"], "blocks": 3},
     "One run each. The table shows the figures; to say which is better, measure at least 4 "
     "blocks."),
    ("nothing-to-compare", {"candidates": ["bfq"]},
     "No workload has all candidates. The table shows each workload."),
    ("did-not-finish",
     {"name": "bfq", "workload": "reader", "time_s": 6.0, "names": ["bfq", "kyber"],
      "rest": "tied", "rest_values": {"names": ["none", "kyber"], "margin": 0.02, "losers": []}},
     "bfq did not finish reader in 6.0 s. Nor did kyber. It does not matter: none and kyber "
     "are within 2 % of each other."),
    ("did-not-finish", {"name": "bfq", "workload": "reader", "time_s": None, "names": ["bfq"]},
     "bfq did not finish reader."),
    ("did-not-finish",
     {"name": "bfq", "workload": "a", "time_s": None, "names": ["bfq"],
      "elsewhere": [["b", ["kyber"]], ["c", ["bfq", "kyber"]], ["d", ["kyber"]]]},
     "bfq did not finish a. On b and d, kyber did not finish. On c, bfq and kyber did not finish."),
    ("depends", DEPENDS,
     "It depends on the work: bfq is better than none on reader (82× shorter, 61 to 110×) and "
     "worse on 3 workloads (b: 29 % slower, 22 to 37 %). On d it does not matter: all are "
     "within 3 % of each other."),
    ("depends", {**DEPENDS, "within": 1e-9},
     "It depends on the work: bfq is better than none on reader (82× shorter, 61 to 110×) and "
     "worse on 3 workloads (b: 29 % slower, 22 to 37 %). On d it does not matter: all are "
     "within 0.01 % of each other."),
    ("best-on", BEST_ON,
     "bfq is best on reader: 82× shorter mean reader latency than with none (61 to 110×). On a "
     "and b nothing is decided: differences of 40 % or more would have shown."),
    ("best-on", {**BEST_ON, "names": ["bfq", "kyber"], "others": []},
     "bfq and kyber are best on reader: bfq has 82× shorter mean reader latency than none (61 to "
     "110×)."),
    ("best-on", {**BEST_ON, "names": ["bfq", "kyber"], "won": ["b", "reader"], "others": []},
     "bfq and kyber are best on b and reader, most of all on reader: bfq has 82× shorter mean "
     "reader latency than none (61 to 110×)."),
    ("best-on", {**BEST_ON, "others": [], "mdd": None, "undecided": ["a"]},
     "bfq is best on reader: 82× shorter mean reader latency than with none (61 to 110×). On a bfq "
     "is not decided."),
    ("best-on", {**BEST_ON, "won": ["b", "reader"], "others": [], "mdd": None},
     "bfq is best on b and reader, most of all on reader: 82× shorter mean reader latency than "
     "with none (61 to 110×)."),
    ("best-on", {**BEST_ON, "also": [{**BETTER.values(), "workload": "w"}], "same": ["c"],
                 "within": 0.03, "others": ["a"], "mdd": 1.4, "price": ACTOR},
     "bfq is best on reader: 82× shorter mean reader latency than with none (61 to 110×). The "
     "price: the writers are 29 % slower (22 to 37 %). (+ 2 more in the table) On w "
     "kyber is 12 % faster than none (8 to 16 %). On c it does not matter: all are within 3 % of "
     "each other. On a nothing is decided."),
    ("winner-price", winner(WAIT, ACTOR),
     "bfq is best: 82× shorter mean reader latency than with none (61 to 110×). The price: the "
     "writers are 29 % slower (22 to 37 %). (+ 2 more in the table)"),
    ("winner-price", winner(BETTER, PLACE),
     "kyber is best: 12 % faster than none (8 to 16 %). The price: on commits kyber is 3.4× "
     "slower (3.0 to 3.9×)."),
    ("winner-price", winner(BETTER, TAIL),
     "kyber is best: 12 % faster than none (8 to 16 %). The price: 20 % longer p99 latency "
     "(10 to 30 %)."),
    ("winner-price", winner(BETTER, {**ACTOR, "actor": "copy", "more": 0}),
     "kyber is best: 12 % faster than none (8 to 16 %). The price: the copy is 29 % slower "
     "(22 to 37 %)."),
    ("winner-price", winner(WAIT, {**PLACE, "kind": "rival", "fact": RIVAL.values()}),
     "bfq is best: 82× shorter mean reader latency than with none (61 to 110×). The price: on "
     "commits kyber is 12 % faster than bfq (8 to 16 %)."),
    ("winner", winner(WAIT, unseen={"fact": HIDDEN.values(), "actor": ""}),
     "bfq is best: 82× shorter mean reader latency than with none (61 to 110×). No price was "
     "seen, but on commits bfq may have up to 29 % lower throughput."),
    ("winner", winner(WAIT, unseen={"actor": "", "fact": fact(
        "none", "bfq", 5e4, metric=TIME.name, workload="commits").values()}),
     "bfq is best: 82× shorter mean reader latency than with none (61 to 110×). No price was "
     "seen, but on commits bfq may have over 1,000× longer mean reader latency."),
    ("winner", winner(WAIT, unseen={"fact": HIDDEN.values(), "actor": "writers"}),
     "bfq is best: 82× shorter mean reader latency than with none (61 to 110×). No price was "
     "seen, but on commits the writers may have up to 29 % lower throughput."),
    ("winner", winner(fact("bfq", "none", 30, 20, None, TIME.name, open_end=True)),
     "bfq is best: at least 20× shorter mean reader latency than with none."),
    ("winner", winner(fact("bfq", "none", 1.08, 1.05, 1.11, "")),
     "bfq is best: 8.0 % better than none (5.0 to 11.0 %)."),
    ("keep", {"baseline": "none", "next": "bfq", "loss": SLOW.values(), "losers": []},
     "Keep none: bfq is 29 % slower (22 to 37 %)."),
    ("keep", {"baseline": "none", "next": "bfq", "losers": [],
              "loss": fact("none", "bfq", 3.4, 3, 3.9, TIME.name).values()},
     "Keep none: bfq has 3.4× longer mean reader latency (3.0 to 3.9×)."),
    ("tied", {"names": ["none", "kyber"], "margin": 0.02, "losers": [SLOW.values()]},
     "It does not matter: none and kyber are within 2 % of each other. But bfq is 29 % slower "
     "(22 to 37 %)."),
    ("rare-run", {"a": "bfq", "b": "none", "gain": WAIT.values(), "of": "bfq", "wild_blocks": 1,
                  "blocks": 8, "factor": 40.0},
     "Typically bfq has 82× shorter mean reader latency than none (61 to 110×), but "
     "in 1 of 8 blocks bfq was 40× away from its other runs. Measure more before you choose."),
    ("rare-run", {"a": "bfq", "b": "none", "gain": WAIT.values(), "of": "", "wild_blocks": 1,
                  "blocks": 8, "factor": 40.0},
     "Typically bfq has 82× shorter mean reader latency than none (61 to 110×), but in 1 of 8 "
     "blocks one of the two was 40× away from its other runs. Measure more before you choose."),
    ("unsteady", {"a": "bfq", "b": "none", "early": WAIT.values(),
                  "late": fact("none", "bfq", 1.3, metric=TIME.name).values()},
     "The difference between bfq and none changed while we measured (bfq 82× shorter early, none "
     "23 % shorter late). No verdict."),
    ("sessions-disagree", {"a": "bfq", "b": "none", "lowest": SLOW.values(),
                           "highest": BETTER.values()},
     "The sessions disagree about bfq and none: from none 41 % faster to kyber 12 % faster. No "
     "verdict."),
    ("no-verdict", {**NO_VERDICT, "why": "aa-differs"},
     "kyber is 12 % faster than none (8 to 16 %), but none differs from itself as much. No "
     "verdict."),
    ("no-verdict", {**NO_VERDICT, "why": "not-after-W", "losers": [SLOW.values()]},
     "kyber is 12 % faster than none (8 to 16 %), but among so many workloads one may differ that "
     "much by chance. No verdict. But bfq is 29 % slower (22 to 37 %)."),
    ("no-verdict", {**NO_VERDICT, "why": "carry-over"},
     "The previous run affects a run, and what is said of kyber and none depends on it. No "
     "verdict."),
    ("no-verdict", {**NO_VERDICT, "why": "one-way", "starved": [["none", 1, 8], ["kyber", 4, 8]]},
     "No verdict on kyber and none: 1 of 8 runs of none and 4 of 8 runs of kyber did not finish."),
    ("too-early", {"names": ["none", "bfq"], "mdd": 0.5, "blocks": 6, "blocks_low": 4,
                   "blocks_high": 12, "time_s": 190.0, "smaller": 0.12, "losers": []},
     "Too early to tell none and bfq apart. So far we would only notice 50 % or more; 6 more "
     "blocks (about 3 min) would show 12 %."),
    ("too-early", {"names": ["none", "bfq"], "mdd": 1.4, "blocks": None, "losers": []},
     "Too early to tell none and bfq apart. So far we would only notice 2.4× or more."),
    ("no-difference-seen", {"names": ["none", "bfq"], "mdd": 0.034, "losers": []},
     "We saw no difference between none and bfq. We would have noticed 3.4 % or more."),
    ("no-difference-seen", {"names": ["none", "bfq"], "mdd": 0.034, "losers": [], "cost": {
        "fact": fact("none", "bfq", 1.24, 1.2, 1.29, TIME.name, workload="reader").values(),
        "actor": "", "more": 3, "names": ["bfq"]}},
     "We saw no difference between none and bfq. We would have noticed 3.4 % or more. But on "
     "reader bfq has 24 % longer mean reader latency (20 to 29 %). (+ 3 more in the table)"),
    ("tied", {"names": ["none", "bfq"], "margin": 0.02, "losers": [], "cost": {
        "fact": fact("none", "bfq", 1 / 0.71, 1.28, 1.59, RATE.name, workload="reader").values(),
        "actor": "writers", "more": 0, "names": ["bfq"]}},
     "It does not matter: none and bfq are within 2 % of each other. But with bfq on reader the "
     "writers are 29 % slower (22 to 37 %)."),
    ("tied", {"names": ["none", "bfq"], "margin": 0.02, "losers": [], "cost": {
        "fact": fact("none", "bfq", 1 / 0.71, 1.28, 1.59, RATE.name, workload="reader").values(),
        "actor": "", "more": 0, "names": ["bfq"]}},
     "It does not matter: none and bfq are within 2 % of each other. But on reader bfq has 29 % "
     "lower throughput (22 to 37 %)."),
    ("tied", {"names": ["none", "bfq"], "margin": 0.02, "losers": [], "cost": {
        "fact": fact("none", "bfq", 1.62, 1.6, 1.64, "cpu_s", workload="reader").values(),
        "actor": "", "more": 0, "names": ["bfq"]}},
     "It does not matter: none and bfq are within 2 % of each other. But on reader bfq uses 62 % "
     "more CPU time (60 to 64 %)."),
    ("keep", {"baseline": "none", "next": "bfq", "losers": [],
              "loss": fact("none", "bfq", 1.62, 1.6, 1.64, "major_faults").values()},
     "Keep none: bfq has 62 % more page faults from disk (60 to 64 %)."),
    ("too-noisy", {"names": ["none", "bfq"], "mdd": 1.5, "losers": [], "blocks": None},
     "Too noisy to tell: even a twofold difference could hide. Longer runs help more than "
     "more blocks."),
    ("one-session", {"a": "none", "b": "bfq", "gain": WAIT.values(), "aa": 0.16},
     "Here bfq has 82× shorter mean reader latency than none (61 to 110×), but each was measured "
     "once. Two sessions of the same setup often differ by 16 %."),
]  # fmt: skip


def view_of(code: str, values: dict[str, object], lang: str = "en") -> View:
    record, verdict = verdicts.simple(Headline(code, values))  # type: ignore[arg-type]
    if code == "single":
        ((label, work),) = verdict.workloads.items()
        once = {label: dataclasses.replace(work, units=1)}
        verdict = dataclasses.replace(verdict, workloads=once)
    return View(record, verdict, Texts(lang))


@pytest.mark.parametrize(("code", "values", "sentence"), CASES, ids=[code for code, _, _ in CASES])
def test_each_code_has_its_sentence(code: str, values: dict[str, object], sentence: str) -> None:
    text = plain(headline_text(view_of(code, values)))
    assert text == sentence
    for never in NEVER:
        assert never not in text


@pytest.mark.parametrize("lang", ["ko", "ru"])
@pytest.mark.parametrize(("code", "values", "sentence"), CASES, ids=[code for code, _, _ in CASES])
def test_each_code_has_a_sentence_in_every_language(
    lang: str, code: str, values: dict[str, object], sentence: str
) -> None:
    text = plain(headline_text(view_of(code, values, lang)))
    assert "{" not in text and text.endswith((".", ")"))
    digits = re.findall(r"\d+", sentence.replace(",", ""))
    for name in ("none", "kyber", "bfq"):
        assert (name in text) == (name in sentence), name
    assert sum(number in text.replace(",", ".").replace("\u202f", "") for number in digits) >= (
        len(digits) - 2
    )


def test_every_code_of_the_table_is_tried() -> None:
    from typing import get_args

    from schedlab.spec import Code

    assert {code for code, _, _ in CASES} == set(get_args(Code))


def test_a_stored_verdict_gives_the_same_headline() -> None:
    record, verdict = verdicts.first_screen()
    again = from_json(type(verdict), to_json(verdict))
    assert again.code == verdict.code
    assert report.headline(record, again) == report.headline(record, verdict)


@pytest.mark.parametrize(
    ("code", "values", "command"),
    [
        ("winner", winner(BETTER), "schedlab apply kyber /dev/DEVICE"),
        ("winner", winner(fact("none", "bfq", 1.2, 1.1, 1.3)), ""),
        ("keep", {"baseline": "none", "next": "bfq", "loss": SLOW.values(), "losers": []}, ""),
        ("tied", {"names": ["none", "bfq"], "margin": 0.02, "losers": []}, ""),
        ("too-early", {"names": ["none"], "mdd": 0.5, "blocks": 6, "time_s": 190.0,
                       "smaller": 0.1, "losers": []},
         "schedlab compare --resume results/x --blocks 14"),
        ("too-noisy", {"names": ["none"], "mdd": 1.5, "losers": [], "blocks": None},
         "schedlab run results/x/experiment.toml --budget 20m"),
        ("no-difference-seen", {"names": ["none", "bfq"], "mdd": 0.03, "losers": []}, ""),
        ("no-verdict", {**NO_VERDICT, "why": "aa-differs"}, "schedlab reproduce results/x"),
        ("unsteady", {"a": "a", "b": "b", "early": WAIT.values(), "late": WAIT.values()},
         "schedlab reproduce results/x"),
    ],
)  # fmt: skip
def test_the_next_step_is_one_command(code: str, values: dict[str, object], command: str) -> None:
    record, verdict = verdicts.simple(Headline(code, values))  # type: ignore[arg-type]
    steps = next_steps(View(record, verdict, EN, Path("results/x")))
    assert [step.command for step in steps] == [command]
    assert steps[0].remark


@pytest.mark.parametrize(("seconds", "budget"), [(60.0, "20m"), (600.0, "40m"), (3600.0, "240m")])
def test_four_times_the_time_halves_what_is_seen(seconds: float, budget: str) -> None:
    values = {"names": ["none"], "mdd": 1.5, "losers": [], "blocks": None}
    record, verdict = verdicts.simple(Headline("too-noisy", values))
    population = dataclasses.replace(verdict.population, seconds=seconds)
    verdict = dataclasses.replace(verdict, population=population)
    (step,) = next_steps(View(record, verdict, EN, Path("r")))
    assert step.command == f"schedlab run r/experiment.toml --budget {budget}"


def test_a_candidate_that_reached_the_time_limit_is_named_with_its_runs() -> None:
    record, verdict = verdicts.simple(Headline("single"))
    work = dataclasses.replace(record.experiment.workloads[0], parameters={"argv": ["sort", "a b"]})
    run = Run(0, 0, work.label, "bfq", 1, 1, "ok", "", 9.0, {"elapsed_s": 9.0})
    late = {"censored": True}
    runs = (
        dataclasses.replace(run, candidate="none"),
        *(dataclasses.replace(run, block=n, properties=late) for n in range(3)),
        dataclasses.replace(run, candidate="kyber", properties=late),
    )
    experiment = dataclasses.replace(record.experiment, workloads=(work,))
    record = dataclasses.replace(record, experiment=experiment, runs=runs)
    lines = command_lines(View(record, verdict, EN))
    assert lines[0] == EN("text.command", label=work.label, line="-- sort 'a b'")
    assert lines[-1] == EN("text.command_limit", names="bfq (3), kyber (1)")


def test_a_winner_by_its_work_is_nothing_to_apply() -> None:
    record, verdict = verdicts.simple(Headline("winner", winner(BETTER)))
    settings = {"scheduler": "as-is", "workload.mode": "direct"}
    candidates = [
        dataclasses.replace(each, settings=settings) if each.label == "kyber" else each
        for each in record.experiment.candidates
    ]
    changed = dataclasses.replace(record.experiment, candidates=tuple(candidates))
    record = dataclasses.replace(record, experiment=changed)
    steps = next_steps(View(record, verdict, EN, Path("results/x")))
    assert [step.command for step in steps] == ["schedlab reproduce results/x"]


def test_of_those_that_nothing_separates_the_costly_one_is_not_advised() -> None:
    costly = fact("none", "bfq", 1.24, 1.2, 1.29, TIME.name, workload="reader")
    cost = {"fact": costly.values(), "actor": "", "more": 0, "names": ["bfq"]}
    values = {"names": ["none", "kyber", "bfq"], "mdd": 0.03, "margin": 0.02, "losers": []}
    for code in ("tied", "no-difference-seen"):
        for known_cost, advised in ((None, "none, kyber and bfq"), (cost, "none and kyber")):
            record, verdict = verdicts.simple(Headline(code, {**values, "cost": known_cost}))  # type: ignore[arg-type]
            assert next_steps(View(record, verdict, EN))[0].remark == f"Take any of {advised}."


def test_best_everywhere_and_goal_and_mix() -> None:
    record, verdict = verdicts.first_screen()
    values = winner(WAIT)
    overall = dataclasses.replace(verdict.overall, best_everywhere="bfq")
    changed = dataclasses.replace(
        verdict, headline=Headline("winner", values), overall=overall, goal="latency"
    )
    lines = [plain(line) for line in headline(View(record, changed, EN))]
    assert lines == [
        "Judged by latency. bfq is best for this mix of workloads: on average 82× shorter mean "
        "reader latency than with none (61 to 110×).",
        "No other is better on any of the 6 workloads.",
    ]


@pytest.mark.parametrize(
    ("kind", "host", "word"), [("sim", {}, "Simulated: "), ("io", {"emulated": {}}, "Emulated")]
)
def test_what_was_not_measured_on_a_device_is_named_so(
    kind: str, host: dict[str, object], word: str
) -> None:
    record, verdict = verdicts.simple(Headline("winner", winner(WAIT)))
    experiment = dataclasses.replace(record.experiment, kind=kind)  # type: ignore[arg-type]
    record = dataclasses.replace(record, experiment=experiment, host={**record.host, **host})
    assert report.headline(record, verdict).startswith(word)


def test_a_model_is_named_with_its_dilation_and_its_facts_are_on_the_page() -> None:
    record, verdict = verdicts.first_screen()
    for dilate, name in (
        (1.0, "an emulated disk7200 ("),
        (5.0, "an emulated disk7200, its time d"),
    ):
        target = Target("emulated", "", 1 << 30, model="disk7200", dilate=dilate)
        first, *others = record.runs
        account = {"lateness": {"p50_ns": 20_000, "p99_ns": 90_000}, "late_share": 0.001}
        facts = {"emulated": account, "emulated_device": {"model": "disk7200", "sha256": "5ba1"}}
        first = dataclasses.replace(first, properties={**first.properties, **facts})
        changed = dataclasses.replace(
            record,
            experiment=dataclasses.replace(record.experiment, target=target),
            runs=[first, *others],
        )
        text = flat(report.text(changed, verdict, width=300))
        assert text.startswith("Emulated device: ")
        assert name in text
        assert "not how fast a real one is" in text
        page = report.html(changed, verdict)
        assert "5ba1" in page
        assert "lateness_p99_ns, median of the runs" in page


def test_the_population_is_stated() -> None:
    record, verdict = verdicts.first_screen()
    text = flat(report.text(record, verdict, width=300))
    assert (
        "Measured: 6 workloads on a temporary loop device (rotational 0, 128 tags), this session, "
        "8 blocks, 8 file layouts, 96 s."
    ) in text
    several = dataclasses.replace(verdict.population, sessions=4, claims_sessions=True)
    changed = dataclasses.replace(verdict, population=several)
    text = flat(report.text(record, changed, width=300))
    assert "4 sessions" in text and "The sessions are the units" in text
    assert "holds for other file layouts too. Another boot may shift it." in text
    boots = dataclasses.replace(verdict, population=dataclasses.replace(several, claims_boots=True))
    text = flat(report.text(record, boots, width=300))
    assert "holds for other boots and file layouts too." in text and "shift it" not in text
    experiment = dataclasses.replace(record.experiment, kind="cpu")
    cpu = dataclasses.replace(record, experiment=experiment)
    text = flat(report.text(cpu, changed, width=300))
    assert "holds for repetitions without a reboot too. Another boot may shift it." in text
    assert "holds for other boots too." in flat(report.text(cpu, boots, width=300))
    late = dataclasses.replace(verdict, stopping=StoppingState(error=0.075))
    assert "the error is up to 0.075" in flat(report.text(record, late, width=300))


def test_catalogues_have_the_same_keys_and_placeholders() -> None:
    def fields(text: object) -> set[str]:
        texts = text if isinstance(text, list) else [text]
        return {name for t in texts for _, name, _, _ in string.Formatter().parse(t) if name}

    english = catalogue("en")
    for language in report.LANGUAGES:
        other = catalogue(language)
        assert set(other) == set(english), language
        for key, text in english.items():
            # Only Russian needs a word for "times" in its plural forms.
            optional = {"times"} if key.startswith("ratio.") else set()
            assert fields(other[key]) ^ fields(text) <= optional, (language, key)
            assert isinstance(other[key], list) == isinstance(text, list), (language, key)
            for count in (0, 1, 2, 5, 11, 21, 22, 112) if isinstance(text, list) else ():
                assert plural_form(language, count) < len(other[key]), (language, key)


def test_every_check_of_a_run_has_a_name_in_every_language() -> None:
    code = "\n".join(path.read_text() for path in Path(schedlab.__file__).parent.rglob("*.py"))
    found = re.findall(r'\bGate(?:Finding|Error)\(\s*"([a-z-]+)"|^GATE = "([a-z-]+)"', code, re.M)
    named = {key.removeprefix("gate.") for key in catalogue("en") if key.startswith("gate.")}
    assert len(found) > 30
    assert {one or other for one, other in found} == named


def test_every_text_of_the_catalogue_is_used() -> None:
    folder = Path(report.__file__).parent
    code = "\n".join(path.read_text() for path in folder.glob("*.py"))
    made_keys = re.findall(r"f[\"']([a-z_]+\.[^\"' ]*\{[^\"']*)[\"']", code)
    patterns = [re.sub(r"\\{.*?\\}", ".+", re.escape(key)) for key in made_keys]
    families = {"gain", "does", "loss", "actor", "actor_one", "lost", "metric"}
    unused = [
        key
        for key in catalogue("en")
        if f'"{key}"' not in code
        and f"'{key}'" not in code
        and key.split(".")[0] not in families
        and not any(re.fullmatch(pattern, key) for pattern in patterns)
    ]
    assert unused == []
