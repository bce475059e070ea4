"""The seal of what this user wrote on this machine: one that nobody else can make.

A folder that is resumed says which programs run and what is set. What says so gets a seal when it
is written, after the user allowed it; without the seal it came from elsewhere, and is resumed only
with `--trust`. The secret is in the lasting directory (journal.py), for its owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.host.safety import journal

SECRET_BYTES = 32
SEAL = "seal"


def seal_of(text: str) -> str:
    """The seal of a text; empty where this user has no place for a secret."""
    secret = _secret() or _new_secret()
    return _seal(secret, text) if secret else ""


def is_ours(text: str, seal: str) -> bool:
    """Whether the seal is ours, and of this text."""
    secret = _secret()
    return bool(secret) and hmac.compare_digest(_seal(secret, text), seal)


def sealed(record: Mapping[str, Any]) -> dict[str, object]:
    """The JSON object with its seal."""
    return {**record, SEAL: seal_of(json.dumps(record))}


def unsealed(record: Mapping[str, Any]) -> tuple[dict[str, object], bool]:
    """(the JSON object without its seal, whether that is ours)."""
    plain = {key: value for key, value in record.items() if key != SEAL}
    return plain, is_ours(json.dumps(plain), str(record.get(SEAL, "")))


def check(path: Path, ours: bool, trust: bool) -> None:
    """SpecError for a folder that came from elsewhere, unless the user trusts it."""
    if not (ours or trust):
        raise SpecError(
            f"{path}: comes from elsewhere: another machine, another user, or it was changed. It "
            "says which programs run and what is set",
            "read it, then add --trust",
        )


def _seal(secret: bytes, text: str) -> str:
    return hmac.new(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _file() -> Path:
    return journal.lasting_directory() / "secret"


def _secret() -> bytes:
    """The secret; empty where there is none, or another user could have read or written it."""
    try:
        handle = os.open(_file(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(handle)
        private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
        is_own = private and (status.st_uid, status.st_size) == (os.geteuid(), SECRET_BYTES)
        return os.read(handle, SECRET_BYTES) if is_own else b""
    finally:
        os.close(handle)


def _new_secret() -> bytes:
    """Make it, in place of one that is of no use; that of another process which was first."""
    file = _file()
    temporary = file.with_name(f".secret.{secrets.token_hex(6)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.lexists(file) and not _secret():
            file.unlink()
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as made:
            made.write(secrets.token_bytes(SECRET_BYTES))
            made.flush()
            os.fsync(handle)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, file)
        temporary.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return _secret()
