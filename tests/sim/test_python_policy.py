"""Policies in Python give what the built-in ones give, and say where they fail."""

from pathlib import Path

import pytest

from schedlab.errors import SpecError
from schedlab_sim.experiments import policy_candidates
from schedlab_sim.policy_file import split_policies
from schedlab_sim.simulation import Simulation

FILE = """
class Fcfs:
    uses = set()
    def select(self, queue, now_ns, device):
        return 0

class Tsb:
    def estimate(self, queue, now_ns, device):
        return queue["missing"] * queue["unit_ns"]

class Aged:
    def select(self, queue, now_ns, device):
        return int((queue["power"] * (queue["missing"] * queue["unit_ns"])).argmin())

class Arrival:
    def order(self, queue, now_ns, device):
        return list(range(len(queue)))

class Newest:
    def select(self, queue, now_ns, device):
        return len(queue) - 1

class Backwards:
    def order(self, queue, now_ns, device):
        return list(range(len(queue)))[::-1]

def turn(queue, now_ns):
    by_arrival = queue["arrival_ns"] + 1.0
    return by_arrival if now_ns // 5_000_000 % 2 else 1e15 / by_arrival

class TurnsOnEntry:
    def estimate(self, queue, now_ns, device):
        return turn(queue, now_ns)

class Turns(TurnsOnEntry):
    volatile = True

class TurnsEachTime:
    def select(self, queue, now_ns, device):
        return int((queue["power"] * turn(queue, now_ns)).argmin())

class Wrong:
    def __init__(self, row=10**6):
        self.row = row
    def select(self, queue, now_ns, device):
        return self.row

class Raises:
    def select(self, queue, now_ns, device):
        return queue["colour"]

class Nan:
    def estimate(self, queue, now_ns, device):
        return queue["missing"] * float("nan")

class Nothing:
    pass

class Needy:
    def __init__(self):
        self.limit = self.colour

nobody = None
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policies.py"
    path.write_text(FILE)
    return path


def result(policy: str, **settings: object) -> tuple[str, bytes]:
    outcome = Simulation(policy=policy, requests=1500, log=True, **settings).run()  # type: ignore[arg-type]
    return outcome.report_json, outcome.log_bytes


@pytest.mark.parametrize("workload", ["A", "B", "C", "D"])
@pytest.mark.parametrize("buffer", ["8MiB", "64MiB"])
def test_the_bytes_of_the_built_in_policies(file: Path, workload: str, buffer: str) -> None:
    common = {"workload": workload, "device_set": {"buffer.size": buffer}}
    assert result(f"{file}:Fcfs", **common) == result("fcfs", **common)
    assert result(f"{file}:Arrival", **common) == result("fcfs", **common)
    for aging in ("dispatch-overtake", "shorter-arrival", "every-arrival"):
        for alpha in (0.9, 1.0):
            settings = {**common, "policy_set": {"alpha": alpha, "aging": aging}}
            assert result(f"{file}:Tsb", **settings) == result("tsb", **settings), (aging, alpha)
    assert result(f"{file}:Aged", **common) == result("tsb", **common)


def test_an_order_ends_with_the_next_request_and_a_volatile_estimate_with_each(file: Path) -> None:
    assert result(f"{file}:Backwards", workload="A") == result(f"{file}:Newest", workload="A")
    each_time = result(f"{file}:TurnsEachTime", workload="A")
    assert result(f"{file}:Turns", workload="A") == each_time
    assert result(f"{file}:TurnsOnEntry", workload="A") != each_time


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Wrong", r"expected rows of the queue, 0 to \d+; at \d+ ns, with request \d+ first"),
        ("Wrong,row=-1", "expected rows of the queue"),
        ("Raises", r"policies.py, line \d+: .*colour"),
        ("Nan", "none of them NaN"),
        ("Nothing", "expected a method select, order or estimate"),
        ("Missing", "has no class Missing"),
        ("nobody", "has no class nobody"),
        ("Needy", r"policies.py, line \d+: AttributeError.*'Needy' object has no .*'colour'"),
        ("Wrong,colour=1", "colour"),
    ],
)
def test_a_policy_that_fails_names_file_line_and_request(
    file: Path, name: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        Simulation(policy=f"{file}:{name}", requests=200).run()


def test_a_module_that_fails_says_so_itself(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import math\n\nLIMIT = math.tau_and_a_half\n\nclass Fcfs:\n    pass\n")
    with pytest.raises(SpecError, match=r"broken.py, line 3: AttributeError.*tau_and_a_half"):
        Simulation(policy=f"{path}:Fcfs", requests=200).run()


def test_settings_stay_with_their_file() -> None:
    assert split_policies("fcfs, a.py:B,x=1,y=2,tsb") == ["fcfs", "a.py:B,x=1,y=2", "tsb"]
    typed = "fcfs,a.py:B,x=1,tsb:alpha=0.5,c.py:D,ts"
    candidates = [(each.label, each.settings) for each in policy_candidates(typed)]
    assert candidates == [
        ("fcfs", {"policy": "fcfs"}), ("B:x=1", {"policy": "a.py:B,x=1"}),
        ("tsb:alpha=0.5", {"policy": "tsb", "alpha": "0.5"}), ("D", {"policy": "c.py:D"}),
        ("ts", {"policy": "ts"}),
    ]  # fmt: skip
