"""`schedlab predict`: which scheduler a device that is not there would need, and how surely."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from schedlab.cli.options import PATH, command, json_option
from schedlab.cli.types import Listed


@command()
@click.option("--device", type=Listed(), metavar="FILE[,FILE]",
              help="A device file (`schedlab device fit`) or a shipped model; of two, which is the "
              "faster one for the load.")  # fmt: skip
@click.option("--fio", "job_file", type=PATH, metavar="JOB", help="A fio job file.")
@click.option("--trace", metavar="FILE[:FORMAT]", help="A recording (`schedlab trace io --out`).")
@click.option(
    "--workloads", type=Listed(), help="Shipped loads or files of processes: random32,mine.toml."
)
@click.option("--schedulers", type=Listed(), default="none,mq-deadline,kyber,bfq",
              show_default=True, help="The candidates.")  # fmt: skip
@click.option("--kernel", default="", metavar="VERSION",
              help="Measure three draws under this kernel, in virtual time: minutes.")  # fmt: skip
@json_option
def predict(
    device: str | None, job_file: Path | None, trace: str | None,
    workloads: str | None, schedulers: str, kernel: str, as_json: bool,
) -> None:  # fmt: skip
    """Predict what each scheduler costs on a device that is not there, and how sure that is.

    Devices are drawn from the errors of the device file and simulated under each candidate. The
    losses get the errors that such simulations had against the kernel, with --kernel those of this
    load.
    """
    from schedlab.cli.show import live_line, print_result
    from schedlab_sim.predict import predict as app

    named = device.split(",") if device else []
    if not 1 <= len(named) <= 2:
        raise click.UsageError("name one device, or two: --device FILE,FILE")
    with live_line() as line:
        progress = partial(line.show, is_due=False)
        loads = app.loads_of(workloads, trace, job_file)
        document, text = app.predictions(named, loads, schedulers, progress, kernel)
    print_result(as_json, {"predictions": document}, text)
