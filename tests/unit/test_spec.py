"""The nouns survive JSON and refuse what cannot be."""

import pytest

from schedlab.errors import SpecError
from schedlab.spec import (
    Candidate,
    Experiment,
    Stopping,
    Target,
    Workload,
    from_json,
    metric_named,
    to_json,
)

EXPERIMENT = Experiment(
    title="t",
    kind="io",
    target=Target("scratch", size_bytes=1 << 20),
    candidates=(Candidate("bfq", {"scheduler": "bfq", "low_latency": 0}),),
    workloads=(Workload("w", "file-test", "iops", {"nested": [1, {"a": 2.5}]}, weight=2.0),),
    baseline="bfq",
    seed=7,
    stopping=Stopping("precision", 40, 0.01),
)


def test_an_experiment_survives_json():
    assert from_json(Experiment, to_json(EXPERIMENT)) == EXPERIMENT


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"kind": "magic"}, "kind"),
        ({"seed": "one"}, "seed"),
        ({"margin": "2%"}, "margin"),
        ({"surprise": 1}, "surprise"),
        ({"candidates": "none"}, "candidates"),
        ({"stopping": {"mode": "never"}}, r"stopping\.mode"),
        ({"workloads": [{"label": "w"}]}, r"workloads\[0\]"),
    ],
)
def test_a_wrong_key_is_named_with_its_place(change, place):
    with pytest.raises(SpecError, match=place) as caught:
        from_json(Experiment, to_json(EXPERIMENT) | change, "file.toml")
    assert caught.value.hint


def test_infinities_become_null():
    assert to_json({"a": float("nan"), "b": [float("inf"), 1.0]}) == {"a": None, "b": [None, 1.0]}


def test_an_unknown_metric_lists_the_known():
    with pytest.raises(SpecError, match="speed") as caught:
        metric_named("speed")
    assert "iops" in caught.value.hint
