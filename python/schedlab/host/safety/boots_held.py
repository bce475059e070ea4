"""Changes by a plan of boots that outlive a reboot, and how to undo them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import HostError, cause_of
from schedlab.host import bootloader as loaders
from schedlab.host.safety import journal
from schedlab.nouns.checked_line import decode


@dataclass(frozen=True)
class Held:
    """The plan's directory, its boot loader (a command of the user's, or that below `root`), files
    of ours, and the `entry` that was chosen last.
    """

    directory: str
    command: str = ""
    root: str = "/"
    files: tuple[str, ...] = ()
    entry: str = ""


def held_file(state: Path | None = None) -> Path:
    """Where that is noted, before it is done."""
    return journal.lasting_directory(state) / "boots.json"


def held(state: Path | None = None) -> Held | None:
    """The note; None where no plan is under way. HostError for a damaged one."""
    file = held_file(state)
    try:
        data = decode(file.read_bytes().removesuffix(b"\n"))
        return Held(**{**data, "files": tuple(data["files"])})
    except (FileNotFoundError, PermissionError):  # none, or another user's
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise HostError(f"{file}: {cause_of(error)}", "run it as root") from error


def give_back(dry_run: bool = False, state: Path | None = None) -> list[str]:
    """Boot the default again, and remove the unit: what was done (or would be), a line each. What
    another program has chosen since stays.
    """
    of = held(state)
    if of is None:
        return []
    try:
        loader = loaders.bootloader(of.command, Path(of.root))
        chosen = loader.chosen()
        is_foreign = chosen not in ("", of.entry)
        if not dry_run:
            loader.reset(keep=is_foreign)
    except HostError as error:
        hint = f"correct it: schedlab boots end; or forget these boots: rm {held_file(state)}"
        raise HostError(str(error), hint) from error
    if not dry_run:
        for name in of.files:
            Path(name).unlink(missing_ok=True)
        held_file(state).unlink()
    what = f"{chosen!r}, which another program chose, stays" if is_foreign else "the default"
    return [f"next boot: {what} (boots of {of.directory})", *of.files]
