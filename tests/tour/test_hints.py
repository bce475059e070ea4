"""Every command that a hint names works when it is typed as printed, where the hint was printed."""

import re

import pytest
from loops import needs_root
from walk import FAULTS, filled

# By turns: each case starts several programs.
pytestmark = pytest.mark.sampled(3)
HINTED = re.compile(r"schedlab [a-z].*?(?= shows| records|[;`)]|, or|$)")
# These take long, and their first step is to check all that was typed.
LONG = ("schedlab sim compare",)
WITHOUT_ROOT = (
    "schedlab run experiment.toml",
    "schedlab fleet run fleet.toml -i hosts",
    "schedlab compare",
    "schedlab compare --model disk7200",
    "schedlab tune --scratch 64M --scheduler bfq",
    "schedlab lab run bfq-tunables",
    "schedlab cpu compare",
    "schedlab lab run rr-quantum",
    "schedlab trace io nothing",
    "schedlab compare --directory . -- true",
    "schedlab sim compare --policies fcfs,tbs",
    "schedlab sim run --trace {data}/imports/1.txt",
)
AS_ROOT = (
    "schedlab compare --schedulers none,cfq --scratch 64M",
    "schedlab device down nothing",
    "schedlab undo {short}",
    "schedlab trace stats {data}/imports/1.json",
    "schedlab trace stats {data}/benchmarks/iostat-x.json",
    "schedlab import fio none={data}/imports/1.txt --out x",
    "schedlab sim cpu --tasks {data}/imports/rr-1.log",
)


def follow(line, shell):
    """Type a line that fails, then each command of its hint."""
    failed = shell.run(line, 240)
    assert failed.status == 2, failed.output
    (hint,) = (text for text in failed.output.splitlines() if text.startswith("hint: "))
    commands = HINTED.findall(hint)
    assert commands, hint
    for command in commands:
        done = shell.run(f"{command} --dry-run" if command.startswith(LONG) else command, 240)
        wrong = [fault for fault in FAULTS if fault in done.output]
        assert done.status in (0, 1) and not wrong, f"{line}\n{command}\n{done.output}"


@pytest.mark.parametrize("line", WITHOUT_ROOT)
def test_without_root(line, start, names):
    follow(filled(line, names), start(True))


@needs_root
@pytest.mark.parametrize("line", AS_ROOT)
def test_as_root(line, start, need, names):
    need("device")
    follow(filled(line, names), start(False))
