"""What the fuzzers of this folder share: damage to an input, a limit of time, the input kept."""

import contextlib
import re
import signal
from pathlib import Path

LIMIT_S = 20
TOKENS = [
    b"-1", b"0", b"1e999", b"NaN", b"Infinity", b"null", b"{}", b"[", b'"', b",", b"\n", b"\0",
    b"9" * 400, b"\xff", b"\t", b"_", "٣".encode(), "²".encode(), b"\xef\xbb\xbf", b"true",
]  # fmt: skip
_NUMBER = re.compile(rb"[0-9.]+")


class TooSlowError(Exception):
    """An input took longer than the limit."""


def _out_of_time(*_):
    raise TooSlowError(f"longer than {LIMIT_S} s")


@contextlib.contextmanager
def checked(name, data):
    """Keep `data` as the file `name` when the block raises, or takes longer than `LIMIT_S`."""
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(LIMIT_S)
    try:
        yield
    except BaseException:
        Path(name).write_bytes(data)
        print(f"the input is kept as {name}")
        raise
    finally:
        signal.alarm(0)


def mutate(rng, data):
    """The bytes with one to five changes: bits, cuts, repeats, tokens, other numbers."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(9)
        if what == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif what == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            del data[at:]
        elif what == 3:
            data[at:at] = rng.choice(TOKENS)
        elif what == 4:
            del data[at : at + rng.randrange(64)]
        elif what == 5:
            data[at:at] = data[at : at + rng.randrange(400)] * rng.randint(1, 30)
        elif what == 6:
            data[at:at] = rng.randbytes(rng.randrange(32))
        elif what == 7 and (numbers := [*_NUMBER.finditer(data)]):
            number = rng.choice(numbers)
            data[number.start() : number.end()] = rng.choice(TOKENS)
        else:
            digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
            if digits:
                data[rng.choice(digits)] = ord(rng.choice("0123456789"))
    return bytes(data[: 1 << 16])
