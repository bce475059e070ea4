"""CPU policies as in the kernel's sources, by hand on two tasks."""

import json

import pytest
from click.testing import CliRunner

from schedlab_sim.cli.sim import sim
from schedlab_sim.decisions import ENOUGH, decisions


def times_ms(key: str, *arguments: str) -> dict[str, float]:
    completed = CliRunner().invoke(sim, ["cpu", *arguments, "--json"], catch_exceptions=False)
    (result,) = json.loads(completed.stdout)["results"]
    return {task["name"]: task[key] / 1e6 for task in result["tasks"]}


def finish_ms(*arguments: str) -> dict[str, float]:
    return times_ms("finish_ns", *arguments)


# A runs for 12 ms, half of the latency; B for 1 ms, and sleeps until 18. Then A has a virtual run
# time of 17 ms, and B, with its credit of 12, one of 5.
LEVEL = ("--policy", "cfs", "--set", "cfs.start_debit=false")
SLEEPER = (*LEVEL, "--tasks", "A:0:20,B:0:1/5/1")


def test_a_woken_task_preempts_one_that_is_further_ahead_than_the_granularity() -> None:
    assert finish_ms(*SLEEPER) == {"A": 22, "B": 19}
    assert finish_ms(*SLEEPER, "--set", "cfs.wakeup_granularity=11ms")["B"] == 19
    # A has 3 ms left, and keeps them.
    assert finish_ms(*SLEEPER, "--set", "cfs.wakeup_granularity=13ms") == {"A": 21, "B": 22}


def test_the_granularity_is_scaled_by_the_weight_of_the_woken_task() -> None:
    # B weighs twice as much: A runs for 8 ms, B until 9, and wakes at 14 with 1 against A's 13.
    heavy = (*LEVEL, "--tasks", "A:0:20,B:0:1/5/1:weight=2048")
    assert finish_ms(*heavy, "--set", "cfs.wakeup_granularity=13ms")["B"] == 15
    assert finish_ms(*heavy, "--set", "cfs.wakeup_granularity=25ms")["B"] > 15


def test_features_of_a_kernel_are_set_together_and_one_by_one() -> None:
    parity = ("--policy", "eevdf", "--tasks", "A:0:30:slice=10,B:3:4:slice=2")
    half = ("--set", "eevdf.initial_half=false")

    def first_wait_ms(*more: str) -> float:
        return times_ms("response_ns", *parity, *half, *more)["B"]

    # A has used 3 of its 10 ms when B comes.
    assert first_wait_ms("--kernel", "6.6") == 7
    assert first_wait_ms("--kernel", "6.12") == 0  # the slice of B is the shorter one
    assert first_wait_ms("--kernel", "6.12", "--set", "eevdf.preempt_short=false") == 7


def test_a_model_under_the_name_of_a_kernel_says_how_many_of_its_switches_it_repeats() -> None:
    eevdf = ["cpu", "--policy", "eevdf", "--tasks", "A:0:1"]
    figures = [found["eevdf"].values() for found in decisions().values() if "eevdf" in found]
    is_exact = all(equal >= ENOUGH * total for cells in figures for equal, total in cells)
    shown = CliRunner().invoke(sim, [*eevdf, "--kernel", "6.12"]).stdout
    assert ("eevdf, a model: " in shown) is not is_exact
    assert ", a model: " not in CliRunner().invoke(sim, eevdf).stdout


@pytest.mark.parametrize("text", ["eevdf.slice", "rr.slice=1ms", "eevdf.fast=true"])
def test_an_unknown_feature_names_itself(text: str) -> None:
    result = CliRunner().invoke(sim, ["cpu", "--tasks", "A:0:1", "--set", text])
    assert result.exit_code != 0
    assert text.partition("=")[0].partition(".")[2] in f"{result.output}{result.exception}"
