"""Files that a user brings to an experiment: the programs that its runs start, what they read.

A resumed experiment has the same: another program in the second half is another measurement.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INTERPRETER = re.compile(r"(ba|da|k|z)?sh|(python|perl|ruby|lua|node|php)[\d.]*")


def program_path(program: str, path: str | None = None) -> str | None:
    """The file that a program's name means, from the root on, as it is started elsewhere; None when
    there is none. Tokens are left alone."""
    if "@dir@" in program:
        return program
    found = shutil.which(program, path=path or os.environ.get("PATH", PATH))
    return str(Path(found).absolute()) if found else None


def programs_of_line(line: str) -> Iterator[str]:
    """The programs of a shell line: its first, and all that are named from the root on."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        yield from programs_of(tuple(words))
    except ValueError:  # an open quote: the shell will refuse it
        return


def programs_of(words: Sequence[str], path: str | None = None) -> Iterator[str]:
    """The programs of a command: its first word, the script of an interpreter, and each other word
    that is a program's path from the root on, such as that behind `taskset -c 0`."""
    if not words or not (first := program_path(words[0], path)):
        return
    if "@dir@" not in first:
        yield first
    has_script = not _INTERPRETER.fullmatch(Path(first).name)
    for word in words[1:]:
        if word.startswith("/") and Path(word).is_file():
            if not has_script or _is_program(Path(word)):
                yield word
            has_script = True


def _is_program(path: Path) -> bool:
    if os.access(path, os.X_OK):
        return True
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, or of names and contents of all files below a directory; what this
    user may not read counts by its name."""
    whole = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for each in files:
        whole.update(f"{each.relative_to(path)}\0".encode(errors="surrogateescape"))
        if each.is_symlink() and each != path:
            whole.update(os.fsencode(each.readlink()))
        elif each.is_file() and os.access(each, os.R_OK):
            with each.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()
