"""A kernel in virtual time as the place of an experiment: checked and shown here, run inside.

    result = measure(experiment, "6.12", "results/r", observer)

The experiment is the same as on a machine, and so is its folder; `host.json` has `virtual`, the
digest of everything that decided the boot. The same digest gives the same `runs.jsonl`.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.app.measure.measure import SILENT, Observer
from schedlab.errors import SpecError, nearest
from schedlab.guest import image, kernels
from schedlab.guest.machine import BootSettings, Heed, Message
from schedlab.guest.place import Boot, Job
from schedlab.nouns import Experiment, Target, to_json
from schedlab.nouns.quantities import duration_text, size_text
from schedlab.run.candidate_settings import AS_IS
from schedlab.run.executor import Progress
from schedlab.store.folder import Folder, check_free, without_none

if TYPE_CHECKING:
    from schedlab.host.emulated.emulated import Emulation
    from schedlab.result import Result

USUAL_MODEL = "disk7200"
# A reply of the server costs about 40 µs there: requests that are shorter than this, or more of
# them in a second, would measure it.
SHORTEST_NS, MOST_PER_S, TAGS = 1e6, 7000.0, 32
# With all of its tags; a server there refuses more than 8,190 to 8,600.
EMULATED_PER_S = 8000.0
_FILES_BYTES_MAX = 64 << 20
_SEED_BITS = 31  # of qemu's --seed


def kernels_named(text: str) -> dict[str, kernels.Kernel]:
    """The kernels of --kernel by the labels that they get; SpecError for one that is not here."""
    named: dict[str, kernels.Kernel] = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        kernel = kernels.find(name)
        label = kernel.release if "/" in name or name == "running" else name
        if label in named or kernel.release in {each.release for each in named.values()}:
            raise SpecError(
                f"--kernel {text}: {kernel.release} is named twice",
                "name it once; own builds need a CONFIG_LOCALVERSION each",
            )
        named[label] = kernel
    if not named:
        raise SpecError("--kernel: names no kernel", "schedlab kernel list")
    return named


def with_usual(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with the usual target and schedulers of --kernel where one is named: those of
    this machine are not there."""
    usual = dict(typed)
    if not typed.get("kernel"):
        return usual
    targets = ("scratch_bytes", "device", "directory", "model")
    if not any(typed.get(name) for name in targets):
        usual["model"] = USUAL_MODEL
    if "candidates" in typed and not (typed.get("schedulers") or typed["candidates"]):
        every = [kernel.schedulers for kernel in kernels_named(typed["kernel"]).values()]
        common = [name for name in every[0] if all(name in each for each in every)]
        usual["schedulers"] = ",".join(common)
    return usual


def effective_slices(policy: str, slices_ms: Iterable[float], name: str) -> dict[float, float]:
    """The effective quantum of each requested one under the kernels of that name; SpecError where
    these make several of it, as their ticks differ."""
    named = kernels_named(name)
    effective = {}
    for ms in slices_ms:
        found = {kernel.quantum_ms(ms) if policy == "rr" else ms for kernel in named.values()}
        if len(found) > 1:
            raise SpecError(
                f"a quantum of {ms:g} ms is another one under each of {', '.join(named)}",
                "name quanta that are whole ticks of each, such as 20ms,100ms",
            )
        effective[ms] = found.pop()
    return effective


def measure(experiment: Experiment, name: str, out: Path, observer: Observer = SILENT) -> Result:
    """Boot a kernel, measure the experiment in it, and give the folder that comes out.

    Of several kernels (`6.1,6.12`) or sessions each is a boot. SpecError or HostError with what
    helps, here or inside; Interrupted after Ctrl-C. Nothing is left of a machine that did not end.
    """
    from schedlab.app.measure import virtual_boots

    named = kernels_named(name)
    for kernel in named.values():
        check(experiment, kernel)
    if experiment.kind == "cpu":  # its notes are of this machine's settings
        experiment = replace(experiment, notes=())
    for note in experiment.notes:
        observer.report(f"note: {note}")
    if len(named) > 1 or experiment.stopping.sessions > 1:
        plan = virtual_boots.planned(experiment, named)
        with _reserved(out):
            return virtual_boots.measure_boots(plan, named, out, observer)
    with _reserved(out):
        return _run(booted(experiment, kernel), out, observer)


