"""`schedlab diff LIVE REPLAY`: whether a replay recommends what its live load does."""

import json
import random
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from experiments import run_of

from schedlab.cli import cli
from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.nouns import Experiment, Stopping, Target, Workload
from schedlab.store.folder import Folder

MEAN, P99 = "read_latency_ns_mean", "read_latency_ns_p99"
LIVE = Workload("live load", "live-load", MEAN, {"seconds": 9.0, "wash_out_s": 1.0})
REPLAY = Workload("load.trace", "trace-replay", MEAN, {"trace": "load.trace"}, (P99,))
EVEN, BFQ, NONE = {}, {"bfq": 0.5}, {"bfq": 2.0}
AGREED = "The replay agrees with the live load on mean read latency: bfq."


def result(path, work, ratios, *, noise=0.002, names="none,bfq", metrics=(MEAN, P99), device="sdb"):
    """A folder with 12 blocks of a latency of 1 ms times its candidate's ratio."""
    is_live = work.kind == "live-load"
    target = Target("device", "/dev/sdb", 1 << 30) if is_live else Target("scratch", "", 1 << 30)
    asked = Experiment("t", "io", target, parse_candidates(names), (work,), "none", 1,
                       Stopping(blocks=12))  # fmt: skip
    folder = Folder.create(path, asked, make_plan(asked), {"kernel": {"release": "6.1"}})
    rows = [{"metric": MEAN, "recorded": 1e6, "replayed": 1.01e6, "is_like": True}]
    facts = {"fidelity": {"device": device, "scheduler": "none", "rows": rows}}
    rng = random.Random(work.label)
    for cell in folder.plan.cells:
        value = 1e6 * ratios.get(cell.candidate, 1.0) * rng.lognormvariate(0, noise)
        properties = {} if is_live else facts
        folder.append(run_of(cell, dict.fromkeys(metrics, value), properties=properties))
    return path


def diff(*words):
    return CliRunner().invoke(cli, ["diff", *map(str, words)], standalone_mode=False)


@pytest.mark.parametrize(
    ("live", "replay", "noise", "code", "sentence"),
    [
        (BFQ, BFQ, 0.002, "agree", AGREED),
        (EVEN, BFQ, 0.002, "agree", AGREED),
        (EVEN, EVEN, 0.002, "agree", "mean read latency: none and bfq."),
        (BFQ, NONE, 0.002, "disagree", "bfq live, none in the replay. The live load is the proof."),
        (EVEN, BFQ, 0.3, "open", "no bound decides in live."),
        (EVEN, EVEN, 0.3, "open", "no bound decides in live and replay."),
    ],
)
def test_the_two_agree_or_not_or_no_bound_decides(tmp_path, live, replay, noise, code, sentence):
    """`noise` is that of the live load, and of a replay without a difference."""
    first = result(tmp_path / "live", LIVE, live, noise=noise)
    second = result(tmp_path / "replay", REPLAY, replay, noise=noise if replay is EVEN else 0.002)
    ended = diff(first, second, "--junit", tmp_path / "junit.xml")
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    first_line, *others = ended.stdout.splitlines()
    assert first_line.endswith(sentence)
    assert [line.split(": ")[0] for line in others[:2]] == ["live", "replay"]
    assert (ended.exit_code, diff(first, second, "--fail-on", "never").exit_code) == (
        int(code == "disagree"), 0
    )  # fmt: skip
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", str(int(code == "disagree")))
    turned = json.loads(diff(second, first, "--json", "--fail-on", "never").stdout)
    assert (turned["agreement"], turned["metric"]) == (code, MEAN)
    assert [*turned["answers"]] == ["live", "replay"]
    assert first_line in (second / "diff.html").read_text()


def test_only_common_candidates_and_a_common_metric_are_compared(tmp_path):
    """kyber, best in the replay, was not measured live; the user's own figure is not replayed."""
    own = Workload("live load", "live-load", "requests_per_s", LIVE.parameters)
    first = result(tmp_path / "live", own, NONE, metrics=("requests_per_s", P99))
    work = Workload("load.trace", "trace-replay", P99, REPLAY.parameters)
    second = result(
        tmp_path / "replay", work, {**NONE, "kyber": 0.1}, names="none,kyber,bfq", metrics=(P99,),
        device="sdc",
    )  # fmt: skip
    ended = diff(first, second)
    assert "on p99 read latency: none." in ended.stdout.splitlines()[0]
    assert "kyber" not in ended.stdout
    assert "the load was recorded on sdc; the live one is on sdb" in ended.stderr
    (tmp_path / "c").mkdir()
    with pytest.raises(SpecError, match="fewer than two candidates in common"):
        raise diff(first, result(tmp_path / "c" / "d", work, {}, names="none,kyber")).exception
    only_mean = result(tmp_path / "e", REPLAY, {}, metrics=(MEAN,))
    assert "none of requests_per_s, read_latency_ns_mean in common" in str(
        diff(first, only_mean).exception
    )
