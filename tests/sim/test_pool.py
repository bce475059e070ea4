"""The threads of simulations hear Ctrl-C, whichever thread the kernel gives the signal to."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from schedlab_sim import pool


def sleeps(thread: int) -> bool:
    return Path(f"/proc/self/task/{thread}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def test_a_signal_that_another_thread_receives_is_heard() -> None:
    """Such a signal ends no wait of the main thread; nor does one that comes just before it."""
    is_over = threading.Event()

    def work(item: int, stop: object) -> bool:
        main = threading.main_thread().ident
        while sys._current_frames()[main].f_code.co_name != "wait" or not sleeps(os.getpid()):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return is_over.wait(90)  # a simulation that the end of the test's patience ends

    timer = threading.Timer(60, is_over.set)
    timer.start()
    original = pool.ThreadPoolExecutor.shutdown

    def shutdown(self, *args, **options):  # what a stopped simulation does
        heard.append(not is_over.is_set())
        is_over.set()
        original(self, *args, **options)

    heard: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever others left
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pool.ThreadPoolExecutor, "shutdown", shutdown)
            with pytest.raises(KeyboardInterrupt):
                pool.map_threads(work, [1])
    finally:
        signal.signal(signal.SIGINT, before)
    timer.cancel()
    assert heard[0], "it was heard only when the work was over"