@contextmanager
def _reserved(out: Path) -> Iterator[None]:
    """An empty folder for a result, gone again where none comes; SpecError for one in use."""
    is_new = not out.exists()
    check_free(out)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):  # It holds what was kept.
                out.rmdir()
        raise


def _run(boot: Boot, out: Path, observer: Observer) -> Result:
    from schedlab.result import Result

    observer.report(
        f"booting Linux {boot.kernel.release} in virtual time: one CPU, "
        f"{boot.settings.instructions_per_s // 10**6} M instructions/s, no root needed"
    )
    boot.run(heeding(observer), out)
    return Result(Folder.open(out))


def booted(experiment: Experiment, kernel: kernels.Kernel, words: str = "") -> Boot:
    """The machine for an experiment; its seed is the experiment's. `words` are for the kernel."""
    import tomli_w

    # Digests of its files are added inside, and the job has the files themselves.
    text = tomli_w.dumps(without_none(to_json(replace(experiment, digests={}))))
    files = {f"files{path}": path.read_bytes() for path in _files_of(experiment)}
    if sum(map(len, files.values())) > _FILES_BYTES_MAX:
        size = size_text(_FILES_BYTES_MAX)
        raise SpecError(f"the files of this experiment have more than {size}", "use smaller ones")
    seed = experiment.seed & (1 << _SEED_BITS) - 1
    job = Job("measure", {"experiment.toml": text.encode(), **files})
    return Boot.of(kernel, job, BootSettings(seed=seed, words=words))


def _files_of(experiment: Experiment) -> list[Path]:
    """Files of this machine that parameters name, and programs with their libraries, where the root
    image lacks them: they are brought along. A program without a path is looked for where a guest
    does, not where this shell does, whose next one may find another."""
    found, programs, present = set(), set(), image.files()
    names = {path.name for path in present.values()}
    for work in experiment.workloads:
        words = [*work.parameters.values(), *work.parameters.get("argv", [])]
        for word in words:
            if isinstance(word, str) and word.startswith("/") and Path(word).is_file():
                found.add(Path(word))
        name = str([*work.parameters.get("argv", []), ""][0])
        if name not in names and (program := shutil.which(name, path=image.SEARCHED)):
            programs.add(Path(program).absolute())
    for scheduler in (str(each.settings.get("ext", "")) for each in experiment.candidates):
        if Path(scheduler).is_file():
            found.add(Path(scheduler))
    programs |= {path for path in found if os.access(path, os.X_OK)}
    libraries = map(Path, image.libraries_of(map(str, programs - present.keys())))
    return sorted({*found, *programs, *libraries} - present.keys())


def check(experiment: Experiment, kernel: kernels.Kernel) -> None:
    """SpecError for what cannot be measured in a guest, as far as it is known before the boot."""
    if experiment.kind not in ("io", "cpu"):
        raise SpecError(
            f"--kernel would change nothing: the work is {experiment.kind}", "omit --kernel"
        )
    if experiment.kind == "cpu" and experiment.explain:
        raise SpecError("--explain traces this machine, not a guest", "omit --explain")
    _check_target(experiment.target)
    for candidate in experiment.candidates:
        if candidate.settings.get("policy") == "ext" and not kernel.has("sched_ext"):
            raise SpecError(
                f"candidate {candidate.label!r}: Linux {kernel.release} has no sched_ext",
                "schedlab kernel get 7.2, then --kernel 7.2",
            )
        scheduler = str(candidate.settings.get("scheduler", AS_IS))
        if scheduler not in (AS_IS, *kernel.schedulers):
            raise SpecError(
                f"candidate {candidate.label!r}: Linux {kernel.release} does not offer {scheduler}",
                nearest(scheduler, kernel.schedulers),
            )


def _check_target(target: Target) -> None:
    """SpecError for a target that a guest does not have, or cannot serve in time."""
    if target.kind in ("device", "directory"):
        raise SpecError(
            f"{target.path}: a machine in virtual time has no disk of this one",
            f"emulate one: --model {USUAL_MODEL}; or measure here, without --kernel",
        )
    limit = BootSettings().memory_bytes // 3
    if target.kind == "scratch" and target.size_bytes > limit:
        raise SpecError(
            f"a temporary device of {size_text(target.size_bytes)} does not fit into the "
            f"{size_text(BootSettings().memory_bytes)} of memory of the machine",
            f"--scratch 256M, or --model {USUAL_MODEL}",
        )
    if target.kind == "emulated":
        from schedlab.run.io.io import emulation_of

        check_speed(
            emulation_of(target),
            "--dilate {dilate}, which slows its time as much; or measure here, without --kernel",
        )


