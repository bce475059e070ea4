"""Fuzz stored results and journals by seeded mutation: `python fuzz/folders.py DIR SECONDS [SEED]`.

DIR is a result folder (a small one). Each input changes one file of a copy. From load to page, the
result is an answer or a SchedlabError, within `LIMIT_S`. A run that is accepted is one of the runs
that were stored: a changed figure must never pass for a measured one. A journal that is damaged
anywhere gives only entries that were written.
"""

import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from importers import TOKENS

from schedlab.errors import SchedlabError
from schedlab.host import journal
from schedlab.result import Result

LIMIT_S = 20


class TooSlowError(Exception):
    """An input took longer than the limit."""


def out_of_time(*_):
    """The handler of the alarm."""
    raise TooSlowError(f"longer than {LIMIT_S} s")


def mutate(rng, data):
    """The bytes with one to three changes: bits, cuts, repeats, and other numbers."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(6)
        if what == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[at:]
        elif what == 2:
            data[at:at] = rng.choice(TOKENS)
        elif what == 3:
            del data[at : at + rng.randrange(64)]
        elif what == 4:
            data[at:at] = data[at : at + rng.randrange(400)] * rng.randint(1, 4)
        else:
            digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
            if digits:
                data[rng.choice(digits)] = ord(rng.choice("0123456789"))
    return bytes(data)


def check_folder(folder, stored):
    """From load to page; every accepted run must be a stored one. Whether it was accepted."""
    try:
        result = Result.load(folder)
        attempts = [(run.key, run.attempt) for run in result.record.runs]
        assert len(set(attempts)) == len(attempts), "a run counts twice"
        for run in result.record.runs:
            assert run in stored, f"a run that was never stored: {run}"
        result.text()
        result.write_html(folder / "page.html")
    except SchedlabError:
        return False
    return True


def check_journal(path, stored):
    """Only entries that were written come back; one may come twice, as the first original wins."""
    for entry in journal.read(path).entries:
        assert entry in stored, f"an entry that was never written: {entry}"


def fuzz(source, seconds, seed):
    """Change files of copies of `source` until the time is over; a sentence about it."""
    rng = random.Random(seed)
    stored = Result.load(source).record.runs
    tried = accepted = 0
    until = time.monotonic() + seconds
    signal.signal(signal.SIGALRM, out_of_time)
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "kept"
        shutil.copytree(source, kept)
        files = [p for p in sorted(kept.rglob("*")) if p.is_file() and p.suffix in ENDINGS]
        journal.prepare(Path(place) / "state")
        session = journal.Journal.create(Path(place) / "state")
        for number in range(40):
            session.append("knob", path=f"/sys/knob-{number}", before=str(number), after="x")
        entries = journal.read(session.path).entries
        text = session.path.read_bytes()
        while time.monotonic() < until:
            file = rng.choice([*files, session.path])
            original = file.read_bytes()
            changed = mutate(rng, text if file == session.path else original)
            tried += 1
            signal.alarm(LIMIT_S)
            try:
                file.write_bytes(changed)
                if file == session.path:
                    check_journal(file, entries)
                else:
                    accepted += check_folder(kept, stored)
            except BaseException:
                crash = Path(f"crash-{file.name}-{seed}-{tried}")
                crash.write_bytes(changed)
                print(f"{file.name}: input {tried} of seed {seed} is kept as {crash}")
                raise
            finally:
                signal.alarm(0)
                file.write_bytes(original)
    return f"folders: {tried} inputs in {seconds:g} s, {accepted} accepted"


ENDINGS = {".toml", ".jsonl", ".json"}

if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(fuzz(Path(sys.argv[1]), float(sys.argv[2]), int((sys.argv[3:] or ["1"])[0])))
