"""Draw docs/images/report.png again: an answer that is proven, and the timeline of the same work.

    python tools/readme_image.py

A reader beside two writers on a simulated disk under two of the kernel's schedulers: the same seeds
give the same requests on every machine. Needs Chromium, and Pillow (which comes with CairoSVG).
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WORK = "--device disk7200 --schedulers none;bfq --processes reader-writers --seeds"
OUT = Path(__file__).parents[1] / "docs" / "images" / "report.png"
WIDTH = 1100
# Of each page: what of it is shown, its height in pixels, and what is left to the page itself.
PARTS = (
    ("result/report.html", "", 330, ".kicker { display: none } "),
    (
        "timeline.html",
        "#from=4&to=5.5",
        660,
        "header, .tools, #range, #where, ul:not(.legend) { display: none } ",
    ),
)


def main() -> None:
    """Simulate, take a picture of each page, and join them."""
    from PIL import Image

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("error: no Chromium\nhint: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for words in (
            f"sim compare {WORK} 20 --out result",
            f"sim run {WORK} 1 --gantt timeline.html",
        ):
            command = [sys.executable, "-m", "schedlab", *words.split()]
            subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        whole = Image.new("RGB", (WIDTH, sum(part[2] for part in PARTS)), "white")
        top = 0
        for page, place, height, hidden in PARTS:
            text = (directory / page).read_text("utf-8")
            (directory / page).write_text(text.replace("</style>", f"{hidden}</style>"), "utf-8")
            shot = directory / f"{top}.png"
            url = f"{(directory / page).as_uri()}{place}"
            look = [f"--window-size={WIDTH},{height}", "--hide-scrollbars", "--disable-gpu"]
            look += ["--headless", "--no-sandbox", "--virtual-time-budget=20000"]
            command = [browser, *look, f"--screenshot={shot}", url]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            with Image.open(shot) as picture:
                whole.paste(picture.convert("RGB"), (0, top))
            top += height
        whole.quantize(256, dither=Image.Dither.NONE).save(OUT, optimize=True)


if __name__ == "__main__":
    main()
