"""Candidates of CPU policies as they are typed: what cannot be is refused before anything runs."""

import pytest

from schedlab.errors import SpecError
from schedlab.run.cpu.cpu_policy import parse_policies, parse_policy, policy_of


@pytest.mark.parametrize(
    "text",
    ["deadline:slice=20ms,period=10ms", "deadline:slice=20ms", "deadline:20ms",
     "other,deadline:slice=10.001ms", "deadline:slice=0.5us,period=1ms",
     "deadline:slice=5ms,period=6ms,deadline:slice=2s,period=1s"],
)  # fmt: skip
def test_a_run_time_that_exceeds_its_period_is_refused(text):
    with pytest.raises(SpecError, match=r"a run time of .* in a period of") as error:
        [policy_of(each) for each in parse_policies(text)]
    hinted = error.value.hint.rpartition(" ")[2]
    assert [policy_of(each) for each in parse_policies(hinted)]


@pytest.mark.parametrize(
    "text", ["deadline", "deadline:slice=10ms", "deadline:slice=20ms,period=20ms",
             "deadline:slice=2us,period=1ms", "deadline:period=50ms", "other:slice=20ms"],
)  # fmt: skip
def test_what_the_kernel_takes_is_not_refused(text):
    assert [policy_of(each).policy for each in parse_policies(text)] == [text.partition(":")[0]]


def test_a_command_is_a_setting_of_the_machine():
    """As settings.md has it for every command that takes candidates."""
    policy = policy_of(parse_policy("a=batch run='touch a b' undo='rm a b' nice=3"))
    assert policy.host_settings == {"run": "touch a b", "undo": "rm a b"}
    assert (policy.policy, policy.nice) == ("batch", 3)
    for alone in ("a=other run=true", "a=other undo=:"):
        with pytest.raises(SpecError, match="run and undo belong together"):
            policy_of(parse_policy(alone))
