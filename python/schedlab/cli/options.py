"""Options that several commands share, each defined once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from schedlab.cli.sections import OneRule, heeded, section, together
from schedlab.cli.types import Duration, Listed, Percent, Size, Sizes, Words

# One that may not be read is refused where it is opened, with the way without root.
PATH: Any = click.Path(path_type=Path, readable=False)
# Of the families of workloads.
FILE_TESTS = "file-tests"
COUNT = click.IntRange(0)
SEED = click.IntRange(0, 2**64 - 1)
GOALS = click.Choice(["throughput", "latency", "fairness", "responsiveness"])


def command(name: str | None = None, **more: Any) -> Callable[[Callable[..., Any]], OneRule]:
    """`click.command`, of such a command."""
    return click.command(name, cls=OneRule, **more)


out_option = click.option("--out", type=PATH, help="Result folder (default: results/DATE-NAME).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the plan, every setting and the time; measure nothing."
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help="Fixes orders and offsets."
)
measured_options = section(
    "Result", seed_option, out_option, dry_run_option, json_option,
    usual="--out --dry-run",
)  # fmt: skip
_TRUST = "Allow the programs, devices and settings of a file from elsewhere."
trust_option = click.option("--trust", is_flag=True, help=_TRUST)
_trust_resumed = section("Result", heeded("--resume", "--trust", is_flag=True, help=_TRUST))


def _resuming(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    option = click.option("--resume", type=PATH, metavar="DIR", help=text)
    return section("Result", option, usual="--resume")


resume_option = _resuming("Resume, or extend by --blocks, --budget.")
resume_options = together(resume_option, _trust_resumed)
resume_rest_options = together(_resuming("Measure what is left of this folder."), _trust_resumed)
goal_option = click.option(
    "--goal", type=GOALS, help="Which metrics decide (default: those chosen before the first run)."
)
dask_option = click.option(
    "--dask", metavar="tcp://HOST:PORT|local:N", help="Simulate on a Dask cluster."
)
LANGUAGE = click.Choice(("en", "ko", "ru"))
language_option = click.option("--lang", type=LANGUAGE, help="Language (default: that of LANG).")
destroy_option = click.option(
    "--destroy-data", type=PATH, metavar="DEVICE", help="Allow writes to this device."
)
margin_option = click.option(
    "--margin", type=Percent(), default="2%", show_default=True,
    help="Treat smaller differences as equivalent.",
)  # fmt: skip
candidate_option = click.option(
    "--candidate", "candidates", multiple=True, metavar="TEXT",
    help="One with any settings: 'a=bfq thp=never'.",
)  # fmt: skip
switch_option = click.option(
    "--switch", type=Words(), metavar="NAMES", help="Settings of the machine to switch: thp,…"
)
command_argument = click.argument("command", nargs=-1, type=click.UNPROCESSED)
kernel_option = section(
    "Target",
    click.option("--kernel", metavar="VERSION|FILE,…",
                 help="Run under it in virtual time, without root."),
    usual="--kernel",
)  # fmt: skip
target_options = section(
    "Target",
    click.option("--scratch", "scratch_bytes", type=Size(),
                 help="A temporary loop device of this size (1G)."),
    heeded("--scratch", "--scratch-directory", type=click.Path(), default="/var/tmp",
           show_default=True, help="Where the temporary file is; its disk affects the result."),
    heeded("--scratch, --model", "--fs", "filesystem",
           type=click.Choice(["ext4", "xfs", "btrfs", "none"]),
           help="File system on the temporary device."),
    click.option("--model", help="Use an emulated device (`schedlab device models`)."),
    click.option("--queue-depth", type=click.IntRange(1, 128), help="Its queue depth."),
    click.option("--dilate", type=click.FloatRange(1), default=1.0, help="Slow its time, × this."),
    heeded("--scratch, --model, --device", "--rotational", type=click.Choice(["0", "1", "as-is"]),
           help="Report the device as SSD (0) or disk (1)."),
    click.option("--device", type=click.Path(readable=False), help="Use one of your disks."),
    heeded("--device", "--read-only", is_flag=True, help="Only read --device; it may be in use."),
    heeded("--device", "--destroy-data", type=click.Path(readable=False), metavar="DEVICE",
           help="Allow writes to --device: name it again."),
    heeded("--destroy-data", "--allow-unknown-data", is_flag=True,
           help="Allow writes over unknown data, too."),
    click.option("--directory", type=click.Path(), help="Use a file in this directory."),
    heeded("--directory, --model", "--size", "size_bytes", type=Size(),
           help="Size of the file or model.  [default: 1G]"),
    heeded("--directory", "--switch", type=Words(), metavar="NAMES",
           help="Disks and settings of the machine to switch."),
    usual="--scratch --model --device --destroy-data --directory --switch",
)  # fmt: skip
load_options = section(
    "Built-in work",
    click.option("--workloads", type=Words(), help="What to measure (see docs/reference)."),
    heeded(FILE_TESTS, "--tests", type=Words(), help="File tests instead: read,random-write,…"),
    heeded(FILE_TESTS, "--records", "record_bytes", type=Sizes(),
           help="Record sizes of the file tests: 8k,64k,1M."),
    heeded(FILE_TESTS, "--depth", type=click.IntRange(1, 4096), default=1, show_default=True,
           help="Queue depth of the file tests."),
    heeded(FILE_TESTS, "--workers", type=click.IntRange(1, 1024), default=1, show_default=True,
           help="Workers of the file tests."),
    heeded(FILE_TESTS, "--buffered", is_flag=True, help="File tests through the page cache."),
    heeded("a window", "--seconds", type=Duration(),
           help="Measured window of a run (default: the workload's)."),
    heeded("extraction", "--archive",
           type=click.Path(exists=True, dir_okay=False, resolve_path=True),
           help="Archive to extract (default: a generated one)."),
    heeded("extraction", "--archive-size", "archive_bytes", type=Size(), default="64M",
           show_default=True, help="Size of the generated archive."),
    heeded("extraction", "--decompressor", type=click.Choice(["none", "gzip", "xz", "zstd"]),
           default="none", show_default=True, help="How it is compressed."),
    heeded("startup", "--program", metavar="COMMAND", help="Time the start-up of this program."),
    usual="--workloads --seconds",
)  # fmt: skip
design_options = section(
    "Design",
    click.option("--blocks", type=click.IntRange(1, 10_000),
                 help="Number of blocks (each runs every candidate once on every workload)."),
    click.option("--budget", type=Duration(), help="Plan what fits into this time, e.g. 10m."),
    click.option("--quick", is_flag=True, help="A budget of one minute."),
    click.option("--until-decided", is_flag=True,
                 help="Stop once one is proven the best, or as good as the best."),
    click.option("--precision", type=Percent(), help="Stop at a bound of, e.g., 5%."),
    click.option("--may-extend", type=click.IntRange(2), metavar="BLOCKS",
                 help="Announce a second analysis at this number of blocks."),
    click.option("--sessions", type=click.IntRange(1, 100), default=1, show_default=True,
                 help="Repeat the plan on this number of new file layouts."),
    margin_option,
    click.option("--share", type=Listed(), metavar="NAME=NUMBER,…",
                 help="Workloads as one mix: newcomer=3,reader=1, or equal."),
    click.option("--require", multiple=True, metavar="LIMIT",
                 help="Take nothing that misses this: 'reader p99 < 10ms'."),
    click.option("--aa/--no-aa", default=True, help="Measure the baseline twice in every block."),
    click.option("--goal", type=GOALS, help="What the primary metrics are (default: throughput; "
                 "of CPU policies: latency)."),
    usual="--budget --quick --until-decided --margin",
)  # fmt: skip


def typed_options(ctx: click.Context) -> dict[str, tuple[str, ...]]:
    """The options and arguments that stand on the command line, as `--out` or `file`, each with
    what it works with: nothing said is anything."""
    source, typed = ctx.get_parameter_source, ParameterSource.COMMANDLINE
    named = [one for one in ctx.command.params if source(str(one.name)) is typed]
    return {one.opts[0]: getattr(one, "works_with", ()) for one in named}
