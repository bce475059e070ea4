"""`schedlab cpu N TIME`: worker processes that count calculations, printed epoch by epoch."""

from __future__ import annotations

import contextlib

import click

from schedlab.cpu.settings import (
    KERNELS,
    POLICIES,
    PRIORITY_DEFAULT,
    Compat,
    Settings,
    parse_cpus,
    parse_time_ns,
)


@click.command()
@click.argument("processes", type=int, metavar="N")
@click.argument("time", metavar="TIME")
@click.option("--policy", type=click.Choice(POLICIES), default="other", show_default=True)
@click.option(
    "--priority",
    type=int,
    default=PRIORITY_DEFAULT,
    show_default=True,
    help="Static priority for fifo and rr, 1-99.",
)
@click.option("--slice", "slice_ms", type=float, help="Quantum in ms (rr: for the whole host).")
@click.option("--cpu", "cpus", help="Pin the workers to these CPUs: 0, 0,2 or 0-3.")
@click.option(
    "--cpuset", is_flag=True, help="Pin by a cpuset cgroup instead of by affinity (last CPU)."
)
@click.option(
    "--compat",
    type=click.Choice(["spec", "sample"]),
    default="spec",
    show_default=True,
    help="Form of the lines; a bare TIME is ms under spec, seconds under sample.",
)
@click.option("--kernel", type=click.Choice(KERNELS), default="elementwise", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_context
def run(
    ctx: click.Context,
    processes: int,
    time: str,
    policy: str,
    priority: int,
    slice_ms: float | None,
    cpus: str | None,
    cpuset: bool,
    compat: Compat,
    kernel: str,
    as_json: bool,
) -> None:
    """Run N worker processes for TIME (30s, 3000ms); each repeats one fixed calculation.

    The kernel's own account of CPU time and switches follows on stderr.
    """
    from schedlab.app.count import calibrate, count
    from schedlab.cli.show import say
    from schedlab.cpu.crew import held_crew, last_cpu, needs_control
    from schedlab.cpu.epoch_lines import PRINTERS, JsonLines

    bare_unit = "ms" if compat == "spec" else "s"
    duration_ns = parse_time_ns(time, bare_unit)
    if time.strip().replace(".", "", 1).isdigit():
        meaning = "milliseconds" if compat == "spec" else "seconds"
        click.echo(f"TIME {time} is read as {meaning} (--compat {compat})", err=True)
    pinned = parse_cpus(cpus) if cpus else (last_cpu(),) if cpuset else ()
    settings = Settings(
        processes=processes,
        duration_ns=duration_ns,
        policy=policy,
        priority=priority,
        slice_ms=slice_ms,
        cpus=pinned,
        cpuset=cpuset,
        kernel=kernel,
        epoch_grid=compat == "sample",
    )
    printer = JsonLines(_write, settings) if as_json else PRINTERS[compat](_write)
    calibrate(kernel, say)
    with contextlib.ExitStack() as stack:
        control = None
        if needs_control(settings):
            from schedlab.host.control import Control

            control = stack.enter_context(Control(report=say))
        crew, quantum = stack.enter_context(held_crew(settings, control))
        interrupted = count(crew, printer, quantum, say)
    if interrupted:
        ctx.exit(130)


def _write(line: str) -> None:
    """A line on stdout, at once: whoever reads a pipe sees epochs as they end."""
    click.echo(line)
