"""Many requests at a time from Python: Linux's asynchronous I/O (io_submit(2))."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import platform
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
_SETUP, _DESTROY, _GETEVENTS, _SUBMIT = (
    (206, 207, 208, 209) if platform.machine() == "x86_64" else (0, 1, 4, 2)
)
_EVENT_BYTES = 32


class Requests:
    """Reads of a device past the page cache, of which at most `depth_max` are under way."""

    def __init__(self, device: str, depth_max: int = 256) -> None:
        self._file = os.open(device, os.O_RDWR | os.O_DIRECT)
        self._memory = mmap.mmap(-1, 1 << 20)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._context = ctypes.c_ulong()
        self._numbers = itertools.count()
        self._under_way = 0
        self._call(_SETUP, ctypes.c_uint(depth_max), ctypes.byref(self._context))

    @staticmethod
    def _call(number: int, *arguments: object) -> int:
        result: int = _libc.syscall(ctypes.c_long(number), *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def read(self, places: Iterable[int], length_bytes: int = 4096) -> None:
        """Begin a read at each of these bytes, all by one call: the kernel plugs more than two."""
        blocks = [
            # data, key and flags, opcode and priority, file; buffer, bytes, offset; unused
            ctypes.create_string_buffer(
                struct.pack(
                    "QIIHhIQQqQII", next(self._numbers), 0, 0, 0, 0, self._file, self._address,
                    length_bytes, place, 0, 0, 0,
                ), 64,
            ) for place in places
        ]  # fmt: skip
        pointers = (ctypes.c_void_p * len(blocks))(*map(ctypes.addressof, blocks))
        begun = 0
        while begun < len(blocks):
            rest = ctypes.byref(pointers, begun * ctypes.sizeof(ctypes.c_void_p))
            begun += self._call(_SUBMIT, self._context, ctypes.c_long(len(blocks) - begun), rest)
        self._under_way += begun

    def wait(self) -> list[int]:
        """What each request since the last call brought: bytes, or an error below 0."""
        events = ctypes.create_string_buffer(_EVENT_BYTES * self._under_way)
        count, ended = self._under_way, 0
        while ended < count:
            rest = ctypes.byref(events, ended * _EVENT_BYTES)
            left = ctypes.c_long(count - ended)
            ended += self._call(_GETEVENTS, self._context, left, left, rest, None)
        self._under_way = 0
        rows = sorted(struct.iter_unpack("QQqq", events.raw))
        return [moved for _, _, moved, _ in rows]

    def close(self) -> None:
        self._call(_DESTROY, self._context)
        os.close(self._file)


@contextmanager
def requests_to(device: str, depth_max: int = 256) -> Iterator[Requests]:
    """Requests to the device; none is left under way."""
    requests = Requests(device, depth_max)
    try:
        yield requests
    finally:
        requests.close()
