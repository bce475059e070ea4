"""How quick the timeline is in a browser, and whether it says what the file says.

    python benches/report/timeline.py DIRECTORY [REQUESTS...]

makes pages of two recorded runs with so many requests together (20,000 and 200,000), opens them in
headless Chromium, and prints a table: size, time to the first paint, 60 frames of panning (over the
whole, and near the bars), how many of 200 bars under the pointer are the request of the file, what
is wider than the window, what axe-core finds, and what is asked of a host. DIRECTORY keeps what npm
installs, the pages, and a picture of each width. Needs Node.js, npm and Chromium.
"""

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests"
sys.path[:0] = [str(TESTS / "support")]

from recordings import WRITE, Recorded, recording  # noqa: E402

from schedlab.app.trace.timeline import write_timeline  # noqa: E402

NAMES, PROCESSES, PLACES = ("none", "bfq"), 12, 200


def requests_of(name, count):
    """Requests of twelve processes that overlap, in the order of their arrival."""
    draw, at_us, sent = random.Random(name), 0, []
    for number in range(count):
        at_us += draw.randint(1, 200)
        *steps, end = sorted(at_us + int(draw.expovariate(1 / 900)) for _ in range(4))
        who = draw.randrange(PROCESSES)
        sent.append(Recorded(
            at_us, end + 1, 4096 * draw.randint(0, 10**8), 4096 * draw.randint(1, 64),
            WRITE * (number % 5 > 0), thread=1 + who, command=f"task-{who}", steps_us=tuple(steps),
        ))  # fmt: skip
    return sent


def right(sent, places, seen):
    """How many of the bars are the request of the file: process, place and arrival."""
    count = 0
    for (lane, bar), words in zip(places, seen, strict=True):
        one, start_us = sent[lane][bar], sent[lane][0].start_us
        wanted = [
            f"{NAMES[lane]}: {one.command}",
            f"byte {one.offset:,}",
            f"{(one.start_us - start_us) / 1e6:.6f} s",
        ]
        count += [words[0], *words[2:4]] == wanted if words else 0
    return count


def measured(directory, count):
    """What the browser says of a page with so many requests."""
    sent = [requests_of(name, count // len(NAMES)) for name in NAMES]
    files = [
        str(recording(directory / f"{name}.trace", of, name))
        for name, of in zip(NAMES, sent, strict=True)
    ]
    page = directory / f"timeline-{count}.html"
    started_s = time.monotonic()
    write_timeline(files, page, "en")
    made_s = time.monotonic() - started_s
    draw = random.Random(7)
    places = [(draw.randrange(2), draw.randrange(len(sent[0]))) for _ in range(PLACES)]
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    command = ["node", "timeline.mjs", browser, str(directory), str(page), json.dumps(places)]
    done = subprocess.run(command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    return {
        "requests": f"{count:,}",
        "page": f"{page.stat().st_size / 1e6:.2f} MB",
        "written in": f"{made_s:.1f} s",
        "first paint": f"{found['paint_ms']:.0f} ms",
        "drawn": f"{found['drawn_ms']:.0f} ms",
        **{
            f"60 frames of panning, {name}: longest; CPU of one": (
                f"{found[name]['longest_ms']:.0f} ms; {found[name]['cpu_ms']:.1f} ms"
            )
            for name in ("whole", "near")
        },
        "bars right": f"{right(sent, places, found['seen'])} of {PLACES}",
        "wider than the window": ", ".join(f"{w} px: {over}" for w, over in found["overflow"]),
        "axe-core": str(found["serious"] or "nothing serious"),
        "asked of a host": str(found["asked"]),
    }


def main():
    directory = Path(sys.argv[1]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for file in (
        HERE / "timeline.mjs",
        TESTS / "e2e/a11y/point.mjs",
        *(TESTS / "e2e/a11y").glob("package*.json"),
    ):
        shutil.copy(file, directory)
    if not (directory / "node_modules").is_dir():
        npm = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(npm, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    columns = [measured(directory, int(n)) for n in sys.argv[2:] or (20_000, 200_000)]
    for i, key in enumerate(columns[0]):
        print(f"| {key} | {' | '.join(of[key] for of in columns)} |")
        if i == 0:
            print("|---" * (1 + len(columns)) + "|")


if __name__ == "__main__":
    main()
