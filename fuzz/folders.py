"""Fuzz stored results and journals by seeded mutation: `python fuzz/folders.py DIR SECONDS [SEED]`.

DIR is a result folder (a small one). Each input changes one file of a copy. From load to page, the
result is an answer or a SchedlabError, within 20 s. What is accepted was stored: a changed figure
must never pass for a measured one, nor a changed experiment for the one that was run. A journal
that is damaged anywhere gives only entries that were written.
"""

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from mutation import checked, mutate

from schedlab.errors import SchedlabError
from schedlab.host.safety import journal
from schedlab.result import Result


def check_folder(folder, stored):
    """From load to page; what is accepted must be what was stored. Whether it was accepted."""
    try:
        result = Result.load(folder)
        attempts = [(run.key, run.attempt) for run in result.record.runs]
        assert len(set(attempts)) == len(attempts), "a run counts twice"
        for run in result.record.runs:
            assert run in stored.runs, f"a run that was never stored: {run}"
        assert result.record.experiment == stored.experiment, "another experiment"
        assert set(result.record.plan.cells) <= set(stored.plan.cells), "another plan"
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
    stored = Result.load(source).record
    tried = accepted = 0
    until = time.monotonic() + seconds
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
            file.write_bytes(changed)
            with checked(f"crash-{file.name}-{seed}-{tried}", changed):
                if file == session.path:
                    check_journal(file, entries)
                else:
                    accepted += check_folder(kept, stored)
            file.write_bytes(original)
    return f"folders: {tried} inputs in {seconds:g} s, {accepted} accepted"


ENDINGS = {".toml", ".jsonl", ".json"}

if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(fuzz(Path(sys.argv[1]), float(sys.argv[2]), int((sys.argv[3:] or ["1"])[0])))
