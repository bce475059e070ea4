"""`sim run --policy NAME:key=value`: a policy's own parameters, in figures, tables and logs."""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from schedlab.errors import SpecError
from schedlab_sim.cli.run import run
from schedlab_sim.simulation import Simulation

SHORT = ["--requests", "400", "--seeds", "1"]


def simulated(*arguments: str) -> Result:
    return CliRunner().invoke(run, [*SHORT, *arguments], catch_exceptions=False)


def test_parameters_of_a_policy_are_those_of_the_simulation() -> None:
    typed = "stb:read_limit=10ms,bundle_min=3, stb,tsb:alpha=0.5,tsb:aging=every-arrival"
    runs = json.loads(simulated("--policy", typed, "--json").stdout)["runs"]
    own = [
        ("stb", {"read_limit": "10ms", "bundle_min": 3, "alpha": 0.9}),
        ("stb", {"alpha": 0.9}),
        ("tsb", {"alpha": 0.5}),
        ("tsb", {"alpha": 0.9, "aging": "every-arrival"}),
    ]
    for figures, (policy, parameters) in zip(runs, own, strict=True):
        assert figures["policy"] == policy
        assert {key: figures[key] for key in parameters} == parameters
        alone = Simulation(policy=policy, policy_set=parameters, requests=400).run().metrics
        assert figures["mean_read_ms"] == alone["mean_read_ms"]
    assert runs[2]["mean_read_ms"] != runs[3]["mean_read_ms"]


def test_all_policies_take_the_options_and_one_may_have_its_own() -> None:
    options = ["--alpha", "0.7", "--aging", "every-arrival"]
    policies = ["--policy", "ts,tsb:aging=dispatch-overtake"]
    ts, tsb = json.loads(simulated(*options, *policies, "--json").stdout)["runs"]
    assert (ts["alpha"], ts["aging"]) == (0.7, "every-arrival")
    assert (tsb["alpha"], tsb["aging"]) == (0.7, "dispatch-overtake")


def test_a_table_names_each_policy_in_full_and_fits_the_screen() -> None:
    typed = "fcfs,tsb,sb,stb:read_limit=10ms,write_limit=1s,stb,ts"
    lines = simulated("--policy", typed).stdout.splitlines()
    heads = [line.split()[::2] for line in lines if "ratio" in line]
    assert heads == [
        ["fcfs", "tsb", "sb"],
        ["stb:read_limit=10ms,write_limit=1s", "stb"],
        ["ts"],
    ]
    assert max(map(len, lines)) <= 80


def test_a_log_tells_policies_apart_by_their_parameters(tmp_path: Path) -> None:
    policies = ["--policy", "stb:read_limit=10ms,stb"]
    assert simulated(*policies, "--log", str(tmp_path / "log.csv")).exit_code == 0
    with (tmp_path / "log.csv").open() as file:
        names = [row["policy"] for row in csv.DictReader(file)]
    assert {name: names.count(name) for name in names} == {"stb:read_limit=10ms": 400, "stb": 400}


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("tsb:alpa=0.5", "unknown field `alpa`, expected one of `name`, `alpha`"),
        ("tsb:alpha=5", "alpha = 5: expected a number above 0"),
        ("tsb:aging=never", "unknown variant `never`, expected one of `dispatch-overtake`"),
        ("nope:alpha=0.5", 'policy = "nope" is not known'),
        ("tsb:alpha", "tunable 'alpha' is not understood"),
    ],
)
def test_a_wrong_parameter_is_named(policy: str, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)) as error:
        simulated("--policy", policy)
    assert "line 1" not in str(error.value)
    assert "trace" not in error.value.hint and "FORMAT" not in error.value.hint


def test_the_note_counts_one_seed_and_more() -> None:
    assert "mean over 1 seed;" in simulated("--policy", "fcfs").output
    two = CliRunner().invoke(run, ["--policy", "fcfs", "--requests", "400", "--seeds", "2"])
    assert "mean over 2 seeds;" in two.output


def test_a_quantile_of_too_few_requests_is_a_dash() -> None:
    assert re.search(r"^p99 read ms +- +-$", simulated().stdout, re.MULTILINE)
