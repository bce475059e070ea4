"""Tests with many cases of one kind, and long ones of what others try as well, take turns: a run
has some of them, the next run others.
"""

import zlib
from collections import Counter


def taken(items, turn):
    """(the tests whose turn it is, the others): of one marked `sampled(n)` each n-th case, from one
    on that depends on its name.
    """
    seen, those, others = Counter(), [], []
    for item in items:
        mark = item.get_closest_marker("sampled")
        at = seen[item.path, item.originalname] + zlib.crc32(item.originalname.encode())
        seen[item.path, item.originalname] += 1
        (others if mark and (at - turn) % mark.args[0] else those).append(item)
    return those, others