def needed_dilation(emulation: Emulation) -> float:
    """How much slower a device must be for a guest; up to 1 it serves it as it is."""
    from schedlab.host.emulated.emulated_calibration import predict

    alone_ns = predict(emulation, 1)["mean_ns"] * emulation.dilate
    rate_per_s, most_per_s = (
        predict(emulation, depth)["iops"] / emulation.dilate
        for depth in (TAGS, emulation.describe()["tags"])
    )
    return max(SHORTEST_NS / alone_ns, rate_per_s / MOST_PER_S, most_per_s / EMULATED_PER_S)


def check_speed(emulation: Emulation, hint: str) -> None:
    """SpecError with a hint for a device whose server would take more time than the device; in the
    hint, `{dilate}` is the dilation that would serve it.
    """
    if (needed := needed_dilation(emulation)) > 1:
        raise SpecError(
            f"{emulation.model}: its requests are shorter than {SHORTEST_NS / 1e6:.2g} ms or more "
            f"than {MOST_PER_S:,.0f} in a second, and its server shares the only CPU with the "
            "load, which would decide instead of the device",
            hint.format(dilate=math.ceil(needed * emulation.dilate)),
        )


@dataclass(frozen=True)
class GuestProgress(Progress):
    """Progress inside, with the time that is left here."""

    line: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """As the guest prints it."""
        return self.line

    @property
    def repeated(self) -> str:
        """As the guest prints it."""
        return self.why


def heeding(observer: Observer) -> Heed:
    """Messages of a guest as those of a measurement here."""
    began_s = 0.0

    def heed(message: Message) -> None:
        nonlocal began_s
        if message.report is not None:
            observer.report(message.report)
        if fields := message.progress:
            text, why = str(fields.pop("text")), str(fields.pop("repeated"))
            began_s = began_s or time.monotonic()
            now = GuestProgress(**fields, line=text, why=why)
            if now.done:
                left_s = (time.monotonic() - began_s) / now.done * (now.total - now.done)
                text = f"{text} (virtual), {duration_text(left_s)} left here"
            observer.watch(replace(now, line=text))

    return heed


def is_virtual(folder: Path) -> bool:
    """Whether a result folder came out of a guest."""
    return "virtual" in Folder.open(folder).host


def reproduce(path: Path, out: Path, observer: Observer = SILENT) -> tuple[Result, Result]:
    """Boot the machine of a stored folder again: (first result, repetition).

    SpecError where this installation makes another machine of it: its kernel, image or qemu.
    """
    from schedlab.app.measure import virtual_boots
    from schedlab.result import Result

    first = Result.load(path)
    if plan := virtual_boots.stored_plan(path):
        named = {kind.label: kernels.find(kind.kernel) for kind in plan.kinds}
        with _reserved(out):
            return first, virtual_boots.measure_boots(plan, named, out, observer)
    stored = first.record.host["virtual"]
    kernel = kernels.find(str(stored["kernel"]))
    boot = booted(first.record.experiment, kernel, str(stored.get("words", "")))
    for line in _differences(stored, boot.facts):
        observer.report(f"another machine than then: {line}")
    with _reserved(out):
        return first, _run(boot, out, observer)


def _differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, value in now.items():
        if name != "digest" and stored.get(name) != value:
            yield f"{name} is {value}, was {stored.get(name)}"


def identity(first: Result, again: Result) -> tuple[str, bool]:
    """How many runs are identical to the bit, in words, and whether all are."""
    one, two = (each.folder.path / "runs.jsonl" for each in (first, again))
    pairs = [path.read_bytes().splitlines() for path in (one, two)]
    same = sum(a == b for a, b in zip(*pairs, strict=False))
    total = max(map(len, pairs))
    text = f"{same} of {total} runs"
    if same == total:
        return f"identical, {text}", True
    digests = {each.record.host["virtual"]["digest"] for each in (first, again)}
    why = "the machines differ" if len(digests) == 2 else "the machine is the same: a fault"
    return f"identical are {text}; {why}", False
