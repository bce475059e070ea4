"""What commands say while they work, on stderr: on a terminal one line, elsewhere ten."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from contextlib import contextmanager

import pytest

from schedlab.app.tune.tune import State
from schedlab.cli import show, tune
from schedlab.nouns import GateFinding, Run
from schedlab.run.executor import Progress

CLEAR = "\r\x1b[K"


@contextmanager
def terminal(monkeypatch, name="stderr", columns=80):
    """`sys.<name>` as a real terminal; what was written to it is appended to the list."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    written = []
    with os.fdopen(theirs, "w", newline="") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, name, stream)
        yield written
        stream.flush()
        os.set_blocking(ours, False)
        try:
            while part := os.read(ours, 1 << 16):
                written.append(part.decode().replace("\r\n", "\n"))
        except BlockingIOError:
            pass
    os.close(ours)
    written[:] = ["".join(written)]


def run(status="ok", gates=()):
    return Run(0, 0, "w", "bfq", 1, 1, status, "", 0.1, {}, gates)


DISCARDED = run(
    "discarded",
    (
        GateFinding("frequency", "it fell by 20 %", True),
        GateFinding("other", "only a remark", False),
        GateFinding("load", "another program ran", True),
    ),
)


def reported(steps):
    with show.live_line() as line:
        watch = show.progress(line)
        for done, last in steps:
            watch(Progress(done, 20, 1 + done // 10, 2, 2.0 * (20 - done), last))


def test_a_measurement_rewrites_its_line_on_a_terminal(monkeypatch):
    with terminal(monkeypatch) as written:
        reported([(0, None), (1, DISCARDED), (1, run())])
    assert written == [
        f"{CLEAR}block 1/2, run 0/20"
        f"{CLEAR}repeated: bfq on w: frequency: it fell by 20 %; load: another program ran\n"
        f"{CLEAR}block 1/2, run 1/20, 38 s left"
        f"{CLEAR}block 1/2, run 1/20, 38 s left{CLEAR}"
    ]


def test_a_message_takes_the_place_of_the_line_and_is_not_cut(monkeypatch):
    with terminal(monkeypatch, columns=40) as written, show.measuring() as observer:
        observer.watch(Progress(5, 60, 1, 12, 45.0, run()))
        observer.report("planned: 6 blocks" + "!" * 40)
        observer.watch(Progress(60, 60, 12, 12, 0.0, run()))
        observer.report("measured: all 12 blocks are done")
    assert written == [
        f"{CLEAR}block 1/12, run 5/60, 45 s left{CLEAR}planned: 6 blocks{'!' * 40}\n"
        f"{CLEAR}block 12/12, run 60/60, 0 s left{CLEAR}measured: all 12 blocks are done\n{CLEAR}"
    ]


def test_messages_are_as_they_are_where_nobody_watches(capsys):
    with show.measuring() as observer:
        observer.watch(Progress(0, 60, 1, 12, 0.0, None))
        observer.report("measured: all 12 blocks are done")
    assert capsys.readouterr().err == "block 1/12, run 0/60\nmeasured: all 12 blocks are done\n"


@pytest.mark.parametrize(("columns", "text"), [(80, "x" * 79), (40, "x" * 39), (0, "x" * 79)])
def test_a_live_line_has_one_row(monkeypatch, columns, text):
    monkeypatch.setenv("COLUMNS", "200")  # of stdout, perhaps
    with terminal(monkeypatch, columns=columns) as written:
        show.LiveLine().show("x" * 100, is_due=True)
    assert written == [CLEAR + text]


def test_a_live_line_counts_wide_characters_twice(monkeypatch):
    with terminal(monkeypatch, columns=10) as written:
        show.LiveLine().show("한국어 일정 계획", is_due=False)
    assert written == [f"{CLEAR}한국어 일"]


def searched():
    for block in range(1, 13):
        tune.watch(State(block, block, "none", None, "bfq #1", None, 60.0))


def test_a_search_rewrites_its_line_on_a_terminal(monkeypatch):
    with terminal(monkeypatch) as written:
        searched()
    lines = [f"block {block}: best none, trying bfq #1, 60 s left" for block in range(1, 13)]
    assert written == ["".join(CLEAR + line for line in lines)]


def test_a_pipe_has_80_columns_and_no_colour(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "133")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert show.terminal() == (80, False)


@pytest.mark.parametrize(
    ("term", "no_colour", "colour"),
    [("xterm", "", True), ("dumb", "", False), ("xterm", "1", False), ("dumb", "1", False),
     ("a", "", True), ("zed", "", True)],
)  # fmt: skip
def test_a_terminal_has_its_width_and_colour_unless_refused(monkeypatch, term, no_colour, colour):
    monkeypatch.setenv("COLUMNS", "133")
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_colour)
    with terminal(monkeypatch, "stdout"):
        found = show.terminal()
    assert found == (133, colour)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_measurement_that_is_told_to_end_is_interrupted(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), show.signals_interrupt():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_notes_and_warnings_go_to_stderr(capsys):
    show.print_lines(["note: a", "figure", "warning: b", "a note: c"])
    captured = capsys.readouterr()
    assert captured.out == "figure\na note: c\n"
    assert captured.err == "note: a\nwarning: b\n"


def test_ten_silent_seconds_end_with_a_line_where_nobody_watches(capsys):
    clock = iter([0.0, 0.0, 0.0, *(9.9, 10.0, 10.0, 19.9, 20.0, 20.0)])
    with show.live_line() as line:
        watch = show.progress(line, lambda: next(clock))
        watch(Progress(0, 1000, 1, 2, 0.0, None))
        for number in range(1, 5):
            watch(Progress(number, 1000, 1, 2, 5.0, run()))
    shown = [text.split()[3] for text in capsys.readouterr().err.splitlines()]
    assert shown == ["0/1000", "2/1000,", "4/1000,"]


def resumed(first, steps, total):
    with show.live_line() as line:
        watch = show.progress(line)
        watch(Progress(first, total, 1, 2, 0.0, None))
        for done in steps:
            watch(Progress(done, total, 1, 2, 5.0, run()))


REPORTS = {
    "a measurement: its plan, then every tenth": lambda: reported(
        [(0, None), *((done, run()) for done in range(1, 21))]
    ),
    "a resumed measurement: where it begins": lambda: resumed(7, (8, 9, 10), 20),
    "nothing to run": lambda: resumed(0, (), 0),
    "what disturbed a repeated run": lambda: reported([(1, DISCARDED), (1, run())]),
    "a search: every tenth block": searched,
}


def test_progress_where_nobody_watches(capsys, golden):
    parts = []
    for title, report in REPORTS.items():
        report()
        captured = capsys.readouterr()
        assert captured.out == ""
        parts.append(f"# {title}\n{captured.err}")
    golden("progress.txt", "\n".join(parts))
