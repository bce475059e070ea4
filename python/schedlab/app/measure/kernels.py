"""The kernels for virtual time: which are here, what each offers, a boot of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from schedlab.app.measure.measure import Observer
from schedlab.app.measure.virtual import heeding
from schedlab.guest import kernels
from schedlab.guest.kernels import Kernel
from schedlab.guest.machine import BootSettings
from schedlab.guest.place import Boot, Job


def known() -> list[Kernel]:
    """Those of this machine and those in the cache."""
    return kernels.every()


def downloaded(version: str) -> Kernel:
    """Debian's newest package of a version, now in the cache."""
    return kernels.get(version)


def rows(found: Iterable[Kernel]) -> list[str]:
    """A line for each kernel; the way to one where there is none."""
    lines = []
    for each in found:
        offers = ", ".join(each.offers) if each.options else "its build options are not known"
        lacks = f"; cannot be booted: it lacks {', '.join(each.lacks)}" if each.lacks else ""
        lines.append(f"{each.release:24} {offers}{lacks}")
    return lines or ["no kernel is here; download one: schedlab kernel get 6.12"]


def check(name: str, everything: bool, observer: Observer) -> None:
    """Boot a kernel and report what `schedlab doctor` finds inside."""
    boot = Boot.of(
        kernels.find(name), Job("doctor --all" if everything else "doctor"), BootSettings()
    )
    boot.run(heeding(observer))


def shell(name: str, report: Callable[[str], None]) -> None:
    """Boot a kernel with a shell on this terminal, until the shell ends."""
    boot = Boot.of(kernels.find(name), Job("shell"), BootSettings())
    report(f"booting Linux {boot.kernel.release}; `exit` ends it, Ctrl-A X kills it")
    boot.open_shell()
